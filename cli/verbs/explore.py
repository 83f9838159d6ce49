"""``rayvous explore``: look at all interleavings of a small network, up to a stated bound."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from ...faults.checker.verdict import HOLDS, UNDECIDED, VIOLATED
from ...faults.model_checking.crash_recovery import Action, CrashRecovery, Setting
from ...faults.model_checking.election import Election, ElectionSetting
from ...faults.model_checking.schedules import Settings, judged, load, plain_story, save, story
from ...faults.model_checking.search import Bounds, Searched, search
from ...protocol.configs import DEFAULT_SCHEME
from ...protocol.errors import InputError
from .. import console
from ..options import AsJson
from ..verb_app import VerbApp

explore = VerbApp(
    no_args_is_help=True,
    help="Look at all interleavings of a small network: a model checker of the brokers that ship.",
)

Depth = Annotated[int | None, typer.Option(help="The most actions from the first state \\[no limit].", min=0)]
Seconds = Annotated[
    float | None, typer.Option(help="The most processor time to spend \\[no limit].", min=0.1)
]
Schedule = Annotated[
    Path | None, typer.Option(help="Run this schedule, as a violation writes it, instead of searching.")
]
STATUS: Final = {VIOLATED: 1, UNDECIDED: 3}
"""Of a verdict; that it holds, if only to the depth that was asked for, is 0."""


@explore.command()
def crash(
    context: typer.Context,
    routers: Annotated[int, typer.Option(help="2 or 3 brokers.")] = 2,
    events: Annotated[int, typer.Option(help="Events that the publisher publishes.", min=1)] = 1,
    crashes: Annotated[int, typer.Option(help="The most crashes in one run.", min=0)] = 1,
    losses: Annotated[
        int, typer.Option(help="The most lost messages and broken client connections in one run.", min=0)
    ] = 0,
    early: Annotated[
        int,
        typer.Option(
            help="The most timeouts in one run that expire while something else is possible.", min=0
        ),
    ] = 0,
    unwanted: Annotated[int, typer.Option(help="Further events that no subscription matches.", min=0)] = 0,
    cancels: Annotated[
        bool, typer.Option("--cancels", help="Let the subscriber cancel, at any time.")
    ] = False,
    scheme: Annotated[str, typer.Option(help="Routing scheme.")] = DEFAULT_SCHEME,
    depth: Depth = None,
    seconds: Seconds = None,
    schedule: Schedule = None,
    as_json: AsJson = False,
) -> None:
    """Check theorem 1 of paper 4 on the brokers that ship: two clients, and brokers that crash and recover.

    Everything that can happen next is tried in every state: each message that is under way arrives, a client takes its
    next step, a broker crashes between any two effects of a step, recovers, or is told the time; as often as --crashes,
    --losses and --early allow. In every state the trace of the clients is judged by the conditions of rayvous chaos,
    of which definition 9 consists; at rest, everything that was due must have come. States are compared by snapshots of
    brokers, stores and clients.

    Without --depth and --seconds all states are looked at, and the verdict is that of this network with these numbers.
    With --depth it "holds to depth N". A search that --seconds has cut off is undecided, and so is one in which nothing
    had to come in any run. A violation is printed as a shortest schedule, and written to crash-schedule.json. A run
    takes up to 500 bytes of memory a state.

    Exit status: 0 it holds, if only to the depth asked for; 1 it is violated; 3 it is undecided.

    Examples
    --------
      rayvous explore crash
      rayvous explore crash --losses 1 --crashes 0
      rayvous explore crash --routers 3 --depth 24
      rayvous explore crash --events 2 --seconds 900 --json
      rayvous explore crash --schedule crash-schedule.json
    """
    if schedule is not None:
        result = _replay(context, schedule, "crash", as_json=as_json)
    else:
        setting = Setting(routers, crashes, losses, early, events, unwanted, cancels, scheme)
        result = _search(setting, Bounds(depth, None, seconds), as_json=as_json)
    raise typer.Exit(STATUS.get(result["verdict"], 0))


@explore.command()
def election(
    context: typer.Context,
    brokers: Annotated[int, typer.Option(help="3 to 5 brokers.")] = 3,
    clusters: Annotated[
        int, typer.Option(help="Clusters, in a row; the brokers are spread evenly over them.", min=1)
    ] = 1,
    crashes: Annotated[int, typer.Option(help="The most crashes in one run.", min=0)] = 1,
    restarts: Annotated[int, typer.Option(help="The most restarts in one run.", min=0)] = 0,
    late: Annotated[
        int, typer.Option(help="The most ticks in one run by which all that is under way is late.", min=0)
    ] = 0,
    rivals: Annotated[
        bool, typer.Option("--rivals", help="Accept two designated brokers in one epoch, for a while.")
    ] = False,
    calm: Annotated[
        int, typer.Option(help="Ticks after the last fault, at the end of which all is judged.")
    ] = 16,
    depth: Depth = None,
    seconds: Seconds = None,
    schedule: Schedule = None,
    as_json: AsJson = False,
) -> None:
    """Check election and joining (paper 1, section 4) on the brokers that ship, while some die.

    Everything that can happen next is tried in every state: each message that is under way arrives, a broker crashes
    between any two effects of a step or at rest, starts again without its state, or time passes for all of them, by
    half a heartbeat. Faults happen within a heartbeat, after everybody has heard its designated broker. No two brokers
    may be designated in one epoch of a cluster; with --rivals they may, since the higher of (epoch, broker) prevails.
    At the end every cluster has one designated broker whom all follow, and the clusters are one tree.

    Exit status: 0 it holds, if only to the depth asked for; 1 it is violated; 3 it is undecided.

    Examples
    --------
      rayvous explore election
      rayvous explore election --brokers 4 --clusters 4
      rayvous explore election --crashes 2 --json
      rayvous explore election --restarts 1 --rivals
      rayvous explore election --schedule election-schedule.json
    """
    if schedule is not None:
        result = _replay(context, schedule, "election", as_json=as_json)
    else:
        setting = ElectionSetting(brokers, clusters, crashes, restarts, late, calm=calm, rivals=rivals)
        result = _search(setting, Bounds(depth, None, seconds), as_json=as_json)
    raise typer.Exit(STATUS.get(result["verdict"], 0))


Result: TypeAlias = dict[str, Any]


def _check_alone(context: typer.Context) -> None:
    """Refuse options beside --schedule, whose file has the whole setting."""
    given = [
        f"--{name}"
        for name in context.params
        if name not in ("schedule", "as_json")
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise InputError(
            f"a schedule contains its setting, and nothing is searched: leave out {' and '.join(given)}"
        )


def _system(setting: Settings) -> Any:  # the two share no types of states and actions
    """Return what is searched of a setting."""
    return CrashRecovery(setting) if isinstance(setting, Setting) else Election(setting)


def _search(setting: Settings, bounds: Bounds, *, as_json: bool) -> Result:
    """Search, print the result, and return it."""
    system = _system(setting)
    with console.steps() as steps:

        def show(found: Searched[Action]) -> None:
            depth = found.depth if bounds.depth is None else bounds.depth
            steps.show("depth", found.depth, depth + 1)

        found = search(system, bounds, clock=time.process_time, progress=None if as_json else show)
    result: Result = {
        "setting": asdict(setting),
        "states": found.states,
        "steps": found.steps,
        "depth": found.depth,
        "complete": found.complete,
        "ends": found.ended,
        "ends_decided": found.decided,
        "process_states": system.local[0],
        "cpu_seconds": round(found.seconds, 1),
        "states_per_second": round(found.states / found.seconds) if found.seconds else None,
        "violations": list(found.violations),
        "schedule": [list(action) for action in found.schedule],
        "verdict": found.outcome(bounds),
    }
    if isinstance(system, CrashRecovery):
        result["traces"] = system.traces_seen
    name = "crash" if isinstance(system, CrashRecovery) else "election"
    written = Path(f"{name}-schedule.json")
    result["schedule_file"] = str(written) if found.violations else None
    if found.violations:
        save(written, setting, found.schedule)
    if as_json:
        console.print_json(result)
        return result
    rows = {
        "states": f"{found.states:,}, of which the network ends in {found.ended:,}",
        "decided": f"something was due, and was judged, in {found.decided:,} of these ends",
        "steps": f"{found.steps:,}",
        "depth": f"{found.depth} actions, {'all states' if found.complete else 'not all states'}",
        "processor time": f"{found.seconds:.1f} s",
    }
    console.print_table(f"rayvous explore {name}", rows)
    if found.violations:
        _tell(_story(system, found.schedule), found.violations)
        again = f"replay: rayvous explore {name} --schedule {written}"
        console.out.print(again, markup=False, soft_wrap=True)
    console.out.print(f"verdict: {console.styled(result['verdict'])}")
    return result


def _story(system: CrashRecovery | Election, actions: list[Action]) -> list[str]:
    return story(system, actions) if isinstance(system, CrashRecovery) else plain_story(actions)


def _replay(context: typer.Context, schedule: Path, name: str, *, as_json: bool) -> Result:
    """Run a schedule, print what happens, and return the result."""
    _check_alone(context)
    setting, actions = load(schedule, name)
    system = _system(setting)
    lines, violations = _story(system, actions), judged(system, actions)
    result: Result = {
        "setting": asdict(setting),
        "story": lines,
        "violations": list(violations),
        "verdict": VIOLATED if violations else HOLDS,
    }
    if as_json:
        console.print_json(result)
        return result
    _tell(lines, violations)
    console.out.print(f"verdict: {console.styled(result['verdict'])}")
    return result


def _tell(lines: list[str], violations: tuple[str, ...]) -> None:
    for place, line in enumerate(lines, 1):
        console.out.print(f"  {place:3}  {line}", markup=False)
    for sentence in violations:
        console.out.print(f"  ! {sentence}", markup=False, soft_wrap=True)
