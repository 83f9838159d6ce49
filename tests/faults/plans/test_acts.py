"""The acts of a case: everything in one of them, counted from its start."""

from dataclasses import replace

import pytest
from rayvous.faults.plans.acts import acts_of
from rayvous.faults.plans.case_files import case_from_dict, case_to_dict
from rayvous.faults.plans.cases import Action, Known, Operation, Rumour
from rayvous.faults.plans.plans import Crash, CrashRoot, FaultPlan, Leave
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.protocol.errors import ScenarioError

PLAN = FaultPlan(
    "three", (CrashRoot(1.0, False), Crash(3.0, 0), Leave(4.5, 1, False), Crash(9.0, 1)), 9.0, (0,)
)
CASE = replace(
    draw_sim_case(1, brokers_max=4, seconds=2.0),
    topology={"clusters": 2, "brokers_per_cluster": 1, "degree": 2},
    plan=PLAN,
    intermissions=(3.0, 5.0),
    actions=(Action(2.5, "move", "s1"), Action(3.0, "move", "s2"), Action(12.0, "move", "s3")),
    operations=(Operation(4.0, "add_broker", 0.5),),
    known=Known(0.1, 1.0, (Rumour(1.0, 0.5, 1.0), Rumour(8.0, 0.5, 1.0))),
)


def test_each_act_has_what_lies_between_two_intermissions():
    one, two, three = acts_of(CASE)
    assert [act.plan.heal_seconds for act in (one, two, three)] == [3.0, 2.0, 4.0]
    assert one.plan.faults == (CrashRoot(1.0, True),), "who would stay dead comes back at an intermission"
    assert two.plan.faults == (Crash(0.0, 0), Leave(1.5, 1, True)), (
        "what is at the moment of an intermission comes after it"
    )
    assert three.plan.faults == (Crash(4.0, 1),)
    assert [act.plan.stay_dead for act in (one, two, three)] == [(), (), (0,)]
    assert [[each.at_seconds for each in act.actions] for act in (one, two, three)] == [[2.5], [0.0], [7.0]]
    assert [[each.at_seconds for each in act.operations] for act in (one, two, three)] == [[], [1.0], []]
    assert [[each.at_seconds for each in act.known.rumours] for act in (one, two, three)] == [
        [1.0],
        [],
        [3.0],
    ]


def test_a_case_without_rests_is_its_only_act():
    case = replace(CASE, intermissions=())
    assert acts_of(case) == [case]


@pytest.mark.parametrize("intermissions", [(5.0, 3.0), (0.0,), (9.0,), (3.0, 3.0)])
def test_intermissions_are_moments_of_the_plan_in_order(intermissions):
    assert case_from_dict(case_to_dict(CASE)) == CASE
    with pytest.raises(
        ScenarioError, match=r"case: intermissions is .*: it must be moments of the plan, in order"
    ):
        case_from_dict(case_to_dict(replace(CASE, intermissions=intermissions)))
