"""From the telemetry of one run to its report and its figures, in one call.

Rules
-----
* Ray is running and has a CPU more than the executor takes (see :mod:`rayvous.pipelines.session`).
* Spark is started for the call and stopped after it.
* A table of which no chunk was written (a network that traces no events) is left out, so that the figures
  come from those that were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .session import spark_session

if TYPE_CHECKING:
    import networkx as nx
    import ray

ALWAYS: Final = ("transfers", "deliveries")


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
