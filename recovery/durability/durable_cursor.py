"""What a broker retains for one durable subscriber: subscriptions, position, and unacknowledged notifications.

Rules
-----
* The position is, per publisher, the last sequence that the subscriber has acknowledged: it has processed
  that event and all before it. Notifications are retained from their creation until the position has passed
  them.
* Retention is bounded by count, bytes and age. Notifications that the position has passed do not count,
  wherever they are. Notifications beyond the bounds are lost, the oldest first; the subscriber is told which,
  and the position moves past them. A process that had already received one may still acknowledge it; a
  subscriber that returns without it is told of the loss.
* The losses of each publisher are merged into one range, from the first to the last. None is forgotten before
  it is reported and passed.
* An *incarnation* begins whenever the subscriber comes to a broker, this one or another. Messages of an
  earlier one than the last are ignored.

* Where each subscription begins has a row of its own, because it is long and does not change. Without a row the
  subscription was made by an earlier version, and begins at 0.
* How many notifications the position has not passed is counted as they come and are passed (`Outstanding`), since
  monitoring asks for it often, and what is retained may be much.

Pure: a broker tells these objects what happened, and makes stable the rows that they return.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.durables import Backlog
from ...protocol.effects import Write
from ...protocol.expiry import first_deadline, living
from ...protocol.ids import ClientId, EventId
from ...protocol.messages.handover import SubscriberBequest
from ...protocol.messages.pubsub import Lost, Register
from ...routing.filters.filter import Filter
from ..replay.high_water import Marks
from .deadlines import Deadlines

SUBSCRIBERS: Final = "subscribers"
NOTES: Final = "notes"
BEGINS: Final = "begins"


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """Notifications that were made at one time."""

    number: int
    at: float
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be delivered, kept for inspection.

    Attributes
    ----------
    subscriber
        The subscriber that the event was for.
    publisher, sequence, event
        The identity and the content of the event.
    reason
        Why it was given up: "count", "bytes" or "age" exceeded its bound; or what its subscriber says, for example
        that it was delivered too often.
    at_seconds
        When it was given up, on the clock of the broker.
    """

    subscriber: ClientId
    publisher: ClientId
    sequence: int
    event: Mapping[str, object]
    reason: str
    at_seconds: float


@dataclass(slots=True)
class Bounds:
    """The retention limits for one subscriber."""

    events_max: int
    bytes_max: int
    seconds: float


class Outstanding:
    """Counts the notifications that a position has not passed, in constant time for each."""

    def __init__(self) -> None:
        self._sequences: dict[ClientId, deque[int]] = {}  # rising for each publisher
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, batch: EventBatch) -> None:
        """Count the events of a batch; those of a publisher come in order."""
        for code, name in enumerate(batch.publishers):
            of = batch.sequence if len(batch.publishers) == 1 else batch.sequence[batch.publisher == code]
            self._sequences.setdefault(name, deque()).extend(of.tolist())
        self._count += len(batch)

    def advance(self, marks: Mapping[ClientId, int]) -> None:
        """Count those no more that these marks pass."""
        for name, mark in marks.items():
            waiting = self._sequences.get(name)
            while waiting and waiting[0] <= mark:
                waiting.popleft()
                self._count -= 1
            if waiting is not None and not waiting:
                del self._sequences[name]

    def drop(self, events: Iterable[EventId]) -> None:
        """Count these events no more."""
        gone: dict[ClientId, set[int]] = {}
        for name, sequence in events:
            gone.setdefault(name, set()).add(sequence)
        for name, numbers in gone.items():
            waiting = self._sequences.pop(name, deque())
            before = len(waiting)
            while waiting and waiting[0] in numbers:  # mostly those that came first
                numbers.discard(waiting.popleft())
            if numbers:
                waiting = deque(each for each in waiting if each not in numbers)
            self._count -= before - len(waiting)
            if waiting:
                self._sequences[name] = waiting

    def clear(self) -> None:
        """Count nothing."""
        self._sequences.clear()
        self._count = 0


