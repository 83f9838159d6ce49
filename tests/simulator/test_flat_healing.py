"""Trees without clusters, every broker a node by itself, heal as trees of clusters do, under all schemes.

Reference: promises 1 to 3 and 6; docs/schemes.md, "Trees without clusters that heal".
"""

import pytest
from draws import seeds, slow, thorough
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.claims import Membership
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.schemes.registry import scheme as scheme_of
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey

SCHEMES = [name for name in NAMES if scheme_of(name).membership is Membership.NODES]
KINDS = ("plain", "stable", "admission")


def test_all_of_them_are_looked_at():
    assert {"hierarchical", "flooding", "match-first", "hierarchical+quench+merge"} <= set(SCHEMES)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_broken_heals_and_loses_nothing(scheme, seed):
    report = run_chaos(seed, scheme=scheme, brokers_max=8, seconds=12.0)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize(
    ("scheme", "seed", "kind"),
    [
        # Each kind of network: `test_all_at_once` has every scheme with every set of parts, in small networks.
        (slow if seed == 0 and at < len(KINDS) and KINDS[at] == kind else thorough)(scheme, seed, kind)
        for at, scheme in enumerate(SCHEMES)
        for seed in range(2)
        for kind in KINDS
    ],
)
def test_larger_ones_too_also_with_stores_and_with_admission_control(scheme, seed, kind):
    options = {} if kind == "plain" else {kind: True}
    report = run_chaos(seed, scheme=scheme, brokers_max=20, **options)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


def mended(scheme):
    """Return a network whose root and another inner broker crashed while a publisher went on."""
    net = Simulation(
        ClusterTree(3, 3, degree=2).positions(), scheme, recovery=Recovery.for_simulator(degree=5), seed=1
    )
    for broker in (2, 5, 8):
        net.subscribe(f"s{broker}", broker, f"n >= {broker}", 1)
    for turn in range(150):
        net.at(net.now + turn / 10, net.publish, "p", 7, [{"n": turn % 12}])
    net.at(net.now + 4.0, net.crash, 0)
    net.at(net.now + 7.0, net.crash, 3)
    net.advance(40.0)
    return net


@pytest.mark.parametrize("scheme", SCHEMES)
def test_who_hung_below_a_dead_broker_joins_elsewhere(scheme):
    net = mended(scheme)
    assert structure_problems(net) == [] == subscription_problems(net)
    reports = [survey(net, broker) for broker in net.living()]
    assert len(reports) == 7 and all(one["view"].members == (one["broker"],) for one in reports)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds and verdict.notifications_expected > 100, verdict


@pytest.mark.parametrize(
    "scheme, crossings", [("flooding", 6), ("match-first", 0), ("hierarchical+quench", 0)]
)
def test_an_event_that_nobody_wants_crosses_what_the_scheme_says(scheme, crossings):
    """Also on the repaired tree: the event crosses all links, or none."""
    net = mended(scheme)
    before = net.sent[Events]
    net.publish("p", 7, [{"n": 1}])
    net.advance(3.0)
    assert net.sent[Events] - before == crossings
