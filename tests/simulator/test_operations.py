"""A network is operated while events flow: it grows, shrinks and moves; nothing is lost or duplicated.

Reference: promises 1, 2, 3, 5 and 6; paper 1, 4.2; docs/operations.md.
"""

import pytest
from draws import of_each_kind, slow, thorough
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import ClusterBeat, JoinAnswer, Probe, Recovery, YieldRoot
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree, fixed
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey


class World:
    """A network with a subscriber and a publisher at each of its first brokers, and operations."""

    def __init__(self, topology, *, degree=2, **options):
        recovery = Recovery.for_simulator(degree=degree)
        self.degree = degree
        self.net = Simulation(topology.positions(), recovery=recovery, seed=5, **options)
        self.said = []
        self.operations = SimulatedOperations(self.net, self.said.append)
        self.brokers = list(self.net.hosts)
        for broker in self.brokers:
            self.net.subscribe(f"s{broker}", broker, "n >= 0", 1)
        self.net.advance(3.0)
        self.flowing = True
        self.flow(0)

    def flow(self, number):
        if self.flowing:
            for broker in self.brokers:
                self.net.publish(f"p{broker}", broker, [{"n": number}])
            self.net.at(self.net.now + 0.1, self.flow, number + 1)

    def count(self, *kinds):
        return [self.net.sent[kind] for kind in kinds]

    def sound(self):
        problems = structure_problems(self.net, self.degree) or subscription_problems(self.net)
        assert not problems, problems

    def head(self, cluster):
        return next(
            b for b in self.net.living() if self.designated(b) and self.net.hosts[b].cluster == cluster
        )

    def designated(self, broker):
        return self.net.broker(broker).layer(HealingBroker).designated

    def parent(self, cluster):
        parent = survey(self.net, self.head(cluster))["parent"]
        return None if parent is None else parent.cluster

    def verify(self):
        self.flowing = False
        self.net.advance(5.0)
        self.sound()
        self.net.account.settled(self.net.now)
        verdict = judge(self.net.account)
        assert verdict.holds, verdict
        assert verdict.notifications_expected > 500
        for broker in self.net.living():
            self.net.broker(broker).check()


def test_a_broker_joins_a_cluster_and_takes_clients_at_once():
    world = World(ClusterTree(3, 2, degree=2))
    broker = world.operations.add_broker(1)
    assert world.net.move("s0", broker) and world.net.move("p3", broker)
    world.net.advance(2.0)
    world.sound()
    for member in world.net.members[1]:
        assert world.net.broker(member).layer(HealingBroker).place.view.members == (2, 3, broker)
    above = world.net.broker(world.head(0)).layer(HealingBroker)
    assert above.place.children[1].members == (2, 3, broker)
    # It can take over like any other, and would be next: it has the highest id.
    assert world.net.crash(3)
    world.net.advance(8.0)
    assert world.head(1) == broker
    world.verify()


def test_a_cluster_joins_by_cmtp_and_its_clients_work():
    world = World(ClusterTree(2, 2, degree=2))
    before = world.net.now
    cluster, brokers = world.operations.add_cluster(3)
    assert (cluster, brokers) == (2, [4, 5, 6])
    assert world.net.move("s0", 4) and world.net.move("p1", 5) and world.net.move("p2", 6)
    world.net.advance(1.0)
    assert (
        structure_problems(world.net, 2) == [] and world.net.now - before < Recovery().suspect_after_seconds
    )
    world.net.advance(3.0)
    world.sound()
    assert world.head(cluster) == 6
    world.verify()


def test_a_normal_broker_leaves_with_a_word():
    world = World(ClusterTree(2, 3, degree=2))
    assert world.operations.remove_broker(3)
    world.net.advance(2.0)
    assert world.said == ["broker 3 has left"]
    world.sound()
    assert world.net.broker(4).layer(HealingBroker).place.view.members == (4, 5)
    assert world.net.broker(4).layer(HealingBroker).place.other_members == {5}
    assert not world.net.restart(3)
    world.verify()


