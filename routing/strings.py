"""Sets of strings: intervals by code point, and LIKE patterns.

Rules
-----
* A pattern that is an equality or a prefix is kept as an interval, not as a pattern: ``LIKE 'abc%'`` is
  ``['abc', 'abd')``. What stays a :class:`Like` has a wildcard that no interval can say.
* One form for one pattern: no two ``%`` side by side, and ``_`` before ``%`` rather than after (``%_`` is ``_%``).
* A set is the strings of some intervals that satisfy *all* of some patterns. The union of two such sets is often not
  one; then :meth:`Strings.union` returns None and the filter keeps two clauses.
* Whether one pattern implies another is decided soundly, not completely: "covers" may say no too often, never yes,
  and "is empty" the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from .intervals import (
    EVERYTHING,
    NOTHING,
    Interval,
    Intervals,
    complement,
    covers,
    intersect,
    point,
    prefix_interval,
    prefix_of,
    settle_strings,
    test_of,
    unite,
)

Piece: TypeAlias = tuple[str | None, ...]
Pattern: TypeAlias = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """One pattern condition on a string: it matches `pattern`, or (negated) it does not.

    `pattern` is the tuple of what stands between the ``%`` wildcards of a LIKE pattern; in a piece, ``None`` is the
    ``_`` wildcard (exactly one character) and every other element one literal character. ``('a', ), ()`` is ``a%``;
    an empty first or last piece means that the pattern begins or ends with ``%``; one piece alone is no wildcard.
    """

    pattern: Pattern
    negated: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Like, (self.pattern, self.negated)

    @property
    def is_suffix(self) -> bool:
        """Whether the pattern is ``%`` and then only literal characters."""
        return len(self.pattern) == 2 and not self.pattern[0] and None not in self.pattern[1]

    @property
    def is_contains(self) -> bool:
        """Whether the pattern is literal characters between two ``%``."""
        return (
            len(self.pattern) == 3
            and not (self.pattern[0] or self.pattern[2])
            and None not in self.pattern[1]
        )

    @property
    def prefix(self) -> str:
        """The literal characters that every match of the pattern begins with."""
        return literal_prefix(self.pattern)

    def test(self) -> Callable[[str], bool]:
        """Return a fast function that says whether a string satisfies the condition."""
        return _pattern_test(self.pattern, self.negated)

    def matches(self, text: str) -> bool:
        """Return whether a string satisfies the condition."""
        return _pattern_test(self.pattern, self.negated)(text)

    def implies(self, other: Like) -> bool:
        """Return True only if every string that satisfies this satisfies `other`; False may be wrong."""
        if self.negated:
            return other.negated and pattern_implies(other.pattern, self.pattern)
        if other.negated:
            return patterns_disjoint(self.pattern, other.pattern)
        return pattern_implies(self.pattern, other.pattern)

    def excludes(self, other: Like) -> bool:
        """Return True only if no string satisfies both; False may be wrong."""
        return self.implies(Like(other.pattern, not other.negated))


def literal_prefix(pattern: Pattern) -> str:
    """Return the literal characters that every match begins with."""
    head = pattern[0]
    end = head.index(None) if None in head else len(head)
    return "".join(head[:end])  # type: ignore[arg-type]  # no None before `end`


@lru_cache(maxsize=4096)
def _pattern_test(pattern: Pattern, negated: bool) -> Callable[[str], bool]:
    match = pattern_regex(pattern).match
    if negated:
        return lambda text: match(text) is None
    return lambda text: match(text) is not None


def pattern_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return a regular expression for the whole string.

    The first place where a middle piece fits is always good enough, so each is an atomic group: no pattern makes the
    search go back, and the time is at most the length of the text times that of the pattern.
    """
    parts = [_piece_regex(pattern[0])]
    if len(pattern) > 1:
        parts += [f"(?>.*?{_piece_regex(piece)})" for piece in pattern[1:-1]]
        parts.append(".*" + _piece_regex(pattern[-1]))
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


