"""What a worker of a consumer group holds, and what its program was handed of it.

Rules
-----
* An event that was given is *held* until it is settled or withdrawn, and *unread* until the program was handed it.
* The answers to a poll and to a refusal may cross: an event that was refused may have come again before the refusal has
  returned. So each copy of an event that comes has a number, and an answer takes only copies that were here when it was
  asked for (`held`).

Pure: a host calls the group, and tells this machine what it answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Generic, TypeVar

from ..protocol.ids import EventId
from .group import Hold

T = TypeVar("T")


class WorkerMachine(Generic[T]):
    """One worker; of each event it keeps what its host wants to hand out."""

    def __init__(self) -> None:
        self._held: dict[EventId, int] = {}  # in order, with the number of the copy
        self._holds: dict[EventId, Hold] = {}  # the same events
        self._copies = count()
        self._handed: set[EventId] = set()  # those of them that the program has read
        self._unread: deque[tuple[EventId, T]] = deque()

    @property
    def held(self) -> dict[EventId, int]:
        """What was given and is not settled, in order, with the number of each copy; for a later `drop`."""
        return dict(self._held)

    @property
    def holds(self) -> dict[EventId, Hold]:
        """What was given and is not settled, in order, as a later process of the group is told of it."""
        return {event: self._holds[event] for event in self._held}

    @property
    def next(self) -> T | None:
        """What is handed out next; None if nothing is unread."""
        return self._unread[0][1] if self._unread else None

    def come(self, event: EventId, what: T, hold: Hold) -> None:
        """Take an event that was given."""
        self._held.pop(event, None)  # a copy that is refused may still be here, and stands before others
        self._held[event], self._holds[event] = next(self._copies), hold
        self._unread.append((event, what))

    def hand_out(self) -> T:
        """Return the next event for the program; something is unread."""
        event, what = self._unread.popleft()
        self._handed.add(event)
        return what

    def handed(self, last: EventId | None = None) -> list[EventId]:
        """Return what is held that the program was handed, or of it what is of one publisher up to an event."""
        read = [event for event in self._held if event in self._handed]
        if last is None:
            return read
        return [event for event in read if event[0] == last[0] and event[1] < last[1]] + [last]

    def drop(self, events: Iterable[EventId], had: Mapping[EventId, int] | None = None) -> None:
        """Forget events that the worker holds no more: of copies only those that it `had`, if that is given."""
        known = self._held if had is None else had
        gone = {event for event in events if event in known and self._held.get(event) == known[event]}
        for event in gone:
            self._held.pop(event, None)
            self._holds.pop(event, None)
            self._handed.discard(event)
        if any(event in gone for event, _ in self._unread):
            self._unread = deque(one for one in self._unread if one[0] not in gone)
