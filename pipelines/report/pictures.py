"""The pictures of a report: which aggregate is drawn, and into which file.

Rules
-----
* An empty picture is not drawn, and has no path.
* The input is pandas frames, as in a report; no Spark is used here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import networkx as nx

from ...actors.pictures.tree import tree_figure
from ...protocol.extras import extra
from . import plots

with extra("spark"):
    import pandas as pd

Draw = Callable[..., Any]
"""Draws a picture, on the given sheet or on its own."""

PICTURES: Final = ("rate", "tree", "load", "latency")
"""Every picture that a report can hold; its file has the same name, with ``.png``."""

MARKED: Final = ("killed", "cut", "healed")
"""A timeline entry that begins with one of these words is marked in the picture of the rates."""


def draw_pictures(
    folder: Path, figures: Mapping[str, pd.DataFrame], graph: nx.Graph, summary: Mapping[str, object]
) -> dict[str, Path]:
    """Draw the available pictures; return ``{picture: path}``.

    Parameters
    ----------
    folder
        An existing folder for the files.
    figures
        ``{aggregate: pandas.DataFrame}``, see :mod:`~rayvous.pipelines.figures.aggregates`.
    graph
        The network; see :func:`~rayvous.actors.pictures.tree.tree_figure`.
    summary
        The summary of the run; its ``started_at`` (seconds since 1970) and ``timeline`` are used if present.
    """
    drawn = drawings(figures, graph, summary)
    return {name: plots.save_png(draw(), folder / f"{name}.png") for name, draw in drawn.items()}


def drawings(
    figures: Mapping[str, pd.DataFrame], graph: nx.Graph, summary: Mapping[str, object]
) -> dict[str, Draw]:
    """Return a drawing function for each picture that is not empty, by name; each takes a sheet, or makes a picture.

    The parameters are those of `draw_pictures`.
    """
    found = {
        "rate": _rate(figures, graph, summary),
        "tree": _tree(figures, graph),
        "load": _load(figures, graph),
        "latency": _latency(figures),
    }
    return {name: draw for name, draw in found.items() if draw is not None}


def named(text: str, graph: nx.Graph) -> str:
    """Return a timeline entry with labels added to the ids of brokers."""

    def with_label(found: re.Match[str]) -> str:
        node = int(found[0])
        label = graph.nodes[node].get("label") if node in graph else None
        return found[0] if label is None else f"{found[0]} ({label})"

    return re.sub(r"\bbrokers? \d+(, \d+)*", lambda found: re.sub(r"\d+", with_label, found[0]), text)


def marks_of(timeline: Sequence[Mapping[str, Any]], graph: nx.Graph) -> list[tuple[float, str]]:
    """Return the timeline entries that a picture marks: when, and what happened in a few words."""
    return [
        (float(moment["seconds"]), named(str(moment["what"]).partition(":")[0], graph))
        for moment in timeline
        if str(moment["what"]).startswith(MARKED)
    ]


def _rate(figures: Mapping[str, pd.DataFrame], graph: nx.Graph, summary: Mapping[str, Any]) -> Draw | None:
    rates = figures.get("rate_over_time")
    if rates is None or not len(rates):
        return None
    began = summary.get("started_at")
    start = float(rates["time_seconds"].iloc[0]) if began is None else float(began)
    return partial(
        plots.rate_figure,
        [float(at) - start for at in rates["time_seconds"]],
        float(rates["bin_seconds"].iloc[0]),
        list(rates["events_per_second"]),
        list(rates["notifications_per_second"]),
        # Without the start time, the timeline cannot be placed on the axis.
        [] if began is None else marks_of(summary.get("timeline", ()), graph),
    )


def _tree(figures: Mapping[str, pd.DataFrame], graph: nx.Graph) -> Draw | None:
    if not graph.number_of_nodes():
        return None
    links = figures["link_load"]
    tree, groups = links[links["kind"] == "tree"], links[links["kind"] == "group"]
    ends = zip(tree["low"].astype(int), tree["high"].astype(int), strict=True)
    link_events = dict(zip(ends, tree["events"].astype(int), strict=True))
    group_events = dict(zip(groups["cluster"].astype(int), groups["events"].astype(int), strict=True))
    return partial(tree_figure, graph, link_events, group_events)


def _load(figures: Mapping[str, pd.DataFrame], graph: nx.Graph) -> Draw | None:
    loads = figures["broker_load"]
    if not len(loads):
        return None
    nodes = [int(broker) for broker in loads["broker"]]
    known = {node: dict(graph.nodes[node]) if node in graph else {} for node in nodes}
    return partial(
        plots.load_figure,
        [str(known[node].get("label", node)) for node in nodes],
        [str(known[node].get("role", "")) for node in nodes],
        [int(load) for load in loads["load"]],
        _balance(figures["load_balance"]),
        [bool(known[node].get("dead")) for node in nodes],
    )


def _balance(balance: pd.DataFrame) -> str:
    row = balance.iloc[0]
    if pd.isna(row["gini"]):
        return ""
    return f"max/mean {row['max_over_mean']:.2f}, Gini {row['gini']:.2f}"


def _latency(figures: Mapping[str, pd.DataFrame]) -> Draw | None:
    quantiles = figures.get("latency_quantiles")
    if quantiles is None or not len(quantiles):
        return None
    row = figures["latency_percentiles"].iloc[0]
    marks = {f"{name} at brokers": float(row[f"{name}_seconds"]) for name in ("p50", "p99")}
    return partial(
        plots.latency_figure,
        list(quantiles["probability"]),
        list(quantiles["latency_seconds"]),
        marks,
    )
