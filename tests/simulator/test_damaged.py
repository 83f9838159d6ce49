"""Recovery from damaged state: tables, numbers, membership and deduplicators (paper 4, section 2)."""

from dataclasses import replace

import pytest
from draws import slow, thorough
from rayvous.actors.network.network import Network
from rayvous.faults.checker.conditions import safe
from rayvous.faults.checker.ltl import always, holds
from rayvous.faults.checker.reliability import judge
from rayvous.faults.injector import Injector
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.damage_cases import ALWAYS, COMPARE_HEARTBEATS
from rayvous.faults.plans.plans import Damage, FaultPlan
from rayvous.faults.simulated.chaos import draw_sim_case, run_case, run_chaos
from rayvous.faults.simulated.judging import BreakableSimulation, structure_problems, subscription_problems
from rayvous.protocol.errors import InputError, ScenarioError, StateDamaged
from rayvous.protocol.ids import FIRST_ROUND
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.comparing import STRIKES
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.membership.views import HealingViews
from rayvous.recovery.replay.replay import Replay
from rayvous.routing.matching.table import RoutingTable
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.network import SimulatedNetwork

BROKERS = 6
FOUND_HEARTBEATS = (STRIKES + 1) * COMPARE_HEARTBEATS
MENDED_HEARTBEATS = 40.0
"""The recovery time that chaos allows after a crash."""

QUICK = (
    ("hybrid", "tables"),
    ("lbdd", "tables"),
    ("lbdd", "numbers"),
    ("flooding+graph", "numbers"),
    ("hypercube", "membership"),
    ("hybrid", "deduplicator"),
)
TELLING = [
    name for name in NAMES if not name.startswith("flooding")
]  # where brokers tell each other what they want
CASES = [(scheme, what) for what in ALWAYS for scheme in (TELLING if what == "tables" else NAMES)]


def network(scheme, seed=0, compare_heartbeats=COMPARE_HEARTBEATS):
    """Return a network in which a broker crashed and restarted, so that later rounds opened links."""
    recovery = Recovery.for_simulator(degree=3, compare_heartbeats=compare_heartbeats)
    net = BreakableSimulation(ClusterTree(3, 2, degree=3).positions(), scheme, recovery=recovery, seed=seed)
    for place in range(BROKERS):
        net.subscribe(f"s{place}", place, f"x > {place}")
        net.at(10.0, net.publish, f"p{place}", place, [{"x": x} for x in range(8)])
    net.at(1.0, net.crash, 2 + seed % 4)
    net.at(5.0, net.restart, 2 + seed % 4)
    net.advance(24.0)
    assert subscription_problems(net) == [] and not net.failures
    return net


def damaged(scheme, what="tables", seed=0, compare_heartbeats=COMPARE_HEARTBEATS, brokers=range(BROKERS)):
    """Return a network in which a fault plan has just damaged a part of the state of some brokers."""
    net = network(scheme, seed, compare_heartbeats)
    plan = FaultPlan("some", tuple(Damage(1.0, broker, what) for broker in brokers), 2.0)
    said = []
    Injector(
        net, FaultPlan.from_dict(plan.to_dict()), lambda fault, what: said.append((fault, what)), lambda: None
    ).begin()
    net.advance(1.1)
    assert [fault for fault, _ in said] == list(plan.faults)
    assert sum(int(words.split(": ")[1].split()[0]) for _, words in said) > 0, "something is wrong now"
    return net


def problems_after(net):
    """Wait for the documented time; return the problems of the network and of what is published then."""
    begun = net.now
    net.advance(FOUND_HEARTBEATS)
    assert all(isinstance(error, StateDamaged) for error in net.failures.values())
    net.advance(MENDED_HEARTBEATS)
    found, since = set(net.failures), net.now
    problems = [*structure_problems(net), *subscription_problems(net)]
    problems += [f"broker {broker} is dead" for broker in range(BROKERS) if broker not in net.living()]
    for place in range(BROKERS):
        net.publish(f"p{place}", place, [{"x": x} for x in range(8)])
        net.advance(1.0)
    net.advance(10.0)
    net.account.settled(net.now)
    assert since - begun == pytest.approx(FOUND_HEARTBEATS + MENDED_HEARTBEATS)
    after = net.account.since(since)
    verdict = judge(after)
    assert verdict.notifications_expected > 100
    if holds(always(safe()), net.account.since(net.now - 12.0)) is not True:
        problems.append("definition 8, as it is written")
    problems += [f"broker {broker} started again" for broker in set(net.failures) - found]
    return problems + verdict.examples


