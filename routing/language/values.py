"""Values as they are written in a filter: what may be compared with what, and how deep a filter may be nested.

Rule: None, NaN, infinities, what 64 bits do not hold and what is longer than any filter are refused when the filter is
made, not when it is asked.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ...protocol.errors import EventError, SelectorError
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Timestamp, Value, is_null, normalize

__all__ = ["CHARACTERS_MAX", "DEPTH_MAX", "GROUPS", "check_length", "check_literal"]

CHARACTERS_MAX: Final = 128 * 1024
"""How long a filter may be, as a selector: as it is read, and in normal form. So every filter's text can be read."""
DEPTH_MAX: Final = 100
"""How deep AND, OR and NOT, or arithmetic, may be nested in each other: no walk over a filter runs out of stack."""

GROUPS: Final = {bool: "boolean", int: "number", float: "number", str: "string", Timestamp: "timestamp"}
"""Values of one group compare with each other."""


def check_literal(value: Any) -> Value:
    """Return a Python or numpy scalar as a literal.

    Raises
    ------
    SelectorError
        If it is missing, NaN, infinite, outside 64 bits or of no known kind.
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


def check_length(word: str, given: str | tuple[Any, ...]) -> None:
    """Raise SelectorError where no filter is that long: before time and memory go into it."""
    if len(given) > CHARACTERS_MAX:
        what = "characters" if isinstance(given, str) else "values"
        raise SelectorError(f"{word} of {len(given)} {what}, the limit of a whole filter is {CHARACTERS_MAX}")
