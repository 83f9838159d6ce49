"""The domain of one attribute: a set of values with decidable inclusion and difference.

Rules
-----
* A :class:`Domain` has one part for each group of comparable values (booleans, numbers, strings, timestamps), one
  for *missing* and one for JSON's null. A value can only be in the part of its own group: there are no
  conversions between groups.
* Numbers are the real line: 1 and 1.0 are one number, and integers and floats compare exactly.
* Strings are ordered by code point.
* Decisions are exact for everything except patterns (LIKE, SUFFIX, CONTAINS), where "covers" may be falsely negative,
  never falsely positive. Between neighbouring bounds without a value in between (a string and the same string with a
  NUL appended), an empty interval may be treated as not empty, which is safe as well.

Source: paper 3, definitions 2 to 5 (a constraint and the set of values that satisfy it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ...protocol.values import Null, Ordered, Timestamp, Value, is_null
from .intervals import (
    EVERYTHING,
    NOTHING,
    Bound,
    Interval,
    Intervals,
    complement,
    contains,
    covers,
    intersect,
    membership,
    point,
    settle_strings,
    sort_key,
    unite,
)
from .likes import LikePattern
from .strings import ALL_STRINGS, NO_STRINGS, Strings, like_strings

__all__ = [
    "ALL_STRINGS",
    "BOTH",
    "EVERYTHING",
    "NOTHING",
    "NO_STRINGS",
    "Bound",
    "Domain",
    "Interval",
    "Intervals",
    "LikePattern",
    "Strings",
    "like_strings",
]

BOTH: Final = frozenset((False, True))


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of values of one attribute, which may include *missing*.

    Attributes
    ----------
    missing
        Whether an event without the attribute satisfies it.
    booleans
        The subset of ``False`` and ``True``.
    numbers
        Intervals over integers and floats together.
    strings
        Intervals by code point, and patterns.
    timestamps
        Intervals over nanoseconds since 1970 UTC.
    null
        Whether JSON's null satisfies it.
    """

    missing: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: Intervals = NOTHING
    strings: Strings = NO_STRINGS
    timestamps: Intervals = NOTHING
    null: bool = False

    ANYTHING: ClassVar[Domain]
    """Every value, null, and missing."""
    THERE: ClassVar[Domain]
    """Every value, and null, but not missing."""
    PRESENT: ClassVar[Domain]
    """Every comparable value: neither missing nor null."""
    ABSENT: ClassVar[Domain]
    """Missing or null: no value at all."""
    MISSING: ClassVar[Domain]
    """Missing, and not null."""
    EMPTY: ClassVar[Domain]
    """Nothing, not even missing."""

    def __reduce__(self) -> tuple[object, ...]:
        return Domain, (
            self.missing,
            self.booleans,
            self.numbers,
            self.strings,
            self.timestamps,
            self.null,
        )

    @classmethod
    def interval(
        cls,
        low: Value | None = None,
        high: Value | None = None,
        *,
        low_open: bool = False,
        high_open: bool = False,
    ) -> Domain:
        """Return the values between two bounds of one group; ``None`` leaves that side unbounded.

        The group is that of the bounds: numbers, strings or timestamps. Bounds with nothing in between give the empty
        domain.
        """
        kind = type(high if low is None else low)
        plain_low, plain_high = _plain(low), _plain(high)
        if plain_low is not None and plain_high is not None:
            reach: Ordered = plain_low
            if reach > plain_high or (reach == plain_high and (low_open or high_open)):
                return cls.EMPTY
        return _of_group(kind, (Interval(plain_low, plain_high, low_open, high_open),))

    @classmethod
    def value(cls, value: Value) -> Domain:
        """Return the domain of this value only."""
        kind = type(value)
        if kind is bool:
            return cls(booleans=frozenset((value,)))  # type: ignore[arg-type]  # it is one
        only = (point(_plain(value)),)  # type: ignore[arg-type]  # a value is never None
        if kind is str:
            return cls(strings=Strings(only))
        return cls(timestamps=only) if kind is Timestamp else cls(numbers=only)

    @classmethod
    def values(cls, values: Iterable[Value]) -> Domain:
        """Return the domain of these values only, of any groups."""
        points: dict[type, list[Interval]] = {}
        booleans = set()
        for value in values:
            if isinstance(value, bool):
                booleans.add(value)
            else:
                points.setdefault(float if type(value) is int else type(value), []).append(
                    point(_plain(value))  # type: ignore[arg-type]  # a value is never None
                )
        return cls(
            booleans=frozenset(booleans),
            numbers=unite(points.get(float, ())),
            strings=Strings(unite(points[str])) if str in points else NO_STRINGS,
            timestamps=unite(points.get(Timestamp, ())),
        )

    @classmethod
    def matching(cls, strings: Strings) -> Domain:
        """Return the domain of these strings and nothing else."""
        return cls(strings=strings)

    @property
    def is_empty(self) -> bool:
        """Whether the domain is known to be empty (False may be wrong only where there are patterns)."""
        return not (
            self.missing
            or self.numbers
            or self.strings.intervals
            or self.timestamps
            or self.booleans
            or self.null
        )

    @property
    def is_anything(self) -> bool:
        """Whether the domain holds every value, null and missing: no constraint at all."""
        return self == Domain.ANYTHING

    def contains(self, value: Value | None) -> bool:
        """Return whether a value (``None`` is missing) is in the domain."""
        kind = type(value)
        if kind is str:
            return self.strings.contains(value)  # type: ignore[arg-type]
        if kind is bool:
            return value in self.booleans
        if isinstance(value, Timestamp):
            return contains(self.timestamps, value)
        if is_null(value):
            return self.null
        return self.missing if value is None else contains(self.numbers, value)

    def covers(self, other: Domain) -> bool:
        """Return True only if this domain includes `other`; exact when there are no patterns."""
        if other is self:
            return True
        if (other.missing and not self.missing) or (other.null and not self.null):
            return False
        if other.numbers and not covers(self.numbers, other.numbers):
            return False
        if other.strings.intervals and not self.strings.covers(other.strings):
            return False
        if other.timestamps and not covers(self.timestamps, other.timestamps):
            return False
        return other.booleans <= self.booleans

    def intersect(self, other: Domain) -> Domain:
        """Return the intersection."""
        if self is other:
            return self
        return Domain(
            self.missing and other.missing,
            self.booleans & other.booleans,
            intersect(self.numbers, other.numbers),
            self.strings.intersect(other.strings),
            intersect(self.timestamps, other.timestamps),
            self.null and other.null,
        )

    def union(self, other: Domain) -> Domain | None:
        """Return the union, or None when, because of patterns, it is not a single domain."""
        strings = self.strings.union(other.strings)
        if strings is None:
            return None
        return Domain(
            self.missing or other.missing,
            self.booleans | other.booleans,
            unite(self.numbers + other.numbers),
            strings,
            unite(self.timestamps + other.timestamps),
            self.null or other.null,
        )

    def complement(self) -> tuple[Domain, ...]:
        """Return the complement (with respect to missing, too) as disjoint domains."""
        first, *rest = self.strings.complement() or (NO_STRINGS,)
        whole = Domain(
            not self.missing,
            BOTH - self.booleans,
            complement(self.numbers),
            first,
            complement(self.timestamps),
            not self.null,
        )
        return tuple(d for d in (whole, *map(Domain.matching, rest)) if not d.is_empty)

    def complement_in_group(self, member: Value) -> Domain:
        """Return the values outside the domain that are comparable with `member`: the effect of NOT on one constraint.

        Values of the other groups, and missing, are not in the result. Only for a domain without patterns; use
        :func:`like_strings` for the complement of a pattern.
        """
        if isinstance(member, bool):
            return Domain(booleans=BOTH - self.booleans)
        if isinstance(member, str):
            if self.strings.likes:
                raise ValueError("a pattern has no complement that is one domain")
            return Domain(strings=Strings(settle_strings(complement(self.strings.intervals))))
        if isinstance(member, Timestamp):
            return Domain(timestamps=complement(self.timestamps))
        return Domain(numbers=complement(self.numbers))

    def subtract(self, other: Domain) -> tuple[Domain, ...]:
        """Return the difference of this domain and `other` as disjoint domains that are not empty."""
        pieces = (self.intersect(piece) for piece in other.complement())
        return tuple(piece for piece in pieces if not piece.is_empty)

    def test(self) -> Callable[[Value | None], bool]:
        """Return a fast function that tells whether a value (``None`` is missing) is in the domain."""
        tests: dict[type, Callable[[Any], bool]] = {}
        if self.numbers:
            tests[int] = tests[float] = membership(self.numbers)
        if self.strings.intervals:
            tests[str] = self.strings.test()
        if self.timestamps:
            tests[Timestamp] = membership(self.timestamps)
        if self.booleans:
            tests[bool] = self.booleans.__contains__
        if self.missing:
            tests[type(None)] = lambda value: True
        if self.null:
            tests[Null] = lambda value: True
        return _dispatch(tests)

    def sort_key(self) -> tuple[object, ...]:
        """Return a key that gives domains a total order."""
        return (
            tuple(map(sort_key, self.numbers)),
            tuple(map(sort_key, self.strings.intervals)),
            tuple(like.sort_key() for like in self.strings.likes),
            tuple(map(sort_key, self.timestamps)),
            sorted(self.booleans),
            self.missing,
            self.null,
        )


