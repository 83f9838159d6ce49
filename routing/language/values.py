"""Literal values in filters: their groups of comparable values, and limits on length and nesting.

Rule: None, NaN, infinities, integers beyond 64 bits and values longer than any filter are rejected when the filter is
made, not when it is evaluated.
"""

from __future__ import annotations

import math
from typing import Final

from ...protocol.errors import EventError, SelectorError
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Timestamp, Value, is_null, normalize

__all__ = ["CHARACTERS_MAX", "DEPTH_MAX", "GROUPS", "check_length", "check_literal", "is_integer"]

CHARACTERS_MAX: Final = 128 * 1024
"""The maximum length of a selector, both as input and as printed normal form, so that every printed filter parses."""
DEPTH_MAX: Final = 100
"""The maximum nesting depth of AND, OR and NOT, and of arithmetic, so that no recursion exhausts the stack."""

GROUPS: Final = {bool: "boolean", int: "number", float: "number", str: "string", Timestamp: "timestamp"}
"""The group of each type; values of one group are comparable."""


def check_literal(value: object) -> Value:
    """Return a Python or numpy scalar as a literal.

    Raises
    ------
    SelectorError
        If the value is missing, NaN, infinite, outside 64 bits or of no known kind.
    """
    try:
        literal = normalize(value)
    except EventError as error:
        raise SelectorError(str(error)) from None
    if literal is None or is_null(literal):
        raise SelectorError(
            "None and NaN cannot be compared with: use IS NULL, or is_null() for a missing attribute"
        )
    if type(literal) is str:
        check_length("a string", literal)
    if type(literal) is float and math.isinf(literal):
        raise SelectorError("an infinite number cannot be compared with: leave that bound out")
    if type(literal) is Timestamp and not INTEGER_MIN <= literal <= INTEGER_MAX:
        raise SelectorError("a timestamp must be in the years 1678 to 2262")
    return literal


def is_integer(number: float) -> bool:
    """Return whether a float is an integer of 64 bits."""
    return number.is_integer() and INTEGER_MIN <= number <= INTEGER_MAX


def check_length(word: str, given: str | tuple[object, ...]) -> None:
    """Raise SelectorError for a value longer than any filter, before time and memory are spent on it."""
    if len(given) > CHARACTERS_MAX:
        what = "characters" if isinstance(given, str) else "values"
        raise SelectorError(f"{word} of {len(given)} {what}, the limit of a whole filter is {CHARACTERS_MAX}")
