"""One Spark for the whole folder, on the Ray of the test run: starting it takes longer than the tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rayvous.actors.telemetry.arrow import arrow_schema
from rayvous.pipelines.spark.session import spark_session


@pytest.fixture(scope="session")
def first_sum(ray_started: None) -> int:
    """Return a sum computed in a session that is closed before the shared session begins."""
    with spark_session("rayvous-tests-first") as session:
        return int(session.range(5).agg({"id": "sum"}).toPandas().iloc[0, 0])


@pytest.fixture(scope="session")
def spark(first_sum: int) -> Iterator[Any]:
    with spark_session("rayvous-tests") as session:
        yield session


@pytest.fixture(scope="session")
def frame(spark: Any) -> Callable[..., Any]:
    """Return ``frame(table, rows)``: a small literal DataFrame with the columns of a telemetry table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def build(table: str, rows: list[tuple[Any, ...]]) -> Any:
        return spark.createDataFrame(rows, from_arrow_schema(arrow_schema(table)))

    return build


@pytest.fixture(scope="session")
def rows() -> Callable[[Any], list[dict[str, Any]]]:
    """Return ``rows(frame)``: the rows of a DataFrame as dicts, in order."""

    def collect(frame: Any) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    return collect
