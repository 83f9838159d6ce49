"""Retransmission after a failure reaches only subscriptions older than the event (promises 1 and 3)."""

import pytest
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

MOVES = ["stays", "moves"]


@pytest.mark.parametrize("moves", [False, True], ids=MOVES)
@pytest.mark.parametrize("scheme", ["hybrid", "flooding", "lbdd", "hypercube"])
def test_a_subscription_gets_nothing_that_was_published_before_it(scheme, moves, assert_healed):
    recovery = Recovery.for_simulator()
    net = Simulation(ClusterTree(3, 3).positions(), scheme, recovery=recovery, seed=1)
    net.subscribe("s", 4, "n < 10", 1)
    net.advance(10.0)
    net.publish("p", 0, [{"n": n} for n in (5, 15)])
    net.advance(2 * recovery.unnoticed_seconds)
    net.subscribe("s", 4, "n > 10", 2)
    net.advance(5.0)
    net.crash(4 if moves else 3)  # what is retained is sent again
    net.advance(30.0)
    net.publish("p", 0, [{"n": n} for n in (6, 16)])
    net.advance(30.0)
    assert assert_healed(net).notifications_delivered == 3, "5, 6 and 16"
