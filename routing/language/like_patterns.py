"""LIKE patterns as text: their elements, their limits, and the escape.

Rule: a pattern that is read here is not yet a test of strings (`like_tests`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final

from ...protocol.checks import shown
from ...protocol.errors import SelectorError

ANY_TEXT: Final = 0
ANY_CHARACTER: Final = 1


SHORT_PATTERN: Final = 256
"""Results for longer patterns are not cached; so a cache that is bounded by count is also bounded in bytes."""


def like_elements(pattern: str, escape: str | None = None) -> tuple[str | int, ...]:
    """Return a LIKE pattern as characters, :data:`ANY_TEXT` (``%``) and :data:`ANY_CHARACTER` (``_``).

    Raises
    ------
    SelectorError
        If the escape character is not followed by ``%``, ``_`` or itself.
    """
    return (_elements_kept if len(pattern) <= SHORT_PATTERN else _elements)(pattern, escape)


WILD_MAX: Final = 1024
"""The maximum length of the part between two ``%`` if it has a ``_`` between other characters."""


def _elements(pattern: str, escape: str | None) -> tuple[str | int, ...]:
    out: list[str | int] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in ("%", "_", escape):
                raise SelectorError(
                    f"in the pattern {shown(pattern)} the escape {escape!r} must stand before %, _ or itself"
                )
            out.append(following)
        elif character == "%":
            out.append(ANY_TEXT)
        else:
            out.append(ANY_CHARACTER if character == "_" else character)
    if len(out) > WILD_MAX and ANY_CHARACTER in out:
        _check_wild(out)
    return tuple(out)


def _check_wild(elements: list[str | int]) -> None:
    cuts = [place for place, element in enumerate(elements) if element == ANY_TEXT]
    for start, end in pairwise(cuts):
        literal = [i for i in range(start + 1, end) if elements[i] != ANY_CHARACTER]
        length = literal[-1] - literal[0] + 1 if literal else 0
        if length > WILD_MAX and length > len(literal):
            raise SelectorError(
                f"a pattern has {length} characters between two %, with a _ among them: the limit is {WILD_MAX}"
            )


_elements_kept: Final = lru_cache(maxsize=1024)(_elements)


def plain_pattern(pattern: str, escape: str) -> str:
    """Convert a pattern to one whose escape is a backslash; an escape before an ordinary character is literal.

    JMS does not define that case; JMS brokers treat it this way.
    """
    out: list[str] = []
    characters = iter(pattern)
    for character in characters:
        following = ""
        if character == escape:
            following = next(characters, "")
            if following in ("%", "_", escape) and following:
                out.append("\\" + following if following in ("%", "_", "\\") else following)
                continue
        out += ["\\\\" if each == "\\" else each for each in character + following]
    return "".join(out)
