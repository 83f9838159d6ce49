"""Holds the publishers of a broker to their advertised rates: faster events wait (paper 3, section 3.1: v_pmax).

Rules
-----
* Each advertisement has a token bucket. A message passes as a whole when the bucket has a token for each of
  its events, or is full; missing tokens are then owed. In any period of t seconds at most
  ``burst + largest message + rate * t`` events of an advertisement therefore pass.
* A message that may not pass waits, and all later messages of its publisher wait after it, in order. It
  passes with the first tick at which its tokens are there.
* The waiting messages of a publisher are bounded in events and in bytes. One message may always wait. A
  message beyond the bounds is refused.
* `burst` is two seconds' worth where publishers let one second's worth pass at once (`bucket`). A publisher
  that keeps to its rate therefore never waits here, unless the delays of its messages differ by more than a
  second.
* Events that are published again after a move have their own bucket, as large as what a publisher retains to
  publish again.
* An advertisement that replaces a withdrawn one starts with that one's remaining tokens, so repeated
  advertising gains nothing. A bucket that is full again is equivalent to none, and is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.ids import ClientId
from ..protocol.messages.admission import MICRO, AdmissionConfig
from ..routing.filters.filter import Filter
from .bucket import TokenBucket

BURST_SECONDS: Final = 2.0

Outcome: TypeAlias = Literal["passes", "waits", "refused"]
Key: TypeAlias = tuple[int, bool]
"""A bucket of a publisher: the number of its advertisement, and whether it is for events published again."""

_ALL: Final = 1 << 62

T = TypeVar("T")


class AdvertisedRate(Protocol):
    """An advertisement: its filter, and its rate in micro-events a second."""

    filter: Filter
    rate: int


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A waiting message: what it is, its events, and how many of them each bucket has to pay for."""

    what: T
    batch: EventBatch
    charges: dict[Key, int]


@dataclass(slots=True)
class _Line(Generic[T]):
    buckets: dict[Key, TokenBucket] = field(default_factory=dict)
    waiting: deque[Waiting[T]] = field(default_factory=deque)
    events: int = 0
    nbytes: int = 0


