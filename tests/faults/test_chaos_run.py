"""The phases of a chaos run, on a system that only records what it is told to do."""

from collections import Counter
from dataclasses import replace

import pytest
from rayvous.faults.chaos_run import STEADY_LOOKS, ChaosRun
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.extended import extended
from rayvous.faults.plans.plans import Crash, FaultPlan
from rayvous.faults.recovery_times import RecoveryTimes
from rayvous.faults.report import ChaosReport
from rayvous.faults.system import Bounds
from rayvous.protocol.traces.account import Account
from rayvous.routing.topologies.cluster_trees import topology_of

PLAN = FaultPlan("one", (Crash(1.0, 0),), 2.0)
CASE = replace(draw_case(3, brokers_max=6, plan=PLAN), known=None)


class Recorded:
    """A system on which nothing happens, except that a subscriber gets what `wrong` says, or nothing at all."""

    bounds = Bounds(10.0, "10 s", 5.0, 5.0)

    def __init__(self, case, wrong=None):
        self.now, self.account, self.timeline = 0.0, Account(), RecoveryTimes()
        self.network = self
        self.done, self.agenda, self.wrong = [], [], wrong or {}
        self.positions = {place.broker: place for place in topology_of(case.topology).positions()}
        self.rendezvous, self.members, self.operating = None, {}, False

    def __getattr__(self, name):
        def do(*given):
            self.done.append(name)
            if isinstance(error := self.wrong.get(name), Exception):
                raise error
            return error or []

        return do

    def __enter__(self):
        self.done.append("enter")
        if "enter" in self.wrong:
            raise self.wrong["enter"]

    def __exit__(self, *error):
        self.done.append("exit")

    def at(self, when, action, *values):
        self.agenda.append((when, action, values))

    def wait_until(self, when):
        self.now = max(self.now, when)

    settle = wait_until

    def carry_out(self, until, every_seconds):
        self.done.append("carry_out")
        for when, action, values in self.agenda:
            self.now = when
            action(*values)
        yield

    def play(self, actions, start):
        self.done.append("play")
        return start + (actions[-1].at_seconds if actions else 0.0)

    def trace(self):
        self.done.append("trace")
        return self.account

    def crash(self, broker):
        self.done.append(f"crash {broker}")
        return True

    def staying(self):
        return list(self.positions)


def run(case=CASE, **wrong):
    system = Recorded(case, wrong)
    return ChaosRun(case, system, ChaosReport("sim", case.describe())).run(), system


def test_the_phases_follow_each_other_and_the_judge_gets_the_trace():
    report, system = run()
    assert not report.problems and report.converged_seconds is not None
    assert system.done[0] == "enter" and system.done[-3:] == ["trace", "count", "exit"]
    played = [place for place, what in enumerate(system.done) if what == "play"]
    opening, during, closing = played
    assert opening < system.done.index("operate") == during + 1 < system.done.index("crash 0")
    assert system.done.index("revive") < closing < system.done.index("finish")
    assert [what for _, what in system.timeline.faults] == ["crash", "heal"]
    assert system.account.operations, "settled"


@pytest.mark.parametrize("before", [True, False])
def test_late_subscribers_come_before_the_faults_or_after_the_healing(before):
    case = extended(CASE, late=True)
    case = replace(case, late=replace(case.late, before=before, kills=() if before else (0.5,)))
    report, system = run(case)
    assert not report.problems
    counts = Counter(system.done)
    assert counts["play"] == 5 and counts["flush"] == counts["release"] == 1
    assert (system.done.index("release") < system.done.index("carry_out")) is before
    dead = [what for what in system.done if what.startswith("crash ")]
    assert len(dead) == (1 if before else 2), "the network heals once more"
    assert counts["revive"] >= (1 if before else 2) * (STEADY_LOOKS + 1)


@pytest.mark.parametrize("question", ["look", "unfinished"])
def test_a_network_that_does_not_heal_is_not_asked_to_deliver(question):
    report, system = run(**{question: ["broker 1 is lonely"]})
    assert "not converged 10 s after the healing: broker 1 is lonely" in report.problems
    assert "before the first fault: broker 1 is lonely" in report.problems
    assert report.converged_seconds is None and "finish" not in system.done
    assert system.done.count("play") == 2 and "trace" in system.done, "judged all the same"


def test_what_is_under_way_at_the_end_is_waited_for_and_what_stays_is_a_problem(monkeypatch):
    """A client that moves with the last action makes a view, which may not have reached every broker."""
    ends = {"played": 0, "looks": 0}

    def play(self, actions, start):
        ends["played"] += 1
        return start

    def look(looks_wrong):
        def looks(self):
            ends["looks"] += ends["played"] == 3
            return ["broker 1 has view 2"] if ends["played"] == 3 and ends["looks"] <= looks_wrong else []

        return looks

    monkeypatch.setattr(Recorded, "play", play)
    monkeypatch.setattr(Recorded, "look", look(2), raising=False)
    report, system = run()
    assert not report.problems and ends["looks"] == 3 and system.done[-4] == "finish"
    ends.update(played=0, looks=0)
    monkeypatch.setattr(Recorded, "look", look(1_000))
    assert run()[0].problems == ["at the end: broker 1 has view 2"]


def test_an_error_is_a_finding_wherever_it_is():
    report, system = run(revive=KeyError("no such client"))
    assert "KeyError: 'no such client'" in report.problems[0] and "trace" in system.done
    report, system = run(enter=OSError("no such network"))
    assert "OSError: no such network" in report.problems[0] and "trace" not in system.done


def test_what_is_kept_without_need_and_who_is_not_answered_is_found_with_stores_only():
    wrong = {"unforgotten": ["broker 2 keeps 3"], "flush": ["p1 was not told"]}
    assert not run(**wrong)[0].problems
    report, _ = run(extended(CASE, stable=True), **wrong)
    assert [problem.split(": ", 1)[1] for problem in report.problems] == [
        "p1 was not told",
        "broker 2 keeps 3",
    ]
