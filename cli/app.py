"""The verbs of the command line and what they have in common: options, errors, exit status.

Exit status: 0 the command did what was asked and, where there is a verdict, it holds; 1 it does not, or the system
failed; 2 the input cannot be used.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..protocol.errors import InputError, RayvousError
from . import console
from .lbdd import experiment_lbdd

app = typer.Typer(
    name="rayvous",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe whose brokers are Ray actors.",
    epilog="Start with: rayvous demo",
)
bench = typer.Typer(
    no_args_is_help=True,
    help="Measure our speed beside its limits and peers; prints JSON, never fails for being slow.",
)
app.add_typer(bench, name="bench")
experiment = typer.Typer(
    no_args_is_help=True,
    help="Reproduce the figures of the papers: numbers, pictures, published beside ours.",
)
app.add_typer(experiment, name="experiment")
experiment.command("lbdd")(experiment_lbdd)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, all else on standard error.")
]
TraceDir = Annotated[
    Path | None,
    typer.Option(help="Folder for the trace, event by event, for rayvous audit; made if it is not there."),
]


@app.command()
def demo(
    events: Annotated[
        Path | None,
        typer.Option(help="Events from a .csv, .jsonl or .parquet file, instead of the flights of 2013."),
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option(help="Selectors from a file, one a line, each for a subscriber of its own.")
    ] = None,
    clusters: Annotated[int, typer.Option(help="Clusters in the tree.")] = 4,
    brokers_per_cluster: Annotated[int, typer.Option(help="Brokers in a cluster, each a Ray actor.")] = 3,
    degree: Annotated[int, typer.Option(help="Child clusters that a cluster may have.")] = 8,
    subscribers: Annotated[
        int, typer.Option(help="Subscribers, when no file of subscriptions is given.")
    ] = 200,
    publishers: Annotated[int, typer.Option(help="Publishers that share the events.")] = 4,
    limit: Annotated[int, typer.Option(help="Events at most.")] = 20_000,
    brokers_per_actor: Annotated[int, typer.Option(help="Brokers that share one actor.")] = 1,
    scheme: Annotated[
        str, typer.Option(help="Routing scheme: hybrid, lbdd, ...: see docs/schemes.md.")
    ] = "hybrid",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report; made if it is not there.")] = Path(
        "out/demo"
    ),
    spark: Annotated[bool, typer.Option(help="Hand the telemetry to Spark and write the report.")] = True,
    kill: Annotated[
        str | None,
        typer.Option(help="Kill or cut when half is published, and heal: deb, neb, cluster, root or link."),
    ] = None,
    trace_dir: TraceDir = None,
    as_json: AsJson = False,
) -> None:
    """Publish real flights to real subscribers over a tree of brokers on Ray, and judge what was delivered.

    Launches the network, installs every subscription, publishes, compares each delivery with a brute-force
    evaluation, and has Spark compute the costs and latencies. Exit status 0 only when the verdict is "holds".

    Examples
    --------
      rayvous demo
      rayvous demo --limit 100000 --clusters 8 --brokers-per-cluster 2 --brokers-per-actor 4
      rayvous demo --events trades.csv --subscriptions alerts.txt --json
      rayvous demo --kill deb
      rayvous demo --trace-dir out/trace --no-spark
    """
    from .demo import DemoOptions, run_demo

    options = DemoOptions(
        events, subscriptions, clusters, brokers_per_cluster, degree, subscribers, publishers, limit,
        brokers_per_actor, scheme, seed, out, spark, kill, trace_dir,
    )  # fmt: skip
    result = run_demo(options, as_json=as_json)
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario: topology, workload and seed as a JSON file.")],
    on: Annotated[
        str, typer.Option(help="Where: sim (virtual time, one process) or ray (real actors).")
    ] = "sim",
    trace_dir: TraceDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario file, on the simulator or on Ray, and judge what was delivered.

    The same file gives the same deliveries on both.

    Examples
    --------
      rayvous run examples/scenarios/small.json
      rayvous run examples/scenarios/small.json --on ray --json
    """
    from .scenarios import run_scenario_file

    result = run_scenario_file(scenario, on, trace_dir, as_json=as_json)
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def chaos(
    seed: Annotated[
        int, typer.Option(help="The first seed: topology, clients and faults are drawn from it.")
    ] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds, from the first on.")] = 1,
    on: Annotated[
        str,
        typer.Option(
            help="Where: sim (virtual time; the same seed is the same run) or ray (real processes)."
        ),
    ] = "sim",
    plan: Annotated[Path | None, typer.Option(help="A fault plan (JSON) instead of a drawn one.")] = None,
    brokers: Annotated[
        int | None, typer.Option(help="Brokers at most: 60 on sim, 9 on ray if not given.")
    ] = None,
    scheme: Annotated[
        str,
        typer.Option(help="Routing scheme, one that heals: hybrid (also +quench, +merge), hypercube, lbdd."),
    ] = "hybrid",
    stable: Annotated[
        bool,
        typer.Option(
            "--stable",
            help="Brokers have stores that outlive them; some subscribers are durable; clients die and come back.",
        ),
    ] = False,
    store_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where brokers keep their files with --stable on ray; a temporary folder if not given."
        ),
    ] = None,
    trace_dir: TraceDir = None,
    operations: Annotated[
        bool,
        typer.Option("--operations", help="Brokers and clusters also join and leave meanwhile; on sim only."),
    ] = False,
    admission: Annotated[
        bool,
        typer.Option(
            "--admission",
            help="Brokers admit what they can carry, which is too little; their books are judged too; on sim only.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Break networks by a seed, let them heal, and judge whether they kept their promises.

    Crashes, restarts, pauses, cut links, partitions, dead clusters, a dead root, a dead rendezvous point, several at
    once. Exit status 0 only when every seed holds; each that does not comes with the command that replays it.

    On ray each broker is a process that is killed or stopped, on this machine. There the first fault of a drawn plan
    goes by the seed, modulo 6: it kills a designated broker, a normal one, the root, a whole cluster, the rendezvous
    point, a broker with clients. So six seeds in a row have all of these. With hypercube and lbdd it is modulo 5: any
    broker, a whole cluster, the rendezvous point, one that leaves, one with clients. A seed takes about half a minute.

    Examples
    --------
      rayvous chaos --seed 7
      rayvous chaos --seed 0 --seeds 200 --json
      rayvous chaos --seed 3 --operations
      rayvous chaos --seed 0 --seeds 200 --admission
      rayvous chaos --on ray --seed 0 --seeds 6
      rayvous chaos --on ray --seed 3 --plan plan.json
      rayvous chaos --scheme lbdd --seeds 100
      rayvous chaos --on ray --scheme hypercube --seeds 5
      rayvous chaos --seed 0 --seeds 100 --stable
      rayvous chaos --on ray --seed 0 --seeds 6 --stable
    """
    from .chaos import run_chaos_seeds

    result = run_chaos_seeds(
        seed,
        seeds,
        on,
        plan,
        brokers,
        trace_dir,
        stable=stable,
        operations=operations,
        admission=admission,
        as_json=as_json,
        scheme=scheme,
        store_dir=store_dir,
    )
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def audit(
    trace: Annotated[Path, typer.Argument(help="A folder that --trace-dir of another verb has written.")],
    spark: Annotated[
        bool, typer.Option(help="Check in Spark, which takes millions of rows; else in this process.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check a trace against every condition: at most once, only what is wanted, complete, in order, and more.

    Filters are evaluated by brute force. Each violation comes with the operations that explain it. Exit status 0 only
    when no condition is violated.

    Examples
    --------
      rayvous chaos --seed 7 --trace-dir out/trace
      rayvous audit out/trace
      rayvous audit out/trace --no-spark --json
    """
    from .audit import run_audit

    result = run_audit(trace, spark=spark, as_json=as_json)
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def compare(
    schemes: Annotated[
        str,
        typer.Option(help="Schemes with commas between them, or all; options go with a plus: hybrid+quench."),
    ] = "all",
    on: Annotated[
        str, typer.Option(help="Where: sim (virtual time) or ray (small networks, one for each scheme).")
    ] = "sim",
    clusters: Annotated[int, typer.Option(help="Clusters in the tree.")] = 12,
    brokers_per_cluster: Annotated[int, typer.Option(help="Brokers in a cluster.")] = 3,
    subscribers: Annotated[int, typer.Option(help="Subscribers, with one subscription each.")] = 20,
    publishers: Annotated[int, typer.Option(help="Publishers that share the events.")] = 12,
    events: Annotated[int, typer.Option(help="Events, published one by one.")] = 300,
    matching: Annotated[
        float, typer.Option(help="Share of the events that a subscription matches, 0 to 1.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the network and the load.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the picture; without it none is drawn.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one workload on several routing schemes and show what each costs, beside the lower bound.

    Messages, links crossed, bytes, hops, latency, table entries, messages about subscriptions, and how evenly brokers
    are loaded. Exit status 0 only when every scheme delivered what it had to.

    Examples
    --------
      rayvous compare
      rayvous compare --schemes hybrid,hybrid+quench+merge,match-first --out out/compare
      rayvous compare --schemes hybrid,lbdd --on ray --clusters 4 --brokers-per-cluster 2 --json
    """
    from .compare import compare_schemes

    load = {
        "subscribers": subscribers, "publishers": publishers, "publications": events, "matching": matching,
    }  # fmt: skip
    result = compare_schemes(schemes, on, clusters, brokers_per_cluster, load, seed, out, as_json=as_json)
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def selector(
    text: Annotated[
        str, typer.Argument(help="A selector, for example: \"origin = 'JFK' AND dep_delay > 60\"")
    ],
    covers: Annotated[
        str | None, typer.Option(help="A second selector: is all that it matches matched by the first?")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a selector and show its normal form; with --covers, compare two.

    Examples
    --------
      rayvous selector "price BETWEEN 2 AND 5 OR NOT (sym LIKE 'A%')"
      rayvous selector "price > 2" --covers "price > 3 AND sym = 'X'"
    """
    from .selectors import describe_selector

    result = describe_selector(text, covers)
    if as_json:
        console.print_json(result)
    else:
        console.print_table("Selector", {name: str(value) for name, value in result.items()})


@experiment.command("admission")
def experiment_admission(
    preset: Annotated[
        str, typer.Option(help="quick (fewer points), paper (its parameters), or narrow (narrower filters).")
    ] = "quick",
    on: Annotated[str, typer.Option(help="sim, or ray: a small one on actors that use real CPU.")] = "sim",
    out: Annotated[
        Path, typer.Option(help="Folder for figures and numbers; made if it is not there.")
    ] = Path("out/experiments/admission"),
    as_json: AsJson = False,
) -> None:
    """Paper 3, section 5: discards, rejections and utilisation under no, full, 20 % and 40 % admission control.

    Runs in virtual time, several networks at once. Writes admission.json, figure_9.png and figure_10.png; prints what
    the paper says beside what was measured. Never fails for a statement that does not hold.

    With --on ray six broker actors really work on each event, and their capacities are measured before. That takes
    a minute or two, has no presets, and writes admission_on_ray.json.

    Examples
    --------
      rayvous experiment admission
      rayvous experiment admission --preset paper --out out/admission --json
      rayvous experiment admission --on ray
    """
    from .experiments import run_admission, run_admission_on_ray

    if on not in ("sim", "ray"):
        raise InputError(f"--on {on}: it is sim or ray")
    if on == "ray":
        run_admission_on_ray(out, as_json=as_json)
    else:
        run_admission(preset, out, as_json=as_json)


@experiment.command("hypercube")
def experiment_hypercube(
    preset: Annotated[str, typer.Option(help="quick (smaller ranges) or paper (its parameters).")] = "quick",
    brokers: Annotated[
        int, typer.Option(help="How many; the paper's are 8. Others than 2, 4, 8, ... leave vacancies.")
    ] = 8,
    seed: Annotated[int, typer.Option(help="Of what each broker starts.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if it is not there.")] = Path(
        "out/experiments/hypercube"
    ),
    as_json: AsJson = False,
) -> None:
    """Paper 2, figures 6 and 7: load in a hypercube stays even and grows linearly though sources are uneven.

    Examples
    --------
      rayvous experiment hypercube
      rayvous experiment hypercube --preset paper --json
      rayvous experiment hypercube --brokers 100
    """
    from .experiments import run_hypercube

    run_hypercube(preset, brokers, seed, out, as_json=as_json)


@bench.command("matching")
def bench_matching(
    filters: Annotated[
        list[int] | None, typer.Option(help="How many filters; may be given more than once.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the filters and events.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the match index beside a vectorised brute force: microseconds per event, build, insert, remove.

    10 integer attributes, 5 interval constraints a filter, each half of the domain wide.
    """
    from ..benchmarks import matching

    counts = tuple(filters) if filters else (1_000, 10_000, 100_000)
    if min(counts) < 1:
        raise InputError(f"--filters {min(counts)}: there must be at least 1")
    _show_bench(matching.run(filter_counts=counts, seed=seed), as_json)


@bench.command("dataplane")
def bench_dataplane(
    events: Annotated[int, typer.Option(help="Events to publish in batches.")] = 400_000,
    subscriptions: Annotated[int, typer.Option(help="Subscriptions spread over the three brokers.")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Three broker actors in a row beside a bare chain of three Ray actors: events per second, idle latency."""
    from ..benchmarks import dataplane

    with console.steps() as steps:
        result = dataplane.run(events=events, subscriptions=subscriptions, progress=steps.show)
    _show_bench(result, as_json)


@bench.command("simulator")
def bench_simulator(
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the simulator: broker steps per second in one process."""
    from ..benchmarks import simulator

    _show_bench(simulator.run(seed=seed), as_json)


@bench.command("durability")
def bench_durability(
    events: Annotated[int, typer.Option(help="Events through each store.")] = 200_000,
    batch_events: Annotated[
        list[int] | None, typer.Option(help="Events in one publication; may be given more than once.")
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
    from ..benchmarks import durability

    sizes = tuple(batch_events) if batch_events else (1, 64, 512)
    if events < 1 or min(sizes) < 1:
        raise InputError("--events and --batch-events: there must be at least 1")
    _show_bench(durability.run(events=events, batch_events=sizes, directory=directory), as_json)


@bench.command("admission")
def bench_admission(
    advertisements: Annotated[
        list[int] | None, typer.Option(help="How many advertisements; may be given more than once.")
    ] = None,
    subscriptions: Annotated[int, typer.Option(help="Subscriptions to time.")] = 500,
    seed: Annotated[int, typer.Option(help="Of all filters.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure admission control: subscriptions judged per second by a broker that knows many advertisements.

    Besides, how the cost grows with their number beside the paper's O(N), and the two estimators side by side.
    """
    from ..benchmarks import admission

    counts = tuple(sorted(advertisements)) if advertisements else (1_000, 10_000)
    if min(counts) < 1 or subscriptions < 1:
        raise InputError("--advertisements and --subscriptions: there must be at least 1")
    _show_bench(admission.run(advertisements=counts, subscriptions=subscriptions, seed=seed), as_json)


@bench.command("report")
def bench_report(
    rows: Annotated[
        int, typer.Option(help="Telemetry rows; by default as many as a demo of 20,000 events has.")
    ] = 84_000,
    seed: Annotated[int, typer.Option(help="Of the telemetry.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure Spark's part of a report beside the floor of any Spark job here, and both ways of handing over.

    The floor is a Spark session on Ray in which the rows of one table are counted. Takes a minute or two.
    """
    from ..benchmarks import report

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


def main() -> None:
    """Run the command line and exit."""
    if "--help" not in sys.argv and len(sys.argv) > 1:
        console.keep_stdout_for_results()
    try:
        app()  # ends the process itself; wrong options are status 2
    except InputError as error:
        _fail(error, 2)
    except RayvousError as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(error: object, status: int) -> None:
    line = " ".join(str(error).split())
    console.err.print(f"rayvous: {line}", markup=False, soft_wrap=True)
    sys.exit(status)
