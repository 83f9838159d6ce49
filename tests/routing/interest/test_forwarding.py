"""Every subscription goes up to the root, also one that another covers. Reference: paper 1, figure 2."""

from collections import Counter

import pytest
from rayvous.protocol.messages.pubsub import Announce, Withdraw
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation

CHAIN = ClusterTree(4, 2, degree=1)
LEAF, WIDE, NARROW = 6, "x > 1", "x > 5"


def messages(net):
    """Return how many messages of each type went up, also as multicasts of normal brokers, and down."""
    return sum((net.transport.sent[kind] for kind in ("up", "multicast", "down")), Counter())


@pytest.mark.parametrize(
    ("scheme", "first", "second", "announced"),
    [
        ("hybrid", WIDE, WIDE, 4),
        ("hybrid", WIDE, NARROW, 4),
        ("hybrid+all", WIDE, WIDE, 8),
        ("hybrid+all", WIDE, NARROW, 8),
        ("hybrid+all", NARROW, WIDE, 8),
        ("hierarchical", WIDE, WIDE, 4),
        ("hierarchical+all", WIDE, WIDE, 8),
    ],
)
def test_each_subscription_goes_up_to_the_root(scheme, first, second, announced):
    """Two at a normal broker: a multicast and three links up to the root for each, or for the first alone."""
    net = Simulation(CHAIN, scheme)
    numbers = [net.subscribe(client, LEAF, wanted) for client, wanted in (("a", first), ("b", second))]
    net.run()
    assert all(net.installed(client, number) for client, number in zip("ab", numbers, strict=True))
    assert messages(net)[Announce] == announced
    assert messages(net)[Withdraw] == 0, "a filter that a later one covers stays announced"


def test_what_is_cancelled_is_withdrawn_when_nobody_wants_it():
    net = Simulation(CHAIN, "hybrid+all")
    one, two = (net.subscribe(client, LEAF, WIDE) for client in "ab")
    three = net.subscribe("c", LEAF, NARROW)
    net.run()
    net.unsubscribe("a", one)
    net.unsubscribe("c", three)
    net.run()
    net.publish("p", 0, [{"x": 9}, {"x": 0}])
    net.run()
    assert net.notifications("b") == [("p", 1)] and net.notifications("a") == net.notifications("c") == []
    assert messages(net)[Withdraw] == 4, "of the narrow one; the wide one is still wanted"
    net.unsubscribe("b", two)
    net.run()
    assert messages(net)[Withdraw] == 8
    for host in net.hosts.values():
        host.machine.check()
        assert not host.machine.describe()["filters"]
