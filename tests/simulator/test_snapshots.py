"""A network from a snapshot goes on as the one that was taken; neither changes the other."""

import pytest
from draws import seeds
from rayvous.faults.chaos_run import ChaosRun
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.extended import extended
from rayvous.faults.report import ChaosReport
from rayvous.faults.simulated.on_simulator import OnSimulator
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.snapshots import Snapshot

HEALS = Recovery.for_simulator()
FEATURES = {
    "plain": {},
    "lossy": {"links": LinkModel(jitter_seconds=0.01, loss=0.1)},
    "heals": {"recovery": HEALS},
    "stores": {"store": in_memory, "links": LinkModel(loss=0.1)},
    "telemetry": {"recovery": HEALS, "store": in_memory, "telemetry": True},
    "views": {"recovery": HEALS, "scheme": "hypercube"},
}


def network(**options):
    found = Simulation(ClusterTree(3, 2), **options)
    for broker in range(6):
        found.subscribe(f"s{broker}", broker, f"price > {broker} AND price < 40")
    for second in range(12):
        found.at(0.5 * second, found.publish, "exchange", 3, [{"price": second}, {"price": 3 * second}])
    if found.heals or found.numbered:
        found.at(2.0, found.crash, 1)
        found.at(4.0, found.restart, 1)
    return found


def past(net):
    """What was done so far, and what is to come."""
    heap = sorted((when, order) for when, order, _, _ in net.heap)
    return (
        list(net.account),
        net.steps,
        net.lost,
        net.sent,
        heap,
        [broker.describe() for broker in net.brokers()],
    )


@pytest.mark.parametrize("features", FEATURES)
def test_it_goes_on_as_the_one_that_was_taken(features):
    net = network(**FEATURES[features])
    net.advance_to(2.5101)  # messages are under way, and a broker is dead
    taken, then = Snapshot(net), past(net)
    first = taken.network()
    assert past(first) == then
    first.advance_to(9.0)
    assert past(net) == then, "a copy changes the one that was taken"
    net.advance_to(9.0)
    assert past(first) == past(net) != then
    second = taken.network()
    assert past(second) == then, "a copy changes another"
    second.advance_to(9.0)
    assert past(second) == past(net)
    assert second.hosts[1] is not net.hosts[1] and second.hosts[1].machine is not net.hosts[1].machine


def test_functions_that_close_over_the_network_get_the_new_one():
    net = network(recovery=HEALS)
    names = {"net": net}
    exec(
        "def kill():\n    net.crash(5)\n", names
    )  # as in a notebook, where the network is a name of the module
    net.at(1.0, names["kill"])
    net.at(1.5, lambda: net.crash(4))
    copy = Snapshot(net).network()
    copy.advance_to(2.0)
    assert copy.living() == [0, 2, 3] and net.living() == list(range(6))


@pytest.mark.parametrize(("brokers", "filters"), [(300, 1), (1, 300)])
def test_long_chains_of_objects_can_be_taken(brokers, filters):
    net = Simulation(ClusterTree(brokers, 1, degree=1))
    for number in range(filters):
        net.subscribe("alice", brokers - 1, f"price > {number}")
    net.run()
    copy = Snapshot(net).network()
    for each in net, copy:
        each.publish("bob", 0, [{"price": 12}])
        each.run()
    assert past(copy) == past(net) and copy.notifications("alice") == [("bob", 1)]


def test_what_has_a_file_open_is_refused_by_name(tmp_path):
    net = Simulation(ClusterTree(1, 1), store=lambda broker: SqliteStore(tmp_path / f"{broker}"))
    with pytest.raises(InputError, match="cannot be taken as it is: cannot pickle 'sqlite3"):
        Snapshot(net)


class _Half(BaseException):
    """Ends a run in the middle."""


class _Counter:
    def __init__(self, actions):
        self.left = actions

    def aside(self): ...
    def before(self, action, value): ...
    def lost(self, connection, received, why): ...

    def after(self):
        self.left -= 1
        if not self.left:
            raise _Half


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20, quick=1))
def test_chaos_can_be_taken_in_the_middle(seed):
    case = extended(
        draw_case(seed, brokers_max=12, operations=True),
        stable=bool(seed % 2), admission=seed % 3 == 0, damage=False, lossless=False, late=False, known=True,
    )  # fmt: skip
    system = OnSimulator(case)
    net = system.network
    net.spectator = _Counter(1500)
    with pytest.raises(_Half):
        ChaosRun(case, system, ChaosReport("sim", case.describe(), drawn=case)).run()
    copy = Snapshot(net).network()
    assert copy.spectator is None
    net.spectator = None
    for each in net, copy:
        each.advance(8.0)
    assert past(copy) == past(net)
