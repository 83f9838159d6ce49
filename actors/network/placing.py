"""Placement of brokers: on which nodes of the Ray cluster they run, and which share an actor.

Rules
-----
* Members of a cluster run on different nodes, as far as there are nodes. The death of one node then never takes
  a whole cluster, and the remaining members elect (paper 1, 4.1.1). Members have consecutive numbers, so
  brokers take the nodes in turn. A broker that joins later takes a node with the fewest members of its cluster.
* Brokers that share an actor run on one node, and are consecutive there.
* The rendezvous point of a network that outlives its launcher does not run on the launcher's node, if there is
  another.

Pure: nodes are names.

Source: docs/decisions/0093-members-on-different-nodes.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId

_HEAD: Final = "node:__internal_head__"
"""A resource that Ray gives to the head node."""


def working_nodes(nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the nodes to spread brokers over, the head first; none where Ray decides the placement.

    These are the nodes that have CPUs. A head without CPUs is meant only to manage the cluster. Ray would still
    place actors that ask for no CPU on it, and they would die with it.

    Parameters
    ----------
    nodes
        As `ray.nodes` returns them.
    """
    working = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    if len(working) == 1 and _HEAD in working[0]["Resources"]:
        return ()
    return tuple(
        node["NodeID"] for node in sorted(working, key=lambda n: (_HEAD not in n["Resources"], n["NodeID"]))
    )


def node_for(broker: BrokerId, members: Sequence[BrokerId], nodes: Sequence[str]) -> str:
    """Return a node with the fewest other members of the broker's cluster; its own in turn if that is one of them."""
    taken = Counter(member % len(nodes) for member in members if member != broker)
    turns = ((broker + turn) % len(nodes) for turn in range(len(nodes)))
    return nodes[min(turns, key=lambda place: taken[place])]


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
