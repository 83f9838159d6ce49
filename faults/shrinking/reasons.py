"""Why a run failed, so that a smaller one can be compared with it.

Rules
-----
* A run fails for the same reason if it violates the same condition of the judge. Where no condition is violated, it
  must have a problem of the same kind: the same sentence but for numbers, names and filters.
* It must not have errors, or a network that was not sound before the first fault, where the first run had none: then
  what the judge finds has another cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..checker.verdict import VIOLATED
from ..report import ChaosReport

_DETAIL = re.compile(r"""\[.*\]|\(.*\)|'[^']*'|"[^"]*"|\b[a-z]{0,2}\d+(?:\.\d+)*\b|\bb\d+\b""")

_ERROR = re.compile(r"^before the first fault|\(\w+\.py:\d+, \S+\)$")


@dataclass(frozen=True, slots=True)
class Reason:
    """What is wrong with a run.

    Attributes
    ----------
    condition
        The name of the violated condition; "" if none is.
    problem
        The kind of the first problem, where no condition is violated.
    errors
        The kinds of problems of the first run that end a run early, or keep it from beginning well.
    """

    condition: str
    problem: str = ""
    errors: frozenset[str] = frozenset()

    def is_of(self, report: ChaosReport) -> bool:
        """Return whether another run failed for this reason, too."""
        if report.outcome != VIOLATED or not errors_of(report) <= self.errors:
            return False
        if self.condition:
            return self.condition in report.verdict.violated
        return self.problem in map(kind_of, report.problems)

    def __str__(self) -> str:
        return f"{self.condition} is violated" if self.condition else self.problem


def reason_of(report: ChaosReport) -> Reason | None:
    """Return why a run failed; None if it did not."""
    if report.outcome != VIOLATED:
        return None
    violated = report.verdict.violated
    if violated:
        return Reason(violated[0], errors=errors_of(report))
    return Reason("", kind_of(report.problems[0]) if report.problems else "", errors_of(report))


def errors_of(report: ChaosReport) -> frozenset[str]:
    """Return the kinds of problems that end a run early, or keep it from beginning well."""
    return frozenset(kind_of(each) for each in report.problems if _ERROR.search(each))


def kind_of(problem: str) -> str:
    """Return a problem without its numbers, names and filters."""
    return _DETAIL.sub("*", problem)
