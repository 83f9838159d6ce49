"""Two members of a cluster that do not know each other, when the one that both knew is dead, become one cluster.

Each takes over when that broker is silent. Neither sends the other a heartbeat, so both spoke for the cluster for ever.

Reference: promise 5; paper 1, 4.1.1.
"""

import pytest
from rayvous.broker import newcomer
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.recovery.membership.succession import Succession
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

NEW = (20, 21)
CASES = {
    "the root cluster": (3, 0, 0.0, 1),
    "below the same parent": (3, 1, 0.0, 1),
    "below the same parent, which one has heard of": (3, 1, 1.0, 1),
    "below different parents": (7, 3, 0.0, 4),
}


def split(clusters, cluster, heard, seed):
    """Return a network in which two brokers joined a cluster of one, each unknown to the other; the one is dead."""
    links = LinkModel(spread_seconds=0.05, jitter_seconds=0.005)
    tree = ClusterTree(clusters, 1, degree=2)
    net = Simulation(
        tree.positions(), "hybrid", recovery=Recovery.for_simulator(degree=3), seed=seed, links=links
    )
    net.advance(3.0)
    for broker in NEW:
        net.members[cluster] = (*net.members[cluster], broker)
        net.start_ticking(
            net.add_host(newcomer("hybrid", broker, cluster, (cluster, broker), cluster), founds=False)
        )
        if broker == NEW[0]:
            net.advance(heard)
    net.faults.crash(cluster)
    for broker in NEW:
        net.subscribe(f"s{broker}", broker, "n >= 0", 1)
    net.advance(40.0)
    return net


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_members_that_did_not_know_each_other_become_one_cluster(case):
    net = split(*case)
    assert not structure_problems(net) and not subscription_problems(net)


def test_without_being_told_of_each_other_they_stay_two(monkeypatch):
    monkeypatch.setattr(Succession, "meet", lambda self, view: [])
    net = split(*CASES["below the same parent"])
    assert structure_problems(net) == ["cluster 1 has designated brokers [20, 21]"]
