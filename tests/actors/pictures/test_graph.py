"""A network as a graph."""

from dataclasses import replace

import pytest
from rayvous.actors.pictures.graph import graph_of_places
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(2, 2).positions()
"""Cluster 0 with brokers 0 and 1, and 1 with 2 and 3; 1 and 3 are designated."""


def test_in_a_hypercube_brokers_are_linked_with_those_beside_them_in_the_view_and_in_no_group() -> None:
    places = scheme("hypercube").positions(ClusterTree(4, 2).positions())
    graph = graph_of_places("net", "hypercube", places)
    assert {kind for _, _, kind in graph.edges(data="kind")} == {"cube"}
    assert graph.number_of_edges() == 12 and set(dict(graph.degree).values()) == {3}
    now = [
        replace(place, children=(place.broker ^ 1,), view=None) for place in places
    ]  # as the brokers report it
    assert sorted(graph_of_places("net", "hypercube", now).edges) == [(0, 1), (2, 3), (4, 5), (6, 7)]


@pytest.mark.parametrize("gone", [0, 2, 3])
def test_a_graph_has_those_that_have_answered_and_no_edge_to_anybody_else(gone: int) -> None:
    """A broker that has left may still be named as a child or member, and a new one has not been asked."""
    sizes = {place.broker: {"filters": place.broker} for place in PLACES if place.broker != gone}
    graph = graph_of_places(
        "net", "hybrid", [replace(place, members=(*place.members, 9)) for place in PLACES], sizes
    )
    assert dict(graph.nodes(data="filters")) == {broker: broker for broker in sizes}
    kinds = {(0, 1): "group", (2, 3): "group", (1, 3): "tree"}
    assert {tuple(sorted(edge[:2])): edge[2] for edge in graph.edges(data="kind")} == {
        ends: kind for ends, kind in kinds.items() if gone not in ends
    }
