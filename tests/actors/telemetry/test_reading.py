"""Parts of telemetry: earlier revisions are read with this one, and what is damaged is named."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.telemetry import arrow
from rayvous.actors.telemetry.arrow import arrow_schema, to_arrow
from rayvous.actors.telemetry.collector import Collector
from rayvous.actors.telemetry.files import PartKey, network_of, parts, read_network, write_network, write_part
from rayvous.actors.telemetry.reading import check_part, naming_damage, read_parts
from rayvous.protocol.errors import UnreadableFile
from rayvous.protocol.telemetry import tables
from rayvous.protocol.telemetry.tables import TABLES, TelemetryConfig

VERSIONS = Path(__file__).parent / "versions"
RUN = "kept-1a2b3c4d"
ROWS = 3


def rows_of(table: str) -> dict[str, Any]:
    """Return some rows of a table of revision 1, the same for ever."""
    words = {"link_kind": ["publish", "up", "deliver"], "table": ["transfers"] * ROWS}
    columns = {
        np.int32: lambda place: np.arange(ROWS, dtype=np.int32) + place,
        np.int64: lambda place: np.arange(ROWS, dtype=np.int64) * 10 + place,
        np.float64: lambda place: np.arange(ROWS) + place / 4,
    }
    return {
        name: np.array(words.get(name, [f"{name} {row}" for row in range(ROWS)]), object)
        if spec.kind is str
        else columns[spec.kind](place)
        for place, (name, spec) in enumerate(TABLES[table].items())
        if (table, name) not in tables.ADDED
    }


def write_folder(folder: Path) -> Path:
    """Write a telemetry folder with the present version."""
    for name in TABLES:
        for number in range(2):
            write_part(folder, name, RUN, PartKey(1, number), to_arrow(name, rows_of(name)))
    write_network(folder, RUN, network_of(rv.ClusterTree(2, 2).positions(), "hybrid"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "telemetry")


def a_part(folder: Path, table: str = "transfers") -> Path:
    return parts(folder, table, RUN)[PartKey(1, 1)]


@pytest.fixture
def with_a_new_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `transfers` the column that some later revision will add."""
    more = {
        **TABLES["transfers"],
        "hops": tables.ColumnSpec(np.int64, "links", "that the events have crossed"),
    }
    monkeypatch.setitem(TABLES, "transfers", more)
    monkeypatch.setitem(tables.ADDED, ("transfers", "hops"), 2)
    monkeypatch.setattr(arrow, "SCHEMA_REVISION", 2)


@pytest.mark.parametrize("kept", sorted(VERSIONS.glob("version-*")), ids=lambda path: path.name)
def test_folders_of_earlier_versions_are_read(kept: Path) -> None:
    found = rv.Telemetry.from_folder(kept)
    assert found.run == RUN and set(found.to_arrow()) == set(TABLES)
    for name, table in found.to_arrow().items():
        for column, values in rows_of(name).items():
            assert table[column].to_pylist() == [*values, *values], (name, column)
    assert found.lost == {"transfers": {f"reason {row}": 2 * (10 * row + 3) for row in range(ROWS)}}
    assert len(found.network["brokers"]) == 4


@pytest.mark.usefixtures("with_a_new_column")
def test_parts_without_a_later_column_are_read_with_those_that_have_it(tmp_path: Path) -> None:
    shutil.copytree(VERSIONS / "version-1.1", tmp_path / "both")
    new = {**rows_of("transfers"), "hops": np.array([1, 2, 3])}
    write_part(tmp_path / "both", "transfers", RUN, PartKey(2, 0), to_arrow("transfers", new))
    table = rv.Telemetry.from_folder(tmp_path / "both").to_arrow()["transfers"]
    assert table["hops"].to_pylist() == [None] * 6 + [1, 2, 3] and table["events"].null_count == 0
    copied = rv.Telemetry.from_folder(tmp_path / "both").to_parquet(tmp_path / "copy")
    assert rv.Telemetry.from_folder(copied).to_arrow()["transfers"].equals(table)


@pytest.mark.usefixtures("with_a_new_column")
def test_a_part_that_lacks_a_column_of_its_own_revision_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    table = to_arrow("transfers", {**rows_of("transfers"), "hops": np.array([1, 2, 3])})
    for name, metadata in (("hops", {}), ("events", {"rayvous.schema_revision": "1"})):
        less = table.drop_columns([name])
        pq.write_table(less.replace_schema_metadata({**less.schema.metadata, **metadata}), path)
        for read in (lambda: read_parts([path], "transfers"), lambda: check_part(path, "transfers")):
            with pytest.raises(UnreadableFile, match=f"table transfers: .* it has no column '{name}'"):
                read()


