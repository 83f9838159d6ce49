"""LIKE patterns: their canonical form, and implication and exclusion between them.

Rules
-----
* Every pattern has a canonical form: no two ``%`` side by side, and ``_`` before ``%`` rather than after (``%_`` is
  ``_%``).
* A character stands for itself, or for either case (``"Ss"``); a pattern that ignores case has only the latter.
* `language/like_tests` tests strings against patterns.
* Implication and exclusion are decided soundly but not completely: True is always correct. They are not decided
  for two patterns that are both long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, takewhile
from typing import Final

from ..language.cases import in_lower_case
from ..language.like_patterns import SHORT_PATTERN
from ..language.like_tests import Pattern, like_test
from ..language.piece_finder import Piece

STEPS_MAX: Final = 1 << 20
"""The maximum product of two patterns' lengths for which implication is decided: a tenth of a second at worst."""


@dataclass(frozen=True, slots=True)
class LikePattern:
    """One pattern condition on a string: it matches `pattern`, or (negated) it does not.

    `pattern` is the tuple of pieces between the ``%`` wildcards of a LIKE pattern. In a piece, ``None`` is the
    ``_`` wildcard (exactly one character), two characters stand for either of them, and every other element is
    one literal character. ``('a', ), ()`` is ``a%``. An empty first or last piece means that the pattern begins
    or ends with ``%``. A single piece means that the pattern has no ``%``.
    """

    pattern: Pattern
    negated: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return LikePattern, (self.pattern, self.negated)

    @property
    def is_suffix(self) -> bool:
        """Whether the pattern is ``%`` followed by literal characters only."""
        return len(self.pattern) == 2 and not self.pattern[0] and all(map(is_literal, self.pattern[1]))

    @property
    def is_contains(self) -> bool:
        """Whether the pattern is literal characters between two ``%``."""
        return (
            len(self.pattern) == 3
            and not (self.pattern[0] or self.pattern[2])
            and all(map(is_literal, self.pattern[1]))
        )

    @property
    def ignores_case(self) -> bool:
        """Whether a character of the pattern may be in either case."""
        return any(element is not None and len(element) == 2 for piece in self.pattern for element in piece)

    @property
    def prefix(self) -> str:
        """The literal characters with which every match begins."""
        return literal_prefix(self.pattern)

    def test(self) -> Callable[[str], bool]:
        """Return a fast function that tells whether a string satisfies the condition."""
        holds = like_test(self.pattern)
        if self.negated:
            return lambda text: not holds(text)
        return holds

    def matches(self, text: str) -> bool:
        """Return whether a string satisfies the condition."""
        return like_test(self.pattern)(text) is not self.negated

    @property
    def characters(self) -> int:
        """The length as text, without escapes."""
        return _size(self.pattern)

    @property
    def inverse(self) -> LikePattern:
        """The negated condition."""
        return LikePattern(self.pattern, not self.negated)

    def implies(self, other: object) -> bool:
        """Return True only if every string that satisfies this condition satisfies `other`; False may be wrong."""
        if not isinstance(other, LikePattern):
            return False
        if self.negated:
            return other.negated and pattern_implies(other.pattern, self.pattern)
        if other.negated:
            return patterns_disjoint(self.pattern, other.pattern)
        return pattern_implies(self.pattern, other.pattern)

    def excludes(self, other: object) -> bool:
        """Return True only if no string satisfies both; False may be wrong."""
        return isinstance(other, LikePattern) and self.implies(other.inverse)

    def sort_key(self) -> tuple[object, ...]:
        """Return a key that gives conditions a total order."""
        pattern = tuple(
            tuple((element is None, element or "") for element in piece) for piece in self.pattern
        )
        return 0, self.negated, pattern


def literal_prefix(pattern: Pattern) -> str:
    """Return the literal characters with which every match begins."""
    return "".join(element or "" for element in takewhile(is_literal, pattern[0]))


def is_literal(element: str | None) -> bool:
    """Return whether the element is a single literal character."""
    return element is not None and len(element) == 1


def canonical_pattern(pieces: Sequence[Piece]) -> Pattern:
    """Return the canonical form of a pattern: ``_`` moved before ``%``, and no ``%`` twice in a row."""
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
    if narrow == wide:
        return True
    if _size(narrow) * _size(wide) > STEPS_MAX:
        return False
    if not _letters(wide) <= _letters(narrow):  # most pairs fail this cheap test
        return False
    if _matches_symbols(narrow, wide):
        return True
    shifted = _wild_to_the_right(wide)
    return shifted != wide and _matches_symbols(narrow, shifted)


def _size(pattern: Pattern) -> int:
    return sum(map(len, pattern)) + len(pattern)


def _letters(pattern: Pattern) -> frozenset[str]:
    """Return the characters, in lower case, that every match contains."""
    short = _size(pattern) <= SHORT_PATTERN
    return (_letters_kept if short else _letters_of)(pattern)


def _letters_of(pattern: Pattern) -> frozenset[str]:
    return frozenset(in_lower_case(element[-1]) for piece in pattern for element in piece if element)


_letters_kept: Final = lru_cache(maxsize=1024)(_letters_of)


def _wild_to_the_right(pattern: Pattern) -> Pattern:
    """Return the same pattern with ``_`` after ``%`` instead of before: ``_%a`` as ``%_a``."""
    out = list(pattern)
    for position in range(len(out) - 1):
        piece = out[position]
        kept = len(piece)
        while kept and piece[kept - 1] is None:
            kept -= 1
        out[position : position + 2] = [piece[:kept], piece[kept:] + out[position + 1]]
    return tuple(out)


def _matches_symbols(narrow: Pattern, wide: Pattern) -> bool:
    """Return whether `wide` matches `narrow` as a text in which ``%`` and ``_`` are ordinary characters."""
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
    """Search `narrow` from the left for the middle pieces of `wide`, between its head and its tail."""
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
    for have, want in zip(piece[start : start + len(wanted)], wanted, strict=True):
        if want is not None and (have is None or have not in want):
            return False
    return True


def patterns_disjoint(left: Pattern, right: Pattern) -> bool:
    """Return True only if no string matches both: their heads, their tails or their lengths cannot agree."""
    heads = zip(left[0], right[0], strict=False)
    tails = zip(reversed(left[-1]), reversed(right[-1]), strict=False)
    if any(a is not None and b is not None and a not in b and b not in a for a, b in chain(heads, tails)):
        return True
    left_length, right_length = sum(map(len, left)), sum(map(len, right))
    return (len(left) == 1 and right_length > left_length) or (len(right) == 1 and left_length > right_length)