def test_a_designated_broker_hands_over_without_silence():
    """The successor takes over long before any failure detector could have suspected the broker."""
    world = World(ClusterTree(4, 3, degree=2))
    takeovers = []
    world.net.watchers[ClusterBeat] = lambda now, source, to, beat: takeovers.append((beat.view.epoch, now))
    asked = world.net.now
    assert world.operations.remove_broker(5)  # the designated broker of cluster 1, which has a child
    world.net.advance(2.0)
    assert world.said == ["broker 5 has left"] and world.head(1) == 4
    assert min(now for epoch, now in takeovers if epoch == 1) - asked < 0.1
    assert world.count(Probe) == [0]
    world.net.advance(2.0)
    world.verify()


def test_a_cluster_leaves_after_its_children_have_joined_elsewhere():
    world = World(
        ClusterTree(4, 2, degree=1), degree=1
    )  # a chain: the only room is the place that becomes free
    left = []
    world.net.watchers[JoinAnswer] = lambda now, source, to, answer: left.append(
        (answer.accepted, answer.reason)
    )
    assert [world.parent(cluster) for cluster in (1, 2, 3)] == [0, 1, 2]
    assert world.operations.remove_cluster(1)
    world.net.advance(8.0)
    assert sorted(world.said) == ["broker 2 has left", "broker 3 has left"]
    assert (world.parent(2), world.parent(3)) == (0, 2)
    assert world.count(Probe) == [0]
    world.verify()


def test_the_roots_cluster_leaves_and_a_child_is_root_at_once():
    world = World(ClusterTree(5, 2, degree=2))
    assert world.operations.remove_cluster(0)
    world.net.advance(8.0)
    assert sorted(world.said) == ["broker 0 has left", "broker 1 has left"]
    assert world.count(YieldRoot) == [1] and world.count(Probe) == [0]
    assert world.net.rendezvous.machine.term == 2
    assert world.net.rendezvous.machine.root.cluster in (1, 2)
    world.verify()


def test_all_but_one_leave_together():
    world = World(ClusterTree(4, 2, degree=2))
    for broker in world.brokers[1:]:
        assert world.operations.remove_broker(broker)
    assert not world.operations.remove_broker(0), "the last one is kept"
    world.net.advance(30.0)
    assert world.net.living() == [0] and not world.operations.leaving()
    world.verify()


def test_whoever_dies_while_it_leaves_is_not_missed():
    world = World(ClusterTree(4, 2, degree=2))
    assert world.operations.remove_cluster(1)
    world.net.advance(0.1)
    world.net.crash(3)
    world.net.advance(20.0)
    assert not world.operations.leaving() and world.net.living() == [0, 1, 4, 5, 6, 7]
    world.verify()


def far(one, other):
    """Return delays at which C (broker 2) is far from all brokers but D (broker 3)."""
    if {one, other} == {2, 3}:
        return 0.02
    return 0.5 if 2 in (one, other) else 0.05


def test_a_cluster_moves_to_a_clearly_nearer_parent_and_then_stays():
    tree = fixed({"A": None, "B": "A", "C": "B", "D": "A"}, {})  # A 0, B 1, C 2, D 3: C hangs below B
    world = World(tree, delay_of=far)
    assert world.parent(2) == 1
    world.operations.reoptimise()
    world.net.advance(15.0)
    assert world.said == ["cluster 2 moved from below 1 to below 3"]
    world.sound()
    world.operations.reoptimise()
    world.net.advance(15.0)
    assert len(world.said) == 1
    world.verify()


@pytest.mark.slow
def test_a_tree_that_is_good_enough_stays():
    tree = fixed({"A": None, "B": "A", "C": "B", "D": "A"}, {})
    world = World(tree, delay_of=lambda one, other: 0.08 if {one, other} == {2, 3} else 0.1)
    before = [world.parent(cluster) for cluster in (1, 2, 3)]
    world.operations.reoptimise()
    world.net.advance(15.0)
    assert not world.said and [world.parent(cluster) for cluster in (1, 2, 3)] == before
    world.verify()


