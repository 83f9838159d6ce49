"""Networks with views grow and shrink while events flow; nothing is lost, duplicated or out of order.

Reference: promises 1 to 3 and 6; paper 2, 2.4; paper 5, 3.4; docs/operations.md.
"""

import re

import pytest
from draws import of_each_kind, slow, thorough
from rayvous.broker import healing
from rayvous.faults.plans.cases import IN_TREES, draw_case
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Directed
from rayvous.protocol.messages.recovery import LeaveNetwork, Recovery
from rayvous.recovery.membership.views import HealingViews
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.cube import cube_of
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

SCHEMES = ("hypercube", "lbdd", "point-to-point", "flooding+graph")
every_scheme = pytest.mark.parametrize("scheme", of_each_kind(SCHEMES, "flooding+graph"))


class World:
    """A network with subscribers, a publisher that publishes all the time, and operations."""

    def __init__(self, scheme, brokers=2, members=1, **changes):
        recovery = Recovery.for_simulator(**changes)
        self.net = Simulation(ClusterTree(brokers, members).positions(), scheme, recovery=recovery, seed=3)
        self.said = []
        self.operations = SimulatedOperations(self.net, self.said.append)
        for number in range(6):
            self.net.subscribe(f"s{number}", number % (brokers * members), f"n >= {number}", 1)
        self.net.advance(3.0)
        self.turn = 0
        self.net.at(self.net.now, self.flow)

    def flow(self):
        home = self.net.staying()[0]
        self.net.publish("p", home, [{"n": self.turn % 10}])
        self.turn += 1
        if self.turn < 400:
            self.net.at(self.net.now + 0.1, self.flow)

    @property
    def view(self):
        return self.net.broker(self.net.staying()[0]).layer(HealingViews).router.view

    def verify(self, assert_healed):
        self.net.advance(max(0.0, 60.0 - self.net.now))
        assert assert_healed(self.net).events_published == 400
        assert self.operations.leaving() == []


def test_a_hypercube_grows_from_one_broker_and_shrinks_to_one(assert_healed):
    """Vacancies are filled, brokers pair up, clusters split; then the reverse. Reference: paper 2, 2.4."""
    world = World("hypercube", 1, node_cluster_max=2)
    shapes = []
    for _ in range(8):
        world.operations.add_broker(0)
        world.net.advance(2.0)
        sizes = [0] * (1 << world.view.dimensions)
        for broker in world.view.labels:
            sizes[cube_of(world.view).vertex(broker)] += 1
        shapes.append(sizes)
    assert shapes == [
        [2], [2, 1], [2, 2], [2, 1, 1, 1], [2, 2, 1, 1], [2, 2, 2, 1], [2, 2, 2, 2], [2, 1, 1, 1, 1, 1, 1, 1]
    ]  # fmt: skip
    while len(world.net.staying()) > 1:
        assert world.operations.remove_broker(world.net.staying()[0])
        world.net.advance(2.0)
    assert not world.operations.remove_broker(world.net.staying()[0]), "the last one is kept"
    assert world.view.dimensions == 0 and list(world.view.born) == world.net.living()
    world.verify(assert_healed)


@every_scheme
def test_brokers_and_clusters_come_with_clients_and_go_while_events_flow(scheme, assert_healed):
    world = World(scheme, 3, 2)
    new = world.operations.add_broker(1)
    cluster, brokers = world.operations.add_cluster(3)
    world.net.advance(2.0)
    assert set(world.view.born) == {*range(6), new, *brokers}
    assert world.net.move("s0", new) and world.net.move("p", brokers[0])
    world.net.advance(3.0)
    assert world.operations.remove_cluster(0) and world.operations.remove_broker(new)
    world.net.advance(3.0)
    assert set(world.view.born) == {2, 3, 4, 5, *brokers}
    assert world.operations.remove_cluster(cluster)
    world.net.crash(2)
    world.verify(assert_healed)
    assert set(world.view.born) == {3, 4, 5}
    assert sorted(world.said) == [f"broker {broker} has left" for broker in sorted({0, 1, new, *brokers})]


def test_a_new_agent_of_lbdd_passes_events_on():
    """All others are told of it, and it is in their paths. Reference: paper 5, 3.4."""
    world = World("lbdd", 4)
    new = [world.operations.add_broker(0) for _ in range(4)]
    world.net.advance(2.0)
    for broker in new:
        world.net.subscribe(f"late{broker}", broker, "n >= 0", 1)
    world.net.advance(2.0)
    senders = set()
    world.net.watchers[Directed] = lambda now, source, to, message: senders.add(source)
    world.net.advance(2.0)
    assert senders & set(new)


@every_scheme
def test_who_is_told_to_leave_before_it_is_in_comes_in_and_leaves(scheme, assert_healed):
    world = World(scheme, 3)
    broker = world.operations.add_broker(0)
    assert world.operations.remove_broker(broker)
    world.net.advance(5.0)
    assert not world.net.hosts[broker].alive
    world.verify(assert_healed)


def test_who_was_asked_to_leave_by_a_fault_does_not_stay_for_an_operation():
    """Neither of two brokers that hand over to each other ends; seed 9064 of chaos drew that."""
    positions = ClusterTree(1, 2).positions()
    net = Simulation(positions, "point-to-point", recovery=Recovery.for_simulator(), seed=1)
    operations = SimulatedOperations(net, [].append)
    net.advance(3.0)
    net.pause(1)
    assert net.leave(1) and not operations.remove_broker(0), "the last one that stays is kept"
    net.crash(1)
    net.restart(1)
    assert operations.remove_broker(0), "the next incarnation stays"


def test_one_that_leaves_and_dies_is_not_started_again(assert_healed):
    world = World("point-to-point", 4)
    world.operations.remove_broker(1)
    world.net.crash(1)
    assert not world.net.restart(1)
    world.net.advance(10.0)
    assert set(world.view.born) == {0, 2, 3}
    world.verify(assert_healed)


@every_scheme
def test_there_is_no_tree_to_make_better(scheme):
    world = World(scheme, 3)
    with pytest.raises(
        InputError, match=f"scheme '{re.escape(scheme)}' has no tree to reoptimise: no broker is below"
    ):
        world.operations.reoptimise()
    for seed in range(10):
        case = draw_case(seed, scheme=scheme, operations=True)
        assert case.operations and not {each.do for each in case.operations} & set(IN_TREES)


@pytest.mark.slow
def test_a_broker_that_does_not_leave_is_found_out(monkeypatch):
    class Stubborn(HealingViews):
        def _on_leave(self, source, message):
            return [] if isinstance(message, LeaveNetwork) else super()._on_leave(source, message)

    monkeypatch.setattr(healing, "HealingViews", Stubborn)
    reports = (run_chaos(seed, brokers_max=8, scheme="point-to-point", operations=True) for seed in range(4))
    assert any("has not left" in problem for report in reports for problem in report.problems)


@every_scheme
@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [slow(0, 16), thorough(0, 8), thorough(1, 8), *(thorough(seed, 16) for seed in range(1, 6))],
)
def test_operated_networks_that_are_broken_heal_and_lose_nothing(scheme, seed, brokers_max):
    """More seeds: ``rayvous chaos --scheme hypercube --operations --seeds 500``."""
    report = run_chaos(seed, brokers_max=brokers_max, scheme=scheme, operations=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
