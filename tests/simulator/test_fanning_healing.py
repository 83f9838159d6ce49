"""Clusters with fan-out under faults: nothing is lost, duplicated or out of order.

Reference: promises 1 to 3 and 6; paper 5, section 3; docs/decisions/0022-fan-out-that-heals.md.
"""

from collections import Counter

import pytest
from draws import slow, some_of, thorough
from rayvous.broker import fanout
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.effects import Multicast, Renew, Send
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import ClusterBeat, Recovery
from rayvous.recovery.membership.group import Group
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.lbdd_plan import plan
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

MEMBERS = 10
PUBLISHER = 3


def plan_among(members, origin=PUBLISHER):
    return plan(origin, [member for member in members if member != origin]).children


INNER = [each for each, below in plan_among(range(MEMBERS)).items() if below and each != PUBLISHER]
"""The brokers that forward what broker 3 sends to its cluster."""


class Sent:
    """Counts the events that members send each other, and multicasts of events."""

    def __init__(self):
        self.copies, self.multicasts = Counter(), 0

    def __call__(self, step):
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Events):
                self.copies[step.broker.position.broker, effect.to] += len(effect.message.batch)
            elif isinstance(effect, Multicast) and isinstance(effect.message, Events):
                self.multicasts += 1


def network(tree=None, **options):
    tree = tree or ClusterTree(1, MEMBERS)
    net = Simulation(tree.positions(), "hybrid+fanout", recovery=Recovery.for_simulator(), seed=2, **options)
    for broker in net.positions:
        net.subscribe(f"s{broker}", broker, "n >= 0", 1)
    net.advance(3.0)
    assert not net.unconfirmed()
    return net


def publish_for(net, seconds, per_second=10, publisher="p", broker=PUBLISHER):
    for turn in range(round(seconds * per_second)):
        net.at(net.now + turn / per_second, net.publish, publisher, broker, [{"n": turn}])


@pytest.mark.parametrize("dead", [[MEMBERS - 1], INNER[:1], [*INNER, 0], [PUBLISHER]])
def test_members_that_pass_events_on_die_while_others_publish(dead, assert_healed):
    """The highest is the designated broker; an inner one loses the events in transit through it."""
    net = network()
    publish_for(net, 20)
    for broker in dead:
        net.at(net.now + 5.0, net.crash, broker)
    net.advance(40.0)
    assert assert_healed(net).events_published == 200


def test_events_go_by_the_plan_of_those_that_live(assert_healed):
    """Each member gets one copy, from the sender in the plan; nothing is multicast. Reference: promise 4."""
    sent = Sent()
    net = network(record=sent)
    net.crash(INNER[0])
    net.advance(15.0)
    before = sent.copies.copy()
    net.publish("p", PUBLISHER, [{"n": 1}])
    net.advance(2.0)
    living = [member for member in range(MEMBERS) if member != INNER[0]]
    due = {(sender, to): 1 for sender, below in plan_among(living).items() for to in below}
    assert sent.copies - before == due and not sent.multicasts
    assert_healed(net)


def test_whoever_joins_is_in_all_plans_and_whoever_leaves_in_none(assert_healed):
    sent = Sent()
    net = network(ClusterTree(2, 5), record=sent)
    operations = SimulatedOperations(net)
    publish_for(net, 18)
    net.at(net.now + 3.0, operations.add_broker, 0)
    net.at(net.now + 10.0, operations.remove_broker, 1)
    net.advance(25.0)
    assert_healed(net)
    before = sent.copies.copy()
    net.publish("p", PUBLISHER, [{"n": 1}])
    net.advance(2.0)
    inside = {link for link in sent.copies - before if set(link) <= {0, 2, 3, 4, 10}}
    assert inside == {(sender, to) for sender, below in plan_among([0, 2, 3, 4, 10]).items() for to in below}


WAYS = {
    "from the origin": (PUBLISHER, INNER[0]),
    "from an inner member": (INNER[0], plan_among(range(MEMBERS))[INNER[0]][0]),
    "from the designated one": (MEMBERS - 1, plan_among(range(MEMBERS), MEMBERS - 1)[MEMBERS - 1][0]),
}


