"""Chaos seeds that hold: mixed faults, several at once (promises 1 to 3, 5 and 6).

More seeds: ``rayvous chaos --seed 0 --seeds 2000``. Seeds that fail when a rule of healing is switched off
are in ``test_chaos_rules.py``.
"""

import pytest
from draws import seeds, slow, thorough
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation


@pytest.mark.parametrize("seed", seeds(12, quick=2))
def test_small_networks_that_are_broken_heal_and_lose_nothing(seed):
    report = run_chaos(seed, brokers_max=12)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize("seed", [slow(12), *map(thorough, range(13, 24))])
def test_networks_that_are_broken_heal_and_lose_nothing(seed):
    report = run_chaos(seed, brokers_max=24)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


def messages_sent(recovery, events):
    """Return how many messages 12 brokers send for 1,000 events a second, and the notifications."""
    network = Simulation(ClusterTree(4, 3, degree=3).positions(), recovery=recovery, seed=1)
    for broker in (0, 4, 8, 10):
        network.subscribe(f"s{broker}", broker, "n >= 0", 1)
    network.advance(3.0)
    before = sum(network.sent.values())
    start = network.now
    for number in range(events):
        network.at(start + number / 1_000, network.publish, "p", 7, [{"n": number}])
    network.advance(events / 1_000 + 0.5)
    return sum(network.sent.values()) - before, len(network.account.notifications())


@pytest.mark.parametrize("events", [400, pytest.param(2_000, marks=pytest.mark.slow)])
def test_without_faults_healing_costs_at_most_a_twentieth(events):
    """At 1,000 events a second, healing with its heartbeats adds at most 5 % to the messages."""
    without, delivered = messages_sent(None, events)
    with_recovery, delivered_too = messages_sent(Recovery(), events)
    assert delivered == delivered_too == 4 * events
    assert without >= 3 * events
    assert with_recovery <= 1.05 * without, (without, with_recovery)
