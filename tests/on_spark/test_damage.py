"""Damaged telemetry and traces in Spark: named by file, not by Java; earlier revisions are read."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import rayvous as rv
from rayvous.actors.telemetry import arrow
from rayvous.actors.telemetry.arrow import to_arrow
from rayvous.actors.telemetry.files import PartKey, parts, write_part
from rayvous.pipelines.audit import trace_files
from rayvous.pipelines.audit.audit import audit
from rayvous.pipelines.audit.trace_files import save_trace
from rayvous.pipelines.figures.live import Following
from rayvous.pipelines.figures.streaming import follow
from rayvous.protocol.errors import InputError, SparkUnavailable, UnreadableFile
from rayvous.protocol.telemetry import tables
from rayvous.protocol.telemetry.tables import TABLES
from rayvous.protocol.traces.trace import Confirmed, Notified, Published, Registered, Settled, Trace

KEPT = Path(__file__).parents[1] / "actors" / "telemetry" / "versions" / "version-1.1"
RUN = "kept-1a2b3c4d"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(KEPT, tmp_path / "telemetry"))


def a_value_of(path, column):
    """Return where a value of a column is in a file: the last byte of its page of distinct values."""
    return pq.ParquetFile(path).metadata.row_group(0).column(column).data_page_offset - 1


def test_parts_of_an_earlier_revision_are_read_with_new_ones(spark, folder, monkeypatch):
    more = {
        **TABLES["transfers"],
        "hops": tables.ColumnSpec(np.int64, "links", "that the events have crossed"),
    }
    monkeypatch.setitem(TABLES, "transfers", more)
    monkeypatch.setitem(tables.ADDED, ("transfers", "hops"), 2)
    monkeypatch.setattr(arrow, "SCHEMA_REVISION", 2)
    old = pq.read_table(next(iter(parts(folder, "transfers", RUN).values()))).to_pydict()
    new = {**{name: np.array(values) for name, values in old.items()}, "hops": np.array([1, 2, 3])}
    write_part(folder, "transfers", RUN, PartKey(2, 0), to_arrow("transfers", new))
    found = rv.spark_frames(rv.Telemetry.from_folder(folder), spark)["transfers"]
    assert sorted(row["hops"] or 0 for row in found.collect()) == [0] * 6 + [1, 2, 3]


@pytest.mark.parametrize("change", ["column", "cut"])
def test_a_damaged_part_is_named_before_spark_counts_too_little(spark, folder, tmp_path, change):
    path = parts(folder, "deliveries", RUN)[PartKey(1, 1)]
    if change == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        pq.write_table(pq.read_table(path).drop_columns(["notifications"]), path)
    for read in (
        lambda: rv.spark_frames(rv.Telemetry.from_folder(folder), spark),
        lambda: rv.report(folder, tmp_path / "report", spark),
        lambda: follow(spark, folder, tmp_path / "live", Following(RUN, 10, 30), only_what_is_there=True),
    ):
        with pytest.raises(UnreadableFile) as caught:
            read()
        assert (caught.value.path, caught.value.table) == (path, "deliveries")


def test_a_page_that_was_changed_is_named_and_not_counted(spark_on_ray, folder, tmp_path):
    """On Ray, where what an executor says of it crosses processes."""
    path = parts(folder, "deliveries", RUN)[PartKey(1, 0)]
    data = bytearray(path.read_bytes())
    data[a_value_of(path, 2)] ^= 8
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match="table deliveries: cannot be read"):
        rv.report(folder, tmp_path / "report", spark_on_ray)
    with pytest.raises(UnreadableFile, match="table deliveries: cannot be read"):
        follow(spark_on_ray, folder, tmp_path / "live", Following(RUN, 10, 30), only_what_is_there=True)


def test_a_damaged_trace_is_named_by_its_row(spark, tmp_path, monkeypatch):
    story = [Registered(0.0, "c", 1, "x > 1"), Confirmed(0.0, "c", 1)]
    events = [Published(1.0, "p", number, {"x": number}) for number in range(1, 4)]
    trace = Trace([*story, *events, Notified(2.0, "c", "p", 2), Notified(2.0, "c", "p", 3), Settled(3.0)])
    with monkeypatch.context() as patch:
        patch.setattr(trace_files, "encode_event", lambda event: "{" if event["x"] == 2 else "{}")
        folder = save_trace(trace, tmp_path / "trace")
    with pytest.raises(UnreadableFile, match=r"published\.parquet: row 2: cannot be read"):
        audit(spark, folder)


def test_what_is_no_session_is_refused():
    telemetry = rv.Telemetry.from_folder(KEPT)
    with pytest.raises(InputError, match="session is 'x': it must be a Spark session"):
        rv.spark_frames(telemetry, "x")
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InputError, match="a session of Spark Connect has its driver elsewhere"):
        rv.spark_frames(telemetry, connect)


def test_a_session_that_is_stopped_is_refused(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    with pytest.raises(SparkUnavailable, match="this Spark session is stopped"):
        rv.spark_frames(rv.Telemetry.from_folder(KEPT), spark)
