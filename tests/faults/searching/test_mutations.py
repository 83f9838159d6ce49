"""Mutated cases are cases: what a file may hold, within bounds, the same for the same randomness."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from draws import slow, thorough
from rayvous.faults.plans.case_files import case_from_dict, case_to_dict
from rayvous.faults.plans.cases import publishes
from rayvous.faults.plans.plans import Crash, FaultPlan, Pause, Restart, Resume
from rayvous.faults.searching.attempts import attempt
from rayvous.faults.searching.mutations import ACTIONS_MAX, CHANGES, FAULTS_MAX, Mutator
from rayvous.faults.searching.seen import Moment
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.routing.topologies.cluster_trees import topology_of

EVERYTHING = {"stable": True, "admission": True, "operations": True}
KINDS = [{}, EVERYTHING, {"damage": True}, {"scheme": "lbdd", **EVERYTHING}]
MOMENTS = [Moment(1.0, 0, 1, ("a",)), Moment(2.5, 1, "p1", ("b",)), Moment(0.0, 99, None, ("c",))]


def drawn(seed, options):
    return draw_sim_case(seed, brokers_max=6, seconds=4.0, **options)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_is_made_of_a_case_is_a_case(options):
    mutator, case = Mutator(Random(1)), drawn(1, options)
    others = [drawn(seed, options) for seed in (2, 3)]
    for turn in range(15):
        case = mutator.mutated(case, MOMENTS if turn % 3 else [], others[turn % 2])
        assert case_from_dict(case_to_dict(case)) == case, "its faults have targets, its actions brokers"
        assert len(case.plan.faults) <= FAULTS_MAX and len(case.actions) <= ACTIONS_MAX
        assert [each.at_seconds for each in case.actions] == sorted(each.at_seconds for each in case.actions)
        numbers = [(each.client, each.number) for each in case.actions if each.do == "subscribe"]
        assert len(numbers) == len(set(numbers)), "a subscription has a number of its own"


def test_the_same_chance_makes_the_same_case():
    made = [Mutator(Random(7)).mutated(drawn(1, {}), MOMENTS, drawn(2, {})) for _ in range(2)]
    assert made[0] == made[1] != drawn(1, {})


def test_a_fault_is_aimed_at_the_moment_and_the_broker():
    case, mutator = drawn(1, {}), Mutator(Random(3))
    added = [
        fault
        for _ in range(40)
        for fault in mutator.strike(case, MOMENTS[:1], case).plan.faults
        if fault not in case.plan.faults
    ]
    assert {0, 1} >= {fault.broker for fault in added if hasattr(fault, "broker")}, (
        "there, or where it heard from"
    )
    assert sum(abs(fault.at_seconds - 1.0) < 0.001 for fault in added) > len(added) // 6


def test_a_publisher_only_publishes_what_it_has_published():
    case = drawn(3, {"admission": True})
    mutator, before = (
        Mutator(Random(5)),
        {str(each.events) for each in (*case.opening, *case.actions, *case.closing)},
    )
    for _ in range(30):
        case = mutator.add_action(case, [], case)
    assert {str(each.events) for each in case.actions if publishes(each.client)} <= before


def test_every_change_happens():
    case, changed = drawn(1, EVERYTHING), set()
    assert case.plan.faults and case.actions
    for seed in range(8):
        mutator = Mutator(Random(seed))
        changed |= {
            change.__name__ for change in CHANGES if change(mutator, case, MOMENTS, drawn(2, {})) != case
        }
    assert changed == {change.__name__ for change in CHANGES}


def test_what_is_repeated_happens_again_and_is_undone_in_between():
    plan = FaultPlan("one", (Crash(1.0, 1),), 4.0)
    case = replace(drawn(1, {}), plan=plan)
    for seed in range(20):
        faults = Mutator(Random(seed)).repeat_fault(case, [], case).plan.faults
        kinds = [type(fault) for fault in faults]
        assert kinds == [Crash, *[Restart, Crash] * (len(kinds) // 2)] and len(kinds) > 2
    numbers = Counter(
        each.client
        for seed in range(20)
        for each in Mutator(Random(seed)).repeat_action(case, [], case).actions
        if each not in case.actions and each.do == "subscribe"
    )
    assert numbers, "a subscription is repeated, too"


def test_the_more_stale_a_case_is_the_more_is_changed():
    case = drawn(1, {})
    few, many = (
        sum(
            len(
                {*Mutator(Random(seed)).mutated(case, MOMENTS, case, stale).plan.faults} ^ {*case.plan.faults}
            )
            for seed in range(20)
        )
        for stale in (0, 100)
    )
    assert many > 1.5 * few


def test_a_crowded_case_has_the_faults_of_all():
    cases = [drawn(seed, {}) for seed in range(1, 4)]
    here = {place.broker for place in topology_of(cases[0].topology).positions()}
    made = Mutator(Random(1)).crowded(cases[0], cases[1:])
    assert case_from_dict(case_to_dict(made)) == made and {*made.plan.faults} > {*cases[0].plan.faults}
    crashes = [each for case in cases for each in case.plan.faults if isinstance(each, Crash)]
    assert {each.broker for each in crashes} & here <= {
        getattr(each, "broker", None) for each in made.plan.faults
    }


@pytest.mark.parametrize("turns", [slow(2), thorough(8)])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_right_network_passes_mutated_cases(options, turns):
    mutator, case = Mutator(Random(11)), drawn(2, options)
    report, seen = attempt(mutator.chained(case, [drawn(seed, options) for seed in range(3, 9)]))
    assert report.outcome != "violated", (report.problems, case_to_dict(report.drawn))
    for turn in range(turns):
        changed = mutator.mutated(case, seen.moments[turn::40], drawn(turn, options))
        report, after = attempt(changed)
        assert report.outcome != "violated", (report.problems, case_to_dict(changed))
        case, seen = (changed, after) if turn % 3 else (case, seen)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_scenes_follow_one_another_each_once_everything_was_undone(options):
    cases = [drawn(seed, options) for seed in range(1, 9)]
    made = Mutator(Random(2)).chained(cases[0], cases[1:])
    assert case_from_dict(case_to_dict(made)) == made
    assert len(made.plan.faults) <= FAULTS_MAX and len(made.actions) <= ACTIONS_MAX
    first, seconds = cases[0], cases[0].plan.heal_seconds
    assert made.plan.heal_seconds >= 2 * seconds and made.plan.faults[: len(first.plan.faults)]
    for kind in ("publish", "move", "subscribe"):
        before, after = (sum(each.do == kind for each in case.actions) for case in (first, made))
        assert after >= 2 * before, f"clients {kind} in each scene"
    numbers = [(each.client, each.number) for each in made.actions if each.do == "subscribe"]
    assert len(numbers) == len(set(numbers)), "a subscription has a number of its own"


def test_scenes_play_in_a_network_of_several_brokers_and_each_has_faults():
    mutator, cases = Mutator(Random(4)), [drawn(seed, {}) for seed in range(12)]
    sizes = [len(topology_of(case.topology).positions()) for case in cases]
    assert 1 in sizes and not all(case.plan.faults for case in cases), "as seeds are"
    quiet = [case for case in cases if not case.plan.faults]
    for turn in range(12):
        made = mutator.staged([*cases[turn:], *cases[:turn]])
        assert len(topology_of(made.topology).positions()) > 1 and made.topology in [
            case.topology for case in cases if case.plan.faults
        ]
        assert case_from_dict(case_to_dict(made)) == made
    assert mutator.staged(quiet[:1]) == quiet[0]
    alone = [case for case, size in zip(cases, sizes, strict=True) if size == 1 and case.plan.faults]
    assert mutator.staged(alone[:1]).topology == alone[0].topology


def test_a_fault_of_a_larger_network_hits_one_broker_here_and_what_undoes_it_the_same_one():
    case = replace(drawn(1, {}), plan=FaultPlan("none", (), 4.0))
    there = len(topology_of(case.topology).positions())
    other = replace(case, plan=FaultPlan("far", (Pause(1.0, there + 7), Resume(2.0, there + 7)), 4.0))
    pause, resume = Mutator(Random(5)).crowded(case, [other]).plan.faults
    assert 0 <= pause.broker == resume.broker < there


def test_who_dies_in_a_scene_is_back_in_the_next():
    plans = [FaultPlan("one", (Crash(1.0, 0),), 4.0), FaultPlan("two", (Crash(0.5, 0),), 4.0)]
    one, other = (replace(drawn(1, {}), plan=plan) for plan in plans)
    faults = Mutator(Random(2)).chained(one, [other]).plan.faults
    assert [type(each) for each in faults] == [Crash, Restart, Crash] and faults[1].at_seconds >= 4.0
    assert faults[2].at_seconds == faults[1].at_seconds + 0.5