@dataclass(slots=True, eq=False)
class DurableCursor:
    """One durable subscriber, as its broker knows it.

    Attributes
    ----------
    name
        The subscriber's name.
    incarnation
        The subscriber's present incarnation.
    since
        Since when it is a subscriber, on the broker's clock.
    marks
        Its position.
    subscriptions
        Its filters, by number.
    losses
        The losses that its position has not passed yet, one per publisher.
    priorities
        The priorities of its subscriptions, by number.
    begins
        Where each of its subscriptions begins, by number, and since when that is known here; None before it is
        confirmed.
    past
        Those of its subscriptions that begin in the past (`Register`).
    made
        When each of its subscriptions was made, by number, or earlier if that is in doubt; stored with the next `row`.
    """

    name: ClientId
    incarnation: int
    since: float
    marks: dict[ClientId, int] = field(default_factory=dict)
    subscriptions: dict[int, Filter] = field(default_factory=dict)
    losses: list[Lost] = field(default_factory=list)
    priorities: dict[int, int] = field(default_factory=dict)
    begins: dict[int, tuple[float, Marks | None]] = field(default_factory=dict)
    past: dict[int, None] = field(default_factory=dict)
    made: dict[int, float] = field(default_factory=dict)
    _notes: OrderedDict[int, Note] = field(default_factory=OrderedDict)  # by number, which rises
    _events: int = 0
    _bytes: int = 0
    _next: int = 1
    _passed: bool = False  # whether the position may have advanced within the retained notifications
    _outstanding: Outstanding = field(default_factory=Outstanding)
    _deadlines: Deadlines[int] = field(default_factory=Deadlines)  # of the retained notifications

    @classmethod
    def restored(cls, name: ClientId, row: tuple[Any, ...]) -> DurableCursor:
        """Restore a subscriber from a row made by `row`, still without its notifications."""
        incarnation, since, marks, subscriptions, losses, priorities, *more = row
        lost = [Lost(*each) for each in losses]
        entry = cls(name, incarnation, since, dict(marks), dict(subscriptions), lost, dict(priorities))
        entry.past = dict.fromkeys(more[0] if more else ())  # rows of earlier versions lack it
        entry.made = dict(more[1] if len(more) > 1 else {})  # and this
        entry._passed = True
        return entry

    @classmethod
    def inherited(cls, given: SubscriberBequest, now: float, stated_at: float) -> DurableCursor:
        """Return a subscriber of a broker that has left, as it was there; its ages count from `stated_at` backwards."""
        since, losses = stated_at - given.since_seconds, list(given.losses)
        state = dict(given.marks), dict(given.subscriptions), losses, dict(given.priorities)
        entry = cls(given.name, given.incarnation, since, *state)
        entry.begins = {number: (now, given.begins.get(number)) for number in entry.subscriptions}
        entry.made = {number: stated_at - age for number, age in given.ages_seconds.items()}
        entry.past = dict.fromkeys(given.past)
        for age, batch in given.notes:
            entry.add(now - age, batch)
        return entry

    def bequest(self, now: float, clock: float) -> SubscriberBequest:
        """Return the subscriber for a trustee, whose clock was read before."""
        found = ((note, self._left(note)) for note in self._notes.values())
        notes = tuple((now - note.at, note.batch.take(rows)) for note, rows in found if len(rows))
        begins = {number: marks for number, marks in self.begun().items() if number in self.subscriptions}
        held = dict(self.marks), dict(self.subscriptions), dict(self.priorities)
        since = now - self.since
        losses, past = tuple(self.losses), tuple(self.past)
        ages = {number: now - at for number, at in self.made.items()}
        state = *held, begins, losses, notes, past, ages, clock
        return SubscriberBequest(0, self.name, self.incarnation, since, *state)

    def rows(self) -> list[Write]:
        """Return the writes that make all of it stable."""
        notes = [
            Write(NOTES, (self.name, note.number), (note.at, note.batch)) for note in self._notes.values()
        ]
        begins = [Write(BEGINS, (self.name, number), begun) for number, begun in self.begins.items()]
        return [self.row(), *begins, *notes]

    def registers(self) -> list[Register]:
        """Return the subscriptions as they were made. All of them were admitted."""
        return [
            Register(number, item, self.priorities.get(number, 0), admitted=True, past=number in self.past)
            for number, item in self.subscriptions.items()
        ]

    def row(self) -> Write:
        """Return the write that makes everything but the notifications stable."""
        losses = tuple((each.publisher, each.first, each.last) for each in self.losses)
        value = (
            self.incarnation,
            self.since,
            dict(self.marks),
            dict(self.subscriptions),
            losses,
            dict(self.priorities),
            tuple(self.past),
            dict(self.made),
        )
        return Write(SUBSCRIBERS, (self.name,), value)

    def forgotten(self) -> list[Write]:
        """Return the writes that remove the subscriber from stable storage."""
        notes = [Write(NOTES, (self.name, number), None) for number in self._notes]
        begins = [Write(BEGINS, (self.name, number), None) for number in self.begins]
        return [*notes, *begins, Write(SUBSCRIBERS, (self.name,), None)]

    # Where its subscriptions begin.

    def begun(self) -> dict[int, Marks]:
        """Return where each subscription begins that was confirmed, by number."""
        begins = {number: marks for number, (_, marks) in self.begins.items() if marks is not None}
        return begins | {number: {} for number in self.subscriptions if number not in self.begins}

    def begin(self, now: float, number: int, marks: Marks | None) -> list[Write]:
        """Record where a subscription begins, None before it is confirmed; return the writes if that is new."""
        unknown = number in self.subscriptions and self.begins.get(number, (0.0, None))[1] is None
        if not unknown or (marks is None and number in self.begins):
            return []
        self.begins[number] = now, marks
        return [Write(BEGINS, (self.name, number), self.begins[number])]

    def bring(self, now: float, begins: Mapping[int, Marks], made: Mapping[int, float]) -> list[Write]:
        """Record where and when subscriptions have begun elsewhere, before they are made here; return the writes."""
        self.made |= {number: at for number, at in made.items() if number not in self.subscriptions}
        new = [number for number in begins if self.begins.get(number, (0.0, None))[1] is None]
        self.begins |= {number: (now, begins[number]) for number in new}
        return [Write(BEGINS, (self.name, number), self.begins[number]) for number in new]

    def subscribe(
        self, now: float, number: int, wanted: Filter, priority: int, *, past: bool = False
    ) -> list[Write]:
        """Record a subscription; return the writes."""
        writes = [] if self.subscriptions.get(number, wanted) == wanted else self.cancel(number)
        new = number not in self.subscriptions
        self.subscriptions[number], self.priorities[number] = wanted, priority
        if past:
            self.past[number] = None
        if new:
            self.made.setdefault(number, now)
        begins = self.begin(now, number, None) if new else []
        return [*writes, self.row(), *begins]

    def cancel(self, number: int) -> list[Write]:
        """Forget a subscription; return the writes."""
        self.subscriptions.pop(number, None)
        self.priorities.pop(number, None)
        self.past.pop(number, None)
        self.made.pop(number, None)
        known = self.begins.pop(number, None)
        return [self.row(), *([] if known is None else [Write(BEGINS, (self.name, number), None)])]

    def tidied(self, before: float) -> list[Write]:
        """Drop the positions known since before a time, when nobody retains events that old; return the writes."""
        old = [number for number, (at, marks) in self.begins.items() if marks and at < before]
        self.begins |= {number: (self.begins[number][0], {}) for number in old}
        return [Write(BEGINS, (self.name, number), self.begins[number]) for number in old]

    def __len__(self) -> int:
        """Return the number of retained notifications."""
        return self._events

    def add(self, now: float, batch: EventBatch) -> Write:
        """Retain notifications, and return the write that makes them stable."""
        note = Note(self._next, now, batch)
        self.restore(note)
        return Write(NOTES, (self.name, note.number), (note.at, note.batch))

    def restore(self, note: Note) -> None:
        """Retain notifications under their number. Numbers rise."""
        self._outstanding.add(note.batch)
        self._outstanding.advance({name: self.marks.get(name, 0) for name in note.batch.publishers})
        self._notes[note.number] = note
        self._events += len(note.batch)
        self._bytes += note.batch.nbytes
        self._next = note.number + 1
        self._deadlines.add(note.number, first_deadline(note.batch), self._notes)

    def acknowledge(self, marks: Mapping[ClientId, int]) -> list[Write]:
        """Advance the position to `marks`, never back; return the writes for that, none if nothing changes."""
        news = {name: mark for name, mark in marks.items() if mark > self.marks.get(name, 0)}
        losses = [each for each in self.losses if each.last > marks.get(each.publisher, 0)]
        if not news and losses == self.losses:
            return []
        self.marks |= news
        self._outstanding.advance(news)
        self.losses = losses
        self._passed = bool(self._notes)
        writes = [self.row()]
        while self._notes and not len(self._left(self._first())):
            writes.append(self._drop())
        return writes

    def agrees(self, marks: Mapping[ClientId, int]) -> bool:
        """Return whether the position equals what the subscriber says it has acknowledged, except for its losses."""
        lost = {each.publisher for each in self.losses}
        names = (self.marks.keys() | marks.keys()) - lost
        return all(self.marks.get(name, 0) == marks.get(name, 0) for name in names)

    def begin_anew(self, marks: Mapping[ClientId, int]) -> list[Write]:
        """Set the position to what the subscriber says, and discard all notifications; return all rows anew."""
        self.marks, self.losses = dict(marks), []
        self._notes.clear()
        self._outstanding.clear()
        self._events = self._bytes = 0
        begins = [Write(BEGINS, (self.name, number), begun) for number, begun in self.begins.items()]
        return [self.row(), *begins]

    def _left(self, note: Note) -> Rows:
        """Return the rows of a note that the position has not passed."""
        batch = note.batch
        marks = np.array([self.marks.get(name, 0) for name in batch.publishers], np.int64)
        return np.flatnonzero(batch.sequence > marks[batch.publisher])

    def expire(self, now: float) -> tuple[list[Write], int]:
        """Drop what is past its time to live: nobody owes it any more. Return the writes, and how much that was."""
        writes: list[Write] = []
        gone: list[EventId] = []
        for number in self._deadlines.due(now, self._notes):
            note = self._notes[number]
            left = self._left(note)
            rows = living(note.batch, left, now)
            gone += [note.batch.identity(row) for row in np.setdiff1d(left, rows).tolist()]
            writes += self._keep(note, rows)
            if len(rows):
                self._deadlines.add(number, first_deadline(self._notes[number].batch), self._notes)
        self._outstanding.drop(gone)
        return writes, len(gone)

    def _compact(self) -> list[Write]:
        """Release passed notifications that are behind one not passed yet."""
        self._passed = False
        notes = list(self._notes.values())
        return [write for note in notes for write in self._keep(note, self._left(note))]

    def _keep(self, note: Note, rows: Rows) -> list[Write]:
        """Retain only these rows of a note; return the writes."""
        if len(rows) == len(note.batch):
            return []
        key = self.name, note.number
        self._events += len(rows) - len(note.batch)
        self._bytes -= note.batch.nbytes
        if not len(rows):
            del self._notes[note.number]
            return [Write(NOTES, key, None)]
        kept = note.batch.take(rows)
        self._bytes += kept.nbytes
        self._notes[note.number] = Note(note.number, note.at, kept)
        return [Write(NOTES, key, (note.at, kept))]

    def _first(self) -> Note:
        return next(iter(self._notes.values()))

    def _drop(self) -> Write:
        _, note = self._notes.popitem(last=False)
        self._events -= len(note.batch)
        self._bytes -= note.batch.nbytes
        return Write(NOTES, (self.name, note.number), None)

    def unacknowledged(self) -> Iterator[tuple[EventBatch, Rows]]:
        """Yield the retained notifications that the position has not passed, in order."""
        for note in self._notes.values():
            rows = self._left(note)
            if len(rows):
                yield note.batch, rows

    def had(self) -> dict[ClientId, int]:
        """Return, per publisher, the last sequence that is acknowledged or retained and need not be sent again."""
        marks = dict(self.marks)
        for note in self._notes.values():
            for row in range(len(note.batch)):
                publisher, sequence = note.batch.identity(row)
                marks[publisher] = max(sequence, marks.get(publisher, 0))
        return marks

    def shed(self, now: float, bounds: Bounds) -> tuple[list[Write], list[Lost], list[DeadLetter]]:
        """Give up the notifications beyond the bounds, the oldest first.

        Returns
        -------
        writes, losses, letters
            The writes for it, the losses, and the events themselves.
        """
        writes: list[Write] = []
        lost: list[Lost] = []
        letters: list[DeadLetter] = []
        if self._passed and self._notes and self._beyond(now, bounds):
            writes += self._compact()
        while self._notes and (reason := self._beyond(now, bounds)):
            note = self._first()
            rows = self._left(note).tolist()
            events = note.batch.events()
            for row in rows:
                publisher, sequence = note.batch.identity(row)
                lost.append(Lost(publisher, sequence, sequence))
                letters.append(DeadLetter(self.name, publisher, sequence, events[row], reason, now))
                self.marks[publisher] = max(sequence, self.marks.get(publisher, 0))
            writes.append(self._drop())
        if lost:
            lost = merged(lost)
            self._outstanding.advance({each.publisher: each.last for each in lost})
            self.lose(lost)
        if writes:
            writes.append(self.row())
        return writes, lost, letters

    def backlog(self, now: float) -> Backlog:
        """Return what it has not acknowledged."""
        wanted = tuple(map(str, self.subscriptions.values()))
        return Backlog(self.name, self.incarnation, self.outstanding, self._bytes, self.waited(now), wanted)

    @property
    def outstanding(self) -> int:
        """How many notifications its position has not passed."""
        return len(self._outstanding)

    def waited(self, now: float) -> float:
        """Return for how many seconds the oldest of these has waited; 0 if there is none."""
        return max(0.0, now - self._first().at) if self._outstanding else 0.0

    def check(self) -> None:
        """Assert that what is counted is what is retained; for tests."""
        assert len(self._outstanding) == sum(len(rows) for _, rows in self.unacknowledged())

    def has_passed(self, publisher: ClientId, sequence: int) -> bool:
        """Return whether the position has passed an event."""
        return sequence <= self.marks.get(publisher, 0)

    def lose(self, losses: Sequence[Lost]) -> None:
        """Record losses, which are reported to the subscriber until its position has passed them."""
        self.losses = merged([*self.losses, *losses])

    def _beyond(self, now: float, bounds: Bounds) -> str:
        """Return which bound is exceeded, "" for none. Count and bytes do not apply to the only note left."""
        if now - self._first().at > bounds.seconds:
            return "age"
        if len(self._notes) > 1 and self._events > bounds.events_max:
            return "count"
        return "bytes" if len(self._notes) > 1 and self._bytes > bounds.bytes_max else ""


def merged(losses: Iterable[Lost]) -> list[Lost]:
    """Return the losses with one range per publisher. Events in between were not for the subscriber, or had arrived."""
    out: dict[ClientId, Lost] = {}
    for each in losses:
        known = out.get(each.publisher, each)
        first, last = min(known.first, each.first), max(known.last, each.last)
        out[each.publisher] = Lost(each.publisher, first, last)
    return list(out.values())
