"""The model of paper 3's network: a graph of brokers with a spanning tree for each publisher's broker."""

import random
from dataclasses import replace

import networkx as nx
import pytest
from rayvous.experiments.admission_graph import NOWHERE, GraphNetwork, Paths
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Judgement
from rayvous.routing.language.builders import attr
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import fixed
from rayvous.routing.topologies.random_graph import RandomGraph
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

ANY = to_filter("x > 0")


def row_of(*brokers):
    """Return brokers in a row, as a graph."""
    graph = RandomGraph(range(len(brokers)), degree=1.0)
    graph.links = {each: {other for other in (each - 1, each + 1) if other in brokers} for each in brokers}
    return graph


def network(share=0.0, *, cpu=(100.0, 100.0, 100.0), link=1_000.0, deadline=5.0, **changes):
    """Return the model of three brokers in a row."""
    capacities = {
        broker: Capacity(each, link_events_per_second=link, entries=10) for broker, each in enumerate(cpu)
    }
    return GraphNetwork(row_of(0, 1, 2), AdmissionConfig(share, capacities=capacities, **changes), deadline)


def verdict(net, home, given=ANY):
    net.subscribe("s", home, given)
    return net.news("s")[-1]


@pytest.mark.parametrize("seed", range(3))
def test_each_source_has_a_tree_of_shortest_paths(seed):
    graph = RandomGraph(range(20), seed, 4.0)
    paths = Paths(graph)
    whole = nx.Graph([(one, other) for one in graph.links for other in graph.links[one]])
    for source in range(20):
        edges = set()
        for to, steps in nx.single_source_shortest_path_length(whole, source).items():
            over = paths.over[source, to]
            assert (over != NOWHERE).sum() == steps + 1 and over[to] == len(paths.links)
            edges |= {paths.links[link] for link in over[(over != NOWHERE) & (over < len(paths.links))]}
        assert len(edges) == 19 and len({to for _, to in edges}) == 19
        onward = paths.tree(source, range(20))
        assert {paths.links[link] for links in onward.values() for link in links} == edges


def told(net, size, *, reads):
    """Let the same clients act on a network; return the verdicts, and what was dropped, worked and sent."""
    rng = random.Random(3)
    homes, lows = [rng.randrange(size) for _ in range(8)], [rng.random() for _ in range(8)]
    for number, (home, low) in enumerate(zip(homes, lows, strict=True)):
        net.advertise(f"p{number}", home, to_filter(attr("x").between(low, low + 0.4)), 25.0, 1)
    net.advance(0.4)
    for number in range(25):
        low = rng.random()
        net.subscribe(f"s{number}", rng.randrange(size), to_filter(attr("x").between(low, low + 0.2)))
        net.advance(0.4)
    said = [news for number in range(25) for news in net.news(f"s{number}") if isinstance(news, Judgement)]
    for _ in range(20):
        for number, (home, low) in enumerate(zip(homes, lows, strict=True)):
            net.publish(f"p{number}", home, [{"x": low + 0.2}] * 10)
        net.advance(0.4)
    net.advance(5.0)
    return said, reads.dropped_events(), reads.worked, reads.sent


@pytest.mark.parametrize(("share", "share_of"), [(None, "all"), (0.0, "way"), (0.2, "way"), (0.4, "way")])
def test_where_the_graph_is_a_tree_the_model_agrees_with_the_simulator(share, share_of):
    size, rng = 9, random.Random(5)
    graph = RandomGraph(range(size), 5, 1.0)
    capacities = {
        broker: Capacity(
            rng.uniform(80, 300), links={other: rng.uniform(150, 190) for other in graph.beside(broker)}
        )
        for broker in range(size)
    }
    config = AdmissionConfig(share, capacities=capacities, share_of=share_of)
    queues = Queues(capacities.__getitem__, 1.0)
    above = {f"B{each}": f"B{min(graph.links[each])}" if each else None for each in range(size)}
    simulated = Simulation(
        fixed(above).positions(), "hierarchical", admission=config, queues=queues, keep_notifications=False
    )
    model = GraphNetwork(graph, config, 1.0)
    theirs, ours = told(simulated, size, reads=queues), told(model, size, reads=model)
    assert [each.admitted for each in ours[0]] == [each.admitted for each in theirs[0]]
    if share != 0.0:  # otherwise a broker that refuses asks no further
        assert [each.asked for each in ours[0]] == [each.asked for each in theirs[0]]
    assert (sum(each.admitted for each in ours[0]) < 25) == (share is not None)
    assert sum(ours[1].values()) == pytest.approx(sum(theirs[1].values()), rel=0.05)
    for mine, its in zip(ours[2:], theirs[2:], strict=True):
        assert mine.total() == pytest.approx(its.total(), rel=0.1)


def test_all_brokers_judge_by_their_whole_advertisement_tree_and_those_on_the_way_by_what_comes():
    """The broker behind the subscriber carries nothing of it, and yet compares the demand with what it has free."""
    for share_of, refused in (("all", True), ("way", False)):
        net = network(cpu=(100.0, 100.0, 20.0), share_of=share_of)
        net.advertise("p", 0, ANY, 30.0, 1)
        said = verdict(net, 1)
        assert (not said.admitted) == refused and said.asked == (3 if share_of == "all" else 2)