class Quotas(Generic[T]):
    """The publishers of one broker, each held to its quota.

    Parameters
    ----------
    advertised
        Returns what a publisher advertises at this broker, by number.
    config
        The bounds of what may wait.
    retransmission_seconds
        For how long publishers retain what they publish again after a move.

    Attributes
    ----------
    held
        The number of events that have waited so far.
    """

    def __init__(
        self,
        advertised: Callable[[ClientId], Mapping[int, AdvertisedRate]],
        config: AdmissionConfig,
        retransmission_seconds: float = 0.0,
    ) -> None:
        self.held = 0
        self._advertised = advertised
        self._events_max, self._bytes_max = config.held_events_max, config.held_bytes_max
        self._retransmission_seconds = retransmission_seconds
        self._lines: dict[ClientId, _Line[T]] = {}

    def sources(self) -> Collection[ClientId]:
        """Return the publishers that wait, or have used some of a quota."""
        return self._lines.keys()

    def enter(
        self, publisher: ClientId, batch: EventBatch, what: T, now: float, *, retransmitted: bool = False
    ) -> Outcome:
        """Process a message of a publisher: it passes now, waits for a later `release`, or is refused."""
        line = self._lines.setdefault(publisher, _Line())
        charges = self._charges(publisher, batch, retransmitted)
        if not line.waiting and self._pay(publisher, line, charges, now):
            return "passes"
        size = batch.nbytes
        if line.waiting and (
            line.events + len(batch) > self._events_max or line.nbytes + size > self._bytes_max
        ):
            return "refused"
        line.waiting.append(Waiting(what, batch, charges))
        line.events += len(batch)
        line.nbytes += size
        self.held += len(batch)
        return "waits"

    def release(self, now: float) -> list[tuple[ClientId, Waiting[T]]]:
        """Return the messages that may pass by now, in the order of each publisher."""
        out = []
        for publisher, line in list(self._lines.items()):
            while line.waiting and self._pay(publisher, line, line.waiting[0].charges, now):
                passes = line.waiting.popleft()
                line.events -= len(passes.batch)
                line.nbytes -= passes.batch.nbytes
                out.append((publisher, passes))
            full = [key for key, bucket in line.buckets.items() if not bucket.wait_seconds(_ALL, now)]
            for key in full:
                del line.buckets[key]
            if not line.buckets and not line.waiting:
                del self._lines[publisher]
        return out

    def drop(self, publisher: ClientId) -> None:
        """Forget the waiting messages of a publisher that leaves and still has them. What it owes stays owed."""
        line = self._lines.get(publisher)
        if line is not None:
            line.waiting.clear()
            line.events = line.nbytes = 0

    def wait_seconds(self, publisher: ClientId, now: float) -> float:
        """Return the time until the first waiting message of a publisher may pass; 0 if none waits."""
        line = self._lines.get(publisher)
        if line is None or not line.waiting:
            return 0.0
        return _wait(self._due(publisher, line, line.waiting[0].charges, now), now)

    def knows(self, publisher: ClientId) -> bool:
        """Return whether anything is recorded of a publisher."""
        return publisher in self._lines

    def waiting(self, publisher: ClientId) -> list[Waiting[T]]:
        """Return the waiting messages of a publisher, oldest first."""
        line = self._lines.get(publisher)
        return [] if line is None else list(line.waiting)

    def describe(self) -> dict[str, int]:
        """Return how many events wait, and how many have waited so far."""
        return {"quota_waiting": sum(line.events for line in self._lines.values()), "quota_held": self.held}

    def check(self) -> None:
        """Assert that the counters match the queues and their bounds; for tests."""
        for line in self._lines.values():
            assert line.events == sum(len(each.batch) for each in line.waiting)
            assert line.nbytes == sum(each.batch.nbytes for each in line.waiting)
            within = line.events <= self._events_max and line.nbytes <= self._bytes_max
            assert within or len(line.waiting) == 1

    # Tokens.

    def _charges(self, publisher: ClientId, batch: EventBatch, retransmitted: bool) -> dict[Key, int]:
        """Return how many events each bucket pays for: that of the first advertisement that covers them."""
        adverts = self._advertised(publisher)
        if len(adverts) == 1:
            return {(number, retransmitted): len(batch) for number in adverts}
        left = np.ones(len(batch), np.bool_)
        charges: dict[Key, int] = {}
        for number, advert in adverts.items():
            mine = left & advert.filter.evaluate_batch(batch, every=True)
            left &= ~mine
            if mine.any():
                charges[number, retransmitted] = int(mine.sum())
        return charges  # admission handles events that no advertisement covers

    def _due(
        self, publisher: ClientId, line: _Line[T], charges: Mapping[Key, int], now: float
    ) -> dict[Key, tuple[TokenBucket, int]]:
        """Return which buckets pay how much. Nothing is due for a withdrawn advertisement."""
        adverts = self._advertised(publisher)
        return {
            key: (self._bucket(line, key, adverts, now), events)
            for key, events in charges.items()
            if key[0] in adverts
        }

    def _pay(self, publisher: ClientId, line: _Line[T], charges: Mapping[Key, int], now: float) -> bool:
        """Take the tokens of a message, if all are there."""
        due = self._due(publisher, line, charges, now)
        if _wait(due, now):
            return False
        line.buckets |= {key: bucket.pay(events, now) for key, (bucket, events) in due.items()}
        return True

    def _bucket(
        self, line: _Line[T], key: Key, adverts: Mapping[int, AdvertisedRate], now: float
    ) -> TokenBucket:
        number, retransmitted = key
        rate = adverts[number].rate / MICRO
        burst = max(1.0, rate) * BURST_SECONDS + (
            rate * self._retransmission_seconds if retransmitted else 0.0
        )
        bucket = line.buckets.get(key)
        if bucket is None:
            left = [
                other.fill(now)
                for (former, kind), other in line.buckets.items()
                if former not in adverts and kind == retransmitted
            ]
            return TokenBucket(rate, burst, burst * min(left, default=1.0), now)
        return bucket if (bucket.rate, bucket.burst) == (rate, burst) else bucket.at_rate(rate, burst, now)


def _wait(due: Mapping[Key, tuple[TokenBucket, int]], now: float) -> float:
    return max((bucket.wait_seconds(events, now) for bucket, events in due.values()), default=0.0)
