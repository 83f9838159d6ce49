"""The places of brokers in a picture: a cluster tree in layers from the root down, a hypercube on a circle.

Rules
-----
* Pure and deterministic: the same graph gives the same places, whatever the order of its nodes.
* A parent is centred over its children. Subtrees do not overlap. Siblings are ordered by id, left to right.
* Leaves of one parent are placed in several rows, so that a wide tree stays readable.
* A broker that is not in the tree (an NEB, or a dead one) is on the ring around its cluster's designated broker. If
  all brokers of a cluster are dead, the formerly designated one is placed below its former parent.
* In a hypercube no broker is above another. All brokers, dead ones included, are on one circle, ordered by id, with
  room between neighbours.
* A layout can be turned, so that it grows to the right instead of down. Wide trees then fit a page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx

from .graph import CUBE

LEAVES_A_ROW: Final = 3
"""The default number of leaf children of one parent per row."""

ROW_GAP: Final = 1.0
LAYER_GAP: Final = 1.35
RING_RADIUS: Final = 0.34
_SIDE_DEGREES: Final = 62.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in units of one cluster's width; y falls from the root (0) down.

    Attributes
    ----------
    places
        ``{broker: (x, y)}`` for every node of the graph.
    hubs
        Brokers of the tree, root first; all brokers of a hypercube.
    root
        The hub at the top; ``None`` in an empty graph, and in a hypercube.
    width, height
        The size of the box that holds all places and rings.
    """

    places: dict[int, tuple[float, float]]
    hubs: tuple[int, ...]
    root: int | None
    width: float
    height: float

    def turned(self) -> Layout:
        """Return the layout with the root on the left; what increased in x now decreases in y."""
        places = {broker: (-y, -x) for broker, (x, y) in self.places.items()}
        return Layout(places, self.hubs, self.root, self.height, self.width)


def layout_of(graph: nx.Graph, leaves_a_row: int = LEAVES_A_ROW) -> Layout:
    """Place the brokers of a network, by the kind of its links; the parameters are those of `layered_layout`."""
    if any(kind == CUBE for _, _, kind in graph.edges(data="kind")):
        return circle_layout(graph)
    return layered_layout(graph, leaves_a_row)


def circle_layout(graph: nx.Graph) -> Layout:
    """Place all brokers on a circle, by id from the top on, one unit between neighbours."""
    brokers = tuple(sorted(graph))
    step = 2 * math.pi / max(len(brokers), 1)
    radius = 0.5 / math.sin(step / 2) if len(brokers) > 1 else 0.0
    places = {
        broker: (radius * math.sin(step * turn), radius * math.cos(step * turn))
        for turn, broker in enumerate(brokers)
    }
    return Layout(places, brokers, None, 2 * radius + 1.0, 2 * radius + 1.0)


def layered_layout(graph: nx.Graph, leaves_a_row: int = LEAVES_A_ROW) -> Layout:
    """Place the brokers of a cluster tree.

    Parameters
    ----------
    graph
        Nodes are broker ids with ``role`` (``"REB"``, ``"DEB"`` or ``"NEB"``) and ``cluster``; dead ones also have
        the attributes that :func:`~rayvous.actors.pictures.dead.with_dead` sets. Edges have ``kind`` (``"tree"`` or
        ``"group"``; other kinds do not affect the layout). A forest is drawn side by side; an edge that closes a
        cycle does not affect the layout.
    leaves_a_row
        The number of leaf children of one parent per row; at least 1.
    """
    hubs = _hubs(graph)
    tree = nx.Graph()
    tree.add_nodes_from(hubs)
    tree.add_edges_from((u, v) for u, v, kind in graph.edges(data="kind") if kind == "tree")
    above = {hub: graph.nodes[hub].get("stood_below") for hub in hubs if graph.nodes[hub].get("dead")}
    tree.add_edges_from((hub, parent) for hub, parent in above.items() if parent in tree)
    roots = _roots(graph, tree)
    children = _children(tree, roots)
    places: dict[int, tuple[float, float]] = {}
    right = 0.0
    for root in roots:
        right += _place(root, children, right, 0.0, places, leaves_a_row)
    _place_rings(graph, places)
    depth = -min((y for _, y in places.values()), default=0.0)
    order = tuple(sorted(hubs, key=lambda hub: (-places[hub][1], places[hub][0])))
    return Layout(places, order, roots[0] if roots else None, max(right, 1.0), depth + 1.0)


