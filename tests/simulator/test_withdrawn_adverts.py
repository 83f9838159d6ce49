"""Events published under an advertisement that is then withdrawn, by its publisher or with a link (promise 1)."""

import pytest
from rayvous.broker.admission import Controller
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation


@pytest.mark.parametrize("scheme", ["hybrid", "flooding", "hypercube"])
def test_what_was_published_before_a_withdrawal_survives_its_broker(scheme, assert_healed):
    net = Simulation(
        ClusterTree(3, 3).positions(),
        scheme,
        recovery=Recovery.for_simulator(),
        admission=AdmissionConfig(0.0, capacity=Capacity(1_000)),
        seed=1,
    )
    net.advertise("p", 4, "n > 0", 50.0)
    net.advance(5.0)
    net.subscribe("s", 8, "n > 5", 1)
    net.advance(10.0)
    net.publish("p", 4, [{"n": n} for n in (4, 6, 8)])
    net.unadvertise("p")
    net.crash(4)
    net.advance(60.0)
    assert assert_healed(net).notifications_delivered == 2, "6 and 8"


def test_a_link_that_goes_withdraws_an_advertisement_with_what_was_published_under_it() -> None:
    """Nobody above had asked for it; the broker that loses the link tells them. Reference: decision 0107."""
    net = Simulation(
        ClusterTree(3, 1, degree=1),
        recovery=Recovery.for_simulator(),
        admission=AdmissionConfig(0.0, capacity=Capacity(1_000)),
    )
    root, middle, leaf = 0, 1, 2
    net.advance(3.0)
    net.advertise("p", leaf, "n > 0", 50.0)
    net.advance(3.0)
    number = net.subscribe("s", middle, "n < 10", 1)
    assert net.run_until_installed("s", number)
    net.publish("p", leaf, [{"n": 1}, {"n": 2}])
    net.flush("p", 1)
    net.advance(0.5)
    net.account.settled(net.now)
    assert net.flushed and net.notifications("s") == [("p", 1), ("p", 2)]
    net.faults.cut([(leaf, middle), (leaf, root)], "away")
    assert net.faults.rumour(0.9, 1.0) == leaf
    net.advance(0.5)
    assert not net.broker(root).ask(Controller()).books.adverts, "withdrawn at once"
    number = net.subscribe("late", root, "n > 0", 1)
    assert net.run_until_installed("late", number)
    net.faults.mend()
    net.advance(40.0)
    net.publish("p", leaf, [{"n": 3}])
    net.advance(5.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert net.notifications("late") == [("p", 3)], "and nothing that had settled before it subscribed"
