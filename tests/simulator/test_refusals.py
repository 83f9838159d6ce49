"""Each resource alone can cause a refusal that names it, and what is admitted stays within its limit.

Reference: paper 3, 4.1 (bandwidth, CPU, memory) and 4.2 (the three conditions of a node).
"""

import pytest
from rayvous.broker.admission import Admitting
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Judgement, Refusal
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

SECONDS = 12


def row(share, **capacity):
    """Return three brokers in a row, with a publisher of 20 events/s at the first and two at the second."""
    capacities = {1: Capacity(**capacity)}
    net = Simulation(
        ClusterTree(3, 1, degree=1).positions(),
        "hierarchical",
        admission=AdmissionConfig(share, capacities=capacities),
        queues=Queues(lambda broker: capacities.get(broker, Capacity()), 5.0),
    )
    net.homes = {"p0": 0, "p1": 1, "p2": 1}
    for number, (publisher, home) in enumerate(net.homes.items()):
        net.advertise(publisher, home, f"n = {number}", 20.0)
    net.run()
    return net


def ask(net):
    """Let three subscribers at the last broker ask for one publisher's events each; return the judgements."""
    for number in range(3):
        net.subscribe(f"s{number}", 2, f"n = {number}")
        net.run()
    return [
        next(news for news in net.news(f"s{number}") if isinstance(news, Judgement)) for number in range(3)
    ]


def publish(net, seconds=SECONDS):
    for _ in range(seconds):
        for number, (publisher, home) in enumerate(net.homes.items()):
            net.publish(publisher, home, [{"n": number}] * 20)
        net.advance(1.0)
    net.run()


@pytest.mark.parametrize(
    ("capacity", "refused", "measured"),
    [
        # Its own two publishers take 40 of the CPU; with 50 the 20 from the first broker are too many.
        ({"events_per_second": 50.0}, [(0, Refusal(1, "cpu", 20.0, 10.0))], "cpu"),
        # Two of the three fit over the link to the last broker.
        ({"links": {2: 50.0}}, [(2, Refusal(1, "bandwidth", 20.0, 10.0, 2))], "bandwidth"),
        # It has room for three advertisements and one filter.
        (
            {"entries": 4},
            [(1, Refusal(1, "memory", 1.0, 0.0)), (2, Refusal(1, "memory", 1.0, 0.0))],
            "memory",
        ),
    ],
)
def test_a_broker_that_lacks_one_resource_refuses_by_its_name(capacity, refused, measured):
    net = row(0.0, **capacity)
    told = ask(net)
    assert [(place, *news.refusals) for place, news in enumerate(told) if not news.admitted] == refused
    publish(net)
    assert not any(net.queues.dropped_events().values())
    reserved, most = net.broker(1).layer(Admitting).admission.books.describe()["memory"]
    assert reserved <= most
    assert net.queues.taken_in[1] <= capacity.get("events_per_second", 60.0) * (SECONDS + 1)
    assert net.queues.sent[1, 2] <= 50.0 * (SECONDS + 1)
    assert len(net.sessions) == 6 and net.clients.refused == len(refused)


@pytest.mark.parametrize(
    ("capacity", "dropped"), [({"events_per_second": 50.0}, "cpu"), ({"links": {2: 50.0}}, "bandwidth")]
)
def test_with_everybody_admitted_the_same_load_is_dropped_for_want_of_that_resource(capacity, dropped):
    """The load is 60 events a second for 50: after 36 seconds, more than five seconds' worth is waiting."""
    net = row(None, **capacity)
    assert all(news.admitted for news in ask(net))
    publish(net, 36)
    lost = net.queues.dropped_events()
    assert lost[dropped] > 0 and sum(lost.values()) == lost[dropped]
