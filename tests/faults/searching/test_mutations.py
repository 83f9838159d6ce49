"""Mutated cases are cases: what a file may hold, within bounds, the same for the same randomness."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from broken_brokers import BROKEN
from draws import slow, thorough
from rayvous.faults.plans.acts import acts_of
from rayvous.faults.plans.case_files import case_from_dict, case_to_dict
from rayvous.faults.plans.cases import publishes
from rayvous.faults.plans.plans import Crash, Cut, FaultPlan, Mend, Pause, Restart, Resume, Shake
from rayvous.faults.searching.attempts import attempt
from rayvous.faults.searching.mutations import ACTIONS_MAX, CHANGES, FAULTS_MAX, RETENTION_SECONDS, Mutator
from rayvous.faults.searching.seen import Moment
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
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
def test_scenes_follow_one_another_each_with_what_its_seed_does(options):
    cases = [drawn(seed, options) for seed in range(1, 9)]
    made = Mutator(Random(2)).chained(cases[0], cases[1:])
    assert case_from_dict(case_to_dict(made)) == made
    assert len(made.plan.faults) <= FAULTS_MAX and len(made.actions) <= ACTIONS_MAX
    seconds = cases[0].plan.heal_seconds
    assert (
        made.intermissions == tuple(seconds * scene for scene in range(1, 8))
        and made.plan.heal_seconds == 8 * seconds
    )
    acts = acts_of(made)
    for scene, act in zip(cases, acts, strict=True):
        for kind in ("publish", "move", "subscribe"):
            wanted, played = (sum(each.do == kind for each in case.actions) for case in (scene, act))
            assert played == wanted, f"its clients {kind} as those of its seed"
        assert [each.do for each in act.operations] == [each.do for each in scene.operations]
        if not scene.operations and not options.get("damage"):
            assert [type(each) for each in act.plan.faults] == [type(each) for each in scene.plan.faults]
    there = {each.client for each in (*cases[0].opening, *cases[0].actions, *cases[0].closing)}
    assert {each.client for each in made.actions} <= there
    numbers = [(each.client, each.number) for each in made.actions if each.do == "subscribe"]
    assert len(numbers) == len(set(numbers)), "a subscription has a number of its own"


def test_scenes_play_in_a_network_with_a_tree_and_a_cluster_of_several_brokers():
    cases = [drawn(seed, {}) for seed in range(12)]
    positions = {str(case.topology): topology_of(case.topology).positions() for case in cases}
    kinds = {
        topology: 1 < len({each.cluster for each in there}) < len(there)
        for topology, there in positions.items()
    }
    made = [Mutator(Random(seed)).staged(cases) for seed in range(12)]
    assert not all(kinds.values()) and all(kinds[str(each.topology)] for each in made)
    assert all(each.recovery.retention_seconds <= RETENTION_SECONDS for each in made)


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


def test_a_cut_of_a_larger_network_is_one_between_two_brokers_here_and_so_is_its_end():
    case = replace(drawn(1, {}), plan=FaultPlan("none", (), 4.0))
    there = len(topology_of(case.topology).positions())
    faults = Cut(1.0, there, 2 * there), Mend(2.0, there, 2 * there), Shake(3.0, 1.0, brokers=(0, there + 1))
    far = replace(case, plan=FaultPlan("far", faults, 4.0))
    cut, mend, shake = Mutator(Random(5)).crowded(case, [far]).plan.faults
    assert (cut.one, cut.other) == (mend.one, mend.other) and 0 <= cut.one < cut.other < there
    assert shake.brokers == (0, 1)


def test_a_scene_begins_when_the_network_is_whole_again():
    plans = [FaultPlan("one", (Crash(1.0, 0),), 4.0, (0,)), FaultPlan("two", (Crash(0.5, 0),), 4.0, (0,))]
    one, other = (replace(drawn(1, {}), plan=plan) for plan in plans)
    made = Mutator(Random(2)).chained(one, [other])
    assert made.intermissions == (4.0,) and made.plan.faults == (Crash(1.0, 0), Crash(4.5, 0))
    report = run_case(made)
    assert report.holds
    told = [what for _, what in report.timeline if what.startswith(("fault", "everything", "converged"))]
    assert told == [
        "fault: crash broker 0", "everything healed, started 0", "converged",
        "fault: crash broker 0", "everything healed, left dead 0", "converged",
    ]  # fmt: skip


def test_a_network_that_is_not_whole_at_a_rest_is_a_finding():
    broken = next(each for each in BROKEN if each.name == "forget_one_filter_at_succession")
    report = broken.run(Mutator(Random(2)).chained(broken.case, [broken.case]))
    assert "not converged" in report.problems[0]
    assert sum(what.startswith("everything healed") for _, what in report.timeline) == 1


def test_what_is_lost_in_a_scene_is_found_although_the_rounds_of_the_next_would_send_it_again():
    broken = next(each for each in BROKEN if each.name == "pass_closed_links")
    assert broken.case.plan.faults and broken.run(broken.case).verdict.missing
    twice = Mutator(Random(2)).chained(broken.case, [broken.case])
    report = broken.run(twice)
    assert report.verdict.missing and not report.problems
    told = [what for _, what in report.timeline]
    assert sum(what.startswith("everything healed") for what in told) == 1
    assert any(what.startswith("a promise is broken") for what in told)
    assert not any(what.startswith("a promise") for _, what in run_case(twice).timeline)
