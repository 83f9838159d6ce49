"""Telemetry tables in transit: a host's chunk of columns, an Arrow table, a Spark DataFrame.

Rules
-----
* The columns are those of :data:`~rayvous.protocol.telemetry.tables.TABLES`, in that order, whoever wrote the
  chunk.
* Arrow tables are passed to Spark by reference (``ray.data.from_arrow_refs``), not through a file or the
  driver.
* A table without chunks is an empty DataFrame with the right columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...actors.telemetry.arrow import arrow_schema
from ...protocol.errors import InputError
from ..ray_data.quiet import quiet

if TYPE_CHECKING:
    import ray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTITIONS_MAX: Final = 16
"""The maximum number of Spark partitions into which chunks are joined: each costs a task, and there are many chunks."""


def to_spark(spark: SparkSession, refs: Sequence[ray.ObjectRef], name: str) -> DataFrame:
    """Pass the chunks of one telemetry table in Ray's object store to Spark.

    Parameters
    ----------
    spark
        A session of :func:`~rayvous.pipelines.spark.session.spark_session`.
    refs
        References to Arrow tables, made by `actors.telemetry.arrow.to_arrow`. The list or a table may be empty.
    name
        The table's name.

    Returns
    -------
    pyspark.sql.DataFrame
        Lazy: each action fetches the rows again, so ``persist()`` it if it is used more than once. It holds
        copies of the chunks, in the object store: the chunks themselves may be freed when this returns.

    Raises
    ------
    InputError
        There is no such table, or a chunk has other columns.
    """
    import ray
    from pyspark.sql import functions

    schema = arrow_schema(name)
    blocks, rows = _blocks(name, refs)
    if rows == 0:
        return empty(spark, name)
    with quiet():
        frame = ray.data.from_arrow_refs(blocks).to_spark(spark)
    strings = [field.name for field in schema if field.type == pa.string()]
    return frame.withColumns({column: functions.col(column).cast("string") for column in strings})


def _blocks(name: str, refs: Sequence[ray.ObjectRef]) -> tuple[list[ray.ObjectRef], int]:
    """Join chunks into at most `PARTITIONS_MAX` blocks that RayDP accepts; return them and their number of rows."""
    import ray

    join = ray.remote(num_cpus=1, num_returns=2)(_join_chunks)
    groups = [list(refs[start::PARTITIONS_MAX]) for start in range(min(PARTITIONS_MAX, len(refs)))]
    joined = [join.remote(name, *group) for group in groups]
    told: list[int | str] = ray.get([rows for _, rows in joined])
    for one in told:
        if isinstance(one, str):
            raise InputError(one)
    counts = [int(one) for one in told]
    return [block for (block, _), count in zip(joined, counts, strict=True) if count], sum(counts)


def _join_chunks(name: str, *chunks: pa.Table) -> tuple[pa.Table | None, int | str]:
    """Return one block and its number of rows; or None and an error message.

    Strings are passed as bytes: on its way into Spark a block becomes a pandas frame, pandas 3 keeps strings
    in Arrow chunks, and PySpark 3.5 fails on a column that does not have exactly one chunk.
    """
    schema = arrow_schema(name)
    for chunk in chunks:
        if not chunk.schema.equals(schema):
            found, wanted = _told(chunk.schema), _told(schema)
            return None, f"table {name!r}: a chunk has the columns {found}; they must be {wanted}"
    plain = [field.with_type(pa.binary()) if field.type == pa.string() else field for field in schema]
    block = pa.concat_tables(chunks).cast(pa.schema(plain)).combine_chunks()
    return block, block.num_rows


def empty(spark: SparkSession, name: str) -> DataFrame:
    """Return telemetry table `name` without rows.

    Raises
    ------
    InputError
        There is no table of that name.
    """
    return spark.createDataFrame([], spark_schema(name))


def spark_schema(name: str) -> StructType:
    """Return the Spark schema of one telemetry table; raises the same errors as `empty`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(name))


def spark_path(path: Path) -> str:
    """Return a local path in Spark's form: with the scheme, not percent-encoded, patterns escaped."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
