"""What a client keeps, so that it can go on at another broker when its own dies, or when it has died itself.

Rules
-----
* A subscriber keeps its subscriptions and, per publisher, the last sequence that it was given. At a new broker it says
  these marks first, and then registers everything again. What comes at or below a mark has come before and is dropped.
* A durable subscriber also keeps its *position*: what it has acknowledged. That, its subscriptions and the number of
  its life outlive its process (`record`). When it comes back, and when it moves, it says its position, as what it was
  given and has not acknowledged may be needed again.
* A publisher keeps what it published, within retention, and publishes it again at a new broker, in order and under the
  same numbers, before anything newer; and says how long ago it was. Brokers drop what they have passed on before. What
  no broker is known to have accepted is kept whatever the retention: nobody else has it. One whose process died asks
  its broker for what that keeps of it, and for the last number that it accepted.

Pure: a host tells these machines what happens and sends what they return, over one connection, in order.
Source: docs/decisions/0011-recovery.md and 0015-exactly-once.md.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.ids import ClientId
from ...protocol.messages.admission import (
    AdmissionRequest,
    Advertise,
    Judgement,
    Refusal,
    Standing,
    Unadvertise,
)
from ...protocol.messages.pubsub import (
    Cancel,
    ClientMessage,
    Consumed,
    Events,
    FilterLike,
    Flush,
    Lost,
    Register,
    Resume,
)

Said: TypeAlias = ClientMessage | AdmissionRequest
"""What a publisher says to its broker."""


class SubscriberMachine:
    """One subscriber.

    Parameters
    ----------
    durable
        Whether its broker keeps what it has not acknowledged, also while it is away.

    Attributes
    ----------
    life
        Of a durable subscriber: how often it has come to a broker; 0 for one that is not durable.
    marks
        Per publisher, the last sequence that it was given.
    position
        Per publisher, the last sequence that it has acknowledged.
    losses
        What it was told that it may have lost.
    unconfirmed
        The subscriptions that its present broker has not confirmed.
    last_number
        The highest number that it has used for a subscription.
    admitted
        The subscriptions that are known to have been admitted; they are not judged again.
    lacking
        What each subscription lacks at its present broker, as far as it was told.
    """

    __slots__ = (
        "_priorities",
        "_since",
        "_subscriptions",
        "admitted",
        "durable",
        "lacking",
        "last_number",
        "life",
        "losses",
        "marks",
        "position",
        "unconfirmed",
    )

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.last_number = 0
        self.admitted: set[int] = set()
        self.lacking: dict[int, tuple[Refusal, ...]] = {}
        self._priorities: dict[int, int] = {}
        self.life = 0
        self.marks: dict[ClientId, int] = {}
        self.position: dict[ClientId, int] = {}
        self.losses: list[Lost] = []
        self.unconfirmed: set[int] = set()
        self._since: float | None = None
        self._subscriptions: dict[int, FilterLike] = {}

    # Subscriptions.

    def subscribe(
        self, number: int, wanted: FilterLike, now: float, priority: int = 0
    ) -> list[ClientMessage]:
        """Return what to tell the broker about a new subscription."""
        self._since = now if self._since is None else self._since
        self._subscriptions[number] = wanted
        self.last_number = max(self.last_number, number)
        self.unconfirmed.add(number)
        if priority:
            self._priorities[number] = priority
        return [self._register(number, wanted)]

    def cancel(self, number: int) -> list[ClientMessage]:
        """Return what to tell the broker about a subscription that is to go."""
        if self._subscriptions.pop(number, None) is None:
            return []
        for known in (self.unconfirmed, self.admitted):
            known.discard(number)
        for told in (self._priorities, self.lacking):
            told.pop(number, None)
        return [Cancel(number)]

    def confirmed(self, number: int) -> None:
        """Take in that a subscription is installed up to the root."""
        self.unconfirmed.discard(number)

    def granted(self, number: int) -> None:
        """Take in that a subscription is in force, and so was admitted."""
        self.confirmed(number)
        if number in self._subscriptions:
            self.admitted.add(number)

    def subscriptions(self) -> dict[int, FilterLike]:
        """Return what it wants, by number."""
        return dict(self._subscriptions)

    def in_force(self) -> dict[int, FilterLike]:
        """Return what it wants and was granted, by number."""
        return {number: wanted for number, wanted in self.subscriptions().items() if number in self.admitted}

    # Admission control.

    def judged(self, news: Judgement) -> bool:
        """Take in whether a subscription may enter; return whether one is gone by that."""
        if news.number not in self._subscriptions:
            return False
        if news.admitted:
            self.admitted.add(news.number)
        else:
            self.cancel(news.number)
        return not news.admitted

    def stands(self, news: Standing) -> None:
        """Take in what a subscription lacks; nothing when all is well again."""
        if news.refusals and news.number in self._subscriptions:
            self.lacking[news.number] = news.refusals
        else:
            self.lacking.pop(news.number, None)

    # Notifications.

    def admit(self, batch: EventBatch, rows: Rows) -> Rows:
        """Return those of the rows, which rise, that it was not given before, and note that it is given them now."""
        publishers = batch.publisher[rows]
        sequences = batch.sequence[rows]
        keep = np.zeros(len(rows), np.bool_)
        for code in np.unique(publishers).tolist():
            name = batch.publishers[code]
            mine = np.flatnonzero(publishers == code)
            # A batch may have an event twice, when two copies were under way together.
            highest = np.maximum.accumulate([self.marks.get(name, 0), *sequences[mine].tolist()])
            keep[mine] = highest[1:] > highest[:-1]
            self.marks[name] = int(highest[-1])
        return rows if keep.all() else rows[keep]

    def notified(self, publisher: ClientId, sequence: int) -> None:
        """Take in one notification that the host has judged itself."""
        if sequence > self.marks.get(publisher, 0):
            self.marks[publisher] = sequence

    def lost(self, losses: Iterable[Lost]) -> list[Lost]:
        """Take in what it may have lost; return what it did not know of."""
        news = [each for each in losses if each not in self.losses]
        self.losses += news
        return news

    def acknowledge(self, marks: Mapping[ClientId, int] | None = None) -> list[ClientMessage]:
        """Let the position go on to `marks`, to all that it was given when None; return what to tell the broker."""
        given = self.marks if marks is None else marks
        news = {name: mark for name, mark in given.items() if mark > self.position.get(name, 0)}
        if not news:
            return []
        self.position |= news
        return [Consumed(news, self.life)]

    # Another broker, another process.

    def arrive(self, now: float, away_seconds: float = 0.0) -> list[ClientMessage]:
        """Return what to tell a broker that it comes to.

        Parameters
        ----------
        now
            The time, on the clock that it had when it first subscribed.
        away_seconds
            How long ago it last heard of its broker, at most.
        """
        self.life += self.durable
        return self.here(now, away_seconds, self._subscriptions)

    def here(self, now: float, away_seconds: float, wanted: Mapping[int, FilterLike]) -> list[ClientMessage]:
        """Return what to tell a broker in this life: what it has had, and what it wants, or a part of that."""
        self.unconfirmed = set(self._subscriptions)
        self.lacking.clear()
        resume = self.resume(now, away_seconds, tuple(wanted))
        return [resume, *(self._register(number, item) for number, item in wanted.items())]

    def resume(self, now: float, away_seconds: float, numbers: tuple[int, ...] = ()) -> Resume:
        """Return what it says first at another broker."""
        since = float("inf") if self._since is None else now - self._since
        if not self.durable:
            return Resume(dict(self.marks), since, away_seconds)
        return Resume(dict(self.position), since, away_seconds, self.life, numbers)

    def _register(self, number: int, wanted: FilterLike) -> Register:
        return Register(number, wanted, self._priorities.get(number, 0), admitted=number in self.admitted)

    def died(self) -> None:
        """Forget what only the process knew: all but the record of a durable subscriber."""
        self.marks = dict(self.position)
        self.losses = []

    def record(self, without: Container[int] = ()) -> dict[str, Any]:
        """Return what must outlive the process of a durable subscriber, but for some subscriptions."""
        wanted = {number: item for number, item in self.subscriptions().items() if number not in without}
        return {
            "life": self.life,
            "position": dict(self.position),
            "subscriptions": wanted,
            "priorities": {number: self._priorities.get(number, 0) for number in wanted},
            "since": self._since,
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        """Go on from what `record` gave."""
        self.life, self._since = record["life"], record["since"]
        self.position, self._subscriptions = dict(record["position"]), dict(record["subscriptions"])
        self._priorities = dict(record.get("priorities", {}))  # what an earlier version wrote has none
        self.admitted = set(self._subscriptions)  # it is written down when it is in force
        self.last_number = max(self._subscriptions, default=0)
        self.marks = dict(self.position)


class PublisherMachine:
    """One publisher.

    Parameters
    ----------
    name
        The publisher.
    retention_events_max, retention_seconds, retention_bytes_max
        How much it keeps to publish again; the last batch always is, and what is not known to be accepted.

    Attributes
    ----------
    published
        The last sequence that it has used.
    accepted
        The last one that a broker is known to have accepted.
    adverts
        What it advertises, by number: a filter, and at most how many micro-events a second.
    version
        How often it has come to another broker.
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
        self._forgot_at = float("-inf")  # when what it does not keep any more was published, at the latest
        self.published = self.accepted = self.version = 0
        self.adverts: dict[int, tuple[FilterLike, int]] = {}
        self._unknown: set[int] = set()
        self._held: list[tuple[float, Said]] = []

    # Admission control.

    def advertise(self, number: int, item: FilterLike, micro_rate: int) -> list[Said]:
        """Return what to tell the broker about an advertisement; what is said from now on is held until it is known."""
        self.adverts[number] = item, micro_rate
        self._unknown.add(number)
        return [Advertise(number, item, micro_rate, self.version)]

    def unadvertise(self, number: int, now: float) -> list[Said]:
        """Return what to tell the broker when an advertisement is taken back."""
        self.adverts.pop(number, None)
        return [Unadvertise(number), *self.everywhere(number, now)]

    def everywhere(self, number: int, now: float) -> list[Said]:
        """Take in that an advertisement is known everywhere; return what was held for it."""
        self._unknown.discard(number)
        if self._unknown:
            return []
        held, self._held = self._held, []
        return [_aged(message, now - since) for since, message in held]

    def _say(self, messages: list[Said], now: float) -> list[Said]:
        """Return what may be said now."""
        if not self._unknown:
            return messages
        self._held += [(now, message) for message in messages]
        return []

    # Publications.

    def flush(self, number: int, now: float) -> list[Said]:
        """Return what asks whether all that was published is delivered."""
        return self._say([Flush(number)], now)

    def publish(
        self, batch: EventBatch, now: float, published_at: float | None = None
    ) -> tuple[EventBatch, list[Said]]:
        """Take in what is published at once, number and keep it.

        Parameters
        ----------
        batch
            The events; whose they are, and their numbers, are not looked at.
        now
            The time, on the clock of the one who keeps them.
        published_at
            The time that the events bear; `now` when None.

        Returns
        -------
        EventBatch, list
            The events under their numbers, and what to tell the broker.
        """
        if not len(batch):
            return batch, []
        numbered = self.numbered(batch, now if published_at is None else published_at)
        self.keep(now, numbered)
        return numbered, self._say([Events(numbered)], now)

    def numbered(self, batch: EventBatch, published_at: float) -> EventBatch:
        """Return events under the numbers that come next."""
        size = len(batch)
        return replace(
            batch,
            publishers=(self._name,),
            publisher=np.zeros(size, np.int32),
            sequence=np.arange(self.published + 1, self.published + size + 1, dtype=np.int64),
            published_at=np.full(size, published_at),
            _events=[],
        )

    def skip(self, events: int) -> None:
        """Use numbers for events that go another way than by this machine."""
        self.published += events

    def unaccepted(self) -> list[EventBatch]:
        """Return what no broker is known to have accepted, the oldest first."""
        waiting = itertools.takewhile(
            lambda batch: not self._is_accepted(batch), (b for _, b in reversed(self._kept))
        )
        return [*waiting][::-1]

    def keep(self, now: float, batch: EventBatch) -> None:
        """Keep a batch that is published now, under the next numbers."""
        self.published += len(batch)
        self._kept.append((now, batch))
        self._kept_events += len(batch)
        self._kept_bytes += batch.nbytes
        self._trim(now)

    def accept(self, last: int, now: float) -> None:
        """Take in that a broker has accepted all up to a sequence."""
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

    def arrive(self, now: float) -> list[Said]:
        """Return what to tell a new broker: what it advertises, and, once that is known, all that is kept."""
        self.version += 1
        self._held.clear()  # it is among what is kept
        adverts = self.adverts.items()
        said = [message for number, (item, rate) in adverts for message in self.advertise(number, item, rate)]
        return [*said, *self._say([*self.moved(now)], now)]

    def moved(self, now: float) -> list[Events]:
        """Return all that is kept, again, for a new broker; it is the first to accept what none has yet."""
        again: list[Events] = []
        forgot_at = self._forgot_at
        for at, batch in self._kept:
            accepted = self._is_accepted(batch)
            if accepted and at < now - self._seconds:
                forgot_at = at
                continue
            age = max(0.0, now - at) if accepted else 0.0
            again.append(Events(batch, again=True, age_seconds=age, forgot_seconds=now - forgot_at))
        return again

    def come_back(self, now: float, accepted: int, kept: Iterable[tuple[float, EventBatch]]) -> None:
        """Forget what only the process knew, and go on from what its broker knows.

        Without what the broker keeps, a move to another broker would leave a gap between what the two send.

        Parameters
        ----------
        now
            The time.
        accepted
            The last number that was accepted; the next one is used next.
        kept
            What the broker keeps of it, each with how many seconds ago it was accepted.
        """
        self._kept.clear()
        self._kept_events = self._kept_bytes = 0
        self.accepted = accepted
        kept = list(kept)
        self._forgot_at = now - kept[0][0] if kept else now
        for age, batch in kept:
            self.keep(now - age, batch)
        self.published = accepted


def _aged(message: Any, seconds: float) -> Any:
    """Return a message that was held for so long; events that are said again say how old they are."""
    if isinstance(message, Events) and message.again:
        return replace(message, age_seconds=message.age_seconds + seconds)
    return message
