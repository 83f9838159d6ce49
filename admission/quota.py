"""How a broker holds its publishers to what they advertise: what comes faster waits (paper 3, section 3.1: v_pmax).

Rules
-----
* Each advertisement has a token bucket. A message passes as a whole when the bucket has a token for each of its
  events, or is full; what is lacking then is owed. So over any stretch of t seconds at most
  ``burst + largest message + rate * t`` events of an advertisement pass.
* What may not pass waits, in order, and all of its publisher after it. It passes with the tick that has its tokens.
* What waits of a publisher is bounded in events and in bytes; one message may always wait. What comes past the bounds
  is refused.
* `burst` is two seconds' worth where publishers let one second's worth go at once (`bucket`): so one that keeps to its
  rate never waits here, unless messages are late by more than a second, one against the other.
* What is published again, after a move, has a bucket of its own, as deep as what a publisher keeps to publish again.
* An advertisement in place of one that was withdrawn begins with as much as that one had left: whoever advertises anew
  and anew gains nothing. A bucket that is full again is as good as none, and is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.ids import ClientId
from ..protocol.messages.admission import MICRO, AdmissionConfig
from ..routing.filters.filter import Filter
from .bucket import TokenBucket

BURST_SECONDS: Final = 2.0

Outcome: TypeAlias = Literal["passes", "waits", "refused"]
Key: TypeAlias = tuple[int, bool]
"""A bucket of a publisher: the number of its advertisement, and whether it is for what is published again."""

_ALL: Final = 1 << 62

T = TypeVar("T")


class AdvertisedRate(Protocol):
    """An advertisement: what, and how many micro-events a second."""

    filter: Filter
    rate: int


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A message that waits: what it is, its events, and how many of them each bucket has to pay for."""

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
        How much may wait.
    again_seconds
        For how long publishers keep what they publish again after a move.

    Attributes
    ----------
    held
        How many events have waited so far.
    """

    def __init__(
        self,
        advertised: Callable[[ClientId], Mapping[int, AdvertisedRate]],
        config: AdmissionConfig,
        again_seconds: float = 0.0,
    ) -> None:
        self.held = 0
        self._advertised = advertised
        self._events_max, self._bytes_max = config.held_events_max, config.held_bytes_max
        self._again_seconds = again_seconds
        self._lines: dict[ClientId, _Line[T]] = {}

    def sources(self) -> Collection[ClientId]:
        """Return the publishers that wait, or have used some of a quota."""
        return self._lines.keys()

    def enter(
        self, publisher: ClientId, batch: EventBatch, what: T, now: float, *, again: bool = False
    ) -> Outcome:
        """Take in a message with events of a publisher: it passes now, waits for a later `release`, or is refused."""
        line = self._lines.setdefault(publisher, _Line())
        charges = self._charges(publisher, batch, again)
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
        """Return what may pass by now, in the order of each publisher."""
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
        """Forget what waits of a publisher that goes, which has it still; what it owes stays owed."""
        line = self._lines.get(publisher)
        if line is not None:
            line.waiting.clear()
            line.events = line.nbytes = 0

    def wait_seconds(self, publisher: ClientId, now: float) -> float:
        """Return how long it is until the first of what waits of a publisher may pass; 0 where nothing waits."""
        line = self._lines.get(publisher)
        if line is None or not line.waiting:
            return 0.0
        return _wait(self._due(publisher, line, line.waiting[0].charges, now), now)

    def knows(self, publisher: ClientId) -> bool:
        """Return whether anything is remembered of a publisher."""
        return publisher in self._lines

    def waiting(self, publisher: ClientId) -> list[Waiting[T]]:
        """Return what waits of a publisher, the oldest first."""
        line = self._lines.get(publisher)
        return [] if line is None else list(line.waiting)

    def describe(self) -> dict[str, int]:
        """Return how many events wait, and how many have waited so far."""
        return {"quota_waiting": sum(line.events for line in self._lines.values()), "quota_held": self.held}

    def check(self) -> None:
        """Assert that lines are as long as they say, and within their bounds; for tests."""
        for line in self._lines.values():
            assert line.events == sum(len(each.batch) for each in line.waiting)
            assert line.nbytes == sum(each.batch.nbytes for each in line.waiting)
            within = line.events <= self._events_max and line.nbytes <= self._bytes_max
            assert within or len(line.waiting) == 1

    # Tokens.

    def _charges(self, publisher: ClientId, batch: EventBatch, again: bool) -> dict[Key, int]:
        """Return how many events each bucket pays for: that of the first advertisement that covers them."""
        adverts = self._advertised(publisher)
        if len(adverts) == 1:
            return {(number, again): len(batch) for number in adverts}
        left = np.ones(len(batch), np.bool_)
        charges: dict[Key, int] = {}
        for number, advert in adverts.items():
            mine = left & advert.filter.evaluate_batch(batch, every=True)
            left &= ~mine
            if mine.any():
                charges[number, again] = int(mine.sum())
        return charges  # what none covers is for whoever admits

    def _due(
        self, publisher: ClientId, line: _Line[Any], charges: Mapping[Key, int], now: float
    ) -> dict[Key, tuple[TokenBucket, int]]:
        """Return which buckets pay how much; of an advertisement that is withdrawn nothing is due."""
        adverts = self._advertised(publisher)
        return {
            key: (self._bucket(line, key, adverts, now), events)
            for key, events in charges.items()
            if key[0] in adverts
        }

    def _pay(self, publisher: ClientId, line: _Line[Any], charges: Mapping[Key, int], now: float) -> bool:
        """Take the tokens of a message, if all are there."""
        due = self._due(publisher, line, charges, now)
        if _wait(due, now):
            return False
        line.buckets |= {key: bucket.pay(events, now) for key, (bucket, events) in due.items()}
        return True

    def _bucket(
        self, line: _Line[Any], key: Key, adverts: Mapping[int, AdvertisedRate], now: float
    ) -> TokenBucket:
        number, again = key
        rate = adverts[number].rate / MICRO
        burst = max(1.0, rate) * BURST_SECONDS + (rate * self._again_seconds if again else 0.0)
        bucket = line.buckets.get(key)
        if bucket is None:
            left = [
                other.fill(now)
                for (former, kind), other in line.buckets.items()
                if former not in adverts and kind == again
            ]
            return TokenBucket(rate, burst, burst * min(left, default=1.0), now)
        return bucket if (bucket.rate, bucket.burst) == (rate, burst) else bucket.at_rate(rate, burst, now)


def _wait(due: Mapping[Key, tuple[TokenBucket, int]], now: float) -> float:
    return max((bucket.wait_seconds(events, now) for bucket, events in due.values()), default=0.0)
