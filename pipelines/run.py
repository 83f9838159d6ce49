"""From the telemetry of one run to its report and its figures, and from its trace to the audit; each in one call.

Rules
-----
* For a report Ray is running and has a CPU more than the executor takes (see :mod:`rayvous.pipelines.session`); for an
  audit it is started when it is not.
* Spark is started for the call and stopped after it.
* A table of which no chunk was written (a network that traces no events) is left out, so that the figures
  come from those that were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..actors.java import prepare_java
from ..faults.verdict import Verdict
from .session import spark_session

if TYPE_CHECKING:
    import networkx as nx
    import ray

ALWAYS: Final = ("transfers", "deliveries")
AUDIT_MEMORY: Final = "2g"
"""Heap of the executor of an audit: what it holds of a million notifications goes to disk where it does not fit."""


def report_run(
    telemetry: Mapping[str, Sequence[ray.ObjectRef]],
    graph: nx.Graph,
    out_dir: str | Path,
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the report of a run; return the figures that Spark computed.

    Parameters
    ----------
    telemetry
        ``{table: references to Arrow tables}``, as ``Network.telemetry()`` returns it.
    graph, out_dir, summary
        See :func:`~rayvous.pipelines.report.write_report`.

    Returns
    -------
    dict
        ``tct``: ``{link kind: events over links of the kind}``, with ``tree`` and ``all``; ``aed_seconds``,
        ``mean_delay_seconds``: ``None`` when nothing was notified; ``report``: the folder.

    Raises
    ------
    InputError
        The folder cannot be used; no Spark is started then.
    SparkUnavailable
        Spark could not be started.
    """
    from .report import check_folder, write_report
    from .tables import to_spark

    check_folder(out_dir)
    wanted = {name: refs for name, refs in telemetry.items() if refs or name in ALWAYS}
    with spark_session() as spark:
        tables = {name: to_spark(spark, refs, name) for name, refs in wanted.items()}
        report = write_report(out_dir, tables, graph, summary)
    delays = report.row("aed")
    return {
        "tct": {row["link_kind"]: int(row["tct"]) for row in report.figures["tct"].to_dict("records")},
        "aed_seconds": delays["aed_seconds"],
        "mean_delay_seconds": delays["mean_delay_seconds"],
        "report": str(report.folder),
    }


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
