"""Events in files: one reader, which refuses a file by column and line before its first event is had."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.clients.columns import batch_from
from rayvous.actors.clients.event_files import EventTable
from rayvous.protocol.errors import EventError, InputError, ScenarioError
from rayvous.protocol.values import Timestamp

DAY = 86_400 * 10**9


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "x,s\n1,a\n2,\n3,c\n"),
        ("E.CSV", "\ufeffx,s\r\n1,a\r\n2,\r\n\r\n3,c\r\n"),
        ("e.csv", 'x,s\n1,a\n2,""\n3,"c"\n'),
        ("e.jsonl", '{"x": 1, "s": "a"}\n{"x": 2}\n{"s": "c", "x": 3}\n'),
        ("e.ndjson", '{"x": 1, "s": "a"}\n\n{"x": 2}\n{"x": 3, "s": "c"}'),
    ],
)
def test_events_are_read(tmp_path: Path, name: str, content: str) -> None:
    batch = rv.read_events(write(tmp_path / name, content))
    assert batch.events() == ({"x": 1, "s": "a"}, {"x": 2}, {"x": 3, "s": "c"})
    assert len(rv.read_events(tmp_path / name, limit=2)) == 2


def test_parquet_is_read(tmp_path: Path) -> None:
    table = pa.table({"x": [1, None, 3], "s": ["a", "b", None]})
    pyarrow.parquet.write_table(table, tmp_path / "e.parquet", row_group_size=1)
    assert rv.read_events(tmp_path / "e.parquet", limit=2).events() == ({"x": 1, "s": "a"}, {"s": "b"})


NESTED = [
    {"id": 1, "o": {"tier": "gold", "lines": [{"item": "x", "n": 1}, {"item": "y"}]}, "tags": ["a", "b"]},
    {"id": 2, "o": {"lines": []}, "tags": []},
    {"id": 3, "prices": {"EUR": 1.5, "US$ ": 2.5}, "at": [Timestamp(DAY), Timestamp(0)]},
]


def nested_table() -> pa.Table:
    words = pa.large_list(pa.dictionary(pa.int8(), pa.string()))
    prices = [list(event["prices"].items()) if "prices" in event else None for event in NESTED]
    return pa.table(
        {
            "id": [event["id"] for event in NESTED],
            "o": [event.get("o") for event in NESTED],
            "tags": pa.array([event.get("tags") for event in NESTED], words),
            "prices": pa.array(prices, pa.map_(pa.string(), pa.float64())),
            "at": pa.array([None, None, [DAY, 0]], pa.list_(pa.timestamp("ns"))),
        }
    )  # fmt: skip


def test_nested_columns_of_parquet_are_nested_events(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pyarrow.parquet.write_table(nested_table(), path, row_group_size=2)
    for batch in (rv.read_events(path), batch_from(nested_table())):
        assert list(batch.documents()) == NESTED
        assert dict(batch.events()[0]) == {"id": 1, "o.tier": "gold"}
    assert rv.read_events(path, types={"id": "string"}).documents()[1] == NESTED[1] | {"id": "2"}
    wanted = rv.to_filter("o.lines.item = 'y' AND tags CONTAINS ALL ('a', 'b')")
    assert wanted.evaluate_batch(rv.read_events(path)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (pa.array([[b"x"]]), "column 'c' is of type binary"),
        (pa.array([{"d": {"e": [b"x"]}}]), "column 'c.d.e' is of type binary"),
        (pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())), "column 'c' is of type map<.*>: use strings as keys"),
        (pa.array([[1], []], pa.list_(pa.duration("s"))), "column 'c' is of type duration"),
        (pa.array([[], None, [datetime.datetime(9999, 1, 1)]], pa.list_(pa.timestamp("us"))),
         "row 3: attribute 'c': timestamp 9999-01-01T00:00:00.* is outside the years 1678 to 2262"),
        (pa.array([[], [["x" * 300_000]] * 10]), "row 2: "),
    ],
    ids=["bytes", "bytes in a struct", "keys", "durations", "years", "size"],
)  # fmt: skip
def test_nested_columns_that_no_event_can_have_are_refused(
    tmp_path: Path, cells: pa.Array, said: str
) -> None:
    pyarrow.parquet.write_table(pa.table({"c": cells}), tmp_path / "e.parquet", row_group_size=1)
    with pytest.raises(ScenarioError, match=rf"e\.parquet: {said}"):
        EventTable(tmp_path / "e.parquet")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["1", "+2", "007"], [1, 2, 7]),
        (["1", "2.5", "NA"], [1.0, 2.5, None]),
        (["1", "x", "NA"], ["1", "x", "NA"]),
        (["true", "False", ""], [True, False, None]),
        (["", "", "NA"], [None, None, None]),
        (["1970-01-02", "1970-01-01T01:00:00+01:00", ""], [Timestamp(DAY), Timestamp(0), None]),
        (["1970-01-01 00:00:00.000000001", "1970-01-01Z", ""], ["1970-01-01 00:00:00.000000001", "1970-01-01Z", None]),
        (["12:30:00", "", "9"], ["12:30:00", None, "9"]),
        (["0x1F", "1", "2"], ["0x1F", "1", "2"]),
        (["inf", "-inf", "1"], [float("inf"), float("-inf"), 1.0]),
        (["1e400", "1", "2"], ["1e400", "1", "2"]),
        (["9" * 5_000, "1", "2"], ["9" * 5_000, "1", "2"]),
        (["é", "", "日本"], ["é", None, "日本"]),
        (['"two\nlines"', "'", "b"], ["two\nlines", "'", "b"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_of_csv_is_of_the_first_kind_that_all_cells_can_be(
    tmp_path: Path, cells: list[str], values: list[Any]
) -> None:
    path = write(tmp_path / "e.csv", "n,c\n" + "".join(f"1,{cell}\n" for cell in cells))
    got = [event.get("c") for event in rv.read_events(path).events()]
    assert got == values and [type(value) for value in got] == [type(value) for value in values]


@pytest.mark.slow
def test_a_kind_is_that_of_the_whole_file_and_not_of_its_first_block(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "a,b\n" + "1,1\n" * 400_000 + "1.5,x\n")
    batch = rv.read_events(path)
    assert batch.events()[0] == {"a": 1.0, "b": "1"} and batch.events()[-1] == {"a": 1.5, "b": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,s\n1\n", "line 2: 1 cells, and there are 2 columns"),
        ('x,s\n"a\nb",1\n\n1,2,3\n', "line 5: 3 cells, and there are 2 columns"),
        (b"x,s\n1,a\n\n2,caf\xe9\n", r"column 's', line 4: b'caf\\xe9' is not UTF-8 at byte 3"),
        (b"x,caf\xe9\n1,2\n", r"line 1: the column name b'caf\\xe9' is not UTF-8"),
        ("x,end\n1,2013-01-01\n2,9999-12-31\n", "column 'end', line 3: 9999-12-31 is outside the years 1678 to 2262"),
        ("x,x\n1,2\n", "column 'x' occurs more than once"),
        ("x,\n1,2\n", "attribute name ''"),
        ("s\n" + "a" * (2**20 + 1) + "\n", "column 's', line 2: 1,048,577 bytes"),
        ("x,s\n", "it has no events"),
        ("", "is empty"),
    ],
    ids=range(10),
)  # fmt: skip
def test_csv_is_refused_by_column_and_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path / "e.csv", content)
    with pytest.raises(ScenarioError, match=message) as caught:
        rv.read_events(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_a_fault_at_the_end_of_a_table_is_told_before_its_first_block(tmp_path: Path) -> None:
    csv = write(tmp_path / "e.csv", "t\n" + "2013-01-01T00:00:00\n" * 100_000 + "9999-12-31\n")
    with pytest.raises(ScenarioError, match="column 't', line 100002: 9999"):
        EventTable(csv)
    far = pa.array([0] * 99_999 + [2**60], pa.timestamp("us"))
    pyarrow.parquet.write_table(pa.table({"t": far}), tmp_path / "e.parquet", row_group_size=30_000)
    with pytest.raises(ScenarioError, match=r"column 't', row 100000: .* is outside the years"):
        EventTable(tmp_path / "e.parquet")


def test_integers_of_any_size_are_integers(tmp_path: Path) -> None:
    """Floats would round all ids of the column."""
    path = write(tmp_path / "e.csv", "x,id\n1,9007199254740993\n2,18446744073709551616\n3,\n")
    assert rv.read_events(path, types={"id": "string"}).events()[1] == {"x": 2, "id": "18446744073709551616"}
    events = rv.read_events(path).events()
    assert [event.get("id") for event in events] == [9007199254740993, 18446744073709551616, None]


def test_dates_of_int96_are_not_of_another_century(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, 3], "at": pa.array([0, None, 253402214400000000], pa.timestamp("us"))})
    path = tmp_path / "e.parquet"
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(ScenarioError, match=r"e\.parquet: column 'at', row 3: 9999-12-31.* 1678 to 2262"):
        rv.read_events(path)
    pyarrow.parquet.write_table(table.slice(0, 2), path, use_deprecated_int96_timestamps=True)
    assert rv.read_events(path).events() == ({"x": 1, "at": Timestamp(0)}, {"x": 2})


@pytest.mark.parametrize(
    ("column", "word", "value"),
    [
        (pa.array([7]), "string", "7"),
        (pa.array([7]), "float", 7.0),
        (pa.array([7.0]), "integer", 7),
        (pa.array(["7"]), "integer", 7),
        (pa.array(["1970-01-02"]), "timestamp", Timestamp(DAY)),
        (pa.array([datetime.date(9999, 12, 31)]), "string", "9999-12-31"),
        (pa.array([datetime.time(12, 30)]), "string", "12:30:00.000000"),
        (pa.array([b"a"]), "string", "a"),
        (pa.array(["true"]).dictionary_encode(), "boolean", True),
    ],
    ids=str,
)
def test_a_column_has_the_type_that_was_asked_for(
    tmp_path: Path, column: pa.Array, word: str, value: Any
) -> None:
    pyarrow.parquet.write_table(pa.table({"c": column}), tmp_path / "e.parquet")
    (event,) = rv.read_events(tmp_path / "e.parquet", types={"c": word}).events()
    assert event == {"c": value} and type(event["c"]) is type(value)


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("e.csv", {"c": "integer"}, "column 'c', line 3: 'x' is not an integer"),
        ("e.csv", {"d": "integer"}, "there is no column 'd'; there are c"),
        ("e.csv", {"c": "decimal"}, "c=decimal: a type is boolean, integer, float, string or timestamp"),
        ("e.parquet", {"c": "timestamp"}, "column 'c', row 1: '1' is not a time in ISO 8601"),
        ("e.jsonl", {"c": "float"}, 'e.jsonl:2: c: "x" is not of type float'),
    ],
)
def test_a_type_that_does_not_fit_is_refused(
    tmp_path: Path, name: str, types: dict[str, str], message: str
) -> None:
    write(tmp_path / "e.csv", "c\n1\nx\n")
    write(tmp_path / "e.jsonl", '{"c": 1}\n{"c": "x"}\n')
    pyarrow.parquet.write_table(pa.table({"c": ["1", "x"]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=message):
        rv.read_events(tmp_path / name, types=types)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.jsonl", '{"x": 1', r"e\.jsonl:1: is not JSON"),
        ("e.jsonl", '\n{"x": 1}\n{"a": {"b": 1}, "a.b": 2}\n', r"e\.jsonl:3: .*occurs twice"),
        ("e.parquet", "no parquet at all", "cannot be read"),
        ("e.xlsx", "x", "events are read from .csv, .jsonl or .parquet"),
        ("e", "x", "events are read from"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=message) as caught:
        rv.read_events(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there is no such file"):
        rv.read_events(tmp_path / "missing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ScenarioError, match="is not a file"):
        rv.read_events(tmp_path / "folder.csv")


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
columns = {
    "i": st.integers(-(2**63) + 1, 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "s": words.filter(lambda word: word.strip() and not word.isascii()),
    "b": st.booleans(),
}


@given(st.lists(st.fixed_dictionaries({}, optional=columns), min_size=2, max_size=8))
def test_csv_parquet_and_a_frame_are_the_same_events(
    tmp_path_factory: Any, rows: list[dict[str, Any]]
) -> None:
    rows = [{"n": place, **row} for place, row in enumerate(rows)]
    folder = tmp_path_factory.mktemp("same")
    table = pa.table({name: [row.get(name) for row in rows] for name in ("n", *columns)})
    table = table.cast(
        pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in table.schema])
    )
    pyarrow.parquet.write_table(table, folder / "e.parquet")
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    frame.to_csv(folder / "e.csv", index=False)
    wanted = batch_from(frame).events()
    assert wanted == tuple(rows)
    assert rv.read_events(folder / "e.parquet").events() == wanted
    assert rv.read_events(folder / "e.csv").events() == wanted


# Tables of other libraries.


class Stream:
    """A table of a library that we do not know."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Batch:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


