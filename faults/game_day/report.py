"""What a game day found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ...protocol.ids import BrokerId
from ..checker.verdict import HOLDS, UNDECIDED, VIOLATED, Verdict
from .latencies import LatencyRow
from .machine import End, Strike
from .terms import ENDING, Terms

PROBLEMS_MAX = 20
TIMELINE_MAX = 100_000
"""Entries that a report has at most: the last ones are left out."""


@dataclass(slots=True)
class CausedFault:
    """One fault: when it began, what it was, and after how many seconds the network was seen whole again."""

    at_seconds: float
    strike: Strike
    whole_seconds: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"at_seconds": self.at_seconds, **asdict(self.strike), "whole_seconds": self.whole_seconds}


@dataclass(slots=True)
class GameDayReport:
    """The result of one game day.

    Attributes
    ----------
    network, scheme, operator
        The network, its routing scheme, and the principal in whose name it was; "" where the network has no rights.
    terms
        What it was allowed to do.
    started_at
        Seconds since 1970.
    seconds
        How long it took, with all repair.
    reason
        Why it ended.
    faults
        The faults, in order.
    verdict
        What the canary's clients got, judged by all conditions, those of the user among them.
    problems
        Why the network did not heal, what a condition of the user said, calls of the canary that failed, and losses.
    timeline
        (seconds, what happened).
    latencies
        How long the canary's notifications took, by the time of publication.
    left_dead
        The brokers that are dead at the end because of it.
    ends_whole
        Whether the network was whole at the end: if it was not, nothing can be said of it, even by no fault of the game
        day.
    """

    network: str
    scheme: str
    terms: Terms
    operator: str = ""
    started_at: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    faults: list[CausedFault] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    latencies: list[LatencyRow] = field(default_factory=list)
    left_dead: list[BrokerId] = field(default_factory=list)
    ends_whole: bool = True

    def problem(self, sentence: str) -> None:
        """Add a problem, once; of more than a few, the first ones are enough."""
        if len(self.problems) < PROBLEMS_MAX and sentence not in self.problems:
            self.problems.append(sentence)

    def say(self, now: float, what: str) -> None:
        """Add an entry to the timeline."""
        if len(self.timeline) < TIMELINE_MAX:
            self.timeline.append((round(now, 3), what))

    def struck(self, now: float, strike: Strike) -> None:
        """Note that a fault begins."""
        self.faults.append(CausedFault(round(now, 3), strike))

    def whole(self, seconds: float) -> None:
        """Note that the network is whole again, so many seconds after the last fault has begun."""
        self.faults[-1].whole_seconds = round(seconds, 3)

    def ended(self, now: float, end: End) -> None:
        """Note the end."""
        self.seconds, self.reason, self.ends_whole = round(now, 3), end.reason, end.whole
        if not end.healed:
            self.problem(end.reason)

    @property
    def killed(self) -> set[BrokerId]:
        """All brokers that were killed."""
        return {each for fault in self.faults if fault.strike.kind in ENDING for each in fault.strike.brokers}

    @property
    def outcome(self) -> str:
        """The outcome: "violated"; "holds"; or "undecided".

        It is undecided if nothing was broken, nothing had to come for certain, or the network is not whole at the end.
        """
        if self.problems or self.verdict.outcome == VIOLATED:
            return VIOLATED
        return HOLDS if self.faults and self.ends_whole and self.verdict.outcome == HOLDS else UNDECIDED

    @property
    def holds(self) -> bool:
        """Whether the network kept its promises while it was broken."""
        return self.outcome == HOLDS

    def by_kind(self) -> Mapping[str, list[float]]:
        """Return after how many seconds the network was whole again, by the kind of the fault."""
        found: dict[str, list[float]] = {}
        for fault in self.faults:
            if fault.whole_seconds is not None:
                found.setdefault(fault.strike.kind, []).append(fault.whole_seconds)
        return found

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        return {
            "network": self.network,
            "scheme": self.scheme,
            "operator": self.operator,
            "terms": asdict(self.terms) | {"spare": sorted(self.terms.spare, key=str)},
            "started_at": self.started_at,
            "seconds": self.seconds,
            "reason": self.reason,
            "faults": [fault.to_dict() for fault in self.faults],
            "problems": self.problems,
            "timeline": [list(entry) for entry in self.timeline],
            "latencies": [row.to_dict() for row in self.latencies],
            "left_dead": self.left_dead,
            "ends_whole": self.ends_whole,
            **self.verdict.to_dict(),
            "verdict": self.outcome,
        }


__all__ = ["GameDayReport"]
