"""Shrinks a failing case while it fails for the same reason: delta debugging over its parts, then over each of them.

Rules
-----
* Lists (clients, faults, actions, brokers, events) are minimised with ddmin: halves, quarters, ... are left out, and at
  last each item by itself. Then each item that is left is made simpler. All of it is repeated until nothing changes.
* Each step is a run of the whole case. What fails for another reason counts as not failing.
* The search ends after a time or a number of runs; the best case so far is the result. Ctrl-C ends it, too.

Source: A. Zeller, R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28(2), 2002.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from ...protocol import checks
from ...protocol.errors import InputError
from ...routing.topologies.cluster_trees import topology_of
from ..checker.verdict import HOLDS, UNDECIDED
from ..plans.case_files import case_to_dict, save_case
from ..plans.cases import Action, Case
from ..report import ChaosReport
from ..simulated.chaos import run_case
from . import reductions
from .reasons import Reason, reason_of

SECONDS_MAX: Final = 60.0
RUNS_MAX: Final = 5_000
HELD: Final = {HOLDS: "holds", UNDECIDED: "is undecided"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a case is.

    Attributes
    ----------
    brokers, clients, events
        Counts.
    faults
        Faults, operations, and brokers that die late.
    actions
        Actions of clients, and faults.
    """

    brokers: int
    clients: int
    events: int
    faults: int
    actions: int

    def __str__(self) -> str:
        return (
            f"{self.brokers} brokers, {self.clients} clients, {self.faults} faults, {self.events} events, "
            f"{self.actions} actions"
        )


