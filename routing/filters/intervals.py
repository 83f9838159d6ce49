"""Sets of numbers, strings or timestamps, stored as disjoint intervals in rising order.

Rules
-----
* The bounds of one tuple of intervals are of one group: numbers, strings, or nanoseconds.
* Integers and floats compare exactly, as in Python; a NaN or infinite bound is never stored.
* The order is treated as dense: between two bounds there may always be a value. Where there is none (two neighbouring
  integers above 2**53, two neighbouring nanoseconds, a string and the same string with a NUL appended), an empty
  interval is treated as not empty. This can make "covers" a false no, never a false yes.
* Strings have a least element, ``''``: :func:`settle_strings` gives the intervals that begin there a unique form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...protocol.values import Ordered

Bound: TypeAlias = int | float | str

LAST_CODE_POINT: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of numbers, strings or nanoseconds.

    ``None`` is unbounded; `low_open` and `high_open` exclude the bound. An unbounded side is never marked open.
    """

    low: Bound | None = None
    high: Bound | None = None
    low_open: bool = False
    high_open: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return Interval, (self.low, self.high, self.low_open, self.high_open)

    @property
    def is_point(self) -> bool:
        """Whether the interval holds exactly one value (then `low` is that value)."""
        return self.low is not None and self.low == self.high

    def contains(self, value: Ordered) -> bool:
        """Return whether a value of the same group is in the interval."""
        low: Ordered | None = self.low
        if low is not None and not (value > low if self.low_open else value >= low):
            return False
        high: Ordered | None = self.high
        return high is None or (value < high if self.high_open else value <= high)

    def covers(self, other: Interval) -> bool:
        """Return whether every value of `other` is in the interval."""
        low: Ordered | None = self.low
        if low is not None:
            its: Ordered | None = other.low
            if its is None or its < low or (its == low and self.low_open and not other.low_open):
                return False
        high: Ordered | None = self.high
        if high is not None:
            its = other.high
            if its is None or its > high or (its == high and self.high_open and not other.high_open):
                return False
        return True


Intervals: TypeAlias = tuple[Interval, ...]
"""Disjoint intervals in rising order, none of which touches the next; ``()`` is the empty set."""

EVERYTHING: Final[Intervals] = (Interval(),)
NOTHING: Final[Intervals] = ()


def point(value: Bound) -> Interval:
    """Return the interval that holds one value."""
    return Interval(value, value)


def numeric(interval: Interval) -> tuple[int | float | None, int | float | None]:
    """Return the bounds of an interval of numbers or nanoseconds, with this type."""
    return interval.low, interval.high  # type: ignore[return-value]  # the caller knows that they are no strings


def contains(intervals: Intervals, value: Ordered) -> bool:
    """Return whether a value of the same group is in one of the intervals."""
    return any(interval.contains(value) for interval in intervals)


def low_key(interval: Interval) -> tuple[bool, object, bool]:
    """Return a key that sorts intervals of one group by their low bound."""
    low = interval.low
    return (False, 0, False) if low is None else (True, low, interval.low_open)


def sort_key(interval: Interval) -> tuple[object, ...]:
    """Return a key that gives intervals of one group a total order."""
    high = interval.high
    return (*low_key(interval), high is None, 0 if high is None else high, interval.high_open)


def _is_empty(low: Ordered | None, high: Ordered | None, low_open: bool, high_open: bool) -> bool:
    if low is None or high is None:
        return False
    return low > high or (bool(low == high) and (low_open or high_open))


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """Return the values that are in both."""
    if left == EVERYTHING:
        return right
    if right == EVERYTHING:
        return left
    out: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        common = _common(a, b)
        if common is not None:
            out.append(common)
        if _ends_first(a, b):
            i += 1
        else:
            j += 1
    return tuple(out)


def _common(a: Interval, b: Interval) -> Interval | None:
    # Avoid a copy where possible: if one interval is inside the other, it is the result.
    late = a if low_key(a) >= low_key(b) else b
    early_end = a if _ends_first(a, b) else b
    if late is early_end:
        return late
    low, high, low_open, high_open = late.low, early_end.high, late.low_open, early_end.high_open
    return None if _is_empty(low, high, low_open, high_open) else Interval(low, high, low_open, high_open)


def _ends_first(a: Interval, b: Interval) -> bool:
    """Return whether `a` ends before `b` or at the same bound."""
    if a.high is None:
        return b.high is None
    if b.high is None:
        return True
    mine: Ordered = a.high
    its: Ordered = b.high
    return mine < its or (bool(mine == its) and (a.high_open or not b.high_open))


