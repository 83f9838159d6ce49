"""Announcements of a broker to its parent: the roots of its covering DAG, and the waiters for the answers.

Rules
-----
* Of the filters that a broker holds, only those that no other filter covers are announced.
* Filters that a withdrawn filter covered are announced *before* the withdrawal; filters that a new filter covers are
  withdrawn after the new one is announced. So upstream, a wanted event is requested at every moment.
* The source of a filter is answered when a filter that covers it is installed up to the root.
* The root announces nothing: every filter is installed immediately.

Source: paper 1, section 3 (the path of a subscription to the root) and its related work (covering, after Siena).
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
"""The receiver of an answer: a neighbour and its token, or a client and its subscription."""


@dataclass(slots=True)
class AnnouncerSteps:
    """The next actions: messages to the parent, in this order, then answers to the waiters that are ready."""

    up: list[Announce | Withdraw] = field(default_factory=list)
    ready: list[Waiter] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Announced:
    """A filter that was announced to the parent."""

    token: int
    installed: bool
    waiting: dict[Waiter, Filter] = field(default_factory=dict)


class Announcer:
    """Keeps the announcements to the parent up to date: the fewest filters that cover all held filters.

    Parameters
    ----------
    dag
        The covering DAG of the held filters; this machine inserts into it and removes from it.
    top
        Whether the broker is the root, with no broker above it.
    """

    def __init__(self, dag: CoveringDag, *, top: bool) -> None:
        self._dag = dag
        self._top = top
        self._announced: dict[Filter, _Announced] = {}
        self._by_token: dict[int, Filter] = {}
        self._waiting: dict[Filter, dict[Waiter, _Announced]] = {}  # by the awaited filter
        self._next_token = 1

    def announced(self) -> Iterable[Filter]:
        """Return the announced filters, in the order of announcement."""
        return self._announced.keys()

    def hold(self, item: Filter, slot: int) -> AnnouncerSteps:
        """Add a filter that was not held before."""
        steps = AnnouncerSteps()
        covered = self._dag.insert(item, slot)
        if self._dag.is_root(item):
            self._announce(item, steps)
        for former in covered:
            self._withdraw(former, steps)
        return steps

    def release(self, item: Filter) -> AnnouncerSteps:
        """Remove a filter that is no longer held, and the waiters for it."""
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
        """Remove a waiter, which may have waited for `item`."""
        entry = self._waiting.get(item, {}).get(waiter)
        if entry is not None:
            del entry.waiting[waiter]
            self._no_longer(waiter, item)

    def installed(self, token: int) -> AnnouncerSteps:
        """Note that an announced filter is installed up to the root; a stale token is ignored."""
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
        """Start over with another parent, or with none: nothing is installed, and every filter gets a new token.

        Parameters
        ----------
        top
            Whether the broker is the root from now on; then everything is installed immediately.
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
        """Return every filter that the parent knows or should know, with the token of its announcement."""
        return tuple((item, entry.token) for item, entry in self._announced.items())

    def all_installed(self) -> bool:
        """Return whether every announced filter is installed up to the root."""
        return all(entry.installed for entry in self._announced.values())

    def _stands_for(self, root: Filter) -> _Announced:
        """Return the announcement for a root of the DAG."""
        return self._announced[root]

    def _tells_of(self, item: Filter) -> bool:
        """Return whether a filter was a root until now, and therefore announced."""
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
        """Return the whole state, for `restore`."""
        announced = [
            (item, entry.token, entry.installed, list(entry.waiting.items()))
            for item, entry in self._announced.items()
        ]
        return {"top": self._top, "next_token": self._next_token, "announced": announced}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the announcer from a snapshot; the DAG must have been restored before."""
        self._top, self._next_token = plain["top"], plain["next_token"]
        for item, token, installed, waiting in plain["announced"]:
            entry = self._announced[item] = _Announced(token, installed, dict(waiting))
            if not self._top:
                self._by_token[token] = item
            for waiter, wanted in waiting:
                self._waiting.setdefault(wanted, {})[waiter] = entry

    def check(self) -> None:
        """Assert that exactly the roots are announced and that no waiter waits for an installed filter; for tests."""
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
