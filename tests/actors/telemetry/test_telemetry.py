"""Telemetry for users: tables with units, and folders that pandas and other readers accept as they are."""

import json
from pathlib import Path

import networkx as nx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ray.exceptions import OwnerDiedError
from rayvous.actors.telemetry.arrow import arrow_schema
from rayvous.actors.telemetry.collector import Collector
from rayvous.actors.telemetry.files import (
    PartKey,
    graph_of,
    network_of,
    prepare_folder,
    read_network,
    run_name,
    runs,
    write_network,
    write_part,
)
from rayvous.actors.telemetry.reading import read_parts
from rayvous.actors.telemetry.telemetry import Telemetry
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.protocol.telemetry.tables import SCHEMA_VERSION, TABLES, TelemetryConfig
from rayvous.routing.topologies.cluster_trees import ClusterTree

NETWORK = network_of(ClusterTree(2, 2).positions(), "hybrid")


@pytest.fixture
def held(tmp_path, make_host):
    """Return a collector with a folder, and a host that has handed over three deliveries and a transfer."""
    collector = Collector("net-1a2b", TelemetryConfig(tmp_path / "live"), NETWORK, put=None)
    host = make_host()
    host.dropped = {"notified": 2}
    collector.take(host.flush(deliveries=3, transfers=1))
    return collector, host


def test_every_column_has_a_unit_and_a_meaning_in_arrow_and_in_files(held):
    telemetry = Telemetry(held[0].hold())
    assert telemetry.schema_version == SCHEMA_VERSION
    assert telemetry.tables["deliveries"]["latency_sum_seconds"].unit == "s"
    for name, table in telemetry.to_arrow().items():
        schemas = [table.schema, *(pq.read_schema(path) for path in telemetry.files[name])]
        for schema in schemas:
            assert schema.metadata[b"rayvous.schema_version"] == str(SCHEMA_VERSION).encode()
            for field in schema:
                told = TABLES[name][field.name]
                assert field.metadata == {b"unit": told.unit.encode(), b"meaning": told.meaning.encode()}
                assert told.unit and told.meaning


def test_the_page_has_every_column_with_its_unit_and_meaning():
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    for name, columns in TABLES.items():
        section = page.partition(f"### {name}\n")[2].partition("\n#")[0]
        told = [line for line in section.splitlines() if line.startswith("| `")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told]
        assert [(row[0], row[2], row[3]) for row in rows] == [
            (f"`{column}`", told.unit, told.meaning) for column, told in columns.items()
        ]
        types = [str(field.type).replace("double", "float64") for field in arrow_schema(name)]
        assert [row[1] for row in rows] == types


def test_telemetry_of_a_folder_is_that_of_the_network(held, tmp_path):
    collector, _ = held
    here = Telemetry(collector.hold())
    there = Telemetry.from_folder(tmp_path / "live")
    assert (there.run, there.rows, there.lost) == (here.run, here.rows, here.lost)
    assert there.to_arrow() == here.to_arrow()
    assert dict(there.network) == NETWORK
    with pytest.raises(InputError, match="has no run 'x'; there is net-1a2b"):
        Telemetry.from_folder(tmp_path / "live", "x")
    with pytest.raises(InputError, match=r"has no telemetry: .*\.parquet$"):
        Telemetry.from_folder(tmp_path)
    here.to_parquet(tmp_path / "tables")
    with pytest.raises(InputError, match=r"that of the report is in .*tables$"):
        Telemetry.from_folder(tmp_path)


def test_rows_losses_and_frames(held):
    telemetry = Telemetry(held[0].hold())
    assert telemetry.rows == {
        "transfers": 1,
        "deliveries": 3,
        "multicasts": 0,
        "published": 0,
        "notified": 0,
        "lost": 1,
    }
    assert telemetry.lost == {"notified": {"buffer": 2}}
    frames = telemetry.to_pandas()
    assert frames["deliveries"]["time_seconds"].tolist() == [0, 1, 2]
    assert frames["lost"][["table", "reason", "rows"]].values.tolist() == [["notified", "buffer", 2]]
    assert list(frames["published"].columns) == list(TABLES["published"])
    assert repr(telemetry) == (
        "Telemetry(run='net-1a2b', transfers=1, deliveries=3, multicasts=0, published=0, notified=0, lost=1)"
    )


def test_rows_that_went_with_the_collector_say_what_to_do(monkeypatch, tmp_path, make_host):
    def gone(_):
        raise OwnerDiedError("ref", b"", "")

    monkeypatch.setattr("rayvous.actors.telemetry.telemetry.ray.get", gone)
    collector = Collector("net-1a2b", put=lambda table: table)
    collector.take(make_host().flush(deliveries=3))
    telemetry = Telemetry(collector.hold())
    assert telemetry.rows["deliveries"] == 3
    for use in (telemetry.to_arrow, lambda: telemetry.to_parquet(tmp_path)):
        with pytest.raises(BrokerUnavailable, match=r"lost with their collector .*TelemetryConfig\(folder"):
            use()


