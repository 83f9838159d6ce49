"""``rayvous report``: the figures of a telemetry folder, at the end of a run or while it is in progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live as Screen
from rich.table import Table

from ...experiments import WRITTEN
from ...protocol.extras import require
from .. import console
from ..inputs import check_out
from ..interrupts import interrupts_set

WAIT_SECONDS = 0.5
LINES_MAX = 15
"""Windows on the screen; the file has more."""


def report(
    folder: Annotated[
        Path,
        typer.Argument(help="Telemetry folder (docs/telemetry.md), or folder of an experiment."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report; created if missing.")] = Path(
        "out/report"
    ),
    run: Annotated[str | None, typer.Option(help="Run to report \\[the latest].")] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep following new files until Ctrl-C; the next start continues from there."
        ),
    ] = False,
    window_seconds: Annotated[float, typer.Option(help="With --follow: length of a time window.")] = 60.0,
    late_seconds: Annotated[
        float, typer.Option(help="With --follow: maximum delay of rows that still count in their window.")
    ] = 120.0,
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster on which Spark runs [Spark on this machine only]."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON on standard output: one object, or with --follow one line per change."
        ),
    ] = False,
) -> int:
    """Compute the figures of a run from its telemetry folder in Spark; with --follow, while it is running.

    Writes tables, figures and pictures. With --follow, writes live.json instead, with the totals so far and the latest
    time windows, and a checkpoint from which the next start continues without counting anything twice.

    For a folder written by `rayvous experiment`, recomputes its tables, statements and pictures in that folder, without
    running anything.

    Examples
    --------
      rayvous report out/telemetry
      rayvous report out/telemetry --follow --out out/live
      rayvous report out/telemetry --follow --window-seconds 10 --json
    """
    require("spark")
    if (folder / WRITTEN).is_file() and not follow:
        return rebuild_experiments(folder, address, as_json=as_json)
    check_out(out)
    if follow:
        follow_folder(folder, out, run, address, (window_seconds, late_seconds), as_json=as_json)
    else:
        report_folder(folder, out, run, address, as_json=as_json)
    return 0


def rebuild_experiments(folder: Path, address: str | None, *, as_json: bool) -> int:
    """Recompute the figures of experiments from the results of their runs; return 1 if a statement fails, else 0."""
    require("plots")
    from ...experiments.reproduction import rebuild
    from ...pipelines.spark.local import session_at
    from .reproduction import show

    with console.steps() as steps:
        steps.show("Spark", 0, 1)
        with session_at(address) as spark:
            steps.show("Spark", 1, 1)
            result = rebuild(folder, spark, progress=steps.show)
    return show(result, as_json=as_json)


def report_folder(
    folder: Path, out: Path, run: str | None, address: str | None, *, as_json: bool
) -> dict[str, object]:
    """Write the report of a run in a folder and print its figures."""
    from ...actors.telemetry.files import choose_run
    from ...pipelines.run import report as write
    from ...pipelines.spark.local import session_at

    chosen = choose_run(folder, run)
    with console.steps() as steps:
        steps.show("Spark", 0, 1)
        with session_at(address) as spark:
            steps.show("Spark", 1, 1)
            steps.show("report", 0, 1)
            written = write(folder, out, spark, run=chosen)
            steps.show("report", 1, 1)
    figures = written.figures
    traced = "latency_percentiles" in figures
    lost: dict[str, dict[str, int]] = {}
    for row in figures["telemetry_lost"].to_dict("records") if "telemetry_lost" in figures else ():
        lost.setdefault(row["table"], {})[row["reason"]] = row["rows"]
    result = {
        "run": chosen,
        "tct": figures["tct"].to_dict("records"),
        "multicast_cost": figures["multicast_cost"].to_dict("records") if "multicast_cost" in figures else [],
        "throughput": written.row("throughput"),
        "aed": written.row("aed"),
        "latency_percentiles": written.row("latency_percentiles") if traced else None,
        "lost": lost,
        "report": str(written.folder),
        **written.took,
    }
    if as_json:
        console.print_json(result)
    else:
        console.print_table("rayvous report", {**_rows(result), "report": result["report"]})
    return result


def follow_folder(
    folder: Path,
    out: Path,
    run: str | None,
    address: str | None,
    times: tuple[float, float],
    *,
    as_json: bool,
) -> dict[str, object]:
    """Show the figures of a run as its files appear, until interrupted."""
    from ...actors.telemetry.files import check_is_folder, choose_run, runs

    check_is_folder(folder)
    stop = threading.Event()
    with interrupts_set(stop):
        if not runs(folder):
            console.err.print(f"waiting for telemetry in {folder}", markup=False)
        while not runs(folder) and not stop.wait(WAIT_SECONDS):
            pass
        chosen = choose_run(folder, run)
    from ...pipelines.figures.live import Following
    from ...pipelines.figures.streaming import follow
    from ...pipelines.spark.local import session_at

    following = Following(chosen, *times).validate()
    # Spark sets its own interrupt handler when it starts, so ours is set after it.
    with session_at(address) as spark, interrupts_set(stop), _shown(as_json) as show:
        figures = follow(spark, folder, out, following, show=show, stop=stop)
    if not as_json:
        console.print_table("rayvous report --follow", _rows(figures))
    return figures


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show figures as they come: a live table on a terminal, JSON lines, or a line for the newest window."""
    if as_json:
        yield console.print_json
        return
    live = console.out.is_terminal
    with Screen(console=console.out) if live else nullcontext() as screen:

        def show(figures: dict[str, object]) -> None:
            if screen is not None:
                screen.update(_windows(figures, LINES_MAX), refresh=True)
            elif figures["windows"]:
                console.out.print(_windows(figures, 1))

        yield show


def _windows(figures: dict[str, Any], lines: int) -> Table:
    late = sum(figures["late_rows"].values())
    title = f"{figures['run']}: {figures['throughput']['events']:,} events so far, {late:,} rows too late for a window"
    table = Table(
        title=console.cell(title, "table.title"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        header_style="cyan",
    )
    for place, name in enumerate(("from (UTC)", "events", "notified", "mean ms", "p99 ms", "lost rows")):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for window in figures["windows"][-lines:]:
        table.add_row(
            time.strftime("%H:%M:%S", time.gmtime(window["start_seconds"])),
            f"{window['events']:,}",
            f"{window['notifications']:,}",
            _milliseconds(window["mean_latency_seconds"]),
            _milliseconds(window["p99_latency_seconds"]),
            f"{window['lost_rows']:,}",
        )
    return table


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f}"


def _rows(figures: dict[str, Any]) -> dict[str, object]:
    """Return the figures of a complete run as rows of a table."""
    throughput, percentiles = figures["throughput"], figures["latency_percentiles"] or {}
    rows = {
        "run": figures["run"],
        "events published": throughput["events"],
        "notifications": throughput["notifications"],
        "events per second": _rate(throughput["events_per_second"]),
        "notifications per second": _rate(throughput["notifications_per_second"]),
        "TCT (events over links)": ", ".join(f"{row['link_kind']} {row['tct']:,}" for row in figures["tct"]),
        "mean latency, ms": _milliseconds(figures["aed"]["mean_delay_seconds"]),
        "p50 / p99, ms": " / ".join(
            _milliseconds(percentiles.get(f"{name}_seconds")) for name in ("p50", "p99")
        ),
    }
    for table, reasons in figures.get("lost", {}).items():
        rows[f"lost of {table}"] = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    for table, count in figures.get("late_rows", {}).items():
        rows[f"too late of {table}"] = count
    return rows


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