def _piece_regex(piece: Piece) -> str:
    return "".join("." if element is None else re.escape(element) for element in piece)


def canonical_pattern(pieces: Sequence[Piece]) -> Pattern:
    """Return the one form of a pattern: ``_`` moved before ``%``, and no ``%`` twice in a row."""
    out: list[Piece] = [tuple(pieces[0])]
    last = len(pieces) - 1
    for position, piece in enumerate(pieces[1:], start=1):
        wild = 0
        while wild < len(piece) and piece[wild] is None:
            wild += 1
        out[-1] += piece[:wild]
        rest = tuple(piece[wild:])
        if rest or position == last:
            out.append(rest)
    return tuple(out)


def pattern_implies(narrow: Pattern, wide: Pattern) -> bool:
    """Return True only if every string that matches `narrow` matches `wide`; False may be wrong."""
    if narrow == wide or _matches_symbols(narrow, wide):
        return True
    shifted = _wild_to_the_right(wide)
    return shifted != wide and _matches_symbols(narrow, shifted)


def _wild_to_the_right(pattern: Pattern) -> Pattern:
    """Return the same pattern with ``_`` after ``%`` instead of before: ``_%a`` as ``%_a``."""
    out = list(pattern)
    for position in range(len(out) - 1):
        piece = out[position]
        while piece and piece[-1] is None:
            piece = piece[:-1]
        wild = out[position][len(piece) :]
        out[position : position + 2] = [piece, wild + out[position + 1]]
    return tuple(out)


def _matches_symbols(narrow: Pattern, wide: Pattern) -> bool:
    """Return whether `wide` matches `narrow` read as a text in which ``%`` and ``_`` are letters of their own."""
    if len(wide) == 1:
        return len(narrow) == 1 and len(narrow[0]) == len(wide[0]) and _fits(narrow[0], 0, wide[0])
    head, tail = wide[0], wide[-1]
    if len(narrow) == 1 and len(narrow[0]) < len(head) + len(tail):
        return False
    if len(narrow[0]) < len(head) or not _fits(narrow[0], 0, head):
        return False
    if len(narrow[-1]) < len(tail) or not _fits(narrow[-1], len(narrow[-1]) - len(tail), tail):
        return False
    return _holds_middle(narrow, wide)


def _holds_middle(narrow: Pattern, wide: Pattern) -> bool:
    """Look for the middle pieces of `wide` in `narrow`, from the left, between its head and its tail."""
    piece_index, position = 0, len(wide[0])
    last = len(narrow) - 1
    for wanted in wide[1:-1]:
        while True:
            here = narrow[piece_index]
            end = len(here) - (len(wide[-1]) if piece_index == last else 0)
            while position + len(wanted) <= end and not _fits(here, position, wanted):
                position += 1
            if position + len(wanted) <= end:
                position += len(wanted)
                break
            piece_index, position = piece_index + 1, 0
            if piece_index > last:
                return False
    return True


def _fits(piece: Piece, start: int, wanted: Piece) -> bool:
    return all(want is None or piece[start + i] == want for i, want in enumerate(wanted))


def patterns_disjoint(left: Pattern, right: Pattern) -> bool:
    """Return True only if no string matches both: their heads, their tails or their lengths cannot agree."""
    if any(a is not None and b is not None and a != b for a, b in zip(left[0], right[0], strict=False)):
        return True
    tails = zip(reversed(left[-1]), reversed(right[-1]), strict=False)
    if any(a is not None and b is not None and a != b for a, b in tails):
        return True
    left_length, right_length = sum(map(len, left)), sum(map(len, right))
    return (len(left) == 1 and right_length > left_length) or (len(right) == 1 and left_length > right_length)


