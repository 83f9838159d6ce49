"""Vectorised arithmetic and order of numbers over the columns of a batch; for one event see `language.expressions`.

Rules
-----
* The results are identical, bit for bit, to those of single events: integers are exact as long as 64 bits hold them,
  floats follow IEEE 754, and integers compare with floats exactly.
* Where a value is missing or is no number, its entry is arbitrary; masks mark these places.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, EventBatch, Mask, Rows
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Kind, Value
from ...protocol.ways import Array, arrays_at
from ..language.expressions import Arithmetic, Expression, Literal, Ref, Size

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Numeric: TypeAlias = Integers | Floats

_SURE: Final = 2.0**62
"""A product whose approximation as a float is below this in magnitude fits in 64 bits."""


class Chosen:
    """Some events of a batch."""

    def __init__(self, batch: EventBatch, rows: Rows) -> None:
        self._batch = batch
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str, kind: Kind) -> Column | None:
        """Return an attribute's values of one kind for the chosen events; None where the batch has none."""
        column = self._batch.columns.get((name, kind))
        if column is None:
            return None
        present = None if column.present is None else column.present[self._rows]
        return Column(kind, column.data[self._rows], present, column.words)

    def values(self, name: str) -> list[Value | None]:
        """Return an attribute's values of any kind for the chosen events; None where it has no value."""
        out: list[Value | None] = [None] * len(self)
        for kind in Kind:
            column = self.column(name, kind)
            for place in [] if column is None else self.present(column).nonzero()[0].tolist():
                out[place] = column.value(place)  # type: ignore[union-attr]  # it is there
        return out

    def arrays(self, name: str) -> list[Array | None]:
        """Return the whole array at a name of each chosen event; None where there is none."""
        return arrays_at(self.events(), name)

    def events(self) -> Iterator[Mapping[str, Value]]:
        """Iterate over the chosen events."""
        events = self._batch.seen()  # those of a batch of ways know the arrays, which columns do not
        return map(events.__getitem__, self._rows)

    def present(self, column: Column) -> Mask:
        """Return the mask of the events that have a value in a column."""
        return np.ones(len(self), np.bool_) if column.present is None else column.present


class Numbers(NamedTuple):
    """One number per event: an integer where `whole`, a float where `real`, otherwise none; never both."""

    integers: Integers
    floats: Floats
    whole: Mask
    real: Mask

    def as_floats(self) -> Floats:
        """Return all of them as floats."""
        return np.where(self.whole, self.integers, self.floats)


def numbers_of(expression: Expression, chosen: Chosen) -> Numbers:
    """Return the value of an expression for the chosen events."""
    size = len(chosen)
    match expression:
        case Ref(name):
            return _numbers_in(chosen, name)
        case Literal(value):
            is_whole, is_real = type(value) is int, type(value) is float
            number = float(value) if is_real else 0.0
            return Numbers(
                np.full(size, value if is_whole else 0, np.int64),
                np.full(size, number, np.float64),
                np.full(size, is_whole),
                np.full(size, is_real),
            )
        case Size(name):
            arrays = chosen.arrays(name)
            there = np.array([array is not None for array in arrays], np.bool_)
            sizes = np.array([len(array or ()) for array in arrays], np.int64)
            return Numbers(sizes, np.zeros(size), there, np.zeros(size, np.bool_))
        case Arithmetic(op, left, right):
            with np.errstate(all="ignore"):
                return _calculated(op, numbers_of(left, chosen), numbers_of(right, chosen))


def _numbers_in(chosen: Chosen, name: str) -> Numbers:
    size = len(chosen)
    integers, whole = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    floats, real = np.zeros(size, np.float64), np.zeros(size, np.bool_)
    if (column := chosen.column(name, Kind.INTEGER)) is not None:
        integers, whole = column.data, chosen.present(column)
    if (column := chosen.column(name, Kind.FLOAT)) is not None:
        floats, real = column.data, chosen.present(column) & ~np.isnan(column.data)
    return Numbers(integers, floats, whole, real)


def _calculated(op: str, left: Numbers, right: Numbers) -> Numbers:
    a, b = left.as_floats(), right.as_floats()
    there = (left.whole | left.real) & (right.whole | right.real)
    nothing = np.zeros(len(a), np.bool_)
    if op == "/":
        floats = a / b
        return Numbers(np.zeros(len(a), np.int64), floats, nothing, there & (b != 0) & ~np.isnan(floats))
    floats = _FLOATS[op](a, b)
    whole = left.whole & right.whole
    integers = np.zeros(len(a), np.int64)
    if whole.any():
        integers, fits = _INTEGERS[op](left.integers, right.integers, floats)
        whole = whole & fits
    return Numbers(integers, floats, whole, there & ~whole & ~np.isnan(floats))


def _add(a: Integers, b: Integers, _: Floats) -> tuple[Integers, Mask]:
    out = a + b
    return out, ((a ^ out) & (b ^ out)) >= 0


def _subtract(a: Integers, b: Integers, _: Floats) -> tuple[Integers, Mask]:
    out = a - b
    return out, ((a ^ b) & (a ^ out)) >= 0


def _multiply(a: Integers, b: Integers, about: Floats) -> tuple[Integers, Mask]:
    fits = np.abs(about) < _SURE
    for place in (~fits).nonzero()[0].tolist():
        fits[place] = INTEGER_MIN <= int(a[place]) * int(b[place]) <= INTEGER_MAX
    return a * b, fits


_FLOATS: Final[dict[str, Callable[[Floats, Floats], Floats]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_INTEGERS: Final[dict[str, Callable[[Integers, Integers, Floats], tuple[Integers, Mask]]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
}


def number_columns(numbers: Numbers) -> list[Column]:
    """Return the numbers as columns of a batch."""
    return [
        Column(Kind.INTEGER, numbers.integers, numbers.whole),
        Column(Kind.FLOAT, numbers.floats, numbers.real),
    ]


def signs(left: Numbers, right: Numbers) -> tuple[Integers, Mask]:
    """Return -1, 0 or 1 per event (left below, equal to or above right), and the mask of events that have both."""
    known = (left.whole | left.real) & (right.whole | right.real)
    out = _sign(left.as_floats(), right.as_floats())
    # Two integers may round to the same float, and an integer may round to the float that it is compared with.
    close = (known & (out == 0) & (left.whole | right.whole)).nonzero()[0]
    if len(close):
        out[close] = _sign(*_exactly(left, right, close))
    return out, known


def _sign(a: Numeric, b: Numeric) -> Integers:
    sign: Integers = np.subtract(a > b, a < b, dtype=np.int64)
    return sign


def _exactly(
    left: Numbers, right: Numbers, rows: Rows
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return exactly comparable values for sides that are equal as floats, at least one of which is an integer."""
    sides = []
    past = np.zeros(
        len(rows), np.int64
    )  # +1 where the left side is 2**63, which no integer is; -1 where the right
    for side, sign in ((left, 1), (right, -1)):
        floats = side.floats[rows]
        beyond = side.real[rows] & (floats >= 2.0**63)
        inside = np.where(side.real[rows] & ~beyond, floats, 0.0).astype(np.int64)
        sides.append(np.where(side.real[rows], inside, side.integers[rows]))
        past += np.where(beyond, sign, 0)
    same = past == 0
    return np.where(same, sides[0], past), np.where(same, sides[1], 0)
