"""Intervals of a domain, converted to spans of a column type: pairs of first and last value, both included.

Rules
-----
* A span ``(first, last)`` is the values from `first` to `last`, both included, of one column type
  (``int64`` or ``float64``). The least and greatest values of the column type stand for "unbounded".
* The conversion is exact. 2.5 < x over integers is 3 <= x; x > 2**53 + 1 over floats is x >= 2**53 + 2, the
  next float. A bound that no value of the column type reaches leaves an empty interval, which is dropped.
* Spans that touch are one span: 1..2 and 3..4 over integers are 1..4.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Kind
from .domains import Bound, Intervals

Span: TypeAlias = tuple[float, float]
"""(first, last), both included; Python ints for ``int64`` columns, floats for ``float64`` columns."""

EXTENT: Final[dict[Kind, Span]] = {
    Kind.INTEGER: (INTEGER_MIN, INTEGER_MAX),
    Kind.TIMESTAMP: (INTEGER_MIN, INTEGER_MAX),
    Kind.FLOAT: (-math.inf, math.inf),
}
"""The least and the greatest value of each kind of column."""


def spans_of(intervals: Intervals, kind: Kind) -> list[Span]:
    """Return the intervals as disjoint rising spans over a column of this kind."""
    least, greatest = EXTENT[kind]
    first_of, last_of = (_first_float, _last_float) if kind is Kind.FLOAT else (_first_integer, _last_integer)
    out: list[Span] = []
    for interval in intervals:
        low, high = interval.low, interval.high
        first = least if low is None else first_of(low, interval.low_open)
        last = greatest if high is None else last_of(high, interval.high_open)
        if first is None or last is None or first > last:
            continue
        if out and after(out[-1][1], kind) >= first:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return out


def after(value: float, kind: Kind) -> float:
    """Return the next greater value in a column of this kind; `value` must not be the greatest."""
    return math.nextafter(value, math.inf) if kind is Kind.FLOAT else value + 1


def _first_integer(bound: Bound, is_open: bool) -> int | None:
    assert not isinstance(bound, str)
    if isinstance(bound, float) and math.isinf(bound):
        return INTEGER_MIN if bound < 0 else None
    first = math.ceil(bound)
    first += is_open and first == bound
    return max(first, INTEGER_MIN) if first <= INTEGER_MAX else None


def _last_integer(bound: Bound, is_open: bool) -> int | None:
    assert not isinstance(bound, str)
    if isinstance(bound, float) and math.isinf(bound):
        return INTEGER_MAX if bound > 0 else None
    last = math.floor(bound)
    last -= is_open and last == bound
    return min(last, INTEGER_MAX) if last >= INTEGER_MIN else None


def _first_float(bound: Bound, is_open: bool) -> float | None:
    assert not isinstance(bound, str)
    near = _nearest_float(bound)
    if near < bound or (is_open and near == bound):
        return None if near == math.inf else math.nextafter(near, math.inf)
    return near


def _last_float(bound: Bound, is_open: bool) -> float | None:
    assert not isinstance(bound, str)
    near = _nearest_float(bound)
    if near > bound or (is_open and near == bound):
        return None if near == -math.inf else math.nextafter(near, -math.inf)
    return near


def _nearest_float(bound: float) -> float:
    try:
        return float(bound)
    except OverflowError:  # an integer beyond the largest float: only an infinity is beyond it
        return math.inf if bound > 0 else -math.inf
