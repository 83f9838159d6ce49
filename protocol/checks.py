"""Validation of arguments, in one place: an argument is either valid, or is named in an error.

Rules
-----
* Every check returns the value, so that a call can stand where the value is used.
* Booleans and NaN are not numbers. Numbers of numpy are numbers.
* The message has the argument's name, its value, and the requirement. A long value is truncated.
* The error is an `InputError`, or the subclass that the caller names.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Final, TypeVar

from .errors import InputError
from .printable import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SECONDS_MAX: Final = 1e9
"""The longest wait, about 31 years; the underlying wait functions accept no more."""
SHOWN_CHARACTERS: Final = 80

T = TypeVar("T")


def shown(value: object) -> str:
    """Return a value for an error message: on one line, and truncated when it is long."""
    try:
        text = printable(" ".join(repr(value).split()))
    except Exception:  # the repr of a user's value may fail as well
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def wrong(name: str, value: object, must: str, error: type[InputError] = InputError) -> InputError:
    """Return the error that states what an argument must be."""
    return error(f"{name} is {shown(value)}: it must be {must}")


def instance(
    name: str,
    value: T,
    kind: type | tuple[type, ...] | UnionType,
    must: str,
    error: type[InputError] = InputError,
) -> T:
    """Return the value if it is of that type, or of one of several; `must` states the requirement.

    Raises
    ------
    InputError
        If the value is of another type.
    """
    if not isinstance(value, kind):
        raise wrong(name, value, must, error)
    return value


def optional(
    name: str,
    value: T,
    kind: type | tuple[type, ...] | UnionType,
    must: str,
    error: type[InputError] = InputError,
) -> T:
    """Return the value if it is of that type, or None when it is None; see `instance`."""
    return value if value is None else instance(name, value, kind, f"{must}, or None", error)


def flag(name: str, value: object) -> bool:
    """Return the boolean; InputError for anything but True and False."""
    return bool(instance(name, value, bool, "True or False"))


def text(name: str, value: object, error: type[InputError] = InputError) -> str:
    """Return the string if it has at least one character and can be encoded: no half of a surrogate pair.

    Raises
    ------
    InputError
        If the value is not such a string.
    """
    if not isinstance(value, str) or not value or not _encodable(value):
        raise wrong(name, value, "a string of at least one character", error)
    return str(value)


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def texts(name: str, values: object, error: type[InputError] = InputError) -> list[str]:
    """Return a list of strings; a single string is rejected."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise wrong(name, values, "a list of strings", error)
    return [text(name, value, error) for value in values]


def path(name: str, value: object, error: type[InputError] = InputError) -> Path:
    """Return a path; InputError for a value that is neither a string nor a path, or is no valid path."""
    given = str(value) if isinstance(value, str | Path) else ""
    if not given or "\0" in given or not _encodable(given):
        raise wrong(name, value, "a path", error)
    return value if isinstance(value, Path) else Path(given)


def callback(name: str, value: T) -> T:
    """Return the value if it is callable or None; InputError otherwise."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function, or None")
    return value


def one_of(name: str, value: object, words: Collection[str], error: type[InputError] = InputError) -> str:
    """Return the value if it is one of a few words; the message of the error names them all."""
    if not isinstance(value, str) or value not in words:
        raise wrong(name, value, f"one of {', '.join(words)}", error)
    return value


def whole_number(
    name: str,
    value: object,
    low: int | None = None,
    high: int | None = None,
    error: type[InputError] = InputError,
) -> int:
    """Return a whole number from `low` to `high`, both included.

    Raises
    ------
    InputError
        If the value is no whole number, or out of range.
    """
    if type(value) is int and (low is None or low <= value) and (high is None or value <= high):
        return value
    if not isinstance(value, bool) and isinstance(value, Integral):
        whole = int(value)
        if (low is None or low <= whole) and (high is None or whole <= high):
            return whole
    bounds = "" if low is None else f", {low:,} or more" if high is None else f" from {low:,} to {high:,}"
    raise wrong(name, value, f"a whole number{bounds}", error)


def whole_numbers(name: str, values: object, error: type[InputError] = InputError) -> list[int]:
    """Return a list of whole numbers, none of which is below 0."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise wrong(name, values, "a list of whole numbers", error)
    return [whole_number(name, value, 0, error=error) for value in values]


def number(
    name: str,
    value: object,
    low: float = 0.0,
    *,
    above: bool = False,
    infinite: bool = False,
    error: type[InputError] = InputError,
) -> float:
    """Return the number if it is `low` or more.

    Parameters
    ----------
    name, value
        The argument to check.
    low
        The lower bound.
    above
        Whether the value must be greater than `low`.
    infinite
        Whether the value may be infinite.
    error
        The error class to raise.

    Raises
    ------
    InputError
        If the value is no number, or out of range.
    """
    given = _real(value)
    if given is None or not (given > low if above else given >= low) or (not infinite and _endless(given)):
        must = f"a number above {low:g}" if above else f"a number, {low:g} or more"
        raise wrong(name, value, must, error)
    return given


def _real(value: object) -> float | None:
    """Return the value if it is a real number, of whatever type; the usual ones are found without asking `Real`."""
    if type(value) is float or type(value) is int:
        return value
    return value if not isinstance(value, bool) and isinstance(value, Real) else None  # type: ignore[return-value]


def _endless(value: float) -> bool:
    try:
        return math.isinf(value)
    except OverflowError:  # a whole number that no float can hold
        return True


def seconds(name: str, value: object, error: type[InputError] = InputError) -> float:
    """Return a duration: a number of seconds from 0 to `SECONDS_MAX`.

    Raises
    ------
    InputError
        If the value is not such a number.
    """
    given = _real(value)
    if given is None or not 0 <= given <= SECONDS_MAX:
        raise wrong(name, value, f"a number of seconds from 0 to {SECONDS_MAX:,.0f}", error)
    return float(given)


def optional_seconds(name: str, value: object) -> float | None:
    """Return a duration, or None when the value is None; see `seconds`."""
    return None if value is None else seconds(name, value)


def positive_fields(
    given: DataclassInstance, prefix: str, skip: Collection[str] = (), none: Collection[str] = ()
) -> None:
    """Require that the fields of a dataclass are numbers above 0; those in `none` may also be None.

    A field whose default is a whole number must be a whole number. Fields in `skip` are not checked.

    Raises
    ------
    InputError
        If a field is invalid; the message puts `prefix` before its name.
    """
    for entry in fields(given):
        value = getattr(given, entry.name)
        if entry.name in skip or (value is None and entry.name in none):
            continue
        if isinstance(entry.default, int):
            whole_number(f"{prefix} {entry.name}", value, 1)
        elif entry.name.endswith("_seconds") and seconds(f"{prefix} {entry.name}", value):
            continue
        else:
            number(f"{prefix} {entry.name}", value, above=True)
