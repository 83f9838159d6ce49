"""Shrinking, with runs that are made up: they fail for what the test says, so the smallest case is known."""

from dataclasses import replace

import pytest
from rayvous.faults.checker.verdict import Finding, Verdict
from rayvous.faults.plans.acts import acts_of
from rayvous.faults.plans.case_files import load_case
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.extended import extended
from rayvous.faults.plans.plans import CrashCluster
from rayvous.faults.report import ChaosReport
from rayvous.faults.shrinking.reasons import kind_of, reason_of
from rayvous.faults.shrinking.reductions import clients_of, labels_of, retimed, steps_of, with_brokers
from rayvous.faults.shrinking.shrink import shrink, size_of
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.errors import InputError
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.routing.topologies.cluster_trees import topology_of

CASE = extended(
    draw_case(20, brokers_max=12, seconds=8.0), stable=True, admission=True, late=True, known=True
)


def said(case, *conditions, problems=()):
    """Return a report of a run that violates these conditions."""
    findings = {name: Finding(2, 1) for name in conditions}
    verdict = Verdict(events_published=1, notifications_expected=1, findings=findings)
    report = ChaosReport("sim", case.describe(), verdict, converged_seconds=1.0, drawn=case)
    report.problems += problems
    return report


def faults_and_events(case):
    return bool(case.plan.faults) and sum(len(action.events) for _, action in steps_of(case)) >= 3


def test_only_what_the_failure_needs_is_left(tmp_path):
    assert CASE.plan.faults and faults_and_events(CASE) and len(labels_of(CASE)) > 4
    found = shrink(CASE, run=lambda case: said(case, *["once"] * faults_and_events(case)), seconds_max=1e6)
    assert found.finished and str(found.reason) == "once is violated" and found.runs < 300
    size = found.size
    assert (size.brokers, size.clients, size.faults, size.events) == (2, 1, 1, 3), (
        "the root, and whom the fault harms"
    )
    assert size.actions <= 4 < found.before.actions
    case = found.case
    assert not (case.stable or case.late or case.known or case.admission or case.adverts or case.durable)
    assert case.links == LinkModel() and case.plan.heal_seconds <= 4.0
    assert all(event == {} for _, action in steps_of(case) for event in action.events)
    assert found.report.drawn == case and faults_and_events(case)
    found.report.options = " --operations"
    assert found.save(tmp_path / "a case.json") == f"rayvous chaos --on sim --case '{tmp_path}/a case.json'"
    assert load_case(tmp_path / "a case.json") == case


def test_an_option_that_is_needed_stays_and_selectors_become_simple():
    def run(case):
        wants = [action for _, action in steps_of(case) if "price" in action.selector]
        return said(case, *["complete"] * bool(case.stable and case.scheme == "hybrid+quench" and wants))

    found = shrink(replace(CASE, scheme="hybrid+quench"), run=run, seconds_max=1e6).case
    assert found.stable and found.scheme == "hybrid+quench"
    ((_, wanted),) = steps_of(found)
    assert wanted.do == "subscribe" and " OR " not in wanted.selector and " AND symbol" not in wanted.selector


def test_a_run_that_fails_for_another_reason_is_none():
    """It violates another condition, has an error that the first run had not, or another kind of problem."""

    def run(case):
        if case == CASE:
            return said(case, "once", "ordered")
        return said(case, "ordered")

    assert shrink(CASE, run=run, runs_max=20, seconds_max=1e6).case == CASE

    def ends_early(case):
        return said(
            case, "complete", problems=[] if case == CASE else ["1.0 s: KeyError: 'x' (cases.py:3, f)"]
        )

    assert shrink(CASE, run=ends_early, runs_max=20, seconds_max=1e6).case == CASE

    def unsound(case):
        return said(
            case, problems=["at the end: broker 1 has left" if case == CASE else "at the end: no root"]
        )

    found = shrink(CASE, run=unsound, runs_max=20, seconds_max=1e6)
    assert found.case == CASE and found.reason.problem == "at the end: broker * has left"


