"""Outlets: announcements to one neighbour or to the group, of the filters that are wanted on the other links.

Rules
-----
* An outlet holds the filters of the links that it announces. It announces those that no other covers, or all of them
  when covering is disabled.
* An announcement is installed when all of its receivers have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ...protocol.effects import Effect, Multicast, Plain, Send
from ...protocol.ids import GROUP, BrokerId, Link
from ...protocol.messages.pubsub import Announce, Withdraw
from ..filters.filter import Filter
from ..matching.covering_dag import CoveringDag
from ..matching.index import MatchIndex
from .announcer import Announcer, AnnouncerSteps, Waiter
from .merging import MergingAnnouncer


class FlatOrder(CoveringDag):
    """A set of filters that ignores covering: no filter covers another."""

    def __init__(self) -> None:
        self._items: dict[Filter, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: Filter) -> bool:
        return item in self._items

    def roots(self) -> Iterator[Filter]:
        """Iterate over all filters."""
        return iter(self._items)

    def is_root(self, item: Filter) -> bool:
        """Return whether the filter is in the set."""
        return item in self._items

    def root_above(self, item: Filter) -> Filter:
        """Return the filter itself."""
        return item

    def insert(self, item: Filter, slot: int) -> list[Filter]:
        """Add a filter; it covers none."""
        self._items[item] = None
        return []

    def remove(self, item: Filter) -> list[Filter]:
        """Remove a filter; it covered none."""
        del self._items[item]
        return []

    def snapshot(self) -> Plain:
        """Return the filters, for `restore`."""
        return list(self._items)

    def restore(self, plain: Plain, slot_of: Callable[[Filter], int]) -> None:
        """Restore the set from a snapshot."""
        self._items.update(dict.fromkeys(plain))

    def check(self) -> None:
        """Check nothing: a set has no invariants."""


class Outlet:
    """One direction in which a broker announces what it wants.

    Parameters
    ----------
    to
        The brokers that are told and must answer; at least one. Also an attribute.
    link
        GROUP when they are told by one multicast; otherwise each gets a separate message.
    covering
        Whether a filter that another one covers is left out.
    merging
        Whether filters are announced as one merged filter where that filter is exactly their union.
    """

    def __init__(self, to: Sequence[BrokerId], link: Link, *, covering: bool, merging: bool = False) -> None:
        self.to = tuple(to)
        self._link = link
        self._index = MatchIndex() if covering else None
        self._slots: dict[Filter, int] = {}
        self._dag = CoveringDag(self._index) if self._index is not None else FlatOrder()
        self._announcer = (MergingAnnouncer if merging else Announcer)(self._dag, top=False)
        self._unanswered: dict[int, set[BrokerId]] = {}
        self.tokens: dict[Filter, int] = {}

    def __contains__(self, item: Filter) -> bool:
        return item in self._slots

    def __len__(self) -> int:
        """Return how many filters are announced."""
        return len(self.tokens)

    def announced(self) -> Iterable[Filter]:
        """Return the announced filters."""
        return self._announcer.announced()

    def hold(self, item: Filter) -> AnnouncerSteps:
        """Add a filter that was not held before."""
        slot = self._slots[item] = 0 if self._index is None else self._index.insert(item)
        return self._note(self._announcer.hold(item, slot))

    def release(self, item: Filter) -> AnnouncerSteps:
        """Remove a filter that is no longer wanted on the links that the outlet announces."""
        steps = self._note(self._announcer.release(item))
        slot = self._slots.pop(item)
        if self._index is not None:
            self._index.remove(slot)
        return steps

    def wait(self, waiter: Waiter, item: Filter) -> AnnouncerSteps:
        """Answer `waiter` once a filter that is held is installed behind this outlet."""
        return self._announcer.wait(waiter, item)

    def forget(self, waiter: Waiter, item: Filter) -> None:
        """Remove a waiter."""
        self._announcer.forget(waiter, item)

    def answered(self, source: Link, token: int) -> AnnouncerSteps:
        """Note that one of the receivers has installed the filter; a stale token is ignored."""
        left = self._unanswered.get(token)
        if left is None or source not in left:
            return AnnouncerSteps()
        left.remove(source)
        if left:
            return AnnouncerSteps()
        del self._unanswered[token]
        return self._note(self._announcer.installed(token))

    def effects(self, messages: Iterable[Announce | Withdraw]) -> list[Effect]:
        """Return the effects that send the messages to all receivers of this outlet, in order."""
        if self._link == GROUP:
            return [Multicast(message) for message in messages]
        return [Send(to, message) for message in messages for to in self.to]

    def _note(self, steps: AnnouncerSteps) -> AnnouncerSteps:
        for message in steps.up:
            item = message.filter
            if isinstance(message, Announce):
                self.tokens[item] = message.token
                self._unanswered[message.token] = set(self.to)
            else:
                self._unanswered.pop(self.tokens.pop(item), None)
        return steps

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state, for `restore`."""
        return {
            "index": None if self._index is None else self._index.snapshot(),
            "slots": list(self._slots.items()),
            "dag": self._dag.snapshot(),
            "announcer": self._announcer.snapshot(),
            "unanswered": [(token, sorted(left)) for token, left in self._unanswered.items()],
            "tokens": list(self.tokens.items()),
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the outlet from a snapshot; only while it holds nothing."""
        if self._index is not None:
            self._index.restore(plain["index"])
        self._slots.update(plain["slots"])
        self._dag.restore(plain["dag"], self._slots.__getitem__)
        self._announcer.restore(plain["announcer"])
        self._unanswered.update((token, set(left)) for token, left in plain["unanswered"])
        self.tokens.update(plain["tokens"])

    def check(self, held: Iterable[Filter]) -> None:
        """Assert that exactly these filters are held and that all structures agree; for tests."""
        self._dag.check()
        self._announcer.check()
        assert set(held) == set(self._slots)
        assert len(self._dag) == len(self._slots)
        assert set(self._announcer.announced()) == set(self.tokens)
        assert self._unanswered.keys() <= set(self.tokens.values())
        assert all(self._unanswered.values())
