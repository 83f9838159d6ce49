"""The verbs of the command line and what they share: options, errors, exit status.

Exit status: 0 the command succeeded and, if there is a verdict, it holds; 1 it does not hold, or the system
failed; 2 the input is invalid.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from ..experiments import TITLES
from ..protocol.errors import InputError, MissingExtra, RayvousError
from ..protocol.extras import require
from . import console
from .inputs import check_out
from .options import AsJson, Hosts, TraceDir, at_most
from .verbs.bench import bench
from .verbs.doctor import doctor
from .verbs.report import report
from .verbs.service import add_service

app = typer.Typer(
    name="rayvous",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe whose brokers are Ray actors.",
    epilog="Start with: rayvous demo. A network of your own: rayvous up. Is all there that it needs: rayvous doctor.",
)
app.add_typer(bench, name="bench")
experiment = typer.Typer(
    no_args_is_help=True,
    help="Reproduce the figures of the papers: numbers, pictures, published beside ours.",
)
app.add_typer(experiment, name="experiment")

USAGE_ERRORS: Final[Any] = typer.BadParameter.__mro__[1]
"""The base class of typer's errors for a wrong option or argument; its location differs between versions of typer."""
NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DEMO_OUT: Final = Path("out/demo")
GROUPS: Final = ("bench", "experiment")
"""Verbs with subcommands; alone they print their help."""


def _tell_version(asked: bool) -> None:
    if asked:
        from .version import version_line

        console.out.print(version_line(), markup=False, soft_wrap=True)
        raise typer.Exit


@app.callback()
def before_the_verb(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show also what Ray, Spark and their processes say.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_tell_version, help="Say which versions run here, and exit."
        ),
    ] = False,
) -> None:
    """Content-based publish/subscribe whose brokers are Ray actors."""
    if "--help" not in sys.argv and sys.argv[-1] not in GROUPS:
        console.keep_results_apart(verbose=verbose)


@app.command()
def demo(
    events: Annotated[
        Path | None,
        typer.Option(help="Events from a .csv, .jsonl or .parquet file, instead of the flights of 2013."),
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option(help="Selectors from a file, one a line, each for a subscriber of its own.")
    ] = None,
    clusters: Annotated[int, typer.Option(callback=at_most(10_000), help="Clusters in the tree.")] = 4,
    brokers_per_cluster: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Brokers in a cluster, each a Ray actor.")
    ] = 3,
    degree: Annotated[int, typer.Option(help="Child clusters that a cluster may have.")] = 8,
    subscribers: Annotated[
        int,
        typer.Option(
            callback=at_most(1_000_000), help="Subscribers, when no file of subscriptions is given."
        ),
    ] = 200,
    publishers: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Publishers that share the events.")
    ] = 4,
    limit: Annotated[int, typer.Option(callback=at_most(10_000_000), help="Events at most.")] = 20_000,
    brokers_per_actor: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Brokers that share one actor.")
    ] = 1,
    scheme: Annotated[
        str, typer.Option(help="Routing scheme: hybrid, lbdd, ...: see docs/schemes.md.")
    ] = "hybrid",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report; made if it is not there.")] = DEMO_OUT,
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
    from .verbs.scenarios import run_scenario_file

    result = run_scenario_file(scenario, on, trace_dir, as_json=as_json)
    raise typer.Exit(0 if result["verdict"] == "holds" else 1)


