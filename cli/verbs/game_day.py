"""``rayvous chaos --network``: a game day of a running network with its real clients."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...faults.checker.verdict import HOLDS, NOTHING_DUE, UNDECIDED
from ...protocol.errors import InputError
from .. import console
from ..interrupts import ends_interrupt, interrupts_set
from ..joined import ADDRESS_VARIABLE, joined

if TYPE_CHECKING:
    from ...actors.network.network import Network
    from ...faults.checker.conditions import Rule
    from ...faults.game_day.report import GameDayReport
    from ...faults.real.game_day import Probe

TOKEN_VARIABLE: Final = "RAYVOUS_TOKEN"
SHOWN_MAX: Final = 50
"""Faults of a dry run that are printed."""
UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:min|[smhd]))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(min|[smhd])")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)/(min|[smhd])")


_option = partial(typer.Option, rich_help_panel="Game day")


OnNetwork = Annotated[
    str | None,
    _option(
        "--network",
        help="Name of a running network: have a game day there, with its real clients, instead of a network that is "
        "drawn from a seed. See rayvous networks.",
    ),
]
For = Annotated[str, _option("--for", help="How long faults are caused, as 90s, 10m or 1h30m.")]
Kinds = Annotated[
    str | None,
    _option(
        help="Kinds of faults, separated by commas: kill, pause, slow, reset, cut, node \\[the first four]."
    ),
]
Rate = Annotated[
    str, _option(help="Mean number of faults in a time while the network is whole, as 1/min or 30/h.")
]
Spare = Annotated[
    list[str] | None,
    _option(help="root, or the number of a broker that is not harmed; may be repeated."),
]
NodeCommand = Annotated[
    str | None,
    _option(
        "--node-command",
        help="With --kinds node: the command that ends a machine; {node} in it is its name.",
    ),
]
Conditions = Annotated[
    list[str] | None,
    _option(
        "--condition",
        help="A condition of your own, as module:name: a Rule, or a function that returns what is wrong now, as "
        "sentences; may be repeated.",
    ),
]
DryRun = Annotated[bool, _option("--dry-run", help="Print which faults would be caused, and cause none.")]
Yes = Annotated[bool, _option("--yes", help="Do not ask before the first fault.")]
ReportFile = Annotated[
    Path | None, _option("--out", help="File for the report: a page if it ends in .html, else JSON.")
]
At = Annotated[
    str | None,
    _option("--address", envvar=ADDRESS_VARIABLE, help="Ray cluster \\[the one on this machine]."),
]

OPTIONS: Final = {
    "network", "for_", "kinds", "rate", "spare", "node_command", "condition", "dry_run", "yes",
    "report_file", "address",
}  # fmt: skip
"""The parameters of the verb that a game day has alone."""
SHARED: Final = {"seed", "as_json", "address"}
"""Those that it has in common with other runs of the verb, or that may come from the environment."""


def run_game_day(context: typer.Context) -> str | None:
    """Have the game day that the options of the verb ask for, and return its outcome; None if they ask for none.

    Raises
    ------
    InputError
        If an option is invalid, or goes with another kind of run, or the network can have no game day.
    """
    given, network = context.params, context.params["network"]
    _check_together(context)
    if network is None:
        return None
    wanted = {
        "seconds": seconds_of(given["for_"]),
        "per_minute": 60.0 * rate_of(given["rate"]),
        "spare": ",".join(given["spare"] or ()),
        "seed": given["seed"],
        "kinds": given["kinds"],
        "node_command": given["node_command"],
        "conditions": [_condition(name) for name in given["condition"] or ()],
    }
    dry_run, as_json, out = given["dry_run"], given["as_json"], given["report_file"]
    if out is not None and not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise InputError(f"--out {out}: there is no folder {out.parent} to write to")
    with joined(network, given["address"]) as net:
        from ...faults.real.game_day import game_day

        report = game_day(net, dry_run=True, **wanted)
        if not as_json:
            _print_plan(report)
        if not dry_run:
            stop, token = threading.Event(), os.environ.get(TOKEN_VARIABLE)
            _confirm(net, token, yes=given["yes"])
            with ends_interrupt(), interrupts_set(stop):
                report = game_day(net, token=token, stop=stop, progress=None if as_json else _say, **wanted)
    if as_json:
        console.print_json(report.to_dict() | {"dry_run": dry_run})
    elif not dry_run:
        _print(report)
    if out is not None:
        out.write_text(_written(report, page=out.suffix == ".html"), encoding="utf-8")
    return HOLDS if dry_run else report.outcome


def _written(report: GameDayReport, *, page: bool) -> str:
    from ...faults.game_day.page import page_of

    return page_of(report) if page else json.dumps(report.to_dict(), indent=1) + "\n"


def _check_together(context: typer.Context) -> None:
    """Check that the options that were given go with a game day, or all with another kind of run."""
    network = context.params["network"]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if (
            source is None
            or source.name != "COMMANDLINE"
            or name in SHARED
            or (name in OPTIONS) == bool(network)
        ):
            continue
        if network:
            raise InputError(
                f"{parameter.opts[0]} is for a network that is drawn from a seed, and --network {network} runs already"
            )
        raise InputError(
            f"{parameter.opts[0]} is for a game day of a running network: name it, with --network"
        )


def seconds_of(span: str) -> float:
    """Return the seconds of a time such as ``90s``, ``10m`` or ``1h30m``; InputError if it is none."""
    if not _SPAN.fullmatch(span):
        raise InputError(f"--for {span}: write a time, as 90s, 10m or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(span))


def rate_of(rate: str) -> float:
    """Return the faults per second of a rate such as ``1/min`` or ``30/h``; InputError if it is none."""
    found = _RATE.fullmatch(rate)
    if not found or not float(found[1]):
        raise InputError(f"--rate {rate}: write a number above 0 of faults in a time, as 1/min or 30/h")
    return float(found[1]) / UNITS[found[2]]


def _condition(name: str) -> Rule | Probe:
    """Return a condition of the user, by ``module:name``."""
    from ...faults.checker.conditions import Rule

    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute, None) if module and attribute else None
    except ImportError as error:
        raise InputError(
            f"--condition {name}: cannot import {module!r} ({error}); set PYTHONPATH to its folder"
        ) from None
    if isinstance(found, Rule) or callable(found):
        return found
    raise InputError(
        f"--condition {name}: write module:name of a Rule, or of a function that returns sentences"
    )


def _confirm(net: Network, token: str | None, *, yes: bool) -> None:
    """Ask before the first fault, but not somebody who may not have a game day."""
    from ...faults.game_day.terms import require_allowed

    directory = net.inspect.directory
    require_allowed(net.name, chaos=directory.chaos, access=directory.access, token=token)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(
            f"this breaks network {net.name!r} while its clients go on: add --yes, or --dry-run to only see"
        )
    console.err.print(f"Break network {net.name} while its clients go on? Type its name:", markup=False)
    if sys.stdin.readline().strip() != net.name:
        raise InputError("nothing was done")


def _say(now: float, what: str) -> None:
    console.out.print(f"  {now:8.1f} s  {what}", markup=False, soft_wrap=True)


def _print_plan(plan: GameDayReport) -> None:
    terms = plan.terms
    console.print_table(
        f"game day of {plan.network}",
        {f"{fault.at_seconds:.0f} s": str(fault.strike) for fault in plan.faults[:SHOWN_MAX]}
        or {"nothing": "its time is too short for a first fault: a longer --for, or a higher --rate"},
    )
    if len(plan.faults) > SHOWN_MAX:
        console.out.print(f"and {len(plan.faults) - SHOWN_MAX:,} more", markup=False)
    spares = ", ".join(map(str, sorted(terms.spare, key=str))) or "nobody"
    console.out.print(
        "This is as the network is now, if it heals at once: each fault waits until it is whole. "
        f"Kinds: {', '.join(terms.kinds)}. Spared: {spares}. A fault lasts {terms.lease_seconds[0]:g} to "
        f"{terms.lease_seconds[1]:g} s; the network has {terms.heal_seconds:g} s to heal from it.",
        markup=False,
    )


def _print(report: GameDayReport) -> None:
    verdict = report.verdict
    rows: dict[str, object] = {"ended": report.reason, "faults": len(report.faults)}
    for kind, seconds in report.by_kind().items():
        rows[f"  whole after {kind}"] = (
            f"{median(seconds):.1f} s (median of {len(seconds)}, longest {max(seconds):.1f} s)"
        )
    rows |= {
        "canary: events published": verdict.events_published,
        "canary: due by its last check": verdict.notifications_expected,
        "canary: delivered by the end": verdict.notifications_delivered,
    }
    rows |= console.conditions(verdict)
    for problem in report.problems:
        console.out.print(f"  ! {problem}", markup=False)
    console.print_violations(verdict)
    console.print_table(f"game day of {report.network}", rows)
    for broker in report.left_dead:
        console.out.print(f"still dead: rayvous restart {report.network} {broker}", markup=False)
    if report.outcome == UNDECIDED:
        why = NOTHING_DUE if report.ends_whole else "The network was not whole at the end."
        console.out.print(why if report.faults else "No fault was caused.", markup=False)
    console.out.print(f"verdict: {console.styled(report.outcome)}")
