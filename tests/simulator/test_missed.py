"""What a living broker has missed because a call to it failed is sent again: the sender reports the failure.

Reference: promises 1 to 3; docs/decisions/0015-exactly-once.md, "What a living broker has missed".
"""

import random

import pytest
from draws import seeds, slow
from lacking import delivers_and_says_what_is_missing
from rayvous.broker import Broker
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.effects import Missed, Received, Renew, Ticked
from rayvous.protocol.messages.recovery import (
    RENDEZVOUS,
    ClusterBeat,
    ClusterView,
    MemberBeat,
    Recovery,
    TreeBeat,
)
from rayvous.protocol.messages.rounds import AskRound
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

CHAIN = ClusterTree(3, 3, degree=1)
"""Clusters of 0 1 2, 3 4 5 and 6 7 8, each below the one before; the last broker of each is its designated broker."""

WAYS = {
    "up the tree": (8, 5, False),
    "down the tree": (5, 8, False),
    "from the designated broker": (5, 4, True),
    "to the designated broker": (7, 8, True),
    "between normal brokers": (7, 6, True),
}
PUBLISHERS = {7: "p", 0: "q"}

every_scheme = pytest.mark.parametrize("scheme", ["hybrid", "hybrid+quench+merge"])


def network(tree=CHAIN, scheme="hybrid", **options):
    net = Simulation(tree.positions(), scheme, recovery=Recovery.for_simulator(), seed=1, **options)
    for broker in net.positions:
        net.subscribe(f"s{broker}", broker, "n >= 0", 1)
    net.advance(3.0)
    return net


def publish(net, number):
    for broker, publisher in PUBLISHERS.items():
        net.publish(publisher, broker, [{"n": number}])
    net.advance(0.5)


def play(way, **options):
    """Let each publisher publish before, while and after one link loses messages; return the network."""
    net = network(**options)
    publish(net, 1)
    source, to, over_group = way
    net.transport.break_link(source, to, over_group=over_group, after=0.7)
    publish(net, 2)
    publish(net, 3)
    publish(net, 4)
    net.advance(30.0)
    publish(net, 5)
    net.account.settled(net.now)
    return net


@every_scheme
@pytest.mark.parametrize("stable", [False, slow(True)])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_was_lost_on_one_way_comes_again_and_nothing_twice(way, stable, scheme):
    net = play(way, store=in_memory if stable else None, scheme=scheme)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert verdict.notifications_delivered == 5 * 2 * 9
    assert net.lost > 0 and not structure_problems(net) and not subscription_problems(net)


@pytest.mark.parametrize("cluster", [0, 1, 2])
@pytest.mark.parametrize("after", [0.0, 0.7, 5.0, 9.0])
def test_two_members_that_have_both_missed_something_find_together_again(cluster, after):
    """Neither sends the other a multicast; without heartbeats both would stay designated for ever."""
    net = network(ClusterTree(3, 2, degree=1))
    one, other = 2 * cluster, 2 * cluster + 1
    for publisher, broker in (("p", one), ("q", other)):
        net.publish(publisher, broker, [{"n": 1}])
    net.advance(0.5)
    net.transport.break_link(one, other, over_group=True, after=after)
    net.transport.break_link(other, one, over_group=True, after=after)
    for number in (2, 3):
        for publisher, broker in (("p", one), ("q", other)):
            net.publish(publisher, broker, [{"n": number}])
        net.advance(40.0)
    net.account.settled(net.now)
    assert not structure_problems(net) and not subscription_problems(net)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert verdict.notifications_delivered == 3 * 2 * 6


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_broker_that_takes_no_note_of_it_loses_events(way, monkeypatch):
    def ignore(self, event):
        return [Renew(event.broker, event.over_group)]

    monkeypatch.setattr(HealingBroker, "_on_missed", ignore)
    net = play(way)
    assert not judge(net.account).holds


def test_a_round_that_a_normal_broker_asked_for_in_vain_is_asked_for_again():
    """A subscriber has moved there and hears nothing before the round. Reference: paper 1, 4.2; promise 1."""
    net = network()
    publish(net, 1)
    sent = net.sent[AskRound]
    assert net.move("s0", 7)
    while net.sent[AskRound] == sent:
        net.transport.break_link(7, 8, over_group=False, after=0.3)
        net.advance(0.02)
    publish(net, 2)
    net.advance(10.0)
    assert net.lost > 0 and not structure_problems(net) and not subscription_problems(net)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples


@every_scheme
@pytest.mark.parametrize("way", [WAYS["up the tree"], WAYS["to the designated broker"]])
def test_a_subscription_that_was_lost_on_its_way_is_installed(way, scheme):
    net = network(scheme=scheme)
    net.transport.break_link(way[0], way[1], over_group=way[2], after=0.5)
    net.subscribe("late", 7, "n < 0", 1)
    net.advance(0.2)
    assert net.unconfirmed() == [("late", 1)]
    net.advance(20.0)
    assert net.unconfirmed() == [] and not subscription_problems(net)


