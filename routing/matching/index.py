"""Which filters match which event: filters by slot, over columns of clauses that a kernel matches.

Rules
-----
* Every clause of every filter has a *column*. Which columns match an event a kernel says: the compiled one, or numpy's
  where that was not built (`kernels`); both are exact, and give the same.
* A filter's slot is the column of its first clause; more clauses have columns that are no filter's slot, and are mapped
  to it when the matches are known. Slots are reused, the lowest first.
* Kernels know attributes. A clause that constrains computed values, too, is looked at once more for the events that it
  accepts so far, all at once (`_verified`); where no clause does, nothing is.
* The columns are the kernel's, until an index has shrunk to an eighth: then the kernel is made anew with
  the columns close together, and the index knows the place of each. Slots stay.
* Filters are kept as columns, and are made again from these when they are asked for. An index that becomes empty gives
  everything back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch, Mask
from ...protocol.effects import Plain
from ..filters.filter import Clause, Filter
from .bits import Columns
from .kernels import KERNEL, make_rows
from .matches import Matches, folded, owned

__all__ = ["MatchIndex", "Matches"]

_ABSENT, _HELD, _EMPTY = range(3)
_PACKED_FROM: Final = 256
"""Columns from which on it pays to bring those in use together."""


class MatchIndex:
    """An index over filters that says which of them match each event of a batch.

    Parameters
    ----------
    kernel
        ``"native"`` or ``"numpy"``; by default the one that was chosen for this process.
    """

    def __init__(self, kernel: str = KERNEL) -> None:
        self.kernel = kernel
        self._clear()

    def _clear(self) -> None:
        self._rows = make_rows(self.kernel)
        self._count = 0
        self._held = bytearray()  # by column: whether it is a filter's slot; one without a clause is _EMPTY
        self._extra: dict[int, tuple[int, ...]] = {}  # slot -> the columns of its further clauses
        self._owners: Columns | None = None  # column -> slot; made when it is needed
        self._computed: dict[int, Clause] = {}  # the columns of clauses that constrain computed values
        self._free: list[int] = []
        self._places: dict[int, int] | None = None  # column -> the kernel's; None while they are the same
        self._places_end = 0
        self._places_free: list[int] = []

    def __len__(self) -> int:
        return self._count

    @property
    def slots_end(self) -> int:
        """One past the highest slot that any filter has: how long an array by slot must be."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of the index's arrays; what is kept as Python objects is not counted."""
        return self._rows.nbytes

    # changes

    def insert(self, filter: Filter) -> int:
        """Add a filter and return its slot: a small number that is its own until it is removed."""
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
        """Take a filter out; its slot may be given to another.

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
                self._rows.remove(self._leave(column))
                self._computed.pop(column, None)
        self._held[slot] = _ABSENT
        for column in columns:
            heapq.heappush(self._free, column)
        if len(columns) > 1 or self._places is not None:
            self._owners = None
        used = len(self._held) - len(self._free)
        if used * 8 < (len(self._held) if self._places is None else self._places_end) >= _PACKED_FROM:
            self._pack()

    def _pack(self) -> None:
        """Make the kernel anew with the columns in use close together, in order."""
        rows = make_rows(self.kernel)
        slots = [slot for slot in self._slots() if self._held[slot] == _HELD]
        columns = sorted(column for slot in slots for column in self._columns(slot))
        rows.reserve(len(columns))
        for place, column in enumerate(columns):
            rows.add(place, self._clause(column), settled=False)
        rows.settle()
        self._rows = rows
        self._places = {column: place for place, column in enumerate(columns)}
        self._places_end, self._places_free, self._owners = len(columns), [], None

    def _enter(self, column: int) -> int:
        """Return the kernel's column for a new one."""
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
        """Return the kernel's column for one that goes."""
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
            self._rows.add(self._enter(column), clause, settled=settled)
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
        """Return the filters with their columns, and how far those reach; `restore` takes it."""
        return len(self._held), [(self._filter(slot), list(self._columns(slot))) for slot in self._slots()]

    def restore(self, plain: Plain) -> None:
        """Be as the index was whose snapshot that is: each filter under its slot; only for one that is empty."""
        top, filters = plain
        self._rows.reserve(top)
        self._held = bytearray(top)
        for filter, columns in filters:
            self._put(filter, columns, settled=False)
        self._rows.settle()
        used = {column for _, columns in filters for column in columns}
        self._free = [column for column in range(top) if column not in used]  # it rises, so it is a heap

    # matching

    def match(self, batch: EventBatch) -> Matches:
        """Return which filters match which event of a batch."""
        if (ways := batch.unfolded()) is not None:
            return folded(self.match(ways.batch), ways.owners, self.slots_end)
        if not self._count or not len(batch):
            return Matches(np.zeros(0, np.intp), np.zeros(0, np.intp))
        owners = self._owner_table() if self._extra or self._places is not None else None
        if not self._computed:
            return self._rows.match(batch, owners)
        rows, places = self._rows.match(batch, None)
        holds = self._verified(batch, rows, places)
        matches = Matches(rows[holds], places[holds])
        return matches if owners is None else owned(matches, owners)

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
        if (ways := batch.unfolded()) is not None:
            out = np.zeros(len(batch), np.uint64)
            np.bitwise_or.at(out, ways.owners, self.match_groups(ways.batch, groups))
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
        """Return the clauses of computed values by the kernel's column."""
        if self._places is None:
            return self._computed
        return {self._places[column]: clause for column, clause in self._computed.items()}

    def _verified(self, batch: EventBatch, rows: Columns, places: Columns) -> Mask:
        """Return which pairs of an event and a clause that accepts its attributes match by computed values, too."""
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
        """Return the slot of each of the kernel's columns; there are as many as slots, or more."""
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
        assert len(slots) == self._count, "the number of filters is wrong"
        assert not used & set(self._free) and len(self._free) + len(used) == len(self._held), (
            "a column is lost"
        )
        if not self._count:
            assert not (self._extra or self._free or self._held), "an empty index keeps something"
