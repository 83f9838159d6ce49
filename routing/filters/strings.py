"""Sets of strings: intervals by code point, and LIKE patterns.

Rules
-----
* A pattern that is an equality or a prefix is stored as an interval, not as a pattern: ``LIKE 'abc%'`` is
  ``['abc', 'abd')``. A :class:`LikePattern` has a wildcard that no interval can express.
* A set is the strings of some intervals that satisfy *all* of some patterns. The union of two such sets is often not
  such a set; then :meth:`Strings.union` returns None and the filter keeps two clauses.
* With patterns, "covers" and "is empty" may be falsely negative, never falsely positive; without, both are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ..language.like_tests import Pattern
from ..language.piece_finder import Piece
from .intervals import (
    EVERYTHING,
    NOTHING,
    Interval,
    Intervals,
    complement,
    covers,
    intersect,
    membership,
    point,
    prefix_interval,
    prefix_of,
    settle_strings,
    unite,
)
from .likes import LikePattern, canonical_pattern, literal_prefix
from .networks import Network

TextCondition: TypeAlias = LikePattern | Network


@dataclass(frozen=True, slots=True)
class Strings:
    """A set of strings: those in `intervals` that satisfy every condition of `likes`."""

    intervals: Intervals = EVERYTHING
    likes: tuple[TextCondition, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return Strings, (self.intervals, self.likes)

    @property
    def is_empty(self) -> bool:
        """Whether the set is known to be empty."""
        return not self.intervals

    def contains(self, text: str) -> bool:
        """Return whether the string is in the set."""
        return any(i.contains(text) for i in self.intervals) and all(
            like.matches(text) for like in self.likes
        )

    def test(self) -> Callable[[str], bool]:
        """Return a fast function that tells whether a string is in the set."""
        if not self.likes:
            return membership(self.intervals)
        tests = [like.test() for like in self.likes]
        # Intervals that only repeat the prefix of a pattern need no separate test.
        if self.intervals != implied_intervals(self.likes):
            tests.insert(0, membership(self.intervals))
        if len(tests) == 1:
            return tests[0]
        if len(tests) == 2:
            first, second = tests
            return lambda text: first(text) and second(text)
        return lambda text: all(test(text) for test in tests)

    def intersect(self, other: Strings) -> Strings:
        """Return the strings that are in both."""
        intervals = intersect(self.intervals, other.intervals)
        if not (self.likes or other.likes):
            return Strings(intervals)
        return settle(intervals, self.likes + other.likes)

    def covers(self, other: Strings) -> bool:
        """Return True only if every string of `other` is in this set; exact when there are no patterns."""
        if not other.intervals:
            return True
        if not covers(self.intervals, other.intervals):
            return False
        return all(_implied(like, other) for like in self.likes)

    def union(self, other: Strings) -> Strings | None:
        """Return the strings that are in either, or None when no single :class:`Strings` holds exactly these."""
        if self.likes == other.likes:
            return settle(unite(self.intervals + other.intervals), self.likes)
        if self.covers(other):
            return self
        return other if other.covers(self) else None

    def complement(self) -> tuple[Strings, ...]:
        """Return the strings that are not in the set, as disjoint sets."""
        pieces = [Strings(settle_strings(complement(self.intervals)))]
        inside = Strings(self.intervals)
        for like in self.likes:
            pieces.append(inside.intersect(strings_of(like.inverse)))
            inside = inside.intersect(strings_of(like))
        return tuple(piece for piece in pieces if piece.intervals)


ALL_STRINGS: Final = Strings()
NO_STRINGS: Final = Strings(NOTHING)


def strings_of(condition: TextCondition) -> Strings:
    """Return the strings that satisfy a condition."""
    if isinstance(condition, Network):
        return Strings(EVERYTHING, (condition,))
    return like_strings(condition.pattern, negated=condition.negated)


def like_strings(pieces: Sequence[Piece], *, negated: bool = False) -> Strings:
    """Return the strings that match a LIKE pattern, or do not; as intervals where possible."""
    pattern = canonical_pattern(pieces)
    intervals = _as_intervals(pattern)
    if intervals is not None:
        return Strings(settle_strings(complement(intervals)) if negated else intervals)
    return settle(EVERYTHING, (LikePattern(pattern, negated),))


def _as_intervals(pattern: Pattern) -> Intervals | None:
    prefix = literal_prefix(pattern)
    if len(prefix) == len(pattern[0]):
        if len(pattern) == 1:
            return (point(prefix),)
        if len(pattern) == 2 and not pattern[1]:
            return (prefix_interval(prefix),)
    if pattern == ((None,), ()):  # at least one character
        return (Interval("", None, True, False),)
    return None


def implied_intervals(likes: Iterable[TextCondition]) -> Intervals:
    """Return the intervals that the literal prefixes of the patterns imply."""
    intervals = EVERYTHING
    for like in likes:
        if not like.negated:
            intervals = intersect(intervals, (prefix_interval(like.prefix),))
    return intervals


def settle(intervals: Intervals, likes: Iterable[TextCondition]) -> Strings:
    """Return the canonical form of the strings of `intervals` that satisfy all of `likes`.

    Single strings are tested immediately, prefixes narrow the intervals, and a pattern that another pattern or the
    intervals imply is removed.
    """
    kept = sorted(set(likes), key=lambda like: like.sort_key())
    intervals = settle_strings(intersect(intervals, implied_intervals(kept)))
    if kept and any(interval.is_point for interval in intervals):
        tests = [like.test() for like in kept]
        intervals = tuple(i for i in intervals if not i.is_point or all(test(str(i.low)) for test in tests))
    if not intervals or any(a.excludes(b) for a in kept for b in kept if a is not b):
        return NO_STRINGS
    if all(interval.is_point for interval in intervals):
        return Strings(intervals)
    for like in tuple(kept):
        if _implied(like, Strings(intervals, tuple(other for other in kept if other is not like))):
            kept.remove(like)
    return Strings(intervals, tuple(kept))


def _implied(like: TextCondition, strings: Strings) -> bool:
    """Return True only if every string of `strings` satisfies `like`."""
    if any(other.implies(like) for other in strings.likes):
        return True
    # Single strings come last: a test of them is made only if it decides.
    points = [str(interval.low) for interval in strings.intervals if interval.is_point]
    if not all(_interval_implies(i, like) for i in strings.intervals if not i.is_point):
        return False
    return all(map(like.test(), points)) if points else True


def _interval_implies(interval: Interval, like: TextCondition) -> bool:
    prefix = prefix_of(interval)
    return bool(prefix) and LikePattern((tuple(prefix), ())).implies(like)