def changed(path: Path, change: str) -> None:
    data = path.read_bytes()
    if change in ("cut", "empty", "foreign"):
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "foreign": b"%PDF-1.7 " * 99}[change])
        return
    table = pq.read_table(path)
    told = dict(table.schema.metadata)
    if change == "newer":
        told[b"rayvous.schema_version"] = b"2"
    elif change == "odd":
        told[b"rayvous.schema_version"] = b"one"
    elif change == "columns":
        table = table.drop_columns(["broker"])
    elif change == "type":
        table = table.set_column(1, "broker", table["broker"].cast(pa.int64()))
    elif change == "null":
        table = table.set_column(1, "broker", pa.array([1, None, 2], pa.int32()))
    pq.write_table(table.replace_schema_metadata(told), path)


DAMAGE = {
    "cut": "cannot be read", "empty": "cannot be read", "foreign": "cannot be read", "missing": "is missing",
    "newer": "has schema version 2; this Rayvous reads version 1", "odd": "has no schema version",
    "columns": "has no column 'broker'", "type": "column 'broker' is int64, not int32",
    "null": "row 2: column 'broker' has no value",
}  # fmt: skip


@pytest.mark.parametrize("change", DAMAGE)
@pytest.mark.parametrize("table", ["transfers", "notified"])
def test_a_damaged_part_is_named(folder: Path, change: str, table: str) -> None:
    path = a_part(folder, table)
    if change == "missing":
        found = rv.Telemetry.from_folder(folder)
        path.unlink()
    else:
        changed(path, change)
        found = None
    with pytest.raises(UnreadableFile, match=DAMAGE[change]) as caught:
        (found or rv.Telemetry.from_folder(folder)).to_arrow()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.table, str(error)) == (path, table, str(caught.value))
    assert str(error).startswith(f"{path}: table {table}") and "\n" not in str(error)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff", b'{"links": [[1]]}', b"[" * 100_000])
def test_a_damaged_network_is_named(folder: Path, content: bytes) -> None:
    place = folder / "_runs" / f"{RUN}.json"
    place.write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"does not describe a network.*remove it to go on"):
        read_network(folder, RUN)


def test_a_collector_goes_on_after_a_part_that_was_cut(folder: Path) -> None:
    changed(a_part(folder), "empty")
    collector = Collector(RUN, TelemetryConfig(folder), put=None, clock=lambda: 10.0)
    assert collector.hold().end > PartKey(1, 1)


def test_an_error_of_another_reader_becomes_that_of_the_damaged_part(folder: Path) -> None:
    everything = {name: list(parts(folder, name, RUN).values()) for name in TABLES}
    with pytest.raises(RuntimeError, match="Java"), naming_damage(everything):
        raise RuntimeError("Java")
    changed(a_part(folder, "lost"), "cut")
    with pytest.raises(UnreadableFile, match="table lost: cannot be read"), naming_damage(everything):
        raise RuntimeError("Java")


@st.composite
def damages(draw: Any) -> Any:
    """Return a function that flips, cuts or swaps bytes; places are shares of the length."""
    how = draw(st.sampled_from(["flip", "cut", "swap"]))
    one, other = draw(st.floats(0, 1, exclude_max=True)), draw(st.floats(0, 1, exclude_max=True))
    bit = 1 << draw(st.integers(0, 7))

    def damage(data: bytes) -> bytes:
        whole = bytearray(data)
        here, there = int(one * len(data)), int(other * len(data))
        if how == "cut":
            return bytes(whole[:here])
        if how == "flip":
            whole[here] ^= bit
        else:
            whole[here], whole[there] = whole[there], whole[here]
        return bytes(whole)

    return damage


@settings(max_examples=150)
@given(st.sampled_from(sorted(TABLES)), damages())
def test_damaged_bytes_are_named_or_change_no_row(tmp_path_factory: Any, table: str, damage: Any) -> None:
    whole = a_part(VERSIONS / "version-1.1", table)
    path = tmp_path_factory.mktemp("damaged") / "part.parquet"
    path.write_bytes(damage(whole.read_bytes()))
    try:
        found = read_parts([path], table)
    except UnreadableFile as error:
        assert error.path == path and "\n" not in str(error)
    else:
        assert found.equals(read_parts([whole], table))


def test_the_schema_says_its_revision() -> None:
    for name in TABLES:
        assert arrow_schema(name).metadata[b"rayvous.schema_revision"] == str(tables.SCHEMA_REVISION).encode()
