"""The verbs of the command line and what they share: options, errors, exit status.

Exit status: 0 the command succeeded and, if there is a verdict, it holds; 1 it is violated, or the system
failed; 2 the input is invalid, or there is no Ray to begin with; 3 the verdict is undecided.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from ..faults.checker.verdict import HOLDS, UNDECIDED, VIOLATED
from ..protocol.configs import DEFAULT_SCHEME
from ..protocol.errors import InputError, MissingExtra, RayUnavailable, RayvousError
from ..protocol.extras import require
from . import console
from .inputs import check_out
from .options import AsJson, Hosts, Links, TraceDir, Types, at_most, column_types
from .verb_app import VerbApp
from .verbs import game_day
from .verbs.bench import bench
from .verbs.doctor import doctor
from .verbs.experiments import experiment
from .verbs.explore import explore
from .verbs.report import report
from .verbs.service import add_service

app = VerbApp(
    name="rayvous",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe whose brokers are Ray actors.",
    epilog="Start with: rayvous demo. Start your own network: rayvous up. Check this machine: rayvous doctor.",
)
app.add_typer(bench, name="bench")
app.add_typer(experiment, name="experiment")
app.add_typer(explore, name="explore")

USAGE_ERRORS: Final[Any] = typer.BadParameter.__mro__[1]
"""The base class of typer's errors for a wrong option or argument; its location differs between versions of typer."""
NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DEMO_OUT: Final = Path("out/demo")
GROUPS: Final = ("bench", "experiment", "explore")
"""Verbs with subcommands; alone they print their help."""


def _tell_version(asked: bool) -> None:
    if asked:
        console.out.print(version_line(), markup=False, soft_wrap=True)
        raise typer.Exit


def version_line() -> str:
    """Return the versions of this package, of Python and of Ray, and the kernel of the match index, for bug reports."""
    from ..routing.matching.kernels import KERNEL, instructions

    package = __package__.partition(".")[0]
    kernel = f"compiled ({instructions()})" if KERNEL == "native" else KERNEL
    python, ray = platform.python_version(), metadata.version("ray")
    return f"{package} {metadata.version(package)}, Python {python}, Ray {ray}, match index {kernel}"


@app.callback()
def before_the_verb(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also show the output of Ray, Spark and their processes.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_tell_version, help="Print the installed versions and exit."
        ),
    ] = False,
) -> None:
    """Content-based publish/subscribe whose brokers are Ray actors."""
    if "--help" not in sys.argv and sys.argv[-1] not in GROUPS:
        console.keep_results_apart(verbose=verbose)


OUTCOME_STATUS: Final[Mapping[object, int]] = {HOLDS: 0, VIOLATED: 1, UNDECIDED: 3}
"""The exit status of a verb that judges, by the outcome."""


