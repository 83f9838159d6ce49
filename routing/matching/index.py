"""Which filters match which event: the hot loop, as bitmaps in numpy.

Rules
-----
* Every clause of every filter has a *column*, a bit position. For each attribute, the value that an event
  has (or that it has none) selects a *row*: the bits of the clauses that reject it. The clauses that match
  an event are those whose bit is zero in the OR of its rows: ten attributes are ten ORs, however many
  filters there are.
* Bits mean "rejects", not "accepts": a clause has bits only in the rows of attributes that it names.
* Rows are exact for missing, booleans and strings. For numbers a row stands for a bucket of values and is
  exact but for the clauses with a bound inside the bucket; those that reject the value are one stretch of a
  sorted list (`number_rows`), and their bits are cleared one by one. The answer is exact.
* The index knows attributes. A clause that constrains computed values, too, is looked at once more for the events
  that it accepts so far, all at once (`_verified`); where no clause does, nothing is.
* A filter's slot is the column of its first clause; more clauses have columns that are no filter's slot,
  and are mapped to it when the matches are known.
* Insertion and removal touch one bit column of the rows of the attributes that the filter names, and its
  toggles. Slots are reused, the lowest first. An index that becomes empty gives everything back.
* Values are looked up for some hundreds of events at once; bits are worked on for as many events as stay in
  the cache. Temporary arrays are a few megabytes, however large the batch.

Why so: measured with 100,000 filters on 10 attributes, 3,100 matches an event, in microseconds an event
---------------------------------------------------------------------------------------------------------
* OR of ten rows of 12.5 KB: 5 to 10, the speed of memory. Rows gathered for a block of events
  (``table[rows]``) are as fast as a loop over single events where rows are wide, and ten times as fast
  where they are narrow (3,000 filters: 20 ns an event and attribute), so there is one code path.
* Twice as many buckets (another 34 MB) gain a thirtieth, half as many cost a tenth.
* From bits to slots: 15 by lowest bits (`bits`), where ``nonzero`` of unpacked bits takes 50 to 100, and
  look-up tables 18 to 26.
* Clearing 2,000 toggles: 6 when those that are still set are picked first, 12 with ``bitwise_and.at`` on all.
* Looking up ten values twice each among 100,000 bounds: 4 for 512 events at once, sorted first; 11 for 20 at once,
  since the bounds have left the cache in between.
* Not tried, only reckoned: a scheme transposed (a bit an event, two gathers a bound). It reads as much memory and
  has no index to keep up, but it gives matches by filter, which would have to be sorted by event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, EventBatch, Mask
from ...protocol.effects import Plain
from ...protocol.values import Kind
from ..filters.domains import Domain
from ..filters.filter import Clause, Filter
from .attribute_rows import AttributeRows, Choice
from .bits import (
    Columns,
    Pairs,
    Words,
    clear_column,
    clear_pairs,
    set_column,
    set_columns,
    set_positions,
    widened,
    words_for,
)

_CHUNK_EVENTS: Final = 512
"""Events whose rows are looked up together."""
_BLOCK_BYTES: Final = 384 * 1024
"""Bytes of the bits of the events that are worked on together."""
_GROUP_WORDS: Final = 64
"""Words of the first stretch that match_groups looks at; each further one is twice as long."""


# Freeing one large block, never touched, makes glibc serve blocks up to that size from its heap and keep up to twice
# as much at the heap's end. Otherwise the temporary arrays of each block of events are returned to the system and
# faulted in again, page by page: a tenth to a half of the time of a match. Elsewhere it does nothing.
del [np.empty(31 << 20, np.uint8)][:]


class Matches(NamedTuple):
    """Which filter matches which event: pairs, by row, then by slot, each once.

    Attributes
    ----------
    rows
        ``intp``: the position of the event in the batch.
    slots
        ``intp``: the filter.
    """

    rows: Columns
    slots: Columns


class MatchIndex:
    """An index over filters that says which of them match each event of a batch."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._filters: dict[int, Filter] = {}
        self._extra: dict[int, tuple[int, ...]] = {}  # slot -> the columns of its further clauses
        self._owners: Columns | None = None  # column -> slot; made when it is needed
        self._computed: dict[int, Clause] = {}  # the columns of clauses that constrain computed values
        self._attributes: dict[str, AttributeRows] = {}
        self._dead: Words = np.full((1, 1), ~np.uint64(0))  # a bit for every column that holds no clause
        self._free: list[int] = []
        self._top = 0  # one past the highest column that was ever in use

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def slots_end(self) -> int:
        """One past the highest slot that any filter has: how long an array by slot must be."""
        return self._top

    @property
    def nbytes(self) -> int:
        """Bytes of the index's arrays; filters and posting lists, being Python objects, are not counted."""
        return self._dead.nbytes + sum(rows.nbytes for rows in self._attributes.values())

    # changes

    def insert(self, filter: Filter) -> int:
        """Add a filter and return its slot: a small number that is its own until it is removed."""
        return self._insert(filter, settled=True)

    def insert_many(self, filters: Iterable[Filter]) -> list[int]:
        """Add filters and return their slots, in order; much faster than one by one when there are many."""
        filters = list(filters)
        columns = sum(max(1, len(filter.clauses)) for filter in filters)
        if columns < 64 + self._top // 8:
            return [self.insert(filter) for filter in filters]
        needed = self._top + columns
        self._reserve(needed + needed // 16)
        slots = [self._insert(filter, settled=False) for filter in filters]
        for rows in self._attributes.values():
            rows.settle()
        return slots

    def remove(self, slot: int) -> None:
        """Take a filter out; its slot may be given to another.

        Raises
        ------
        KeyError
            If no filter has this slot.
        """
        filter = self._filters.pop(slot)
        if not self._filters:
            self._clear()
            return
        columns = (slot, *self._extra.pop(slot, ()))
        for column, clause in zip(columns, filter.clauses, strict=False):
            self._computed.pop(column, None)
            for name, domain in clause.constraints:
                rows = self._attributes[name]
                rows.remove(column, domain)
                if not rows.clauses:
                    del self._attributes[name]
        for column in columns:
            set_column(self._dead, 0, 1, column)
            heapq.heappush(self._free, column)
        if len(columns) > 1:
            self._owners = None

    def _insert(self, filter: Filter, *, settled: bool) -> int:
        return self._put(
            filter, [self._take_column() for _ in filter.clauses] or [self._take_column()], settled
        )

    def _put(self, filter: Filter, columns: Sequence[int], settled: bool) -> int:
        for column, clause in zip(columns, filter.clauses, strict=False):
            for name, domain in clause.constraints:
                rows = self._attributes.get(name)
                if rows is None:
                    rows = self._attributes[name] = AttributeRows(self._dead.shape[1])
                rows.add(column, domain, settled=settled)
            clear_column(self._dead, column)
            if clause.computed:
                self._computed[column] = clause
        slot = columns[0]
        self._filters[slot] = filter
        if len(columns) > 1:
            self._extra[slot] = tuple(columns[1:])
            self._owners = None
        return slot

    def _take_column(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        column = self._top
        if column >= self._dead.shape[1] * 64:
            self._reserve(2 * column)
        self._top += 1
        return column

    def _reserve(self, columns: int) -> None:
        words, old = words_for(columns), self._dead.shape[1]
        if words > old:
            self._dead = widened(self._dead, words)
            self._dead[:, old:] = ~np.uint64(0)
            for rows in self._attributes.values():
                rows.widen(words)

    def snapshot(self) -> Plain:
        """Return the filters with their columns, and how far those reach; `restore` takes it."""
        filters = [(filter, [slot, *self._extra.get(slot, ())]) for slot, filter in self._filters.items()]
        return self._top, filters

    def restore(self, plain: Plain) -> None:
        """Be as the index was whose snapshot that is: each filter under its slot; only for one that is empty."""
        top, filters = plain
        self._reserve(top)
        self._top = top
        for filter, columns in filters:
            self._put(filter, columns, settled=False)
        for rows in self._attributes.values():
            rows.settle()
        used = {column for _, columns in filters for column in columns}
        self._free = [column for column in range(top) if column not in used]  # it rises, so it is a heap

    # matching

    def match(self, batch: EventBatch) -> Matches:
        """Return which filters match which event of a batch."""
        if not self._filters or not len(batch):
            return Matches(np.zeros(0, np.intp), np.zeros(0, np.intp))
        counts: list[Columns] = []
        found: list[Columns] = []
        plan = self._plan(batch)
        for begin, end in _stretches(len(batch), _CHUNK_EVENTS):
            choices = _choose(plan, begin, end)
            for first, last in _stretches(end - begin, self._block_events()):
                block = [_between(choice, first, last) for choice in choices]
                accepted = self._accepted(block, last - first, 0, words_for(self._top))
                count, columns = set_positions(accepted)
                counts.append(count)
                found.append(columns)
        rows, columns = np.repeat(np.arange(len(batch)), np.concatenate(counts)), np.concatenate(found)
        if self._computed:
            holds = self._verified(batch, rows, columns)
            rows, columns = rows[holds], columns[holds]
        return self._owned(rows, columns)

    def match_groups(self, batch: EventBatch, groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the filters that match it.

        Filters are looked at a stretch of slots at a time, and an event is done with as soon as every group
        that there is wants it. So this is faster than :meth:`match` the more filters match.

        Parameters
        ----------
        batch
            The events.
        groups
            ``uint64[slots_end]`` or longer: the groups (links, say) of each slot's filter, a bit each.
        """
        out = np.zeros(len(batch), np.uint64)
        if not self._filters:
            return out
        if self._extra:
            groups = groups[self._owner_table()]
        goal = np.bitwise_or.reduce(groups[: self._top])
        plan = self._plan(batch)
        for begin, end in _stretches(len(batch), _CHUNK_EVENTS):
            choices = _choose(plan, begin, end)
            for first, last in _stretches(end - begin, self._block_events()):
                block = [_between(choice, first, last) for choice in choices]
                self._match_groups(
                    block, groups, goal, out[begin + first : begin + last], batch, begin + first
                )
        return out

    def _match_groups(
        self,
        choices: list[Choice],
        groups: npt.NDArray[np.uint64],
        goal: np.uint64,
        out: npt.NDArray[np.uint64],
        batch: EventBatch,
        begin: int,
    ) -> None:
        words = words_for(self._top)
        left = np.arange(len(out))
        first, step = 0, _GROUP_WORDS
        while True:
            end = min(words, first + step)
            counts, found = set_positions(self._accepted(choices, len(left), first, end))
            if self._computed:
                rows = np.repeat(np.arange(len(left)), counts)
                holds = self._verified(batch, begin + left[rows], found + first * 64)
                counts, found = np.bincount(rows[holds], minlength=len(left)), found[holds]
            some = counts.nonzero()[0]
            if len(some):
                wanted = groups[found + first * 64]
                starts = np.cumsum(counts) - counts
                out[left[some]] |= np.bitwise_or.reduceat(wanted, starts[some])
            going = (out[left] != goal).nonzero()[0]
            if end == words or not len(going):
                return
            if len(going) < len(left):
                choices = [_narrowed(choice, going, len(left)) for choice in choices]
                left = left[going]
            first, step = end, 2 * step

    def _plan(self, batch: EventBatch) -> list[tuple[AttributeRows, list[Column]]]:
        """Return each attribute's rows beside the batch's columns of it; rows that are lacking are made."""
        lacking: dict[str, list[Kind]] = {}
        columns: dict[str, list[Column]] = {}
        for (name, kind), column in batch.columns.items():
            rows = self._attributes.get(name)
            if rows is not None:
                columns.setdefault(name, []).append(column)
                if not rows.has(kind):
                    lacking.setdefault(name, []).append(kind)
        if lacking:
            self._make_rows(lacking)
        return [(rows, columns.get(name, [])) for name, rows in self._attributes.items()]

    def _make_rows(self, lacking: dict[str, list[Kind]]) -> None:
        for name, kinds in lacking.items():
            for kind in kinds:
                self._attributes[name].make(kind)
        for column, clause in self._clauses():
            for name, domain in clause.constraints:
                for kind in lacking.get(name, ()):
                    self._attributes[name].fill(kind, column, domain)
        for name in lacking:
            self._attributes[name].settle()

    def _clauses(self) -> Iterable[tuple[int, Clause]]:
        for slot, filter in self._filters.items():
            yield from zip((slot, *self._extra.get(slot, ())), filter.clauses, strict=False)

    def _block_events(self) -> int:
        return min(_CHUNK_EVENTS, max(8, _BLOCK_BYTES // (8 * words_for(self._top))))

    def _accepted(self, choices: list[Choice], events: int, first: int, end: int) -> Words:
        """Return ``uint64[events, words]``: the columns in the words ``first:end`` that nothing rejects."""
        rejected = np.repeat(self._dead[:, first:end], events, axis=0)
        for choice in choices:
            lines = choice.table[:, first:end][choice.rows]
            if choice.events is None:
                rejected |= lines
            else:
                rejected[choice.events] |= lines
        accepted = np.invert(rejected, out=rejected)
        struck = _struck(choices, events, first * 64, end * 64)
        if struck is not None:
            clear_pairs(accepted, struck)
        return accepted

    def _verified(self, batch: EventBatch, rows: Columns, columns: Columns) -> Mask:
        """Return which pairs of an event and a clause that accepts its attributes match by computed values, too."""
        holds = np.ones(len(rows), np.bool_)
        asked = np.zeros(self._top, np.bool_)
        asked[list(self._computed)] = True
        pairs = asked[columns].nonzero()[0]
        pairs = pairs[np.argsort(columns[pairs], kind="stable")]
        for some in np.split(pairs, np.diff(columns[pairs]).nonzero()[0] + 1) if len(pairs) else ():
            holds[some] = self._computed[int(columns[some[0]])].mask_computed(batch, rows[some])
        return holds

    def _owned(self, rows: Columns, columns: Columns) -> Matches:
        """Return pairs of row and column as pairs of row and slot."""
        if not self._extra:
            return Matches(rows, columns)
        keys = rows * self._top + self._owner_table()[columns]
        keys.sort()
        if len(keys):
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        rows = keys // self._top
        return Matches(rows, keys - rows * self._top)

    def _owner_table(self) -> Columns:
        if self._owners is None or len(self._owners) < self._top:
            owners = np.arange(self._top)
            for slot, extra in self._extra.items():
                owners[list(extra)] = slot
            self._owners = owners
        return self._owners

    def check(self) -> None:
        """Assert that every bitmap, toggle, posting list and cached row is exactly that of the filters.

        Raises
        ------
        AssertionError
            If it is not.
        """
        live: set[int] = set()
        assert self._computed == {column: clause for column, clause in self._clauses() if clause.computed}
        expected: dict[str, dict[int, Domain]] = {}
        for column, clause in self._clauses():
            assert column not in live, "two clauses have one column"
            live.add(column)
            for name, domain in clause.constraints:
                expected.setdefault(name, {})[column] = domain
        assert set_columns(~self._dead[0]) == live, "the columns in use are not those of the clauses"
        assert expected.keys() == self._attributes.keys(), (
            "there are rows of an attribute that no clause names"
        )
        for name, rows in self._attributes.items():
            rows.check(expected[name])
        used = {c for slot in self._filters for c in (slot, *self._extra.get(slot, ()))}
        assert not used & set(self._free) and len(self._free) + len(used) == self._top, "a column is lost"
        if not self._filters:
            assert not (self._attributes or self._extra or self._free or self._top), (
                "an empty index keeps something"
            )


def _choose(plan: Sequence[tuple[AttributeRows, Sequence[Column]]], begin: int, end: int) -> list[Choice]:
    return [choice for rows, columns in plan for choice in rows.choose(columns, begin, end)]


def _struck(choices: Sequence[Choice], events: int, first: int, end: int) -> Pairs | None:
    """Return the (event, column) pairs that reject beyond the rows; of ``first:end`` only, from `first`."""
    columns: list[npt.NDArray[np.int32]] = []
    owners: list[Columns] = []
    lengths: list[Columns] = []
    everyone = np.arange(events)
    for _, _, which, starts, ends, toggles, gaps in choices:
        if starts is not None and ends is not None and toggles is not None:
            columns += [toggles[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
            owners.append(everyone if which is None else which)
            lengths.append(ends - starts)
        if gaps:
            columns.append(np.array([column for _, column in gaps], np.int32))
            positions = np.array([position for position, _ in gaps], np.intp)
            owners.append(positions if which is None else which[positions])
            lengths.append(np.ones(len(gaps), np.intp))
    if not columns:
        return None
    rows = np.repeat(np.concatenate(owners), np.concatenate(lengths))
    pairs = Pairs(rows, np.concatenate(columns))
    if first == 0 and end >= pairs.columns.max(initial=0):
        return pairs
    inside = ((pairs.columns >= first) & (pairs.columns < end)).nonzero()[0]
    return Pairs(pairs.rows[inside], pairs.columns[inside] - np.int32(first))


def _stretches(size: int, step: int) -> Iterable[tuple[int, int]]:
    for begin in range(0, size, step):
        yield begin, min(size, begin + step)


def _between(choice: Choice, first: int, end: int) -> Choice:
    """Return the choice for the events ``first:end``, which get the numbers from 0."""
    table, rows, events, starts, ends, toggles, gaps = choice
    if events is not None:
        low, high = np.searchsorted(events, (first, end)).tolist()
        events = events[low:high] - first
    else:
        low, high = first, end
    if gaps:
        gaps = [(position - low, column) for position, column in gaps if low <= position < high]
    if starts is not None and ends is not None:
        starts, ends = starts[low:high], ends[low:high]
    return Choice(table, rows[low:high], events, starts, ends, toggles, gaps)


def _narrowed(choice: Choice, going: Columns, events: int) -> Choice:
    """Return the choice for some events of the block only, which get the numbers from 0."""
    if choice.events is None:
        kept, which = going, None
    else:
        number = np.full(events, -1)
        number[going] = np.arange(len(going))
        numbers = number[choice.events]
        kept = (numbers >= 0).nonzero()[0]
        which = numbers[kept]
    starts = None if choice.starts is None else choice.starts[kept]
    ends = None if choice.ends is None else choice.ends[kept]
    place = {position: new for new, position in enumerate(kept.tolist())} if choice.gaps else {}
    gaps = [(place[position], column) for position, column in choice.gaps if position in place]
    return Choice(choice.table, choice.rows[kept], which, starts, ends, choice.toggles, gaps)
