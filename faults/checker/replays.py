"""The conditions of a subscriber that begins in the past, judged from a record of what it got and was told.

Conditions
----------
* **not older**: it gets no event in front of its beginning.
* **in order**: of each publisher it gets rising numbers, each once. What its process had not acknowledged when it died,
  and what it was rewound over, counts as not got.
* **wanted**: it gets only what it wants.
* **complete**: it gets every event that a broker has accepted, from its beginning to the end of the run; or it is told
  that the event may be lost. Of the past, no broker has it any more that answered when it was told so. Of the present,
  it may be lost as it may for any durable subscriber: a limit explains it (`losses`).

What a broker had accepted when its subscriptions were in force is past, and what was accepted later is not, unless a
broker did not answer then. What it is rewound over is past, too, as far as it had acknowledged it.

Not judged is whether it gets, or is told of, what only brokers have accepted that are gone for good: nobody may know.
Nor what was published before the time at which it was asked to begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ...protocol.ids import BrokerId, ClientId, EventId
from ...protocol.messages.pubsub import Lost
from ...protocol.traces.trace import Published


class ReplayRecord:
    """Where a subscriber has begun, as it is recorded, for `replay_violations`.

    Attributes
    ----------
    marks
        Per publisher, the last number that is not owed.
    in_force_at, past_ends
        When its subscriptions were in force, and when its past ended: then, or at infinity if a broker did not answer.
    """

    def __init__(self, marks: Mapping[ClientId, int], since: float) -> None:
        self.marks = dict(marks)
        self.in_force_at, self.past_ends = -math.inf, math.inf
        self._since = since
        self._rewinds: list[tuple[Mapping[ClientId, int], float]] = []
        self._first = dict(marks)

    def rewound(self, marks: Mapping[ClientId, int], since: float) -> None:
        """Record that it is rewound."""
        self.marks = {name: min(number, marks.get(name, number)) for name, number in self.marks.items()}
        self._rewinds.append((dict(marks), since))

    def owes(self, publisher: ClientId, number: int, published_at: float) -> bool:
        """Return whether an event is behind a beginning, and was not published before the time asked for."""
        if number > self._first.get(publisher, 0) and published_at >= self._since:
            return True
        return any(
            number > marks.get(publisher, number) and published_at >= since for marks, since in self._rewinds
        )

    def is_rewound_over(self, publisher: ClientId, number: int) -> bool:
        """Return whether an event is behind where it was rewound to, so that it may be of the past."""
        return any(number > marks.get(publisher, number) for marks, _ in self._rewinds)


def names(lost: Lost, event: EventId) -> bool:
    """Return whether an event is among those that are told to be lost."""
    return lost.publisher == event[0] and lost.first <= event[1] <= lost.last


def got_wrongly(
    marks: Mapping[ClientId, int],
    got: Sequence[EventId],
    events: Mapping[EventId, Published],
    wanted: Callable[[Mapping[str, object]], bool],
) -> list[str]:
    """Return what a subscriber should not have got: what is older than its beginning, out of order, or not wanted."""
    found: list[str] = []
    last: dict[ClientId, int] = {}
    for publisher, number in got:
        if number <= marks.get(publisher, 0):
            found.append(f"not older: got {publisher} {number}, and begins behind {marks[publisher]}")
        if number <= last.get(publisher, 0):
            found.append(f"in order: got {publisher} {number} behind {last[publisher]}")
        last[publisher] = number
        if not wanted(events[publisher, number].event):
            found.append(f"wanted: got {publisher} {number}")
    return found


def replay_violations(
    record: ReplayRecord,
    got: Sequence[EventId],
    losses: Iterable[Lost],
    events: Mapping[EventId, Published],
    accepted_at: Mapping[EventId, Mapping[BrokerId, float]],
    wanted: Callable[[Mapping[str, object]], bool],
    living: Collection[BrokerId],
    retained: Mapping[EventId, Collection[BrokerId]],
    silent: Sequence[tuple[Lost, Collection[BrokerId]]] = (),
    expires: Collection[EventId] = (),
    explained: Callable[[EventId], bool] = lambda event: True,
) -> list[str]:
    """Return what was done against the conditions, in words; nothing if they were kept.

    Parameters
    ----------
    record
        Where it begins.
    got, losses
        What it got, in order, and what it was told.
    events, accepted_at
        What was published, and which brokers have accepted it, each when it first did.
    wanted
        Whether it wants an event.
    living, retained
        The brokers that live in the end, and in whose histories an event is then.
    silent
        Which brokers did not answer when it was told that events of its past are lost, by what it was told.
    expires
        What has a time to live: it need not come.
    explained
        Whether a limit explains that an event of the present is lost.
    """
    found = got_wrongly(record.marks, got, events, wanted)
    had, told = set(got), list(losses)
    for event, published in events.items():
        publisher, number = event
        brokers = accepted_at.get(event, {})
        if event in had or event in expires or not record.owes(publisher, number, published.at_seconds):
            continue
        if not brokers or not wanted(published.event):
            continue
        if any(names(each, event) for each in told):
            had_it = set(retained.get(event, ()))
            for each, brokers_then in silent:
                if names(each, event):
                    had_it -= set(brokers_then)
            accepted = min(brokers.values())
            if had_it and accepted < record.in_force_at:
                found.append(f"complete: was told that {publisher} {number} is lost, and a broker has it")
            present = accepted > record.past_ends and not record.is_rewound_over(*event)
            if present and not explained(event):
                found.append(
                    f"complete: was told that {publisher} {number} is lost, and no limit explains that"
                )
        elif event in retained or not set(brokers).isdisjoint(living):
            found.append(f"complete: {publisher} {number} is missing, and it was not told")
    return found
