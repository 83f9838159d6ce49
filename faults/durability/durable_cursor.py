"""What a broker keeps for one durable subscriber: its subscriptions, its position, and what it has not acknowledged.

Rules
-----
* The position is, for each publisher, the last sequence that the subscriber has acknowledged: it has done with that one
  and all before it. Notifications are kept from when they were made until the position has passed them.
* What is kept is bounded by count, bytes and age; what the position has passed does not count, wherever it stands.
  What goes beyond is a loss by name, the oldest first, and the position goes on behind it. A process that had it
  already may still acknowledge it; who comes anew without is told.
* Of losses one stands for each publisher, from the first to the last: none is forgotten before it is told and passed.
* A *life* begins whenever the subscriber comes, at this broker or another. Whoever speaks in an earlier life than the
  last is not listened to.

Pure: a broker tells these objects what happened, and makes stable the rows that they give.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.effects import Write
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost, Register
from ...routing.filters.filter import Filter

SUBSCRIBERS: Final = "subscribers"
NOTES: Final = "notes"


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """Notifications that were made at one moment."""

    number: int
    at: float
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be delivered, for whoever inspects it.

    Attributes
    ----------
    subscriber
        For whom it was.
    publisher, sequence, event
        What it was.
    reason
        Why it was given up: "count", "bytes" or "age" went past its bound.
    at_seconds
        When, on the clock of the broker that gave it up.
    """

    subscriber: ClientId
    publisher: ClientId
    sequence: int
    event: Mapping[str, Any]
    reason: str
    at_seconds: float


@dataclass(slots=True)
class Bounds:
    """How much is kept for one subscriber."""

    events_max: int
    bytes_max: int
    seconds: float


