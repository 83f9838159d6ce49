import time
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import TopologyError
from rayvous.routing.topologies.cluster_trees import (
    GROUP_SECONDS,
    LINK_SECONDS,
    ClusterTree,
    figure_1,
    fixed,
    topology_of,
)
from rayvous.routing.topologies.transit_stub import spanning_tree, transit_stub_graph

trees = st.builds(
    ClusterTree,
    clusters=st.integers(1, 60),
    brokers_per_cluster=st.integers(1, 4),
    degree=st.integers(1, 6),
    seed=st.integers(0, 5),
    shape=st.sampled_from(["plain", "transit-stub"]),
)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_it_is_one_tree_of_clusters_within_the_degree(tree):
    positions = tree.positions()
    assert [place.broker for place in positions] == list(range(tree.clusters * tree.brokers_per_cluster))
    assert len({place.label for place in positions}) == len(positions)
    for place in positions:
        assert place.cluster == place.broker // tree.brokers_per_cluster
        assert place.broker in place.members and len(place.members) == tree.brokers_per_cluster
        assert place.designated == max(place.members)
        assert len(place.children) <= tree.degree
        for child in place.children:
            assert positions[child].parent == place.designated
        if place.parent is not None:
            assert place.designated in positions[place.parent].children
            assert positions[place.parent].cluster < place.cluster
    assert [place.label for place in positions if place.role == "REB"] == ["REB"]
    heads = {place.designated for place in positions}
    links = [(place.parent, place.broker) for place in positions if place.role == "DEB"]
    assert len(links) == len(heads) - 1
    backbone = nx.Graph(links)
    backbone.add_nodes_from(heads)
    assert nx.is_tree(backbone)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 9))
def test_a_plain_tree_is_as_flat_as_the_degree_allows_and_evenly_filled(clusters, degree):
    tree = ClusterTree(clusters, 1, degree)
    depths, level, total = 0, 1, 1
    while total < clusters:
        level *= degree
        total += level
        depths += 1
    assert tree.describe()["depth"] == depths
    graph = nx.bfs_tree(tree.graph(), 0)
    depth = nx.single_source_shortest_path_length(graph, 0)
    last_but_one = [graph.out_degree(node) for node in graph if depth[node] == depths - 1]
    if last_but_one:
        assert max(last_but_one) - min(last_but_one) <= 1


def test_the_same_seed_gives_the_same_tree_and_another_one_another():
    one = ClusterTree(60, 2, 4, seed=1, shape="transit-stub")
    assert one.positions() == ClusterTree(60, 2, 4, seed=1, shape="transit-stub").positions()
    assert one.positions() != ClusterTree(60, 2, 4, seed=2, shape="transit-stub").positions()


def test_the_network_of_the_papers_experiment():
    tree = ClusterTree(clusters=100, brokers_per_cluster=10, degree=8, shape="transit-stub", links=730)
    physical = tree.physical_graph()
    assert (physical.number_of_nodes(), physical.number_of_edges()) == (100, 730)
    assert nx.is_connected(physical)
    assert Counter(physical.nodes[site]["transit"] for site in physical) == {False: 96, True: 4}
    measures = tree.describe()
    assert (measures["brokers"], measures["tree_links"]) == (1000, 99)
    assert measures["degree_max"] <= 8
    # Delays depend on the kind of link; those of the backbone are the longest.
    delays = {kind: [] for _, _, kind in physical.edges(data="kind")}
    for _, _, link in physical.edges(data=True):
        delays[link["kind"]].append(link["delay_seconds"])
    assert max(delays["stub"]) < min(delays["access"]) < min(delays["transit"])


@pytest.mark.parametrize("links", [29, 60, 435])
def test_the_number_of_physical_links_can_be_chosen(links):
    tree = ClusterTree(30, 1, 3, shape="transit-stub", links=max(links, 29 + 10))
    assert tree.physical_graph().number_of_edges() == max(links, 39)


@pytest.mark.parametrize("degree", [1, 2, 8])
def test_a_tree_link_has_the_delay_of_its_physical_link_or_path(degree):
    physical = transit_stub_graph(80, seed=3)
    shortest = dict(nx.all_pairs_dijkstra_path_length(physical, weight="delay_seconds"))
    root, *rest = spanning_tree(physical, degree)
    assert root.parent is None and physical.nodes[root.site]["transit"]
    over_links = 0
    for joined in rest:
        if physical.has_edge(joined.site, joined.parent):
            over_links += joined.delay_seconds == physical.edges[joined.site, joined.parent]["delay_seconds"]
        else:
            assert joined.delay_seconds == pytest.approx(shortest[joined.site][joined.parent])
    assert over_links == len(rest) if degree == 8 else over_links > 0


