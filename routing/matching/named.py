"""What the filters of an index name, and the events with arrays cut down to it.

Rules
-----
* Each clause has a *signature*: the names of which it sees one element of an array, and all of its names. Clauses of
  one signature see the same part of an event.
* The few ways of what all filters together name are matched at once. If they are many, because different
  filters name different arrays, the clauses are divided: those that name the same arrays of an event are matched
  against the ways of these arrays only, and no other clause is believed there. What several arrays have together
  is so made only for clauses that name them together.
* Where even that is more work than testing the clauses one by one, they are tested one by one (`filters.nested`).
* The signatures are collected when the first event with arrays comes, and kept up to date from then on.

Source: docs/decisions/0116-named-parts-of-events.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Mask, Nested
from ...protocol.values import Value
from ...protocol.ways import WAYS_MAX, Names, Part
from ..filters.clauses import Clause
from ..filters.nested import names_of
from .bits import Columns

TOGETHER_MAX: Final = 64
"""The number of ways up to which those of all named attributes are matched at once."""
ROWS_MAX: Final = 8_192
"""How many ways are matched in one go."""
TESTS_A_WAY: Final = 16
"""How many tests of single values take about as long as matching one way with the kernel."""
TESTS_A_CLAUSE: Final = 64
"""How many tests take about as long as preparing the tests of a clause."""

Signature: TypeAlias = tuple[frozenset[str], frozenset[str]]
_ALL: Final = -1
_NONE: Final = -1
Arrays: TypeAlias = frozenset[str]
"""The names that an event has inside arrays."""


class Division(NamedTuple):
    """The clauses, divided by which names they have of some.

    Attributes
    ----------
    names
        The names of each group of clauses.
    groups
        The group of each signature.
    clauses
        How many clauses are in each group.
    """

    names: list[frozenset[str]]
    groups: npt.NDArray[np.intp]
    clauses: npt.NDArray[np.intp]


class Left(NamedTuple):
    """An event whose clauses of one group are tested one by one."""

    row: int
    part: Part
    arrays: Arrays
    group: int


@dataclass(slots=True)
class Unfolded:
    """Ways to match.

    Attributes
    ----------
    ways
        Flat events.
    rows
        The row of the event of each way.
    keys
        Which clauses are matched against each way: a position in `divided`, or -1 for all.
    divided
        The arrays and the group of each key.
    """

    ways: list[dict[str, Value]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    divided: dict[tuple[Arrays, int], int] = field(default_factory=dict)

    def add(self, row: int, ways: Iterable[dict[str, Value]], key: int = _ALL) -> None:
        """Add the ways of an event, or of a part of it."""
        before = len(self.ways)
        self.ways.extend(ways)
        new = len(self.ways) - before
        self.rows.extend([row] * new)
        self.keys.extend([key] * new)


class Named:
    """The signatures of the clauses of an index, by the kernel's column."""

    def __init__(self, clauses: Iterable[tuple[int, Clause]]) -> None:
        self._ids: dict[Signature, int] = {}
        self._signatures: list[Signature] = []
        self._counts: list[int] = []
        self._free: list[int] = []
        self._of: npt.NDArray[np.intp] = np.full(64, _NONE, np.intp)
        self._names: Names | None = None
        self._divisions: dict[Arrays, Division] = {}
        for place, clause in clauses:
            self.add(place, clause)

    def add(self, place: int, clause: Clause) -> None:
        """Add the clause of a column."""
        if place >= len(self._of):
            self._of = np.concatenate(
                [self._of, np.full(max(len(self._of), place + 1 - len(self._of)), _NONE)]
            )
        signature = names_of(clause)
        known = self._ids.get(signature)
        if known is None:
            known = self._ids[signature] = self._free.pop() if self._free else len(self._signatures)
            if known == len(self._signatures):
                self._signatures.append(signature)
                self._counts.append(0)
            self._signatures[known] = signature
            self._names = None
            self._divisions.clear()
        self._counts[known] += 1
        self._of[place] = known

    def remove(self, place: int) -> None:
        """Remove the clause of a column."""
        known = int(self._of[place])
        self._of[place] = _NONE
        self._counts[known] -= 1
        if not self._counts[known]:
            del self._ids[self._signatures[known]]
            self._free.append(known)
            self._names = None
            self._divisions.clear()

    @property
    def names(self) -> Names:
        """All names that filters have."""
        if self._names is None:
            self._names = Names(
                (name for chosen, _ in self._ids for name in chosen),
                (name for _, every in self._ids for name in every),
            )
        return self._names

    def _division(self, arrays: Arrays) -> Division:
        known = self._divisions.get(arrays)
        if known is None:
            numbers: dict[frozenset[str], int] = {}
            groups = np.zeros(len(self._signatures), np.intp)
            for (chosen, _), each in self._ids.items():
                groups[each] = numbers.setdefault(chosen & arrays, len(numbers))
            clauses = np.zeros(len(numbers), np.intp)
            for each in self._ids.values():
                clauses[groups[each]] += self._counts[each]
            if len(self._divisions) >= 64:
                self._divisions.clear()
            known = self._divisions[arrays] = Division(list(numbers), groups, clauses)
        return known

    def unfold(self, nested: Nested, unfolded: Unfolded, start: int) -> tuple[int, list[Left]]:
        """Add the ways of events from one on, until they are many; return the next event, and what is left to test."""
        left: list[Left] = []
        events = nested.events
        while start < len(events) and len(unfolded.ways) < ROWS_MAX:
            part, row = events[start].part(self.names), int(nested.rows[start])
            start += 1
            if not part.choices or part.count() <= TOGETHER_MAX:
                unfolded.add(row, part.ways())
                continue
            left += self._divide(row, part, unfolded)
        return start, left

    def _divide(self, row: int, part: Part, unfolded: Unfolded) -> list[Left]:
        arrays = frozenset[str]().union(*(choice.names for choice in part.choices))
        division = self._division(arrays)
        left = []
        for group, names in enumerate(division.names):
            some = part.only(names)
            ways = some.count()
            tests = int(division.clauses[group]) * (some.size() + TESTS_A_CLAUSE)
            if ways > WAYS_MAX or (ways > TOGETHER_MAX and tests < ways * TESTS_A_WAY):
                left.append(Left(row, some, arrays, group))
            else:
                key = unfolded.divided.setdefault((arrays, group), len(unfolded.divided))
                unfolded.add(row, some.ways(), key)
        return left

    def believed(self, unfolded: Unfolded, ways: Columns, places: Columns) -> Mask:
        """Return which (way, column) pairs count: those of the clauses for which the way was made."""
        keys = np.array(unfolded.keys, np.intp)[ways]
        out: Mask = keys == _ALL
        for (arrays, group), key in unfolded.divided.items():
            some = np.flatnonzero(keys == key)
            out[some] = self._division(arrays).groups[self._of[places[some]]] == group
        return out

    def columns(self, left: Left) -> Columns:
        """Return the columns whose clauses are tested one by one for an event."""
        places = np.flatnonzero(self._of != _NONE)
        groups = self._division(left.arrays).groups
        out: Columns = places[groups[self._of[places]] == left.group]
        return out

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that the signatures are those of these clauses."""
        counts: dict[Signature, int] = {}
        for place, clause in expected.items():
            signature = names_of(clause)
            assert self._signatures[int(self._of[place])] == signature, "a signature is another"
            counts[signature] = counts.get(signature, 0) + 1
        assert {each: self._counts[place] for each, place in self._ids.items()} == counts
