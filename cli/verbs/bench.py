"""``rayvous bench``: our speed compared with its limits and peers; JSON, and never a failure for being slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...actors.channels.config import LINKS_DEFAULT
from ...protocol.checks import number, one_of
from ...protocol.errors import InputError
from ...protocol.extras import require
from ...recovery.durability.postgresql_backend import PostgresqlBackend
from ...recovery.durability.stable import Stable
from .. import console
from ..inputs import flight_alerts, flights, folder
from ..machines import again_among_hosts
from ..options import AsJson, Links, at_most
from ..verb_app import VerbApp

if TYPE_CHECKING:
    from ...actors.pictures.picture import Picture

bench = VerbApp(
    no_args_is_help=True,
    help="Measure speed, compared with its limits and with peers; prints JSON, and never fails for being slow.",
)


@bench.command("matching")
def bench_matching(
    filters: Annotated[
        list[int] | None,
        typer.Option(callback=at_most(100_000_000), help="Number of filters; may be repeated."),
    ] = None,
    load: Annotated[
        str, typer.Option(help="intervals, sparse, equality, strings or skewed; see docs/benchmarks.md.")
    ] = "intervals",
    attributes: Annotated[int, typer.Option(callback=at_most(1_000), help="Number of attributes.")] = 10,
    constrained: Annotated[int, typer.Option(help="Number of attributes that each filter constrains.")] = 5,
    width: Annotated[float, typer.Option(help="Width of each interval, as a fraction of the domain.")] = 0.5,
    events: Annotated[
        int, typer.Option(callback=at_most(1_000_000), help="Number of events in a batch.")
    ] = 512,
    seed: Annotated[int, typer.Option(help="Seed of the filters and events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the match index and a vectorised brute force: microseconds per event, build, insert, remove.

    By default, 10 integer attributes and 5 interval constraints per filter, each half of the domain wide.
    RAYVOUS_KERNEL=numpy measures the index without its compiled kernel.
    """
    from ...benchmarks import loads, matching

    counts = tuple(filters) if filters else (1_000, 10_000, 100_000)
    if min(counts) < 1:
        raise InputError(f"--filters {min(counts)}: there must be at least 1")
    if events < 1 or attributes < 1:
        raise InputError("--events and --attributes: there must be at least 1")
    shape = loads.Shape(load, attributes, constrained, width)
    _show_bench(matching.run(filter_counts=counts, events=events, seed=seed, shape=shape), as_json)


