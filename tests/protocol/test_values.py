"""Python and numpy scalars become a value, a missing value, or an error that explains the problem."""

import datetime
import decimal
import enum
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import EventError
from rayvous.protocol.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    NULL,
    Kind,
    Timestamp,
    kind_of,
    moment_of,
    normalize,
    timestamp_of,
)

UTC = datetime.UTC


class Color(str, enum.Enum):  # noqa: UP042 - a StrEnum is the other case
    RED = "red"


class Shade(enum.StrEnum):
    DARK = "dark"


class Level(enum.IntEnum):
    HIGH = 3


class Odd(int):
    def __int__(self) -> int:
        raise ValueError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, True),
        (np.bool_(False), False),
        (5, 5),
        (np.uint8(200), 200),
        (np.int64(INTEGER_MIN), INTEGER_MIN),
        (Level.HIGH, 3),
        (2.5, 2.5),
        (np.float32(0.5), 0.5),
        (math.inf, math.inf),
        ("a", "a"),
        (np.str_("a"), "a"),
        (Color.RED, "red"),
        (Shade.DARK, "dark"),
        (Timestamp(7), Timestamp(7)),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), Timestamp(10**9)),
        (datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), Timestamp(0)),
        (pd.Timestamp("1970-01-01 00:00:00.000000007"), Timestamp(7)),
        (pd.Timestamp("1970-01-01 01:00", tz="Europe/Berlin"), Timestamp(0)),
        (np.datetime64("1970-01-02"), Timestamp(86_400 * 10**9)),
        (np.datetime64("1969-12-31T23:59:59.999"), Timestamp(-(10**6))),
        (np.datetime64(1500, "ps"), Timestamp(1)),
        (np.datetime64(-1, "as"), Timestamp(-1)),
        (np.datetime64(5 * 10**9, "as"), Timestamp(5)),
        (np.datetime64(7 * 10**6, "fs"), Timestamp(7)),
        (np.datetime64("1969-12"), Timestamp(-31 * 86_400 * 10**9)),
        (np.datetime64(1, "25s"), Timestamp(25 * 10**9)),
        (Odd(7), 7),
        (np.datetime64("2262-04-11T23:47:16"), Timestamp(9_223_372_036 * 10**9)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_scalar_becomes_a_value(given: Any, expected: Any) -> None:
    value = normalize(given)
    assert value == expected and type(value) is type(expected)
    assert value is not None and normalize(value) is value


@pytest.mark.parametrize(
    "given",
    [
        None,
        math.nan,
        np.nan,
        np.float32("nan"),
        pd.NaT,
        pd.NA,
        np.datetime64("NaT"),
        np.datetime64("NaT", "D"),
    ],
    ids=repr,
)
def test_what_is_missing_is_none(given: Any) -> None:
    assert normalize(given) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (INTEGER_MAX + 1, "does not fit in 64 bits"),
        (INTEGER_MIN - 1, "does not fit in 64 bits"),
        (np.uint64(2**63), "does not fit in 64 bits"),
        (datetime.datetime(1600, 1, 1), "years 1678 to 2262"),
        (datetime.datetime(9999, 1, 1, tzinfo=UTC), "years 1678 to 2262"),
        (np.datetime64("3000-01-01"), "years 1678 to 2262"),
        (np.datetime64("2262-04-12"), "years 1678 to 2262"),
        (np.datetime64("1677-09-20"), "years 1678 to 2262"),
        (np.datetime64("0001-01-01"), "years 1678 to 2262"),
        (np.datetime64(10**15, "Y"), "years 1678 to 2262"),
        (np.datetime64(2**62, "W"), "years 1678 to 2262"),
        (np.datetime64(2**62, "us"), "years 1678 to 2262"),
        pytest.param(10**5000, "an integer of 16610 bits does not fit", id="10**5000"),
        (b"a", "type bytes"),
        (decimal.Decimal(1), "type Decimal"),
        (np.timedelta64(1, "s"), "type timedelta64"),
        (1j, "type complex"),
        ([1], "type list"),
        (np.array([1]), "type ndarray"),
        pytest.param(object(), "type object", id="object"),
    ],
    ids=repr,
)
def test_what_is_no_value_is_an_error(given: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        normalize(given)


def test_kinds_go_by_class_not_by_number() -> None:
    values = (True, 1, 1.0, "1", Timestamp(1), NULL)
    assert [kind_of(value) for value in values] == list(Kind)


@pytest.mark.parametrize("digits", range(1, 10))
@pytest.mark.parametrize("offset", ["", "Z", "+01:00"])
def test_a_moment_in_a_text_keeps_all_its_digits(digits: int, offset: str) -> None:
    fraction = "123456789"[:digits]
    hour = "06" if offset == "+01:00" else "05"
    told = moment_of(f"2013-01-01T{hour}:00:00.{fraction}{offset}")
    assert told.isoformat() == f"2013-01-01T05:00:00.{fraction}Z"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("soon", "'soon' is not a time in ISO 8601"),
        (5, "5 is not a time in ISO 8601"),
        ("1500-01-01", "outside the years"),
        ("", "not a time in ISO 8601"),
    ],
)
def test_what_says_no_moment_is_an_error(given: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        moment_of(given)


@settings(max_examples=200, deadline=None)
@given(st.datetimes(datetime.datetime(1678, 1, 1), datetime.datetime(2261, 12, 31)))
def test_moments_come_back_and_all_ways_agree(moment: datetime.datetime) -> None:
    stamp = timestamp_of(moment)
    assert stamp.datetime == moment.replace(tzinfo=UTC)
    assert normalize(np.datetime64(moment)) == normalize(pd.Timestamp(moment)) == stamp
    assert datetime.datetime.fromisoformat(stamp.isoformat()) == stamp.datetime


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (INTEGER_MAX, "2262-04-11T23:47:16.854775807Z"),
        (INTEGER_MIN + 1, "1677-09-21T00:12:43.145224193Z"),
    ],
)
def test_iso_text_has_as_many_digits_as_are_needed(nanoseconds: int, text: str) -> None:
    assert Timestamp(nanoseconds).isoformat() == text
    assert repr(Timestamp(nanoseconds)) == f"Timestamp({text})"
