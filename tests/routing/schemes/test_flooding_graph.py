"""Flooding of a graph with cycles: what it costs, that nothing arrives twice or out of order, and what it is charged.

Reference: paper 2, 2.3; docs/decisions/0165-flooding-of-a-graph.md.
"""

import random
from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest
from rayvous.admission.flows import Flows
from rayvous.broker.admission import Admitting
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Ways
from rayvous.protocol.effects import Confirm, Received, Send
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity, Judgement
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.messages.views import ViewWants
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.flooding_graph import GraphFlooding
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.random_graph import RandomGraph, graph_of
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation


def as_networkx(graph):
    return nx.Graph([(one, other) for one, others in graph.links.items() for other in others])


@pytest.mark.parametrize(("brokers", "links"), [(2, 1), (3, 3), (8, 12), (64, 192), (256, 1024)])
def test_a_graph_is_connected_and_has_as_many_links_as_a_hypercube(brokers, links):
    for seed in range(5):
        graph = RandomGraph(range(brokers), seed)
        assert nx.is_connected(as_networkx(graph)) and as_networkx(graph).number_of_edges() == links
        assert graph.links == RandomGraph(range(brokers), seed).links
    assert brokers < 8 or len({str(RandomGraph(range(brokers), seed).links) for seed in range(5)}) == 5


def test_a_degree_may_be_asked_for():
    graph = as_networkx(RandomGraph(range(50), 1, degree=4))
    assert graph.number_of_edges() == 100 and nx.is_connected(graph)


def test_the_tree_of_a_broker_has_the_shortest_ways_from_it():
    graph = RandomGraph(range(30), 2)
    for root in (0, 7):
        far = {root: 0}
        for above in graph.tree(root):  # in the order of discovery
            far |= dict.fromkeys(graph.tree(root)[above], far[above] + 1)
        assert far == dict(nx.single_source_shortest_path_length(as_networkx(graph), root))


def test_another_tree_of_the_topology_gives_another_graph():
    def links(seed):
        places = GraphFlooding.positions(ClusterTree(20, 1, shape="transit-stub", seed=seed).positions())
        return {place.broker: place.children for place in places}

    assert links(1) == links(1) != links(2)


@pytest.mark.parametrize("seed", range(6))
def test_an_event_costs_two_messages_a_link_but_one_for_each_broker_that_it_comes_to(seed):
    """Whatever the delays are: each broker gets each event of a publisher once, and in order."""
    sent = Counter()

    def count(step):
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Events):
                sent.update(effect.message.batch.identity(row) for row in range(len(effect.message.batch)))

    rng = random.Random(f"graph flooding/{seed}")
    brokers = rng.randrange(3, 40)
    net = Simulation(
        ClusterTree(brokers, 1, degree=3).positions(),
        "flooding+graph",
        links=LinkModel(spread_seconds=0.05, jitter_seconds=0.1),
        seed=seed,
        record=count,
    )
    for broker in range(brokers):
        net.subscribe(f"s{broker}", broker, "n >= 0")
    for n in range(30):
        net.publish("p", 0, [{"n": n}])
        net.publish("q", brokers - 1, [{"n": n}, {"n": n}])
        net.advance(0.01)
    net.run()
    links = sum(len(broker.position.children) for broker in net.brokers()) // 2
    assert set(sent.values()) == {2 * links - (brokers - 1)} and len(sent) == 90
    for broker in range(brokers):
        had = net.notifications(f"s{broker}")
        assert [n for name, n in had if name == "p"] == [*range(1, 31)]
        assert [n for name, n in had if name == "q"] == [*range(1, 61)]


def test_the_second_copy_is_dropped_and_so_is_what_the_own_broker_gets_back():
    place = GraphFlooding.positions(ClusterTree(4, 1).positions())[0]
    router = GraphFlooding(place)
    one, other = place.children[:2]
    [first, *_] = GraphFlooding(place).handle(Received("p", Events(batch())))
    assert first.message.entry == 0 and first.message.number == 1
    copy = Events(batch(), entry=one, number=5)
    assert {effect.to for effect in router.handle(Received(one, copy))} == {*place.children} - {one}
    assert router.handle(Received(other, copy)) == []
    assert router.handle(Received(other, Events(batch(), entry=one, number=4))) == [], (
        "it was overtaken by a loss"
    )
    assert router.handle(Received(other, Events(batch(), entry=0, number=9))) == []
    assert router.handle(Received(other, Events(batch(), number=9))) == [] and router.strays == 1