def unite(intervals: Iterable[Interval]) -> Intervals:
    """Return the union of intervals of one group, which may overlap and be in any order."""
    ordered = sorted(intervals, key=low_key)
    if len(ordered) < 2:
        return tuple(ordered)
    out: list[Interval] = []
    current = ordered[0]
    for following in ordered[1:]:
        if not _touches(current, following):
            out.append(current)
            current = following
        elif not _ends_first(following, current):
            current = Interval(current.low, following.high, current.low_open, following.high_open)
    out.append(current)
    return tuple(out)


def _touches(early: Interval, late: Interval) -> bool:
    if early.high is None or late.low is None:
        return True
    end: Ordered = early.high
    start: Ordered = late.low
    return start < end or (bool(start == end) and not (late.low_open and early.high_open))


def complement(intervals: Intervals) -> Intervals:
    """Return the values of the group that are in none of the intervals."""
    out: list[Interval] = []
    low: Bound | None = None
    low_open = False
    started = False
    for interval in intervals:
        if interval.low is not None:
            out.append(Interval(low, interval.low, low_open, not interval.low_open))
        started = True
        low, low_open = interval.high, not interval.high_open
    if not started:
        return EVERYTHING
    if low is not None:
        out.append(Interval(low, None, low_open, False))
    return tuple(out)


def covers(left: Intervals, right: Intervals) -> bool:
    """Return whether every value of `right` is in `left`."""
    if len(left) == 1:
        only = left[0]
        if len(right) == 1:  # the common case
            return only.covers(right[0])
        return all(only.covers(interval) for interval in right)
    start = 0
    for interval in right:
        while start < len(left) and not left[start].covers(interval):
            start += 1
        if start == len(left):
            return False
    return True


def membership(intervals: Intervals) -> Callable[[Any], bool]:
    """Return a fast function that tells whether a value of the same group is in the intervals."""
    if len(intervals) == 1:
        return _membership_of_one(intervals[0])
    if all(interval.is_point for interval in intervals):
        return frozenset(interval.low for interval in intervals).__contains__
    if len(intervals) == 2:
        first, second = map(_membership_of_one, intervals)
        return lambda value: first(value) or second(value)
    tests = [_membership_of_one(interval) for interval in intervals]
    head_unbounded = intervals[0].low is None
    lows: list[object] = [interval.low for interval in intervals[head_unbounded:]]
    offset = 0 if head_unbounded else -1

    def test(value: Any) -> bool:
        position = bisect_right(lows, value) + offset
        # The previous interval may end at the bound at which this one begins, if this one is open.
        return position >= 0 and (tests[position](value) or (position > 0 and tests[position - 1](value)))

    return test


def _membership_of_one(interval: Interval) -> Callable[[Any], bool]:
    low: Ordered | None = interval.low
    high: Ordered | None = interval.high
    if low is None and high is None:
        return lambda value: value == value  # not NaN
    if low is None:
        return (lambda value: value < high) if interval.high_open else (lambda value: value <= high)
    if high is None:
        return (lambda value: value > low) if interval.low_open else (lambda value: value >= low)
    if interval.is_point:
        return lambda value: value == low
    if interval.low_open:
        if interval.high_open:
            return lambda value: low < value < high
        return lambda value: low < value <= high
    if interval.high_open:
        return lambda value: low <= value < high
    return lambda value: low <= value <= high


def settle_strings(intervals: Intervals) -> Intervals:
    """Return the unique form of intervals of strings: nothing is below ``''``, and only ``{''}`` ends there."""
    if not intervals:
        return intervals
    first = intervals[0]
    if first.high == "":
        return intervals[1:] if first.high_open else (point(""), *intervals[1:])
    if first.low == "" and not first.low_open:
        return (Interval(None, first.high, False, first.high_open), *intervals[1:])
    return intervals


def prefix_interval(prefix: str) -> Interval:
    """Return the interval of the strings that begin with `prefix`: from `prefix` to the first string after them."""
    if not prefix:
        return Interval()
    stem = prefix.rstrip(chr(LAST_CODE_POINT))
    if not stem:
        return Interval(prefix)
    return Interval(prefix, stem[:-1] + chr(ord(stem[-1]) + 1), False, True)


def prefix_of(interval: Interval) -> str:
    """Return a common prefix of all strings of the interval: the longest one, or a shorter one for long bounds."""
    low, high = interval.low, interval.high
    if not isinstance(low, str):
        return ""
    for length in range(min(len(low), 256), 0, -1):
        if prefix_interval(low[:length]).covers(Interval(low, high, interval.low_open, interval.high_open)):
            return low[:length]
    return ""
