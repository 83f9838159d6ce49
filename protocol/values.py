"""The five kinds of value that an event attribute can have, and the Python values that they are made from.

Rules
-----
* A value is a boolean, an integer (64 bits), a float, a string or a timestamp (paper 1, section 2: type, name, value).
* ``None``, NaN, NaT and ``pandas.NA`` are *missing*: an attribute without a value equals an absent attribute.
* :data:`NULL` is an explicit JSON null: the attribute is present and has no value. Comparisons treat it as missing.
* Integers and floats compare as numbers, exactly. No other two kinds are comparable.
* A naive ``datetime`` is UTC.
"""

import datetime
import enum
import math
import re
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from .errors import EventError

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
INTEGER_BITS_MAX: Final = 14_000
"""The longest integer that an event may have; longer ones cannot be read back from text."""
_NANOSECONDS: Final = {
    "W": 604_800 * 10**9,
    "D": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 1_000,
    "ns": 1,
}
_PARTS_OF_A_NANOSECOND: Final = {"ps": 10**3, "fs": 10**6, "as": 10**9}
_BELOW_A_MICROSECOND: Final = re.compile(r"[^.,]*[.,][0-9]{6}([0-9]{1,3})")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Kind(enum.IntEnum):
    """The kind of a value."""

    BOOLEAN = 0
    INTEGER = 1
    FLOAT = 2
    STRING = 3
    TIMESTAMP = 4
    NULL = 5


class Null:
    """JSON's null; :data:`NULL` is the only one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NULL"

    def __reduce__(self) -> str:
        return "NULL"


NULL: Final = Null()
"""A present attribute whose value is null. Only IS MISSING and EventBridge patterns tell it from a missing one."""


class Timestamp(int):
    """A point in time: whole nanoseconds since 1970-01-01 UTC.

    It is a separate class, so that a timestamp is never taken for a number.
    """

    __slots__ = ()

    @property
    def datetime(self) -> datetime.datetime:
        """The timestamp as an aware ``datetime`` in UTC, truncated to microseconds."""
        return _EPOCH + datetime.timedelta(microseconds=int(self) // 1000)

    def __repr__(self) -> str:
        return f"Timestamp({self.isoformat()})"

    def isoformat(self) -> str:
        """Return the timestamp in ISO 8601 with as many digits as needed, for example ``2013-01-01T05:00:00Z``."""
        seconds, nanoseconds = divmod(int(self), 1_000_000_000)
        text = (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        if nanoseconds:
            text += f".{nanoseconds:09d}".rstrip("0")
        return text + "Z"


Value: TypeAlias = bool | int | float | str | Timestamp
"""One attribute's value, as the broker sees it. A :class:`Timestamp` is an ``int`` by class but not by kind.

Events can also have the value :data:`NULL`; it is left out here because nothing is compared with it.
"""

_KINDS: Final[dict[type, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.STRING,
    Timestamp: Kind.TIMESTAMP,
    Null: Kind.NULL,
}


def is_null(value: object) -> bool:
    """Return whether the value is JSON's null; None is no value at all."""
    return value is NULL


def kind_of(value: Value) -> Kind:
    """Return the kind of a value that :func:`normalize` returned."""
    return _KINDS[type(value)]


def timestamp_of(moment: datetime.datetime, nanoseconds: int = 0) -> Timestamp:
    """Return a ``datetime`` plus some nanoseconds as a :class:`Timestamp`; a naive ``datetime`` is taken as UTC.

    Raises
    ------
    EventError
        If the time is outside the years 1678 to 2262, which 64 bits of nanoseconds hold.
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    delta = moment - _EPOCH
    nanoseconds += (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1000
    nanoseconds += getattr(moment, "nanosecond", 0)  # pandas.Timestamp carries them beside the microseconds
    if not INTEGER_MIN < nanoseconds <= INTEGER_MAX:
        raise EventError(f"timestamp {moment.isoformat()} is outside the years 1678 to 2262")
    return Timestamp(nanoseconds)


class Ordered(Protocol):
    """A value or a bound that is compared with others of its group; that they are of one group, the caller knows."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __le__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...
    def __ge__(self, other: Any, /) -> bool: ...


