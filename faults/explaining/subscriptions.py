"""Where a subscription that is not confirmed ended, and what the judge of a network says of its routes.

Rules
-----
* A subscription is registered at the subscriber's broker, told from broker to broker towards the root, and confirmed on
  the way back. It ended at the last broker that was told.
* What the judge of routes finds wrong is a sentence about a broker; that broker is the place.
* Pure.
"""

from __future__ import annotations

import re
from typing import Final

from ...protocol.ids import ClientId
from .finding import Finding
from .journey import Journey

_UNCONFIRMED: Final = re.compile(r"(?P<client>\S+) #(?P<number>\d+) is not confirmed")
_BROKER: Final = re.compile(r"\bbroker (\d+)\b")
TELLS: Final = "routing/interest/announcer.py: Announcer"
"""Where the rules stand of what a broker tells the next one, and when it answers."""


def unconfirmed_in(problems: list[str]) -> tuple[ClientId, int] | None:
    """Return the first subscription that a problem says is not confirmed, if one does."""
    for problem in problems:
        if found := _UNCONFIRMED.search(problem):
            return found["client"], int(found["number"])
    return None


def find_subscription(journey: Journey, number: int) -> Finding:
    """Return where a subscription ended on its way to the root and back."""
    name = journey.subscriber
    what = f"{name} #{number}"
    registered = [mark for mark in journey.marks if f"registers #{number} at broker" in mark.what]
    if not registered:
        was = f"at {name}"
        return Finding(
            "not confirmed", None, None, "", was, f"no broker took {what} in", "a broker has to take it in"
        )
    last = registered[-1]
    broker = int(_BROKER.findall(last.what)[0])
    asked = [copy for copy in journey.copies if copy.wants and copy.sent_at >= last.at]
    lost = next((copy for copy in reversed(asked) if copy.lost), None)
    arrived = [copy for copy in asked if copy.arrives_at is not None and isinstance(copy.to, int)]
    if lost is not None and (not arrived or lost.sent_at > arrived[-1].sent_at):
        was = f"the link from broker {lost.source} to broker {lost.to}, at {lost.sent_at:.3f} s"
        source = lost.source if isinstance(lost.source, int) else None
        should = "the broker tells it again when the link is repaired"
        return Finding(
            "not confirmed", lost.sent_at, source, TELLS, was, f"{lost.kind} was lost: {lost.lost}", should
        )
    if arrived:
        broker, at = int(arrived[-1].to), arrived[-1].arrives_at
    else:
        at = last.at
    was = f"broker {broker}, at {at:.3f} s"
    why = f"broker {broker} has told no broker further of {what}, and no confirmation came back to {name}"
    should = f"broker {broker} had to tell the next broker towards the root, or, as the last one, to answer"
    return Finding("not confirmed", at, broker, TELLS, was, why, should)


def find_problem(problem: str) -> Finding:
    """Return what a sentence of the judge says, with the broker that it is about."""
    found = _BROKER.search(problem)
    broker = None if found is None else int(found[1])
    was = (
        "no event is missing"
        if broker is None
        else f"no event is missing; broker {broker} is in the wrong state"
    )
    should = "the judge compares what clients want with what brokers hold (faults/checker/routes.py)"
    return Finding("problem", None, broker, "", was, problem, should)


__all__ = ["find_problem", "find_subscription", "unconfirmed_in"]
