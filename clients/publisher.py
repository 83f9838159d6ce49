"""The state that lets a publisher continue at another broker when its broker dies, or after its own process has died.

Rules
-----
* A publisher retains what it published, within retention. At a new broker it publishes this again, in order
  and under the same numbers, before anything newer, and says how long ago it was published. Brokers drop what
  they have passed on before. Events that no broker is known to have accepted are retained regardless of the
  limits: no one else has them.
* Once the new broker has accepted all of it, the publisher tells the previous broker from which event on the
  new one retains its events.
* A publisher whose process died asks its broker for the retained events and for the last number that the
  broker accepted.
* At a new broker a publisher first states its advertisements, and sends nothing else until they are known. It
  repeats a withdrawn advertisement if no other one admits some retained event, and withdraws it again after
  that event.
* The publisher withdraws what it has advertised at a broker that it leaves. The withdrawal may be late and find
  the publisher there again. Advertisements and withdrawals therefore have a version, which rises with each broker
  and each process of the publisher, and a late withdrawal withdraws nothing newer.

Pure: a host tells this machine what happens and sends what it returns, over one connection, in order.
`subscriber` has the same for subscribers, and `link` numbers the messages where brokers do.
Source: docs/decisions/0011-recovery.md and 0015-exactly-once.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..protocol.batch import EventBatch, batch_from_columns
from ..protocol.ids import ClientId
from ..protocol.messages.admission import Advertise, Unadvertise
from ..protocol.messages.pubsub import ClientMessage, Events, Flush, HasPublished, TakenOver
from ..routing.filters.filter import Filter

Said: TypeAlias = ClientMessage | Advertise | Unadvertise
"""A message from a publisher to its broker."""

Advertised: TypeAlias = tuple[Filter, int, bool]
"""A filter; its maximum rate in micro-events a second, 0 without admission control; whether that is a default."""


class PublisherMachine:
    """One publisher.

    Parameters
    ----------
    name
        The publisher's name.
    retention_events_max, retention_seconds, retention_bytes_max
        How much the publisher retains to publish again. The last batch is always retained, and so are events
        that are not known to be accepted.

    Attributes
    ----------
    published
        The last sequence that the publisher has used.
    accepted
        The last sequence that a broker is known to have accepted.
    adverts
        The advertisements, by number.
    withdrawn
        The withdrawn advertisements that some retained event still needs, by number.
    version
        Of its advertisements at the present broker.
    """

    __slots__ = (
        "_bytes_max",
        "_events_max",
        "_forgot_at",
        "_held",
        "_kept",
        "_kept_bytes",
        "_kept_events",
        "_name",
        "_seconds",
        "_unknown",
        "accepted",
        "adverts",
        "published",
        "version",
        "withdrawn",
    )

    def __init__(
        self,
        name: ClientId,
        retention_events_max: int,
        retention_seconds: float,
        retention_bytes_max: float = math.inf,
    ) -> None:
        self._name = name
        self._events_max = retention_events_max
        self._bytes_max = retention_bytes_max
        self._seconds = retention_seconds
        self._kept_bytes = 0
        self._kept: deque[tuple[float, EventBatch]] = deque()
        self._kept_events = 0
        # The latest time at which an event that is no longer retained was published.
        self._forgot_at = float("-inf")
        self.published = self.accepted = self.version = 0
        self.adverts: dict[int, Advertised] = {}
        self.withdrawn: dict[int, Advertised] = {}
        self._unknown: set[int] = set()
        self._held: list[tuple[float, Said]] = []

    # Admission control.

    def advertise(self, number: int, item: Filter, micro_rate: int, *, default: bool = False) -> list[Said]:
        """Return the messages for an advertisement. Later messages are held until it is known everywhere.

        A `default` rate is one that the publisher did not give itself.
        """
        self.adverts[number] = advertised = item, micro_rate, default
        self.withdrawn.pop(number, None)
        return [self._advertise(number, advertised)]

    def _advertise(self, number: int, advertised: Advertised) -> Advertise:
        self._unknown.add(number)
        item, micro_rate, default = advertised
        return Advertise(number, item, micro_rate, self.version, default)

    def unadvertise(self, number: int, now: float) -> list[Said]:
        """Return the messages for the withdrawal of an advertisement."""
        advertised = self.adverts.pop(number, None)
        if advertised is not None:
            self._withdraw(number, advertised, [item for item, *_ in self.adverts.values()])
        return [Unadvertise(number), *self.everywhere(number, now)]

    def _withdraw(self, number: int, advertised: Advertised, others: Collection[Filter]) -> None:
        """Retain a withdrawn advertisement while some retained event is covered by it and by no other."""
        if advertised[1]:
            self.withdrawn[number] = advertised
        needed = set()
        for _, batch in self._kept if self.withdrawn else ():
            left = np.ones(len(batch), np.bool_)
            for item in others:
                left &= ~item.evaluate_batch(batch, every=True)
            for past, (item, *_) in self.withdrawn.items():
                mine = left & item.evaluate_batch(batch, every=True)
                if mine.any():
                    needed.add(past)
                    left &= ~mine
        self.withdrawn = {past: known for past, known in self.withdrawn.items() if past in needed}

    def everywhere(self, number: int, now: float) -> list[Said]:
        """Record that an advertisement is known everywhere; return the messages that were held for it."""
        self._unknown.discard(number)
        if self._unknown:
            return []
        held, self._held = self._held, []
        return [self._aged(message, now - since) for since, message in held]

    def _say(self, messages: list[Said], now: float) -> list[Said]:
        """Return the messages that may be sent now, and hold the others."""
        if not self._unknown:
            return messages
        self._held += [(now, message) for message in messages]
        return []

    # Publications.

    def flush(self, number: int, now: float) -> list[Said]:
        """Return the message that asks whether everything published so far is delivered."""
        return self._say([Flush(number)], now)

    def publish(self, batch: EventBatch, now: float) -> tuple[EventBatch, list[Said]]:
        """Assign numbers to events that are published together, and retain them.

        Parameters
        ----------
        batch
            The events. Their publisher and numbers are ignored.
        now
            The time, on the clock used for retention.

        Returns
        -------
        EventBatch, list
            The numbered events, and the messages for the broker.
        """
        size = len(batch)
        if not size:
            return batch, []
        numbered = batch_from_columns(
            batch.columns, size, publisher=self._name, first_sequence=self.published + 1, published_at=now
        )
        self._keep(now, numbered)
        return numbered, self._say([Events(numbered)], now)

    def has_published(self) -> HasPublished:
        """Return the last number that was used, for the broker to compare."""
        return HasPublished(self.published)

    @property
    def held(self) -> list[tuple[int, int, int]]:
        """(first sequence, number of events, bytes) of each batch that is kept, the oldest first."""
        return [(int(batch.sequence[0]), len(batch), batch.nbytes) for _, batch in self._kept]

    def _keep(self, now: float, batch: EventBatch) -> None:
        """Retain a batch that is published now, under the next numbers."""
        size = len(batch)
        self.published += size
        self._kept.append((now, batch))
        self._kept_events += size
        self._kept_bytes += batch.nbytes
        self._trim(now)

    def accept(self, last: int, now: float) -> None:
        """Record that a broker has accepted everything up to a sequence."""
        self.accepted = max(self.accepted, last)
        self._trim(now)

    def _trim(self, now: float) -> None:
        kept = self._kept
        while len(kept) > 1 and self._is_accepted(kept[0][1]):
            fits = self._kept_events <= self._events_max and self._kept_bytes <= self._bytes_max
            if fits and kept[0][0] >= now - self._seconds:
                return
            self._forgot_at, batch = kept.popleft()
            self._kept_events -= len(batch)
            self._kept_bytes -= batch.nbytes

    def _is_accepted(self, batch: EventBatch) -> bool:
        return int(batch.sequence[-1]) <= self.accepted

    # Moves and restarts.

    def arrive(self, now: float) -> list[Said]:
        """Return the messages for a new broker: the advertisements, and, once they are known, all retained events."""
        self._renew(now)
        self._unknown.clear()
        self._held.clear()  # these messages are part of what is retained
        known = {**self.adverts, **self.withdrawn}
        said: list[Said] = [self._advertise(number, advertised) for number, advertised in known.items()]
        ends = [Unadvertise(number, self.version) for number in self.withdrawn]
        return [*said, *self._say([*self._republished(now), *ends], now)]

    def _renew(self, now: float) -> None:
        """Begin a new version, above those of earlier processes of the publisher."""
        self.version = max(self.version + 1, int(now * 1e9))

    def leave(self) -> list[Said]:
        """Return the messages for a broker that the publisher leaves, or has left for the present one."""
        return [Unadvertise(number, self.version) for number in (*self.adverts, *self.withdrawn)]

    def _republished(self, now: float) -> list[Events]:
        """Return all retained events for a new broker, as events published again; unaccepted ones get age 0."""
        repeated: list[Events] = []
        forgot_at = self._forgot_at
        for at, batch in self._kept:
            accepted = self._is_accepted(batch)
            if accepted and at < now - self._seconds:
                forgot_at = at
                continue
            age = max(0.0, now - at) if accepted else 0.0
            repeated.append(
                Events(batch, retransmitted=True, age_seconds=age, forgot_seconds=now - forgot_at)
            )
        return repeated

    def taken_over(self) -> TakenOver:
        """Return the message for a broker that was left, once another broker has accepted all retained events."""
        first = int(self._kept[0][1].sequence[0]) if self._kept else self.published + 1
        return TakenOver(first, self.published)

    def reattach(self, now: float, accepted: int, kept: Iterable[tuple[float, EventBatch]]) -> None:
        """Discard what only the process knew, and continue from what the broker knows.

        Without the events that the broker retains, a move to another broker would leave a gap between the two
        streams.

        Parameters
        ----------
        now
            The time.
        accepted
            The last number that was accepted. The next number follows it.
        kept
            The publisher's events that the broker retains, each with how many seconds ago it was accepted.
        """
        self._renew(now)
        self._kept.clear()
        self._kept_events = self._kept_bytes = 0
        self.accepted = accepted
        kept = list(kept)
        self._forgot_at = now - kept[0][0] if kept else now
        for age, batch in kept:
            self._keep(now - age, batch)
        self.published = accepted

    def _aged(self, message: Said, seconds: float) -> Said:
        """Return a message that was held for this long. Events that are published again carry their age.

        Those that no broker has accepted have none, however long they are held: with one they would be retained for
        less, and be too old for a subscription that has begun meanwhile, before which nobody can have had them.
        """
        if not isinstance(message, Events) or not message.retransmitted:
            return message
        age = message.age_seconds + seconds if self._is_accepted(message.batch) else 0.0
        return replace(message, age_seconds=age, forgot_seconds=message.forgot_seconds + seconds)
