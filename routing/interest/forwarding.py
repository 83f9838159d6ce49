"""Every subscription goes up to the root, also one that another covers: figure 2 of paper 1 as it is printed.

Rules
-----
* Each filter that a broker holds is announced, under a token of its own, whether or not another covers it.
* A filter that is wanted once more, by another client or by a broker below that already wants it, is announced once
  more (`reannounce`), with the same token: a broker above that has it already passes it on.
* Tables hold a filter once for each link, whoever wants it there. So a withdrawal goes up when nobody below wants
  the filter any more, and not for each subscription.

Source: paper 1, section 3, figure 2, lines 32 to 34.
"""

from __future__ import annotations

from ...protocol.messages.pubsub import Announce
from ..filters.filter import Filter
from .announcer import Announcer, AnnouncerSteps


class ForwardingAnnouncer(Announcer):
    """Announces every held filter to the parent; see :class:`~.announcer.Announcer`."""

    def hold(self, item: Filter, slot: int) -> AnnouncerSteps:
        """Add a filter that was not held before."""
        steps = AnnouncerSteps()
        self._dag.insert(item, slot)
        self._announce(item, steps)
        return steps

    def reannounce(self, item: Filter) -> AnnouncerSteps:
        """Announce a held filter once more, since it is wanted once more."""
        if self._top:
            return AnnouncerSteps()
        return AnnouncerSteps(up=[Announce(item, self._announced[item].token)])

    def release(self, item: Filter) -> AnnouncerSteps:
        """Remove a filter that is no longer held, and the waiters for it."""
        steps = AnnouncerSteps()
        for waiter, entry in self._waiting.pop(item, {}).items():
            del entry.waiting[waiter]
        self._dag.remove(item)
        self._withdraw(item, steps)
        return steps

    def check(self) -> None:
        """Assert that everything held is announced, and that no waiter waits for an installed filter; for tests."""
        assert len(self._announced) == len(self._dag) and all(item in self._dag for item in self._announced)
        self._check_waiting()
