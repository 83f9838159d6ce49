"""``rayvous compare``: one workload on several routing schemes, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from ...experiments import compare
from ...protocol.errors import InputError
from ...routing.schemes.registry import SCHEMES
from .. import console
from ..inputs import folder

Row = dict[str, Any]

COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "scheme": lambda row: row["scheme"],
    "sent": lambda row: f"{row['messages']:.2f}",
    "links": lambda row: f"{row['crossings']:.2f}",
    "/bound": lambda row: _number(row["over_bound"], "{:.2f}"),
    "bytes": lambda row: f"{row['bytes']:,.0f}",
    "hops": lambda row: _number(row["hops_mean"], "{:.2f}"),
    "ms": lambda row: _number(row["latency_mean_seconds"], "{:.1f}", 1000),
    "AED": lambda row: _number(row["aed_seconds"], "{:.1f}", 1000),
    "table": lambda row: f"{row['table_entries_mean']:.1f}",
    "subs": lambda row: f"{row['control_messages']:,}",
    "Gini": lambda row: f"{row['load_gini']:.2f}",
    "peak": lambda row: _number(row["load_max_over_mean"], "{:.1f}"),
    "heals": lambda row: _number(row["recovery_seconds"], "{:.1f}"),
}
LEGEND: Final = (
    "An event: sent = messages, links = links of the tree that they cross, /bound = links over the lower bound, bytes.",
    "A notification: hops, ms. A subscriber: AED = its time over its events, ms. A broker: table = entries, peak = the "
    "busiest one over the mean. subs = messages about subscriptions in all. heals = virtual seconds that the death of "
    "a broker is felt, a heartbeat a second; - for schemes that do not heal.",
)


def compare_schemes(
    schemes: str,
    on: str,
    clusters: int,
    brokers_per_cluster: int,
    workload: dict[str, Any],
    seed: int,
    out: Path | None,
    *,
    as_json: bool,
) -> dict[str, object]:
    """Compare schemes, print the table, draw the picture, and return the figures as a mapping.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    names = (
        list(SCHEMES) if schemes == "all" else [name.strip() for name in schemes.split(",") if name.strip()]
    )
    if not names:
        raise InputError(f"--schemes names none: give some of {', '.join(SCHEMES)}, or all")
    topology = compare.TOPOLOGY | {
        "clusters": clusters,
        "brokers_per_cluster": brokers_per_cluster,
        "seed": seed,
    }
    if clusters < 4:
        topology["shape"] = "plain"
    load = replace(compare.WORKLOAD, **workload)
    if out is not None:
        folder(out)
    result = compare.run(names, topology=topology, workload=load, seed=seed, on=on)
    if out is not None:
        result["picture"] = str(_draw(result, out))
    if as_json:
        console.print_json(result)
    else:
        _print(result)
    return result


def _draw(result: dict[str, object], out: Path) -> Path:
    from ...experiments.compare_figure import figure
    from ...pipelines.report.plots import save_png

    return save_png(figure(result), out / "compare.png")


def _print(result: dict[str, Any]) -> None:
    title = (
        f"{result['brokers']} brokers, {result['events']} events, {result['notifications']} notifications, "
        f"on {result['on']}"
    )
    rows = [[text(row) for text in COLUMNS.values()] for row in result["results"]]
    console.print_columns(title, list(COLUMNS), rows)
    links, multicast = f"{result['bound_links']:.2f}", f"{result['bound_multicast']:.2f}"
    for line in (
        f"Lower bound: {links} links (the Steiner tree), {multicast} with multicast.",
        *LEGEND,
    ):
        console.out.print(line, markup=False)
    for row in result["results"]:
        if row["verdict"] != "holds":
            console.out.print(f"{escape(row['scheme'])}: {console.styled(row['verdict'])}")
    if "picture" in result:
        console.out.print(f"picture: {result['picture']}", markup=False, soft_wrap=True)


def _number(value: float | None, text: str, scale: float = 1) -> str:
    return "-" if value is None else text.format(value * scale)
