"""One Ray and one Spark for the whole folder: starting them takes longer than all the tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rayvous.pipelines.session import prepare_java, spark_session
from rayvous.pipelines.tables import arrow_schema


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    prepare_java()  # before Ray starts: its workers inherit the environment
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        with spark_session("rayvous-tests") as session:
            yield session
    finally:
        ray.shutdown()


@pytest.fixture(scope="session")
def frame(spark: Any) -> Callable[..., Any]:
    """``frame(table, rows)``: a small literal DataFrame with the columns of a telemetry table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def build(table: str, rows: list[tuple[Any, ...]]) -> Any:
        return spark.createDataFrame(rows, from_arrow_schema(arrow_schema(table)))

    return build


@pytest.fixture(scope="session")
def rows() -> Callable[[Any], list[dict[str, Any]]]:
    """``rows(frame)``: its rows as dicts, in order."""

    def collect(frame: Any) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    return collect
