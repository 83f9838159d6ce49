"""Chunks in Ray's object store become a Spark DataFrame, without loss."""

import numpy as np
import pytest
from rayvous.actors.telemetry.arrow import arrow_schema, to_arrow
from rayvous.pipelines.spark.tables import empty, to_spark
from rayvous.protocol.errors import InputError
from rayvous.protocol.telemetry.tables import SCHEMAS


def chunk(first: int, rows: int) -> dict[str, np.ndarray]:
    return {
        "time_seconds": np.arange(first, first + rows) + 0.5,
        "broker": np.arange(rows, dtype=np.int32) % 3,
        "subscriber": np.array([f"süb {i}" for i in range(rows)], dtype=object),
        "publisher": np.array(["p"] * rows, dtype=object),
        "sequence": np.arange(first, first + rows, dtype=np.int64) + (1 << 40),
        "published_at": np.arange(first, first + rows, dtype=np.float64),
    }


def test_every_row_arrives_once_and_unchanged(spark_on_ray):
    import ray

    chunks = [chunk(0, 7), chunk(7, 0), chunk(7, 5)]
    refs = [ray.put(to_arrow("notified", one)) for one in chunks]
    found = to_spark(spark_on_ray, refs, "notified").orderBy("sequence").toPandas()
    assert list(found.columns) == list(SCHEMAS["notified"])
    for column in found.columns:
        assert found[column].tolist() == [value for one in chunks for value in one[column].tolist()], column


def test_types_are_those_of_the_schema(spark_on_ray):
    import ray

    frame = to_spark(spark_on_ray, [ray.put(to_arrow("notified", chunk(0, 1)))], "notified")
    assert dict(frame.dtypes) == {
        "time_seconds": "double", "broker": "int", "subscriber": "string",
        "publisher": "string", "sequence": "bigint", "published_at": "double",
    }  # fmt: skip


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_no_chunks_is_an_empty_frame_of_the_same_type(spark_on_ray, name):
    frame = to_spark(spark_on_ray, [], name)
    assert frame.columns == arrow_schema(name).names
    assert frame.count() == 0
    assert frame.schema == empty(spark_on_ray, name).schema


def test_a_chunk_of_another_table_is_refused(spark_on_ray):
    import ray

    with pytest.raises(InputError, match="table 'published': a chunk has the columns"):
        to_spark(spark_on_ray, [ray.put(to_arrow("notified", chunk(0, 1)))], "published")


def test_a_chunk_may_itself_be_in_pieces(spark_on_ray):
    import pyarrow as pa
    import ray

    pieces = pa.concat_tables([to_arrow("notified", chunk(0, 2)), to_arrow("notified", chunk(2, 3))])
    assert to_spark(spark_on_ray, [ray.put(pieces)], "notified").count() == 5
