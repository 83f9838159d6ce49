"""Retransmission rounds: what a publisher's broker retains, and from which round on each link is open.

Rules
-----
* A link is closed if it is new or its other end is. It opens with the next round that begins after it is
  *ready*: after everything wanted over it is installed up to the root. Events of earlier rounds never pass
  it. A round that this broker has not heard of yet may already have begun; so *ready* carries the highest
  round that was known then up to the root.
* A subscriber that comes from elsewhere announces its subscriptions, and then registers each. Its link is not ready
  before it has registered all: what passes in between would count as had for those that are still to come.
* Over a repaired link each publisher's events therefore arrive in order, from the first one that its broker
  retains. A receiver that has had some of them drops those (see `deduplicator`).
* Retention is bounded by count, bytes and age. A batch beyond the bounds is forgotten, the oldest first.
* A loss is known when a batch was forgotten that a round had to mend. Each round states how far back it
  mends, its *repair window*: the age of the oldest failure that it is begun for. A link whose failure is older waits
  for another round.
* Failures are remembered, also those that no round has mended yet. If a publisher comes from elsewhere,
  events that it no longer retains were lost if their time is one of a failure.

Source: docs/decisions/0011-recovery.md. The paper leaves open how losses are avoided while a tree is
repaired.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ...protocol.batch import EventBatch, concat
from ...protocol.ids import FIRST_ROUND, ClientId, Link, RoundNumber
from ...protocol.quick import quick
from .high_water import HighWater

REMEMBERED_RETENTIONS: Final = 10
"""How long a failure is remembered, in retention periods: a broker that it cut off may return that late."""

FAILURES_MAX: Final = 1024

RETRANSMISSION_EVENTS_MAX: Final = 4096
"""The maximum number of retransmitted events in one message."""


@dataclass(slots=True)
class _Closed:
    """A link that is closed, or was opened by some round."""

    since: float
    ready_after: RoundNumber | None = None
    open_from: RoundNumber | None = None
    announced: set[int] = field(default_factory=set)
    """The subscriptions that are still to be registered over it."""


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A batch that was published here, with its publisher and time; `number` counts the batches."""

    number: int
    at: float
    publisher: ClientId
    batch: EventBatch


