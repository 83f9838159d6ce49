"""The pictures of a report: the cluster tree with the load on its links, latency, load of the brokers.

Rules
-----
* Each function returns a new matplotlib ``Figure``; pyplot and its global state are never touched.
* Colours can be told apart by colour-blind readers; numbers are written out where there is room for them.
* No Spark here: what is drawn comes in as plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import networkx as nx
import numpy as np

from ..protocol.extras import extra
from .layout import Layout, layered_layout

with extra("plots"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter

ROLE_COLOURS: Final = {"REB": "#D55E00", "DEB": "#0072B2", "NEB": "#009E73"}
ROLE_NAMES: Final = {"REB": "root (REB)", "DEB": "designated (DEB)", "NEB": "member (NEB)"}
DPI: Final = 110
LATENCY_SECONDS_MIN: Final = 1e-6
"""Latencies are drawn on a logarithmic axis; what is shorter (clocks that differ) is drawn here."""

_LOAD_COLOURS: Final[Colormap] = LinearSegmentedColormap.from_list("load", ["#C9CED6", "#E3B23C", "#C1272D"])
_OTHER: Final = "#777777"


def save_png(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, over what is there; return the path."""
    FigureCanvasAgg(figure).print_png(str(path))
    return path


def short(number: float) -> str:
    """Write a count in at most five characters: ``950``, ``12.3k``, ``4.6M``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit * 0.9995:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def tree_figure(
    graph: nx.Graph,
    link_events: Mapping[tuple[int, int], int],
    group_events: Mapping[int, int],
    title: str = "Cluster tree: events over each link",
) -> Figure:
    """Draw the cluster tree; the more events went over a link, the wider and redder it is.

    Parameters
    ----------
    graph
        See :func:`~rayvous.pipelines.layout.layered_layout`; a node's ``label`` is written on it (its id
        without).
    link_events
        ``{(low, high): events both ways}`` of tree links; a link that is not there carried nothing.
    group_events
        ``{cluster: events multicast in it}``.
    """
    layout = layered_layout(graph)
    figure = Figure(figsize=_tree_size(layout), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title, fontsize=13, loc="left")
    # Rings and groups share the links' scale: a multicast is one transfer over one (group) link.
    norm = Normalize(0, max([1, *link_events.values(), *group_events.values()]))
    _draw_groups(axes, graph, layout, group_events, norm)
    _draw_links(axes, graph, layout, link_events, norm)
    _draw_brokers(axes, graph, layout, group_events)
    axes.set_xlim(-0.15, layout.width + 0.15)
    axes.set_ylim(-layout.height + 0.3, 0.6)
    bar = figure.colorbar(
        ScalarMappable(norm, _LOAD_COLOURS),
        ax=axes,
        location="bottom",
        shrink=min(0.5, 5 / figure.get_figwidth()),
        aspect=40,
        pad=0.01,
    )
    bar.set_label("events over the link, both ways; ⇉ multicast in the cluster")
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    present = {role for _, role in graph.nodes(data="role")}
    figure.legend(handles=_role_handles(present), loc="outside upper right", ncols=3, frameon=False)
    return figure


def _tree_size(layout: Layout) -> tuple[float, float]:
    inches = min(max(1.15, 7 / layout.width), 1.9, 56 / layout.width)
    return max(layout.width * inches + 0.5, 7.0), max(layout.height * inches + 1.6, 4.0)


def _draw_groups(
    axes: Any, graph: nx.Graph, layout: Layout, events: Mapping[int, int], norm: Normalize
) -> None:
    hubs = set(layout.hubs)
    lines, values = [], []
    for u, v, kind in graph.edges(data="kind"):
        if kind == "group" and (u in hubs) != (v in hubs):
            lines.append([layout.places[u], layout.places[v]])
            values.append(events.get(graph.nodes[u].get("cluster"), 0))
    axes.add_collection(_lines(lines, values, norm, widest=3.0, zorder=1))


def _draw_links(
    axes: Any, graph: nx.Graph, layout: Layout, events: Mapping[tuple[int, int], int], norm: Any
) -> None:
    lines, values = [], []
    for u, v, kind in sorted(graph.edges(data="kind"), key=lambda edge: (min(edge[:2]), max(edge[:2]))):
        if kind != "tree":
            continue
        upper, lower = sorted((layout.places[u], layout.places[v]), key=lambda place: -place[1])
        value = events.get((min(u, v), max(u, v)), 0)
        lines.append([upper, lower])
        values.append(value)
        share = 0.62  # nearer to the child, where siblings' links have parted
        axes.annotate(
            short(value),
            (upper[0] + share * (lower[0] - upper[0]), upper[1] + share * (lower[1] - upper[1])),
            ha="center",
            va="center",
            fontsize=8,
            zorder=5,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85},
        )
    axes.add_collection(_lines(lines, values, norm, widest=7.0, zorder=2))


def _lines(
    lines: list[Any], values: list[int], norm: Normalize, widest: float, zorder: int
) -> LineCollection:
    shares = np.asarray(values, dtype=float) / norm.vmax
    return LineCollection(
        lines,
        colors=_LOAD_COLOURS(shares),
        linewidths=1.0 + (widest - 1.0) * shares,
        zorder=zorder,
        capstyle="round",
    )


def _draw_brokers(axes: Any, graph: nx.Graph, layout: Layout, group_events: Mapping[int, int]) -> None:
    hubs = set(layout.hubs)
    members = [node for node in sorted(graph) if node not in hubs]
    for nodes, size, font, fits, order in ((members, 150, 6, 2.5, 3), (layout.hubs, 1150, 8, 4.5, 6)):
        places = np.array([layout.places[node] for node in nodes]).reshape(-1, 2)
        colours = [ROLE_COLOURS.get(graph.nodes[node].get("role", ""), _OTHER) for node in nodes]
        axes.scatter(
            places[:, 0], places[:, 1], s=size, c=colours, edgecolors="white", linewidths=1, zorder=order
        )
        for node, (x, y) in zip(nodes, places, strict=True):
            label = str(graph.nodes[node].get("label", node))
            small = font * min(1.0, fits / max(len(label), 1))
            group = group_events.get(graph.nodes[node].get("cluster")) if node in hubs else None
            style = {"ha": "center", "color": "white", "zorder": order + 1}
            axes.text(x, y, label, va="center" if group is None else "bottom", fontsize=small, **style)
            if group is not None:
                axes.text(x, y, f"⇉ {short(group)}", va="top", fontsize=6.5, **style)


def _role_handles(roles: set[str]) -> list[Line2D]:
    return [
        Line2D([], [], marker="o", linestyle="none", markersize=9, color=colour, label=ROLE_NAMES[role])
        for role, colour in ROLE_COLOURS.items()
        if role in roles
    ]


def latency_figure(
    probabilities: Sequence[float], latencies_seconds: Sequence[float], marks: Mapping[str, float]
) -> Figure:
    """Draw how latency is distributed: its histogram over its distribution function.

    Parameters
    ----------
    probabilities, latencies_seconds
        Points of the distribution function, both rising, of the same length (at least 2); from probability 0
        to 1.
    marks
        ``{name: latency in seconds}`` to draw as lines, such as p50 and p99.
    """
    latencies = np.maximum(np.asarray(latencies_seconds, dtype=float), LATENCY_SECONDS_MIN)
    shares = np.asarray(probabilities, dtype=float)
    figure = Figure(figsize=(9, 6.2), dpi=DPI, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    decades = math.log10(latencies[-1] / latencies[0]) if latencies[-1] > latencies[0] else 0.0
    pad = 10 ** max(0.05 * decades, 0.05)
    edges = np.geomspace(latencies[0] / pad, latencies[-1] * pad, 49)
    # The share below each edge; where latencies tie, the last point of the tie counts.
    below = shares[np.maximum(np.searchsorted(latencies, edges, side="right") - 1, 0)]
    within = (latencies[0] <= edges) & (edges <= latencies[-1])
    below = np.where(within, np.interp(edges, latencies, shares), below) * (edges >= latencies[0])
    upper.stairs(100 * np.diff(below), edges, fill=True, color="#56B4E9")
    upper.set_ylabel("notifications (%)")
    upper.set_title("Notification latency", fontsize=13, loc="left")
    lower.plot(
        [edges[0], latencies[0], *latencies, edges[-1]],
        [0, 0, *(100 * shares), 100],
        color="#0072B2",
        linewidth=2,
    )
    lower.set_ylabel("at most this late (%)")
    lower.set_xlabel("latency")
    lower.set_xscale("log")
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    for axes in (upper, lower):
        axes.grid(True, which="major", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    _draw_marks(upper, lower, marks)
    return figure


def _draw_marks(upper: Any, lower: Any, marks: Mapping[str, float]) -> None:
    colours = ("#009E73", "#D55E00", "#CC79A7", "#000000")
    for index, (name, value) in enumerate(marks.items()):
        at, colour = max(value, LATENCY_SECONDS_MIN), colours[index % len(colours)]
        upper.axvline(at, color=colour, linestyle="--", linewidth=1.4, label=f"{name} = {seconds(value)}")
        lower.axvline(at, color=colour, linestyle="--", linewidth=1.4)
    if marks:
        upper.legend(frameon=False)


def seconds(value: float) -> str:
    """Write a time with the unit that fits: ``250 µs``, ``12 ms``, ``1.5 s``."""
    for limit, unit in ((1.0, "s"), (1e-3, "ms")):
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def load_figure(labels: Sequence[str], roles: Sequence[str], loads: Sequence[int], note: str = "") -> Figure:
    """Draw the events that each broker handled, the busiest first.

    Parameters
    ----------
    labels, roles, loads
        One entry a broker, in any order.
    note
        A line under the title, such as the Gini coefficient.
    """
    order = sorted(range(len(loads)), key=lambda index: (-loads[index], index))
    values = np.array([loads[index] for index in order], dtype=float)
    figure = Figure(figsize=(min(max(7.0, 0.32 * len(loads) + 2), 14.0), 4.6), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    colours = [ROLE_COLOURS.get(roles[index], _OTHER) for index in order]
    many = len(loads) > 40
    axes.bar(np.arange(len(order)), values, width=1.0 if many else 0.8, color=colours)
    axes.set_title(f"Events per broker{': ' + note if note else ''}", fontsize=13, loc="left")
    axes.set_ylabel("events in + out + notifications")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set_xlim(-0.7, max(len(order), 1) - 0.3)
    if many:
        axes.set_xlabel(f"{len(order)} brokers, the busiest first")
        rare = [
            place for place, index in enumerate(order) if roles[index] != "NEB"
        ]  # too thin to be seen as bars
        axes.scatter(rare, values[rare], c=[colours[place] for place in rare], s=22, zorder=3)
    else:
        axes.set_xticks(np.arange(len(order)), [labels[index] for index in order], rotation=45, ha="right")
        for place, value in enumerate(values):
            axes.text(place, value, short(value), ha="center", va="bottom", fontsize=8, zorder=4)
    handles = _role_handles(set(roles))
    if len(order):
        axes.axhline(values.mean(), color="#444444", linestyle=":", linewidth=1.4, zorder=0.9)
        handles.append(Line2D([], [], color="#444444", linestyle=":", label=f"mean {short(values.mean())}"))
    axes.legend(handles=handles, frameon=False, loc="upper right")
    return figure
