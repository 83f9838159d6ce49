"""Trees without clusters, every broker a node by itself, grow, shrink and are reorganised while events flow.

Reference: promises 1 to 3 and 6; paper 1, 4.2; docs/operations.md, "Trees without clusters".
"""

import pytest
from draws import slow, thorough
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.faults.simulated.judging import root_of, structure_problems, subscription_problems
from rayvous.protocol.messages.recovery import Probe, Recovery, YieldRoot
from rayvous.recovery.replay.ages import Ages
from rayvous.recovery.replay.rounds import Rounds
from rayvous.routing.schemes.claims import Membership
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.schemes.registry import scheme as scheme_of
from rayvous.routing.topologies.cluster_trees import ClusterTree, fixed
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey

SCHEMES = [name for name in NAMES if scheme_of(name).membership is Membership.NODES]
every_scheme = pytest.mark.parametrize("scheme", [slow(name) if "+" in name else name for name in SCHEMES])


class World:
    """A network with subscribers, a publisher that publishes all the time, and operations."""

    def __init__(self, scheme, topology, *, degree=4, **options):
        self.degree = degree
        recovery = Recovery.for_simulator(degree=degree)
        self.net = Simulation(topology.positions(), scheme, recovery=recovery, seed=3, **options)
        self.said = []
        self.operations = SimulatedOperations(self.net, self.said.append)
        for broker in list(self.net.hosts):
            self.net.subscribe(f"s{broker}", broker, f"n >= {broker}", 1)
        self.net.advance(3.0)
        self.turn = 0
        self.net.at(self.net.now, self.flow)

    def flow(self):
        self.net.publish("p", self.net.staying()[0], [{"n": self.turn % 10}])
        self.turn += 1
        if self.turn < 300:
            self.net.at(self.net.now + 0.1, self.flow)

    def parent(self, broker):
        above = survey(self.net, broker)["parent"]
        return None if above is None else above.designated

    def sound(self):
        assert structure_problems(self.net, self.degree) == [] == subscription_problems(self.net)

    def verify(self, assert_healed):
        self.net.advance(max(0.0, 45.0 - self.net.now))
        assert assert_healed(self.net).events_published == 300
        assert self.operations.leaving() == []
        self.sound()


@pytest.mark.slow
@every_scheme
def test_brokers_and_clusters_come_with_clients_and_go_while_events_flow(scheme, assert_healed):
    """Each one finds a parent by itself; a broker below one that leaves joins elsewhere first."""
    world = World(scheme, ClusterTree(2, 3, degree=2))
    new = world.operations.add_broker(1)
    cluster, brokers = world.operations.add_cluster(2)
    assert (new, cluster, brokers) == (6, 2, [7, 8]) and world.net.members[1] == (3, 4, 5, 6)
    world.net.advance(3.0)
    world.sound()
    assert all(survey(world.net, broker)["view"].members == (broker,) for broker in (new, *brokers))
    assert world.net.move("s0", new) and world.net.move("p", 7)
    world.net.advance(2.0)
    root = root_of(world.net)
    assert world.operations.remove_cluster(world.net.hosts[root].cluster) and world.operations.remove_broker(
        new
    )
    world.net.advance(5.0)
    assert world.net.sent[YieldRoot] >= 1 and world.net.sent[Probe] == 0, "nobody had to notice a silence"
    assert world.net.sessions["s0"].home.cluster == 1, "its clients stay in the cluster"
    world.net.crash(7)
    world.verify(assert_healed)
    assert world.net.living() == [3, 4, 5, 8]


def test_a_broker_that_came_is_started_again_as_what_it_was(assert_healed):
    """It comes back as a node by itself, not as a member of the cluster that it counts as part of."""
    world = World("hierarchical", ClusterTree(2, 2, degree=2))
    new = world.operations.add_broker(0)
    assert world.operations.remove_broker(0)
    world.net.advance(4.0)
    world.net.crash(new)
    world.net.advance(6.0)
    assert world.net.restart(new)
    world.net.advance(8.0)
    assert survey(world.net, new)["view"].members == (new,)
    world.verify(assert_healed)


def far(one, other):
    """Return delays at which broker 2 is far from all but broker 3."""
    if {one, other} == {2, 3}:
        return 0.02
    return 0.5 if 2 in (one, other) else 0.05


