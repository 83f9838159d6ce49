"""Every broker has its own place, parents are above their children, and the input order does not matter."""

import itertools
import math
import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.pictures.layout import RING_RADIUS, layered_layout, layout_of, ring_angles


def cluster_tree(parents: list[int], members: int = 2) -> nx.Graph:
    """Return a tree with cluster ``i + 1`` below ``parents[i]``; the DEB of cluster c is 100 c + 99."""
    graph = nx.Graph()
    for cluster in range(len(parents) + 1):
        hub = 100 * cluster + 99
        graph.add_node(hub, role="DEB" if cluster else "REB", cluster=cluster, label=f"B{hub}")
        for member in range(members):
            graph.add_node(100 * cluster + member, role="NEB", cluster=cluster, label=str(member))
            graph.add_edge(100 * cluster + member, hub, kind="group")
    for child, parent in enumerate(parents, start=1):
        graph.add_edge(100 * parent + 99, 100 * child + 99, kind="tree")
    return graph


trees = (
    st.integers(0, 40).flatmap(lambda n: st.tuples(*(st.integers(0, child) for child in range(n)))).map(list)
)


@settings(max_examples=60, deadline=None)
@given(parents=trees, members=st.integers(0, 9), seed=st.integers(0, 9))
def test_a_tree_is_laid_out(parents, members, seed):
    graph = cluster_tree(parents, members)
    layout = layered_layout(graph)
    assert set(layout.places) == set(graph)
    assert layout.root == 99
    assert layout.places[99][1] == 0
    for child, parent in enumerate(parents, start=1):
        assert layout.places[100 * child + 99][1] < layout.places[100 * parent + 99][1]
    # Rings do not touch, so nothing overlaps.
    hubs = [layout.places[hub] for hub in layout.hubs]
    assert all(math.dist(a, b) >= 1 - 1e-9 > 2 * RING_RADIUS for a, b in itertools.combinations(hubs, 2))
    assert all(RING_RADIUS < x < layout.width - RING_RADIUS for x, _ in hubs)
    assert all(-y < layout.height for _, y in layout.places.values())
    for cluster in range(len(parents) + 1):
        ring = [layout.places[100 * cluster + member] for member in range(members)]
        assert all(math.dist(place, layout.places[100 * cluster + 99]) < RING_RADIUS + 1e-9 for place in ring)
        assert len(set(ring)) == members
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    random.Random(seed).shuffle(nodes)
    random.Random(seed).shuffle(edges)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(nodes)
    shuffled.add_edges_from(edges)
    assert layered_layout(shuffled) == layout


def test_a_parent_stands_over_the_middle_of_its_children():
    places = layered_layout(cluster_tree([0, 0, 0])).places
    assert places[99][0] == pytest.approx((places[199][0] + places[399][0]) / 2)
    assert places[199][0] < places[299][0] < places[399][0]


def test_a_forest_stands_side_by_side_with_the_root_first():
    graph = cluster_tree([0, 0])
    graph.remove_edge(99, 299)
    layout = layered_layout(graph)
    assert layout.root == 99
    assert layout.places[299][1] == 0
    assert layout.places[99][0] < layout.places[299][0]


def test_an_edge_that_closes_a_cycle_moves_nothing():
    graph = cluster_tree([0, 0])
    before = layered_layout(graph).places
    graph.add_edge(199, 299, kind="tree")
    assert layered_layout(graph).places == before


def test_a_member_without_a_designated_broker_still_has_a_place():
    graph = cluster_tree([0])
    graph.remove_node(199)
    assert set(layered_layout(graph).places) == set(graph)


def test_an_empty_graph():
    layout = layered_layout(nx.Graph())
    assert (layout.places, layout.root) == ({}, None)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9, 20])
def test_ring_angles_keep_top_and_bottom_free(count):
    angles = ring_angles(count)
    assert len(set(angles)) == count
    assert all(abs(math.cos(angle)) > math.cos(math.radians(75)) for angle in angles)


@pytest.mark.parametrize("brokers", [2, 3, 8, 37])
def test_the_brokers_of_a_hypercube_stand_on_a_circle_and_none_covers_another(brokers):
    cube = nx.Graph()
    cube.add_nodes_from(range(brokers), role="REB")
    cube.add_edge(0, 1, kind="cube")
    layout = layout_of(cube)
    assert set(layout.places) == set(layout.hubs) == set(range(brokers)) and layout.root is None
    radii = [math.hypot(*place) for place in layout.places.values()]
    assert max(radii) - min(radii) < 1e-9 and max(radii) <= (layout.width - 1) / 2 + 1e-9
    pairs = itertools.combinations(layout.places.values(), 2)
    assert min(math.dist(one, other) for one, other in pairs) == pytest.approx(1.0)