@dataclass(frozen=True, slots=True)
class Strings:
    """A set of strings: those in `intervals` that satisfy every condition of `likes`."""

    intervals: Intervals = EVERYTHING
    likes: tuple[Like, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self.intervals, self.likes)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to hold no string."""
        return not self.intervals

    def contains(self, text: str) -> bool:
        """Return whether the string is in the set."""
        return any(i.contains(text) for i in self.intervals) and all(
            like.matches(text) for like in self.likes
        )

    def test(self) -> Callable[[str], bool]:
        """Return a fast function that says whether a string is in the set."""
        if not self.likes:
            return test_of(self.intervals)
        tests = [like.test() for like in self.likes]
        # The intervals that only repeat the prefix of a pattern need no test of their own.
        if self.intervals != implied_intervals(self.likes):
            tests.insert(0, test_of(self.intervals))
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
        """Return True only if every string of `other` is in this; exact when there are no patterns."""
        if not other.intervals:
            return True
        if not covers(self.intervals, other.intervals):
            return False
        return all(_implied(like, other) for like in self.likes)

    def union(self, other: Strings) -> Strings | None:
        """Return the strings that are in either, or None when no one :class:`Strings` holds exactly these."""
        if self.likes == other.likes:
            return settle(unite(self.intervals + other.intervals), self.likes)
        if self.covers(other):
            return self
        return other if other.covers(self) else None

    def complement(self) -> tuple[Strings, ...]:
        """Return the strings that are not in it, as disjoint sets."""
        pieces = [Strings(settle_strings(complement(self.intervals)))]
        inside = Strings(self.intervals)
        for like in self.likes:
            pieces.append(inside.intersect(like_strings(like.pattern, negated=not like.negated)))
            inside = inside.intersect(like_strings(like.pattern, negated=like.negated))
        return tuple(piece for piece in pieces if piece.intervals)


ALL_STRINGS: Final = Strings()
NO_STRINGS: Final = Strings(NOTHING)


def like_strings(pieces: Sequence[Piece], *, negated: bool = False) -> Strings:
    """Return the strings that match a LIKE pattern, or do not; as intervals where it can be said so."""
    pattern = canonical_pattern(pieces)
    intervals = _as_intervals(pattern)
    if intervals is not None:
        return Strings(settle_strings(complement(intervals)) if negated else intervals)
    return settle(EVERYTHING, (Like(pattern, negated),))


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


def implied_intervals(likes: Iterable[Like]) -> Intervals:
    """Return the intervals that the patterns' literal prefixes amount to."""
    intervals = EVERYTHING
    for like in likes:
        if not like.negated:
            intervals = intersect(intervals, (prefix_interval(like.prefix),))
    return intervals


def settle(intervals: Intervals, likes: Iterable[Like]) -> Strings:
    """Return the one form of the strings of `intervals` that satisfy all of `likes`.

    Single strings are decided here and now, prefixes narrow the intervals, and a pattern that another one (or the
    intervals) implies is left out.
    """
    kept = sorted(set(likes), key=like_key)
    intervals = settle_strings(intersect(intervals, implied_intervals(kept)))
    if kept:
        intervals = tuple(
            i for i in intervals if not i.is_point or all(like.matches(str(i.low)) for like in kept)
        )
    if not intervals or any(a.excludes(b) for a in kept for b in kept if a is not b):
        return NO_STRINGS
    if all(interval.is_point for interval in intervals):
        return Strings(intervals)
    for like in tuple(kept):
        if _implied(like, Strings(intervals, tuple(other for other in kept if other is not like))):
            kept.remove(like)
    return Strings(intervals, tuple(kept))


def _implied(like: Like, strings: Strings) -> bool:
    """Return True only if every string of `strings` satisfies `like`."""
    if any(other.implies(like) for other in strings.likes):
        return True
    return all(
        like.matches(str(interval.low)) if interval.is_point else _interval_implies(interval, like)
        for interval in strings.intervals
    )


def _interval_implies(interval: Interval, like: Like) -> bool:
    prefix = prefix_of(interval)
    return bool(prefix) and Like((tuple(prefix), ())).implies(like)


def like_key(like: Like) -> tuple[Any, ...]:
    """Return a key that gives conditions a total order."""
    pattern = tuple(tuple((element is None, element or "") for element in piece) for piece in like.pattern)
    return like.negated, pattern
