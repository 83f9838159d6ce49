"""A network as a graph."""

from dataclasses import replace

import pytest
from rayvous.actors.pictures.graph import graph_of_places
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(2, 2).positions()
"""Cluster 0 with brokers 0 and 1, and 1 with 2 and 3; 1 and 3 are designated."""


@pytest.mark.parametrize("gone", [0, 2, 3])
def test_a_graph_has_those_that_have_answered_and_no_edge_to_anybody_else(gone: int) -> None:
    """Who has left may still be named as a child or a member, and who came since has not been asked."""
    sizes = {place.broker: {"filters": place.broker} for place in PLACES if place.broker != gone}
    graph = graph_of_places(
        "net", "hybrid", [replace(place, members=(*place.members, 9)) for place in PLACES], sizes
    )
    assert dict(graph.nodes(data="filters")) == {broker: broker for broker in sizes}
    kinds = {(0, 1): "group", (2, 3): "group", (1, 3): "tree"}
    assert {tuple(sorted(edge[:2])): edge[2] for edge in graph.edges(data="kind")} == {
        ends: kind for ends, kind in kinds.items() if gone not in ends
    }