class Rounds:
    """The rounds as one broker sees them.

    Parameters
    ----------
    retention_events_max, retention_seconds, retention_bytes_max
        How much is retained for retransmission.
    late_seconds
        How far the last known time may be behind. A batch accepted then is younger than it seems by at most
        this much, and is retained for that much longer.

    Attributes
    ----------
    current
        The last round that has begun here.
    repair_window_seconds
        How far back that round mends.
    high_water
        The highest number of each publisher that is known here.
    forgotten
        The number of events that were forgotten because too many were retained.
    gone
        Per publisher, the last sequence that was forgotten, and when it was accepted.
    dropped
        The numbers of the batches that were forgotten. The reader clears them.
    """

    def __init__(
        self,
        retention_events_max: int,
        retention_seconds: float,
        retention_bytes_max: float = math.inf,
        late_seconds: float = 0.0,
    ) -> None:
        self.current = FIRST_ROUND
        self.repair_window_seconds = 0.0
        self.high_water = HighWater(REMEMBERED_RETENTIONS * retention_seconds)
        self.forgotten = 0
        self.gone: dict[ClientId, tuple[int, float]] = {}
        self.dropped: list[tuple[int, ClientId]] = []
        self._now = 0.0
        self._repair_since: float | None = None
        # The length of the last stall, its end, and the time by which failures from before it are noticed.
        self._asleep = 0.0, math.inf, math.inf
        # For each failure: when it became known here, and since when it existed.
        self._failures: deque[tuple[float, float]] = deque(maxlen=FAILURES_MAX)
        self._number = 0
        self._bytes_max = retention_bytes_max
        self._kept_bytes = 0
        self._events_max = retention_events_max
        self._seconds = retention_seconds
        self._late_seconds = late_seconds
        self._links: dict[Link, _Closed] = {}
        self._kept: deque[Kept] = deque()
        self._kept_events = 0

    # Links.

    def stood_still(self, seconds: float, until: float, unnoticed_seconds: float) -> None:
        """Record that this broker was stalled. None of that time counts as time in which a failure is noticed.

        Parameters
        ----------
        seconds, until
            The length and the end of the stall.
        unnoticed_seconds
            How long a failure may go unnoticed while the broker is not stalled.
        """
        self._asleep = seconds, until, until + unnoticed_seconds

    def _awake(self, moment: float) -> float:
        """Return since when a failure noticed at `moment` may exist: soon after a stall, since before the stall."""
        seconds, until, at_last = self._asleep
        return moment - seconds if until <= moment <= at_last else moment

    def close(self, link: Link) -> None:
        """Close a link: nothing passes over it until a round begins after it is ready."""
        former = self._links.get(link)
        entry = self._links[link] = _Closed(self._awake(self._now))
        if former is not None:
            entry.announced = former.announced
            entry.since = former.since if former.open_from is None else entry.since
        self.high_water.forget(link)
        self.repair_from(self._now)

    def announce(self, link: Link, numbers: Iterable[int]) -> None:
        """Record which subscriptions are to be registered over a closed link before it can be ready."""
        self._links[link].announced = {*numbers}

    def registered(self, link: Link, number: int) -> bool:
        """Record that a subscription is registered or no longer wanted; return whether it was the last announced."""
        entry = self._links.get(link)
        if entry is None or number not in entry.announced:
            return False
        entry.announced.remove(number)
        return not entry.announced

    def repair_from(self, moment: float) -> None:
        """Record that events since `moment` may have been missed."""
        moment = self._awake(moment)
        self._repair_since = moment if self._repair_since is None else min(moment, self._repair_since)

    def pending_repair_seconds(self) -> float:
        """Return how far back the next round has to mend, not counting the time in which failures go unnoticed."""
        return 0.0 if self._repair_since is None else max(0.0, self._now - self._repair_since)

    def may_lack(self, moment: float, unnoticed_seconds: float) -> bool:
        """Return whether a subscriber may lack events of that time: it is after a failure, or recent.

        Parameters
        ----------
        moment
            When the events were published.
        unnoticed_seconds
            How long a failure may go unnoticed.
        """
        while self._failures and self._failures[0][0] < self._now - REMEMBERED_RETENTIONS * self._seconds:
            self._failures.popleft()
        noticed = self._now if self._repair_since is None else self._repair_since
        return moment >= noticed - unnoticed_seconds or any(since <= moment for _, since in self._failures)

    def learn(self, since: float) -> bool:
        """Remember a failure; return whether it was new.

        It is not new if an older failure was learned recently. A broker that it cut off may return after all
        else has been mended.
        """
        recently = self._now - self._seconds
        if any(known > recently and before <= since for known, before in self._failures):
            return False
        self._failures.append((self._now, since))
        return True

    def make_ready(self, link: Link, after: RoundNumber) -> None:
        """Record that all that is wanted over the link is installed up to the root, where `after` may have begun."""
        entry = self._links.get(link)
        if entry is not None:
            entry.ready_after = after

    def forget(self, link: Link) -> None:
        """Forget a link that no longer exists."""
        self.high_water.forget(link)
        self._links.pop(link, None)

    def closed_links(self) -> list[Link]:
        """Return the links that no round has opened yet."""
        return [link for link, entry in self._links.items() if entry.open_from is None]

    def complete_links(self) -> list[Link]:
        """Return the closed links over which all that was announced is registered: those that can be ready."""
        return [link for link in self.closed_links() if not self._links[link].announced]

    def passes(self, link: Link, number: RoundNumber) -> bool:
        """Return whether events of a round may pass over a link."""
        entry = self._links.get(link)
        return entry is None or (entry.open_from is not None and number >= entry.open_from)

    def too_old(self) -> bool:
        """Return whether a ready link was closed before what the present round mends, and needs another round."""
        since = self._now - self.repair_window_seconds
        return any(
            entry.ready_after is not None and entry.open_from is None and entry.since < since
            for entry in self._links.values()
        )

    def all_pass(self, number: RoundNumber) -> bool:
        """Return whether events of a round may pass over every link."""
        return all(self.passes(link, number) for link in self._links)

    def begin(self, number: RoundNumber, repair_window_seconds: float = math.inf) -> bool:
        """Begin a round and open the links that are ready; return False without effect if it is not newer.

        Parameters
        ----------
        number
            The number of the round.
        repair_window_seconds
            How far back the round mends. A link that was closed before that stays closed.
        """
        if number <= self.current:
            return False
        self.current, self.repair_window_seconds = number, repair_window_seconds
        since = self._now - repair_window_seconds
        self._failures.append((self._now, since))
        for entry in self._links.values():
            ready = entry.ready_after is not None and number > entry.ready_after
            if entry.open_from is None and ready and entry.since >= since:
                entry.open_from = number
        if self._repair_since is not None and self._repair_since >= since:
            self._repair_since = min(
                (entry.since for entry in self._links.values() if entry.open_from is None), default=None
            )
        return True

    def ready_after(self) -> RoundNumber:
        """Return the highest round after which a link is ready."""
        return max((entry.ready_after or FIRST_ROUND for entry in self._links.values()), default=FIRST_ROUND)

    def check(self) -> None:
        """Assert that links were opened by rounds that have begun, and that the retained events are counted."""
        opened = (entry.open_from or FIRST_ROUND for entry in self._links.values())
        assert max(opened, default=FIRST_ROUND) <= self.current, (
            "a link is open from a round on that has not begun"
        )
        assert self._kept_events == sum(len(kept.batch) for kept in self._kept)
        numbers = [kept.number for kept in self._kept]
        assert numbers == sorted(numbers), "what is kept is not in its order"
        self.high_water.check()

    # Retained batches.

    @property
    def holds_any(self) -> bool:
        """Whether any batch was ever retained, in this incarnation or an earlier one."""
        return bool(self._kept or self.gone)

    def keep(self, now: float, publisher: ClientId, batch: EventBatch) -> Kept:
        """Retain a batch of a local publisher, for retransmission."""
        self._number += 1
        kept = Kept(self._number, now, publisher, batch)
        self._add(kept)
        return kept

    def restore(self, kept: Kept) -> None:
        """Retain a batch of an earlier incarnation under its number. Call this in the order of numbers."""
        self._add(kept)
        self._number = kept.number

    def _add(self, kept: Kept) -> None:
        self._kept.append(kept)
        self._kept_events += len(kept.batch)
        self._kept_bytes += kept.batch.nbytes
        while len(self._kept) > 1 and (
            self._kept_events > self._events_max or self._kept_bytes > self._bytes_max
        ):
            self.forgotten += self._drop_oldest()

    def expire(self, now: float) -> None:
        """Advance the time, and forget batches that are too old."""
        self._now = now
        self.high_water.expire(now)
        while self._kept and now - self._kept[0].at > self._seconds + self._late_seconds:
            self._drop_oldest()

    @property
    def expires_at(self) -> float:
        """The time after which the oldest retained batch is too old; infinity if there is none."""
        return self._kept[0].at + self._seconds + self._late_seconds if self._kept else math.inf

    def _drop_oldest(self) -> int:
        kept = self._kept.popleft()
        size = len(kept.batch)
        self._kept_events -= size
        self._kept_bytes -= kept.batch.nbytes
        last = int(kept.batch.sequence[-1])
        if last > self.gone.get(kept.publisher, (0, 0.0))[0]:  # else a gap after it is known
            self.gone[kept.publisher] = last, kept.at
        self.dropped.append((kept.number, kept.publisher))
        return size

    def kept(self) -> list[Kept]:
        """Return the retained batches, in the order of publication."""
        return list(self._kept)

    def retransmissions(
        self, wanted: Callable[[ClientId], bool], now: float
    ) -> Iterator[tuple[ClientId, float, EventBatch]]:
        """Yield the events of these publishers to retransmit, in order, in few batches, each of one age in seconds."""
        mine = (kept for kept in self.kept() if wanted(kept.publisher))
        for age, group in itertools.groupby(mine, lambda kept: float(int(now - kept.at))):
            found: list[Kept] = []
            size = 0
            for kept in group:
                if found and size + len(kept.batch) > RETRANSMISSION_EVENTS_MAX:
                    yield found[0].publisher, age, concat([each.batch for each in found])
                    found, size = [], 0
                found.append(kept)
                size += len(kept.batch)
            yield found[0].publisher, age, concat([each.batch for each in found])