def play(way, after=0.7):
    """Let two brokers publish before, while and after one link between members loses messages."""
    net = network()
    for number in range(12):
        for publisher, broker in (("p", PUBLISHER), ("q", MEMBERS - 1)):
            net.publish(publisher, broker, [{"n": number}])
        net.advance(0.5)
        if number == 3:
            net.transport.break_link(*way, over_group=False, after=after)
    net.advance(30.0)
    net.account.settled(net.now)
    return net


@pytest.mark.parametrize("after", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_that_was_lost_between_members_comes_again_also_to_those_behind(way, after, assert_healed):
    net = play(way, after)
    assert assert_healed(net).notifications_delivered == 12 * 2 * MEMBERS
    assert (net.lost > 0) == (after > 0), "what is known to be missed is not sent, so it is not lost"


def test_what_comes_before_its_ballot_waits_and_what_cannot_wait_comes_again(monkeypatch, assert_healed):
    """The beat that begins a ballot is late at a member that others send events to. Reference: promise 9."""
    for held_max in (fanout.HELD_MAX, 2):
        monkeypatch.setattr(fanout, "HELD_MAX", held_max)
        net = network()
        late, transmit = INNER[0], net.transport.transmit

        def slowly(connection, received, leaves, net=net, late=late, transmit=transmit):
            if connection.target.id == late and isinstance(received.message, ClusterBeat):
                net.at(leaves + 1.5, transmit, connection, received, leaves + 1.5)
            else:
                transmit(connection, received, leaves)

        publish_for(net, 8)
        publish_for(net, 8, publisher="q", broker=MEMBERS - 1)
        net.at(net.now + 2.0, net.crash, 0)
        net.transport.transmit = slowly
        held = 0
        for _ in range(120):
            net.advance(0.1)
            held = max(held, net.broker(late).describe()["held_for_ballot"])
        assert held == held_max if held_max == 2 else held > 2
        net.transport.transmit = transmit
        net.advance(30.0)
        assert_healed(net)


def test_plans_that_change_under_one_ballot_lose_events(monkeypatch):
    """Shows that the tests above can fail."""
    change = Group._change_members

    def unmoved(group, joined, left):
        """Keep the ballot when members join and leave."""
        group._plans = False
        out = change(group, joined, left)
        group._plans = True
        return out

    monkeypatch.setattr(Group, "_change_members", unmoved)
    net = network()
    publish_for(net, 20)
    net.at(net.now + 5.0, net.crash, INNER[0])
    net.advance(40.0)
    net.account.settled(net.now)
    assert not judge(net.account).holds


@pytest.mark.parametrize("way", [WAYS["from the origin"], WAYS["from an inner member"]])
def test_a_member_that_only_goes_on_loses_events(monkeypatch, way):
    def careless(group):
        """Resume sending to a member that has missed something, under the same ballot."""
        back, group._missed = list(group._missed), {}
        return [Renew(member, True) for member in back]

    monkeypatch.setattr(Group, "_mend", careless)
    assert not judge(play(way).account).holds


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {"brokers_max": 12}),
        slow(1, {"brokers_max": 12}),
        thorough(2, {"brokers_max": 12}),
        *(
            (slow if seed < 2 else thorough)(
                seed, {"brokers_max": 24, "stable": seed % 2 == 0, "operations": True}
            )
            for seed in range(6)
        ),
    ],
)
def test_clusters_that_are_broken_heal_and_lose_nothing(seed, options):
    """More seeds: ``rayvous chaos --scheme hybrid+fanout --seeds 500``."""
    report = run_chaos(seed, scheme="hybrid+fanout", **options)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize("seed", some_of([28, 46], 46))
def test_a_member_that_missed_a_copy_hears_at_once_what_goes_to_it_alone(seed):
    """Regression: a lost greeting waited until copies were sent again, and was never repeated."""
    report = run_chaos(seed, scheme="hybrid+fanout", brokers_max=6, admission=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
