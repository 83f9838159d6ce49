"""The network as it was, with its dead brokers, reconstructed from the network as it is."""

import networkx as nx
import pytest
from rayvous.actors.pictures.dead import with_dead
from rayvous.actors.pictures.layout import layered_layout
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

POSITIONS = ClusterTree(4, 3, degree=8).positions()
"""Brokers 0 to 11, three a cluster; 2 is the root, 5, 8 and 11 are designated below it."""


def living(*dead: int) -> nx.Graph:
    graph = nx.Graph(name="here", scheme="hybrid")
    for position in POSITIONS:
        if position.broker not in dead:
            graph.add_node(position.broker, label="x", role=position.role, cluster=position.cluster)
    return graph


def test_who_is_missing_is_dead_and_keeps_its_name_role_and_cluster():
    graph = living(5)
    found = with_dead(graph, POSITIONS)
    assert set(found) == set(range(12))
    assert found.nodes[5] == {"label": "D1", "role": "DEB", "cluster": 1, "dead": True, "stood_below": 2}
    assert found.graph == {"name": "here", "scheme": "hybrid"}
    assert found.edges[2, 5] == {"kind": "former"}
    assert found.nodes[4] == {"label": "x", "role": "NEB", "cluster": 1}  # living brokers are as they are now
    assert set(graph) == set(range(12)) - {5}


def test_where_nobody_died_nothing_is_added():
    graph = living()
    found = with_dead(graph, POSITIONS)
    assert nx.utils.graphs_equal(found, graph)


def test_a_dead_root_had_links_to_its_children():
    found = with_dead(living(2), POSITIONS)
    assert sorted(found.edges(data="kind")) == [(5, 2, "former"), (8, 2, "former"), (11, 2, "former")]


def test_in_a_hypercube_the_dead_have_no_tree():
    positions = scheme("hypercube").positions(POSITIONS)
    graph = nx.Graph()
    found = with_dead(graph, positions)
    assert len(found) == 12
    assert found.number_of_edges() == 0


@pytest.mark.parametrize("dead", [(5,), (3, 4, 5), (2,)])
def test_the_dead_stand_with_their_cluster(dead):
    graph = living(*dead)
    for hub in {2, 5, 8, 11} - set(dead):
        graph.nodes[hub]["role"] = "REB" if hub == 2 else "DEB"
    if dead == (5,):
        graph.nodes[4]["role"] = "DEB"
    if dead == (2,):
        graph.nodes[1]["role"] = "REB"
    graph.add_edges_from(
        ((2 if 2 in graph else 1), hub, {"kind": "tree"}) for hub in (4, 5, 8, 11) if hub in graph
    )
    layout = layered_layout(with_dead(graph, POSITIONS))
    assert len(set(layout.places.values())) == 12
    if dead == (3, 4, 5):  # the whole cluster is dead: its designated broker stays where it was
        assert 5 in layout.hubs
        assert layout.places[5][1] == layout.places[8][1] < layout.places[2][1]
    else:
        assert not set(dead) & set(layout.hubs)
