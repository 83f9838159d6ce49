"""The columns of the match index in numpy, used where the compiled kernel is not available.

Rules
-----
* Every clause of every filter has a *column*, a bit position. For each attribute, the value of an event (or its
  absence) selects a *row*: the bits of the clauses that reject it. The clauses that match an event are those
  whose bit is zero in the OR of its rows. Ten attributes take ten ORs, for any number of filters.
* Bits mean "rejects", not "accepts": a clause has bits only in the rows of attributes that it names.
* Rows are exact for missing, booleans and strings. For numbers a row covers a bucket of values, and is exact
  except for the clauses with a bound inside the bucket. Of these, the clauses that reject the value are one range
  of a sorted list (`number_rows`), and their bits are cleared one by one. The result is exact.
* Insertion and removal change one bit column in the rows of the attributes that the clause names, and its toggles.
* Values are looked up for some hundreds of events at once; bits are processed for as many events as fit in the cache.
  Temporary arrays take a few megabytes, for any size of batch.

Design measurements: 100,000 filters on 10 attributes, 3,100 matches per event, in microseconds per event
---------------------------------------------------------------------------------------------------------
* OR of ten rows of 12.5 KB: 5 to 10, which is memory bandwidth. Rows gathered for a block of events (``table[rows]``)
  are as fast as a loop over single events where rows are wide, and ten times as fast where they are narrow (3,000
  filters: 20 ns per event and attribute), so there is one code path.
* Twice as many buckets (another 34 MB) gain a thirtieth; half as many cost a tenth.
* From bits to slots: 15 by lowest bits (`bits`), where ``nonzero`` of unpacked bits takes 50 to 100, and look-up
  tables 18 to 26.
* Clearing 2,000 toggles: 6 when the bits that are still set are selected first, 12 with ``bitwise_and.at`` on all.
* Looking up ten values twice each among 100,000 bounds: 4 for 512 events at once, sorted first; 11 for 20 at once,
  because the bounds have left the cache in between.
* Estimated only: a transposed scheme (one bit per event, two gathers per bound). It reads as much memory and needs no
  index maintenance, but it gives matches by filter, which would have to be sorted by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, EventBatch
from ...protocol.values import Kind
from ..filters.clauses import Clause
from ..filters.domains import Domain
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
from .matches import Matches, owned

_CHUNK_EVENTS: Final = 512
"""The number of events whose rows are looked up together."""
_BLOCK_BYTES: Final = 384 * 1024
"""The size, in bytes, of the bits of the events that are processed together."""
_GROUP_WORDS: Final = 64
"""The words of the first range that match_groups processes; each further range is twice as long."""


# Freeing one large, untouched block makes glibc serve blocks up to that size from its heap and keep up to twice
# as much free at the end of the heap. Otherwise the temporary arrays of each block of events are returned to the
# system and faulted in again, page by page: a tenth to a half of the time of a match. With other allocators it
# has no effect.
del [np.empty(31 << 20, np.uint8)][:]


class NumpyRows:
    """Columns of clauses in numpy arrays; the interface is that of :class:`~.kernels.Rows`."""

    def __init__(self) -> None:
        self._clauses: dict[int, Clause] = {}
        self._attributes: dict[str, AttributeRows] = {}
        self._dead: Words = np.full((1, 1), ~np.uint64(0))  # a set bit for every column without a clause
        self._top = 1  # one past the highest column ever in use; at least one

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes, without clauses and posting lists, which are Python objects."""
        return self._dead.nbytes + sum(rows.nbytes for rows in self._attributes.values())

    # changes

    def reserve(self, columns: int) -> None:
        """Make room for columns up to `columns`."""
        words, old = words_for(columns), self._dead.shape[1]
        if words > old:
            self._dead = widened(self._dead, words)
            self._dead[:, old:] = ~np.uint64(0)
            for rows in self._attributes.values():
                rows.widen(words)

    def add(self, column: int, clause: Clause, *, settled: bool = True) -> None:
        """Add a clause under a column; when not `settled`, :meth:`settle` must follow."""
        if column >= self._dead.shape[1] * 64:
            self.reserve(2 * column)
        self._top = max(self._top, column + 1)
        for name, domain in clause.constraints:
            rows = self._attributes.get(name)
            if rows is None:
                rows = self._attributes[name] = AttributeRows(self._dead.shape[1])
            rows.add(column, domain, settled=settled)
        clear_column(self._dead, column)
        self._clauses[column] = clause

    def settle(self) -> None:
        """Build the rows of all clauses that were added but not settled."""
        for rows in self._attributes.values():
            rows.settle()

    def remove(self, column: int) -> None:
        """Remove the clause of a column."""
        for name, domain in self._clauses.pop(column).constraints:
            rows = self._attributes[name]
            rows.remove(column, domain)
            if not rows.clauses:
                del self._attributes[name]
        set_column(self._dead, 0, 1, column)

    def clause(self, column: int) -> Clause:
        """Return the clause of a column."""
        return self._clauses[column]

    # matching

    def match(self, batch: EventBatch, owners: Columns | None) -> Matches:
        """Return the columns that match each event or, given `owners`, their owners without duplicates."""
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
        rows = np.repeat(np.arange(len(batch)), np.concatenate(counts))
        matches = Matches(rows, np.concatenate(found))
        return matches if owners is None else owned(matches, owners)

    def match_groups(
        self, batch: EventBatch, groups: npt.NDArray[np.uint64], goal: np.uint64
    ) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the matching columns; `goal` is the OR of all groups."""
        out = np.zeros(len(batch), np.uint64)
        plan = self._plan(batch)
        for begin, end in _stretches(len(batch), _CHUNK_EVENTS):
            choices = _choose(plan, begin, end)
            for first, last in _stretches(end - begin, self._block_events()):
                block = [_between(choice, first, last) for choice in choices]
                self._match_groups(block, groups, goal, out[begin + first : begin + last])
        return out

    def _match_groups(
        self,
        choices: list[Choice],
        groups: npt.NDArray[np.uint64],
        goal: np.uint64,
        out: npt.NDArray[np.uint64],
    ) -> None:
        words = words_for(self._top)
        left = np.arange(len(out))
        first, step = 0, _GROUP_WORDS
        while True:
            end = min(words, first + step)
            counts, found = set_positions(self._accepted(choices, len(left), first, end))
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
        """Return each attribute's rows with the batch's columns of it; missing rows are built."""
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
        for column, clause in self._clauses.items():
            for name, domain in clause.constraints:
                for kind in lacking.get(name, ()):
                    self._attributes[name].fill(kind, column, domain)
        for name in lacking:
            self._attributes[name].settle()

    def _block_events(self) -> int:
        return min(_CHUNK_EVENTS, max(8, _BLOCK_BYTES // (8 * words_for(self._top))))

    def _accepted(self, choices: list[Choice], events: int, first: int, end: int) -> Words:
        """Return ``uint64[events, words]``: the columns in the words ``first:end`` that no row rejects."""
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

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that every bitmap, toggle, posting list and cached row is that of these clauses."""
        assert self._clauses == expected, "the clauses are others"
        named: dict[str, dict[int, Domain]] = {}
        for column, clause in expected.items():
            for name, domain in clause.constraints:
                named.setdefault(name, {})[column] = domain
        assert set_columns(~self._dead[0]) == set(expected), "the columns in use are not those of the clauses"
        assert named.keys() == self._attributes.keys(), "there are rows of an attribute that no clause names"
        for name, rows in self._attributes.items():
            rows.check(named[name])


def _choose(plan: Sequence[tuple[AttributeRows, Sequence[Column]]], begin: int, end: int) -> list[Choice]:
    return [choice for rows, columns in plan for choice in rows.choose(columns, begin, end)]


def _struck(choices: Sequence[Choice], events: int, first: int, end: int) -> Pairs | None:
    """Return the (event, column) pairs that reject in addition to the rows, for the columns ``first:end``."""
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
    """Return the choice for the events ``first:end``, renumbered from 0."""
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
    """Return the choice for some events of the block only, renumbered from 0."""
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
