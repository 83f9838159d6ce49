"""The size of the picture of a cluster tree: the labels of its brokers, and the layout that fits a page.

Rules
-----
* Distances follow from the labels: no label is made smaller to fit.
* A picture wider than a page grows to the right instead of down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx
import numpy as np

from .layout import RING_RADIUS, Layout, layout_of, ring_angles
from .style import PAGE_INCHES, cut, short

LABEL_POINTS: Final = 8.0
HUB_POINTS: Final = 9.0
NAMED_BROKERS_MAX: Final = 150
"""In larger networks members are dots."""

_LAYOUTS: Final = ((False, 3), (True, 3), (False, 2), (True, 2), (False, 1), (True, 1))
"""Grown to the right or not, and leaves in a row: the earlier, the better to read if it fits."""

_INCHES_MAX: Final = 60.0
TOP_INCHES: Final = 0.78
BOTTOM_INCHES: Final = 0.72
SIDE_INCHES: Final = 0.15
_WIDTH_INCHES_MIN: Final = 6.2

Box = tuple[float, float, float, float]
"""The middle of a rectangle (x, y), half its width and half its height."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The labels of brokers, and the resulting sizes of brokers in points."""

    texts: Mapping[int, str]
    hub: tuple[float, float]
    member: tuple[float, float]
    named: bool

    @property
    def remark(self) -> str:
        """What to append to the title."""
        return "" if self.named else " (members: dots)"


def sizes_of(graph: nx.Graph, group_events: Mapping[int, int]) -> Sizes:
    """Return the label of each broker: its name, a dagger if dead, and the events multicast in its cluster."""
    hubs = set(layout_of(graph).hubs)
    named = graph.number_of_nodes() <= NAMED_BROKERS_MAX
    texts: dict[int, str] = {}
    for node, data in graph.nodes(data=True):
        label = cut(str(data.get("label", node))) + (" †" if data.get("dead") else "")
        group = group_events.get(data.get("cluster")) if node in hubs and not data.get("dead") else None
        texts[node] = label if group is None else f"{label}\n⇉ {short(group)}"
    widest = max((_width(texts[node], HUB_POINTS) for node in hubs), default=10.0)
    members = [_width(text, LABEL_POINTS) for node, text in texts.items() if node not in hubs]
    member = (max(members, default=10.0) + 8, LABEL_POINTS + 8) if named else (9.0, 9.0)
    return Sizes(texts, (widest + 12, 2 * HUB_POINTS + 14), member, named)


def _width(text: str, points: float) -> float:
    return max(len(line) for line in text.splitlines() or [""]) * points * 0.68


def fit(graph: nx.Graph, sizes: Sizes) -> tuple[Layout, float]:
    """Return the layout that fits a page best, and the size of its unit in inches."""
    clusters: dict[Any, int] = {}
    for _, cluster in graph.nodes(data="cluster"):
        clusters[cluster] = clusters.get(cluster, 0) + 1
    members = max(clusters.values(), default=1) - 1
    options = []
    for place, (turned, leaves_a_row) in enumerate(_LAYOUTS):
        layout = layout_of(graph, leaves_a_row)
        layout = layout.turned() if turned else layout
        inches = _unit_inches(members, sizes, turned)
        inches = min(inches, _INCHES_MAX / layout.width, _INCHES_MAX / layout.height)
        too_wide = max(layout.width * inches - PAGE_INCHES, 0.0)
        too_high = max(layout.height * inches - PAGE_INCHES, 0.0)
        options.append((10 * too_wide + too_high + place, layout, inches))
    _, layout, inches = min(options, key=lambda option: option[0])
    return layout, inches


def _unit_inches(members: int, sizes: Sizes, turned: bool) -> float:
    """Return the least size of a unit at which the members of a ring touch neither the hub nor each other."""
    along, across = (1, 0) if turned else (0, 1)  # along: from the hub outwards; across: around the ring
    radius = sizes.hub[along] / 2 + 10 + sizes.member[along] / 2 if members else 0.0
    angles = ring_angles(members)
    if members > 2:
        step = abs(angles[1] - angles[0])
        radius = max(radius, (sizes.member[across] + 4) / (2 * np.sin(step / 2)))
    alone = (max(sizes.hub) + 12) / 72
    reach = 2 * (radius + sizes.member[across] / 2) / 72 if turned else 0.0
    return float(max(radius / RING_RADIUS / 72, alone, reach))


def boxes_of(layout: Layout, inches: float, sizes: Sizes) -> Iterator[Box]:
    """Yield the rectangle of each broker, in the layout's units."""
    hubs = set(layout.hubs)
    for node, (x, y) in layout.places.items():
        width, height = sizes.hub if node in hubs else sizes.member
        yield x, y, width / 144 / inches, height / 144 / inches


@dataclass(frozen=True, slots=True)
class Canvas:
    """The picture in inches: the area of the layout, the title above it and the scale below.

    `left`, `right`, `bottom` and `top` are in the layout's units.
    """

    left: float
    right: float
    bottom: float
    top: float
    figure_width: float
    figure_height: float

    @classmethod
    def around(cls, layout: Layout, inches: float, sizes: Sizes) -> Canvas:
        """Return the canvas for a layout whose unit is this many inches."""
        boxes = list(boxes_of(layout, inches, sizes)) or [(0.0, 0.0, 0.5, 0.5)]
        left, right = min(x - w for x, _, w, _ in boxes), max(x + w for x, _, w, _ in boxes)
        bottom, top = min(y - h for _, y, _, h in boxes), max(y + h for _, y, _, h in boxes)
        width = (right - left) * inches + 2 * SIDE_INCHES
        spare = max(_WIDTH_INCHES_MIN - width, 0.0) / inches
        height = (top - bottom) * inches + TOP_INCHES + BOTTOM_INCHES
        return cls(left, right + spare, bottom, top, width + spare * inches, height)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return a place, given in inches from the lower left, as a share of the figure."""
        return x / self.figure_width, y / self.figure_height

    def axes(self) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of the axes, as shares of the figure."""
        left, bottom = self.at(SIDE_INCHES, BOTTOM_INCHES)
        width, height = self.at(
            self.figure_width - 2 * SIDE_INCHES, self.figure_height - TOP_INCHES - BOTTOM_INCHES
        )
        return left, bottom, width, height
