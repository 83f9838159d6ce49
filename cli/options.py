"""Options that several verbs share, and the bounds of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..protocol.errors import InputError
from ..protocol.node_places import NodePlace


def at_most(high: int) -> Callable[[typer.CallbackParam, Any], Any]:
    """Return a callback that rejects a number, or a list with a number, above `high`: it would take forever."""

    def check(option: typer.CallbackParam, given: Any) -> Any:
        for number in given if isinstance(given, list | tuple) else [given]:
            if number is not None and number > high:
                raise InputError(f"{option.opts[0]} {number}: it must be at most {high:,}")
        return given

    return check


AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on standard output and everything else on standard error."
    ),
]
Hosts = Annotated[
    int | None,
    typer.Option(
        callback=at_most(20),
        help="With --on ray: place brokers on this many network namespaces and break their links; needs root.",
    ),
]
Links = Annotated[
    str | None,
    typer.Option(
        help="On ray, how bytes go between processes: over connections of their own ('direct'), or by calls of Ray "
        "('ray')."
    ),
]
TraceDir = Annotated[
    Path | None,
    typer.Option(help="Folder for the trace of every event, for rayvous audit; created if missing."),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        help="Run only on Ray nodes with this label, KEY=VALUE; may be repeated. VALUE may be '!x', 'in(x, y)', "
        "'!in(x, y)'.",
    ),
]
Resources = Annotated[
    list[str] | None,
    typer.Option(
        "--resource", help="Take so much of a custom resource of the node, NAME=AMOUNT; may be repeated."
    ),
]
Cpus = Annotated[float | None, typer.Option("--num-cpus", help="Take so many CPUs of the node.")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        help="Types of columns, as NAME=TYPE,...: boolean, integer, float, string or timestamp; may be repeated."
    ),
]


def node_place(labels: list[str] | None, resources: list[str] | None, cpus: float | None) -> NodePlace | None:
    """Return the place that ``--label``, ``--resource`` and ``--num-cpus`` describe; None if none of them is given."""
    if not labels and not resources and cpus is None:
        return None
    wanted = dict(_pair("--label", "KEY=VALUE, for example pool=brokers", each) for each in labels or ())
    taken = dict[str, float]()
    for each in resources or ():
        name, amount = _pair("--resource", "NAME=AMOUNT, for example broker=1", each)
        try:
            taken[name] = float(amount)
        except ValueError:
            raise InputError(f"--resource {each}: {amount!r} is no number") from None
    return NodePlace(wanted, taken, cpus or 0.0).validate()


def _pair(option: str, how: str, given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {given}: write {how}")
    return name.strip(), value.strip()


def column_types(given: list[str] | None) -> dict[str, str]:
    """Return the types of ``--types`` by column; InputError if one has no type, or a column has two."""
    types: dict[str, str] = {}
    for pair in ",".join(given or ()).split(","):
        name, equals, word = pair.strip().rpartition("=")
        if not pair.strip():
            continue
        if not equals or not name:
            raise InputError(f"--types {pair}: write NAME=TYPE, for example zip=string")
        if types.setdefault(name, word) != word:
            raise InputError(f"--types: column {name!r} has two types, {types[name]} and {word}")
    return types
