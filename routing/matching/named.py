"""What the filters of an index name, and the events with arrays cut down to it.

Rules
-----
* Each clause has a *signature*: the names of which it sees one element of an array, all of its names, and those of
  the first that its computed values relate. Clauses of one signature see the same part of an event.
* The few ways of what all filters together name are matched at once. If they are many, the clauses are divided.
* Clauses without computed values of elements are cut into pieces, each of which is matched at the elements of one
  array (`pieces`). No ways are made.
* The others are divided by which arrays of the event they name. They are matched against the ways of these arrays
  only, and no other clause is believed there. Where even that is more work than testing them one by one, they are
  tested one by one (`filters.nested`).
* Pieces are made when events have come for which dividing has cost as much as making them, and dropped when there have
  been more changes than clauses since their last use. So the work is at most twice the least. Until then clauses
  of all kinds are divided.
* The signatures are collected when the first event with arrays comes, and kept up to date from then on.

Source: docs/decisions/0116-named-parts-of-events.md, 0129-pieces-of-clauses.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from .pieces import EVERYTHING, PAIRS_MAX, AllOf, Found, Pieces, Plan, Scope, scopes_of

TOGETHER_MAX: Final = 64
"""The number of ways up to which those of all named attributes are matched at once."""
ROWS_MAX: Final = 8_192
"""How many ways are matched in one go."""
TESTS_A_WAY: Final = 16
"""How many tests of single values take about as long as matching one way with the kernel."""
TESTS_A_CLAUSE: Final = 64
"""How many tests take about as long as preparing the tests of a clause."""
TESTS_A_PIECE: Final = 64
"""How many tests take about as long as making the piece of a clause."""
TESTS_A_ROW: Final = 16
"""How many tests take about as long as matching one row of pieces with the kernel."""
TESTS_A_GROUP: Final = 64
"""How many tests take about as long as combining the results of a group of rows, for each 8,192 clauses."""
SCOPES_MAX: Final = 32
"""How many scopes have pieces at a time."""

Signature: TypeAlias = tuple[frozenset[str], frozenset[str], frozenset[str]]
_ALL: Final = -1
_NONE: Final = -1
Arrays: TypeAlias = frozenset[str]
"""The names that an event has inside arrays."""


class Division(NamedTuple):
    """The clauses, divided by which names they have of some, and whether a computed value relates any of these.

    Attributes
    ----------
    names
        The names of each group of clauses.
    related
        Whether computed values of the group relate names of arrays.
    groups
        The group of each signature.
    clauses
        How many clauses are in each group.
    separate
        Whether each signature is in a group that is not `related`; the last is none.
    """

    names: list[frozenset[str]]
    related: list[bool]
    groups: npt.NDArray[np.intp]
    clauses: npt.NDArray[np.intp]
    separate: Mask


class Cut(NamedTuple):
    """An event whose clauses without related names are matched by pieces."""

    row: int
    part: Part
    arrays: Arrays
    node: AllOf


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
    cuts, plan, pieces
        The events that are matched by pieces, the rows of all of them, and the pieces of their scopes.
    """

    ways: list[dict[str, Value]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    divided: dict[tuple[Arrays, int], int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    pieces: dict[Scope, Pieces] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of ways and rows."""
        return len(self.ways) + sum(len(rows.values) for rows in self.plan.rows.values())

    def add(self, row: int, ways: Iterable[dict[str, Value]], key: int = _ALL) -> None:
        """Add the ways of an event, or of a part of it."""
        before = len(self.ways)
        self.ways.extend(ways)
        new = len(self.ways) - before
        self.rows.extend([row] * new)
        self.keys.extend([key] * new)


class Named:
    """The signatures of the clauses of an index, by the kernel's column.

    Parameters
    ----------
    kernel
        The kernel of the index.
    clauses
        The columns and clauses of the index, each time that they are asked for.
    """

    def __init__(self, kernel: str, clauses: Callable[[], Iterable[tuple[int, Clause]]]) -> None:
        self._kernel = kernel
        self._clauses = clauses
        self._ids: dict[Signature, int] = {}
        self._signatures: list[Signature] = []
        self._counts: list[int] = []
        self._free: list[int] = []
        self._of: npt.NDArray[np.intp] = np.full(64, _NONE, np.intp)
        self._names: Names | None = None
        self._divisions: dict[Arrays, Division] = {}
        self._pieces: dict[Scope, Pieces] = {}  # the last used comes last
        self._spent: dict[Scope, int] = {}  # what dividing has cost for want of the pieces of a scope
        for place, clause in clauses():
            self.add(place, clause)

    def add(self, place: int, clause: Clause) -> None:
        """Add the clause of a column."""
        if place >= len(self._of):
            self._of = np.concatenate(
                [self._of, np.full(max(len(self._of), place + 1 - len(self._of)), _NONE)]
            )
        for pieces in self._changing():
            pieces.add(place, clause, len(self._of))
        signature = signature_of(clause)
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
        for pieces in self._changing():
            pieces.remove(place)
        known = int(self._of[place])
        self._of[place] = _NONE
        self._counts[known] -= 1
        if not self._counts[known]:
            del self._ids[self._signatures[known]]
            self._free.append(known)
            self._names = None
            self._divisions.clear()

    def _changing(self) -> Iterator[Pieces]:
        """Iterate over the pieces, after a change more; those that were not used for long are dropped."""
        for scope, pieces in list(self._pieces.items()):
            pieces.idle += 1
            if pieces.idle > max(len(self._of), ROWS_MAX):
                del self._pieces[scope]
            else:
                yield pieces

    @property
    def names(self) -> Names:
        """All names that filters have."""
        if self._names is None:
            self._names = Names(
                (name for chosen, _, _ in self._ids for name in chosen),
                (name for _, every, _ in self._ids for name in every),
            )
        return self._names

    def _division(self, arrays: Arrays) -> Division:
        known = self._divisions.get(arrays)
        if known is None:
            numbers: dict[tuple[frozenset[str], bool], int] = {}
            groups = np.zeros(len(self._signatures), np.intp)
            for (chosen, _, related), each in self._ids.items():
                key = (chosen & arrays, not related.isdisjoint(arrays))
                groups[each] = numbers.setdefault(key, len(numbers))
            clauses = np.zeros(len(numbers), np.intp)
            for each in self._ids.values():
                clauses[groups[each]] += self._counts[each]
            names, related_groups = [names for names, _ in numbers], [related for _, related in numbers]
            separate = np.append(~np.array(related_groups, np.bool_)[groups], False)
            if len(self._divisions) >= 64:
                self._divisions.clear()
            known = self._divisions[arrays] = Division(names, related_groups, groups, clauses, separate)
        return known

    def unfold(self, nested: Nested, unfolded: Unfolded, start: int) -> tuple[int, list[Left]]:
        """Add the ways of events from one on, until they are many; return the next event, and what is left to test."""
        left: list[Left] = []
        events = nested.events
        while start < len(events) and unfolded.size < min(ROWS_MAX, self._rows_max()):
            part, row = events[start].part(self.names), int(nested.rows[start])
            start += 1
            if not part.choices or part.count() <= TOGETHER_MAX:
                unfolded.add(row, part.ways())
                continue
            left += self._divide(row, part, unfolded)
        return start, left

    def _rows_max(self) -> int:
        """Return how many rows may be matched by pieces in one go: what they give is at most so many pairs."""
        return PAIRS_MAX // max(map(len, self._pieces.values()), default=1)

    def _divide(self, row: int, part: Part, unfolded: Unfolded) -> list[Left]:
        arrays = frozenset[str]().union(*(choice.names for choice in part.choices))
        division = self._division(arrays)
        scopes = scopes_of(part, EVERYTHING)
        cut = self._has_pieces(scopes)
        left, cost = [], 0
        for group, names in enumerate(division.names):
            separate = not division.related[group]
            if cut and separate:
                continue
            some = part.only(names)
            ways = some.count()
            tests = int(division.clauses[group]) * (some.size() + TESTS_A_CLAUSE)
            if ways > WAYS_MAX or (ways > TOGETHER_MAX and tests < ways * TESTS_A_WAY):
                left.append(Left(row, some, arrays, group))
            else:
                key = unfolded.divided.setdefault((arrays, group), len(unfolded.divided))
                unfolded.add(row, some.ways(), key)
                tests = ways * TESTS_A_WAY
            cost += tests if separate else 0
        if cut:
            unfolded.pieces.update((scope, self._pieces[scope]) for scope in scopes)
            unfolded.cuts.append(Cut(row, part, arrays, unfolded.plan.part(part, EVERYTHING)))
        else:
            self._spend(scopes, cost - self._cost_of_pieces(part))
        return left

    def _has_pieces(self, scopes: set[Scope]) -> bool:
        if any(scope not in self._pieces for scope in scopes):
            return False
        for scope in scopes:
            self._pieces[scope] = self._pieces.pop(scope)
        return True

    def _cost_of_pieces(self, part: Part) -> int:
        groups = (1 + len(part.choices)) * (1 + len(self._of) // 8_192)
        return part.size() * TESTS_A_ROW + groups * TESTS_A_GROUP

    def _spend(self, scopes: set[Scope], cost: int) -> None:
        """Add what an event has cost more than with the pieces of these scopes, and make them if it is enough."""
        if cost <= 0 or len(scopes) > SCOPES_MAX:
            return
        if len(self._spent) >= 1_024:
            self._spent.clear()
        wanted = [scope for scope in scopes if scope not in self._pieces]
        for scope in wanted:
            self._spent[scope] = self._spent.get(scope, 0) + cost
        enough = sum(self._counts) * len(wanted) * TESTS_A_PIECE
        if min(self._spent[scope] for scope in wanted) < enough:
            return
        for scope in wanted:
            del self._spent[scope]
            self._pieces[scope] = Pieces(self._kernel, scope, self._clauses(), len(self._of))
        for scope in list(self._pieces):
            if len(self._pieces) > SCOPES_MAX and scope not in scopes:
                del self._pieces[scope]

    def cut(self, unfolded: Unfolded) -> list[Columns]:
        """Return the columns that match each event of `cuts` by pieces, computed values aside."""
        found = Found(unfolded.plan, unfolded.pieces)
        places = []
        for each in unfolded.cuts:
            separate = self._division(each.arrays).separate[self._of]
            places.append(np.flatnonzero(found.all_of(each.node) & separate))
        return places

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
            signature = signature_of(clause)
            assert self._signatures[int(self._of[place])] == signature, "a signature is another"
            counts[signature] = counts.get(signature, 0) + 1
        assert {each: self._counts[place] for each, place in self._ids.items()} == counts
        for pieces in self._pieces.values():
            pieces.check(expected)


def signature_of(clause: Clause) -> Signature:
    """Return the signature of a clause."""
    related = (name for key, _ in clause.computed for name in key.chosen_names())
    return *names_of(clause), frozenset(related)