class Frame(pd.DataFrame):
    """A subclass of the user's."""


def test_every_object_with_the_interface_of_arrow_is_a_table() -> None:
    table = pa.table({"x": [1, None], "s": pa.array(["a", "b"], pa.string_view())})
    expected = batch_from(table).events()
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    for other in (Stream(table), Batch(table.to_batches()[0]), reader):
        assert batch_from(other).events() == expected
    assert batch_from(Frame({"x": [1, 2]})).events() == ({"x": 1}, {"x": 2})


def test_an_interface_without_a_table_is_refused() -> None:
    for other in (pa.array([1]), pa.chunked_array([[1]]), Batch(pa.array([1])), pd.Series([1])):
        with pytest.raises(EventError, match=r"cannot be read as a table|is one column"):
            batch_from(other)


def test_a_named_index_is_a_column() -> None:
    frame = pd.DataFrame({"city": ["a", "b", "a"], "x": [1, 2, 3]})
    assert batch_from(frame.groupby("city").sum()).events() == ({"city": "a", "x": 4}, {"city": "b", "x": 2})
    times = pd.DatetimeIndex(["1970-01-01", "1970-01-02"], name="at")
    assert batch_from(pd.DataFrame({"x": [1, 2]}, index=times)).events() == (
        {"at": Timestamp(0), "x": 1},
        {"at": Timestamp(DAY), "x": 2},
    )
    both = frame.groupby(["city", "x"]).size().to_frame("n")
    assert batch_from(both).events()[0] == {"city": "a", "x": 1, "n": 1}
    assert batch_from(pd.DataFrame({"x": [1]}, index=[5])).events() == ({"x": 1},)
    with pytest.raises(EventError, match="index 'x' has the name of a column"):
        batch_from(pd.DataFrame({"x": [1]}, index=pd.Index([5], name="x")))