@pytest.mark.parametrize(("share", "admitted"), [(0.0, False), (0.3, False), (0.34, True), (None, True)])
def test_a_share_of_the_brokers_may_refuse(share, admitted):
    net = network(share, cpu=(100.0, 100.0, 20.0))
    net.advertise("p", 0, ANY, 30.0, 1)
    assert verdict(net, 1).admitted == admitted


def test_what_was_admitted_is_reserved_once_or_for_each_subscription_and_is_free_again():
    for books, admitted in (("union", True), ("sum", False)):
        net = network(share_of="way", books=books)
        net.advertise("p", 0, ANY, 60.0, 1)
        net.subscribe("a", 2, to_filter("x < 9"))
        assert net.news("a")[-1].admitted and net.reserved()[0].tolist() == [60_000_000] * 3
        assert verdict(net, 2, to_filter("x < 8")).admitted == admitted
        net = network(share_of="way", books=books)
        net.advertise("p", 0, ANY, 60.0, 1)
        net.unsubscribe("a", net.subscribe("a", 2, to_filter("x < 9")))
        assert net.reserved()[0].tolist() == [60_000_000 * (books == "union"), 0, 0]
        assert verdict(net, 2, to_filter("x < 7")).admitted


def test_a_covered_subscription_asks_for_nothing_where_its_events_come_anyway():
    net = network(share_of="way")
    net.advertise("p", 0, ANY, 60.0, 1)
    net.subscribe("a", 2, to_filter("x < 9"))
    assert verdict(net, 2, to_filter("x < 8")).admitted
    assert not verdict(net, 2, to_filter("x < 10")).admitted, "nothing covers it, and 60 and 60 exceed 100"


def test_links_refuse_too_and_withdrawn_advertisements_ask_for_nothing():
    for share_of in ("all", "way"):
        net = network(link=20.0, share_of=share_of)
        net.advertise("p", 0, ANY, 30.0, 1)
        assert not verdict(net, 2).admitted
        net.unadvertise("p", 1)
        assert verdict(net, 2).admitted and net.reserved()[1].tolist() == [0] * 4


@pytest.mark.parametrize(("cpu", "link", "resource"), [(10.0, 1e9, "cpu"), (1e9, 10.0, "bandwidth")])
def test_what_waits_longer_than_the_deadline_is_dropped(cpu, link, resource):
    """As the simulator does: each of nine batches takes a second, and those that would wait more than five are lost."""
    net = network(None, cpu=(cpu,) * 3, link=link)
    net.advertise("p", 0, ANY, 100.0, 1)
    net.subscribe("s", 1, ANY)
    for _ in range(9):
        net.publish("p", 0, [{"x": 1}] * 10)
    net.advance(60.0)
    dropped = net.dropped_events()
    assert dropped[resource] == 30 and sum(dropped.values()) == 30 and net.notified == 60


def test_events_go_where_they_are_wanted_and_copies_cost_cpu_if_they_count():
    for counts, worked in (("events", {0: 4, 1: 4, 2: 4}), ("copies", {0: 8, 1: 8, 2: 4})):
        net = network(None, cpu_counts=counts)
        net.advertise("p", 0, ANY, 100.0, 1)
        net.subscribe("a", 2, ANY)
        net.subscribe("b", 1, to_filter("x > 5"))
        net.publish("p", 0, [{"x": 1}] * 4)
        net.advance(9.0)
        assert net.worked == worked and net.sent == {(0, 1): 4, (1, 2): 4} and net.notified == 4


def test_copies_keep_a_broker_busy_if_they_count():
    """A second for ten events, and one for their copies: of nine batches those wait too long that begin after 5 s."""
    for counts, lost in (("events", 30), ("copies", 50)):
        net = network(None, cpu=(10.0, 1e9, 1e9), link=1e9, cpu_counts=counts)
        net.advertise("p", 0, ANY, 100.0, 1)
        net.subscribe("s", 1, ANY)
        for _ in range(9):
            net.publish("p", 0, [{"x": 1}] * 10)
            net.advance(0.01)
        net.advance(3.0)
        net.publish("p", 0, [{"x": 1}] * 20)
        net.advance(60.0)
        assert net.dropped_events() == {"cpu": lost, "bandwidth": 0}


def test_what_is_advertised_later_is_reserved_for_those_that_were_admitted_before():
    net = network()
    net.subscribe("s", 1, to_filter("x > 5"))
    net.advertise("p", 0, ANY, 30.0, 1)
    net.advertise("q", 2, to_filter("x < 1"), 7.0, 1)
    assert net.reserved()[0].tolist() == [30_000_000, 30_000_000, 7_000_000]


def test_each_broker_has_an_entry_for_each_advertisement_and_each_admitted_subscription():
    net = network(cpu=(100.0, 100.0, 20.0))
    net.advertise("p", 0, ANY, 30.0, 1)
    assert net.used_entries() == pytest.approx(0.1)
    assert not verdict(net, 1).admitted and net.used_entries() == pytest.approx(0.1)
    assert verdict(net, 1, to_filter("x < 0")).admitted and net.used_entries() == pytest.approx(0.2)


def test_capacities_of_a_config_count():
    slow = replace(network()._config, capacities={}, capacity=Capacity(5.0))
    net = GraphNetwork(row_of(0, 1), slow, 5.0)
    net.advertise("p", 0, ANY, 10.0, 1)
    assert not verdict(net, 1).admitted
