"""Where the brokers of a network stand: on which nodes of the Ray cluster, and which share an actor.

Rules
-----
* Members of a cluster stand on different nodes, as far as there are nodes: then the death of one never takes a whole
  cluster, and those who are left elect (paper 1, 4.1.1). Members follow each other in number, so brokers take the nodes
  in turn; one that comes later takes a node with the fewest of its cluster.
* Brokers that share an actor are of one node, and follow each other there.
* The rendezvous point of a network that outlives its launcher does not stand where that runs, if there is another node.

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
"""A resource that Ray gives to the head."""


def working_nodes(nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the nodes to spread brokers over, the head first; none where that is left to Ray.

    Those are the nodes that have CPUs. A head that was given none is to do nothing but to know the cluster. Ray would
    put actors that ask for no CPU on it all the same, and they would go with it when it dies.

    Parameters
    ----------
    nodes
        As `ray.nodes` has them.
    """
    working = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    if len(working) == 1 and _HEAD in working[0]["Resources"]:
        return ()
    return tuple(
        node["NodeID"] for node in sorted(working, key=lambda n: (_HEAD not in n["Resources"], n["NodeID"]))
    )


def node_for(broker: BrokerId, members: Sequence[BrokerId], nodes: Sequence[str]) -> str:
    """Return a node with the fewest other members of a broker's cluster: its own in turn, where that is one."""
    taken = Counter(member % len(nodes) for member in members if member != broker)
    turns = ((broker + turn) % len(nodes) for turn in range(len(nodes)))
    return nodes[min(turns, key=lambda place: taken[place])]


def actors_of(
    positions: Sequence[Position], nodes: Sequence[str], brokers_per_actor: int
) -> list[tuple[Position, ...]]:
    """Return which brokers share an actor: those of one node, so many at most."""
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
    """Return where the rendezvous point and the collector are to stand; none leaves it to Ray.

    Parameters
    ----------
    nodes
        Of the network.
    launcher
        The node of the process that launches it.
    outlives
        Whether the network outlives that process.
    """
    elsewhere = [node for node in nodes if node != launcher] if outlives else []
    return tuple((elsewhere or list(nodes))[:1])
