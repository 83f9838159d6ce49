"""The lower bounds, compared with networkx and with every choice of links and multicasts."""

import itertools
import random

import networkx as nx
import pytest
from networkx.algorithms.approximation import steiner_tree
from rayvous.experiments.bounds import MessageBounds
from rayvous.routing.schemes.hierarchical import Hierarchical
from rayvous.routing.topologies.cluster_trees import ClusterTree


def flat(positions):
    graph = nx.Graph()
    graph.add_nodes_from(place.broker for place in positions)
    graph.add_edges_from(
        (p.broker, p.parent) for p in Hierarchical.positions(positions) if p.parent is not None
    )
    return graph


@pytest.mark.parametrize("seed", range(5))
def test_links_are_those_of_networkx(seed):
    """On a tree the approximation of networkx is exact."""
    rng = random.Random(seed)
    positions = ClusterTree(8, 3, degree=3, shape="transit-stub", seed=seed).positions()
    bounds, graph = MessageBounds(positions), flat(positions)
    for size in (1, 2, 3, 6, 12):
        terminals = rng.sample(range(24), size)
        wanted = steiner_tree(graph, terminals).number_of_edges() if size > 1 else 0
        assert bounds.links(terminals) == wanted
    one, other = rng.sample(range(24), 2)
    assert bounds.distance(one, other) == nx.shortest_path_length(graph, one, other)


def reach(positions, origin, sends):
    """Return the brokers that an event reaches when these links and groups are used once each."""
    heard, todo = {origin}, [origin]
    while todo:
        here = todo.pop()
        for kind, one, other in sends:
            if kind == "group" and positions[here].cluster == one:
                found = set(positions[here].members)
            elif kind == "link" and here in (one, other):
                found = {one, other}
            else:
                continue
            todo += sorted(found - heard)
            heard |= found
    return heard


@pytest.mark.parametrize("seed", range(20))
def test_no_choice_of_links_and_multicasts_does_with_fewer_messages(seed):
    rng = random.Random(seed)
    positions = ClusterTree(3, rng.choice((2, 3)), degree=rng.choice((1, 2))).positions()
    origin, wanting = rng.randrange(len(positions)), rng.sample(range(len(positions)), rng.randrange(1, 4))
    ways = [("group", cluster, None) for cluster in range(3)]
    ways += [("link", p.broker, p.parent) for p in positions if p.role == "DEB"]
    fewest = min(
        len(sends)
        for count in range(len(ways) + 1)
        for sends in itertools.combinations(ways, count)
        if set(wanting) <= reach(positions, origin, sends)
    )
    assert MessageBounds(positions).messages(origin, wanting) == fewest
