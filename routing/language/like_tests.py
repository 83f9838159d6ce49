"""Tests of strings against LIKE patterns.

Rules
-----
* A test never backtracks: each piece between two ``%`` is searched for once, from the left, because the first
  match is always sufficient.
* So the time is linear in the length of the text. A pattern that ignores case is searched for in the text in lower
  case. A regular expression, the fastest method, is used where it takes at
  most `SHORT_STEPS` steps, and `piece_finder` otherwise. This matters because patterns and texts are untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from .cases import either_case, in_lower_case
from .like_patterns import ANY_TEXT, SHORT_PATTERN
from .piece_finder import Piece, PieceFinder

__all__ = ["SHORT_STEPS", "Pattern", "like_test", "pieces_of"]

Pattern: TypeAlias = tuple[Piece, ...]
"""The pieces between the ``%`` of a pattern; a single piece means no ``%``."""

SHORT_STEPS: Final = 1 << 16
"""The maximum product of the lengths of text and pattern for a regular expression: a tenth of a millisecond."""


def pieces_of(elements: tuple[str | int, ...]) -> Pattern:
    """Return the pieces of a pattern from its elements (:func:`~.like_patterns.like_elements`)."""
    cuts = [-1, *(i for i, element in enumerate(elements) if element == ANY_TEXT), len(elements)]
    return tuple(
        tuple(element if isinstance(element, str) else None for element in elements[start + 1 : end])
        for start, end in pairwise(cuts)
    )


def like_test(pattern: Pattern) -> Callable[[str], bool]:
    """Return a fast function that tells whether a string matches.

    The function for a long pattern is not cached: the cache is bounded by count, so its entries must be small.
    """
    short = sum(map(len, pattern)) + len(pattern) <= SHORT_PATTERN
    return (_test_kept if short else _test_made)(pattern)


def _test_made(pattern: Pattern) -> Callable[[str], bool]:
    wanted = "".join(element or "" for element in pattern[-2 if len(pattern) == 3 else -1])
    if pattern == ((), tuple(wanted), ()):
        return lambda text: wanted in text
    if pattern == ((), tuple(wanted)):
        return lambda text: text.endswith(wanted)
    length = sum(map(len, pattern))
    if length > SHORT_PATTERN:
        return _long_test(pattern)
    match, long, longest = _pattern_regex(pattern).match, _long_test(pattern), SHORT_STEPS // (length + 1)
    return lambda text: (match(text) is not None) if len(text) <= longest else long(text)


_test_kept: Final = lru_cache(maxsize=1024)(_test_made)


def _long_test(pattern: Pattern) -> Callable[[str], bool]:
    lower = _in_lower_case(pattern)
    if lower is not None:  # letters in either case cannot be searched for, letters in lower case can
        holds_lower = _long_test(lower)
        return lambda text: holds_lower(in_lower_case(text))
    pieces = [PieceFinder(piece) for piece in pattern]
    head, middle, tail = pieces[0], pieces[1:-1], pieces[-1]
    if len(pieces) == 1:
        return lambda text: len(text) == head.length and head.fits(text, 0)

    def holds(text: str) -> bool:
        start, end = head.length, len(text) - tail.length
        if start > end or not head.fits(text, 0) or not tail.fits(text, end):
            return False
        for piece in middle:
            start = piece.find(text, start, end)
            if start < 0:
                return False
            start += piece.length
        return True

    return holds


def _in_lower_case(pattern: Pattern) -> Pattern | None:
    """Return a pattern of either case as one for texts in lower case; None for a pattern that does not ignore case."""
    elements = [element for piece in pattern for element in piece if element]
    if all(len(element) == 1 for element in elements):
        return None
    if any(len(element) == 1 and len(either_case(element)) > 1 for element in elements):
        return None
    if any(len(element) == 2 and either_case(element[1]) != element for element in elements):
        return None
    return tuple(tuple(element and element[-1] for element in piece) for piece in pattern)


def _pattern_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return a regular expression for the whole string, with an atomic group per middle piece: it never backtracks."""
    parts = [_piece_regex(pattern[0])]
    if len(pattern) > 1:
        parts += [f"(?>.*?{_piece_regex(piece)})" for piece in pattern[1:-1]]
        parts.append(".*" + _piece_regex(pattern[-1]))
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


def _piece_regex(piece: Piece) -> str:
    return "".join(
        "." if element is None else re.escape(element) if len(element) == 1 else f"[{re.escape(element)}]"
        for element in piece
    )
