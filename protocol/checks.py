"""Checks of arguments, in one place: what a user gave either is what was asked for, or is named in an error.

Rules
-----
* Every check returns the value, so that it stands where the value is used.
* A truth value is no number, and NaN is no number either. Numbers of numpy are numbers.
* The message has the argument's name, its value, and what it must be. A long value is cut.
* The error is an `InputError`, or the subclass that the caller names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, TypeVar

from .errors import InputError

SECONDS_MAX: Final = 1e9
"""The longest wait, some 31 years; what waits below this takes no more."""
SHOWN_CHARACTERS: Final = 80

T = TypeVar("T")


def shown(value: object) -> str:
    """Return a value for the message of an error: on one line, and cut when it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # the repr of what a user gave may fail as well
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def wrong(name: str, value: object, must: str, error: type[InputError] = InputError) -> InputError:
    """Return the error that says what an argument must be."""
    return error(f"{name} is {shown(value)}: it must be {must}")


def instance(name: str, value: T, kind: Any, must: str, error: type[InputError] = InputError) -> T:
    """Return a value of that type, or one of several; `must` says what it must be.

    Raises
    ------
    InputError
        If it is of another type.
    """
    if not isinstance(value, kind):
        raise wrong(name, value, must, error)
    return value


def optional(name: str, value: T, kind: Any, must: str, error: type[InputError] = InputError) -> T:
    """Return a value of that type, or None when it is None; see `instance`."""
    return value if value is None else instance(name, value, kind, f"{must}, or None", error)


def flag(name: str, value: Any) -> bool:
    """Return a truth value; InputError for anything but True and False."""
    return bool(instance(name, value, bool, "True or False"))


def text(name: str, value: Any, error: type[InputError] = InputError) -> str:
    """Return a string of at least one character that can be sent, so without half a surrogate pair.

    Raises
    ------
    InputError
        If it is none.
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


def texts(name: str, values: Any, error: type[InputError] = InputError) -> list[str]:
    """Return a list of strings; a single string is not one."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise wrong(name, values, "a list of strings", error)
    return [text(name, value, error) for value in values]


def path(name: str, value: Any, error: type[InputError] = InputError) -> Path:
    """Return a path; InputError for what is neither a string nor a path, or can be none."""
    given = str(value) if isinstance(value, str | Path) else ""
    if not given or "\0" in given or not _encodable(given):
        raise wrong(name, value, "a path", error)
    return Path(value)


def callback(name: str, value: Any) -> Callable[..., Any] | None:
    """Return what can be called, or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function, or None")
    return value  # type: ignore[no-any-return]


def one_of(name: str, value: Any, words: Collection[str], error: type[InputError] = InputError) -> str:
    """Return one of a few words; the message names them all."""
    if not isinstance(value, str) or value not in words:
        raise wrong(name, value, f"one of {', '.join(words)}", error)
    return value


def whole_number(
    name: str,
    value: Any,
    low: int | None = None,
    high: int | None = None,
    error: type[InputError] = InputError,
) -> int:
    """Return a whole number from `low` to `high`, both included.

    Raises
    ------
    InputError
        If it is no whole number, or outside.
    """
    if type(value) is int and (low is None or low <= value) and (high is None or value <= high):
        return value
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or (low is not None and value < low) or (high is not None and value > high):
        bounds = "" if low is None else f", {low:,} or more" if high is None else f" from {low:,} to {high:,}"
        raise wrong(name, value, f"a whole number{bounds}", error)
    return int(value)


def whole_numbers(name: str, values: Any, error: type[InputError] = InputError) -> list[int]:
    """Return a list of whole numbers, of which none is below 0."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise wrong(name, values, "a list of whole numbers", error)
    return [whole_number(name, value, 0, error=error) for value in values]


def number(
    name: str,
    value: Any,
    low: float = 0.0,
    *,
    above: bool = False,
    infinite: bool = False,
    error: type[InputError] = InputError,
) -> float:
    """Return a number from `low`.

    Parameters
    ----------
    name, value
        What is checked.
    low
        The least that it may be.
    above
        Whether it must be more than that.
    infinite
        Whether it may be infinite.
    error
        Which error is raised.

    Raises
    ------
    InputError
        If it is no number, or out of range.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not (value > low if above else value >= low) or (not infinite and _endless(value)):
        must = f"a number above {low:g}" if above else f"a number, {low:g} or more"
        raise wrong(name, value, must, error)
    return value  # type: ignore[no-any-return]


def _endless(value: Any) -> bool:
    try:
        return math.isinf(value)
    except OverflowError:  # a whole number that no float can hold
        return True


def seconds(name: str, value: Any, error: type[InputError] = InputError) -> float:
    """Return how long to wait: a number of seconds from 0 to `SECONDS_MAX`.

    Raises
    ------
    InputError
        If it is none.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0 <= value <= SECONDS_MAX:
        raise wrong(name, value, f"a number of seconds from 0 to {SECONDS_MAX:,.0f}", error)
    return float(value)


def optional_seconds(name: str, value: Any) -> float | None:
    """Return how long to wait, or None when it is None; see `seconds`."""
    return None if value is None else seconds(name, value)


def positive_fields(given: Any, prefix: str, skip: Collection[str] = (), none: Collection[str] = ()) -> None:
    """Require that the fields of a dataclass are numbers above 0; those in `none` may also be None.

    A field whose default is a whole number has to be one.

    Raises
    ------
    InputError
        If one is not; `prefix` stands before its name.
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