def test_a_member_that_has_long_been_dropped_gets_nothing_before_it_is_back():
    """It is stalled: messages to it fail after it was dropped from the members, which it does not know."""
    net = network()
    publish(net, 1)
    net.pause(4)
    net.advance(10.0)
    assert 4 not in net.broker(5).layer(HealingBroker).place.view.members
    net.transport.break_link(5, 4, over_group=True)
    publish(net, 2)
    publish(net, 3)
    net.resume(4)
    publish(net, 4)
    net.advance(30.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert verdict.notifications_delivered == 4 * 2 * 9


def test_a_member_that_has_missed_something_and_died_keeps_nobody_from_rest():
    net = network()
    net.crash(4)
    net.advance(10.0)
    for other in (5, 3):
        net.transport.break_link(other, 4, over_group=True)
    net.advance(1.0)
    parts = [net.broker(other).layer(HealingBroker).group for other in (5, 3)]
    assert [(list(part._missed), part.busy) for part in parts] == [([4], False)] * 2
    net.restart(4)
    publish(net, 1)
    net.advance(20.0)
    net.account.settled(net.now)
    assert judge(net.account).holds and not structure_problems(net) and not subscription_problems(net)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_until_a_loss_is_repaired_the_network_says_that_it_has_not_settled(way):
    """Otherwise `settle` returns before it is. Reference: promise 6."""
    net, (source, to, over_group) = network(), way
    net.transport.break_link(source, to, over_group=over_group)
    for broker, publisher in PUBLISHERS.items():
        net.publish(publisher, broker, [{"n": 1}])
    assert delivers_and_says_what_is_missing(net, 2 * len(net.positions)) < 10.0


def test_who_is_no_neighbour_has_missed_nothing_of_the_tree():
    broker = Broker(CHAIN.positions()[5], recovery=Recovery.for_simulator())
    broker.handle(Ticked(0.0))
    before = broker.layer(HealingBroker).survey()
    assert broker.handle(Missed(0, False, 1.0)) == [Renew(0, False)]
    assert broker.handle(Missed(99, True, 1.0)) == []
    assert broker.layer(HealingBroker).survey() == before


@pytest.mark.parametrize("anew", [False, True])
def test_the_repair_window_goes_no_further_back_than_a_broker_was_a_neighbour_or_a_member(anew):
    """What was sent earlier went to an earlier incarnation; counting it would report losses that are none."""
    broker = Broker(CHAIN.positions()[5], recovery=Recovery.for_simulator())
    broker.handle(Ticked(4999.0))
    broker.handle(Ticked(5000.0))
    broker.handle(Received(7, TreeBeat(ClusterView(2, 1, 7, (6, 7)), (), 1)))
    broker.handle(Received(4, MemberBeat(1, 0, 1)))  # it was restarted
    broker.handle(Ticked(5001.0))
    links = broker.layer(HealingBroker).rounds
    links.repair_from(5001.0)
    broker.handle(Missed(7, False, 4000.0, anew))
    assert links.pending_repair_seconds() == 1.0
    broker.handle(Missed(4, True, 4000.0, anew))
    assert broker.layer(HealingBroker).group._missed == {4: 4999.0}


@every_scheme
@pytest.mark.parametrize("seed", seeds(4))
def test_ways_break_all_the_time(seed, scheme):
    tree = ClusterTree(5, 3, degree=2)
    net = Simulation(
        tree.positions(),
        scheme,
        recovery=Recovery.for_simulator(),
        seed=seed,
        store=in_memory if seed % 2 == 0 else None,
    )
    rng = random.Random(f"missed/{seed}")
    brokers = list(net.positions)
    for number in range(8):
        net.subscribe(f"s{number}", rng.choice(brokers), f"n >= {number}", 1, durable=number % 2 == 0)
    homes = {f"p{number}": rng.choice(brokers) for number in range(3)}
    net.advance(4.0)
    for turn in range(80):
        one = net.positions[rng.choice(brokers)]
        over_group = rng.random() < 0.5
        others = [other for other in (one.members if over_group else one.neighbours) if other != one.broker]
        if others and turn < 60:
            late = rng.choice((0.0, 0.3, 3.0))
            net.transport.break_link(one.broker, rng.choice(others), over_group=over_group, after=late)
        publisher = rng.choice(list(homes))
        net.publish(publisher, homes[publisher], [{"n": turn % 10}])
        net.advance(rng.random())
    net.advance(60.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert net.lost > 20 and not structure_problems(net) and not subscription_problems(net)


def test_a_member_that_was_left_out_and_never_heard_of_it_tells_again_what_it_wants():
    """It is silent too long, is dropped and taken in again, and the heartbeat between the two is lost."""
    net = network()
    designated = net.hosts[5].machine.layer(HealingBroker)
    transmit, dropped = net.transport.transmit, []

    def lossy(connection, received, leaves):
        message = received.message
        way = connection.source.id, connection.target.id
        if way == (4, 5) and isinstance(message, MemberBeat) and not dropped:
            dropped.extend({4} - set(designated.place.view.members))
            return
        if way == (5, 4) and isinstance(message, ClusterBeat) and 4 not in message.view.members:
            return
        transmit(connection, received, leaves)

    net.transport.transmit = lossy
    publish(net, 1)
    net.advance(20.0)
    assert dropped and 4 in designated.place.view.members
    publish(net, 2)
    net.subscribe("late", 4, "n < 0", 1)
    net.advance(20.0)
    assert not subscription_problems(net) and net.unconfirmed() == []
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert verdict.notifications_delivered == 2 * 2 * 9


def test_who_was_started_again_is_reached_when_it_is_heard_and_what_was_lost_before_is_told():
    """As on Ray. Nobody misses anything of the rendezvous point, as it is asked and answers repeatedly."""
    seen = []
    net = network(
        strangers=True, record=lambda step: seen.append((step.broker.position.broker, step.received))
    )
    net.crash(4)
    net.advance(4.0)
    publish(net, 1)
    net.crash(RENDEZVOUS)
    net.advance(1.0)
    net.restart(RENDEZVOUS)
    net.restart(4)
    net.advance(20.0)
    publish(net, 2)
    net.account.settled(net.now)
    told = {(broker, event.broker) for broker, event in seen if isinstance(event, Missed) and event.anew}
    assert told and {other for _, other in told} == {4}
    assert judge(net.account).holds and not structure_problems(net) and not subscription_problems(net)
