"""The journey of an event as the trace of a run tells it: what clients did, and which brokers accepted what.

Rules
-----
* A trace is written outside the system. It says where an event was accepted and whom it reached, and nothing of the
  brokers between. What brokers did is in the telemetry of a network that traces events (:mod:`.seen`).
* Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...protocol.ids import ClientId, EventId
from ...protocol.traces.trace import (
    ITSELF,
    Answered,
    Cancelled,
    Confirmed,
    Died,
    Kept,
    Registered,
    Shed,
    Trace,
)
from ..checker.columns import columns_of
from .explain import Explanation, Question, Ran, choose, event_of
from .finding import Finding, find
from .journey import Journey, Mark, Taken, with_timeline
from .recorder import matching_of, notified_of, reported_lost_of, selectors_at

MARKS_MAX: Final = 2_000


def explain_trace(
    ran: Ran, subscriber: ClientId | None = None, event: EventId | str | None = None, left: str = ""
) -> Explanation:
    """Explain a run by its trace, of which `left` was left out.

    Raises
    ------
    InputError
        If there is no such subscriber or event, or nothing to explain.
    """
    asked = choose(ran, subscriber, None if event is None else event_of(event))
    journey = with_timeline(journey_in(ran.trace, asked.event, asked.subscriber), ran.timeline)
    if left:
        journey = replace(journey, left_out=(*journey.left_out, left))
    return Explanation(journey, find_in_trace(journey, ran.trace, asked), asked.why, tuple(ran.problems))


def journey_in(trace: Trace, event: EventId, subscriber: ClientId) -> Journey:
    """Return the journey that a trace tells of."""
    published = trace.publications().get(event)
    selectors = selectors_at(trace, subscriber, event)
    content = None if published is None else published.event
    taken = [
        Taken(op.at_seconds, op.broker, -1, op.publisher)
        for op in trace
        if type(op) is Kept and op.broker != ITSELF and (op.publisher, op.sequence) == event
    ]
    return Journey(
        event=event,
        subscriber=subscriber,
        content=content,
        published_at=None if published is None else published.at_seconds,
        selectors=selectors,
        matching=() if content is None else matching_of(selectors, content),
        taken=tuple(taken),
        marks=tuple(_marks(trace, event, subscriber)[:MARKS_MAX]),
        notified=notified_of(trace, event, subscriber),
        reported_lost=reported_lost_of(trace, event, subscriber),
        left_out=("what happened between the brokers is not in a trace",),
    )


def _marks(trace: Trace, event: EventId, subscriber: ClientId) -> list[Mark]:
    found = []
    for op in trace:
        if isinstance(op, Died):
            who = op.publisher if op.broker == ITSELF else op.broker
            name = who if isinstance(who, str) else f"broker {who}"
            found.append(Mark(op.at_seconds, who, "death", f"{name} dies"))
        elif isinstance(op, Shed) and (op.publisher, op.sequence) == event:
            what = f"dropped for the limit {op.limit!r}: {op.measured:g} of {op.allowed:g}"
            found.append(Mark(op.at_seconds, None, "fault", what))
        elif isinstance(op, Registered | Confirmed | Answered | Cancelled) and op.client == subscriber:
            word = type(op).__name__.lower()
            found.append(Mark(op.at_seconds, subscriber, "client", f"{subscriber} #{op.number}: {word}"))
    return found


def find_in_trace(journey: Journey, trace: Trace, asked: Question) -> Finding:
    """Return where the journey ended, as far as a trace tells."""
    if journey.notified or not journey.taken:
        found = find(journey)
        if asked.condition not in ("", "complete") and journey.notified:
            at, was = journey.notified[-1], asked.why
            return Finding(asked.condition, at, None, "", was, "which broker did it is not in a trace", "")
        return found
    step = journey.taken[-1]
    limit = limit_of(journey, trace)
    if limit:
        why = f"it was lost by the limit {limit!r}, and {journey.subscriber} was told so"
        return Finding(
            "missing", step.at, step.broker, "", f"broker {step.broker}, at {step.at:.3f} s", why, ""
        )
    return Finding(
        "missing",
        step.at,
        step.broker,
        "",
        f"broker {step.broker}, which accepted it at {step.at:.3f} s",
        "a trace does not say what brokers did with it",
        f"broker {step.broker} had to send it on towards the broker of {journey.subscriber}, and to send it again in "
        "every round; a network that traces events (trace_events=True) has each hop in its telemetry",
    )


def limit_of(journey: Journey, trace: Trace) -> str:
    """Return the limit that explains that the event is lost; "" if none does."""
    if not journey.reported_lost:
        return ""
    columns = columns_of(trace)
    code = columns.identities.index(journey.event) if journey.event in columns.identities else None
    if code is None:
        return ""
    published = columns.published[columns.published >= 0]
    return columns.explained(journey.subscriber, code, lambda: published) or ""


__all__ = ["explain_trace", "find_in_trace", "journey_in"]