def test_delays():
    tree = ClusterTree(3, 3, 2)
    assert tree.delay_seconds(2, 5) == tree.delay_seconds(5, 2) == LINK_SECONDS
    assert tree.delay_seconds(3, 4) == GROUP_SECONDS
    for one, other in ((5, 8), (0, 3), (2, 2), (0, 99), (-1, 2)):
        with pytest.raises(TopologyError, match="no link"):
            tree.delay_seconds(one, other)


def test_the_graph_says_what_is_what():
    graph = ClusterTree(3, 2, 2).graph()
    assert dict(graph.nodes(data="label")) == {0: "N0.1", 1: "REB", 2: "N1.1", 3: "D1", 4: "N2.1", 5: "D2"}
    assert dict(graph.nodes(data="role"))[1] == "REB"
    assert Counter(kind for _, _, kind in graph.edges(data="kind")) == {"group": 3, "tree": 2}
    assert graph.edges[1, 3]["parent"] == 1 and graph.edges[1, 3]["child"] == 3


def test_a_thousand_clusters_take_less_than_a_second_of_cpu():
    began = time.process_time()
    for shape in ("plain", "transit-stub"):
        assert len(ClusterTree(1500, 4, 8, shape=shape).positions()) == 6000
    assert time.process_time() - began < 2.0


def test_figure_1():
    tree = figure_1()
    place = {position.label: position for position in tree.positions()}
    name = {position.broker: position.label for position in tree.positions()}
    assert [name[broker] for broker in place["REB"].children] == ["D2", "D3"]
    assert [name[broker] for broker in place["D2"].children] == ["D1", "D5"]
    assert [name[broker] for broker in place["D3"].children] == ["D4"]
    assert [name[broker] for broker in place["D1"].members] == ["N1", "N2", "D1"]
    assert {label: position.role for label, position in place.items() if label in ("REB", "D1", "N1")} == {
        "REB": "REB", "D1": "DEB", "N1": "NEB",
    }  # fmt: skip
    assert tree.broker("N2") == place["N2"].broker
    with pytest.raises(TopologyError, match="'N9'"):
        tree.broker("N9")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clusters": 0}, "clusters is 0"),
        ({"clusters": -3}, "clusters is -3"),
        ({"clusters": 2.0}, "clusters is 2.0: it must be a whole number"),
        ({"clusters": True}, "clusters is True"),
        ({"brokers_per_cluster": 0}, "brokers_per_cluster is 0"),
        ({"brokers_per_cluster": "2"}, "brokers_per_cluster is '2'"),
        ({"degree": 0}, "degree 0 joins one cluster"),
        ({"degree": -1}, "degree is -1"),
        ({"seed": None}, "seed is None"),
        ({"shape": "ring"}, "shape is 'ring'.*plain, transit-stub"),
        ({"links": 20}, "links are for the shape transit-stub"),
        ({"shape": "transit-stub", "links": 8}, "8 links between 10 clusters: it must be 9 to 45"),
        ({"shape": "transit-stub", "links": 46}, "46 links"),
    ],
)
def test_what_cannot_be_built_says_why(values, message):
    with pytest.raises(TopologyError, match=message):
        ClusterTree(**{"clusters": 10, "brokers_per_cluster": 2} | values)


def test_one_cluster_needs_no_degree():
    assert [place.role for place in ClusterTree(1, 2, 0).positions()] == ["NEB", "REB"]


@pytest.mark.parametrize(
    ("parents", "members", "message"),
    [
        ({}, {}, "one root"),
        ({"A": None, "B": None}, {}, "one root"),
        ({"B": "A", "A": None}, {}, "the parent of 'B', 'A', is not described before it"),
        ({"A": None}, {"B": ["n"]}, "no such designated broker"),
        ({"A": None}, {"A": ["n", "n"]}, "label 'n' occurs twice"),
        ({"A": None}, {"A": ["A"]}, "label 'A' occurs twice"),
        ({"A": None}, {"A": "nm"}, "it must be a list"),
        ({"A": None}, {"A": [""]}, "a string of at least one character"),
    ],
)
def test_a_broken_description_says_why(parents, members, message):
    with pytest.raises(TopologyError, match=message):
        fixed(parents, members)


def test_a_topology_from_plain_data():
    assert topology_of({"clusters": 2, "brokers_per_cluster": 3}) == ClusterTree(2, 3)
    assert topology_of({"parents": {"A": None}, "members": {"A": ["B"]}}) == fixed({"A": None}, {"A": ["B"]})
    for broken, message in (
        ({"clusters": 2}, "needs 'brokers_per_cluster'"),
        ({"clusters": 2, "brokers": 3}, "no parameter 'brokers'"),
        ({"parents": ["A"]}, "it must be a mapping"),
        ({}, "needs 'clusters'"),
    ):
        with pytest.raises(TopologyError, match=message):
            topology_of(broken)