def _hubs(graph: nx.Graph) -> list[int]:
    in_tree = {node for u, v, kind in graph.edges(data="kind") if kind == "tree" for node in (u, v)}
    speakers = [node for node, role in graph.nodes(data="role") if node in in_tree or role != "NEB"]
    living = {node for node in speakers if not graph.nodes[node].get("dead")}
    spoken_for = {graph.nodes[node].get("cluster") for node in living}
    return sorted(
        node for node in speakers if node in living or graph.nodes[node].get("cluster") not in spoken_for
    )


def _roots(graph: nx.Graph, tree: nx.Graph) -> list[int]:
    def rank(node: int) -> tuple[bool, int]:
        return graph.nodes[node].get("role") != "REB", node

    return sorted((min(component, key=rank) for component in nx.connected_components(tree)), key=rank)


def _children(tree: nx.Graph, roots: list[int]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {node: [] for node in tree}
    for root in roots:
        for parent, child in nx.bfs_edges(tree, root, sort_neighbors=sorted):
            children[parent].append(child)
    return children


def _place(
    node: int,
    children: dict[int, list[int]],
    left: float,
    y: float,
    places: dict[int, Any],
    leaves_a_row: int,
) -> float:
    """Place a subtree with its left side at `left`; return its width. Recursion is as deep as the tree."""
    inner = [child for child in children[node] if children[child]]
    leaves = [child for child in children[node] if not children[child]]
    width = 0.0
    for child in inner:
        width += _place(child, children, left + width, y - LAYER_GAP, places, leaves_a_row)
    for start in range(0, len(leaves), leaves_a_row):
        row = leaves[start : start + leaves_a_row]
        # Every other row is shifted by half a step: its links pass between the leaves above.
        shift = 0.5 * ((start // leaves_a_row) % 2)
        for column, leaf in enumerate(row):
            down = LAYER_GAP + ROW_GAP * (start // leaves_a_row)
            places[leaf] = (left + width + column + 0.5 + shift, y - down)
    block = min(len(leaves), leaves_a_row) + (0.5 if len(leaves) > leaves_a_row else 0.0)
    width = max(width + block, 1.0)
    across = [places[child][0] for child in children[node]]
    places[node] = ((min(across) + max(across)) / 2 if across else left + 0.5, y)
    return width


def _place_rings(graph: nx.Graph, places: dict[int, Any]) -> None:
    hub_of = {graph.nodes[hub].get("cluster"): hub for hub in sorted(places, reverse=True)}
    rings: dict[int | None, list[int]] = {}
    for node in sorted(set(graph) - set(places)):
        rings.setdefault(hub_of.get(graph.nodes[node].get("cluster")), []).append(node)
    for hub, members in rings.items():
        # A cluster without a designated broker is placed in the corner under the root.
        x, y = places[hub] if hub is not None else (0.5, -LAYER_GAP)
        for member, angle in zip(members, ring_angles(len(members)), strict=True):
            places[member] = (x + RING_RADIUS * math.cos(angle), y + RING_RADIUS * math.sin(angle))


def ring_angles(count: int) -> list[float]:
    """Return `count` angles (radians) on both sides of a circle; top and bottom stay free for links."""
    right = (count + 1) // 2
    angles: list[float] = []
    for many, middle in ((right, 0.0), (count - right, 180.0)):
        step = 2 * _SIDE_DEGREES / max(many - 1, 1)
        spread = [middle + (index - (many - 1) / 2) * min(step, 36.0) for index in range(many)]
        angles += [math.radians(angle) for angle in spread]
    return angles


def ring_width(count: int, apart: float) -> float:
    """Return how wide a unit must be drawn so that two neighbours of `count` members on a ring are this far apart."""
    angles = ring_angles(count)
    return apart / (2 * RING_RADIUS * math.sin((angles[1] - angles[0]) / 2)) if count > 2 else 0.0