Domain.ANYTHING = Domain(True, BOTH, EVERYTHING, ALL_STRINGS, EVERYTHING, True)
Domain.THERE = Domain(False, BOTH, EVERYTHING, ALL_STRINGS, EVERYTHING, True)
Domain.PRESENT = Domain(False, BOTH, EVERYTHING, ALL_STRINGS, EVERYTHING)
Domain.ABSENT = Domain(missing=True, null=True)
Domain.MISSING = Domain(missing=True)
Domain.EMPTY = Domain()


def _plain(value: Value | None) -> Bound | None:
    # Nanoseconds are stored as plain integers: they are smaller on the wire, and the part of the domain gives the
    # type.
    return int(value) if type(value) is Timestamp else value


def _of_group(kind: type, intervals: Intervals) -> Domain:
    if kind is str:
        settled = settle_strings(intervals)
        return Domain(strings=Strings(settled) if settled else NO_STRINGS)
    if kind is Timestamp:
        return Domain(timestamps=intervals)
    return Domain(numbers=intervals)


def _dispatch(tests: dict[type, Callable[[object], bool]]) -> Callable[[Value | None], bool]:
    if tests.keys() == {str}:
        is_string = tests[str]
        return lambda value: type(value) is str and is_string(value)
    if tests.keys() == {int, float}:
        is_number = tests[int]
        return lambda value: ((kind := type(value)) is int or kind is float) and is_number(value)
    find = tests.get

    def test(value: Value | None) -> bool:
        found = find(type(value))
        return found is not None and found(value)

    return test
