"""Placement of brokers: on which nodes of the Ray cluster they run, and which share an actor.

Rules
-----
* Members of a cluster run on different nodes, as far as there are nodes. The death of one node then never takes
  a whole cluster, and the remaining members elect (paper 1, 4.1.1). Members have consecutive numbers, so
  brokers take the nodes in turn. A broker that joins later takes a node with the fewest members of its cluster.
* Brokers that share an actor run on one node, and are consecutive there.
* A place says what a node must have. Of the nodes that have it those with CPUs are taken, if there are any, and of
  these those without GPUs, if there are any.
* The rendezvous point of a network that outlives its launcher does not run on the launcher's node, if there is
  another.

Pure: nodes are names.

Source: docs/decisions/0093-members-on-different-nodes.md, docs/decisions/0175-places-on-nodes.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.node_places import AMOUNT_MIN, WANTED, NodePlace

Node: TypeAlias = Mapping[str, Any]
"""A node as `ray.nodes` returns it."""

_HEAD: Final = "node:__internal_head__"
"""A resource that Ray gives to the head node."""
NODE_ID: Final = "ray.io/node-id"
"""A label that Ray gives to every node: its id."""
SHOWN_MAX: Final = 10
"""The number of nodes that an error lists."""


def fits(node: Node, place: NodePlace) -> bool:
    """Return whether a node has what a place asks for, if nothing else were there.

    Parameters
    ----------
    node
        An entry of `ray.nodes`.
    place
        The place.
    """
    return (
        all(_has(node.get("Labels", {}), *label) for label in place.labels.items()) and room(node, place) >= 1
    )


def _has(labels: Mapping[str, str], label: str, wanted: str) -> bool:
    found = WANTED.fullmatch(wanted)
    assert found is not None, "the place is valid"
    values = [value.strip() for value in (found["one"] or found["some"]).split(",")]
    return (labels.get(label) in values) != bool(found["no"])


def room(node: Node, place: NodePlace) -> float:
    """Return how many actors of a place a node has room for."""
    has = node["Resources"]
    return min(
        (_units(has.get(name, 0.0)) // _units(amount) for name, amount in place.takes.items()),
        default=math.inf,
    )


def _units(amount: float) -> int:
    """Return an amount of a resource in the units in which Ray counts."""
    return round(amount / AMOUNT_MIN)


def rank(node: Node) -> int:
    """Return how a node is ranked among those that fit, the best 0: with CPUs only, with GPUs too, without CPUs."""
    has = node["Resources"]
    return 2 if not has.get("CPU") else 1 if has.get("GPU") else 0


def working_nodes(nodes: Sequence[Node], place: NodePlace | None = None) -> tuple[str, ...]:
    """Return the nodes to spread brokers over, the head first; none where Ray decides the placement.

    Without a place these are nodes that have CPUs. A head without CPUs is meant only to manage the cluster. Ray would
    still place actors that ask for no CPU on it, and they would die with it.

    Parameters
    ----------
    nodes
        As `ray.nodes` returns them.
    place
        What they must have.
    """
    alive = [node for node in nodes if node["Alive"]]
    fitting = [node for node in alive if fits(node, place or NodePlace())]
    best = min(map(rank, fitting), default=0)
    working = [node for node in fitting if rank(node) == best]
    if place is None and (best == 2 or len(alive) == 1):
        return ()
    return tuple(
        node["NodeID"] for node in sorted(working, key=lambda n: (_HEAD not in n["Resources"], n["NodeID"]))
    )


def spared_nodes(nodes: Sequence[Node], place: NodePlace | None = None) -> tuple[str, ...]:
    """Return the nodes with GPUs that nothing is placed on, since others fit; see `working_nodes`."""
    fitting = [node for node in nodes if node["Alive"] and fits(node, place or NodePlace())]
    if min(map(rank, fitting), default=0) > 0:
        return ()
    return tuple(sorted(node["NodeID"] for node in fitting if rank(node) == 1))


def check_place(name: str, place: NodePlace, nodes: Sequence[Node], actors: int = 1) -> None:
    """Require that the living nodes that fit a place have room for so many actors.

    Parameters
    ----------
    name
        What it is the place of, for the error.
    place, nodes, actors
        The place, the nodes as `ray.nodes` returns them, and the number of actors.

    Raises
    ------
    InputError
        If they have not; the message has the nodes.
    """
    alive = [node for node in nodes if node["Alive"]]
    fitting = [node for node in alive if fits(node, place)]
    most = sum(room(node, place) for node in fitting)
    if most >= actors:
        return
    what = f"{actors:,} actors are to have {place} each, and there is room for {most:,.0f}"
    raise InputError(
        f"{name}: {what if fitting else f'no Ray node has {place}'}; there are "
        + "; ".join(map(_shown, alive[:SHOWN_MAX]))
        + (f"; and {len(alive) - SHOWN_MAX:,} more" if len(alive) > SHOWN_MAX else "")
    )


def _shown(node: Node) -> str:
    labels = [f"{name}={value}" for name, value in sorted(node.get("Labels", {}).items()) if name != NODE_ID]
    kept = [
        f"{name} {amount:g}"
        for name, amount in sorted(node["Resources"].items())
        if not name.startswith("node:") and "memory" not in name
    ]
    head = " (head)" if _HEAD in node["Resources"] else ""
    has = "; ".join(
        [f"labels {', '.join(labels)}" if labels else "no labels", ", ".join(kept) or "no resources"]
    )
    return f"node {node['NodeID'][:8]} at {node['NodeManagerAddress']}{head} ({has})"


def node_for(
    broker: BrokerId, members: Sequence[BrokerId], nodes: Sequence[str], dead: Collection[str] = ()
) -> str:
    """Return a living node with the fewest other members of the broker's cluster; its own in turn if it is one of them.

    One node at least is alive.
    """
    taken = Counter(member % len(nodes) for member in members if member != broker)
    turns = ((broker + turn) % len(nodes) for turn in range(len(nodes)))
    return nodes[min((turn for turn in turns if nodes[turn] not in dead), key=lambda turn: taken[turn])]


def actors_of(
    positions: Sequence[Position], nodes: Sequence[str], brokers_per_actor: int
) -> list[tuple[Position, ...]]:
    """Return which brokers share an actor: brokers of one node, at most `brokers_per_actor`."""
    places: dict[str, list[Position]] = {}
    for position in positions:
        node = node_for(position.broker, position.members, nodes) if nodes else ""
        places.setdefault(node, []).append(position)
    return [
        tuple(here[first : first + brokers_per_actor])
        for here in places.values()
        for first in range(0, len(here), brokers_per_actor)
    ]


def steady_node(nodes: Sequence[str], launcher: str, *, outlives: bool) -> tuple[str, ...]:
    """Return the node for the rendezvous point and the collector; an empty tuple leaves the placement to Ray.

    Parameters
    ----------
    nodes
        The nodes of the network.
    launcher
        The node of the launching process.
    outlives
        Whether the network outlives that process.
    """
    elsewhere = [node for node in nodes if node != launcher] if outlives else []
    return tuple((elsewhere or list(nodes))[:1])