def test_a_broker_moves_to_a_clearly_nearer_parent_and_then_stays(assert_healed):
    world = World("match-first", fixed({"A": None, "B": "A", "C": "B", "D": "A"}, {}), delay_of=far)
    assert world.parent(2) == 1
    world.operations.reoptimise()
    world.net.advance(15.0)
    assert world.said == ["cluster 2 moved from below 1 to below 3"]
    world.operations.reoptimise()
    world.net.advance(15.0)
    assert len(world.said) == 1
    world.verify(assert_healed)


@pytest.mark.parametrize("seed", [0, thorough(1)])
@every_scheme
def test_operated_networks_that_are_broken_heal_and_lose_nothing(scheme, seed):
    """More seeds: ``rayvous chaos --scheme hierarchical --operations --seeds 500``."""
    report = run_chaos(seed, brokers_max=8, scheme=scheme, operations=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize("seed", [slow(0), thorough(1)])
@pytest.mark.parametrize("scheme", ["hierarchical", "flooding", "match-first"])
def test_larger_ones_with_everything_on(scheme, seed):
    report = run_chaos(seed, brokers_max=12, scheme=scheme, operations=True, stable=True, admission=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


def given_after_a_wait(seconds, before=0.0):
    """Return what a subscriber gets of 10 events published while it waits so long for its new broker.

    The broker stands still so many seconds after the subscriber has begun to move.
    """
    net = Simulation(ClusterTree(2, 1).positions(), "hierarchical", recovery=Recovery.for_simulator(), seed=1)
    net.subscribe("s", 0, "n >= 0", 1)
    net.advance(1.0)
    assert net.move("s", 1)
    net.advance(before)
    assert net.pause(1)
    for turn in range(10):
        net.at(net.now + turn / 10, net.publish, "p", 0, [{"n": turn}])
    net.advance(seconds)
    assert net.resume(1)
    net.advance(15.0)
    return net.notifications("s")


def test_who_waits_for_a_broker_that_stands_still_is_given_what_came_meanwhile(monkeypatch):
    """Its subscription is older by then than it said, so no event is too old for it. Reference: promise 2."""
    seconds = Recovery.for_simulator().unnoticed_seconds + 5.0
    assert seconds < Recovery.for_simulator().retention_seconds
    everything = [("p", number) for number in range(1, 11)]
    assert given_after_a_wait(seconds) == everything, "its question waits"
    assert given_after_a_wait(seconds, 0.00025) == everything, "it has read the clock, and what it says waits"
    monkeypatch.setattr(SubscriberMachine, "approach", lambda machine: [])
    assert given_after_a_wait(seconds) == everything, "it has not read the clock"
    monkeypatch.setattr(Ages, "_waited", lambda self, now: 0.0)
    assert given_after_a_wait(seconds) == []


def unannounced_after_a_stall(scheme):
    """Return the events that a subscriber lacks without report after its broker stalled beyond retention."""
    recovery = Recovery.for_simulator(retention_seconds=30.0)
    net = Simulation(ClusterTree(2, 1).positions(), scheme, recovery=recovery, seed=2)
    net.subscribe("s", 1, "n >= 0", 1)
    net.advance(3.0)
    for turn in range(45):
        net.at(net.now + turn, net.publish, "p", 0, [{"n": turn}])
    assert net.pause(1)
    net.advance(40.0)
    assert net.resume(1)
    net.advance(20.0)
    told = {each for lost in net.sessions["s"].subscriber.losses for each in range(lost.first, lost.last + 1)}
    lacks = set(range(1, 46)) - {sequence for _, sequence in net.notifications("s")}
    assert lacks
    return lacks - told


@pytest.mark.parametrize("scheme", ["hybrid", "hierarchical"])
def test_what_was_forgotten_while_a_broker_stood_still_is_told_by_name(scheme, monkeypatch):
    """Its parent dropped it long ago; what it notices on waking is as old as that. Reference: promise 2."""
    assert not unannounced_after_a_stall(scheme)
    monkeypatch.setattr(Rounds, "stood_still", lambda *_: None)
    assert unannounced_after_a_stall(scheme)
