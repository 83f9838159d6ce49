"""A run of which nothing is decided does not hold: it is undecided (promise 2; decision 0112)."""

import random

import pytest
from rayvous.faults.checker.mutants import NOT_DECIDED
from rayvous.faults.checker.reliability import judge, judge_by_formulas
from rayvous.faults.checker.verdict import HOLDS, UNDECIDED, VIOLATED, Verdict, total, worst
from rayvous.protocol.traces.trace import (
    Confirmed,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
    trace_of,
)

WANT, SURE = Registered(0.0, "c", 1, "x > 1"), Confirmed(0.0, "c", 1)
EVENT, QUIET, NOTE = Published(1.0, "p", 1, {"x": 2}), Settled(3.0), Notified(2.0, "c", "p", 1)


def outcome(*operations):
    trace = Trace(operations)
    quick = judge(trace)
    assert judge_by_formulas(trace).outcome == quick.outcome
    assert quick.holds == (quick.outcome == HOLDS)
    assert quick.counts()["verdict"] == quick.outcome and f"({quick.outcome};" in repr(quick)
    return quick.outcome


def test_something_had_to_come_and_came():
    assert outcome(WANT, SURE, EVENT, NOTE, QUIET) == HOLDS


@pytest.mark.parametrize(
    "operations",
    [
        (),
        (LossTold(0.0, "", "p", 1),),
        (WANT, SURE, QUIET),  # nothing was published
        (EVENT, QUIET),  # nobody subscribed
        (WANT, SURE, EVENT._replace(event={"x": 1}), QUIET),  # nobody wanted it
        (WANT, EVENT, QUIET),  # never confirmed
        (WANT, SURE, EVENT),  # never settled
        (WANT, SURE, EVENT, NOTE),  # something came, but whether all does is not known
        (WANT, EVENT, SURE, NOTE, QUIET),  # confirmed too late
    ],
)
def test_where_nothing_had_to_come_nothing_is_decided(operations):
    assert outcome(*operations) == UNDECIDED


def test_a_violation_decides_whatever_else_is_unknown():
    assert outcome(WANT, NOTE) == VIOLATED
    assert outcome(WANT, EVENT, NOTE, NOTE) == VIOLATED
    assert outcome(WANT, SURE, EVENT, QUIET) == VIOLATED


def test_a_loss_that_a_limit_explains_is_decided():
    shed = Shed(1.5, "p", 1, "queue", 5.5, 5.0)
    assert outcome(WANT, SURE, EVENT, shed, LossTold(2.0, "c", "p", 1), QUIET) == HOLDS


@pytest.mark.parametrize("name", NOT_DECIDED)
@pytest.mark.parametrize("seed", [0, 2, 4, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 3))])
def test_mutants_that_show_nothing_are_undecided(correct_trace, name, seed):
    rng = random.Random(seed)
    trace = correct_trace(rng, steps=120, forgets=seed % 2 == 1)
    mutant = NOT_DECIDED[name](trace, rng)
    assert judge(trace).outcome == HOLDS
    assert outcome(*mutant) == UNDECIDED and judge(mutant).indeterminate > 0


def test_the_outcome_of_several_runs_is_the_worst():
    assert worst([HOLDS, HOLDS]) == HOLDS
    assert worst([HOLDS, UNDECIDED]) == worst([]) == UNDECIDED
    assert worst([UNDECIDED, VIOLATED, HOLDS]) == VIOLATED
    right = judge(trace_of({("p", 1): {"x": 1}}, {"c": ["TRUE"]}, {"c": [("p", 1)]}))
    assert total([Verdict(), right]).outcome == HOLDS and total([]).outcome == UNDECIDED
