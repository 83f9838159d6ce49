"""Start and warm up Spark in the background, while brokers start and events flow.

Rules
-----
* The background start runs at low priority where the system has thread priorities (Linux): the Java process
  that it starts inherits it.
* Warm means: the figures of a report were computed once, on a handful of rows, so that their classes are
  loaded and their plans compiled before the actual rows come.
* Any error is raised when the session is requested.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...actors.telemetry.arrow import arrow_schema
from ...actors.telemetry.files import PartKey, write_part
from ...protocol.telemetry.tables import SCHEMAS
from .session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NICENESS: Final = 10


@dataclass(slots=True)
class SparkStart:
    """A Spark session that is starting.

    Attributes
    ----------
    start_seconds
        The time until the session was ready, and warm if there was time for it; None before.
    """

    _session: Future[SparkSession] = field(default_factory=Future)
    _wanted: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    start_seconds: float | None = None

    def session(self, *, warm: bool = False) -> SparkSession:
        """Wait until Spark is ready and return its session.

        Parameters
        ----------
        warm
            Whether to wait until it is warm, too. Otherwise warming up is skipped unless it has begun: the
            first figures then include the time of warming up.

        Raises
        ------
        SparkUnavailable
            It could not be started.
        """
        if not warm:
            self._wanted.set()
        return self._session.result()

    def _run(self) -> None:
        began = time.perf_counter()
        _at_low_priority()
        try:
            with spark_session() as spark:
                if not self._wanted.is_set():
                    warm_up(spark)
                self.start_seconds = time.perf_counter() - began
                self._session.set_result(spark)
                self._over.wait()
        except BaseException as error:
            if self._session.done():
                raise
            self._session.set_exception(error)


@contextmanager
def starting_spark() -> Iterator[SparkStart]:
    """Start Spark on the running Ray in the background; stop it at the end of the block.

    Yields
    ------
    SparkStart
        Immediately; its `session` waits.
    """
    start = SparkStart()
    thread = threading.Thread(target=start._run, name="rayvous-spark-start", daemon=True)
    thread.start()
    try:
        yield start
    finally:
        start._over.set()
        thread.join()


def warm_up(spark: SparkSession) -> None:
    """Compute the figures of a made-up run of one event, and load the drawing libraries."""
    import networkx as nx
    import pyarrow as pa

    from ..figures.figures import figures_of
    from ..report import report  # noqa: F401 - pandas, matplotlib
    from .frames import frames_in

    kinds = {pa.string(): "publish", pa.float64(): 0.0}
    with tempfile.TemporaryDirectory(prefix="rayvous-warm-up-") as folder:
        for name in SCHEMAS:
            schema = arrow_schema(name)
            row = {field.name: [kinds.get(field.type, 1)] for field in schema}
            write_part(Path(folder), name, "warm-up", PartKey(1, 1), pa.table(row, schema))
        graph = nx.Graph()
        graph.add_node(1, cluster=1)
        figures_of(frames_in(spark, folder, "warm-up"), graph)


def _at_low_priority() -> None:
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
