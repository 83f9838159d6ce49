"""The conditions of a consumer group, judged from a record of what its workers got and said.

Conditions
----------
* **one holder**: an event is given only while no other worker holds it.
* **once acknowledged, never again**: an event whose acknowledgement was confirmed is not given again.
* **in order**: with a key, an event is given only if every earlier one of its key is acknowledged, given up, or held by
  the same worker. What comes again to a later process of the group has the order in which it comes there, and what
  workers hold then is before that. What has not come there yet, and no worker holds, is before later ones of its
  publisher only: those of several publishers may come there in another order, and those of one in several parts.
* **one at a time**: an event is given only while no other worker holds one of its key.
* **complete**: in the end every event of the group is acknowledged, given up, or told by name as lost. What was told as
  lost, and no worker holds, does not hinder those behind it either.
* **timely**: no event is given after it has expired. One that has expired while no worker held it need not be done: it
  hinders neither those behind it nor the end.
* **in vain**: of the workers that say in time to a later process of the group that they hold an event, the last that
  was given it has it.
* **given up late**: an event is given up only after so many deliveries as the group allows.
* **forgotten**: a worker that lives, and has nothing in hand, has what the group believes that it holds.

A worker that is recorded to have `Lost` an event holds it no more: it left, died, stood still, or refused it. In a real
run a worker may not know yet what it has lost. There an event that is given again is lost by who held it before
(`strict` is False), and neither **one holder** nor **one at a time** is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
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
class Began:
    """A process of the group began."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A worker said in time to a later process of the group that it holds an event, and was believed or not."""

    worker: str
    event: EventId
    believed: bool = True


@dataclass(frozen=True, slots=True)
class Came:
    """An event came to a process of the group."""

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


Record: TypeAlias = Began | Gave | Acknowledging | Acknowledged | LostIt | Claimed | Came | GaveUp | Forgot
Settling: TypeAlias = Acknowledging | Acknowledged | GaveUp


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
        The events of the group, in the order in which they came; those with a record of that came then.
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
    records = list(records)
    late = {each.event for each in records if isinstance(each, Came)}
    first = [event for event in events if event not in late]
    judge = _Judge(first, keys, deliveries_max, strict, expires or {}, _named(told, events))
    judge.gone = set(withdrawn) - {each.event for each in records if isinstance(each, Settling)}
    for each in records:
        judge.look(each)
    excused = judge.over | set(withdrawn) | judge.until.keys() | judge.lost
    return judge.found + [f"complete: {event} is left" for event in events if event not in excused]


