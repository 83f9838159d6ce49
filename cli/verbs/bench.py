"""``rayvous bench``: our speed beside its limits and peers; JSON, and never a failure for being slow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...protocol.errors import InputError
from .. import console
from ..options import AsJson, at_most

bench = typer.Typer(
    no_args_is_help=True,
    help="Measure our speed beside its limits and peers; prints JSON, never fails for being slow.",
)


@bench.command("matching")
def bench_matching(
    filters: Annotated[
        list[int] | None,
        typer.Option(callback=at_most(100_000_000), help="How many filters; may be given more than once."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the filters and events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the match index beside a vectorised brute force: microseconds per event, build, insert, remove.

    10 integer attributes, 5 interval constraints a filter, each half of the domain wide.
    """
    from ...benchmarks import matching

    counts = tuple(filters) if filters else (1_000, 10_000, 100_000)
    if min(counts) < 1:
        raise InputError(f"--filters {min(counts)}: there must be at least 1")
    _show_bench(matching.run(filter_counts=counts, seed=seed), as_json)


@bench.command("dataplane")
def bench_dataplane(
    events: Annotated[
        int, typer.Option(callback=at_most(1_000_000_000), help="Events to publish in batches.")
    ] = 400_000,
    subscriptions: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Subscriptions spread over the three brokers.")
    ] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Three broker actors in a row beside a bare chain of three Ray actors: events per second, idle latency."""
    from ...benchmarks import dataplane

    with console.steps() as steps:
        result = dataplane.run(events=events, subscriptions=subscriptions, progress=steps.show)
    _show_bench(result, as_json)


@bench.command("simulator")
def bench_simulator(
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the simulator: broker steps per second in one process."""
    from ...benchmarks import simulator

    _show_bench(simulator.run(seed=seed), as_json)


@bench.command("durability")
def bench_durability(
    events: Annotated[
        int, typer.Option(callback=at_most(1_000_000_000), help="Events through each store.")
    ] = 200_000,
    batch_events: Annotated[
        list[int] | None,
        typer.Option(
            callback=at_most(10_000_000), help="Events in one publication; may be given more than once."
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the files go for the run; the disk that it is on is what is measured."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure stable storage: events a second in memory and in SQLite files, beside SQLite's own batched commits.

    Examples: rayvous bench durability --json; rayvous bench durability --directory /data --batch-events 512
    """
    from ...benchmarks import durability

    sizes = tuple(batch_events) if batch_events else (1, 64, 512)
    if events < 1 or min(sizes) < 1:
        raise InputError("--events and --batch-events: there must be at least 1")
    _show_bench(durability.run(events=events, batch_events=sizes, directory=directory), as_json)


@bench.command("admission")
def bench_admission(
    advertisements: Annotated[
        list[int] | None,
        typer.Option(
            callback=at_most(10_000_000), help="How many advertisements; may be given more than once."
        ),
    ] = None,
    subscriptions: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Subscriptions to time.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Of all filters.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure admission control: subscriptions judged per second by a broker that knows many advertisements.

    Besides, how the cost grows with their number beside the paper's O(N), and the two estimators side by side.
    """
    from ...benchmarks import admission

    counts = tuple(sorted(advertisements)) if advertisements else (1_000, 10_000)
    if min(counts) < 1 or subscriptions < 1:
        raise InputError("--advertisements and --subscriptions: there must be at least 1")
    _show_bench(admission.run(advertisements=counts, subscriptions=subscriptions, seed=seed), as_json)


@bench.command("report")
def bench_report(
    rows: Annotated[
        int,
        typer.Option(
            callback=at_most(100_000_000),
            help="Telemetry rows; by default as many as a demo of 20,000 events has.",
        ),
    ] = 84_000,
    seed: Annotated[int, typer.Option(help="Of the telemetry.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure Spark's part of a report beside the floor of any Spark job here, and both ways of handing over.

    The floor is a Spark session on Ray in which the rows of one table are counted. Takes a minute or two.
    """
    from ...benchmarks import report

    if rows < 100:
        raise InputError(f"--rows {rows}: there must be at least 100")
    with console.steps() as steps:
        result = report.run(rows=rows, seed=seed, progress=steps.show)
    _show_bench(result, as_json)


def _show_bench(result: dict[str, object], as_json: bool) -> None:
    if as_json:
        console.print_json(result)
        return
    rows = result.get("results")
    flat = {name: str(value) for name, value in result.items() if name != "results"}
    console.print_table(f"bench {result['benchmark']}", flat)
    for row in rows if isinstance(rows, list) else ():
        console.print_table("", {name: str(value) for name, value in row.items()})
