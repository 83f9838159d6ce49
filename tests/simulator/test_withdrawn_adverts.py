"""Events published under an advertisement that is then withdrawn survive their broker's crash (promise 1)."""

import pytest
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