def moment_of(text: Any) -> Timestamp:
    """Parse a timestamp in ISO 8601, to the nanosecond; one without an offset is UTC.

    Raises
    ------
    EventError
        If the text is not a timestamp, or is outside the years 1678 to 2262.
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise EventError(f"{text!r:.80} is not a time in ISO 8601") from None
    below = _BELOW_A_MICROSECOND.match(text)  # `fromisoformat` truncates these digits
    return timestamp_of(moment, 0 if below is None else int(below[1].ljust(3, "0")))


def _timestamp_of_numpy(moment: np.datetime64) -> Timestamp:
    # Use Python's integers: a conversion between units in numpy overflows or fails beyond 64 bits.
    unit, step = np.datetime_data(moment.dtype)
    count = int(moment.astype(np.int64)) * step
    if unit in ("Y", "M"):
        year, month = divmod(count * (12 if unit == "Y" else 1) + 1970 * 12, 12)
        if datetime.MINYEAR <= year <= datetime.MAXYEAR:
            return timestamp_of(datetime.datetime(year, month + 1, 1))
        nanoseconds = INTEGER_MAX + 1
    elif unit in _NANOSECONDS:
        nanoseconds = count * _NANOSECONDS[unit]
    else:
        nanoseconds = count // _PARTS_OF_A_NANOSECOND[unit]
    if not INTEGER_MIN < nanoseconds <= INTEGER_MAX:
        raise EventError(f"timestamp {moment!r} is outside the years 1678 to 2262")
    return Timestamp(nanoseconds)


def normalize(value: Any) -> Value | None:
    """Return a Python or numpy scalar as a :data:`Value`, or ``None`` when it is missing.

    Raises
    ------
    EventError
        If the value is of no known kind, or an integer outside 64 bits.
    """
    kind = type(value)
    if kind is str or kind is bool or kind is Timestamp or value is None or kind is Null:
        return value  # type: ignore[no-any-return]
    if kind is float:
        return None if math.isnan(value) else value
    if kind is int:
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise EventError(f"{_integer_text(value)} does not fit in 64 bits")
        return value  # type: ignore[no-any-return]
    if isinstance(value, datetime.datetime):
        return None if value != value else timestamp_of(value)  # NaT differs from itself
    if isinstance(value, datetime.date):
        return timestamp_of(datetime.datetime(value.year, value.month, value.day))
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _timestamp_of_numpy(value)
    if isinstance(value, np.generic | int | float | str):
        plain = value.item() if isinstance(value, np.generic) else _plain(value)
        if type(plain) in _KINDS:
            return normalize(plain)
    if kind.__name__ == "NAType":  # pandas.NA; this package does not depend on pandas
        return None
    raise EventError(
        f"a value of type {type(value).__name__} is not supported: use a bool, int, float, str or datetime"
    )


def normalize_wide(value: object) -> Value | None:
    """Return what :func:`normalize` returns, also for integers of up to `INTEGER_BITS_MAX` bits.

    Raises
    ------
    EventError
        If the value is of no known kind, or an integer of more bits.
    """
    if not isinstance(value, int | np.integer) or INTEGER_MIN <= value <= INTEGER_MAX:
        return normalize(value)
    plain = int(value)
    if plain.bit_length() > INTEGER_BITS_MAX:
        raise EventError(f"{_integer_text(plain)}, the limit is {INTEGER_BITS_MAX:,} bits")
    return plain


def comparable(value: object) -> Value | None:
    """Return what :func:`normalize` returns, but None for a null: a value that can be compared and calculated with."""
    found = normalize(value)
    return None if is_null(found) else found


def _plain(value: int | float | str) -> int | float | str:
    """Return an instance of a subclass (an enum member, say) as its base class."""
    if isinstance(value, str):
        return str.__str__(value)  # the `__str__` of an enum returns the member's name
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _integer_text(value: int) -> str:
    return f"integer {value}" if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"