@pytest.mark.parametrize(("scheme", "what"), QUICK)
def test_the_network_comes_back_to_a_suffix_that_keeps_definition_8(scheme, what):
    """Paper 4, definition 8: from any state, eventually always; here all brokers are damaged at once."""
    net = damaged(scheme, what)
    assert problems_after(net) == []
    assert what == "numbers" or net.failures, "it was found"


@pytest.mark.parametrize(
    ("scheme", "what", "seed"),
    [
        # Of every eight cases two: all brokers in one, a single one in another.
        (slow if at % 8 == 4 * (seed - 2) else thorough)(scheme, what, seed)
        for at, (scheme, what) in enumerate(CASES)
        for seed in (2, 3)
    ],
)
def test_so_it_does_under_every_scheme(scheme, what, seed):
    """Damage all brokers (seed 2), and a single one (seed 3)."""
    brokers = range(BROKERS) if seed == 2 else [1]
    assert problems_after(damaged(scheme, what, seed, brokers=brokers)) == []


@pytest.mark.parametrize(
    ("scheme", "what"),
    [
        ("hybrid", "tables"),
        ("lbdd", "numbers"),
        ("flooding+graph", "numbers"),
        ("hybrid", "membership"),
        ("hybrid", "deduplicator"),
    ],
)
def test_without_comparing_the_damage_stays(scheme, what):
    net = damaged(scheme, what, seed=1, compare_heartbeats=None)
    assert problems_after(net) and not net.failures


def test_who_is_behind_hears_of_the_round_of_others():
    """It does if brokers compare, even without a link that shows the round; otherwise its event is lost."""
    for compare_heartbeats in (COMPARE_HEARTBEATS, None):
        net = network("hybrid", compare_heartbeats=compare_heartbeats)
        rounds = net.broker(5).layer(Replay).rounds
        assert rounds.current > FIRST_ROUND
        rounds.current = net.broker(5).layer(HealingBroker).tree_rounds.known = FIRST_ROUND
        rounds._links.clear()
        net.advance(FOUND_HEARTBEATS)
        before = len(net.notifications("s2"))
        net.publish("p5", 5, [{"x": 7}])
        net.advance(3.0)
        came = len(net.notifications("s2")) - before
        assert not net.failures and came == (compare_heartbeats is not None)


def test_numbers_of_streams_that_differ_are_begun_anew_with_a_view():
    net = network("lbdd")
    router, version = net.broker(5).router, net.broker(5).layer(HealingViews).version
    for order in router._incoming.values():
        order._next += 50
    net.advance(FOUND_HEARTBEATS + 2.0)
    assert net.broker(5).layer(HealingViews).version > version and not net.failures
    assert problems_after(net) == []


def test_a_broker_that_cannot_go_on_with_its_state_starts_again(monkeypatch):
    """A withdrawal of an entry that a damaged table lacks: the broker does not guess, it restarts clean."""
    net = network("hybrid", seed=1)
    monkeypatch.setattr(RoutingTable, "remove", lambda *_: {}["no such entry"])
    net.unsubscribe("s2", 1)
    net.advance(0.1)
    monkeypatch.undo()
    assert "cannot go on with its state: KeyError: 'no such entry'" in str(net.failures[2])
    net.advance(FOUND_HEARTBEATS + MENDED_HEARTBEATS)
    assert subscription_problems(net) == [] and 2 in net.living()


@pytest.mark.parametrize("seed", [0, slow(2), slow(4), *map(thorough, (1, 3, 5, 6, 7))])
def test_in_chaos_nobody_starts_again_who_is_right(monkeypatch, seed):
    """Whatever crashes, stalls or is cut off, no lasting difference is reported where there is none."""
    wrong = []
    monkeypatch.setattr(SimulatedNetwork, "_start_again", lambda net, host, error: wrong.append(error))
    case = draw_case(
        seed,
        brokers_max=8,
        seconds=8.0,
        scheme=("hybrid", "lbdd", "hypercube")[seed % 3],
        operations=seed > 3,
    )
    report = run_case(replace(case, recovery=replace(case.recovery, compare_heartbeats=COMPARE_HEARTBEATS)))
    assert report.holds and not wrong and report.messages["Compare"] > 10


