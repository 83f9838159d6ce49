"""One chaos run: a network under a fault plan, then healed, and judged; in virtual time or on real processes.

Phases
------
1. Build: the network starts, clients subscribe, everything settles. Every subscription must be confirmed.
2. Faults: the plan is carried out while clients publish, subscribe, unsubscribe and move.
3. Heal: all faults end, and the search of clusters for nearer parents ends. Within a bound of the system the network
   must be one tree again, with every subscription installed and every client at a living broker (promise 6), and
   stay so for :data:`STEADY_LOOKS` looks. A case with intermissions has phases 2 and 3 once for each of its acts. If
   something published in an act is missing after it, the others are left out: their rounds would send it again.
4. Late subscribers come, before phase 2 or after phase 3 (:mod:`rayvous.faults.plans.late_cases`). In the latter case
   brokers die once more, and the network heals once more.
5. Liveness: every publisher publishes again. When everything has settled, it is judged (promises 1-3).

Rule: the run decides what is done when, and what the judge gets; a :class:`~rayvous.faults.system.System` does it. So
both systems go through the same phases, in the same order.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from .checker.expiry import late_notifications
from .checker.reliability import judge
from .checker.verdict import VIOLATED
from .injector import Injector
from .plans.acts import acts_of
from .plans.cases import BUILD_SECONDS, Action, Case, Late
from .plans.damage_cases import found_heartbeats, is_damaged
from .plans.plans import Fault
from .report import ChaosReport
from .system import System

STEADY_LOOKS: Final = 4
"""How many sound looks in a row are required; looks are half a heartbeat apart."""

CONVERGE_HEARTBEATS: Final = 40
"""How long a subscription may take that is made in a sound network."""

SETTLE_HEARTBEATS: Final = 10
LATE_DEAD_HEARTBEATS: Final = 4
LATE_HEARTBEATS: Final = 8
"""How long brokers that die late are dead, if they are restarted, and how long it is until the network must heal."""

LET_IN_HEARTBEATS_MAX: Final = 240
"""Enough for the slowest publisher that is drawn, with ten events per second, to have all events of a run admitted."""

BUILD_SECONDS_MAX: Final = 30.0


class ChaosRun:
    """One case on one system.

    Parameters
    ----------
    case
        What is done.
    system
        Who does it.
    report
        What is found goes there.
    keep_trace
        Whether the report contains the trace of the run.
    """

    def __init__(self, case: Case, system: System, report: ChaosReport, *, keep_trace: bool = False) -> None:
        self._case = case
        self._system = system
        self._report = report
        self._keep_trace = keep_trace
        self._heartbeat = case.features.usual_times.heartbeat_seconds
        self._healed_at = 0.0
        self._judged_from: float | None = None

    def run(self) -> ChaosReport:
        """Run the case, and return the report."""
        self._guarded(self._in_system)
        return self._report

    def _in_system(self) -> None:
        with self._system:
            self._guarded(self._phases)
            self._judge()

    def _guarded(self, do: Callable[[], None]) -> None:
        """Make any error a finding: a run of many seeds continues."""
        try:
            do()
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}, {frame.name}"
            self._problem(f"{self._system.now:.3f} s: {type(error).__name__}: {error} ({where})")

    def _phases(self) -> None:
        system, late = self._system, self._case.late
        self._build()
        if late is not None and late.before:
            self._late(late)
        *before, last = acts_of(self._case)
        for act in before:
            began = system.now
            self._faults(act)
            if not self._converge():
                return
            if self._is_broken_since(began):
                system.timeline.say(system.now, "a promise is broken: what was to follow is left out")
                self._liveness()
                return
        self._faults(last)
        if not self._converge():
            return
        if late is None or late.before or self._late_kill(late):
            self._liveness()

    def _build(self) -> None:
        system = self._system
        start = system.now + BUILD_SECONDS
        system.play(self._case.opening, start)
        system.await_clients()
        system.settle(start)
        while system.unfinished() and system.now < start - BUILD_SECONDS + BUILD_SECONDS_MAX:
            self._wait(1.0)  # a long chain of slow links takes time
        for problem in [*system.unconfirmed(), *system.look()] or system.unfinished():
            self._problem(f"before the first fault: {problem}")

    def _faults(self, case: Case) -> None:
        system = self._system
        start = system.now
        system.play(case.actions, start)
        system.operate(case.operations, start)
        system.spread(() if case.known is None else case.known.rumours, start)
        until = Injector(system.network, case.plan, self._harmed, system.root).begin()
        for _ in system.carry_out(until, self._heartbeat / 2):
            system.look()
        self._healed_at = system.now
        system.await_clients()

    def _converge(self) -> bool:
        system = self._system
        system.revive()
        found_at = system.now + found_heartbeats(self._case) * self._heartbeat
        while system.now < found_at:
            system.wait_until(min(system.now + self._heartbeat / 2, found_at))
            system.look()
        while system.operating:
            self._wait(0.5)
            system.revive()
            system.look()
        steady, converged_at, problems = 0, 0.0, ["not looked at"]
        deadline = system.now + system.bounds.converge
        while steady < STEADY_LOOKS and system.now < deadline:
            self._wait(0.5)
            system.revive()
            problems = system.look() or system.unfinished()
            steady = 0 if problems else steady + 1
            if steady == 1:
                converged_at = system.now
        if steady < STEADY_LOOKS:
            for problem in problems or ["it does not stay sound"]:
                self._problem(f"not converged {system.bounds.converge_words} after the healing: {problem}")
            return False
        if self._report.converged_seconds is None:  # else it is the second time
            self._report.converged_seconds = converged_at - self._healed_at
        system.timeline.say(converged_at, "converged")
        return True

    def _is_broken_since(self, began: float) -> bool:
        """Return whether something published since then has broken a promise, and still has after a while.

        What has a time to live is left out: it may have expired.
        """
        if is_damaged(self._case):
            return False
        for heartbeats in (0.0, SETTLE_HEARTBEATS):
            self._wait(heartbeats)
            account = self._system.account
            trace = account.since(began, account.expires).in_time()
            trace.settled(self._system.now)
            if judge(trace).outcome != VIOLATED:
                return False
        return True

    def _late(self, late: Late) -> None:
        """Let new subscribers come after what others published has settled, and they have left."""
        system = self._system
        self._play(late.publications)
        self._let_in()
        self._flush(late.publishers)
        system.settle(system.now)
        self._settled()
        system.release(late.publishers)
        system.settle(system.now + self._heartbeat)
        self._settled()
        self._play(late.subscriptions)
        deadline = system.now + CONVERGE_HEARTBEATS * self._heartbeat
        while (waiting := system.unconfirmed(late.subscribers)) and system.now < deadline:
            self._wait(0.5)
        for problem in waiting:
            self._problem(f"{system.now:.3f} s: {problem}")

    def _late_kill(self, late: Late) -> bool:
        """Let new subscribers come after the healing, kill brokers, and return whether the network heals again."""
        system, network = self._system, self._system.network
        self._settle()
        self._late(late)
        for broker in late.victims(network.staying()):
            network.crash(broker)
            system.timeline.say(system.now, f"broker {broker} dies late")
            if late.restarts:
                network.at(system.now + LATE_DEAD_HEARTBEATS * self._heartbeat, network.restart, broker)
        self._wait(LATE_HEARTBEATS)
        return self._converge()

    def _liveness(self) -> None:
        system = self._system
        self._let_in()
        self._settle()
        self._judged_from = system.now if is_damaged(self._case) else None
        self._play(self._case.closing)
        self._let_in()
        self._settle()
        if self._case.stable:
            self._end_of_stable()
        for problem in self._left_at_the_end():
            self._problem(f"at the end: {problem}")
        system.finish()

    def _left_at_the_end(self) -> Sequence[str]:
        """Return what is wrong and stays: a client that moves last of all may want a round, whose view then travels."""
        system = self._system
        deadline = system.now + SETTLE_HEARTBEATS * self._heartbeat
        while (problems := system.look() or system.unfinished()) and system.now < deadline:
            self._wait(0.5)
        return problems

    def _end_of_stable(self) -> None:
        """Check that every publisher is told that all is delivered, and that brokers retain nothing without need."""
        system = self._system
        self._flush(None)
        deadline = system.now + system.bounds.forget
        while (left := system.unforgotten()) and system.now < deadline:
            self._wait(1.0)
        for problem in left:
            self._problem(f"at the end: {problem}")

    def _judge(self) -> None:
        system, report, case = self._system, self._report, self._case
        trace = system.trace()
        judged = trace if self._judged_from is None else trace.since(self._judged_from)
        report.judge(judged, keep_trace=self._keep_trace, lossless=case.lossless)
        for problem in late_notifications(trace.notifications(), system.account.expires):
            self._problem(problem)
        system.count(report)
        told = system.timeline.told(trace, self._heartbeat / 2, system.now)
        report.recoveries, report.timeline = told

    # Steps of which phases are made.

    def _wait(self, heartbeats: float) -> None:
        self._system.wait_until(self._system.now + heartbeats * self._heartbeat)

    def _play(self, actions: tuple[Action, ...]) -> None:
        """Let clients do these actions, and wait until they are done."""
        self._system.wait_until(self._system.play(actions, self._system.now))
        self._system.await_clients()

    def _let_in(self) -> None:
        """Wait for events beyond the advertised rate: each counts as published when its publisher's quota admits it."""
        deadline = self._system.now + LET_IN_HEARTBEATS_MAX * self._heartbeat
        while self._case.adverts and self._system.held_back() and self._system.now < deadline:
            self._wait(1.0)

    def _settle(self) -> None:
        self._system.settle(self._system.now + SETTLE_HEARTBEATS * self._heartbeat)
        self._settled()

    def _settled(self) -> None:
        """Record that the full time for settling is over: what has not arrived by now does not come."""
        self._system.account.settled(self._system.now)

    def _flush(self, publishers: tuple[str, ...] | None) -> None:
        for problem in self._system.flush(publishers):
            self._problem(f"{self._system.now:.3f} s: {problem}")

    def _harmed(self, fault: Fault | None, what: str) -> None:
        self._system.timeline.harmed(self._system.now, fault, what)

    def _problem(self, sentence: str) -> None:
        self._report.problem(sentence)


__all__ = ["ChaosRun"]
