"""Literals of selector text: strings, numbers in Java syntax, and timestamps.

Rules
-----
* An integer may be decimal, hexadecimal (``0x2A``), binary (``0b101010``) or, with a leading 0, octal (``052``),
  with an optional ``L`` suffix. A float may have an ``f`` or ``d`` suffix, and may be hexadecimal (``0x1.5p5``).
  ``_`` is allowed between digits. All numbers have 64 bits; an integer that is not decimal may set the sign bit.
* An invalid literal is rejected with the position of its token.

Source: JMS 1.1, section 3.8.1.1 (the literals of Java); the Java Language Specification, 3.10.1 and 3.10.2.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Final, NoReturn

from ...protocol.errors import SelectorError
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Timestamp

if TYPE_CHECKING:
    from lark import Token

__all__ = ["at", "read_number", "read_timestamp", "unquoted"]

_DIGITS_MAX: Final = 400
"""Longer integers are rejected before parsing, whose time grows with the square of the length."""


def at(token: Token, message: str) -> NoReturn:
    """Raise a SelectorError with the position of a token."""
    line, column = token.line or 0, token.column or 0
    raise SelectorError(f"line {line}, column {column}: {message}", line=line, column=column)


def unquoted(token: Token) -> str:
    """Return the text of a string in single or double quotes."""
    text = str(token)
    return text[1:-1].replace(text[0] * 2, text[0])


def read_number(token: Token, *, negative: bool = False) -> int | float:
    """Parse a number; `negative` if a minus precedes it, which is needed for the least integer."""
    text = str(token)
    mantissa, _, exponent = text.lower().partition("p" if text[:2] in ("0x", "0X") else "e")
    digits = "0-9a-f" if text[:2] in ("0x", "0X") else "0-9"
    if _is_stray(mantissa.removeprefix("0x").removeprefix("0b"), digits) or _is_stray(exponent, "0-9"):
        at(token, f"{_shortened(text)} is no number: _ stands between digits")
    plain = text.replace("_", "").lower()
    integer = _integer(token, plain)
    if integer is None:
        return -_float(token, plain) if negative else _float(token, plain)
    if negative:
        integer = -integer
    if not INTEGER_MIN <= integer <= INTEGER_MAX:
        _too_large(token)
    return integer


def _is_stray(text: str, digits: str) -> bool:
    """Return whether a ``_`` is anywhere else than between digits."""
    return re.search(f"_(?![{digits}_])|(?<![{digits}_])_", text) is not None


def _integer(token: Token, text: str) -> int | None:
    """Parse an integer, or return None if it is none; an integer that is not decimal may set the sign bit."""
    digits, base = text.removesuffix("l"), 10
    if digits[:2] in ("0x", "0b"):
        digits, base = digits[2:], 16 if digits[1] == "x" else 2
    elif digits[0] == "0" and len(digits) > 1 and digits.isdigit():
        base = 8
        if digits.strip("01234567"):
            at(token, f"{_shortened(text)} is no octal number, which a leading 0 makes it: leave the 0 out")
    if digits.strip("0123456789abcdef"[:base]):
        return None
    if len(digits) > _DIGITS_MAX:
        _too_large(token)
    value = int(digits, base)
    if base == 10:
        return value
    if value >= 2**64:
        _too_large(token)
    return value - 2**64 if value > INTEGER_MAX else value


def _too_large(token: Token) -> NoReturn:
    at(token, f"the integer {_shortened(str(token))} does not fit in 64 bits: write it as a float")


def _float(token: Token, text: str) -> float:
    if text[-1] == "l":
        at(token, f"{_shortened(str(token))} is no number: L stands after integers only")
    if text[:2] == "0x" and "p" not in text:
        at(
            token,
            f"{_shortened(str(token))} is no number: a hexadecimal float has a p and its exponent of two",
        )
    try:
        number = float.fromhex(text.rstrip("fd")) if text[:2] == "0x" else float(text.rstrip("fd"))
    except OverflowError:
        number = float("inf")
    except ValueError:
        at(token, f"{_shortened(str(token))} is no number")
    if number == float("inf"):
        at(token, f"the number {_shortened(str(token))} is too large for a float")
    return number


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


_ISO: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:Z|([+-])([0-9]{2}):?([0-9]{2}))?)?",
    re.IGNORECASE,
)
_UNIX: Final = datetime.datetime(1970, 1, 1)


def read_timestamp(token: Token) -> Timestamp:
    """Parse the timestamp in a string."""
    text = unquoted(token)
    found = _ISO.fullmatch(text.strip())
    if found is None:
        at(
            token,
            f"{_shortened(text)!r} is no timestamp: "
            "write TIMESTAMP '2013-01-01 05:00:00', with Z or +01:00 at its end where it needs one",
        )
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = found.groups()
    try:
        moment = datetime.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError as error:
        at(token, f"{_shortened(text)!r} is no timestamp: {error}")
    past = moment - _UNIX
    seconds = past.days * 86_400 + past.seconds
    if sign:
        if int(off_hours) > 23 or int(off_minutes) > 59:
            at(token, f"{_shortened(text)!r} is no timestamp: its offset from UTC is out of range")
        offset = int(off_hours) * 3600 + int(off_minutes) * 60
        seconds += -offset if sign == "+" else offset
    nanoseconds = seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    if not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
        at(token, f"the timestamp {_shortened(text)!r} is outside the years 1678 to 2262")
    return Timestamp(nanoseconds)
