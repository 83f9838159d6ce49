"""What a living broker of a view has missed is sent again under the next: its sender reports the failure.

Reference: promises 1 to 3; docs/decisions/0015-exactly-once.md, "What a living broker has missed".
"""

import itertools
import random

import pytest
from draws import of_each_kind, seeds, slow, thorough
from lacking import delivers_and_says_what_is_missing
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.effects import Missed, Renew
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.views import HealingViews
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

BROKERS = 6
PUBLISHERS = {5: "p", 0: "q"}
every_scheme = pytest.mark.parametrize("scheme", of_each_kind(["hypercube", "lbdd", "point-to-point"]))


def network(scheme, seed=1, **options):
    tree = ClusterTree(BROKERS, 1, degree=2)
    net = Simulation(tree.positions(), scheme, recovery=Recovery.for_simulator(), seed=seed, **options)
    for broker in net.positions:
        net.subscribe(f"s{broker}", broker, "n >= 0", 1)
    net.advance(3.0)
    return net


def publish(net, number):
    for broker, publisher in PUBLISHERS.items():
        net.publish(publisher, broker, [{"n": number}])
    net.advance(0.5)


def play(scheme, source, to, **options):
    """Let each publisher publish before, while and after one link loses messages; return the network."""
    net = network(scheme, **options)
    publish(net, 1)
    net.transport.break_link(source, to, over_group=False, after=0.7)
    for number in (2, 3, 4):
        publish(net, number)
    net.advance(30.0)
    publish(net, 5)
    net.account.settled(net.now)
    return net


@pytest.mark.parametrize(
    ("scheme", "stable"),
    [
        (slow if stable == (scheme == "lbdd") else thorough)(scheme, stable)
        for scheme in ("hypercube", "lbdd", "point-to-point")
        for stable in (False, True)
    ],
)
def test_what_was_lost_on_any_one_way_comes_again_and_nothing_twice(scheme, stable):
    lost = 0
    for source, to in itertools.permutations(range(BROKERS), 2):
        net = play(scheme, source, to, store=in_memory if stable else None)
        verdict = judge(net.account)
        assert verdict.holds, (source, to, verdict.examples)
        assert verdict.notifications_delivered == 5 * 2 * BROKERS
        assert not structure_problems(net) and not subscription_problems(net)
        lost += net.lost
    assert lost > 0


@every_scheme
def test_until_a_loss_is_repaired_the_network_says_that_it_has_not_settled(scheme):
    """Otherwise `settle` returns before it is. Reference: promise 6."""
    lost = 0
    for to in range(5):
        net = network(scheme)
        net.transport.break_link(5, to, over_group=False)
        net.publish("p", 5, [{"n": 1}])
        assert delivers_and_says_what_is_missing(net, BROKERS) < 30.0
        lost += net.lost
    assert lost > 0


@every_scheme
def test_a_broker_that_takes_no_note_of_it_loses_events(scheme, monkeypatch):
    monkeypatch.setattr(HealingViews, "_on_missed", lambda self, event: [Renew(event.broker, False)])
    assert not all(judge(play(scheme, 5, to).account).holds for to in range(5))


@every_scheme
def test_what_a_newcomer_has_to_be_told_is_told_again(scheme):
    """Otherwise it would wait for ever for what the other one wants, and take no part."""
    net = network(scheme)
    net.crash(2)
    net.advance(10.0)
    net.transport.break_link(0, 2, over_group=False, after=2.0)
    net.restart(2)
    net.advance(20.0)
    publish(net, 1)
    assert net.lost > 0 and not structure_problems(net) and not subscription_problems(net)
    assert net.broker(2).layer(HealingViews).takes_part


@every_scheme
def test_what_was_lost_to_an_earlier_life_is_in_doubt_since_the_view_of_the_next_one(scheme):
    """Otherwise a round would repair since the death, and report losses that are none."""
    net = network(scheme)
    net.crash(4)
    net.advance(50.0)
    broker = net.broker(5)
    broker.handle(Missed(4, False, 50.0, anew=True))
    before = broker.layer(HealingViews).rounds.pending_repair_seconds()
    net.restart(4)
    while 4 not in broker.layer(HealingViews).router.view.born:
        net.advance(0.25)
    net.advance(4.0)
    came = broker.layer(HealingViews).router.view.born[4]
    while broker.layer(HealingViews).version == came:
        broker.layer(HealingViews)._wants_round = True
        net.advance(0.25)
    broker.handle(Missed(4, False, 60.0, anew=True))
    assert before < 50.0 and 4.0 < broker.layer(HealingViews).rounds.pending_repair_seconds() < 10.0
    broker.handle(Missed(3, False, 50.0))
    assert broker.layer(HealingViews).rounds.pending_repair_seconds() >= 50.0


def test_a_way_that_stays_broken_makes_views_more_and_more_rarely():
    net = network("point-to-point")

    def go_on(number):
        net.transport.break_link(5, 3, over_group=False)
        net.publish("p", 5, [{"n": number}])

    for number in range(480):
        net.at(net.now + number / 2, go_on, number)
    net.advance(240.0)
    assert 3 < net.broker(5).layer(HealingViews).version < 20
    net.advance(60.0)
    net.account.settled(net.now)
    assert judge(net.account).holds


@every_scheme
@pytest.mark.parametrize("seed", seeds(3))
def test_ways_break_all_the_time(seed, scheme):
    net = network(scheme, seed, store=in_memory if seed % 2 == 0 else None)
    rng = random.Random(f"views missed/{seed}")
    for number in range(4):
        net.subscribe(f"d{number}", rng.randrange(BROKERS), f"n >= {number}", 1, durable=True)
    net.advance(2.0)
    for turn in range(60):
        if turn < 45:
            source, to = rng.sample(range(BROKERS), 2)
            net.transport.break_link(source, to, over_group=False, after=rng.choice((0.0, 0.3, 3.0)))
        broker = rng.choice(list(PUBLISHERS))
        net.publish(PUBLISHERS[broker], broker, [{"n": turn % 10}])
        net.advance(rng.random())
    net.advance(90.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert net.lost > 10 and not structure_problems(net) and not subscription_problems(net)
