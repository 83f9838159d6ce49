"""Explains a run in the simulator: makes it once more, and records the one event in question.

Rules
-----
* The same case is the same run. So nothing is recorded before something is asked, and only what is asked is recorded.
* Without an event, the first violation of the verdict is explained; else an event that was reported lost; else a
  subscription that is not confirmed, or what the judge found; else, if all holds, the notification that took longest.
* If the event came too late to be taken, the event that overtook it is recorded in a third run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...actors.pictures.spacetime import Diagram, svg_of
from ...actors.pictures.spacetime_page import page_of
from ...protocol import checks
from ...protocol.errors import InputError
from ...protocol.ids import ClientId, EventId
from ...protocol.traces.trace import LossTold, Notified, Published, Registered, Trace
from ..checker.verdict import Verdict
from .finding import Finding, find, passed_over
from .journey import Journey, with_timeline
from .past import find_past, violated_in, with_record_apart
from .picture import diagram_of
from .recorder import Recorder, matching_of, selectors_at
from .subscriptions import find_problem, find_subscription, unconfirmed_in
from .words import told

WANTED_MAX: Final = 1_000
"""How many events are looked at for one that somebody wanted."""
NUMBER_MAX: Final = 2**63 - 1
"""The largest number of an event in a trace or in telemetry."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that can be explained.

    Attributes
    ----------
    trace
        What clients did and received.
    verdict
        Its verdict.
    problems
        What else was wrong.
    timeline
        (seconds, what happened).
    apart
        What each subscriber did and received that begins in the past: it has a record of its own.
    """

    trace: Trace
    verdict: Verdict
    problems: list[str]
    timeline: list[tuple[float, str]]
    apart: Mapping[ClientId, Trace] = field(default_factory=dict)


Runs = Callable[[Recorder | None], Ran]
"""Makes a run, always the same one, and lets a recorder see it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is explained: an event, a subscriber, and the condition it violates; or a subscription, or a problem."""

    event: EventId
    subscriber: ClientId
    condition: str = ""
    why: str = ""
    number: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Explanation:
    """The journey of one event to one subscriber, and where it ended.

    Attributes
    ----------
    journey
        What was seen.
    finding
        Where it ended, and which rule decided that.
    chosen
        Why this event is explained.
    problems
        What was wrong with the run besides.
    later
        The journey of the later event that overtook it, if one did.
    """

    journey: Journey
    finding: Finding
    chosen: str = ""
    problems: tuple[str, ...] = field(default=(), repr=False)
    later: Journey | None = field(default=None, repr=False)

    @property
    def lines(self) -> list[str]:
        """The explanation in words."""
        chosen = [f"({self.chosen})"] if self.chosen else []
        return [*chosen, *told(self.journey, self.finding, self.problems)]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def diagram(self) -> Diagram:
        """The explanation as a space-time diagram."""
        return diagram_of(self.journey, self.finding, self.later)

    def html(self) -> str:
        """Return a page with the words and the diagram, which needs no other file."""
        title = f"{self.journey.id} and {self.journey.subscriber}: {self.finding.outcome}"
        return page_of(self.diagram, title, self.lines, _summary(self.finding))

    def save(self, path: str | Path) -> Path:
        """Write the page, or for the suffix ``.svg`` the diagram alone, to a file, and return its path.

        Raises
        ------
        InputError
            If it cannot be written there, or has another suffix.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in (".html", ".htm", ".svg"):
            raise InputError(f"{path}: the file must end in .html or .svg")
        try:
            Path(path).write_text(svg_of(self.diagram) if suffix == ".svg" else self.html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
        return Path(path)

    def _repr_html_(self) -> str:
        import html

        return (
            f'<iframe srcdoc="{html.escape(self.html(), quote=True)}" style="width:100%;height:640px;border:0" '
            f'title="{html.escape(self.journey.id)}"></iframe>'
        )

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        finding = self.finding
        return {
            "event": list(self.journey.event),
            "subscriber": self.journey.subscriber,
            "chosen": self.chosen,
            "outcome": finding.outcome,
            "at_seconds": finding.at,
            "broker": finding.broker,
            "place": finding.place,
            "last_seen": finding.was,
            "why": finding.why,
            "should": finding.should,
            "clocks": self.journey.clocks,
            "problems": list(self.problems),
            "words": self.lines,
        }


def _summary(finding: Finding) -> Mapping[str, str]:
    found = {"Last seen": finding.was, "Why": finding.why, "Should": finding.should, "Rule": finding.place}
    return {name: text for name, text in found.items() if text}


def explain(
    run: Runs,
    subscriber: ClientId | None = None,
    event: EventId | str | None = None,
    first: Ran | None = None,
) -> Explanation:
    """Explain a run.

    Parameters
    ----------
    run
        Makes the run, each time the same.
    subscriber, event
        What is asked; what is not given is chosen.
    first
        The run without a recorder, if it was made already.

    Raises
    ------
    InputError
        If there is no such subscriber or event, or nothing to explain.
    """
    ran = run(None) if first is None else first
    asked = choose(ran, subscriber, None if event is None else event_of(event))
    recorder = Recorder(asked.event, asked.subscriber)
    again = run(recorder)
    journey = with_timeline(recorder.journey(again.trace), again.timeline)
    later = None
    if asked.number:
        finding = find_subscription(journey, asked.number)
    elif asked.problem:
        finding = find_problem(asked.problem)
    else:
        past = find_past(journey)
        if past is None and asked.condition in ("", "complete") and passed_over(journey):
            later = _overtaker(run, again.trace, asked)
        finding = find(journey, asked.condition, later) if past is None else past
    return Explanation(journey, finding, asked.why, tuple(ran.problems), later)


def _overtaker(run: Runs, trace: Trace, asked: Question) -> Journey | None:
    publisher, number = asked.event
    later = next(
        (
            op.sequence
            for op in trace.notifications()
            if op.client == asked.subscriber and op.publisher == publisher and op.sequence > number
        ),
        None,
    )
    if later is None:
        return None
    recorder = Recorder((publisher, later), asked.subscriber)
    return recorder.journey(run(recorder).trace)


def event_of(given: EventId | str) -> EventId:
    """Return (publisher, number) of ``faa:17``, or of such a pair.

    Raises
    ------
    InputError
        If it is neither, or the number is none that a table of events can contain.
    """
    if isinstance(given, str):
        publisher, colon, number = given.rpartition(":")
        digits = len(number) <= len(str(NUMBER_MAX)) and number.isdecimal()
        if colon and publisher and digits and int(number) <= NUMBER_MAX:
            return publisher, int(number)
    elif (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], int)
        and 0 <= given[1] <= NUMBER_MAX
    ):
        return given
    raise InputError(f"event is {checks.shown(given)}: it must be publisher:number, such as faa:17")


