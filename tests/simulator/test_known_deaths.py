"""A process that is known to be dead is replaced without waiting for its silence. Reference: decision 0131."""

import statistics

import pytest
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.chaos import draw_sim_case, run_case
from rayvous.simulator.judging import structure_problems
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of

KNOWN_SECONDS = 0.05
SCHEMES = ("hybrid", "hierarchical", "flooding", "match-first", "hierarchical+nodes", "hybrid+merge+quench")


def designated(net: Simulation, cluster: int) -> int:
    return next(b for b, one in survey_of(net).items() if one["designated"] and one["cluster"] == cluster)


def seconds_to_one_tree(dead_after_seconds: float | None, run: int) -> float:
    """Kill the designated broker of a cluster below the root, at the default settings."""
    net = Simulation(
        ClusterTree(3, 3, degree=2), recovery=Recovery(), dead_after_seconds=dead_after_seconds, seed=run
    )
    for broker in range(9):
        net.subscribe(f"s{broker}", broker, f"x > {broker}")
    net.advance(6.0 + 0.037 * run)
    assert not structure_problems(net)
    assert net.crash(designated(net, 1 + run % 2))
    began = net.now
    while structure_problems(net):
        assert net.now < began + 60.0
        net.advance(0.01)
    return net.now - began


def test_a_killed_designated_broker_is_replaced_in_a_fraction_of_a_second() -> None:
    """By silence it takes the patience and more."""
    runs = range(8)
    assert statistics.median(seconds_to_one_tree(KNOWN_SECONDS, run) for run in runs) <= 0.3
    assert min(seconds_to_one_tree(None, run) for run in runs) > Recovery().suspect_after_seconds


def test_over_a_cut_link_and_to_a_paused_broker_nothing_is_known() -> None:
    net = Simulation(ClusterTree(1, 3), recovery=Recovery(), dead_after_seconds=KNOWN_SECONDS)
    net.advance(5.0)
    dead, other, paused = 2, 1, 0
    assert designated(net, 0) == dead
    net.cut([(dead, other)], "test")
    assert net.pause(paused) and net.crash(dead)
    net.advance(2.0)
    assert not survey_of(net)[other]["designated"]
    net.advance(4.0)
    assert survey_of(net)[other]["designated"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_promises_hold_if_deaths_are_known(scheme: str, seed: int) -> None:
    parts = dict.fromkeys(("stable", "admission", "operations"), seed == 2)
    report = run_case(draw_sim_case(seed, scheme=scheme, **parts), dead_after_seconds=KNOWN_SECONDS)
    assert report.holds, report.problems
