"""The result of one chaos run, on either host.

Rule: a failed run reports how to reproduce it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..protocol.configs import DEFAULT_SCHEME
from ..protocol.errors import InputError
from ..protocol.ids import ClientId, EventId
from ..protocol.traces.trace import Trace
from .checker.reliability import judge
from .checker.verdict import HOLDS, VIOLATED, Verdict
from .explaining.explain import Explanation, Ran
from .explaining.traces import explain_trace
from .plans.cases import Case
from .recovery_times import Recovered

PROBLEMS_MAX: Final = 20


@dataclass(slots=True)
class ChaosReport:
    """The result of one run.

    Attributes
    ----------
    on
        "sim" or "ray".
    case
        The case from which it was made, as plain data.
    verdict
        Promises 1-3.
    problems
        What prevented convergence, what was wrong before the first fault, and errors of brokers.
    lost_by_retention
        Notifications that were not delivered because the events no longer had to be retained. Losses by other
        limits are in the verdict.
    brokers, events, notifications, moves
        Counts.
    messages
        The number of messages between brokers by type; only the simulator counts them.
    converged_seconds
        From the healing to the first check of the stable end; None if the run did not converge.
    timeline
        (seconds, what happened).
    recoveries
        How long each fault had an effect.
    steps, virtual_seconds
        The amount of work in the simulator.
    seconds
        The duration on Ray, including the launch.
    options
        Additional options of the command that reproduces the run.
    admission
        With admission control: how many subscriptions were admitted and refused, and are degraded at the end.
    trace
        What clients did and received, if the trace is kept.
    drawn
        The case itself, from which `case` was described.
    source
        The file from which the case was read; "" if it was drawn from its seed.
    explainer
        Explains an event of the run to a subscriber (`explain`); None where only the trace tells of it.
    """

    on: str
    case: dict[str, Any]
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)
    lost_by_retention: int = 0
    brokers: int = 0
    events: int = 0
    notifications: int = 0
    moves: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    converged_seconds: float | None = None
    timeline: list[tuple[float, str]] = field(default_factory=list)
    recoveries: list[Recovered] = field(default_factory=list)
    steps: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    options: str = ""
    admission: dict[str, int] = field(default_factory=dict)
    trace: Trace | None = field(default=None, repr=False)
    drawn: Case | None = field(default=None, repr=False, compare=False)
    source: str = ""
    explainer: Callable[..., Explanation] | None = field(default=None, repr=False, compare=False)

    def explain(self, subscriber: ClientId | None = None, event: EventId | str | None = None) -> Explanation:
        """Explain what became of one event on its way to one subscriber, broker by broker.

        A run in virtual time is made once more for it. Of a run on Ray the kept trace tells what clients and their
        brokers saw.

        Parameters
        ----------
        subscriber, event
            Which event, (publisher, number) or ``"publisher:number"``, and whose notification. What is not given is
            chosen: the first violation of the verdict, else a sample.

        Raises
        ------
        InputError
            If there is no such subscriber or event, or nothing is known of the run.
        """
        if self.explainer is not None:
            return self.explainer(subscriber, event)
        if self.trace is None:
            raise InputError("the trace of this run was not kept: run it with keep_trace=True")
        return explain_trace(Ran(self.trace, self.verdict, self.problems, self.timeline), subscriber, event)

    def problem(self, sentence: str) -> None:
        """Add a problem; of more than a few, the first ones are enough."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(sentence)

    def judge(self, trace: Trace, *, keep_trace: bool = False, lossless: bool = False) -> None:
        """Judge what clients did and received, and record the verdict; `lossless` excuses no loss."""
        self.verdict = judge(trace)
        if lossless:
            self.problems += [
                f"{count} notifications were not delivered, which {limit} explains: without limits nothing may be lost"
                for limit, count in sorted(self.verdict.losses.items())
            ]
        self.trace = trace if keep_trace else None
        self.lost_by_retention = self.verdict.losses.get("retention", 0)
        self.events = self.verdict.events_published
        self.notifications = self.verdict.notifications_delivered

    @property
    def seed(self) -> int:
        """The seed of the run."""
        seed: int = self.case["seed"]
        return seed

    @property
    def outcome(self) -> str:
        """The outcome: "violated" if a promise was broken or the run did not converge, else that of the verdict."""
        if self.problems or self.converged_seconds is None:
            return VIOLATED
        return self.verdict.outcome

    @property
    def holds(self) -> bool:
        """Whether every promise was kept, and something had to be delivered."""
        return self.outcome == HOLDS

    @property
    def replay(self) -> str:
        """The command that reproduces the run."""
        if self.source:
            return f"rayvous chaos --on {self.on} --case {shlex.quote(self.source)}{self.options}"
        scheme = self.case.get("scheme", DEFAULT_SCHEME)
        chosen = "" if scheme == DEFAULT_SCHEME else f" --scheme {scheme}"
        return f"rayvous chaos --on {self.on} --seed {self.seed}{chosen}{self.options}"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data, the drawn case first."""
        return {
            "case": self.case,
            "on": self.on,
            "holds": self.holds,
            "outcome": self.outcome,
            "replay": self.replay,
            "verdict": self.verdict.to_dict(),
            "problems": self.problems,
            "lost_by_retention": self.lost_by_retention,
            "brokers": self.brokers,
            "events": self.events,
            "notifications": self.notifications,
            "moves": self.moves,
            "messages": self.messages,
            "converged_seconds": self.converged_seconds,
            **({"admission": self.admission} if self.admission else {}),
            "timeline": [{"seconds": round(when, 3), "what": what} for when, what in self.timeline],
            "recoveries": [asdict(each) for each in self.recoveries],
            "steps": self.steps,
            "virtual_seconds": self.virtual_seconds,
            "seconds": round(self.seconds, 3),
        }