class _Judge:
    """Looks at one record after another."""

    def __init__(
        self,
        events: Iterable[EventId],
        keys: Mapping[EventId, object],
        deliveries_max: int,
        strict: bool,
        until: Mapping[EventId, float],
        lost: Collection[EventId],
    ) -> None:
        self.until, self.lost, self.gone = until, set(lost), set[EventId]()
        self.found: list[str] = []
        self.over: set[EventId] = set()
        self._keys, self._deliveries_max, self._strict = keys, deliveries_max, strict
        self._holder: dict[EventId, str] = {}
        self._claimed: set[EventId] = set()  # with success, from the process that is there
        self._last: dict[EventId, str] = {}  # that was given it and has not lost it since
        self._held: dict[object, set[EventId]] = {}  # of each key
        self._begun: set[EventId] = set()
        self._given: dict[EventId, int] = {}
        # Of each key, with the place: what workers said that they hold comes first. Some are over.
        self._left: dict[object, dict[EventId, tuple[bool, int]]] = {}
        self._places = count()
        self._away: set[EventId] = set()  # came to an earlier process, and not to the one that is there
        for event in events:
            self._came(event)

    def _came(self, event: EventId, *, held: bool = False) -> None:
        if event in self._keys:
            self._left.setdefault(self._keys[event], {})[event] = not held, next(self._places)

    def _before(self, event: EventId) -> list[EventId]:
        """Return what is not over and came before an event, of its key."""
        if event not in self._keys or event in self.over:
            return []
        key = self._keys[event]
        left = {one: place for one, place in self._left.get(key, {}).items() if one not in self.over}
        self._left[key] = left
        mine = left.get(event, (True, 0))  # what never came is before nothing
        before = (each for each in left if left[each] < mine and not self._may_come_later(each, event))
        return sorted(before, key=left.__getitem__)

    def _may_come_later(self, earlier: EventId, event: EventId) -> bool:
        """Return whether what has an older place than an event may come after it to this process.

        The place of what has not come again is that of an earlier process. So it is older also than that of an event of
        its publisher which was before it there, and has come again since.
        """
        waited_for = earlier[0] == event[0] and earlier[1] < event[1]
        return earlier in self._away and earlier not in self._holder and not waited_for

    def _holds(self, worker: str, event: EventId) -> None:
        self._holder[event] = worker
        self._begun.discard(event)
        if event in self._keys:
            self._held.setdefault(self._keys[event], set()).add(event)

    def _loses(self, event: EventId) -> None:
        self._holder.pop(event, None)
        if event in self._keys:
            self._held.get(self._keys[event], set()).discard(event)

    def look(self, record: Record) -> None:
        """Take in what happened next."""
        match record:
            case Gave():
                self._gave(record)
            case Acknowledging(_, event):
                self._begun.add(event)
            case LostIt(worker, event):
                self._claimed.discard(event)  # if it has not come, it has its place when it does
                if self._holder.get(event) == worker:
                    self._loses(event)
                if self._last.get(event) == worker:
                    del self._last[event]
            case Acknowledged(_, event) | GaveUp(event):
                times = self._given.get(event, 0)
                if isinstance(record, GaveUp) and times < self._deliveries_max:
                    self.found.append(f"given up late: {event} after {times} deliveries")
                self.over.add(event)
                self._loses(event)
            case Claimed(worker, event, believed):
                if believed:
                    self._holds(worker, event)
                    self._came(event, held=True)
                    self._claimed.add(event)
                elif self._last.get(event) == worker and event not in self.over:
                    self.found.append(f"in vain: {worker} said in time that it holds {event}")
            case Came(event):
                self._away.discard(event)
                if event not in self._claimed:
                    self._came(event)
            case Began():
                self._claimed.clear()
                self._away.update(event for left in self._left.values() for event in left)
            case Forgot(worker, event):
                self.found.append(f"forgotten: {worker} does not have {event}, as the group believes")

    def _gave(self, record: Gave) -> None:
        worker, event, now = record.worker, record.event, record.at_seconds
        holder, found = self._holder, self.found
        if now > self.until.get(event, now):
            found.append(f"timely: {worker} got {event} {now - self.until[event]:.3f} s after it had expired")
        if event in self.over:
            found.append(f"once acknowledged, never again: {worker} got {event}")
        if self._strict and holder.get(event, worker) != worker:
            found.append(f"one holder: {worker} got {event}, which {holder[event]} holds")
        before = self._before(event)
        for earlier in before:
            free = earlier in self.gone or earlier in self.lost or now > self.until.get(earlier, now)
            if free and earlier not in holder:
                continue
            if earlier not in self._begun and holder.get(earlier) != worker:
                found.append(f"in order: {worker} got {event} before {earlier} was done")
        beside = self._held.get(self._keys[event], set()) if event in self._keys and self._strict else set()
        for other in sorted(beside - {event, *before} - self._begun):
            if holder[other] != worker:
                found.append(f"one at a time: {worker} got {event} while {holder[other]} held {other}")
        self._holds(worker, event)
        self._last[event] = worker
        self._given[event] = max(record.deliveries, self._given.get(event, 0))


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
        self._wanted: dict[EventId, set[int]] = {}  # the subscriptions that did, of those that came

    def began(self) -> None:
        """Record that a process of the group began."""
        self.records.append(Began())

    def wants(self, begins: Mapping[int, Mapping[ClientId, int]]) -> None:
        """Record which subscriptions the group still has, and where each begins: a new process, or one is cancelled.

        What only others wanted need not come again.
        """
        for (publisher, sequence), wanted in self._wanted.items():
            wanted &= {number for number, marks in begins.items() if marks.get(publisher, 0) < sequence}

    def came(self, event: EventId, key: object, wanted: Iterable[int] = (0,)) -> None:
        """Record that an event came to a process of the group, and which subscriptions want it. None is no key."""
        self.records.append(Came(event))
        if event not in self._events:
            self._events[event], self._wanted[event] = None, set(wanted)
            if key is not None:
                self._keys[event] = key

    def claimed(self, worker: str, event: EventId, believed: bool) -> None:
        """Record that a worker says in time to a later process of the group that it holds an event."""
        self.records.append(Claimed(worker, event, believed))

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
            withdrawn={event for event, wanted in self._wanted.items() if not wanted},
            expires=expires,
            told=told,
        )