@app.command()
def demo(
    events: Annotated[
        Path | None,
        typer.Option(help="A .csv, .jsonl or .parquet file of events, instead of the flights of 2013."),
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option(help="A file of selectors, one per line; each gets its own subscriber.")
    ] = None,
    clusters: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of clusters in the tree.")
    ] = 4,
    brokers_per_cluster: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Brokers per cluster, each a Ray actor.")
    ] = 3,
    degree: Annotated[int, typer.Option(help="Maximum number of child clusters of a cluster.")] = 8,
    subscribers: Annotated[
        int,
        typer.Option(
            callback=at_most(1_000_000), help="Number of subscribers if there is no --subscriptions file."
        ),
    ] = 200,
    publishers: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of publishers; they share the events.")
    ] = 4,
    limit: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Maximum number of events.")
    ] = 20_000,
    brokers_per_actor: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of brokers per actor.")
    ] = 1,
    scheme: Annotated[
        str, typer.Option(help="Routing scheme: hybrid, lbdd, ...; see docs/schemes.md.")
    ] = DEFAULT_SCHEME,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report; created if missing.")] = DEMO_OUT,
    spark: Annotated[
        bool, typer.Option(help="Aggregate the telemetry in Spark and write the report.")
    ] = True,
    kill: Annotated[
        str | None,
        typer.Option(
            help="Cause a fault when half of the events are published: deb, neb, cluster, root or link."
        ),
    ] = None,
    trace_dir: TraceDir = None,
    types: Types = None,
    as_json: AsJson = False,
) -> None:
    """Publish real flights to subscribers over a tree of brokers on Ray, and check every delivery.

    Launches the network, installs every subscription, publishes, compares each delivery with a brute-force
    evaluation, and computes costs and latencies in Spark. Exit status 0 only if the verdict is
    "holds", 3 if nothing had to be delivered.

    Examples
    --------
      rayvous demo
      rayvous demo --limit 100000 --clusters 8 --brokers-per-cluster 2 --brokers-per-actor 4
      rayvous demo --events trades.csv --subscriptions alerts.txt --json
      rayvous demo --kill deb
      rayvous demo --trace-dir out/trace --no-spark
    """
    from .verbs.demo import DemoOptions, run_demo

    if spark:
        try:
            require("spark")
        except MissingExtra as error:
            raise MissingExtra(f"{error}; or give --no-spark") from None
    if spark or out != DEMO_OUT:
        check_out(out)
    options = DemoOptions(
        events, subscriptions, clusters, brokers_per_cluster, degree, subscribers, publishers, limit,
        brokers_per_actor, scheme, seed, out, spark, kill, trace_dir, column_types(types),
    )  # fmt: skip
    result = run_demo(options, as_json=as_json)
    raise typer.Exit(OUTCOME_STATUS[result["verdict"]])


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (JSON): topology, workload and seed.")],
    on: Annotated[
        str, typer.Option(help="Host: sim (virtual time, one process) or ray (real actors).")
    ] = "sim",
    trace_dir: TraceDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario file in the simulator or on Ray, and check every delivery.

    The same file gives the same deliveries on both.

    Examples
    --------
      rayvous run examples/scenarios/small.json
      rayvous run examples/scenarios/small.json --on ray --json
    """
    from .verbs.scenarios import run_scenario_file

    result = run_scenario_file(scenario, on, trace_dir, as_json=as_json)
    raise typer.Exit(OUTCOME_STATUS[result["verdict"]])


@app.command()
def chaos(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="First seed; it determines topology, clients and faults.")] = 0,
    seeds: Annotated[int, typer.Option(callback=at_most(1_000_000), help="Number of consecutive seeds.")] = 1,
    on: Annotated[
        str,
        typer.Option(help="Host: sim (virtual time, reproducible by its seed) or ray (real processes)."),
    ] = "sim",
    plan: Annotated[
        Path | None, typer.Option(help="Fault plan (JSON) to use instead of a random one.")
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(callback=at_most(10_000), help="Maximum number of brokers [60 on sim, 9 on ray]."),
    ] = None,
    scheme: Annotated[
        str,
        typer.Option(
            help="Routing scheme: hybrid (also +quench, +merge, +all, +fanout), hierarchical (also +nodes), "
            "flooding (also +graph), match-first, hypercube, lbdd, point-to-point; or module:Class."
        ),
    ] = DEFAULT_SCHEME,
    stable: Annotated[
        bool,
        typer.Option(
            "--stable",
            help="Give brokers stores, make some subscribers durable, and let clients die and return.",
        ),
    ] = False,
    store_dir: Annotated[
        str | None,
        typer.Option(
            help="With --stable on ray, where the stores are: a folder, or the address of a PostgreSQL database "
            "\\[a temporary folder]."
        ),
    ] = None,
    trace_dir: TraceDir = None,
    operations: Annotated[
        bool,
        typer.Option("--operations", help="Let brokers and clusters join and leave during the run."),
    ] = False,
    admission: Annotated[
        bool,
        typer.Option(
            "--admission",
            help="Limit the brokers' capacities below the load, and check admission control too.",
        ),
    ] = False,
    damage: Annotated[
        bool,
        typer.Option(
            "--damage",
            help="Damage the state of brokers too; only events published after the stated time are checked.",
        ),
    ] = False,
    lossless: Annotated[
        bool,
        typer.Option("--lossless", help="Retain so much that no loss is excused: every event has to come."),
    ] = False,
    hosts: Hosts = None,
    links: Links = None,
    case: Annotated[
        Path | None,
        typer.Option(help="Case (JSON), as --shrink writes it: it is run instead of one drawn from a seed."),
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink",
            help="Make a case that fails small while it fails for the same reason, and write it to a file.",
        ),
    ] = False,
    shrink_seconds: Annotated[
        float, typer.Option(help="With --shrink or --search, how long to try at most.", min=0.1)
    ] = 60.0,
    network: game_day.OnNetwork = None,
    for_: game_day.For = "10m",
    kinds: game_day.Kinds = None,
    rate: game_day.Rate = "1/min",
    spare: game_day.Spare = None,
    node_command: game_day.NodeCommand = None,
    condition: game_day.Conditions = None,
    dry_run: game_day.DryRun = False,
    yes: game_day.Yes = False,
    report_file: game_day.ReportFile = None,
    address: game_day.At = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="Search a case that fails, guided by what runs reach, and shrink it: minutes=30, runs=500, or both. "
            "Networks have at most 12 brokers without --brokers."
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="With --search, the folder of the cases that reached something new: it begins with them."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Inject faults determined by a seed, let the network heal, and check that it kept its promises.

    Faults are crashes, restarts, pauses, cut links, partitions, dead clusters, a dead root and a dead rendezvous
    point, also several at once. Exit status 0 only if every seed holds; for each other seed, the command that
    replays it is printed.

    On ray, each broker is a process on this machine that is killed or stopped. The first fault of a random plan depends
    on the seed modulo 6: it kills a designated broker, a normal broker, the root, a whole cluster, the rendezvous
    point, or a broker with clients; so six consecutive seeds cover all of these. Schemes without a tree (hypercube,
    lbdd, point-to-point) use the seed modulo 5: any broker, a whole cluster, the rendezvous point, a broker that
    leaves, or a broker with clients. A seed takes about half a minute. With --links direct, connections between
    processes get up to three faults in addition: one is reset in the middle of a frame, a process stops reading, its
    port refuses.

    With --network, it is a game day: a running network is broken with its real clients, one fault at a time and never
    more than it promises to survive, while clients of the game day are judged. The network must allow it (chaos = true
    in its file), and where it has rights, RAYVOUS_TOKEN must be the token of a principal with operate = true. It ends
    by itself, at Ctrl-C, and at the first broken promise, and heals what it broke.

    With --hosts, the link of a host fails, by the seed modulo 4: it is cut for less or for more time than Ray takes to
    declare a node dead, becomes slow, or loses packets.

    Examples
    --------
      rayvous chaos --seed 7
      rayvous chaos --seed 0 --seeds 200 --json
      rayvous chaos --seed 3 --operations
      rayvous chaos --seed 1152 --shrink
      rayvous chaos --case seed-1152-shrunk.json
      rayvous chaos --search minutes=30 --corpus cases --stable
      rayvous chaos --seed 0 --seeds 100 --damage
      rayvous chaos --seed 0 --seeds 100 --stable --lossless
      rayvous chaos --on ray --seed 0 --seeds 6
      rayvous chaos --on ray --links direct --seeds 6
      rayvous chaos --on ray --seed 3 --plan plan.json
      rayvous chaos --scheme lbdd --seeds 100
      rayvous chaos --on ray --scheme hypercube --seeds 5
      rayvous chaos --on ray --seed 0 --seeds 6 --stable
      sudo rayvous chaos --on ray --hosts 3 --seeds 4
      sudo rayvous chaos --on ray --hosts 3 --seeds 4 --stable --admission --operations
      rayvous chaos --on ray --seed 0 --seeds 5 --stable --admission --operations
      rayvous chaos --network flights --for 10m --dry-run
      rayvous chaos --network flights --for 10m --rate 1/min --kinds kill,pause,slow,reset --spare root
    """
    if (outcome := game_day.run_game_day(context)) is not None:
        raise typer.Exit(OUTCOME_STATUS[outcome])
    from .verbs.chaos import run_chaos_case, run_chaos_seeds

    for_seconds = shrink_seconds if shrink else None
    wanted = {
        "stable": stable, "operations": operations, "admission": admission, "damage": damage, "lossless": lossless
    }  # fmt: skip
    if search is not None:
        from .verbs.chaos_search import run_search

        unfit = {
            "seeds": seeds != 1, "on": on != "sim", "plan": plan, "case": case, "trace-dir": trace_dir,
            "store-dir": store_dir, "hosts": hosts, "links": links, "shrink": shrink,
        }  # fmt: skip
        result = run_search(
            search, seed, unfit, wanted, corpus=corpus, brokers=brokers, scheme=scheme,
            shrink_seconds=shrink_seconds, as_json=as_json,
        )  # fmt: skip
        raise typer.Exit(OUTCOME_STATUS[result["verdict"]])
    if corpus is not None:
        raise InputError("--corpus needs --search")
    if case is not None:
        drawn = {
            "seeds": seeds != 1, "plan": plan, "brokers": brokers, "hosts": hosts, **wanted,
            "scheme": scheme != DEFAULT_SCHEME, "seed": seed,
        }  # fmt: skip
        result = run_chaos_case(
            case,
            on,
            drawn,
            trace_dir,
            store_dir=store_dir,
            links=links,
            shrink_seconds=for_seconds,
            as_json=as_json,
        )
        raise typer.Exit(OUTCOME_STATUS[result["verdict"]])
    result = run_chaos_seeds(
        seed,
        seeds,
        on,
        plan,
        brokers,
        trace_dir,
        **wanted,
        as_json=as_json,
        scheme=scheme,
        store_dir=store_dir,
        hosts=hosts,
        links=links,
        shrink_seconds=for_seconds,
    )
    raise typer.Exit(OUTCOME_STATUS[result["verdict"]])


