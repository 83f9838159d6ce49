"""Clauses cut into pieces, one for each place of an event with arrays, so that ways need not be made.

Rules
-----
* A part of an event (`protocol.ways`) has values of its own, and choices. A conjunction holds in a way if its
  constraints on the part's own values hold, and those on each choice hold in one option of it; an option is a
  part again. So each constraint is tested at the elements that have its name, and their number is added, not
  multiplied.
* The *scope* of a part is the names that are its own, with those that it lacks. The constraints of a clause on the
  names of a scope are its *piece* there. Equal pieces of different clauses are one. A kernel matches the pieces of a
  scope (`Pieces`) against the own values of all parts that have this scope.
* A plan states which parts are rows of which scope, and how their results are combined: AND over the choices of a
  part, OR over the options of a choice. Options without choices are one group of rows: what matches any of them.
* Computed values relate several attributes, and are no part of a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Mask, flat_batch
from ...protocol.values import Value
from ...protocol.ways import Choice, Part
from ..filters.clauses import Clause
from ..filters.domains import Domain
from .bits import Columns
from .kernels import make_rows

PAIRS_MAX: Final = 1 << 24
"""How many (row, piece) pairs one match can give, about."""

Piece: TypeAlias = tuple[tuple[str, Domain], ...]
_NOTHING_ASKED: Final = 0


class Scope(NamedTuple):
    """Names: these, or all except these."""

    names: frozenset[str]
    others: bool

    def cut(self, clause: Clause) -> Piece:
        """Return the constraints of a clause on the names of the scope."""
        names, others = self.names, self.others
        return tuple(pair for pair in clause.constraints if (pair[0] in names) is not others)


EVERYTHING: Final = Scope(frozenset(), others=True)
"""The scope of a whole event, if it has no choices."""


class AllOf(NamedTuple):
    """A clause holds in a part: in a group of rows of its own scope, and in each of its choices."""

    scope: Scope
    group: int
    choices: tuple[AnyOf, ...]


class AnyOf(NamedTuple):
    """A clause holds in a choice: in a group of rows that are options, or in an option with choices."""

    scope: Scope
    group: int | None
    options: tuple[AllOf, ...]


class Rows(NamedTuple):
    """The rows of one scope, in groups; `starts` has the first row of each group."""

    values: list[dict[str, Value]]
    starts: list[int]

    def add(self, values: Iterable[dict[str, Value]]) -> int:
        """Add a group and return its number."""
        self.starts.append(len(self.values))
        self.values.extend(values)
        return len(self.starts) - 1


class Plan:
    """The rows of parts by scope."""

    def __init__(self) -> None:
        self.rows: dict[Scope, Rows] = {}

    def part(self, part: Part, within: Scope) -> AllOf:
        """Add the rows of a part, in which conditions on the names of a scope are decided."""
        choices = tuple(map(self._choice, part.choices))
        scope = _own(part, within)
        return AllOf(scope, self._add(scope, [part.fixed]), choices)

    def _choice(self, choice: Choice) -> AnyOf:
        scope = Scope(choice.names, others=False)
        plain = [option.fixed for option in choice.options if not option.choices]
        group = self._add(scope, plain) if plain else None
        options = (self.part(option, scope) for option in choice.options if option.choices)
        return AnyOf(scope, group, tuple(options))

    def _add(self, scope: Scope, values: list[dict[str, Value]]) -> int:
        rows = self.rows.get(scope)
        if rows is None:
            rows = self.rows[scope] = Rows([], [])
        return rows.add(values)


def scopes_of(part: Part, within: Scope) -> set[Scope]:
    """Return the scopes of the rows of a part in a plan."""
    out = {_own(part, within)}
    for choice in part.choices:
        scope = Scope(choice.names, others=False)
        for option in choice.options:
            if option.choices:
                out |= scopes_of(option, scope)
            else:
                out.add(scope)
    return out


def _own(part: Part, within: Scope) -> Scope:
    """Return the scope of a part's own values, which are not those of its choices."""
    inner = frozenset[str]().union(*(choice.names for choice in part.choices))
    return Scope(within.names | inner if within.others else within.names - inner, within.others)