@pytest.mark.parametrize("degree", [2, 3])
def test_a_child_whose_link_to_the_root_is_cut_joins_a_child_of_the_root(degree):
    """The link stays cut for good. The search of figure 3 begins at the root, which this child cannot reach.

    Reference: paper 1, 4.2.1.
    """
    world = World(ClusterTree(3, 1, degree=2), degree=degree)
    assert [world.parent(cluster) for cluster in (1, 2)] == [0, 0]
    world.net.cut([(0, 1)], "for good")
    world.net.advance(25.0)
    assert world.parent(1) == 2 and world.parent(2) == 0
    world.verify()


@pytest.mark.slow
def test_a_tree_link_is_cut_in_the_middle_of_a_run():
    """The child joins another parent, and the network stays sound when the link is mended later."""
    world = World(ClusterTree(4, 2, degree=2))
    child = next(cluster for cluster in (1, 2, 3) if world.parent(cluster) not in (None, 0))
    parent = world.parent(child)
    ends = world.head(parent), world.head(child)
    world.net.cut([ends], "in the middle")
    world.net.advance(20.0)
    assert world.parent(child) != parent
    world.sound()
    assert world.net.mend("in the middle")
    world.net.advance(5.0)
    world.verify()


def test_who_is_overloaded_takes_no_more_children():
    """Reference: paper 1, figure 3: a request is refused by degree or by load."""
    recovery = Recovery.for_simulator(degree=8, load_max=50.0)
    net = Simulation(ClusterTree(2, 1, degree=8).positions(), recovery=recovery, seed=1)
    reasons = []
    net.watchers[JoinAnswer] = lambda now, source, to, answer: reasons.append((source, answer.reason))
    for number in range(2_000):  # 100 a second, all of them through the root
        net.at(1.0 + number / 100, net.publish, "p", 0, [{"n": number}])
    net.advance(5.0)
    _, (broker,) = SimulatedOperations(net).add_cluster(1)
    net.advance(5.0)
    assert (0, "overloaded") in reasons
    parent = net.broker(broker).layer(HealingBroker).place.parent
    assert parent is not None and parent.cluster == 1, "whoever is not overloaded takes it"
    assert net.sent[Events] == 0 and not structure_problems(net)


def overloaded_root():
    """Return a network whose root has twice the load at which it takes children, and a broker that joins."""
    recovery = Recovery.for_simulator(degree=8, load_max=5.0)
    net = Simulation(ClusterTree(1, 1).positions(), recovery=recovery, seed=1)
    for number in range(400):
        net.at(1.0 + number / 10, net.publish, "p", 0, [{"n": number}])
    net.advance(5.0)
    _, (broker,) = SimulatedOperations(net).add_cluster(1)
    net.advance(20.0)
    return net, broker


def test_whom_nobody_takes_for_load_is_taken_as_a_last_resort():
    """Promise 6: the survivors form one tree, even when all are overloaded."""
    net, _ = overloaded_root()
    assert net.broker(0).describe()["refused_joins"] == 1
    assert structure_problems(net) == [] == subscription_problems(net)


def test_what_cannot_be_operated_says_why():
    operations = SimulatedOperations(Simulation(ClusterTree(1, 1).positions(), recovery=Recovery()))
    with pytest.raises(InputError, match="cluster 3 does not exist"):
        operations.add_broker(3)
    with pytest.raises(InputError, match="at least one"):
        operations.add_cluster(0)
    assert not operations.remove_cluster(0) and not operations.remove_broker(0)
    with pytest.raises(InputError, match="does not heal"):
        SimulatedOperations(Simulation(ClusterTree(1, 1).positions(), links=LinkModel()))