@app.command()
def audit(
    trace: Annotated[Path, typer.Argument(help="Trace folder, written by --trace-dir of another verb.")],
    spark: Annotated[
        bool, typer.Option(help="Check in Spark, for millions of rows; otherwise in this process.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check a trace against every condition: at most once, only wanted events, complete, in order, and more.

    Filters are evaluated by brute force. Each violation is shown with the operations that explain it. Exit status 0
    only if no condition is violated, and 3 if nothing had to be delivered, so that nothing is decided.

    Examples
    --------
      rayvous chaos --seed 7 --trace-dir out/trace
      rayvous audit out/trace
      rayvous audit out/trace --no-spark --json
    """
    from .verbs.audit import run_audit

    result = run_audit(trace, spark=spark, as_json=as_json)
    raise typer.Exit(OUTCOME_STATUS[result["verdict"]])


@app.command()
def explain(
    given: Annotated[
        Path,
        typer.Argument(
            metavar="SCENARIO|TRACE",
            help="Scenario or case (JSON), run in virtual time; or folder of a trace, or of telemetry.",
        ),
    ],
    subscriber: Annotated[str | None, typer.Option(help="Whose notification; chosen if not given.")] = None,
    event: Annotated[
        str | None, typer.Option(help="Which event, as publisher:number; chosen if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the diagram: .html with words, zoom and filters, or .svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain what became of one event on its way to one subscriber: where it ended, and which rule decided that.

    Without --event it is the first violation of the verdict, else a reported loss, else a sample. Exit status 0 if
    there was something to explain, whatever it is.

    Examples
    --------
      rayvous explain examples/scenarios/small.json --out why.html
      rayvous explain seed-7-shrunk.json --subscriber s3 --event p1:4
      rayvous explain out/trace --json
      rayvous explain out/telemetry --subscriber alice --event faa:17
    """
    from .verbs.explain import run_explain

    run_explain(given, subscriber, event, out, as_json=as_json)


@app.command()
def step(
    given: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="Scenario or case (JSON), run in virtual time.")
    ],
    compare: Annotated[
        str | None,
        typer.Option(
            help="Another run beside it: a file, or a scheme under which the same is run.",
            metavar="SCHEME|FILE",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the player: one .html that needs nothing else.")
    ] = None,
    at_seconds: Annotated[
        float | None, typer.Option("--at", help="Print the network as it is at this time, in seconds.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Print the network at the next death, restart, election, place, view, loss, message, ..."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Step through a run in virtual time: what happens, message by message, and the network as it is at each moment.

    Without --at and --to, and without --out, each moment is a line. The player of --out goes forward and back, to the
    next message, tick, death or election, and shows the tree, the tables of brokers and the clients as they are then.

    Examples
    --------
      rayvous step examples/cases/election.json --out election.html
      rayvous step examples/cases/election.json --to election
      rayvous step examples/scenarios/small.json --compare hierarchical --out both.html
    """
    from .verbs.step import run_step

    run_step(given, compare, out, at_seconds, to, as_json=as_json)


@app.command()
def compare(
    schemes: Annotated[
        str,
        typer.Option(help="Comma-separated schemes, or all; add options with a plus: hybrid+quench."),
    ] = "all",
    on: Annotated[
        str, typer.Option(help="Host: sim (virtual time) or ray (small networks, one per scheme).")
    ] = "sim",
    clusters: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of clusters in the tree.")
    ] = 12,
    brokers_per_cluster: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Brokers per cluster.")
    ] = 3,
    subscribers: Annotated[
        int,
        typer.Option(callback=at_most(1_000_000), help="Number of subscribers, each with one subscription."),
    ] = 20,
    publishers: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Number of publishers; they share the events.")
    ] = 12,
    events: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Number of events, published one by one.")
    ] = 300,
    matching: Annotated[
        float, typer.Option(help="Fraction of the events that a subscription matches, 0 to 1.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the network and the load.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the picture; without it, none is drawn.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one workload on several routing schemes, and compare their costs with the lower bound.

    Shows messages, links crossed, bytes, hops, latency, table entries, messages about subscriptions, and how evenly
    the load is spread. Exit status 0 only if every scheme delivered what it had to.

    Examples
    --------
      rayvous compare
      rayvous compare --schemes hybrid,hybrid+quench+merge,match-first --out out/compare
      rayvous compare --schemes hybrid,lbdd --on ray --clusters 4 --brokers-per-cluster 2 --json
    """
    from .verbs.compare import compare_schemes

    load = {
        "subscribers": subscribers, "publishers": publishers, "publications": events, "matching": matching,
    }  # fmt: skip
    result = compare_schemes(schemes, on, clusters, brokers_per_cluster, load, seed, out, as_json=as_json)
    raise typer.Exit(OUTCOME_STATUS[result["verdict"]])


@app.command()
def selector(
    text: Annotated[str, typer.Argument(help="Selector, for example: \"origin = 'JFK' AND dep_delay > 60\"")],
    covers: Annotated[
        str | None,
        typer.Option(help="Second selector: check whether the first one matches everything that it matches."),
    ] = None,
    dialect: Annotated[
        str, typer.Option(help="Language of the selector: rayvous, jms or cesql (CloudEvents SQL).")
    ] = "rayvous",
    advertised: Annotated[
        list[str] | None,
        typer.Option(
            help="Selector that a publisher advertises; may be repeated. Doubts take it into account."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a selector, show its normal form and what is doubtful about it; with --covers, compare two.

    Examples
    --------
      rayvous selector "price BETWEEN 2 AND 5 OR NOT (sym LIKE 'A%')"
      rayvous selector "price > 2" --covers "price > 3 AND sym = 'X'"
      rayvous selector "type LIKE 'com.%' AND LENGTH(subject) < 9" --dialect cesql
    """
    from .verbs.selectors import describe_selector

    result = describe_selector(text, covers, dialect, advertised or ())
    if as_json:
        console.print_json(result)
    else:
        doubts = result.pop("doubts")
        rows = result | ({"doubts": "; ".join(doubts)} if doubts else {})
        console.print_table("Selector", {name: str(value) for name, value in rows.items()})


app.command()(report)
app.command()(doctor)
add_service(app)


def main() -> None:
    """Run the command line and exit."""
    _open_what_is_closed()
    with suppress(FileNotFoundError):  # the working directory was removed
        sys.path.append(str(Path.cwd()))  # for user-defined schemes and layers (`schemes.own`)
    try:
        status = app(standalone_mode=False)  # the exit status of the verb, or None
    except USAGE_ERRORS as error:
        _fail(_usage(error), 2)
    except (InputError, RayUnavailable) as error:
        _fail(error, 2)
    except RayvousError as error:
        _fail(error, 1)
    except OSError as error:
        if error.errno not in NOT_WRITTEN:
            raise
        _fail(f"the output could not be written: {error.strerror}", 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", 130)
    sys.exit(status if isinstance(status, int) else 0)


def _open_what_is_closed() -> None:
    """Open standard files that are closed (``>&-``) on the null device."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one


def _usage(error: Any) -> str:
    """Return the error in the arguments of a command and where its help is; empty if help was printed."""
    if type(error).__name__ == "NoArgsIsHelpError":  # typer prints the help when it constructs the error
        return ""
    said = " ".join(error.format_message().split())
    where = error.ctx.command_path if error.ctx is not None else "rayvous"
    return f"{said.rstrip('.')}: see {where} --help"


def _fail(error: object, status: int) -> NoReturn:
    line = " ".join(str(error).split())
    if line:
        console.err.print(f"rayvous: {line}", markup=False, soft_wrap=True)
    sys.exit(status)
