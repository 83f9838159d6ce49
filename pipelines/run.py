"""From the telemetry of one run to its report and its figures, and from its trace to the audit; each in one call.

Rules
-----
* For a report Ray is running and has a CPU more than the executor takes (see :mod:`rayvous.pipelines.session`); for an
  audit it is started when it is not.
* Spark is started for the call and stopped after it, unless a session is given or one of ours is open.
* The telemetry stands in ``tables/`` of the report as Parquet, and on one machine that is where Spark reads it. On
  several, where executors may not see that folder, it goes to them by reference (decision 0020).
* A table without rows (a network that traces no events) is left out: the figures come from those that have some.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..actors.java import prepare_java
from ..actors.telemetry_files import parts, runs
from ..faults.verdict import Verdict
from ..protocol.telemetry import TABLES
from .session import jobs_of, on_one_machine, spark_session

if TYPE_CHECKING:
    import networkx as nx
    from pyspark.sql import DataFrame, SparkSession

    from ..actors.telemetry import Telemetry

AUDIT_MEMORY: Final = "2g"
"""Heap of the executor of an audit: what it holds of a million notifications goes to disk where it does not fit."""


def report_run(
    telemetry: Telemetry,
    graph: nx.Graph,
    out_dir: str | Path,
    summary: Mapping[str, Any],
    session: SparkSession | None = None,
    *,
    by_reference: bool | None = None,
) -> dict[str, Any]:
    """Write the report of a run; return the figures that Spark computed.

    Parameters
    ----------
    telemetry
        What the network saw, as ``Network.telemetry()`` returns it.
    graph, out_dir, summary
        See :func:`~rayvous.pipelines.report.write_report`.
    session
        The Spark session to use; by default the one of ours that is open, or one that is started for the call.
    by_reference
        Whether Spark gets the rows from Ray's object store and not from the report's folder; by default when Ray runs
        on several machines. Only a session of RayDP can.

    Returns
    -------
    dict
        ``tct``: ``{link kind: events over links of the kind}``, with ``tree`` and ``all``; ``aed_seconds``,
        ``mean_delay_seconds``: ``None`` when nothing was notified; ``report``: the folder; ``spark_jobs``: how many it
        took; ``spark_report_seconds``: from the telemetry until Spark's figures were there; ``report_seconds``: until
        the report was written.

    Raises
    ------
    InputError
        The folder cannot be used; no Spark is started then.
    SparkUnavailable
        Spark could not be started.
    """
    from .report import check_folder, write_report

    folder = check_folder(out_dir)
    with spark_session() if session is None else nullcontext(session) as spark:
        from .figures import figures_of

        began, jobs = time.perf_counter(), jobs_of(spark)
        _clear_tables(folder / "tables")
        telemetry.to_parquet(folder / "tables")
        tables = _tables(telemetry, folder / "tables", spark, by_reference)
        figures = figures_of(tables, graph)
        took = {
            "spark_report_seconds": time.perf_counter() - began,
            "spark_jobs": jobs_of(spark) - jobs,
        }
        for frame in tables.values():
            frame.unpersist()
    report = write_report(folder, figures, graph, {**summary, **took})
    delays = report.row("aed")
    return {
        "tct": {row["link_kind"]: int(row["tct"]) for row in figures["tct"].to_dict("records")},
        "aed_seconds": delays["aed_seconds"],
        "mean_delay_seconds": delays["mean_delay_seconds"],
        "report": str(folder),
        **took,
        "report_seconds": time.perf_counter() - began,
    }


def _tables(
    telemetry: Telemetry, folder: Path, spark: SparkSession, by_reference: bool | None
) -> dict[str, DataFrame]:
    """Return the tables that have rows; those without which there is no report also when they have none."""
    from .figures import ALWAYS
    from .frames import frames_in, frames_of, is_raydp

    if by_reference is None:
        by_reference = is_raydp(spark) and not on_one_machine()
    # By reference each use fetches the rows again.
    frames = (
        {name: frame.persist() for name, frame in frames_of(telemetry, spark).items()}
        if by_reference
        else frames_in(spark, folder, telemetry.run)
    )
    rows = telemetry.rows
    return {name: frame for name, frame in frames.items() if rows[name] or name in ALWAYS}


def _clear_tables(folder: Path) -> None:
    """Remove the telemetry that an earlier report left; other files stay."""
    for run in runs(folder):
        for table in TABLES:
            for path in parts(folder, table, run).values():
                path.unlink()
                with suppress(OSError):  # something else is in it
                    path.parent.rmdir()
        (folder / "_runs" / f"{run}.json").unlink(missing_ok=True)


def audit_folder(folder: str | Path, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """Audit a trace in Spark, on the Ray that is running or on one that is started for it.

    Parameters
    ----------
    folder, progress
        See :func:`~rayvous.pipelines.audit.audit`.

    Raises
    ------
    InputError
        The folder is no trace.
    SparkUnavailable
        Spark could not be started.
    """
    import ray

    started = not ray.is_initialized()
    cores = max(1, os.cpu_count() or 1)
    if started:
        prepare_java()
        # One more than Spark takes: its master runs as an actor too.
        ray.init(num_cpus=cores + 1, include_dashboard=False, log_to_driver=False, logging_level="error")
    else:
        cores = 1
    try:
        with spark_session("rayvous-audit", executor_cores=cores, executor_memory=AUDIT_MEMORY) as spark:
            from .audit import audit

            return audit(spark, folder, progress)
    finally:
        if started:
            ray.shutdown()
