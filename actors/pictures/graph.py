"""A network as a graph, from the places of its brokers.

Rule: pure; the same places give the same graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from ...routing.schemes.registry import scheme as scheme_of

if TYPE_CHECKING:
    import networkx as nx

CUBE: Final = "cube"
"""The kind of a link between brokers of which neither is above the other."""


def graph_of_places(
    name: str,
    scheme: str,
    places: Iterable[Position],
    sizes: Mapping[BrokerId, Mapping[str, Any]] | None = None,
) -> nx.Graph:
    """Return the graph of the brokers at these places.

    Parameters
    ----------
    name, scheme
        Those of the network.
    places
        The current places of its live brokers.
    sizes
        Additional attributes by broker; a broker that is not in it is left out. None leaves out no broker.

    Returns
    -------
    networkx.Graph
        Nodes are broker ids with `label`, `role`, `cluster` and what is in `sizes`; edges have `kind`, "tree",
        "group" or "cube".
    """
    import networkx as nx

    graph = nx.Graph(name=name, scheme=scheme)
    there = [place for place in places if sizes is None or place.broker in sizes]
    for place in there:
        known = {} if sizes is None else sizes[place.broker]
        graph.add_node(place.broker, label=place.label, role=place.role, cluster=place.cluster, **known)
    for place in there:
        for ends, kind in _links(place, scheme):
            # A dead broker stays a neighbour until its death is noticed, but is not in the graph.
            graph.add_edges_from(((place.broker, end) for end in ends if end in graph), kind=kind)
    return graph


def _links(place: Position, scheme: str) -> list[tuple[Iterable[BrokerId], str]]:
    """Return the brokers that a broker is linked to, by kind."""
    beside = scheme_of(scheme).beside(place)
    if beside is not None:
        return [(beside, CUBE)]
    if place.role == "NEB":
        return []
    return [(place.children, "tree"), ((each for each in place.members if each != place.broker), "group")]