def test_writing_again_adds_what_is_new_and_touches_nothing_else(held, tmp_path):
    collector, host = held
    out = tmp_path / "out"
    assert Telemetry(collector.hold()).to_parquet(out) == out
    foreign = [
        out / "notes.txt",
        out / "deliveries" / "run=net-1a2b" / "mine.parquet",
        out / "deliveries" / "x",
    ]
    for path in foreign:
        path.write_text("mine")
    Telemetry(collector.hold()).to_parquet(out)
    collector.take(host.flush(deliveries=2))
    Telemetry(collector.hold()).to_parquet(out)
    assert [path.read_text() for path in foreign] == ["mine"] * 3
    for path in foreign:
        path.unlink()
    frame = pd.read_parquet(out / "deliveries")
    assert frame["time_seconds"].tolist() == [0, 1, 2, 3, 4]
    assert set(frame["run"]) == {"net-1a2b"}
    assert pd.read_parquet(out / "lost")["rows"].tolist() == [2]


def test_two_runs_in_one_folder_stay_apart(tmp_path, make_host):
    for turn, run in enumerate(("b", "a")):
        collector = Collector(run, TelemetryConfig(tmp_path), put=None, clock=lambda turn=turn: 10.0 + turn)
        collector.take(make_host().flush(deliveries=1 + turn))
        collector.hold()
    assert runs(tmp_path) == ["b", "a"]  # in the order in which they began
    frame = pd.read_parquet(tmp_path / "deliveries")
    assert frame.groupby("run", observed=True).size().to_dict() == {"b": 1, "a": 2}
    (tmp_path / "deliveries" / "run=empty").mkdir()
    assert runs(tmp_path) == ["b", "a"]


def test_the_network_of_a_run_is_a_graph_as_describe_draws_it(held, tmp_path):
    graph = graph_of(read_network(tmp_path / "live", "net-1a2b"))
    assert len(graph) == 4
    assert sorted(role for _, role in graph.nodes(data="role")) == ["DEB", "NEB", "NEB", "REB"]
    assert sorted(kind for *_, kind in graph.edges(data="kind")) == ["group", "group", "tree"]
    assert nx.is_connected(graph)
    assert len(graph_of(read_network(tmp_path, "nothing"))) == 0
    (tmp_path / "live" / "_runs" / "net-1a2b.json").write_text(json.dumps({"brokers": 3}))
    with pytest.raises(InputError, match="does not describe a network"):
        read_network(tmp_path / "live", "net-1a2b")


@pytest.mark.parametrize("version", ["2", None])
def test_a_part_of_another_version_is_refused(tmp_path, version):
    schema = arrow_schema("lost")
    metadata = None if version is None else {"rayvous.schema_version": version}
    path = tmp_path / "part.parquet"
    pq.write_table(schema.empty_table().replace_schema_metadata(metadata), path)
    told = "no schema version" if version is None else "schema version 2"
    with pytest.raises(InputError, match=f"{told}; this Rayvous reads version {SCHEMA_VERSION}"):
        read_parts([path], "lost")


def test_a_column_more_is_left_out_and_one_that_misses_is_named(tmp_path):
    schema = arrow_schema("lost")
    more = schema.append(pa.field("more", pa.int64()))
    pq.write_table(more.empty_table(), tmp_path / "more.parquet")
    assert read_parts([tmp_path / "more.parquet"], "lost").schema == schema
    pq.write_table(schema.remove(1).empty_table(), tmp_path / "less.parquet")
    with pytest.raises(InputError, match="it has no column 'table'"):
        read_parts([tmp_path / "less.parquet"], "lost")
    (tmp_path / "text.parquet").write_text("text")
    with pytest.raises(InputError, match=r"text\.parquet: table lost: cannot be read"):
        read_parts([tmp_path / "text.parquet"], "lost")


def test_folders_that_cannot_be_used(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "deeper", Path("/proc/here")):
        with pytest.raises(InputError, match="cannot be used"):
            prepare_folder(place)


def test_a_name_of_a_run_is_good_for_any_file_system():
    assert run_name("my net/é:1", "0123456789") == "my-net---1-01234567"


def test_a_network_is_written_whole(tmp_path):
    write_network(tmp_path, "x", NETWORK)
    write_network(tmp_path, "x", NETWORK)
    assert [path.name for path in (tmp_path / "_runs").iterdir()] == ["x.json"]


def test_a_part_takes_the_place_of_itself(tmp_path):
    table = arrow_schema("lost").empty_table()
    for _ in range(2):
        write_part(tmp_path, "lost", "x", PartKey(1, 2), table, accounts="{}")
    names = [path.name for path in (tmp_path / "lost" / "run=x").iterdir()]
    assert names == ["part-00000000000000000001-0000000002.parquet"]
