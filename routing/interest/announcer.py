"""What a broker has told its parent that it wants: the roots of its covering DAG, and who waits for the answer.

Rules
-----
* Of the filters that a broker holds, only those that no other covers are announced.
* What a withdrawn filter hid is announced *before* the withdrawal; what a new filter covers is withdrawn after the
  new one is announced. So upstream there is no moment in which an event that is wanted is not asked for.
* Whoever brought a filter is answered when a filter that covers it is installed up to the root.
* At the root there is nobody to tell: every filter is installed at once.

Source: paper 1, section 3 (the way of a subscription to the root) and its related work (covering, after Siena).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ...protocol.effects import Plain
from ...protocol.ids import Link
from ...protocol.messages.pubsub import Announce, Withdraw
from ..filters.filter import Filter
from ..matching.covering_dag import CoveringDag

Waiter: TypeAlias = tuple[Link, int]
"""Who is to be told: a neighbour and its token, or a client and its subscription."""


@dataclass(slots=True)
class AnnouncerSteps:
    """What is to be done next: messages to the parent in this order, then answers to those who wait no longer."""

    up: list[Announce | Withdraw] = field(default_factory=list)
    ready: list[Waiter] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Announced:
    """A filter that the parent was told of."""

    token: int
    installed: bool
    waiting: dict[Waiter, Filter] = field(default_factory=dict)


class Announcer:
    """Keeps the parent told of the fewest filters that cover all that are held here.

    Parameters
    ----------
    dag
        The covering DAG of the filters that are held; this machine inserts into it and removes from it.
    top
        Whether there is nobody above (the broker is the root).
    """

    def __init__(self, dag: CoveringDag, *, top: bool) -> None:
        self._dag = dag
        self._top = top
        self._announced: dict[Filter, _Announced] = {}
        self._by_token: dict[int, Filter] = {}
        self._waiting: dict[Filter, dict[Waiter, _Announced]] = {}  # by the filter that is waited for
        self._next_token = 1

    def announced(self) -> Iterable[Filter]:
        """Return what the parent knows of, in the order in which it was told."""
        return self._announced.keys()

    def hold(self, item: Filter, slot: int) -> AnnouncerSteps:
        """Take in a filter that was not held before."""
        steps = AnnouncerSteps()
        covered = self._dag.insert(item, slot)
        if self._dag.is_root(item):
            self._announce(item, steps)
        for former in covered:
            self._withdraw(former, steps)
        return steps

    def release(self, item: Filter) -> AnnouncerSteps:
        """Let go of a filter that nobody holds any more; whoever waited for it does no longer."""
        steps = AnnouncerSteps()
        for waiter, entry in self._waiting.pop(item, {}).items():
            del entry.waiting[waiter]
        for exposed in self._dag.remove(item):
            self._announce(exposed, steps)
        if self._tells_of(item):
            self._withdraw(item, steps)
        return steps

    def wait(self, waiter: Waiter, item: Filter) -> AnnouncerSteps:
        """Answer `waiter` once `item`, which is held, is installed up to the root."""
        steps = AnnouncerSteps()
        self._wait(waiter, item, steps)
        return steps

    def forget(self, waiter: Waiter, item: Filter) -> None:
        """No longer answer this one, which may have waited for `item`."""
        entry = self._waiting.get(item, {}).get(waiter)
        if entry is not None:
            del entry.waiting[waiter]
            self._no_longer(waiter, item)

    def installed(self, token: int) -> AnnouncerSteps:
        """Note that the parent has an announced filter installed up to the root; a stale token does nothing."""
        steps = AnnouncerSteps()
        item = self._by_token.get(token)
        if item is not None:
            entry = self._announced[item]
            entry.installed = True
            steps.ready.extend(entry.waiting)
            for waiter, wanted in entry.waiting.items():
                self._no_longer(waiter, wanted)
            entry.waiting.clear()
        return steps

    def renew(self, *, top: bool, keep: bool = False) -> AnnouncerSteps:
        """Begin anew with another parent, or with none: nothing is installed, and every filter gets a new token.

        Parameters
        ----------
        top
            Whether there is nobody above from now on; then everything is installed at once.
        keep
            Whether filters keep their tokens.
        """
        steps = AnnouncerSteps()
        self._top = top
        self._by_token.clear()
        for item, entry in self._announced.items():
            entry.installed = top
            if not keep:
                entry.token = self._next_token
                self._next_token += 1
            if not top:
                self._by_token[entry.token] = item
                continue
            steps.ready.extend(entry.waiting)
            for waiter, wanted in entry.waiting.items():
                self._no_longer(waiter, wanted)
            entry.waiting.clear()
        return steps

    def tokens(self) -> tuple[tuple[Filter, int], ...]:
        """Return everything that the parent knows of, or should, with the token of each announcement."""
        return tuple((item, entry.token) for item, entry in self._announced.items())

    def all_installed(self) -> bool:
        """Return whether everything that was announced is installed up to the root."""
        return all(entry.installed for entry in self._announced.values())

    def _stands_for(self, root: Filter) -> _Announced:
        """Return what was announced for a root of the DAG."""
        return self._announced[root]

    def _tells_of(self, item: Filter) -> bool:
        """Return whether a filter was a root until now, so that something was announced for it."""
        return item in self._announced

    def _wait(self, waiter: Waiter, item: Filter, steps: AnnouncerSteps) -> None:
        entry = self._stands_for(self._dag.root_above(item))
        if entry.installed:
            steps.ready.append(waiter)
            return
        waiters = self._waiting.setdefault(item, {})
        if waiter not in waiters:  # a client may register the same thing again while it waits
            waiters[waiter] = entry
            entry.waiting[waiter] = item

    def _no_longer(self, waiter: Waiter, item: Filter) -> None:
        waiters = self._waiting[item]
        del waiters[waiter]
        if not waiters:
            del self._waiting[item]

    def _announce(self, item: Filter, steps: AnnouncerSteps) -> None:
        entry = _Announced(self._next_token, installed=self._top)
        self._next_token += 1
        self._announced[item] = entry
        if not self._top:
            self._by_token[entry.token] = item
            steps.up.append(Announce(item, entry.token))

    def _withdraw(self, item: Filter, steps: AnnouncerSteps) -> None:
        entry = self._announced.pop(item)
        if not self._top:
            del self._by_token[entry.token]
            steps.up.append(Withdraw(item))
        for waiter, wanted in entry.waiting.items():
            self._no_longer(waiter, wanted)
            self._wait(waiter, wanted, steps)

    def snapshot(self) -> dict[str, Plain]:
        """Return all that it keeps; `restore` takes it."""
        announced = [
            (item, entry.token, entry.installed, list(entry.waiting.items()))
            for item, entry in self._announced.items()
        ]
        return {"top": self._top, "next_token": self._next_token, "announced": announced}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the announcer was whose snapshot that is; the DAG has been restored."""
        self._top, self._next_token = plain["top"], plain["next_token"]
        for item, token, installed, waiting in plain["announced"]:
            entry = self._announced[item] = _Announced(token, installed, dict(waiting))
            if not self._top:
                self._by_token[token] = item
            for waiter, wanted in waiting:
                self._waiting.setdefault(wanted, {})[waiter] = entry

    def check(self) -> None:
        """Assert that exactly the roots are announced and that nobody waits for what is installed; for tests."""
        assert set(self._announced) == set(self._dag.roots())
        self._check_waiting()

    def _check_waiting(self) -> None:
        for entry in self._announced.values():
            assert not (entry.installed and entry.waiting)
            assert all(wanted in self._dag for wanted in entry.waiting.values())
            assert all(self._waiting[wanted][waiter] is entry for waiter, wanted in entry.waiting.items())
        assert all(self._waiting.values())
        waiting = sum(map(len, self._waiting.values()))
        assert waiting == sum(len(entry.waiting) for entry in self._announced.values())
        assert len(self._by_token) == (0 if self._top else len(self._announced))