@pytest.mark.parametrize("scheme", ["hybrid", "match-first"])
def test_what_has_expired_on_its_way_is_no_damage(scheme):
    """The broker counts it as had, and the subscriber never gets it: brokers started again one after another."""
    net = network(scheme)
    before = net.past_ttl
    net.publish("p0", 0, [{"x": 9}], ttl=0.001)
    net.advance(2.0 * FOUND_HEARTBEATS)
    assert net.past_ttl > before, "it has expired"
    assert not net.failures
    assert problems_after(net) == []


@pytest.mark.parametrize(("scheme", "seed"), [("hybrid", 3), ("hybrid", 5), ("hypercube", 5)])
def test_chaos_that_damages_state_holds_from_the_stated_time_on_and_not_without_comparing(scheme, seed):
    case = draw_sim_case(seed, damage=True, scheme=scheme, brokers_max=8, seconds=8.0)
    assert any(isinstance(fault, Damage) for fault in case.plan.faults)
    report = run_case(case)
    assert report.holds and report.verdict.notifications_expected > 0, report.problems
    assert not run_case(replace(case, recovery=replace(case.recovery, compare_heartbeats=None))).holds


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (slow if at == number else thorough)(10 + number, kind)  # each kind and each scheme once
        for at, kind in enumerate(("plain", "stable", "operations", "admission"))
        for number in range(4)
    ],
)
def test_chaos_that_damages_state_holds(seed, kind):
    scheme = ("hybrid", "hypercube", "lbdd", "hierarchical+nodes")[seed % 4]
    more = {} if kind == "plain" else {kind: True}
    report = run_chaos(seed, damage=True, scheme=scheme, brokers_max=10, seconds=10.0, **more)
    assert report.holds, (report.problems, report.verdict.examples)


def test_nobody_waits_for_ever_for_who_takes_it_that_all_is_told():
    """The view was damaged for a while: the next one looks new to one broker and not to the other."""
    report = run_chaos(7, damage=True, scheme="lbdd", brokers_max=8, seconds=8.0, stable=True)
    assert report.holds, report.problems


def test_a_round_that_a_store_has_of_a_damaged_life_is_not_believed():
    """No view is later than the newest one of the rendezvous point."""
    report = run_chaos(10, damage=True, scheme="lbdd", brokers_max=10, seconds=10.0, stable=True)
    assert report.holds, report.problems


@pytest.mark.slow
def test_a_broker_does_not_start_again_for_a_durable_subscriber_that_has_not_acknowledged():
    report = run_chaos(27, damage=True, scheme="hypercube", brokers_max=8, seconds=8.0, stable=True)
    assert report.holds, report.problems


def test_a_plan_that_damages_is_for_brokers_that_compare():
    plan = FaultPlan("one", (Damage(1.0, 0, "deduplicator"),), 2.0)
    assert draw_sim_case(0, plan=plan).recovery.compare_heartbeats == COMPARE_HEARTBEATS
    assert draw_sim_case(0).recovery.compare_heartbeats is None


def test_what_makes_no_sense_is_refused():
    with pytest.raises(
        ScenarioError, match=r"what is 'luck': it must be one of tables, numbers, membership, deduplicator"
    ):
        FaultPlan.from_dict(
            {
                "name": "x",
                "heal_seconds": 2.0,
                "faults": [{"fault": "damage", "at_seconds": 1.0, "broker": 0, "what": "luck"}],
            }
        )
    with pytest.raises(InputError, match="compare_heartbeats"):
        Recovery.for_simulator(compare_heartbeats=0.0)
    with pytest.raises(InputError, match="ends its process, so each needs an actor"):
        Network.launch(
            ClusterTree(1, 2), recovery=Recovery.for_simulator(compare_heartbeats=2.0), brokers_per_actor=2
        )
