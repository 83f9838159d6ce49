"""One Spark for the whole folder: starting it takes longer than the tests.

Its JVM is the driver of three sessions, one after the other: the first on the Ray of the test run, one on this machine
alone, and one on Ray again. What is computed does not depend on where: most tests have the one on this machine, whose
tasks run where their plans were compiled. Those whose matter is Ray have the last one, and come last.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rayvous.actors.telemetry.arrow import arrow_schema
from rayvous.pipelines.spark.local import start_local
from rayvous.pipelines.spark.session import spark_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests that need Spark on Ray behind the others of this folder, which are where they were."""
    here = Path(__file__).parent
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(here)]
    ours = sorted((items[place] for place in places), key=needs_ray)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def needs_ray(item: pytest.Item) -> bool:
    return "spark_on_ray" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def first_sum(ray_started: None) -> int:
    """Return a sum computed in a session that is closed before the shared session begins."""
    with spark_session("rayvous-tests-first") as session:
        return int(session.range(5).agg({"id": "sum"}).toPandas().iloc[0, 0])


class Session:
    """The Spark session that is open: that on this machine, until there is one on Ray."""

    def __init__(self) -> None:
        self._local: Any = None

    def local(self) -> Any:
        self._local = start_local("rayvous-tests-local", cores=1)
        return self._local

    def end(self) -> None:
        if self._local is not None:
            self._local.stop()
            self._local = None


@pytest.fixture(scope="session")
def session_here(first_sum: int) -> Iterator[Session]:
    session = Session()
    yield session
    session.end()


@pytest.fixture(scope="session")
def spark(session_here: Session) -> Any:
    """A session on this machine alone, as `rayvous report` and `rayvous audit` start it."""
    return session_here.local()


@pytest.fixture(scope="session")
def spark_on_ray(session_here: Session) -> Iterator[Any]:
    """A session on the Ray of the test run. No test after this one can have `spark`."""
    session_here.end()
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
