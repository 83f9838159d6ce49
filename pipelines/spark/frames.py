"""Telemetry as Spark DataFrames, in any session of the user.

Rules
-----
* In a RayDP session, rows go from Ray's object store to the executors by reference (`tables`).
* Any other session does not know Ray: telemetry in the object store is written to a temporary folder, which
  is removed when the process ends, and read from there. If executors run on other machines than the driver,
  and do not see its files, the rows go through the driver.
* Telemetry in a folder is read from it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...actors.telemetry.files import check_run, parts
from ...actors.telemetry.reading import check_parts
from ...actors.telemetry.telemetry import Telemetry
from ...protocol import checks
from ...protocol.telemetry.tables import TABLES
from .local import open_session, start_local
from .tables import empty, spark_path, spark_schema, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def spark_frames(telemetry: Telemetry, session: SparkSession | None = None) -> dict[str, DataFrame]:
    """Return every table of telemetry as a Spark DataFrame, ``{name: DataFrame}``.

    In a session of RayDP the rows go from the object store to the executors by reference. In any other session
    they go through Parquet files, or through the driver if executors do not see its files.

    Parameters
    ----------
    telemetry
        The telemetry of a network, or of a folder.
    session
        Your Spark session. The default is the active session, or else a new one on this machine, which you must
        stop.

    Raises
    ------
    SparkUnavailable
        If no session is given and none could be started.
    BrokerUnavailable
        If the rows were in the object store and are gone with the collector.
    """
    checks.instance(
        "telemetry", telemetry, Telemetry, "what net.telemetry() or Telemetry.from_folder() returns"
    )
    spark = open_session(session) or start_local()
    if telemetry.folder is not None:
        for name, paths in telemetry.files.items():
            check_parts(paths, name)
        return {name: _read(spark, name, paths) for name, paths in telemetry.files.items()}
    if is_raydp(spark):
        frames = {name: to_spark(spark, refs, name) for name, refs in telemetry.refs.items()}
        return {**frames, "lost": _hand_over(spark, "lost", telemetry.table("lost"))}
    if spark.sparkContext.master.startswith("local"):
        folder = tempfile.mkdtemp(prefix="rayvous-telemetry-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return frames_in(spark, telemetry.to_parquet(folder), telemetry.run)
    return {name: _hand_over(spark, name, telemetry.table(name)) for name in TABLES}


def frames_in(spark: SparkSession, folder: str | Path, run: str) -> dict[str, DataFrame]:
    """Return the tables of one run in a telemetry folder, ``{name: DataFrame}``; a table without parts is empty.

    Raises
    ------
    UnreadableFile
        If a part is damaged, or was written with another version of the schema.
    """
    check_run(Path(folder), run)
    return {name: _read(spark, name, list(parts(Path(folder), name, run).values())) for name in TABLES}


def is_raydp(spark: SparkSession) -> bool:
    """Return whether a session's executors are Ray actors, which accept rows by reference."""
    return bool(spark.sparkContext.master.startswith("ray"))


def _read(spark: SparkSession, name: str, paths: list[Path]) -> DataFrame:
    if not paths:
        return empty(spark, name)
    return checked(spark.read).schema(spark_schema(name)).parquet(*map(spark_path, paths))


def checked(reader: DataFrameReader) -> DataFrameReader:
    """Return a reader that checks the checksums of pages."""
    return reader.option("parquet.page.verify-checksum.enabled", "true")


def _hand_over(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return rows of the driver as a DataFrame."""
    if table.num_rows == 0:
        return empty(spark, name)
    # PySpark 3.5 requires strings as Python objects, not in pandas 3's representation.
    frame = table.to_pandas()
    strings = [field.name for field in table.schema if field.type == pa.string()]
    return spark.createDataFrame(frame.astype(dict.fromkeys(strings, object)), spark_schema(name))