@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [
        *((seed, 8) for seed in (0, 2)),
        slow(0, 16),
        *(thorough(seed, 8) for seed in (1, 3)),
        *(thorough(seed, 16) for seed in range(1, 6)),
    ],
)
def test_operated_networks_that_are_broken_heal_and_lose_nothing(seed, brokers_max):
    report = run_chaos(seed, brokers_max=brokers_max, operations=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.slow
def test_with_stores_too_whoever_is_still_at_a_broker_that_left_is_waited_for() -> None:
    """Regression: the survey failed for a subscriber whose broker had left for good."""
    report = run_chaos(60, stable=True, operations=True, brokers_max=12)
    assert report.holds, report.problems


@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
def test_what_a_dead_publisher_has_left_at_a_broker_that_leaves_is_sent_again_by_its_trustee(scheme):
    """Its subscriber's broker dies after that, and only what is retained can reach the subscriber elsewhere."""
    net = Simulation(ClusterTree(3, 2), scheme, recovery=Recovery.for_simulator(), store=in_memory)
    net.run_until_installed("s", net.subscribe("s", 0, "n > 0", durable=True))
    net.publish("p", 5, [{"n": 1}, {"n": 2}])
    net.advance(0.3)  # it has come, and is not acknowledged
    assert net.stop("s") and net.stop("p")
    operations = SimulatedOperations(net)
    assert operations.remove_broker(5)
    net.advance(20.0)
    assert operations.left == {5}
    net.crash(0)
    assert net.start("s") and net.start("p"), "the trustee knows what its publisher's broker had accepted"
    net.publish("p", 5, [{"n": 3}])
    net.advance(30.0)
    assert net.notifications("s") == [("p", 1), ("p", 2), ("p", 3)]
    assert not net.account.losses.get("s")


@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
@pytest.mark.parametrize("after", [0.1, slow(0.5), 1.0])
def test_a_publisher_that_returns_while_its_broker_leaves_loses_nothing_and_goes_on_with_its_numbers(
    scheme, after
):
    """It dies again before it has noticed that the broker is gone: seed 4414 of hypercube with everything on."""
    net = Simulation(ClusterTree(3, 2), scheme, recovery=Recovery.for_simulator(), store=in_memory)
    net.run_until_installed("s", net.subscribe("s", 0, "n > 0"))
    net.publish("p", 5, [{"n": 1}, {"n": 2}])
    assert net.stop("p")
    operations = SimulatedOperations(net)
    assert operations.remove_broker(5)
    net.advance(after)
    returned = [net.start("p")]
    for number in range(3, 13):
        assert net.publish("p", 5, [{"n": number}]) == range(number, number + 1)
        net.advance(0.1)
    assert net.stop("p")
    net.advance(1.0)
    returned.append(net.start("p"))
    assert returned == [True, True]
    assert net.publish("p", 5, [{"n": 13}]) == range(13, 14), "its last number is known where it goes on"
    net.advance(30.0)
    assert operations.left == {5}
    assert net.notifications("s") == [("p", number) for number in range(1, 14)]


@pytest.mark.parametrize("alive", [True, slow(False)])
@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
def test_what_a_durable_subscriber_has_not_acknowledged_goes_along_when_its_broker_leaves(scheme, alive):
    """Whether it is connected or not; the publishers' brokers have forgotten it long ago."""
    recovery = Recovery.for_simulator(retention_seconds=30.0)
    net = Simulation(ClusterTree(3, 2), scheme, recovery=recovery, store=in_memory)
    net.run_until_installed("s", net.subscribe("s", 4, "n > 0", durable=True))
    net.clients.acknowledge = lambda session: None  # it is slow
    net.publish("p", 1, [{"n": 1}, {"n": 2}])
    net.advance(3.0)
    assert alive or net.stop("s")
    net.advance(60.0)
    operations = SimulatedOperations(net)
    assert operations.remove_broker(4)
    net.publish("p", 1, [{"n": 3}])
    net.advance(30.0)
    assert operations.left == {4} and net.broker(5).layer(DurableClients).entries["s"].outstanding == 3
    net.publish("p", 1, [{"n": 4}])
    assert alive or net.start("s")
    net.advance(20.0)
    assert net.sessions["s"].home.id == 5
    assert net.stop("s") and net.start("s"), "the next process gets what nobody has acknowledged"
    net.advance(20.0)
    assert sorted(set(net.notifications("s"))) == [("p", number) for number in range(1, 5)]
    assert not net.account.losses.get("s")