@app.command()
def chaos(
    seed: Annotated[
        int, typer.Option(help="The first seed: topology, clients and faults are drawn from it.")
    ] = 0,
    seeds: Annotated[
        int, typer.Option(callback=at_most(1_000_000), help="How many seeds, from the first on.")
    ] = 1,
    on: Annotated[
        str,
        typer.Option(
            help="Where: sim (virtual time; the same seed is the same run) or ray (real processes)."
        ),
    ] = "sim",
    plan: Annotated[Path | None, typer.Option(help="A fault plan (JSON) instead of a drawn one.")] = None,
    brokers: Annotated[
        int | None,
        typer.Option(callback=at_most(10_000), help="Brokers at most: 60 on sim, 9 on ray if not given."),
    ] = None,
    scheme: Annotated[
        str,
        typer.Option(
            help="Routing scheme: hybrid (also +quench, +merge, +fanout), hierarchical (also +nodes), flooding, "
            "match-first, hypercube, lbdd, point-to-point; or module:Class."
        ),
    ] = "hybrid",
    stable: Annotated[
        bool,
        typer.Option(
            "--stable",
            help="Brokers have stores that outlive them; some subscribers are durable; clients die and come back.",
        ),
    ] = False,
    store_dir: Annotated[
        str | None,
        typer.Option(
            help="Where brokers have their stores with --stable on ray: a folder, or the address of a PostgreSQL "
            "database; a temporary folder if not given."
        ),
    ] = None,
    trace_dir: TraceDir = None,
    operations: Annotated[
        bool,
        typer.Option("--operations", help="Brokers and clusters also join and leave meanwhile."),
    ] = False,
    admission: Annotated[
        bool,
        typer.Option(
            "--admission",
            help="Brokers admit what they can carry, which is too little; their books are judged too.",
        ),
    ] = False,
    damage: Annotated[
        bool,
        typer.Option(
            "--damage",
            help="State of brokers is damaged, too; what is published after the stated time is judged.",
        ),
    ] = False,
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """Break networks by a seed, let them heal, and judge whether they kept their promises.

    Crashes, restarts, pauses, cut links, partitions, dead clusters, a dead root, a dead rendezvous point, several at
    once. Exit status 0 only when every seed holds; each that does not comes with the command that replays it.

    On ray each broker is a process that is killed or stopped, on this machine. There the first fault of a drawn plan
    goes by the seed, modulo 6: it kills a designated broker, a normal one, the root, a whole cluster, the rendezvous
    point, a broker with clients. So six seeds in a row have all of these. Where there is no tree (hypercube, lbdd,
    point-to-point) it is modulo 5: any broker, a whole cluster, the rendezvous point, one that leaves, one with
    clients. A seed takes about half a minute.
    With --hosts the link of a host is harmed, by the seed modulo 4: cut for a shorter or a longer time than Ray waits
    until it gives a node up, slow, or losing packets.

    Examples
    --------
      rayvous chaos --seed 7
      rayvous chaos --seed 0 --seeds 200 --json
      rayvous chaos --seed 3 --operations
      rayvous chaos --seed 0 --seeds 100 --damage
      rayvous chaos --on ray --seed 0 --seeds 6
      rayvous chaos --on ray --seed 3 --plan plan.json
      rayvous chaos --scheme lbdd --seeds 100
      rayvous chaos --on ray --scheme hypercube --seeds 5
      rayvous chaos --on ray --seed 0 --seeds 6 --stable
      sudo rayvous chaos --on ray --hosts 3 --seeds 4
      sudo rayvous chaos --on ray --hosts 3 --seeds 4 --stable --admission --operations
      rayvous chaos --on ray --seed 0 --seeds 5 --stable --admission --operations
    """
    from .verbs.chaos import run_chaos_seeds

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
        damage=damage,
        as_json=as_json,
        scheme=scheme,
        store_dir=store_dir,
        hosts=hosts,
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
    from .verbs.audit import run_audit

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
    clusters: Annotated[int, typer.Option(callback=at_most(10_000), help="Clusters in the tree.")] = 12,
    brokers_per_cluster: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Brokers in a cluster.")
    ] = 3,
    subscribers: Annotated[
        int, typer.Option(callback=at_most(1_000_000), help="Subscribers, with one subscription each.")
    ] = 20,
    publishers: Annotated[
        int, typer.Option(callback=at_most(10_000), help="Publishers that share the events.")
    ] = 12,
    events: Annotated[
        int, typer.Option(callback=at_most(10_000_000), help="Events, published one by one.")
    ] = 300,
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
    from .verbs.compare import compare_schemes

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
    dialect: Annotated[
        str, typer.Option(help="The language of the text: rayvous, jms or cesql (CloudEvents SQL).")
    ] = "rayvous",
    as_json: AsJson = False,
) -> None:
    """Check a selector and show its normal form; with --covers, compare two.

    Examples
    --------
      rayvous selector "price BETWEEN 2 AND 5 OR NOT (sym LIKE 'A%')"
      rayvous selector "price > 2" --covers "price > 3 AND sym = 'X'"
      rayvous selector "type LIKE 'com.%' AND LENGTH(subject) < 9" --dialect cesql
    """
    from .verbs.selectors import describe_selector

    result = describe_selector(text, covers, dialect)
    if as_json:
        console.print_json(result)
    else:
        console.print_table("Selector", {name: str(value) for name, value in result.items()})


app.command()(report)
app.command()(doctor)
add_service(app)


@experiment.command("admission-on-ray")
def experiment_admission_on_ray(
    out: Annotated[Path, typer.Option(help="Folder for the numbers; made if it is not there.")] = Path(
        "out/experiments/admission-on-ray"
    ),
    as_json: AsJson = False,
) -> None:
    """Paper 3, section 5, small and real: six broker actors work on each event, and their capacities are measured.

    Takes a minute or two and writes admission_on_ray.json; prints what the paper says beside what was measured. Never
    fails for a statement that does not hold.

    Examples
    --------
      rayvous experiment admission-on-ray
      rayvous experiment admission-on-ray --out out/admission --json
    """
    from .verbs.experiments import run_admission_on_ray

    run_admission_on_ray(out, as_json=as_json)


def _reproduces(name: str, what: str) -> None:
    """Add a verb for one experiment, or for all."""

    def verb(
        preset: Annotated[
            str, typer.Option(help="quick, small (of some), paper (hours); admission-*: copies, links.")
        ] = "quick",
        runs: Annotated[
            int | None,
            typer.Option(min=1, max=1_000, help="Runs of each point; those of the preset if not given."),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(help="Folder for tables, pictures and results; made if it is not there."),
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was broken off.")] = False,
        as_json: AsJson = False,
    ) -> int:
        from .verbs.reproduction import reproduce

        folder = out or Path("out/experiments") / name
        return reproduce(name, preset, runs, folder, resume=resume, as_json=as_json)

    verb.__doc__ = f"""{what}

    Runs in virtual time, on all CPUs of the Ray that is there, or of this machine; Spark aggregates. Prints what the
    paper says beside what was measured. Exit status 1 when one does not hold that is not listed as known not to.

    Examples
    --------
      rayvous experiment {name}
      rayvous experiment {name} --preset paper --runs 3 --out out/{name} --json
    """
    experiment.command(name)(verb)


for _name, _what in TITLES.items():
    _reproduces(_name, _what)
_reproduces("all", "All of these experiments, one after the other; what they share is run once.")


def main() -> None:
    """Run the command line and exit."""
    _open_what_is_closed()
    with suppress(FileNotFoundError):  # the working directory was removed
        sys.path.append(str(Path.cwd()))  # for user-defined schemes and layers (`schemes.own`)
    try:
        status = app(standalone_mode=False)  # the exit status of the verb, or None
    except USAGE_ERRORS as error:
        _fail(_usage(error), 2)
    except InputError as error:
        _fail(error, 2)
    except RayvousError as error:
        _fail(error, 1)
    except OSError as error:
        if error.errno not in NOT_WRITTEN:
            raise
        _fail(f"what was to be said could not be written: {error.strerror}", 1)
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
