"""A process that is known to be dead is replaced without waiting for its silence. Reference: decision 0131."""

from collections.abc import Callable
from typing import Any

import pytest
from draws import slow, thorough
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.effects import Died
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.structure import problems
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of

KNOWN_SECONDS = 0.05
IN_VIEWS = ("hypercube", "lbdd", "point-to-point")
SCHEMES = ("hybrid", "hierarchical", "flooding", "match-first", "hierarchical+nodes", "hybrid+merge+quench")


def designated(net: Simulation, cluster: int) -> int:
    return next(b for b, one in survey_of(net).items() if one["designated"] and one["cluster"] == cluster)


def problems_of(net: Simulation) -> list[str]:
    """Return why the network is not one tree with every subscription installed and every link open."""
    return problems(survey_of(net))


def seconds_to_one_tree(dead_after_seconds: float | None, run: int) -> float:
    """Kill the designated broker of a cluster, of the root or below it, at the default settings."""
    net = Simulation(
        ClusterTree(3, 3, degree=1), recovery=Recovery(), dead_after_seconds=dead_after_seconds, seed=run
    )
    for broker in range(9):
        net.subscribe(f"s{broker}", broker, f"x > {broker}")
    net.advance(6.0 + 0.037 * run)
    assert not problems_of(net)
    assert net.crash(designated(net, run % 3))
    began = net.now
    while problems_of(net):
        assert net.now < began + 60.0
        net.advance(0.01)
    return net.now - began


def test_a_killed_designated_broker_is_replaced_in_a_fraction_of_a_second() -> None:
    """No part of that waits for a regular tick or a heartbeat. By silence it takes the patience and more."""
    runs = range(9)
    assert max(seconds_to_one_tree(KNOWN_SECONDS, run) for run in runs) <= KNOWN_SECONDS + 0.15
    silent = (
        Recovery().suspect_after_seconds - Recovery().heartbeat_seconds
    )  # the last beat is that old at most
    assert min(seconds_to_one_tree(None, run) for run in runs) > silent


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


@pytest.mark.parametrize(
    ("scheme", "seed"),
    [
        slow("hybrid", 1),
        *((slow if at % 2 == 0 else thorough)(scheme, 2) for at, scheme in enumerate(SCHEMES)),
        *(thorough(scheme, 1) for scheme in SCHEMES[1:]),
    ],
)
def test_the_promises_hold_if_deaths_are_known(scheme: str, seed: int) -> None:
    parts = dict.fromkeys(("stable", "admission", "operations"), seed == 2)
    report = run_case(draw_sim_case(seed, scheme=scheme, **parts), dead_after_seconds=KNOWN_SECONDS)
    assert report.holds, report.problems


def seconds_to_one_view(scheme: str, dead_after_seconds: float | None, run: int) -> float:
    net = Simulation(
        ClusterTree(5, 1), scheme, recovery=Recovery(), dead_after_seconds=dead_after_seconds, seed=run
    )
    for broker in range(5):
        net.subscribe(f"s{broker}", broker, f"topic = 't{broker}'")
    net.advance(6.0 + 0.037 * run)
    assert not problems_of(net) and net.crash(run % 5)
    began = net.now
    while problems_of(net):
        assert net.now < began + 60.0
        net.advance(0.01)
    return net.now - began


@pytest.mark.parametrize("scheme", IN_VIEWS)
def test_a_killed_broker_is_out_of_the_view_in_a_fraction_of_a_second(scheme: str) -> None:
    assert max(seconds_to_one_view(scheme, KNOWN_SECONDS, run) for run in range(5)) <= KNOWN_SECONDS + 0.15
    silent = Recovery().suspect_after_seconds - Recovery().heartbeat_seconds
    assert seconds_to_one_view(scheme, None, 1) > silent


@pytest.mark.parametrize("scheme", ["hybrid", *IN_VIEWS])
def test_a_broker_that_is_wrongly_said_to_be_dead_takes_part_again(
    scheme: str, assert_healed: Callable[[Simulation], Any]
) -> None:
    """It is heard again, so it is alive; what was published meanwhile is sent again."""
    net, speaks = Simulation(ClusterTree(1, 4), scheme, recovery=Recovery()), 3
    net.subscribe("s", speaks, "x > 0")
    net.subscribe("t", 0, "x > 0")
    net.advance(6.0)
    for broker in (0, 1, 2):
        net.broker(broker).handle(Died(speaks))
    believed: list[str] = []
    for turn in range(20):
        net.publish("p", 1, [{"x": turn + 1}])
        net.publish("q", speaks, [{"x": turn + 1}])
        net.advance(0.1)
        believed += problems_of(net)
    net.advance(8.0)
    assert believed and not problems_of(net) and net.living() == [0, 1, 2, 3]
    assert assert_healed(net).notifications_expected == 80
