"""The conditions of a consumer group, judged from a record of what its workers got and said.

Conditions
----------
* **one holder**: an event is given only while no other worker holds it.
* **once acknowledged, never again**: an event whose acknowledgement was confirmed is not given again.
* **in order**: with a key, an event is given only if every earlier one of its key is acknowledged, given up, or held by
  the same worker.
* **complete**: in the end every event of the group is acknowledged, given up, or told by name as lost. What was told as
  lost, and no worker holds, does not hinder those behind it either.
* **timely**: no event is given after it has expired. One that has expired while no worker held it need not be done: it
  hinders neither those behind it nor the end.
* **given up late**: an event is given up only after so many deliveries as the group allows.
* **forgotten**: a worker that lives, and has nothing in hand, has what the group believes that it holds.

A worker that is recorded to have `Lost` an event holds it no more: it left, died, stood still, or refused it. In a real
run a worker may not know yet what it has lost. There an event that is given again is lost by who held it before
(`strict` is False), and **one holder** is not judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from ...protocol.ids import ClientId, EventId
from ...protocol.messages.pubsub import Lost


@dataclass(frozen=True, slots=True)
class Gave:
    """A worker was given an event, for the time `deliveries`."""

    worker: str
    event: EventId
    deliveries: int = 1
    at_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Acknowledging:
    """A worker begins to acknowledge an event: from here on, later ones of its key may be given to others."""

    worker: str
    event: EventId


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgement of a worker was confirmed."""

    worker: str
    event: EventId


@dataclass(frozen=True, slots=True)
class LostIt:
    """A worker holds an event no more, which it has not acknowledged."""

    worker: str
    event: EventId


@dataclass(frozen=True, slots=True)
class GaveUp:
    """An event became a dead letter."""

    event: EventId


@dataclass(frozen=True, slots=True)
class Forgot:
    """The group believes that a worker holds an event, and the worker does not have it."""

    worker: str
    event: EventId


Record: TypeAlias = Gave | Acknowledging | Acknowledged | LostIt | GaveUp | Forgot


def group_violations(
    records: Iterable[Record],
    events: Sequence[EventId],
    keys: Mapping[EventId, object],
    *,
    deliveries_max: int,
    strict: bool = True,
    withdrawn: Collection[EventId] = (),
    expires: Mapping[EventId, float] | None = None,
    told: Iterable[Lost] = (),
) -> list[str]:
    """Return what a group did against its conditions, in words; none if it kept them.

    Parameters
    ----------
    records
        What happened, in order.
    events
        The events of the group, in the order in which they came.
    keys
        The key of each event; events that are not in it have no order.
    deliveries_max
        How often an event may be delivered before it is given up.
    strict
        Whether it is recorded at once what a worker has lost.
    withdrawn
        Events that came before a subscription of the group was cancelled, which need not come again.
    expires
        When each event expires that has a time to live.
    told
        The losses that were told to the group's durable subscriber.
    """
    until, lost = expires or {}, _named(told, events)
    found: list[str] = []
    holder: dict[EventId, str] = {}
    over: set[EventId] = set()
    begun: set[EventId] = set()
    given: dict[EventId, int] = {}
    left: dict[object, deque[EventId]] = {}  # of each key, in order, from the first on that is not over
    for event in events:
        if event in keys:
            left.setdefault(keys[event], deque()).append(event)
    place = {event: number for number, event in enumerate(events)}
    records = list(records)
    gone = set(withdrawn) - {each.event for each in records if not isinstance(each, Gave | LostIt | Forgot)}

    def before(event: EventId) -> Iterator[EventId]:
        waiting = left[keys[event]] if event in keys else deque[EventId]()
        while waiting and waiting[0] in over:
            waiting.popleft()
        yield from takewhile(lambda each: place[each] < place[event], waiting)

    for each in records:
        match each:
            case Gave(worker, event, deliveries, now):
                if now > until.get(event, now):
                    found.append(
                        f"timely: {worker} got {event} {now - until[event]:.3f} s after it had expired"
                    )
                if event in over:
                    found.append(f"once acknowledged, never again: {worker} got {event}")
                if strict and holder.get(event, worker) != worker:
                    found.append(f"one holder: {worker} got {event}, which {holder[event]} holds")
                for earlier in before(event):
                    free = earlier in gone or earlier in lost or now > until.get(earlier, now)
                    if free and earlier not in holder:
                        continue
                    if earlier not in over and earlier not in begun and holder.get(earlier) != worker:
                        found.append(f"in order: {worker} got {event} before {earlier} was done")
                holder[event] = worker
                begun.discard(event)
                given[event] = max(deliveries, given.get(event, 0))
            case Acknowledging(_, event):
                begun.add(event)
            case LostIt(worker, event):
                if holder.get(event) == worker:
                    del holder[event]
            case Acknowledged(_, event) | GaveUp(event):
                if isinstance(each, GaveUp) and given.get(event, 0) < deliveries_max:
                    found.append(f"given up late: {event} after {given.get(event, 0)} deliveries")
                over.add(event)
                holder.pop(event, None)
            case Forgot(worker, event):
                found.append(f"forgotten: {worker} does not have {event}, as the group believes")
    found += [
        f"complete: {event} is left"
        for event in events
        if event not in over and event not in withdrawn and event not in until and event not in lost
    ]
    return found


def _named(told: Iterable[Lost], events: Iterable[EventId]) -> set[EventId]:
    """Return those of the events that losses name."""
    losses: dict[ClientId, list[Lost]] = {}
    for loss in told:
        losses.setdefault(loss.publisher, []).append(loss)
    return {
        (publisher, sequence)
        for publisher, sequence in events
        if any(loss.first <= sequence <= loss.last for loss in losses.get(publisher, ()))
    }


class GroupRecord:
    """What the workers of a group got and said, as it is recorded, for `group_violations`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._events: dict[EventId, None] = {}
        self._keys: dict[EventId, object] = {}
        self._withdrawn: frozenset[EventId] = frozenset()

    def cancelled(self) -> None:
        """Record that a subscription of the group was cancelled: what only that wanted does not come again."""
        self._withdrawn = frozenset(self._events)

    def came(self, event: EventId, key: object) -> None:
        """Record that an event came; only the first time counts. None is no key."""
        self._events[event] = None
        if key is not None:
            self._keys[event] = key

    def gave(self, worker: str, event: EventId, deliveries: int, now: float = 0.0) -> None:
        """Record that a worker was given an event."""
        self.records.append(Gave(worker, event, deliveries, now))

    def acknowledged(self, worker: str, event: EventId) -> None:
        """Record that an acknowledgement was confirmed."""
        self.records.append(Acknowledged(worker, event))

    def lost(self, worker: str, event: EventId) -> None:
        """Record that a worker holds an event no more."""
        self.records.append(LostIt(worker, event))

    def gave_up(self, event: EventId) -> None:
        """Record that an event became a dead letter."""
        self.records.append(GaveUp(event))

    def forgot(self, worker: str, event: EventId) -> None:
        """Record that a worker does not have an event that the group believes it to hold."""
        self.records.append(Forgot(worker, event))

    def violations(
        self,
        deliveries_max: int,
        expires: Mapping[EventId, float] | None = None,
        told: Iterable[Lost] = (),
    ) -> list[str]:
        """Return what the group did against its conditions; for `expires` and `told` see `group_violations`."""
        return group_violations(
            self.records,
            [*self._events],
            self._keys,
            deliveries_max=deliveries_max,
            withdrawn=self._withdrawn,
            expires=expires,
            told=told,
        )
