"""A network as a graph, from the places of its brokers.

Rule: pure; the same places give the same graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from ...routing.topologies.cube import cube_of

if TYPE_CHECKING:
    import networkx as nx

CUBE: Final = "cube"
"""The kind of a link between brokers none of which is above the other."""


def graph_of_places(
    name: str,
    scheme: str,
    places: Iterable[Position],
    sizes: Mapping[BrokerId, Mapping[str, Any]] | None = None,
) -> nx.Graph:
    """Return the graph of the brokers that stand at some places.

    Parameters
    ----------
    name, scheme
        Of the network.
    places
        Where its living brokers stand now.
    sizes
        What else is known of a broker; who is not in it is left out. None leaves out nobody.

    Returns
    -------
    networkx.Graph
        Nodes are broker ids with `label`, `role`, `cluster` and what is in `sizes`; edges have `kind`, "tree", "group"
        or "cube".
    """
    import networkx as nx

    graph = nx.Graph(name=name, scheme=scheme)
    there = [place for place in places if sizes is None or place.broker in sizes]
    for place in there:
        known = {} if sizes is None else sizes[place.broker]
        graph.add_node(place.broker, label=place.label, role=place.role, cluster=place.cluster, **known)
    for place in there:
        for ends, kind in _links(place, scheme):
            # Who has died is a neighbour until that is noticed, and is not in the graph all the same.
            graph.add_edges_from(((place.broker, end) for end in ends if end in graph), kind=kind)
    return graph


def _links(place: Position, scheme: str) -> list[tuple[Iterable[BrokerId], str]]:
    """Return with whom a broker is linked, by kind: in a hypercube with those beside it in the view."""
    if scheme == "hypercube":
        return [(place.children if place.cube is None else cube_of(place.cube).beside(place.broker), CUBE)]
    if place.role == "NEB":
        return []
    return [(place.children, "tree"), ((each for each in place.members if each != place.broker), "group")]
