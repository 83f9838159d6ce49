"""Upper and lower case, character by character.

Rules
-----
* Two characters are a *pair* when each is the other one in the other case: ``S`` and ``s``, ``É`` and ``é``. A
  character is in at most one pair. A character in no pair (a digit, or ``ß``, whose upper case has two
  characters) has no case.
* So the conversion does not change the length of a text, and two texts that are equal in upper case are equal in
  lower case: comparison in either case ignores case.

Source: `equals-ignore-case` of EventBridge accepts a character in both cases. Pairs exclude about thirty characters
whose conversion leads to a third character (``µ``, ``ſ``).
"""

from __future__ import annotations

__all__ = ["either_case", "in_lower_case", "in_upper_case"]


def in_upper_case(text: str) -> str:
    """Return a text of the same length in upper case."""
    return text.upper() if text.isascii() else text.translate({ord(c): _upper(c) for c in set(text)})


def in_lower_case(text: str) -> str:
    """Return a text of the same length in lower case."""
    return text.lower() if text.isascii() else text.translate({ord(c): _lower(c) for c in set(text)})


def either_case(character: str) -> str:
    """Return a character in upper and lower case (two characters), or the character itself when it has no case."""
    upper, lower = _upper(character), _lower(character)
    return character if upper == lower else upper + lower


def _upper(character: str) -> str:
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character else character


def _lower(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 and lower.upper() == character else character
