"""The report of telemetry that is there: an object, a network that runs, or a folder that one has written.

Rules
-----
* It runs in the session that is given, or the one that is open, or one that is started on this machine for the call.
* Tables without a row are left out where a report can do without, so that the figures come from those that have some.
* The picture of the tree shows the network as it was launched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..actors.network import Network
from ..actors.telemetry import Telemetry
from ..actors.telemetry_files import choose_run, graph_of, read_network
from ..protocol.errors import InputError
from .local import local_session, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .report import Report


def report(
    source: Telemetry | Network | str | Path,
    out_dir: str | Path,
    session: SparkSession | None = None,
    *,
    run: str | None = None,
    summary: Mapping[str, Any] | None = None,
) -> Report:
    """Compute the figures of a run with Spark and write its report.

    Parameters
    ----------
    source
        What `Network.telemetry()` returned, a network, or a telemetry folder.
    out_dir
        The report's folder; made if it is not there.
    session
        Your Spark session, which is left open; by default the one that is open in this process, or else one that is
        started on this machine for the call.
    run
        Which run of a folder; by default the one that was started last.
    summary
        What else is to stand in ``summary.json``.

    Returns
    -------
    Report
        The folder, the paths of what was written, and the figures as pandas DataFrames.

    Raises
    ------
    InputError
        A folder cannot be used or has no telemetry, or there is no such run.
    SparkUnavailable
        Spark could not be started.
    """
    from .report import check_folder, write_report

    check_folder(out_dir)
    if isinstance(source, str | Path):
        run = choose_run(source, run)
        network = read_network(source, run)
    elif isinstance(source, Network | Telemetry):
        if run is not None:
            raise InputError(f"run {run!r}: only a folder has several runs")
        source = source.telemetry() if isinstance(source, Network) else source
        run, network = source.run, dict(source.network)
    else:
        raise InputError(f"report: {source!r} is no telemetry, network or folder")
    with _session(session) as spark:
        frames = _frames(spark, source, run)
        told = {"run": run, "scheme": network.get("scheme"), "lost": lost_rows(frames.pop("lost"))}
        kept = {name: frame for name, frame in frames.items() if name in _ALWAYS or not frame.isEmpty()}
        return write_report(out_dir, kept, graph_of(network), {**told, **(summary or {})})


_ALWAYS = ("transfers", "deliveries")


@contextmanager
def _session(session: SparkSession | None) -> Iterator[SparkSession]:
    found = open_session(session)
    if found is not None:
        yield found
        return
    with local_session("rayvous-report") as spark:
        yield spark


def _frames(spark: SparkSession, source: Telemetry | str | Path, run: str) -> dict[str, DataFrame]:
    from .frames import frames_in, frames_of

    return frames_of(source, spark) if isinstance(source, Telemetry) else frames_in(spark, source, run)


def lost_rows(lost: DataFrame) -> dict[str, dict[str, int]]:
    """Return what a table `lost` says, ``{table: {reason: rows}}``."""
    found: dict[str, dict[str, int]] = {}
    for row in lost.groupBy("table", "reason").agg({"rows": "sum"}).orderBy("table", "reason").collect():
        found.setdefault(row[0], {})[row[1]] = int(row[2])
    return found