def test_a_value_out_of_range_has_its_row() -> None:
    for values in (np.array([1, 2**64 - 1], np.uint64), np.array(["1970", "3000"], "datetime64[s]")):
        with pytest.raises(EventError, match="column 'c', row 1: "):
            batch_from({"c": values})


def test_a_string_of_arrow_that_is_not_utf_8_has_its_row() -> None:
    cells = pa.array([b"a", b"caf\xe9", b"b"])
    wrong = pa.Array.from_buffers(pa.string(), 3, cells.buffers())
    with pytest.raises(EventError, match=r"column 's', row 1: .* is not UTF-8"):
        batch_from(pa.table({"s": wrong}))


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    table = pa.table({"x": [1, 2, None], "s": ["a", "é", None], "t": pa.array([0, 1, 2], pa.timestamp("us"))})
    place = tmp_path_factory.mktemp("whole") / "e.parquet"
    pyarrow.parquet.write_table(table, place)
    return {
        "e.parquet": place.read_bytes(),
        "e.csv": 'x,s,t\n1,a,2013-01-01\n2,"é\n",2013-01-02T05:00:00Z\n,"b""",\n'.encode(),
        "e.jsonl": '{"x": 1, "s": "a"}\n{"x": [1, {"y": null}], "s": "é"}\n'.encode(),
    }


@settings(max_examples=150)
@given(st.sampled_from(["e.csv", "e.jsonl", "e.parquet"]), st.data())
def test_damaged_bytes_are_events_or_a_named_error(
    tmp_path_factory: Any, whole_files: dict[str, bytes], name: str, data: st.DataObject
) -> None:
    content = bytearray(whole_files[name])
    one, other = (data.draw(st.integers(0, len(content) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["flip", "cut", "swap"])):
        case "flip":
            content[one] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            content = content[:one]
        case "swap":
            content[one], content[other] = content[other], content[one]
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(content)
    try:
        assert len(rv.read_events(path)) > 0
    except InputError as error:
        assert str(path) in str(error) and "\n" not in str(error)