def size_of(case: Case) -> Size:
    """Return the size of a case."""
    steps = reductions.steps_of(case)
    faults = len(case.plan.faults) + len(case.operations) + (0 if case.late is None else len(case.late.kills))
    return Size(
        len(topology_of(case.topology).positions()),
        len(reductions.clients_of(case)),
        sum(len(action.events) for _, action in steps),
        faults,
        len(steps) + faults,
    )


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A failing case that was made small.

    Attributes
    ----------
    case, report
        The case, and the report of its run.
    reason
        Why it fails.
    before
        The size that the case had.
    runs, seconds
        The work that it took.
    finished
        Whether nothing more can be left out; otherwise time or runs were over, or it was interrupted.
    """

    case: Case
    report: ChaosReport
    reason: Reason
    before: Size
    runs: int
    seconds: float
    finished: bool

    @property
    def size(self) -> Size:
        """The size of the small case."""
        return size_of(self.case)

    def save(self, path: str | Path) -> str:
        """Write the case to a JSON file; return the command that runs it."""
        save_case(self.case, path)
        self.report.source, self.report.options = str(path), ""
        return self.report.replay


def shrink(
    failed: ChaosReport | Case,
    *,
    run: Callable[[Case], ChaosReport] = run_case,
    seconds_max: float = SECONDS_MAX,
    runs_max: int = RUNS_MAX,
    progress: Callable[[int, Size], None] | None = None,
) -> Shrunk:
    """Make a failing case as small as possible while it fails for the same reason.

    Parameters
    ----------
    failed
        The report of a run in virtual time that failed, or its case.
    run
        Runs a case, in virtual time: the same case must always be the same run.
    seconds_max, runs_max
        When to stop and return the smallest case so far.
    progress
        Called with the number of runs and the size of the smallest case so far.

    Raises
    ------
    InputError
        If the run holds, or is undecided: there is nothing to shrink.
    """
    checks.instance("failed", failed, (ChaosReport, Case), "the report of a chaos run, or its case")
    checks.seconds("seconds_max", seconds_max)
    checks.whole_number("runs_max", runs_max, 1)
    case = failed if isinstance(failed, Case) else failed.drawn
    if case is None:
        raise InputError("this report has no case: shrink what run_chaos or run_case returned")
    return _Search(case, run, seconds_max, runs_max, progress).shrunk()


class _Over(Exception):
    """Time or runs are over."""


class _Search:
    """The smallest failing case so far."""

    def __init__(
        self,
        case: Case,
        run: Callable[[Case], ChaosReport],
        seconds_max: float,
        runs_max: int,
        progress: Callable[[int, Size], None] | None,
    ) -> None:
        self._run = run
        self._started = time.monotonic()
        self._seconds_max = seconds_max
        self._runs_max = runs_max
        self._progress = progress
        self._seen: set[str] = set()
        self.runs = 1
        self._before = size_of(case)
        self.best, self._report = case, run(case)
        reason = reason_of(self._report)
        if reason is None:
            raise InputError(
                f"seed {case.seed}: the run {HELD[self._report.outcome]}, so there is nothing to shrink; "
                "--seeds N finds seeds that fail"
            )
        self._reason = reason

    def shrunk(self) -> Shrunk:
        finished = False
        try:
            while True:
                before = self.best
                for reduce in PASSES:
                    reduce(self)
                if self.best == before:
                    break
            finished = True
        except (_Over, KeyboardInterrupt):
            pass
        seconds = time.monotonic() - self._started
        return Shrunk(self.best, self._report, self._reason, self._before, self.runs, seconds, finished)

    def accepts(self, case: Case) -> bool:
        """Return whether a case fails for the same reason; then it is the best so far."""
        key = json.dumps(case_to_dict(case), sort_keys=True)
        if key in self._seen or case == self.best:
            return False
        self._seen.add(key)
        if self.runs >= self._runs_max or time.monotonic() - self._started >= self._seconds_max:
            raise _Over
        self.runs += 1
        report = self._run(case)
        if not self._reason.is_of(report):
            return False
        self.best, self._report = case, report
        if self._progress is not None:
            self._progress(self.runs, size_of(case))
        return True

    def fewest(self, items: Sequence[T], build: Callable[[Case, Sequence[T]], Case]) -> None:
        """Leave out as many items as possible (ddmin); `build` makes a case from those that are left."""
        left = list(items)
        if not left or self.accepts(build(self.best, [])):
            return
        parts = 2
        while len(left) > 1:
            size = max(1, len(left) // parts)
            for start in range(0, len(left), size):
                rest = left[:start] + left[start + size :]
                if rest and self.accepts(build(self.best, rest)):
                    left, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    return
                parts = min(len(left), 2 * parts)

    def first(self, cases: Iterable[Case]) -> bool:
        """Take the first of these cases that fails, too; return whether one does."""
        return any(self.accepts(case) for case in cases)


# The passes, from those that leave out much to those that leave out little.


def _options(search: _Search) -> None:
    while search.first(reductions.without_options(search.best)):
        pass


def _time(search: _Search) -> None:
    while search.best.plan.heal_seconds > 1.0:
        seconds = search.best.plan.heal_seconds
        if not search.first(
            reductions.ending_at(search.best, each) for each in (1.0, seconds // 2, seconds - 1)
        ):
            return


def _clients(search: _Search) -> None:
    search.fewest(reductions.clients_of(search.best), reductions.with_clients)


def _faults(search: _Search) -> None:
    search.fewest(search.best.plan.faults, reductions.with_faults)
    if search.best.plan.stay_dead:
        search.accepts(replace(search.best, plan=replace(search.best.plan, stay_dead=())))
    search.fewest(search.best.intermissions, reductions.with_intermissions)
    search.fewest(search.best.operations, lambda case, left: replace(case, operations=tuple(left)))
    if search.best.late is not None:
        search.fewest(search.best.late.kills, reductions.with_late_kills)


def _brokers(search: _Search) -> None:
    search.fewest(reductions.labels_of(search.best), reductions.with_brokers)


def _actions(search: _Search) -> None:
    search.fewest(reductions.steps_of(search.best), reductions.with_steps)


def _events(search: _Search) -> None:
    for place, (_, action) in enumerate(reductions.steps_of(search.best)):
        if len(action.events) > 1:
            search.fewest(action.events, lambda case, left, at=place: _with(case, at, events=tuple(left)))  # type: ignore[misc]
    for place, (_, action) in enumerate(reductions.steps_of(search.best)):
        for number, event in enumerate(action.events):

            def build(case: Case, names: Sequence[str], at: int = place, which: int = number) -> Case:
                events = list(reductions.steps_of(case)[at][1].events)
                events[which] = {name: events[which][name] for name in names}
                return _with(case, at, events=tuple(events))

            search.fewest(list(event), build)


def _selectors(search: _Search) -> None:
    for place in range(len(reductions.steps_of(search.best))):
        while True:
            action: Action = reductions.steps_of(search.best)[place][1]
            if action.do != "subscribe":
                break
            cases = (_with(search.best, place, selector=each) for each in parseable(action.selector))
            if not search.first(cases):
                break


def parseable(selector: str) -> Iterable[str]:
    """Return the simpler selectors that can be parsed."""
    from ...routing.language.questions import to_filter

    for simpler in reductions.simpler_selectors(selector):
        try:
            to_filter(simpler)
        except InputError:
            continue
        yield simpler


def _each_fault(search: _Search) -> None:
    for place, fault in enumerate(search.best.plan.faults):
        others = (*reductions.cluster_as_broker(search.best, fault), *reductions.simpler_faults(fault))
        faults = search.best.plan.faults
        search.first(
            reductions.with_faults(search.best, (*faults[:place], each, *faults[place + 1 :]))
            for each in others
        )


def _times(search: _Search) -> None:
    search.first([reductions.retimed(search.best), reductions.in_rounded_time(search.best)])


def _with(case: Case, place: int, **changes: object) -> Case:
    """Return a case in which one action is another."""
    steps = reductions.steps_of(case)
    phase, action = steps[place]
    steps[place] = phase, replace(action, **changes)  # type: ignore[arg-type]
    return reductions.with_steps(case, steps)


PASSES: Final[tuple[Callable[[_Search], None], ...]] = (
    _options, _time, _clients, _faults, _brokers, _actions, _events, _selectors, _each_fault, _times,
)  # fmt: skip

__all__ = ["Shrunk", "Size", "shrink", "size_of"]