class Pieces:
    """The pieces of clauses in one scope, in a kernel; clauses are known by their columns.

    Attributes
    ----------
    idle
        How many changes there were since the last match.
    """

    def __init__(
        self, kernel: str, scope: Scope, clauses: Iterable[tuple[int, Clause]], columns: int
    ) -> None:
        self.idle = 0
        self._scope = scope
        self._rows = make_rows(kernel)
        self._ids: dict[Piece, int] = {(): _NOTHING_ASKED}
        self._pieces: list[Piece] = [()]
        self._counts = [0]
        self._free: list[int] = []
        self._of: npt.NDArray[np.intp] = np.zeros(columns, np.intp)
        for column, clause in clauses:
            self._add(column, clause, settled=False)
        self._rows.settle()

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, column: int, clause: Clause, columns: int) -> None:
        """Add the clause of a column; there are so many columns."""
        if columns > len(self._of):
            self._of = np.concatenate([self._of, np.zeros(columns - len(self._of), np.intp)])
        self._add(column, clause, settled=True)

    def _add(self, column: int, clause: Clause, *, settled: bool) -> None:
        piece = self._scope.cut(clause)
        known = self._ids.get(piece)
        if known is None:
            known = self._ids[piece] = self._free.pop() if self._free else len(self._pieces)
            if known == len(self._pieces):
                self._pieces.append(piece)
                self._counts.append(0)
            self._pieces[known] = piece
            self._rows.add(known, Clause(piece), settled=settled)
        self._counts[known] += 1
        self._of[column] = known

    def remove(self, column: int) -> None:
        """Remove the clause of a column."""
        known = int(self._of[column])
        self._of[column] = _NOTHING_ASKED
        self._counts[known] -= 1
        if not self._counts[known] and known != _NOTHING_ASKED:
            del self._ids[self._pieces[known]]
            self._pieces[known] = ()
            self._rows.remove(known)
            self._free.append(known)

    def match(self, rows: Rows) -> list[Columns]:
        """Return, for each group, the pieces that match any row of it; a piece may occur more than once."""
        self.idle = 0
        step = max(64, PAIRS_MAX // len(self))
        starts = np.array([*rows.starts, len(rows.values)], np.intp)
        found: list[Columns] = [np.zeros(0, np.intp)] * len(rows.starts)
        if len(self._ids) == 1:
            return found
        for start in range(0, len(rows.values), step):
            some = rows.values[start : start + step]
            at, pieces = self._rows.match(flat_batch(some), None)
            first = int(np.searchsorted(starts, start, "right")) - 1
            last = int(np.searchsorted(starts, start + len(some), "left"))
            bounds = np.searchsorted(at, starts[first : last + 1] - start).tolist()
            for group in range(first, last):
                low, high = bounds[group - first : group - first + 2]
                found[group] = self._joined(found[group], pieces[low:high])
        return found

    def _joined(self, known: Columns, more: Columns) -> Columns:
        both = np.concatenate([known, more]) if len(known) else more
        return both if len(both) <= len(self) else np.flatnonzero(self._mask(both))

    def _mask(self, pieces: Columns) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        mask[pieces] = True
        return mask

    def holds(self, pieces: Columns) -> Mask:
        """Return, for each column, whether its piece is one of these, or asks for nothing."""
        mask = self._mask(pieces)
        mask[_NOTHING_ASKED] = True
        out: Mask = mask[self._of]
        return out

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that the pieces are those of these clauses."""
        counts: dict[Piece, int] = {}
        for column, clause in expected.items():
            piece = self._scope.cut(clause)
            assert self._pieces[int(self._of[column])] == piece, "a piece is another"
            counts[piece] = counts.get(piece, 0) + 1
        known = {each: self._counts[place] for each, place in self._ids.items() if self._counts[place]}
        assert known == counts, "pieces are counted wrong"
        self._rows.check({place: Clause(each) for each, place in self._ids.items() if each})


class Found:
    """The results of all rows of a plan; they tell for each part which columns hold."""

    def __init__(self, plan: Plan, pieces: dict[Scope, Pieces]) -> None:
        self._pieces = pieces
        self._of_group: dict[Scope, Sequence[Columns]] = {
            scope: pieces[scope].match(rows) for scope, rows in plan.rows.items()
        }

    def all_of(self, node: AllOf) -> Mask:
        """Return which columns have clauses whose constraints hold in a way of a part."""
        out = self._group(node.scope, node.group)
        for choice in node.choices:
            if not out.any():
                break
            out &= self._any_of(choice)
        return out

    def _any_of(self, node: AnyOf) -> Mask:
        masks = [] if node.group is None else [self._group(node.scope, node.group)]
        masks += map(self.all_of, node.options)
        out = masks[0]
        for mask in masks[1:]:
            out |= mask
        return out

    def _group(self, scope: Scope, group: int) -> Mask:
        return self._pieces[scope].holds(self._of_group[scope][group])
