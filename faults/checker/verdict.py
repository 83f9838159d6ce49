"""The result of checking a run: per condition, how often it was checked, violated and indeterminate.

Rules
-----
* A run is *violated* if a condition is.
* It is *undecided* if nothing had to come for certain: no event was published that a confirmed subscription
  matched until the network had settled. Then nobody knows whether anything is ever delivered.
* Otherwise it *holds*. Indeterminate instances are reported, and are not failures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ...protocol.ids import EventId
from ...protocol.traces.trace import Registered, Trace, describe

HOLDS: Final = "holds"
VIOLATED: Final = "violated"
UNDECIDED: Final = "undecided"

NOTHING_DUE: Final = (
    "Nothing had to come for certain: no event was published that a confirmed subscription matched until the network "
    "had settled."
)
"""Why a run is undecided, as a sentence."""

EXAMPLES_MAX: Final = 5
"""The maximum number of violations of one condition that are explained. All are counted."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation, and the shortest part of the trace that shows it.

    Attributes
    ----------
    condition
        The name of the rule.
    client, event
        The subscriber and the event concerned; the subscriber is "" if only the publisher is concerned.
    at_seconds
        The time of the last notification that shows it, else of the publication.
    sentence
        A readable description.
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
        """The numbers of the subscriptions involved."""
        return sorted({op.number for op in self.piece if isinstance(op, Registered)})

    def to_dict(self) -> dict[str, object]:
        """Return the violation as plain data."""
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
    """The result for one condition.

    Attributes
    ----------
    checked
        The number of instances.
    violated, indeterminate
        How many of them are violated, or cannot be decided.
    violations
        Some of the violations, with explanations.
    """

    checked: int = 0
    violated: int = 0
    indeterminate: int = 0
    violations: list[Violation] = field(default_factory=list)

    def counts(self) -> tuple[int, int, int]:
        """Return (checked, violated, indeterminate)."""
        return self.checked, self.violated, self.indeterminate

    def add(self, other: Finding) -> None:
        """Add another finding to this one."""
        self.checked += other.checked
        self.violated += other.violated
        self.indeterminate += other.indeterminate
        self.violations += other.violations[: EXAMPLES_MAX - len(self.violations)]


@dataclass(slots=True)
class Verdict:
    """The comparison of what was delivered with what had to be delivered.

    Attributes
    ----------
    events_published, notifications_expected, notifications_delivered
        Counts. A notification is one event to one subscriber. Expected are those that surely had to be
        delivered and are not lost.
    losses
        Expected notifications that were not delivered, were reported as lost, and are explained by a limit:
        their number by limit.
    unexplained
        Notifications that were reported as lost and that no limit explains. Each is a violation of
        `complete`.
    findings
        The result for each condition, by name.
    """

    events_published: int = 0
    notifications_expected: int = 0
    notifications_delivered: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    unexplained: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """The number of lost notifications that a limit explains."""
        return sum(self.losses.values())

    @property
    def loss_shares(self) -> dict[str, float]:
        """The share of the notifications that had to come for certain that each limit excused, by limit."""
        due = self.notifications_expected + self.lost
        return {limit: count / due for limit, count in sorted(self.losses.items())}

    @property
    def outcome(self) -> str:
        """The outcome: "holds", "violated" or "undecided"."""
        if self.violated:
            return VIOLATED
        return HOLDS if self.notifications_expected + self.lost else UNDECIDED

    @property
    def holds(self) -> bool:
        """Whether no condition was violated, and something had to come."""
        return self.outcome == HOLDS

    @property
    def violated(self) -> list[str]:
        """The names of the conditions that were violated."""
        return [name for name, finding in self.findings.items() if finding.violated]

    @property
    def indeterminate(self) -> int:
        """The number of instances that could not be decided."""
        return sum(finding.indeterminate for finding in self.findings.values())

    @property
    def missing(self) -> int:
        """The number of notifications that had to be delivered and never were (promise 2)."""
        return self._violated("complete")

    @property
    def duplicates(self) -> int:
        """The number of duplicate notifications (promise 1)."""
        return self._violated("once")

    @property
    def spurious(self) -> int:
        """The number of notifications of events that were not published, or not wanted (promise 1)."""
        return self._violated("published") + self._violated("wanted")

    @property
    def disordered(self) -> int:
        """The number of notifications that came after a later event of the same publisher (promise 3)."""
        return self._violated("ordered")

    def _violated(self, name: str) -> int:
        finding = self.findings.get(name)
        return 0 if finding is None else finding.violated

    @property
    def violations(self) -> list[Violation]:
        """The explained violations: the first of each condition, then the second of each, and so on."""
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

    def counts(self) -> dict[str, object]:
        """Return the main counts, and the outcome as "verdict"."""
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
            "verdict": self.outcome,
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
        violated = ", ".join(said) or "nothing was asked"
        return f"Verdict({self.outcome}; violated: {violated}; {self.indeterminate} indeterminate)"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        return {
            **self.counts(),
            "losses": dict(sorted(self.losses.items())),
            "loss_shares": self.loss_shares,
            "conditions": self.conditions(),
            "examples": self.examples,
            "violations": [violation.to_dict() for violation in self.violations[:EXAMPLES_MAX]],
        }


def worst(outcomes: Iterable[str]) -> str:
    """Return the outcome of several runs: violated if one is, else undecided if one is or there is none, else holds."""
    found = set(outcomes)
    if VIOLATED in found:
        return VIOLATED
    return HOLDS if found == {HOLDS} else UNDECIDED


def total(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts of many runs into one."""
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