def choose(ran: Ran, subscriber: ClientId | None, event: EventId | None) -> Question:
    """Return what is explained of a run.

    Raises
    ------
    InputError
        If there is no such subscriber or event, or nothing to explain.
    """
    trace = ran.trace
    clients = {op.client: None for op in trace if isinstance(op, Registered)} | dict.fromkeys(ran.apart)
    if subscriber is not None and subscriber in ran.apart:
        trace = with_record_apart(trace, ran.apart[subscriber])
    if subscriber is not None and subscriber not in clients:
        raise InputError(f"there is no subscriber {subscriber!r}; there are {_some(clients)}")
    known = trace.publications()
    heard = {(op.publisher, op.sequence) for op in trace if type(op) is Notified}
    if event is not None and event not in known and event not in heard:
        others = f"; there are {_some(_names(known))}" if known else ""
        raise InputError(f"nobody published {event[0]}:{event[1]}{others}")
    for violation in ran.verdict.violations:
        if _fits(violation.client, violation.event, subscriber, event) and violation.client:
            why = f"violates `{violation.condition}`: {violation.sentence}"
            return Question(violation.event, violation.client, violation.condition, why)
    for client, past, why in violated_in(ran.problems):
        if _fits(client, past, subscriber, event) and client in ran.apart:
            return Question(past, client, "", why)
    if event is not None:
        return Question(event, subscriber or _of_event(trace, event, known, clients), "", "")
    for op in trace:
        if (
            type(op) is LossTold
            and op.client
            and _fits(op.client, (op.publisher, op.sequence), subscriber, None)
        ):
            return Question(
                (op.publisher, op.sequence), op.client, "", "reported lost, which a limit explains"
            )
    sample = _slowest(trace, subscriber)
    waiting = unconfirmed_in(ran.problems)
    if waiting is not None and subscriber in (None, waiting[0]):
        event = sample.event if sample is not None else next(iter(known), ("", 0))
        return Question(event, waiting[0], "", "its subscription is not confirmed", number=waiting[1])
    if sample is None and (wanted := _wanted(trace, known, clients, subscriber)) is not None:
        return wanted
    if sample is None:
        raise InputError(
            f"nothing to explain: {subscriber or 'nobody'} was notified of nothing, and nothing is missing"
        )
    if ran.problems:
        return Question(sample.event, sample.subscriber, "", "no event is missing", problem=ran.problems[0])
    return Question(
        sample.event, sample.subscriber, "", "all holds; this is the notification that took longest"
    )


