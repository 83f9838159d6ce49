"""Which brokers are asked about a subscription, and how many messages that takes.

Reference: paper 3, 4.3 (b) and figure 7 (all verdicts are collected along the spanning tree), 4.4 (O(m) for m
brokers).
"""

import pytest
from rayvous.faults.simulated.judging import books_problems
from rayvous.protocol.messages.admission import (
    AdmissionConfig,
    Advertised,
    Ask,
    AskAnswer,
    Capacity,
    Judgement,
    KnownBehind,
    Release,
    Unadvertised,
)
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

KINDS = (Advertised, KnownBehind, Ask, AskAnswer, Release, Unadvertised)


def sent(net, before=None):
    """Return how many admission messages were sent, by type; since `before`, if that is given."""
    now = {kind: net.sent[kind] for kind in KINDS}
    return now if before is None else {kind: count - before[kind] for kind, count in now.items()}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("brokers", [4, 8, 16, 32])
def test_every_operation_takes_one_message_to_each_broker_and_one_back(name, brokers):
    net = Simulation(
        scheme(name).positions(ClusterTree(brokers // 2, 2).positions()), name, admission=AdmissionConfig(0.2)
    )
    others, before = brokers - 1, sent(net)
    net.advertise("p", 0, "x > 0", 5.0)
    net.run()
    assert sent(net, before) == dict.fromkeys(KINDS, 0) | {Advertised: others, KnownBehind: others}
    before = sent(net)
    number = net.subscribe("s", brokers - 1, "x > 3")
    net.run()
    assert sent(net, before) == dict.fromkeys(KINDS, 0) | {Ask: others, AskAnswer: others}
    before = sent(net)
    net.unsubscribe("s", number)
    net.run()
    assert sent(net, before) == dict.fromkeys(KINDS, 0) | {Release: others}
    before = sent(net)
    net.unadvertise("p")
    net.run()
    assert sent(net, before) == dict.fromkeys(KINDS, 0) | {Unadvertised: others}


def judged(share, share_of, weak):
    """Return (admitted, brokers asked, brokers refusing) for a subscription with four brokers on its way.

    The `weak` brokers have too little capacity for it.
    """
    net = Simulation(
        ClusterTree(10, 1, degree=1).positions(),
        "hierarchical",
        admission=AdmissionConfig(
            share,
            capacity=Capacity(100.0),
            capacities={broker: Capacity(5.0) for broker in weak},
            share_of=share_of,
        ),
    )
    net.advertise("p", 3, "x > 0", 20.0)
    net.run()
    net.subscribe("s", 6, "x > 3")
    net.run()
    [news] = [each for each in net.news("s") if isinstance(each, Judgement)]
    assert {refusal.broker for refusal in news.refusals} <= set(weak)
    return news.admitted, news.asked, len({refusal.broker for refusal in news.refusals})


def test_the_share_is_of_all_brokers_or_of_those_on_the_way():
    """Two of ten brokers refuse, both among the four on the way: 20 % of all, half of those on the way."""
    assert judged(0.2, "all", (4, 5)) == (True, 10, 2)
    assert judged(0.2, "all", (4, 5, 6)) == (False, 10, 3)
    assert judged(0.4, "way", (4, 5)) == (False, 4, 2)
    assert judged(0.4, "way", (4,)) == (True, 4, 1)
    assert judged(0.2, "way", (4,)) == (False, 4, 1), "of fewer than five, 20 % is the full guarantee"
    assert judged(0.0, "all", (4,)) == (False, 3, 1), (
        "under the full guarantee a broker that refuses asks nobody"
    )


def test_who_was_asked_before_there_was_a_publisher_lets_its_events_pass():
    """A filter that was asked everywhere is also held where no advertisement has matched it yet."""
    net = Simulation(ClusterTree(5, 1).positions(), "hierarchical", admission=AdmissionConfig(0.4))
    net.subscribe("s", 4, "x > 3")
    net.run()
    before = sent(net)
    net.advertise("p", 3, "x > 0", 20.0)
    net.run()
    assert sent(net, before)[Ask] == 0
    net.publish("p", 3, [{"x": 9}])
    net.run()
    assert len(net.notifications("s")) == 1 and books_problems(net) == []
