"""What a run reaches: watching changes nothing in it, and says where and when."""

import pytest
from rayvous.faults.plans.plans import Crash, FaultPlan, Restart
from rayvous.faults.searching.attempts import attempt
from rayvous.faults.searching.never import never_handled, never_together
from rayvous.faults.simulated.chaos import draw_sim_case, run_case

PLAN = FaultPlan("one", (Crash(1.0, 1), Restart(3.0, 1)), 5.0)
CASE = draw_sim_case(
    3, brokers_max=6, plan=PLAN, topology={"clusters": 2, "brokers_per_cluster": 2, "degree": 2}
)


@pytest.fixture(scope="module")
def watched():
    return attempt(CASE)


def test_a_watched_run_is_the_same_run(watched):
    report, seen = watched
    assert report.holds and report.to_dict() == run_case(CASE).to_dict()
    again = attempt(CASE).seen
    assert again == seen and list(again.moments) == list(seen.moments)


def test_every_option_can_be_watched():
    case = draw_sim_case(1, brokers_max=3, seconds=1.0, stable=True, admission=True, operations=True)
    report, seen = attempt(case)
    assert report.holds and seen.points


def test_it_says_in_words_what_was_handled_in_which_state_while_what_else_happened(watched):
    points = watched.seen.points
    assert "ClusterBeat at Succession._state=NORMAL" in points
    assert any(str(point).endswith("while a member is dead") for point in points)
    assert any(str(point).endswith("while this broker has been restarted 1x") for point in points)
    assert any(" while Events comes" in str(point) for point in points), "and what else is on its way"
    assert any(str(point).startswith("Events: Deliver") for point in points)


def test_it_says_how_often_and_what_the_highest_number_was(watched):
    points = watched.seen.points
    highest = max(action.number for action in CASE.opening + CASE.actions)
    assert f"Register.subscription is {highest}x" in points and highest <= 7
    assert f"Register.subscription is {highest + 1}x" not in points
    counts = [each for each in points if str(each).startswith("Events handled ")]
    assert "Events handled 2x by one broker" in counts and 6 < len(counts) < 16, "seven, and powers of two"


def test_moments_are_those_of_the_faults_and_name_the_broker(watched):
    moments = watched.seen.moments
    assert moments and all(0.0 <= moment.at_seconds <= PLAN.heal_seconds for moment in moments)
    dead = [moment for moment in moments if any("while a member is dead" in each for each in moment.points)]
    assert dead and all(moment.at_seconds >= 1.0 and moment.broker == 0 for moment in dead), "its only fellow"


def test_what_was_never_reached():
    reached = {"Events: Deliver": 9, "Events at A.x=yes": 9, "Ping at A.x=no": 4, "Ping at B.y=0": 1, 17: 9}
    assert never_handled(reached, {"Events", "Pong"}) == ["Pong"]
    first, *others = never_together(reached)
    assert first == ("Events", "A.x=no", 4), "both happened, the rarer one four times"
    assert [each[:2] for each in others] == [("Ping", "A.x=yes"), ("Events", "B.y=0")]