def _fits(client: str, event: EventId, subscriber: ClientId | None, asked: EventId | None) -> bool:
    return subscriber in (None, client) and asked in (None, event)


def _of_event(
    trace: Trace, event: EventId, known: Mapping[EventId, Published], clients: Mapping[ClientId, None]
) -> ClientId:
    """Return a subscriber for an event: one that wanted it and did not get it, one that got it, or any."""
    notified = [op.client for op in trace.notifications() if (op.publisher, op.sequence) == event]
    content = known[event].event if event in known else {}
    for client in clients:
        if client not in notified and matching_of(selectors_at(trace, client, event), content):
            return client
    if notified or clients:
        return next(iter([*notified, *clients]))
    raise InputError("nothing to explain: there are no subscribers")


def _wanted(
    trace: Trace,
    known: Mapping[EventId, Published],
    clients: Mapping[ClientId, None],
    subscriber: ClientId | None,
) -> Question | None:
    """Return an event that somebody wanted, where nothing had to come for certain."""
    for event, op in list(known.items())[:WANTED_MAX]:
        for client in clients if subscriber is None else (subscriber,):
            if matching_of(selectors_at(trace, client, event), op.event):
                return Question(event, client, "", "nothing had to come for certain, and this event did not")
    return None


def _slowest(trace: Trace, subscriber: ClientId | None) -> Question | None:
    """Return the notification that came latest after its publication."""
    known = trace.publications()
    best: tuple[float, Question] | None = None
    for op in trace.notifications():
        event = op.publisher, op.sequence
        if subscriber in (None, op.client) and event in known:
            took = op.at_seconds - known[event].at_seconds
            if best is None or took > best[0]:
                best = took, Question(event, op.client)
    return None if best is None else best[1]


def _some(names: Iterable[object]) -> str:
    shown = list(dict.fromkeys(map(str, names)))
    return (
        "none"
        if not shown
        else ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
    )


def _names(events: Iterable[EventId]) -> list[str]:
    last: dict[str, int] = {}
    for publisher, number in events:
        last[publisher] = max(number, last.get(publisher, 0))
    return [f"{publisher}:1 to {publisher}:{number}" for publisher, number in last.items()]


__all__ = ["Explanation", "Question", "Ran", "choose", "event_of", "explain"]
