"""What a checker says of a run: for each condition how often it was asked, broken, and could not be decided.

Rule: a run *holds* when no condition is violated. What is indeterminate is reported, and is no failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from .trace import EventId, Registered, Trace, describe

EXAMPLES_MAX: Final = 5
"""So many violations of one condition are explained; all are counted."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation, and the shortest part of the trace that shows it.

    Attributes
    ----------
    condition
        The name of the rule.
    client, event
        Who was concerned; "" when it is a matter of the publisher alone.
    at_seconds
        When: the time of the last notification that shows it, else of the publication.
    sentence
        The same for people.
    piece
        The operations that explain it, in order.
    """

    condition: str
    client: str
    event: EventId
    at_seconds: float
    sentence: str
    piece: Trace

    @property
    def subscriptions(self) -> list[int]:
        """The numbers of the subscriptions that have to do with it."""
        return sorted({op.number for op in self.piece if isinstance(op, Registered)})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "condition": self.condition,
            "client": self.client,
            "event": list(self.event),
            "subscriptions": self.subscriptions,
            "at_seconds": self.at_seconds,
            "sentence": self.sentence,
            "piece": [describe(op) for op in self.piece],
        }


@dataclass(slots=True)
class Finding:
    """What came of one condition.

    Attributes
    ----------
    checked
        Instances: how often it was asked.
    violated, indeterminate
        How many of them are violated, or cannot be decided.
    violations
        Some of the violations, explained.
    """

    checked: int = 0
    violated: int = 0
    indeterminate: int = 0
    violations: list[Violation] = field(default_factory=list)

    def counts(self) -> tuple[int, int, int]:
        """Return (checked, violated, indeterminate)."""
        return self.checked, self.violated, self.indeterminate

    def add(self, other: Finding) -> None:
        """Add what was found elsewhere."""
        self.checked += other.checked
        self.violated += other.violated
        self.indeterminate += other.indeterminate
        self.violations += other.violations[: EXAMPLES_MAX - len(self.violations)]


@dataclass(slots=True)
class Verdict:
    """How what was delivered compares with what had to be.

    Attributes
    ----------
    events_published, notifications_expected, notifications_delivered
        Counts; a notification is one event to one subscriber. Expected is what surely had to be and is not lost.
    losses
        Notifications that had to be and were not, were said to be lost, and a limit explains it: by that limit.
    unexplained
        Those that were said to be lost, and no limit explains it; each is a violation of `complete`.
    findings
        What came of each condition, by name.
    """

    events_published: int = 0
    notifications_expected: int = 0
    notifications_delivered: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    unexplained: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Notifications that were lost, and a limit explains it."""
        return sum(self.losses.values())

    @property
    def holds(self) -> bool:
        """Whether no condition was violated."""
        return not any(finding.violated for finding in self.findings.values())

    @property
    def violated(self) -> list[str]:
        """The names of the conditions that were violated."""
        return [name for name, finding in self.findings.items() if finding.violated]

    @property
    def indeterminate(self) -> int:
        """How many instances could not be decided."""
        return sum(finding.indeterminate for finding in self.findings.values())

    @property
    def missing(self) -> int:
        """Notifications that had to be and never were (promise 2)."""
        return self._violated("complete")

    @property
    def duplicates(self) -> int:
        """Notifications that came again (promise 1)."""
        return self._violated("once")

    @property
    def spurious(self) -> int:
        """Notifications of what was not published, or not wanted (promise 1)."""
        return self._violated("published") + self._violated("wanted")

    @property
    def disordered(self) -> int:
        """Notifications that came after a later event of the same publisher (promise 3)."""
        return self._violated("ordered")

    def _violated(self, name: str) -> int:
        finding = self.findings.get(name)
        return 0 if finding is None else finding.violated

    @property
    def violations(self) -> list[Violation]:
        """The violations that are explained: the first of each condition, then the second of each, and so on."""
        ranked = [
            (rank, violation)
            for finding in self.findings.values()
            for rank, violation in enumerate(finding.violations)
        ]
        return [violation for _, violation in sorted(ranked, key=lambda pair: pair[0])]

    @property
    def examples(self) -> list[str]:
        """A few violations as sentences."""
        return [violation.sentence for violation in self.violations[:EXAMPLES_MAX]]

    def counts(self) -> dict[str, Any]:
        """Return the counts in short, and "verdict": "holds" or "violated"."""
        return {
            "events_published": self.events_published,
            "notifications_expected": self.notifications_expected,
            "notifications_delivered": self.notifications_delivered,
            "missing": self.missing,
            "duplicates": self.duplicates,
            "spurious": self.spurious,
            "disordered": self.disordered,
            "lost": self.lost,
            "unexplained": self.unexplained,
            "verdict": "holds" if self.holds else "violated",
        }

    def conditions(self) -> dict[str, dict[str, int]]:
        """Return the counts of each condition as plain data."""
        names = ("checked", "violated", "indeterminate")
        return {
            name: dict(zip(names, finding.counts(), strict=True)) for name, finding in self.findings.items()
        }

    def __repr__(self) -> str:
        said = [
            f"{name} {finding.violated} of {finding.checked}"
            for name, finding in self.findings.items()
            if finding.checked
        ]
        word = "holds" if self.holds else "violated"
        violated = ", ".join(said) or "nothing was asked"
        return f"Verdict({word}; violated: {violated}; {self.indeterminate} indeterminate)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            **self.counts(),
            "losses": dict(sorted(self.losses.items())),
            "conditions": self.conditions(),
            "examples": self.examples,
            "violations": [violation.to_dict() for violation in self.violations[:EXAMPLES_MAX]],
        }


def total(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict on many runs."""
    out = Verdict()
    for verdict in verdicts:
        out.events_published += verdict.events_published
        out.notifications_expected += verdict.notifications_expected
        out.notifications_delivered += verdict.notifications_delivered
        out.unexplained += verdict.unexplained
        for limit, count in verdict.losses.items():
            out.losses[limit] = out.losses.get(limit, 0) + count
        for name, finding in verdict.findings.items():
            out.findings.setdefault(name, Finding()).add(finding)
    return out
