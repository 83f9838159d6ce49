"""What a client keeps, so that it can go on at another broker when its own dies.

Rules
-----
* A subscriber keeps its subscriptions and, per publisher, the last sequence that it was notified of. At a new broker it
  says these marks first, and then registers everything again.
* A publisher keeps what it published, within retention, and publishes it again at a new broker, in order and under the
  same numbers, before anything newer. Brokers drop what they have passed on before.

Pure: a host tells these machines what happens and sends what they return, over one connection, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol.batch import EventBatch, batch_of
from ..protocol.ids import ClientId
from ..protocol.messages import Cancel, ClientMessage, Events, Filter, Register, Resume


class SubscriberMachine:
    """One subscriber.

    Attributes
    ----------
    marks
        Per publisher, the last sequence that it was notified of.
    unconfirmed
        The subscriptions that its present broker has not confirmed.
    """

    __slots__ = ("_subscriptions", "marks", "unconfirmed")

    def __init__(self) -> None:
        self.marks: dict[ClientId, int] = {}
        self.unconfirmed: set[int] = set()
        self._subscriptions: dict[int, Filter] = {}

    def subscribe(self, number: int, wanted: Filter) -> list[ClientMessage]:
        """Return what to tell the broker about a new subscription."""
        self._subscriptions[number] = wanted
        self.unconfirmed.add(number)
        return [Register(number, wanted)]

    def cancel(self, number: int) -> list[ClientMessage]:
        """Return what to tell the broker about a subscription that is to go."""
        if self._subscriptions.pop(number, None) is None:
            return []
        self.unconfirmed.discard(number)
        return [Cancel(number)]

    def confirmed(self, number: int) -> None:
        """Take in that a subscription is installed up to the root."""
        self.unconfirmed.discard(number)

    def notified(self, publisher: ClientId, sequence: int) -> None:
        """Take in a notification."""
        if sequence > self.marks.get(publisher, 0):
            self.marks[publisher] = sequence

    def moved(self) -> list[ClientMessage]:
        """Return what to tell a new broker."""
        self.unconfirmed = set(self._subscriptions)
        return [
            Resume(dict(self.marks)),
            *(Register(number, wanted) for number, wanted in self._subscriptions.items()),
        ]

    def subscriptions(self) -> dict[int, Filter]:
        """Return what it wants, by number."""
        return dict(self._subscriptions)


class PublisherMachine:
    """One publisher.

    Parameters
    ----------
    name
        The publisher.
    retention_events_max, retention_seconds
        How much it keeps to publish again.
    """

    __slots__ = ("_events_max", "_kept", "_kept_events", "_name", "_seconds", "published")

    def __init__(self, name: ClientId, retention_events_max: int, retention_seconds: float) -> None:
        self._name = name
        self._events_max = retention_events_max
        self._seconds = retention_seconds
        self._kept: deque[tuple[float, EventBatch]] = deque()
        self._kept_events = 0
        self.published = 0

    def publish(
        self, events: Iterable[Mapping[str, Any]], now: float, published_at: float | None = None
    ) -> list[ClientMessage]:
        """Take in the events of one publication, number and keep them; return what to tell the broker.

        Raises
        ------
        EventError
            If an event has a bad name or value.
        """
        batch = batch_of(
            events,
            publisher=self._name,
            first_sequence=self.published + 1,
            published_at=now if published_at is None else published_at,
        )
        if not len(batch):
            return []
        self.published += len(batch)
        self._kept.append((now, batch))
        self._kept_events += len(batch)
        self._forget(now)
        return [Events(batch)]

    def moved(self, now: float) -> list[ClientMessage]:
        """Return what to tell a new broker: all that is kept, again."""
        self._forget(now)
        return [Events(batch, again=True) for _, batch in self._kept]

    def first_kept(self) -> int:
        """Return the lowest sequence that it could publish again; one past the last when it keeps nothing."""
        return self.published - self._kept_events + 1

    def _forget(self, now: float) -> None:
        kept = self._kept
        while kept and (self._kept_events > self._events_max or kept[0][0] < now - self._seconds):
            self._kept_events -= len(kept.popleft()[1])
