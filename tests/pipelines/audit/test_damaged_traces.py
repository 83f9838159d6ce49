"""A damaged trace is named by file and row, whoever reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.pipelines.audit.trace_files import TABLES, check_folder, check_values, load_trace, save_trace
from rayvous.protocol.errors import InputError, UnreadableFile
from rayvous.protocol.traces.trace import (
    ITSELF,
    Advertised,
    Bounded,
    Cancelled,
    Confirmed,
    Died,
    Kept,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
)

STORY = Trace(
    [
        Bounded(0.0, "", 2, 100, 60.0),
        Advertised(0.0, "p", 1, "TRUE"),
        Registered(0.0, "c", 1, "x > 1"),
        Confirmed(0.0, "c", 1),
        Published(1.0, "p", 1, {"x": 2}),
        Published(1.0, "p", 2, {"x": 3}),
        Kept(1.0, ITSELF, "p", 1, 1, 30),
        Notified(1.0, "c", "p", 1),
        Died(1.2, 3, ""),
        LossTold(1.5, "c", "p", 2),
        Settled(2.0),
        Cancelled(3.0, "c", 1),
    ]
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_trace(STORY, tmp_path_factory.mktemp("trace"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "trace"))


def set_cell(folder: Path, table: str, column: str, row: int, value: Any) -> None:
    file = folder / f"{table}.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[row][column] = value
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), file)
    without_checksums(folder)


def without_checksums(folder: Path) -> None:
    """Make it a trace as others write it, or earlier versions."""
    head = json.loads((folder / "trace.json").read_text())
    head.pop("crc32", None)
    (folder / "trace.json").write_text(json.dumps(head))


HEADS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "is not the header": lambda head: [],
    "does not say how many rows": lambda head: {**head, "rows": 3},
    "version 'new'": lambda head: {**head, "version": "new"},
    "and trace.json says None": lambda head: {**head, "rows": {}},
    "and trace.json says 'a'": lambda head: {**head, "rows": {**head["rows"], "published": "a"}},
}


@pytest.mark.parametrize("message", HEADS)
def test_a_damaged_header_is_named(folder: Path, message: str) -> None:
    head = folder / "trace.json"
    head.write_text(json.dumps(HEADS[message](json.loads(head.read_text()))))
    with pytest.raises(UnreadableFile, match=message):
        check_folder(folder)


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "message"),
    [
        ("published", "event", 1, "{", "published.parquet: row 2: cannot be read"),
        ("published", "event", 1, "[1]", "published.parquet: row 2: cannot be read"),
        ("published", "publisher", 1, None, "published.parquet: row 2: column 'publisher' has no value"),
        ("published", "position", 1, 4, "published.parquet: row 2: position 4 is that of another row, too"),
        ("notified", "position", 0, 4, "notified.parquet: row 1: position 4 is that of another row, too"),
        ("notified", "position", 0, -4, "notified.parquet: row 1: position -4 is negative"),
        ("subscriptions", "selector", 0, "x >", "subscriptions.parquet: row 1: cannot be read"),
        ("subscriptions", "cancelled_seconds", 0, None, "subscriptions.parquet: row 1: has half an end"),
        ("marks", "kind", 0, "loud", "marks.parquet: row 1: there is no kind 'loud'"),
        ("marks", "client", 0, None, "marks.parquet: row 1: column 'client' has no value"),
        ("limits", "kind", 1, "quiet", "limits.parquet: row 2: there is no kind 'quiet'"),
        ("limits", "events_max", 0, None, "limits.parquet: row 1: column 'events_max' has no value"),
        ("kept", "broker", 0, None, "kept.parquet: row 1: column 'broker' has no value"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_named(
    folder: Path, table: str, column: str, row: int, value: Any, message: str
) -> None:
    set_cell(folder, table, column, row, value)
    with pytest.raises(UnreadableFile) as caught:
        load_trace(folder)
    assert message in str(caught.value) and caught.value.row == row + 1
    assert caught.value.path == folder / f"{table}.parquet"


def test_rows_that_spark_would_misjudge_are_found_before_it_starts(folder: Path) -> None:
    """It counts what has no value as something else."""
    for table, column in (("notified", "publisher"), ("published", "event"), ("kept", "batch")):
        shutil.copytree(folder, folder.parent / "one", dirs_exist_ok=True)
        set_cell(folder.parent / "one", table, column, 0, None)
        with pytest.raises(UnreadableFile, match=rf"{table}\.parquet: row 1: column '{column}' has no value"):
            check_values(folder.parent / "one")


def test_a_file_that_was_changed_is_not_even_parsed(folder: Path) -> None:
    shutil.copy(folder / "kept.parquet", folder / "published.parquet")
    with pytest.raises(UnreadableFile, match=r"published\.parquet: is not as it was written"):
        check_folder(folder)
    without_checksums(folder)
    with pytest.raises(UnreadableFile, match=r"published\.parquet: has the columns"):
        check_folder(folder)


@settings(max_examples=120)
@given(st.sampled_from([*sorted(TABLES), "trace"]), st.data())
def test_damaged_bytes_are_named_or_change_nothing(whole: Path, table: str, data: st.DataObject) -> None:
    file = whole / ("trace.json" if table == "trace" else f"{table}.parquet")
    content = file.read_bytes()
    one, other = (data.draw(st.integers(0, len(content) - 1)) for _ in range(2))
    damaged = bytearray(content)
    match data.draw(st.sampled_from(["flip", "cut", "swap"])):
        case "flip":
            damaged[one] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            damaged = damaged[:one]
        case "swap":
            damaged[one], damaged[other] = damaged[other], damaged[one]
    try:
        file.write_bytes(damaged)
        again = load_trace(whole)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert again.operations == STORY.operations
    finally:
        file.write_bytes(content)
