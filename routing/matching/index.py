"""The match index: filters by slot, over columns of clauses that a kernel matches.

Rules
-----
* Every clause of every filter has a *column*. A kernel finds the columns that match an event: the compiled kernel, or
  numpy where that was not built (`kernels`). Both are exact and give the same result.
* A filter's slot is the column of its first clause. The columns of its other clauses are no filter's slot; matches of
  these columns are mapped to the slot. Slots are reused, the lowest first.
* Kernels handle attributes only. A clause that also constrains computed values is tested again, vectorised, for the
  events that its attributes accept (`_verified`). Without such clauses there is no second test.
* The columns are those of the kernel, until an index has shrunk to an eighth. Then the kernel is rebuilt with
  consecutive columns, and the index maps each column to its place. Slots do not change.
* Filters are stored as columns, and reconstructed from them on request. An index that becomes empty frees everything.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch, Mask, Nested, flat_batch
from ...protocol.effects import Plain
from ...protocol.gathering import FORMS
from ...protocol.ways import Part
from ..filters.filter import Clause, Filter
from ..filters.nested import PartTest
from .bits import Columns
from .kernels import KERNEL, make_rows
from .matches import Matches, distinct, owned
from .named import Left, Named, Unfolded

__all__ = ["MatchIndex", "Matches"]

_ABSENT, _HELD, _EMPTY = range(3)
_PACKED_FROM: Final = 256
"""The minimum number of columns for which compaction is worthwhile."""


class MatchIndex:
    """An index over filters that finds those that match each event of a batch.

    Parameters
    ----------
    kernel
        ``"native"`` or ``"numpy"``; by default the one that was selected for this process.
    """

    def __init__(self, kernel: str = KERNEL) -> None:
        self.kernel = kernel
        self._clear()

    def _clear(self) -> None:
        self._rows = make_rows(self.kernel)
        self._count = 0
        self._held = (
            bytearray()
        )  # by column: whether it is a filter's slot; _EMPTY for a filter without clauses
        self._extra: dict[int, tuple[int, ...]] = {}  # slot -> the columns of its further clauses
        self._owners: Columns | None = None  # column -> slot; built on demand
        self._computed: dict[int, Clause] = {}  # the columns of clauses that constrain computed values
        self._free: list[int] = []
        self._places: dict[int, int] | None = None  # column -> kernel column; None while they are the same
        self._places_end = 0
        self._places_free: list[int] = []
        self._named: Named | None = None  # made with the first event that has arrays

    def __len__(self) -> int:
        return self._count

    @property
    def slots_end(self) -> int:
        """One past the highest slot of any filter: the required length of an array indexed by slot."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """The size of the index's arrays in bytes, without Python objects."""
        return self._rows.nbytes

    # changes

    def insert(self, filter: Filter) -> int:
        """Add a filter and return its slot: a small number that belongs to it until it is removed."""
        return self._insert(filter, settled=True)

    def insert_many(self, filters: Iterable[Filter]) -> list[int]:
        """Add filters and return their slots, in order; much faster than one by one when there are many."""
        filters = list(filters)
        columns = sum(max(1, len(filter.clauses)) for filter in filters)
        if columns < 64 + len(self._held) // 8:
            return [self.insert(filter) for filter in filters]
        needed = len(self._held) + columns
        self._rows.reserve(needed + needed // 16)
        slots = [self._insert(filter, settled=False) for filter in filters]
        self._rows.settle()
        return slots

    def remove(self, slot: int) -> None:
        """Remove a filter; its slot may be reused.

        Raises
        ------
        KeyError
            If no filter has this slot.
        """
        columns = self._columns(slot)
        if self._count == 1:
            self._clear()
            return
        self._count -= 1
        self._extra.pop(slot, None)
        if self._held[slot] == _HELD:
            for column in columns:
                place = self._leave(column)
                self._rows.remove(place)
                self._computed.pop(column, None)
                if self._named is not None:
                    self._named.remove(place)
        self._held[slot] = _ABSENT
        for column in columns:
            heapq.heappush(self._free, column)
        if len(columns) > 1 or self._places is not None:
            self._owners = None
        used = len(self._held) - len(self._free)
        if used * 8 < (len(self._held) if self._places is None else self._places_end) >= _PACKED_FROM:
            self._pack()

    def _pack(self) -> None:
        """Rebuild the kernel with the columns in use at consecutive places, in order."""
        rows = make_rows(self.kernel)
        slots = [slot for slot in self._slots() if self._held[slot] == _HELD]
        columns = sorted(column for slot in slots for column in self._columns(slot))
        rows.reserve(len(columns))
        for place, column in enumerate(columns):
            rows.add(place, self._clause(column), settled=False)
        rows.settle()
        self._rows = rows
        self._places = {column: place for place, column in enumerate(columns)}
        self._places_end, self._places_free, self._owners, self._named = len(columns), [], None, None

    def _enter(self, column: int) -> int:
        """Allocate and return the kernel column of a new column."""
        if self._places is None:
            return column
        if self._places_free:
            place = heapq.heappop(self._places_free)
        else:
            place = self._places_end
            self._places_end += 1
        self._places[column] = place
        self._owners = None
        return place

    def _leave(self, column: int) -> int:
        """Free and return the kernel column of a column that is removed."""
        if self._places is None:
            return column
        place = self._places.pop(column)
        heapq.heappush(self._places_free, place)
        return place

    def _clause(self, column: int) -> Clause:
        place = column if self._places is None else self._places[column]
        return self._computed.get(column) or self._rows.clause(place)

    def _columns(self, slot: int) -> tuple[int, ...]:
        if not (0 <= slot < len(self._held) and self._held[slot]):
            raise KeyError(slot)
        return slot, *self._extra.get(slot, ())

    def _insert(self, filter: Filter, *, settled: bool) -> int:
        columns = [self._take_column() for _ in filter.clauses] or [self._take_column()]
        return self._put(filter, columns, settled)

    def _put(self, filter: Filter, columns: Sequence[int], settled: bool) -> int:
        for column, clause in zip(columns, filter.clauses, strict=False):
            place = self._enter(column)
            self._rows.add(place, clause, settled=settled)
            if self._named is not None:
                self._named.add(place, clause)
            if clause.computed:
                self._computed[column] = clause
        slot = columns[0]
        self._held[slot] = _HELD if filter.clauses else _EMPTY
        self._count += 1
        if len(columns) > 1:
            self._extra[slot] = tuple(columns[1:])
            self._owners = None
        return slot

    def _take_column(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._held.append(_ABSENT)
        return len(self._held) - 1

    def _filter(self, slot: int) -> Filter:
        if self._held[slot] == _EMPTY:
            return Filter(())
        return Filter(tuple(map(self._clause, self._columns(slot))))

    def _slots(self) -> list[int]:
        return [slot for slot, state in enumerate(self._held) if state]

    def snapshot(self) -> Plain:
        """Return the filters with their columns, and the number of columns, for `restore`."""
        return len(self._held), [(self._filter(slot), list(self._columns(slot))) for slot in self._slots()]

    def restore(self, plain: Plain) -> None:
        """Restore the index from a snapshot, each filter under its slot; only while the index is empty."""
        top, filters = plain
        self._rows.reserve(top)
        self._held = bytearray(top)
        for filter, columns in filters:
            self._put(filter, columns, settled=False)
        self._rows.settle()
        used = {column for _, columns in filters for column in columns}
        self._free = [column for column in range(top) if column not in used]  # sorted, therefore a heap

    # matching

    def match(self, batch: EventBatch) -> Matches:
        """Return the filters that match each event of a batch."""
        if FORMS in batch.columns and (nested := batch.nested()) is not None:
            return self._match_nested(nested)
        if not self._count or not len(batch.sequence):
            return Matches(np.zeros(0, np.intp), np.zeros(0, np.intp))
        owners = self._owner_table() if self._extra or self._places is not None else None
        if not self._computed:
            return self._rows.match(batch, owners)
        matches = self._match_columns(batch)
        return matches if owners is None else owned(matches, owners)

    def _match_columns(self, batch: EventBatch) -> Matches:
        """Return the kernel columns that match each event of a batch without arrays."""
        rows, places = self._rows.match(batch, None)
        if not self._computed:
            return Matches(rows, places)
        holds = self._verified(batch, rows, places)
        return Matches(rows[holds], places[holds])

    def _match_nested(self, nested: Nested) -> Matches:
        """Return the filters that match each event of a batch with arrays."""
        rows, slots = self.match(nested.flat)
        found = self._match_arrays(nested)
        return distinct(
            np.concatenate([nested.flat_rows[rows], found.rows]),
            np.concatenate([slots, found.slots]),
            self.slots_end,
        )

    def _match_arrays(self, nested: Nested) -> Matches:
        """Return the filters that match each event with arrays, by the rows of the whole batch."""
        if not self._count:
            return Matches(np.zeros(0, np.intp), np.zeros(0, np.intp))
        if self._named is None:
            self._named = Named(self.kernel, self._clauses)
        named, start = self._named, 0
        rows: list[Columns] = []
        places: list[Columns] = []
        while start < len(nested.events):
            unfolded = Unfolded()
            start, left = named.unfold(nested, unfolded, start)
            if unfolded.ways:
                ways, columns = self._match_columns(flat_batch(unfolded.ways))
                counts = named.believed(unfolded, ways, columns)
                rows.append(np.array(unfolded.rows, np.intp)[ways[counts]])
                places.append(columns[counts])
            for cut, columns in zip(unfolded.cuts, named.cut(unfolded), strict=True):
                columns = self._computed_hold(cut.part, columns)
                rows.append(np.full(len(columns), cut.row))
                places.append(columns)
            for each in left:
                passed = self._passed(named, each)
                rows.append(np.full(len(passed), each.row))
                places.append(passed)
        owners = self._owner_table()
        return distinct(np.concatenate(rows), owners[np.concatenate(places)], self.slots_end)

    def _computed_hold(self, part: Part, places: Columns) -> Columns:
        """Return the kernel columns whose computed values hold too, which are the same in all ways of a part."""
        if not self._computed or not len(places):
            return places
        holds = self._verified(flat_batch(part.ways(1)), np.zeros(len(places), np.intp), places)
        return places[holds]

    def _clauses(self) -> Iterator[tuple[int, Clause]]:
        """Iterate over the kernel columns and their clauses."""
        for slot in self._slots():
            for column in self._columns(slot) if self._held[slot] == _HELD else ():
                yield (column if self._places is None else self._places[column]), self._clause(column)

    def _passed(self, named: Named, left: Left) -> Columns:
        """Return the kernel columns of one group of clauses that match an event, tested one by one."""
        asked = named.columns(left)
        of_place = None if self._places is None else {place: column for column, place in self._places.items()}
        columns = asked.tolist() if of_place is None else [of_place[place] for place in asked.tolist()]
        test = PartTest(left.part)
        holds = [test.holds(self._clause(column)) for column in columns]
        return asked[np.array(holds, np.bool_)]

    def match_groups(self, batch: EventBatch, groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the filters that match it.

        Filters are processed in ranges of slots, and an event is finished as soon as every existing group wants
        it. So the more filters match, the faster this is compared with :meth:`match`.

        Parameters
        ----------
        batch
            The events.
        groups
            ``uint64[slots_end]`` or longer: the groups (for example links) of each slot's filter, one bit per group.
        """
        if (nested := batch.nested()) is not None:
            out = np.zeros(len(batch), np.uint64)
            out[nested.flat_rows] = self.match_groups(nested.flat, groups)
            found, slots = self._match_arrays(nested)
            np.bitwise_or.at(out, found, groups[slots])
            return out
        if not self._count or not len(batch):
            return np.zeros(len(batch), np.uint64)
        if self._extra or self._places is not None:
            groups = groups[self._owner_table()]
        else:
            groups = groups[: len(self._held)]
        if not self._computed:
            return self._rows.match_groups(batch, groups, np.bitwise_or.reduce(groups))
        plain, asked = groups.copy(), list(self._asked())
        plain[asked] = 0
        out = self._rows.match_groups(batch, plain, np.bitwise_or.reduce(plain))
        left = ((out | np.bitwise_or.reduce(groups[asked])) != out).nonzero()[0]
        if len(left):
            rows, places = self._rows.match(batch.take(left), None)
            some = np.isin(places, asked).nonzero()[0]
            rows, places = left[rows[some]], places[some]
            holds = self._verified(batch, rows, places)
            np.bitwise_or.at(out, rows[holds], groups[places[holds]])
        return out

    def _asked(self) -> dict[int, Clause]:
        """Return the clauses with computed values by kernel column."""
        if self._places is None:
            return self._computed
        return {self._places[column]: clause for column, clause in self._computed.items()}

    def _verified(self, batch: EventBatch, rows: Columns, places: Columns) -> Mask:
        """Return which (event, clause) pairs that match by attributes also match by computed values."""
        clauses = self._asked()
        holds = np.ones(len(rows), np.bool_)
        asked = np.zeros(max(len(self._held), self._places_end), np.bool_)
        asked[list(clauses)] = True
        pairs = asked[places].nonzero()[0]
        pairs = pairs[np.argsort(places[pairs], kind="stable")]
        for some in np.split(pairs, np.diff(places[pairs]).nonzero()[0] + 1) if len(pairs) else ():
            holds[some] = clauses[int(places[some[0]])].mask_computed(batch, rows[some])
        return holds

    def _owner_table(self) -> Columns:
        """Return the slot of each kernel column; the table is at least as long as there are slots."""
        if self._owners is None or len(self._owners) < len(self._held):
            owners = np.arange(len(self._held))
            for slot, extra in self._extra.items():
                owners[list(extra)] = slot
            if self._places is not None:
                whose, owners = owners, np.zeros(max(len(self._held), self._places_end), np.intp)
                owners[list(self._places.values())] = whose[list(self._places)]
            self._owners = owners
        return self._owners

    def check(self) -> None:
        """Assert that every bitmap, toggle, posting list and cached row is exactly that of the filters.

        Raises
        ------
        AssertionError
            If it is not.
        """
        slots = self._slots()
        expected: dict[int, Clause] = {}
        used: set[int] = set()
        for slot in slots:
            columns = self._columns(slot)
            assert not used & set(columns), "two clauses have one column"
            used.update(columns)
            places = columns if self._places is None else map(self._places.__getitem__, columns)
            if self._held[slot] == _HELD:
                expected.update(zip(places, self._filter(slot).clauses, strict=True))
        self._rows.check(expected)
        asked = {column: clause for column, clause in expected.items() if clause.computed}
        assert self._asked() == asked, "the clauses that are looked at once more are others"
        if self._named is not None:
            self._named.check(expected)
        assert len(slots) == self._count, "the number of filters is wrong"
        assert not used & set(self._free) and len(self._free) + len(used) == len(self._held), (
            "a column is lost"
        )
        if not self._count:
            assert not (self._extra or self._free or self._held), "an empty index keeps something"
