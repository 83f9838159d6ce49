"""The costs of the simple schemes, as the papers state them, checked against formulas on random trees.

Reference: paper 1, section 1 (flooding, match-first); paper 5, section 1 (point-to-point).
"""

import random

import networkx as nx
import pytest
from rayvous.routing.schemes.registry import scheme as scheme_of
from rayvous.routing.topologies.cluster_trees import fixed
from rayvous.simulator import Simulation

SUBSCRIPTIONS = 12
EVENTS = 30


def random_tree(seed):
    """Return a tree of clusters with a few members each, drawn from a seed."""
    rng = random.Random(f"tree/{seed}")
    parents = {"REB": None}
    for number in range(1, rng.randrange(3, 12)):
        parents[f"D{number}"] = rng.choice(list(parents))
    members = {name: [f"{name}.{n}" for n in range(rng.randrange(3))] for name in parents}
    return fixed(parents, members)


class Run:
    """A network with one subscriber for each distinct filter; measures what single events cost."""

    def __init__(self, scheme, seed):
        self.topology = random_tree(seed)
        self.rng = random.Random(f"load/{seed}")
        self.brokers = [place.broker for place in self.topology.positions()]
        self.simulation = Simulation(self.topology.positions(), scheme, delay_of=self.topology.path_seconds)
        self.homes = {number: self.rng.choice(self.brokers) for number in range(SUBSCRIPTIONS)}
        for number, broker in self.homes.items():
            self.simulation.subscribe(f"s{number}", broker, f"n = {number} OR n > {100 + number}")
        self.simulation.run()
        assert all(self.simulation.installed(f"s{number}", 1) for number in self.homes)

    def messages(self, kind):
        traffic = self.simulation.traffic()
        return sum(getattr(traffic[link], kind) for link in ("up", "down", "multicast"))

    def publish(self, n):
        """Publish one event at a random broker; return (broker, brokers that want it, messages sent)."""
        broker = self.rng.choice(self.brokers)
        before = self.messages("events")
        self.simulation.publish(f"p{broker}", broker, [{"n": n}])
        self.simulation.run()
        homes = {home for number, home in self.homes.items() if n == number or n > 100 + number}
        return broker, homes, self.messages("events") - before

    def costs(self):
        return [self.publish(self.rng.choice([*range(SUBSCRIPTIONS + 3), 105, 200])) for _ in range(EVENTS)]

    def tables(self):
        sizes = [broker.describe() for broker in self.simulation.brokers()]
        return [each["filters"] + each.get("recorded", 0) for each in sizes]

    def tree(self):
        places = scheme_of("hierarchical").positions(self.topology.positions())
        edges = [(place.broker, place.parent) for place in places if place.parent is not None]
        tree = nx.Graph(edges)
        tree.add_nodes_from(self.brokers)
        return tree


def steiner_links(tree, terminals):
    """Return the number of links of the smallest subtree that joins the terminals, by pruning leaves."""
    tree = nx.Graph(tree)
    while leaves := [node for node in tree if tree.degree(node) <= 1 and node not in terminals]:
        tree.remove_nodes_from(leaves)
    return tree.number_of_edges()


@pytest.mark.parametrize("seed", range(8))
def test_flooding_sends_every_event_over_every_link_and_tells_nobody(seed):
    run = Run("flooding", seed)
    assert run.messages("control") == 0
    assert {cost for *_, cost in run.costs()} == {len(run.brokers) - 1}
    assert sum(run.tables()) == SUBSCRIPTIONS, "an entry stands at the subscriber's broker only"


@pytest.mark.parametrize("seed", range(8))
def test_match_first_takes_the_smallest_tree_and_tells_everybody(seed):
    run = Run("match-first", seed)
    assert run.messages("control") == 2 * (len(run.brokers) - 1) * SUBSCRIPTIONS
    assert set(run.tables()) == {SUBSCRIPTIONS}
    tree = run.tree()
    for broker, homes, cost in run.costs():
        assert cost == steiner_links(tree, {broker, *homes})


@pytest.mark.parametrize("seed", range(8))
def test_point_to_point_sends_a_copy_to_each_broker_that_wants_it(seed):
    run = Run("point-to-point", seed)
    assert run.messages("control") == 2 * (len(run.brokers) - 1) * SUBSCRIPTIONS
    assert set(run.tables()) == {SUBSCRIPTIONS}
    for broker, homes, cost in run.costs():
        assert cost == len(homes - {broker})


@pytest.mark.parametrize("seed", range(8))
def test_hierarchical_sends_events_to_the_root_whether_or_not_anybody_is_there(seed):
    run = Run("hierarchical", seed)
    tree = run.tree()
    root = next(place.broker for place in run.topology.positions() if place.role == "REB")
    for broker, homes, cost in run.costs():
        assert cost == steiner_links(tree, {broker, root, *homes})
