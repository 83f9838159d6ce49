"""The routing table: the filters that are wanted over each link, and the links over which a batch must go.

Rules
-----
* There is one entry per distinct filter. It has links, and each link has holders, which want the filter behind that
  link (a member of the group, a client's subscription). The entry is removed with its last holder.
* A link gets an event at most once, however many of its filters match (promise 4).
* Small tables with small batches are scanned; everything else uses the match index. The matches of a single event are
  processed one by one when they are few, otherwise with arrays. All paths give the same result.

Source: paper 1, section 3 (the routing table and ``match``).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch, Rows
from ...protocol.effects import Plain
from ...protocol.ids import ClientId, Link
from ..filters.filter import Filter
from .index import MatchIndex
from .matches import Matches

SCAN_MAX: Final = 48
"""The product of events and filters up to which a scan is faster than the index."""

FEW_MAX: Final = 32
"""The number of matches of one event up to which a loop over them is faster than arrays."""

FEW_HOLDERS: Final = 4
"""The number of holders up to which they are a tuple, which takes a fifth of the memory of a dict."""

_GROUP_BITS: Final = 64
_NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
_START: Final[Rows] = np.zeros(1, np.intp)
_ONE_START: Final[Rows] = np.arange(2)
_ONE_ROW: Final[Rows] = np.zeros(1, np.intp)


class Routes(NamedTuple):
    """The links and clients that a batch must go to.

    Attributes
    ----------
    links
        ``(broker link, rows)`` in the order in which the links were first seen; rows None stands for all rows.
    clients, starts, rows
        Client ``clients[i]`` gets ``rows[starts[i]:starts[i + 1]]``.
    """

    links: list[tuple[int, Rows | None]]
    clients: tuple[ClientId, ...]
    starts: Rows
    rows: Rows


_NOWHERE: Final = Routes([], (), _START, _NO_ROWS)


Holders: TypeAlias = tuple[Hashable, ...] | dict[Hashable, None]
"""In the order in which they came; a dict if they are many."""


@dataclass(slots=True, eq=False)
class Entry:
    """A filter, its slot in the index, and the holders on each link."""

    filter: Filter
    slot: int
    links: dict[Link, Holders] = field(default_factory=dict)


class RoutingTable:
    """Filters by link, behind one match index."""

    def __init__(self) -> None:
        self.index = MatchIndex()
        self._entries: dict[Filter, Entry] = {}
        self._by_slot: dict[int, Entry] = {}
        self._brokers: dict[int, int] = {}  # broker link -> its bit, which is permanent
        self._clients: dict[ClientId, int] = {}  # client -> how many entries name it
        self._plan: _Plan | None = None

    def __len__(self) -> int:
        """Return the number of distinct filters."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, item: Filter) -> bool:
        return item in self._entries

    def slot(self, item: Filter) -> int:
        """Return the slot of a filter that is in the table."""
        return self._entries[item].slot

    def links(self, item: Filter) -> tuple[Link, ...]:
        """Return the links over which a filter is wanted; none when it is not in the table."""
        entry = self._entries.get(item)
        return () if entry is None else tuple(entry.links)

    def holders(self, item: Filter) -> Iterator[tuple[Link, object]]:
        """Iterate over the (link, holder) pairs of a filter."""
        entry = self._entries.get(item)
        return (
            (link, holder)
            for link, holders in (() if entry is None else entry.links.items())
            for holder in holders
        )

    def add(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Add the interest of `holder` behind `link` in `item`; return whether the filter is new to the table."""
        entry = self._entries.get(item)
        new = entry is None
        if entry is None:
            entry = Entry(item, self.index.insert(item))
            self._entries[item] = self._by_slot[entry.slot] = entry
        if link not in entry.links:
            self._plan = None
            if isinstance(link, str):
                self._clients[link] = self._clients.get(link, 0) + 1
            else:
                self._brokers.setdefault(link, len(self._brokers))
        entry.links[link] = _with(entry.links.get(link, ()), holder)
        return new

    def remove(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Remove the interest of `holder` in `item`; return whether nobody wants the filter any more.

        A filter without holders stays in the table until `drop`, so that the covering DAG, which shares the
        index, can be updated first.
        """
        entry = self._entries.get(item)
        holders = None if entry is None else entry.links.get(link)
        if entry is None or holders is None or holder not in holders:
            return False
        left = _without(holders, holder)
        if left:
            entry.links[link] = left
        else:
            del entry.links[link]
            self._plan = None
            if isinstance(link, str):
                self._forget_client(link)
        return not entry.links

    def drop(self, item: Filter) -> None:
        """Remove a filter without holders from the table and the index."""
        entry = self._entries.pop(item)
        assert not entry.links
        del self._by_slot[entry.slot]
        self.index.remove(entry.slot)
        self._plan = None

    def _forget_client(self, client: ClientId) -> None:
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]

    def held_by(self, link: Link, holder: Hashable) -> list[Filter]:
        """Return the filters that `holder` behind `link` wants."""
        return [entry.filter for entry in self._entries.values() if holder in entry.links.get(link, ())]

    def route(self, batch: EventBatch) -> Routes:
        """Return the links over which the batch must go, with the events for each."""
        if not self._entries:
            return _NOWHERE
        size = len(batch.sequence)
        if size * len(self._entries) <= SCAN_MAX:
            return self._scan(batch)
        matches = None
        if size == 1 and self._clients:
            matches = self.index.match(batch)
            if len(matches.slots) <= FEW_MAX:
                return self._look_up(matches.slots)
        if self._plan is None:
            self._plan = _Plan(self.index.slots_end, self._by_slot, self._brokers, self._clients)
        return self._plan.route(self.index, batch, matches)

    def _look_up(self, slots: npt.NDArray[np.intp]) -> Routes:
        """Return the routes of a single event that matches the filters of these slots."""
        if not len(slots):
            return _NOWHERE
        brokers: dict[int, None] = {}
        clients: dict[str, None] = {}
        for slot in slots.tolist():
            for link in self._by_slot[slot].links:
                if isinstance(link, str):
                    clients[link] = None
                else:
                    brokers[link] = None
        links: list[tuple[int, Rows | None]] = [(link, None) for link in brokers]
        if not clients:
            return Routes(links, (), _START, _NO_ROWS)
        many = len(clients)
        if many == 1:
            return Routes(links, tuple(clients), _ONE_START, _ONE_ROW)
        return Routes(links, tuple(clients), np.arange(many + 1), np.zeros(many, np.intp))

    def _scan(self, batch: EventBatch) -> Routes:
        links: dict[Link, list[int]] = {}
        entries = self._entries.values()
        for row, event in enumerate(batch.seen()):
            for entry in entries:
                if entry.filter.holds(event):
                    for link in entry.links:
                        rows = links.get(link)
                        if rows is None:
                            links[link] = [row]
                        elif rows[-1] != row:
                            rows.append(row)
        if not links:
            return _NOWHERE
        size = len(batch)
        brokers: list[tuple[int, Rows | None]] = []
        clients: list[ClientId] = []
        starts = [0]
        flat: list[int] = []
        for link, rows in links.items():
            if isinstance(link, str):
                clients.append(link)
                flat.extend(rows)
                starts.append(len(flat))
            else:
                brokers.append((link, None if len(rows) == size else np.array(rows, np.intp)))
        if not clients:
            return Routes(brokers, (), _START, _NO_ROWS)
        return Routes(brokers, tuple(clients), np.array(starts, np.intp), np.array(flat, np.intp))

    def snapshot(self) -> dict[str, Plain]:
        """Return the entries with their slots, and brokers and clients in their order, for `restore`."""
        entries = [
            (entry.filter, entry.slot, [(link, list(holders)) for link, holders in entry.links.items()])
            for entry in self._entries.values()
        ]
        return {
            "index": self.index.snapshot(),
            "entries": entries,
            "brokers": list(self._brokers),
            "clients": list(self._clients.items()),
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the table from a snapshot; only while it is empty."""
        self.index.restore(plain["index"])
        for item, slot, links in plain["entries"]:
            entry = Entry(item, slot, {link: _few(holders) for link, holders in links})
            self._entries[item] = self._by_slot[slot] = entry
        self._brokers.update((link, bit) for bit, link in enumerate(plain["brokers"]))
        self._clients.update(plain["clients"])

    def check(self) -> None:
        """Assert that index, entries and counts agree; for tests."""
        self.index.check()
        assert len(self.index) == len(self._entries) == len(self._by_slot)
        counts: dict[str, int] = {}
        for entry in self._entries.values():
            assert entry.links and all(entry.links.values())
            assert self._by_slot[entry.slot] is entry
            for link in entry.links:
                if isinstance(link, str):
                    counts[link] = counts.get(link, 0) + 1
        assert counts == self._clients


def _few(holders: Collection[Hashable]) -> Holders:
    return tuple(holders) if len(holders) <= FEW_HOLDERS else dict.fromkeys(holders)


def _with(holders: Holders, holder: Hashable) -> Holders:
    if isinstance(holders, dict):
        holders[holder] = None
        return holders
    return holders if holder in holders else _few((*holders, holder))


def _without(holders: Holders, holder: Hashable) -> Holders:
    if isinstance(holders, dict):
        del holders[holder]
        return holders
    return tuple(each for each in holders if each != holder)


class _Plan:
    """The table as arrays over slots, built once for all batches between two changes."""

    def __init__(
        self, size: int, by_slot: dict[int, Entry], brokers: dict[int, int], clients: Iterable[ClientId]
    ) -> None:
        self._brokers = list(brokers)
        self._client_names = tuple(clients)
        ordinal_of = {name: ordinal for ordinal, name in enumerate(self._client_names)}
        words = (len(brokers) + _GROUP_BITS - 1) // _GROUP_BITS
        self._groups = np.zeros((words, size), np.uint64)
        counts = np.zeros(size, np.intp)
        ordinals: list[list[int]] = [[]] * size
        for slot, entry in by_slot.items():
            mine = [ordinal_of[link] for link in entry.links if isinstance(link, str)]
            ordinals[slot] = mine
            counts[slot] = len(mine)
            for link in entry.links:
                if not isinstance(link, str):
                    word, bit = divmod(brokers[link], _GROUP_BITS)
                    self._groups[word, slot] |= np.uint64(1 << bit)
        self._counts = counts
        self._starts = np.cumsum(counts) - counts
        self._flat = np.fromiter(chain.from_iterable(ordinals), np.intp, int(counts.sum()))
        self._one_each = bool((counts == 1).all())

    def route(self, index: MatchIndex, batch: EventBatch, matches: Matches | None) -> Routes:
        if not self._client_names:
            masks = [index.match_groups(batch, groups) for groups in self._groups]
            return Routes(self._broker_rows(masks), (), _START, _NO_ROWS)
        rows, slots = index.match(batch) if matches is None else matches
        masks = [_or_by_row(rows, groups[slots], len(batch)) for groups in self._groups]
        return Routes(self._broker_rows(masks), *self._deliveries(rows, slots, len(batch)))

    def _broker_rows(self, masks: list[npt.NDArray[np.uint64]]) -> list[tuple[int, Rows | None]]:
        out: list[tuple[int, Rows | None]] = []
        for word, mask in enumerate(masks):
            of_all = int(np.bitwise_and.reduce(mask))
            left = int(np.bitwise_or.reduce(mask))
            while left:  # only brokers that want something: there may be thousands that do not
                bit = left & -left
                left ^= bit
                link = self._brokers[word * _GROUP_BITS + bit.bit_length() - 1]
                out.append((link, None if of_all & bit else np.flatnonzero(mask & np.uint64(bit))))
        return out

    def _deliveries(self, rows: Rows, slots: Rows, size: int) -> tuple[tuple[ClientId, ...], Rows, Rows]:
        if not self._one_each:
            counts = self._counts[slots]
            rows = np.repeat(rows, counts)
            first = np.repeat(self._starts[slots] - (np.cumsum(counts) - counts), counts)
            clients = self._flat[first + np.arange(len(rows))]
        else:
            clients = self._flat[slots]
        if not len(rows):
            return (), _START, _NO_ROWS
        # Sort by client, then row, and remove duplicates (a client with two filters that match one event).
        keys = np.sort(clients * size + rows)
        keep = np.empty(len(keys), np.bool_)
        keep[0] = True
        np.not_equal(keys[1:], keys[:-1], out=keep[1:])
        clients, rows = np.divmod(keys[keep], size)
        edges = np.flatnonzero(np.diff(clients)) + 1
        starts = np.concatenate(([0], edges, [len(rows)]))
        names = tuple(self._client_names[ordinal] for ordinal in clients[starts[:-1]].tolist())
        return names, starts, rows


def _or_by_row(rows: Rows, words: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.uint64]:
    """Return, for each of `size` rows, the OR of its words; `rows` is in rising order."""
    out = np.zeros(size, np.uint64)
    if len(rows):
        first = np.concatenate(([0], np.flatnonzero(np.diff(rows)) + 1))
        out[rows[first]] = np.bitwise_or.reduceat(words, first)
    return out