@bench.command("dataplane")
def bench_dataplane(
    events: Annotated[
        int, typer.Option(callback=at_most(1_000_000_000), help="Number of events to publish, in batches.")
    ] = 400_000,
    subscriptions: Annotated[
        int,
        typer.Option(
            callback=at_most(10_000_000), help="Number of subscriptions, spread over the three brokers."
        ),
    ] = 10_000,
    heals: Annotated[
        bool, typer.Option("--heals", help="Let brokers detect failures and retransmit.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            help="Give brokers stores there: a new folder, or the address of a PostgreSQL database."
        ),
    ] = None,
    links: Links = LINKS_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Compare three broker actors in a row with bare chains of three actors, by calls of Ray and over sockets.

    The result has events per second, the latency and the CPU time of an event alone, and the goals for them.
    """
    from ...benchmarks import dataplane

    with console.steps() as steps:
        result = dataplane.run(
            events=events,
            subscriptions=subscriptions,
            heals=heals,
            store=store,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
            progress=steps.show,
        )
    _show_bench(result, as_json)


@bench.command("recovery")
def bench_recovery(
    kills: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of designated brokers to kill, in turn.")
    ] = 20,
    links: Annotated[
        str, typer.Option(help="How bytes go between processes: by calls of Ray ('ray'), or 'direct'.")
    ] = "direct",
    store: Annotated[
        str | None,
        typer.Option(
            help="Give brokers stores there: a new folder, or the address of a PostgreSQL database."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill designated brokers with SIGKILL, one after the other, and measure how long the network takes to heal.

    Nine brokers in three clusters, each in a process of its own, at the default settings. Shows when the death was
    noticed, when another broker was elected, when the clusters were one tree, when every subscription was installed,
    and when the publisher of the dead broker went on: median, 90th percentile and maximum, in seconds after the kill.

    Examples: rayvous bench recovery --json; rayvous bench recovery --kills 5 --links ray --store /tmp/stores
    """
    from ...benchmarks import recovery

    if kills < 1:
        raise InputError(f"--kills {kills}: there must be at least 1")
    with console.steps() as steps:
        result = recovery.run(
            kills=kills,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
            store=store,
            progress=steps.show,
        )
    _show_bench(result, as_json)


@bench.command("simulator")
def bench_simulator(
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the simulator: broker steps per second in one process."""
    from ...benchmarks import simulator

    _show_bench(simulator.run(seed=seed), as_json)


@bench.command("durability")
def bench_durability(
    events: Annotated[
        int, typer.Option(callback=at_most(1_000_000_000), help="Number of events per store.")
    ] = 200_000,
    batch_events: Annotated[
        list[int] | None,
        typer.Option(
            callback=at_most(10_000_000), help="Number of events in one publication; may be repeated."
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Folder for the files of the run; its disk is what is measured."),
    ] = None,
    store: Annotated[str, typer.Option(help="sqlite or postgresql.")] = "sqlite",
    database: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --store postgresql: the database, in which a schema is made for the run \\[as PGHOST etc. say].",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure stable storage: events per second in memory, in a store, and by the database's own batched commits.

    Examples: rayvous bench durability --json; rayvous bench durability --directory /data --batch-events 512;
    rayvous bench durability --store postgresql --database postgresql://ann@db/flights
    """
    from ...benchmarks import durability

    sizes = tuple(batch_events) if batch_events else (1, 64, 512)
    if events < 1 or min(sizes) < 1:
        raise InputError("--events and --batch-events: there must be at least 1")
    if one_of("--store", store, ("sqlite", "postgresql")) == "postgresql":
        if directory is not None:
            raise InputError("--directory is for the files of --store sqlite")
        database = database or "postgresql://"
        if not isinstance(Stable(database).validate().backend(), PostgresqlBackend):
            raise InputError("--database: it must be postgresql://user@host/database")
    elif database is not None:
        raise InputError("--database is for --store postgresql")
    _show_bench(
        durability.run(events=events, batch_events=sizes, directory=directory, database=database), as_json
    )


@bench.command("admission")
def bench_admission(
    advertisements: Annotated[
        list[int] | None,
        typer.Option(callback=at_most(10_000_000), help="Number of advertisements; may be repeated."),
    ] = None,
    subscriptions: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Number of subscriptions to time.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Seed of all filters.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure admission control: decisions on subscriptions per second of a broker that knows many advertisements.

    Also shows how the cost grows with their number, compared with the paper's O(N), and compares the two estimators.
    """
    from ...benchmarks import admission

    counts = tuple(sorted(advertisements)) if advertisements else (1_000, 10_000)
    if min(counts) < 1 or subscriptions < 1:
        raise InputError("--advertisements and --subscriptions: there must be at least 1")
    _show_bench(admission.run(advertisements=counts, subscriptions=subscriptions, seed=seed), as_json)


@bench.command("caution")
def bench_caution(
    load: Annotated[
        Literal["ranges", "flights"],
        typer.Option(help="What is published and wanted: random ranges, or real flights and alerts."),
    ] = "ranges",
    subscribers: Annotated[
        int,
        typer.Option(callback=at_most(10_000), help="Number of subscribers; a refused one tries four times."),
    ] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the network and of the load.")] = 0,
    on: Annotated[
        Literal["sim", "ray"],
        typer.Option(help="All rows in virtual time, or the measured guarantee on real brokers on Ray."),
    ] = "sim",
    as_json: AsJson = False,
) -> None:
    """Show what the caution of the full guarantee costs: what is refused, and how much of the bottleneck is used.

    In virtual time one thing is changed in each row. On Ray there are two rows: measured, and without control. The
    bottleneck is the broker or link with the highest load without admission control.
    """
    from ...benchmarks import caution, caution_on_ray

    if subscribers < 1:
        raise InputError("--subscribers: there must be at least 1")
    if load == "ranges":
        given = caution.ranges(subscribers, seed)
    else:
        rows = [
            {name: value for name, value in row.items() if value is not None and value == value}
            for row in flights(20_000).to_pylist()
        ]
        given = caution.flights(rows, flight_alerts(subscribers * caution.TRIES, seed))
    if on == "sim":
        _show_bench(caution.run(given, seed), as_json)
        return
    with console.steps() as steps:
        result = caution_on_ray.run(given, seed, steps.show)
    _show_bench(result, as_json)


@bench.command("report")
def bench_report(
    rows: Annotated[
        int,
        typer.Option(
            callback=at_most(100_000_000),
            help="Number of telemetry rows \\[as in a demo of 20,000 events].",
        ),
    ] = 84_000,
    seed: Annotated[int, typer.Option(help="Seed of the telemetry.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure Spark's part of a report, compared with the least that any Spark job takes, for both ways of transfer.

    The least is a Spark session on Ray that counts the rows of one table. Takes a minute or two.
    """
    from ...benchmarks import report

    if rows < 100:
        raise InputError(f"--rows {rows}: there must be at least 100")
    with console.steps() as steps:
        result = report.run(rows=rows, seed=seed, progress=steps.show)
    _show_bench(result, as_json)


@bench.command("aggregation")
def bench_aggregation(
    rows: Annotated[
        int, typer.Option(callback=at_most(1_000_000_000), help="Number of telemetry rows in all tables.")
    ] = 10_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the telemetry.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how many telemetry rows per second Spark aggregates, compared with only reading the same files.

    Spark runs on this machine with two threads; the files have some 30 bytes per row. Takes a few minutes.
    """
    from ...benchmarks import aggregation

    if rows < 100:
        raise InputError(f"--rows {rows}: there must be at least 100")
    require("spark")
    with console.steps() as steps:
        result = aggregation.run(rows=rows, seed=seed, progress=steps.show)
    _show_bench(result, as_json)


@bench.command("sink")
def bench_sink(
    events: Annotated[
        int, typer.Option(callback=at_most(100_000_000), help="Number of events that are written.")
    ] = 1_000_000,
    rounds: Annotated[int, typer.Option(callback=at_most(1_000), help="How often both write, in turns.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how fast a sink writes delivered events to Parquet, beside pyarrow writing the same tables.

    Without a network: from batches as they are delivered to renamed files. Takes half a minute.
    """
    from ...benchmarks import sink

    if events < 1 or rounds < 1:
        raise InputError(f"--events {events} and --rounds {rounds}: there must be at least 1 of each")
    with console.steps() as steps:
        result = sink.run(events=events, rounds=rounds, seed=seed, progress=steps.show)
    _show_bench(result, as_json)


@bench.command("data")
def bench_data(
    events: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Number of events that go into Ray Data.")
    ] = 196_608,
    group_events: Annotated[
        int, typer.Option(callback=at_most(1_000_000), help="Number of events that a group of workers gets.")
    ] = 200,
    work_ms: Annotated[float, typer.Option(help="How long a worker waits for each event.")] = 20.0,
    rounds: Annotated[int, typer.Option(callback=at_most(1_000), help="How often all take their turns.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a sink beside pyarrow, Ray Data beside reading Parquet, and four workers of a group beside one.

    The tables, rows and events of each pair are the same, and they take turns. On the running Ray, or on one that is
    started; takes two or three minutes. A worker waits for each event, as for a
    database elsewhere, so the group shows what working side by side saves.

    Examples: rayvous bench data --json; rayvous bench data --work-ms 5 --rounds 1
    """
    require("data")
    from ...benchmarks import data

    if min(events, group_events, rounds) < 1 or events % data.ARRIVALS:
        raise InputError(
            f"--events {events}, --group-events {group_events} and --rounds {rounds}: there must be at least 1 of "
            f"each, and --events must be a multiple of {data.ARRIVALS}"
        )
    number("--work-ms", work_ms, above=True)
    with console.steps() as steps:
        result = data.run(
            events=events, group_events=group_events, work_seconds=work_ms / 1_000, rounds=rounds, seed=seed,
            progress=steps.show,
        )  # fmt: skip
    _show_bench(result, as_json)


@bench.command("distribute")
def bench_distribute(
    hosts: Annotated[
        int,
        typer.Option(
            callback=at_most(100), help="Number of hosts, including the publisher's; each has one broker."
        ),
    ] = 12,
    mbit: Annotated[
        float, typer.Option(help="Capacity of each host's link in each direction, in Mbit/s.")
    ] = 100.0,
    megabytes: Annotated[
        int, typer.Option(callback=at_most(1_000), help="Size of the payload, in MiB.")
    ] = 64,
    publisher: Annotated[
        int | None,
        typer.Option(help="Broker of the publisher \\[the one whose tree is most like the paper's]."),
    ] = None,
    links: Links = LINKS_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Distribute one payload to many hosts: LBDD, point-to-point, and a plain copy over one link.

    This is the set-up of paper 5 (4.1) on one machine: each host is a network namespace with a Ray node and one broker,
    and tc limits its link to --mbit. Needs root and iproute2; 12 hosts with 64 MiB take two and a half minutes on two
    processors. Other networks are not touched, and everything is removed when the command ends, even if it is killed.
    Where such hosts cannot be made, the reason is printed, and Ray nodes run side by side: bytes are then correct, but
    times mean little.

    A scheme's bound is the plain copy's time, multiplied by the most copies that any broker sends.

    Examples
    --------
      sudo rayvous bench distribute
      sudo rayvous bench distribute --hosts 4 --mbit 50 --megabytes 16 --json
    """
    from ...faults.machines.fence import why_not
    from ...faults.machines.layout import Layout
    from ...faults.machines.links import hosts_here

    if hosts < 2 or megabytes < 1:
        raise InputError("--hosts must be at least 2, --megabytes at least 1")
    if publisher is not None and not 0 <= publisher < hosts:
        raise InputError(f"--publisher {publisher}: brokers are numbered from 0 to {hosts - 1}")
    layout = Layout(hosts, mbit).validate()
    if hosts_here() is None:
        reason = why_not()
        if reason is None:
            raise typer.Exit(again_among_hosts(layout))
        console.err.print(f"Ray nodes side by side, without links: {reason}", markup=False, soft_wrap=True)
    from ...benchmarks import distribution

    with console.steps() as steps:
        result = distribution.run(
            hosts=hosts,
            megabytes=megabytes,
            publisher=publisher,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
            progress=steps.show,
        )
    _show_bench(result, as_json)


@bench.command("peers")
def bench_peers(
    peers: Annotated[
        str, typer.Option(help="Comma-separated peers: activemq, rabbitmq, nats, redis.")
    ] = "activemq,rabbitmq,nats,redis",
    subscriptions: Annotated[
        list[int] | None,
        typer.Option(callback=at_most(1_000_000), help="Number of subscriptions; may be repeated."),
    ] = None,
    clients: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of subscribing connections.")
    ] = 200,
    gateway_processes: Annotated[
        int, typer.Option(callback=at_most(100), help="Number of gateway processes.")
    ] = 1,
    seconds: Annotated[float, typer.Option(help="Seconds of publishing, per peer.")] = 9.0,
    links: Links = LINKS_DEFAULT,
    seed: Annotated[int, typer.Option(help="Seed of filters and events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare a gateway with other message brokers, on the same filters and events in one run.

    The load is stock alerts (a symbol and a price); on average, one alert wants a trade. Installed peers are started
    for the run, others are left out: ActiveMQ with selectors over STOMP, like the gateway; RabbitMQ with a headers
    exchange, which matches the symbol; NATS and Redis with filtering in the client. Takes half a minute per row.

    Examples
    --------
      rayvous bench peers --json
      rayvous bench peers --peers activemq --subscriptions 1000
    """
    require("gateway")
    from ...benchmarks.peers import run, servers

    counts = tuple(subscriptions) if subscriptions else (100, 1_000, 10_000)
    chosen = [
        one_of("--peers", name.strip(), tuple(servers.PEERS)) for name in peers.split(",") if name.strip()
    ]
    if min(counts) < 4 or clients < 2 or gateway_processes < 1 or not seconds > 0:
        raise InputError(
            "--subscriptions must be at least 4, --clients 2, --gateway-processes 1, --seconds above 0"
        )
    if "rabbitmq" in chosen and not servers.missing("rabbitmq"):
        require("peers")
    with console.steps() as steps:
        result = run.run(
            alerts=counts,
            clients=clients,
            seconds=seconds,
            peers=chosen,
            gateway_processes=gateway_processes,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
            seed=seed,
            progress=steps.show,
        )
    _show_bench(result, as_json)


@bench.command("scale")
def bench_scale(
    brokers: Annotated[
        str,
        typer.Option(metavar="N,N,..", help="Comma-separated numbers of brokers; clusters have ten each."),
    ] = "100,1000,10000",
    nodes: Annotated[
        int, typer.Option(callback=at_most(100), help="Number of Ray nodes to start on this machine.")
    ] = 3,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Running Ray cluster to use instead of --nodes; or auto."),
    ] = None,
    brokers_per_actor: Annotated[
        int, typer.Option(callback=at_most(100_000), help="Number of brokers per process.")
    ] = 500,
    heartbeat: Annotated[float, typer.Option(metavar="SECONDS", help="Time between two heartbeats.")] = 2.0,
    links: Links = LINKS_DEFAULT,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for scale.json and scale.png.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure networks of hundreds to thousands of brokers: launch, memory, subscribing, publishing, idle CPU.

    Then a node is removed under load, to measure the time until the surviving brokers are one tree and to check that
    everything is delivered. On a running cluster, the actors of a node are killed instead.

    Examples: rayvous bench scale --brokers 100,1000 --out /tmp/scale; rayvous bench scale --address auto --json
    """
    from ...benchmarks import scale

    sizes = _sizes("--brokers", brokers)
    if nodes < 1 or brokers_per_actor < 1:
        raise InputError("--nodes and --brokers-per-actor: there must be at least 1")
    if out is not None:
        folder(out)
    with console.steps() as steps:
        result = scale.run(
            brokers=sizes, nodes=nodes, address=address, brokers_per_actor=brokers_per_actor,
            heartbeat_seconds=heartbeat, progress=steps.show,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
        )  # fmt: skip
    if out is not None:
        from ...benchmarks.scale_figure import figure

        _keep(result, figure, out / "scale")
    _show_bench(result, as_json)


@bench.command("soak")
def bench_soak(
    minutes: Annotated[float, typer.Option(help="Duration in minutes.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of changes and events.")] = 0,
    links: Links = LINKS_DEFAULT,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for soak.json and soak.png.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add and remove clients, filters and brokers for a long time, and watch memory, queues and losses.

    Uses six brokers on the running Ray cluster, or on one that is started. Every notification due is counted.
    """
    from ...benchmarks import soak

    number("--minutes", minutes, above=True)
    if out is not None:
        folder(out)
    with console.steps() as steps:
        result = soak.run(
            minutes=minutes,
            seed=seed,
            links=links,  # type: ignore[arg-type]  # checked by `Network.launch`
            progress=steps.show,
        )
    if out is not None:
        from ...benchmarks.soak_figure import figure

        _keep(result, figure, out / "soak")
    if not as_json:
        del result["samples"]
    _show_bench(result, as_json)


def _sizes(option: str, text: str) -> list[int]:
    """Return the integers of a comma-separated list."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r}: it must be comma-separated whole numbers") from None


def _keep(result: dict[str, object], figure: Callable[[dict[str, object]], Picture], stem: Path) -> None:
    """Write a result and its picture."""
    figure(result).save(stem.with_suffix(".png"))
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    result["picture"] = str(stem.with_suffix(".png"))


def _show_bench(result: dict[str, object], as_json: bool) -> None:
    if as_json:
        console.print_json(result)
        return
    rows = result.get("results")
    flat = {name: str(value) for name, value in result.items() if name != "results"}
    console.print_table(f"bench {result['benchmark']}", flat)
    for row in rows if isinstance(rows, list) else ():
        console.print_table("", {name: str(value) for name, value in row.items()})
