"""State that is damaged: tables that forget, or hold what nobody told them, are mended (paper 4, section 2)."""

from dataclasses import replace

import pytest
from rayvous.actors.broker.healing import HEALING_SCHEMES
from rayvous.actors.chaos.run import draw_ray_case
from rayvous.actors.network.network import Network
from rayvous.faults.chaos.cases import draw_case
from rayvous.faults.chaos.injector import Injector
from rayvous.faults.chaos.plans import Damage, FaultPlan
from rayvous.faults.checker.conditions import safe
from rayvous.faults.checker.ltl import always, holds
from rayvous.faults.checker.reliability import judge
from rayvous.faults.checker.trace import Kept, Notified, Published, Trace
from rayvous.faults.membership.comparing import STRIKES
from rayvous.protocol.errors import InputError, ScenarioError, StateDamaged
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.matching.table import RoutingTable
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.chaos import run_case
from rayvous.simulator.network import SimulatedNetwork
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import subscription_problems

BROKERS = 6
COMPARE_HEARTBEATS = 2.0
FOUND_HEARTBEATS = (STRIKES + 1) * COMPARE_HEARTBEATS
MENDED_HEARTBEATS = 40.0
"""What chaos allows after a crash."""

QUICK = ("hybrid", "hierarchical+quench", "lbdd")
TELLING = [
    name for name in HEALING_SCHEMES if name != "flooding"
]  # where brokers tell each other what they want


def damaged(scheme, seed=0, compare_heartbeats=COMPARE_HEARTBEATS):
    """Return a network in which the tables of all brokers were damaged just now, by a plan."""
    recovery = Recovery.for_simulator(degree=3, compare_heartbeats=compare_heartbeats)
    net = Simulation(ClusterTree(3, 2, degree=3).positions(), scheme, recovery=recovery, seed=seed)
    for place in range(BROKERS):
        net.subscribe(f"s{place}", place, f"x > {place}")
    net.advance(12.0)
    assert subscription_problems(net) == [] and not net.failures
    plan = FaultPlan("all", tuple(Damage(1.0, broker) for broker in range(BROKERS)), 2.0)
    said = []
    Injector(
        net, FaultPlan.from_dict(plan.to_dict()), lambda fault, what: said.append(what), lambda: None
    ).begin()
    net.advance(1.1)
    assert [what.split(":")[0] for what in said] == [f"damage broker {broker}" for broker in range(BROKERS)]
    assert subscription_problems(net), "the tables are wrong now"
    return net


def suffix(trace, begun):
    """Return what was published from a moment on, and who was notified of it, with all that was subscribed to."""
    events = {event for event, op in trace.publications().items() if op.at_seconds >= begun}
    kinds = Published | Notified | Kept
    return Trace(op for op in trace if not isinstance(op, kinds) or (op.publisher, op.sequence) in events)


def comes_back(scheme, seed=0):
    net = damaged(scheme, seed)
    begun = net.now
    net.advance(FOUND_HEARTBEATS)
    assert net.failures, "it is found within the stated time"
    assert all(isinstance(error, StateDamaged) for error in net.failures.values())
    net.advance(MENDED_HEARTBEATS)
    assert subscription_problems(net) == [] and set(net.living()) == set(range(BROKERS)), (scheme, seed)
    found, since = set(net.failures), net.now
    for place in range(BROKERS):
        net.publish(f"p{place}", place, [{"x": x} for x in range(8)])
        net.advance(1.0)
    net.advance(10.0)
    net.account.settled(net.now)
    assert set(net.failures) == found and since - begun == FOUND_HEARTBEATS + MENDED_HEARTBEATS
    after = suffix(net.account, since)
    verdict = judge(after)
    assert verdict.holds and verdict.notifications_expected > 100, (scheme, verdict.violations)
    assert holds(always(safe()), suffix(net.account, net.now - 12.0)) is True, (
        "definition 8, as it is written"
    )


@pytest.mark.parametrize("scheme", QUICK)
def test_the_network_comes_back_to_a_suffix_that_keeps_definition_8(scheme):
    """Paper 4, definition 8: from any state of its tables, eventually always."""
    comes_back(scheme)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scheme", TELLING)
def test_so_it_does_under_every_scheme(scheme, seed):
    comes_back(scheme, seed)


def test_without_comparing_the_damage_stays():
    net = damaged("hybrid", seed=1, compare_heartbeats=None)
    before = subscription_problems(net)
    net.advance(FOUND_HEARTBEATS + MENDED_HEARTBEATS)
    assert subscription_problems(net) == before and not net.failures


def test_a_broker_that_cannot_go_on_with_its_state_starts_again(monkeypatch):
    """A withdrawal of what a damaged table does not have any more: the broker does not guess, it starts clean."""
    net = damaged("hybrid", seed=1)
    monkeypatch.setattr(RoutingTable, "remove", lambda *_: {}["no such entry"])
    net.unsubscribe("s2", 1)
    net.advance(0.1)
    monkeypatch.undo()
    assert "cannot go on with its state: KeyError: 'no such entry'" in str(net.failures[2])
    net.advance(FOUND_HEARTBEATS + MENDED_HEARTBEATS)
    assert subscription_problems(net) == [] and 2 in net.living()


@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_in_chaos_nobody_starts_again_who_is_right(monkeypatch, seed):
    """Whatever dies, stands still or is cut off meanwhile: no difference stays that is none."""
    wrong = []
    monkeypatch.setattr(SimulatedNetwork, "_start_again", lambda net, host, error: wrong.append(error))
    case = draw_case(seed, brokers_max=8, seconds=8.0, scheme=("hybrid", "lbdd")[seed % 2])
    report = run_case(replace(case, recovery=replace(case.recovery, compare_heartbeats=COMPARE_HEARTBEATS)))
    assert report.holds and not wrong and report.messages["Compare"] > 10


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ScenarioError, match="out of reach"):
        draw_ray_case(0, plan=FaultPlan("x", (Damage(1.0, 0),), 2.0))
    with pytest.raises(InputError, match="compare_heartbeats"):
        Recovery.for_simulator(compare_heartbeats=0.0)
    with pytest.raises(InputError, match="no broker can start again by itself"):
        Network.launch(ClusterTree(1, 1), recovery=Recovery.for_simulator(compare_heartbeats=2.0))
