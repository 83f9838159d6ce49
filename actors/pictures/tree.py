"""The picture of a network: the places of brokers in its tree or cube, and the number of events over each link.

Rules
-----
* Every label is at least 8 points high at the size at which the picture is meant to be shown (`Figure`'s inches),
  and fits its broker: the distances follow from the labels, not the other way round.
* A tree that is too wide for a page grows to the right instead of down. In a network of hundreds of brokers members
  are dots without names, and the title says so.
* A dead broker is grey with a dashed edge and a dagger; its former links are dashed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx
import numpy as np

from ...protocol.extras import extra
from .graph import CUBE
from .layout import Layout
from .picture import Picture, Sheet
from .style import DEAD_COLOUR, OTHER_COLOUR, ROLE_COLOURS, role_handles, short
from .tree_size import HUB_POINTS, LABEL_POINTS, SIDE_INCHES, Box, Canvas, Sizes, boxes_of, fit, sizes_of

with extra("plots"):
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
    from matplotlib.ticker import FuncFormatter, MaxNLocator

_LOAD_COLOURS: Final[Colormap] = LinearSegmentedColormap.from_list("load", ["#C9CED6", "#E3B23C", "#C1272D"])
_NUMBER_SHARES: Final = (0.62, 0.55, 0.68, 0.48, 0.74, 0.4, 0.8, 0.32)
"""Positions of a link's number, from the parent (0) to the child (1), where the links of siblings are apart."""


def tree_figure(
    graph: nx.Graph,
    link_events: Mapping[tuple[int, int], int],
    group_events: Mapping[int, int],
    title: str = "Cluster tree: events over each link",
    sheet: Sheet = Picture.of,
) -> Any:
    """Draw the cluster tree, or the cube; the more events a link carried, the wider and redder it is.

    Parameters
    ----------
    graph
        See :func:`~rayvous.actors.pictures.layout.layered_layout`. A node is labelled with its ``label``, or its id
        if it has none, and with a dagger if it is ``dead``. Edges of the kind ``"former"`` are drawn if they
        carried events.
    link_events
        ``{(low, high): events both ways}`` of tree links; a missing link carried nothing.
    group_events
        ``{cluster: events multicast in it}``.
    title
        The title, at the top.
    sheet
        What to draw on; by default a picture of its own.
    """
    sizes = sizes_of(graph, group_events)
    layout, inches = fit(graph, sizes)
    box = Canvas.around(layout, inches, sizes)
    figure = sheet(box.figure_width, box.figure_height)
    axes = figure.add_axes(box.axes())
    axes.set_axis_off()
    axes.set_xlim(box.left, box.right)
    axes.set_ylim(box.bottom, box.top)
    figure.text(*box.at(SIDE_INCHES, box.figure_height - 0.12), title + sizes.remark, fontsize=13, va="top")
    # Rings and groups share the links' scale: a multicast is one transfer over one (group) link.
    norm = Normalize(0, max([1, *link_events.values(), *group_events.values()]))
    _draw_groups(axes, graph, layout, group_events, norm)
    _draw_links(axes, graph, layout, link_events, norm, _Room.around(layout, inches, sizes))
    _draw_brokers(axes, graph, layout, sizes)
    _draw_scale(figure, box, norm)
    roles = [role for _, role in graph.nodes(data="role")]
    dead = any(dead for _, dead in graph.nodes(data="dead"))
    figure.legend(
        handles=role_handles(roles, dead=dead),
        loc="upper left",
        bbox_to_anchor=box.at(SIDE_INCHES - 0.1, box.figure_height - 0.38),
        ncols=4,
        frameon=False,
        fontsize=9,
        borderaxespad=0,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    return figure


def _draw_scale(figure: Any, box: Canvas, norm: Normalize) -> None:
    width, height = box.at(min(4.2, box.figure_width - 1), 0.12)
    scale = figure.add_axes((*box.at(SIDE_INCHES + 0.1, 0.44), width, height))
    bar = figure.colorbar(ScalarMappable(norm, _LOAD_COLOURS), cax=scale, orientation="horizontal")
    bar.outline.set_visible(False)
    scale.tick_params(labelsize=8, length=2, pad=2)
    scale.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))  # event counts are integers
    scale.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    figure.text(
        *box.at(SIDE_INCHES + 0.1, 0.1),
        "events over the link, both ways (⇉ multicast in the cluster)",
        fontsize=9,
        va="bottom",
    )


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
    axes: Any,
    graph: nx.Graph,
    layout: Layout,
    events: Mapping[tuple[int, int], int],
    norm: Normalize,
    room: _Room,
) -> None:
    """Draw each link of the tree, or of the cube, with its number in a free place."""
    edges = sorted(graph.edges(data="kind"), key=lambda edge: (min(edge[:2]), max(edge[:2])))
    rank = {hub: place for place, hub in enumerate(layout.hubs)}  # parents before children
    for wanted, style in ((("former",), (0, (2, 1.5))), (("tree", CUBE), "solid")):
        lines, values = [], []
        for u, v, kind in edges:
            value = events.get((min(u, v), max(u, v)), 0)
            if kind not in wanted or (kind == "former" and not value):
                continue
            ends = sorted((u, v), key=lambda node: rank.get(node, len(rank)))
            upper, lower = (layout.places[node] for node in ends)
            lines.append([upper, lower])
            values.append(value)
            _write_number(axes, room.on_link(upper, lower), value)
        drawn = _lines(lines, values, norm, widest=7.0, zorder=2)
        drawn.set_linestyle(style)
        if style != "solid":
            drawn.set_capstyle("butt")
        axes.add_collection(drawn)


