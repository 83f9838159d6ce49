"""From the telemetry of a run to its report, and from its trace to the audit; each in one call.

Rules
-----
* Telemetry that is not in a folder yet is written beside the report, to ``tables/``, as Parquet. On one
  machine Spark reads it there. On several machines, where executors may not see that folder, it is passed to
  them by reference (decision 0020).
* A table without rows (in a network that traces no events) is left out: the figures are computed from the
  others.
* A given or already open session is used and left open. Otherwise a folder is read by Spark on this machine
  alone, and a network's telemetry by Spark on its Ray.
* An audit starts Ray if it is not running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..actors.network.java import prepare_java
from ..actors.network.launching import init_ray
from ..actors.network.network import Network
from ..actors.pictures.dead import with_dead
from ..actors.telemetry.files import graph_of, parts, runs
from ..actors.telemetry.reading import naming_damage
from ..actors.telemetry.telemetry import Telemetry
from ..faults.checker.verdict import Verdict
from ..protocol import checks
from ..protocol.errors import InputError
from ..protocol.extras import require
from ..protocol.telemetry.tables import TABLES
from .spark.local import local_session, open_session
from .spark.session import jobs_of, on_one_machine, spark_session

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from .report.report import Report

AUDIT_MEMORY: Final = "2g"
"""Heap of the executor of an audit; what does not fit of a million notifications is spilled to disk."""


def report(
    source: Telemetry | Network | str | Path,
    out_dir: str | Path,
    session: SparkSession | None = None,
    *,
    run: str | None = None,
    graph: nx.Graph | None = None,
    summary: Mapping[str, object] | None = None,
    by_reference: bool | None = None,
) -> Report:
    """Compute the figures of a run with Spark and write its report.

    Parameters
    ----------
    source
        The result of `Network.telemetry`, a network, or a telemetry folder.
    out_dir
        The report's folder; created if missing.
    session
        Your Spark session, which is left open; by default the one that is open in this process, or else one
        that is started for the call.
    run
        The run in a folder; by default the one that was started last.
    graph
        The network to draw; by default its present state including dead brokers, or for stored telemetry its
        state at launch.
    summary
        Further content of ``summary.json``; see :func:`~rayvous.pipelines.report.report.write_report`. For a
        network, the timeline of operations on it is included by default.
    by_reference
        Whether Spark gets the rows from Ray's object store and not from files; by default if Ray runs on
        several machines. Only a RayDP session supports it.

    Returns
    -------
    Report
        The folder, the paths of the written files, the figures as pandas DataFrames, and the time taken.

    Raises
    ------
    InputError
        A folder cannot be used or has no telemetry, there is no such run, or the summary is not JSON. No
        Spark is started then.
    UnreadableFile
        A part of the telemetry is damaged.
    MissingExtra
        Spark, or a drawing library, is not installed.
    SparkUnavailable
        Spark could not be started.
    """
    require("spark")
    from .report.report import check_folder, check_summary, write_report

    check_summary({} if summary is None else checks.instance("summary", summary, Mapping, "a mapping"))
    checks.path("out_dir", out_dir)
    telemetry = _telemetry_of(source, run)
    drawn = _graph_of(source, telemetry) if graph is None else graph
    folder = check_folder(out_dir)
    with _session_for(source, session) as spark:
        from .figures.figures import figures_of

        began, jobs = time.perf_counter(), jobs_of(spark)
        with (
            _tables(telemetry, folder / "tables", spark, by_reference) as tables,
            naming_damage(telemetry.files),
        ):
            figures = figures_of(tables, drawn)
        took = {"spark_report_seconds": time.perf_counter() - began, "spark_jobs": jobs_of(spark) - jobs}
    told = {**_timeline_of(source, figures), **(summary or {}), **took}
    written = write_report(folder, figures, drawn, {"run": telemetry.run, **told})
    return replace(written, took={**took, "report_seconds": time.perf_counter() - began})


def _telemetry_of(source: Telemetry | Network | str | Path, run: str | None) -> Telemetry:
    if isinstance(source, str | Path):
        return Telemetry.from_folder(source, run)
    checks.instance("source", source, Network | Telemetry, "telemetry, a network or a telemetry folder")
    if run is not None:
        raise InputError(f"run {checks.shown(run)}: only a folder has several runs")
    return source.telemetry() if isinstance(source, Network) else source


def _graph_of(source: Telemetry | Network | str | Path, telemetry: Telemetry) -> nx.Graph:
    if isinstance(source, Network):
        return with_dead(source.inspect.describe(), source.inspect.positions)
    return graph_of(telemetry.network)


def _timeline_of(
    source: Telemetry | Network | str | Path, figures: Mapping[str, pd.DataFrame]
) -> dict[str, object]:
    """Return the timeline of operations on a network, relative to its first publication."""
    rates = figures["rate_over_time"]
    if not isinstance(source, Network) or not len(rates):
        return {}
    began = float(rates["time_seconds"].iloc[0])
    moments = [{"seconds": at - began, "what": what} for at, what in source.inspect.timeline]
    return {"started_at": began, "timeline": moments} if moments else {}


def _session_for(
    source: Telemetry | Network | str | Path, session: SparkSession | None
) -> AbstractContextManager[SparkSession]:
    found = open_session(session)
    if found is not None:
        return nullcontext(found)
    if isinstance(source, str | Path) or (isinstance(source, Telemetry) and source.folder is not None):
        return local_session("rayvous-report")
    return spark_session()


@contextmanager
def _tables(
    telemetry: Telemetry, folder: Path, spark: SparkSession, by_reference: bool | None
) -> Iterator[dict[str, DataFrame]]:
    """Yield the tables that have rows, and the required ones even without rows."""
    from .figures.figures import ALWAYS
    from .spark.frames import frames_in, is_raydp, spark_frames

    if by_reference is None:
        by_reference = is_raydp(spark) and not on_one_machine()
    if telemetry.folder != folder:
        _clear(folder)
    if telemetry.folder is None:
        telemetry.to_parquet(folder)
    in_files = telemetry.folder is None and not by_reference
    frames = frames_in(spark, folder, telemetry.run) if in_files else spark_frames(telemetry, spark)
    rows = telemetry.rows
    kept = {name: frame for name, frame in frames.items() if rows[name] or name in ALWAYS}
    if not by_reference:
        yield kept
        return
    held = {name: frame.persist() for name, frame in kept.items()}  # each use would fetch the rows again
    try:
        yield held
    finally:
        for frame in held.values():
            frame.unpersist()


def _clear(folder: Path) -> None:
    """Remove the telemetry of earlier reports; other files stay."""
    for run in runs(folder):
        for table in TABLES:
            for path in parts(folder, table, run).values():
                path.unlink()
                with suppress(OSError):  # the folder is not empty
                    path.parent.rmdir()
        (folder / "_runs" / f"{run}.json").unlink(missing_ok=True)


def audit_folder(folder: str | Path, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """Audit a trace in Spark, on the running Ray or on one that is started for it.

    Parameters
    ----------
    folder, progress
        See :func:`~rayvous.pipelines.audit.audit`.

    Raises
    ------
    InputError
        The folder is not a trace.
    SparkUnavailable
        Spark could not be started.
    """
    import ray

    started = not ray.is_initialized()
    cores = max(1, os.cpu_count() or 1)
    if started:
        prepare_java()
        # One more than Spark's executor takes: its master runs as an actor too.
        init_ray("local", num_cpus=cores + 1)
    else:
        cores = 1
    try:
        with spark_session(
            "rayvous-audit", executor_cores=cores, executor_memory=AUDIT_MEMORY, light=False
        ) as spark:
            from .audit.audit import audit

            return audit(spark, folder, progress)
    finally:
        if started:
            ray.shutdown()