def test_a_run_that_holds_has_nothing_to_shrink():
    with pytest.raises(InputError, match="seed 20: the run holds, so there is nothing to shrink"):
        shrink(CASE, run=said)
    idle = said(CASE)
    idle.verdict.notifications_expected = 0
    with pytest.raises(InputError, match="is undecided"):
        shrink(idle, run=lambda case: idle)
    with pytest.raises(InputError, match="has no case"):
        shrink(replace(said(CASE), drawn=None))


def test_when_time_or_runs_are_over_or_it_is_interrupted_the_best_case_is_returned():
    runs = []

    def run(case):
        runs.append(case)
        if len(runs) == 12:
            raise KeyboardInterrupt
        return said(case, *["once"] * faults_and_events(case))

    seen = []
    found = shrink(CASE, run=run, progress=lambda number, size: seen.append((number, size)), seconds_max=1e6)
    assert not found.finished and found.runs == len(runs) == 12
    assert seen[-1][1] == found.size == size_of(found.report.drawn)
    assert found.size.actions < found.before.actions
    for bound in ({"runs_max": 5}, {"seconds_max": 0.0}):
        runs.clear()
        found = shrink(CASE, run=run, **bound)
        assert not found.finished and found.runs == len(runs) == bound.get("runs_max", 1)


def test_brokers_that_are_gone_are_named_by_nobody():
    """Their clients go up the tree, their faults go, the tree keeps its form, and a correct network passes."""
    case = draw_sim_case(4, brokers_max=12, seconds=6.0, late=False, known=False)
    crash = CrashCluster(1.0, max(place.cluster for place in topology_of(case.topology).positions()))
    case = replace(case, plan=replace(case.plan, faults=(crash, *case.plan.faults[1:]), stay_dead=()))
    labels = labels_of(case)
    for kept in (labels[::2], labels[1::2], labels[:1], []):
        small = with_brokers(case, kept)
        positions = topology_of(small.topology).positions()
        assert {place.label for place in positions} == {*kept, "REB"}
        assert clients_of(small) == clients_of(case)
        assert {action.broker for _, action in steps_of(small)} <= {place.broker for place in positions}
        small.plan.check(positions)
        assert small.recovery.degree >= max(len(place.children) for place in positions)
        report = run_case(small)
        assert report.outcome != "violated", (kept, report.problems, report.verdict.examples)


def test_kinds_of_problems():
    assert kind_of("not converged 40 heartbeats after the healing: broker 3 has closed links: [1, 2]") == (
        "not converged * heartbeats after the healing: broker * has closed links: *"
    )
    assert kind_of("s13 #1 is not confirmed") == kind_of("s2 #12 is not confirmed")
    assert kind_of("broker 1 holds for s7: too much ['a > 1'], missing []") == kind_of(
        "broker 2 holds for s1: too much [], missing [\"b = 'x'\"]"
    )
    assert reason_of(said(CASE)) is None


def test_rests_that_are_not_needed_go_and_those_that_are_stay_between_the_same_faults():
    faults = tuple(CrashCluster(at, 0) for at in (1.0, 3.0, 5.0))
    case = replace(
        CASE,
        plan=replace(CASE.plan, faults=faults, stay_dead=()),
        intermissions=(2.0, 4.0, 6.0),
        operations=(),
    )

    def parted(case):
        return [len(act.plan.faults) for act in acts_of(case)] in ([1, 2], [1, 2, 0], [1, 1, 1], [1, 1, 1, 0])

    found = shrink(case, run=lambda case: said(case, *["once"] * parted(case)), seconds_max=1e6)
    assert len(found.case.intermissions) == 1 and [len(act.plan.faults) for act in acts_of(found.case)] == [
        1,
        2,
    ]
    assert retimed(found.case).intermissions == (2.0,) and [
        each.at_seconds for each in retimed(found.case).plan.faults
    ] == [
        1.0,
        3.0,
        4.0,
    ]