@dataclass(slots=True, eq=False)
class DurableCursor:
    """One durable subscriber, as its broker knows it.

    Attributes
    ----------
    name
        Of the subscriber.
    life
        The life of its own that it is in.
    since
        Since when it is a subscriber, on the broker's clock.
    marks
        Its position.
    subscriptions
        What it wants, by number.
    losses
        What it lost and has not passed yet: for each publisher one.
    priorities
        Of its subscriptions, by number.
    """

    name: ClientId
    life: int
    since: float
    marks: dict[ClientId, int] = field(default_factory=dict)
    subscriptions: dict[int, Filter] = field(default_factory=dict)
    losses: list[Lost] = field(default_factory=list)
    priorities: dict[int, int] = field(default_factory=dict)
    _notes: deque[Note] = field(default_factory=deque)
    _events: int = 0
    _bytes: int = 0
    _next: int = 1
    _passed: bool = False  # whether the position may have gone on within what is kept

    @classmethod
    def restored(cls, name: ClientId, row: tuple[Any, ...]) -> DurableCursor:
        """Return the subscriber that a row made by `row` stands for, still without its notifications."""
        life, since, marks, subscriptions, losses, priorities = row
        lost = [Lost(*each) for each in losses]
        entry = cls(name, life, since, dict(marks), dict(subscriptions), lost, dict(priorities))
        entry._passed = True
        return entry

    def registers(self) -> list[Register]:
        """Return its subscriptions as it made them; all of them were admitted."""
        return [
            Register(number, item, self.priorities.get(number, 0), admitted=True)
            for number, item in self.subscriptions.items()
        ]

    def row(self) -> Write:
        """Return what makes everything but the notifications stable."""
        losses = tuple((each.publisher, each.first, each.last) for each in self.losses)
        value = (
            self.life,
            self.since,
            dict(self.marks),
            dict(self.subscriptions),
            losses,
            dict(self.priorities),
        )
        return Write(SUBSCRIBERS, (self.name,), value)

    def forgotten(self) -> list[Write]:
        """Return what removes it from stable storage."""
        notes = [Write(NOTES, (self.name, note.number), None) for note in self._notes]
        return [*notes, Write(SUBSCRIBERS, (self.name,), None)]

    def __len__(self) -> int:
        """Return how many notifications are kept."""
        return self._events

    def add(self, now: float, batch: EventBatch) -> Write:
        """Keep notifications, and return what makes them stable."""
        note = Note(self._next, now, batch)
        self.restore(note)
        return Write(NOTES, (self.name, note.number), (note.at, note.batch))

    def restore(self, note: Note) -> None:
        """Keep notifications under their number; numbers rise."""
        self._notes.append(note)
        self._events += len(note.batch)
        self._bytes += note.batch.nbytes
        self._next = note.number + 1

    def acknowledge(self, marks: Mapping[ClientId, int]) -> list[Write]:
        """Let the position go on to `marks`, never back; return what makes that stable, nothing when it is no news."""
        news = {name: mark for name, mark in marks.items() if mark > self.marks.get(name, 0)}
        losses = [each for each in self.losses if each.last > marks.get(each.publisher, 0)]
        if not news and losses == self.losses:
            return []
        self.marks |= news
        self.losses = losses
        self._passed = bool(self._notes)
        writes = [self.row()]
        while self._notes and not len(self._left(self._notes[0])):
            writes.append(self._drop())
        return writes

    def agrees(self, marks: Mapping[ClientId, int]) -> bool:
        """Return whether its position is what it says it has acknowledged, but for what it has lost."""
        lost = {each.publisher for each in self.losses}
        names = (self.marks.keys() | marks.keys()) - lost
        return all(self.marks.get(name, 0) == marks.get(name, 0) for name in names)

    def begin_anew(self, marks: Mapping[ClientId, int]) -> Write:
        """Take its word for its position, and keep no notification; return what makes that stable."""
        self.marks, self.losses = dict(marks), []
        self._notes.clear()
        self._events = self._bytes = 0
        return self.row()

    def _left(self, note: Note) -> Rows:
        """Return the rows of a note that the position has not passed."""
        batch = note.batch
        marks = np.array([self.marks.get(name, 0) for name in batch.publishers], np.int64)
        return np.flatnonzero(batch.sequence > marks[batch.publisher])

    def _compact(self) -> list[Write]:
        """Let go of what the position has passed in notifications behind one that it has not; return what to write."""
        writes: list[Write] = []
        notes, self._notes = self._notes, deque()
        self._events = self._bytes = 0
        following = self._next
        for note in notes:
            rows = self._left(note)
            key = self.name, note.number
            if not len(rows):
                writes.append(Write(NOTES, key, None))
                continue
            if len(rows) < len(note.batch):
                note = Note(note.number, note.at, note.batch.take(rows))
                writes.append(Write(NOTES, key, (note.at, note.batch)))
            self.restore(note)
        self._next, self._passed = following, False
        return writes

    def _drop(self) -> Write:
        note = self._notes.popleft()
        self._events -= len(note.batch)
        self._bytes -= note.batch.nbytes
        return Write(NOTES, (self.name, note.number), None)

    def unacknowledged(self) -> Iterator[tuple[EventBatch, Rows]]:
        """Iterate over what is kept and the position has not passed, in order."""
        for note in self._notes:
            rows = self._left(note)
            if len(rows):
                yield note.batch, rows

    def had(self) -> dict[ClientId, int]:
        """Return, for each publisher, the last sequence that is acknowledged or kept: what need not come again."""
        marks = dict(self.marks)
        for note in self._notes:
            for row in range(len(note.batch)):
                publisher, sequence = note.batch.identity(row)
                marks[publisher] = max(sequence, marks.get(publisher, 0))
        return marks

    def shed(self, now: float, bounds: Bounds) -> tuple[list[Write], list[Lost], list[DeadLetter]]:
        """Give up what goes beyond the bounds, the oldest first.

        Returns
        -------
        writes, losses, letters
            What makes it stable, what is lost by it, and the events themselves.
        """
        writes: list[Write] = []
        lost: list[Lost] = []
        letters: list[DeadLetter] = []
        if self._passed and self._notes and self._beyond(now, bounds):
            writes += self._compact()
        while self._notes and (reason := self._beyond(now, bounds)):
            note = self._notes[0]
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
            self.lose(lost)
        if writes:
            writes.append(self.row())
        return writes, lost, letters

    def lose(self, losses: Sequence[Lost]) -> None:
        """Note losses that it is to be told of until it has passed them."""
        self.losses = merged([*self.losses, *losses])

    def _beyond(self, now: float, bounds: Bounds) -> str:
        """Return which bound is passed, "" for none; one note is kept however large it is."""
        if now - self._notes[0].at > bounds.seconds:
            return "age"
        if len(self._notes) > 1 and self._events > bounds.events_max:
            return "count"
        return "bytes" if len(self._notes) > 1 and self._bytes > bounds.bytes_max else ""


def merged(losses: Iterable[Lost]) -> list[Lost]:
    """Return losses with those of one publisher as one; what is in between was not for it, or had come."""
    out: dict[ClientId, Lost] = {}
    for each in losses:
        known = out.get(each.publisher, each)
        first, last = min(known.first, each.first), max(known.last, each.last)
        out[each.publisher] = Lost(each.publisher, first, last)
    return list(out.values())
