"""Upper and lower case, a character at a time.

Rules
-----
* Two characters are a *pair* when each is the other in the other case: ``S`` and ``s``, ``É`` and ``é``. A character
  is in one pair at most; one that is in none (a digit, ``ß``, which two characters are in upper case) has no case.
* So a text has as many characters in upper case as in lower case, and two texts that are equal in one are equal in the
  other: to ignore case is to compare either.

Source: `equals-ignore-case` of EventBridge takes a character in both cases; pairs leave out some thirty characters, of
which one case leads to a third character (``µ``, ``ſ``).
"""

from __future__ import annotations

__all__ = ["either_case", "in_lower_case", "in_upper_case"]


def in_upper_case(text: str) -> str:
    """Return a text in upper case, with as many characters."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def in_lower_case(text: str) -> str:
    """Return a text in lower case, with as many characters."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def either_case(character: str) -> str:
    """Return a character in upper and lower case, two characters; or itself when it has no case."""
    upper, lower = _upper(character), _lower(character)
    return character if upper == lower else upper + lower


def _upper(character: str) -> str:
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character else character


def _lower(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 and lower.upper() == character else character