@dataclass(frozen=True, slots=True)
class _Room:
    """The free room for numbers: not on a broker or another number.

    Attributes
    ----------
    taken
        The occupied rectangles.
    half_width, half_height
        Those of a number.
    """

    taken: list[Box]
    half_width: float
    half_height: float

    @classmethod
    def around(cls, layout: Layout, inches: float, sizes: Sizes) -> _Room:
        return cls(list(boxes_of(layout, inches, sizes)), 17 / 72 / inches, 7 / 72 / inches)

    def on_link(self, upper: tuple[float, float], lower: tuple[float, float]) -> tuple[float, float]:
        """Return a free place for a number from the parent to the child; near the child if there is none."""
        places = [
            (
                upper[0] + share * (lower[0] - upper[0]),
                upper[1] + share * (lower[1] - upper[1]),
                self.half_width,
                self.half_height,
            )
            for share in _NUMBER_SHARES
        ]
        free = (place for place in places if not any(_overlap(place, box) for box in self.taken))
        chosen = next(free, places[0])
        self.taken.append(chosen)
        return chosen[:2]


def _overlap(one: Box, other: Box) -> bool:
    return abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < one[3] + other[3]


def _write_number(axes: Any, place: tuple[float, float], value: int) -> None:
    axes.annotate(
        short(value),
        place,
        ha="center",
        va="center",
        fontsize=9,
        zorder=2.5,
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.9},
    )


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


def _draw_brokers(axes: Any, graph: nx.Graph, layout: Layout, sizes: Sizes) -> None:
    hubs = set(layout.hubs)
    for node in sorted(graph):
        data, (x, y), hub = graph.nodes[node], layout.places[node], node in hubs
        colour = DEAD_COLOUR if data.get("dead") else ROLE_COLOURS.get(data.get("role", ""), OTHER_COLOUR)
        edge = {"edgecolor": "#333333", "linestyle": (0, (2, 1.5))} if data.get("dead") else {}
        if not hub and not sizes.named:
            axes.scatter([x], [y], s=sizes.member[0] ** 2 * 0.8, c=[colour], zorder=3)
            continue
        axes.text(
            x,
            y,
            sizes.texts[node],
            ha="center",
            va="center",
            multialignment="center",
            color="white",
            fontsize=HUB_POINTS if hub else LABEL_POINTS,
            fontweight="bold",
            zorder=6 if hub else 4,
            bbox={"boxstyle": f"round,pad={0.5 if hub else 0.35}", "facecolor": colour, "edgecolor": "white"}
            | edge,
        )
