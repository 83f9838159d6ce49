"""Tables of every supported kind become batches; an unsupported column is refused by its name."""

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rayvous.actors.clients.columns import accepted_from, batch_from
from rayvous.actors.clients.notification import for_people
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import EventError
from rayvous.protocol.values import NULL, Kind, Timestamp, normalize

NAN = float("nan")
DAY = 86_400 * 10**9


def kinds(batch: EventBatch) -> dict[str, Kind]:
    return dict(batch.columns.keys())


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        ([True, None, False], Kind.BOOLEAN, [True, None, False]),
        ([1, None, 3], Kind.INTEGER, [1, None, 3]),
        (np.array([1, 2, 255], np.uint8), Kind.INTEGER, [1, 2, 255]),
        (range(3), Kind.INTEGER, [0, 1, 2]),
        ([0.5, NAN, None], Kind.FLOAT, [0.5, None, None]),
        (np.array([0.5, NAN, 2], np.float32), Kind.FLOAT, [0.5, None, 2.0]),
        (np.array([0.5, NAN, 2], np.float16), Kind.FLOAT, [0.5, None, 2.0]),
        (["a", None, "a"], Kind.STRING, ["a", None, "a"]),
        (pa.array(["a", None, "b"], pa.large_string()), Kind.STRING, ["a", None, "b"]),
        (pa.array(["a", None, "b"], pa.string_view()), Kind.STRING, ["a", None, "b"]),
        (pa.array(["a", None, "b"]).dictionary_encode(), Kind.STRING, ["a", None, "b"]),
        (pa.DictionaryArray.from_arrays([0, 1, 2], ["a", None, "a"]), Kind.STRING, ["a", None, "a"]),
        (pa.DictionaryArray.from_arrays([1, None, 0], [7, 8]), Kind.INTEGER, [8, None, 7]),
        (pd.Categorical(["b", None, "a"]), Kind.STRING, ["b", None, "a"]),
        (pd.Categorical([3, None, 5]), Kind.INTEGER, [3, None, 5]),
        (pd.array([1, pd.NA, 3], "Int64"), Kind.INTEGER, [1, None, 3]),
        (
            [datetime.date(1970, 1, 2), None, datetime.date(1969, 12, 31)],
            Kind.TIMESTAMP,
            [Timestamp(DAY), None, Timestamp(-DAY)],
        ),
        (
            np.array(["1970-01-02", "NaT", "1970-01-01"], "datetime64[s]"),
            Kind.TIMESTAMP,
            [Timestamp(DAY), None, Timestamp(0)],
        ),
        (
            pa.array([1, None, 2], pa.timestamp("us", "Asia/Tokyo")),
            Kind.TIMESTAMP,
            [Timestamp(1000), None, Timestamp(2000)],
        ),
        (pa.array([DAY // 10**6, None, 0], pa.date64()), Kind.TIMESTAMP, [Timestamp(DAY), None, Timestamp(0)]),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_becomes_a_column(column: Any, kind: Kind, values: list[Any]) -> None:
    batch = batch_from({"c": column, "n": [1, 2, 3]})
    assert kinds(batch) == {"c": kind, "n": Kind.INTEGER}
    got = [event.get("c") for event in batch.events()]
    assert got == values and [type(value) for value in got] == [type(value) for value in values]
    assert batch.take(np.array([2, 0])).events() == (batch.events()[2], batch.events()[0])


def test_all_makes_of_one_table_are_the_same_batch() -> None:
    rows = [{"i": 1, "f": 0.5, "s": "a", "t": datetime.datetime(2013, 1, 1, 5)}, {"i": 2, "s": "b"}]
    frame = pd.DataFrame(rows)
    table = pa.Table.from_pandas(frame)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    expected = batch_of(rows).events()
    for given in (rows, tuple(rows), frame, table, chunked, table.to_batches()[0], columns):
        assert batch_from(given).events() == expected
    assert batch_from(batch_of(rows)).events() == expected


def test_an_index_or_a_slice_of_a_frame_changes_nothing() -> None:
    frame = pd.DataFrame({"x": range(6)}, index=list("abcdef"))
    assert batch_from(frame[frame["x"] > 3]).events() == ({"x": 4}, {"x": 5})
    assert batch_from(frame.iloc[::-2]).events() == ({"x": 5}, {"x": 3}, {"x": 1})


def test_chunks_with_dictionaries_of_their_own_are_joined() -> None:
    parts = [pa.array(words, pa.string()).dictionary_encode() for words in (["a", "b"], ["b", "c"], [])]
    table = pa.table({"s": pa.chunked_array(parts, parts[0].type)})
    assert [event["s"] for event in batch_from(table).events()] == ["a", "b", "b", "c"]


def test_a_column_of_nothing_but_nulls_is_not_there() -> None:
    batch = batch_from({"x": [1, 2], "n": [None, None], "f": [NAN, NAN], "s": pa.nulls(2, pa.string())})
    assert kinds(batch) == {"x": Kind.INTEGER} and batch.events() == ({"x": 1}, {"x": 2})


@pytest.mark.parametrize(
    "empty", [[], {"x": []}, pd.DataFrame({"x": []}), pa.table({"x": pa.array([], pa.string())})]
)
def test_an_empty_table_is_an_empty_batch(empty: Any) -> None:
    assert len(batch_from(empty)) == 0 and batch_from(empty).events() == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"ok": [1], "u": np.array([2**64 - 1], np.uint64)},
            "column 'u', row 0: 18446744073709551615 has more than 64 bits",
        ),
        ({"u": [2**70]}, "column 'u'"),
        ({"m": [1, "a"]}, "column 'm'"),
        ({"b": [b"a"]}, "column 'b' is of type binary"),
        ({"d": [decimal.Decimal(1)]}, "column 'd' is of type decimal"),
        ({"d": [datetime.timedelta(1)]}, "column 'd' is of type duration"),
        ({"d": [datetime.time(1)]}, "column 'd' is of type time"),
        (
            {"t": [datetime.date(3000, 1, 1)]},
            "column 't', row 0: 3000-01-01.* is outside the years 1678 to 2262",
        ),
        (
            {"t": np.array(["3000-01-01"], "datetime64[s]")},
            "column 't', row 0: 3000-01-01.* is outside the years 1678 to 2262",
        ),
        ({"o": [object()]}, "column 'o'"),
        ({"x": 5}, "column 'x'"),
        ({"x": "JFK"}, "column 'x' is one str"),
        ({"x": np.zeros((2, 2))}, "column 'x'"),
        ({"x": [1, 2], "y": [1]}, "cannot be read as a table"),
        ({"": [1]}, "attribute name ''"),
        ({3: [1]}, "attribute name 3 is a int"),
        ({"s": ["a" * (2**20 + 1)]}, "column 's' has a string of more than 1048576"),
        (pd.DataFrame({"m": [1, "a"]}), "column m"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "x"),
        (pd.Series([1]), "a pandas Series is one column"),
        (pa.table([pa.array([1]), pa.array(["a"])], names=["x", "x"]), "column 'x' occurs more than once"),
        (pa.table({"s": pa.array([{"a": 1}]), "b": pa.array([b"x"])}), "event 0: attribute 'b': .*bytes"),
        ("text", "a str is not a table"),
        (5, "a int is not a table"),
        ([5], "event 0: an event is a mapping"),
    ],
    ids=range(25),
)
def test_what_is_no_table_of_ours_is_refused_by_name(given: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        batch_from(given)


def test_a_column_means_what_its_values_mean_one_by_one() -> None:
    moments = pd.DatetimeIndex(["2013-01-01 05:00:00.000000001", "1700-01-01 00:00:00.5"]).tz_localize(
        "Europe/Berlin"
    )
    batch = batch_from(pd.DataFrame({"t": moments}))
    assert [event["t"] for event in batch.events()] == [normalize(moment) for moment in moments]


def test_subscribers_see_events_as_they_were_published() -> None:
    batch = batch_of([{"a": {"at": Timestamp(0)}, "n": NULL, "t": [None, {"at": Timestamp(0)}]}])
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert batch.documents(for_people) == [{"a": {"at": moment}, "n": None, "t": [None, {"at": moment}]}]


def test_a_table_that_does_not_fit_into_columns_is_read_row_by_row() -> None:
    rows = [{"s": {"a": [1, 2]}, "l": ["x"], "n": 1}, {"s": {"a": []}, "n": 2}]
    assert batch_from(pa.Table.from_pylist(rows)).documents() == rows
    wide = {f"n{i}": [i, i + 1] for i in range(300)}
    assert batch_from(wide).documents() == [
        {name: values[row] for name, values in wide.items()} for row in (0, 1)
    ]


def test_what_is_invalid_can_be_skipped() -> None:
    batch, refused = accepted_from([{"x": 1}, {"x": b""}, {"x": [2]}, "x"])
    assert batch.documents() == [{"x": 1}, {"x": [2]}]
    assert {place: str(error)[:10] for place, error in refused.items()} == {1: "event 1: a", 3: "event 3: a"}
    times = pa.table({"x": [1, 2], "at": pa.array([0, 10**11], pa.timestamp("s"))})
    batch, refused = accepted_from(times)
    assert [event["x"] for event in batch.documents()] == [1] and list(refused) == [1]
    assert accepted_from({"x": [1, 2]})[0].documents() == [{"x": 1}, {"x": 2}]
    assert accepted_from(batch) == (batch, {})
    with pytest.raises(EventError, match="a str is not a table"):
        accepted_from("text")
    with pytest.raises(EventError, match="cannot be read row by row"):
        accepted_from(pa.table({"at": pa.array([10**15], pa.timestamp("s"))}))