def test_two_brokers_agree_on_the_numbers_between_them():
    """A broker that began its view anew by damage would number what others drop (paper 4, definition 8)."""
    places = GraphFlooding.positions(ClusterTree(2, 1).positions())
    one, other = map(GraphFlooding, places)
    [sent, *_] = one.handle(Received("p", Events(batch())))
    assert one.streams()[1] != other.streams()[0], "it is on its way"
    other.handle(Received(0, sent.message))
    [answer, *_] = other.handle(Received("q", Events(batch())))
    one.handle(Received(1, answer.message))
    assert one.streams() == {1: (1, 1, 1)} and other.streams() == {0: (1, 1, 1)}
    one.enter(one.view)
    assert one.streams()[1] != other.streams()[0]


def batch():
    return batch_of([{"x": 1}], publisher="p")


def test_a_subscription_is_confirmed_once_its_broker_takes_part_in_a_view():
    places = GraphFlooding.positions(ClusterTree(3, 1).positions())
    view = places[0].view
    router = GraphFlooding(replace(places[0], view=None))
    register = [Register(number, to_filter("x = 1")) for number in (1, 2)]
    assert [router.handle(Received("a", each)) for each in register] == [[], []]
    assert not any(isinstance(effect, Confirm) for effect in router.install(view))
    assert router.adopt(1, ViewWants(1, 1, 0, ())) == []
    assert router.adopt(2, ViewWants(1, 1, 0, ())) == [Confirm("a", 1), Confirm("a", 2)]
    assert router.handle(Received("a", Register(3, to_filter("x = 2")))) == [Confirm("a", 3)]
    router.check()


def loaded(brokers=9, rate=5):
    """Return a network with more subscriptions than fit, after its publishers have published at their rates."""
    capacity = Capacity(60.0, 60.0)
    net = Simulation(
        ClusterTree(brokers, 1).positions(),
        "flooding+graph",
        admission=AdmissionConfig(0.0, capacity=capacity),
        queues=Queues(lambda broker: capacity, 5.0),
        keep_notifications=False,
    )
    for number in range(6):
        net.advertise(f"p{number}", number, f"x = {number}", rate)
    net.run()
    for number in range(6):
        net.subscribe(f"s{number}", (number * 4) % brokers, f"x = {number}")
        net.run()
    for _ in range(8):
        for number in range(6):
            net.publish(f"p{number}", number, [{"x": number}] * rate)
        net.advance(1.0)
    net.run()
    news = [each for client in net.sessions for each in net.news(client) if isinstance(each, Judgement)]
    return net, sum(each.admitted for each in news)


def exceeding(net):
    """Return the brokers and links that had more than was charged, in events a second, and the highest charge."""
    found, highest = [], 0.0
    for broker in net.brokers():
        here = broker.position.broker
        for (resource, where), amount in broker.layer(Admitting).admission.books.reserved().items():
            had = {"cpu": net.queues.worked[here], "bandwidth": net.queues.sent[here, where]}.get(resource, 0)
            if resource != "memory":
                highest = max(highest, amount / MICRO)
                found += [(here, resource, where)] if had > 8 * amount / MICRO else []
    return found, highest


def test_each_link_and_broker_is_charged_with_all_copies_that_may_come(monkeypatch):
    """Promise 8 on a graph; only the links of one spanning tree are asked along."""
    net, admitted = loaded()
    assert 0 < admitted < 6 and not any(net.queues.dropped_events().values()) and net.notified
    assert exceeding(net)[0] == [] and exceeding(net)[1] <= 60
    asked = {broker.position.broker: broker.layer(Admitting).admission.neighbours for broker in net.brokers()}
    assert sum(map(len, asked.values())) == 2 * (len(asked) - 1)
    monkeypatch.setattr(Flows, "__init__", without_copies(Flows.__init__))
    net, more = loaded()
    assert more > admitted and exceeding(net)[0], "uncharged copies overload somebody"


def without_copies(init):
    def made(self, broker, ways: Ways, *others):
        init(self, broker, ways._replace(copies=()), *others)

    return made


@pytest.mark.parametrize("seed", range(3))
def test_a_view_without_a_broker_has_another_graph_and_loses_nothing(seed):
    net = Simulation(
        ClusterTree(8, 1).positions(), "flooding+graph", recovery=Recovery.for_simulator(), seed=seed
    )
    net.run_until_installed("s", net.subscribe("s", 7, "n >= 0"))
    for n in range(60):
        net.publish("p", 0, [{"n": n}])
        net.advance(0.2)
        if n == 20:
            net.faults.crash(3)
    net.advance(20.0)
    assert [n for _, n in net.notifications("s")] == [*range(1, 61)]
    views = {net.broker(broker).router.view for broker in net.living()}
    [view] = views
    assert 3 not in view.born and graph_of(view).links.keys() == view.born.keys()
