"""Rounds of sending again: what a publisher's broker keeps, and which links are open from which round on.

Rules
-----
* A link that is new, or whose other end is, is closed. It opens with the next round that begins after it is *ready*:
  after all that is wanted over it is installed up to the root. Events of earlier rounds never pass it. A round that is
  only now heard of may have begun before; so with *ready* goes the highest round that was known then up to the root.
* So over a repaired link each publisher's events arrive from the first one that its broker keeps, in order, and
  whoever has had some of them drops those (see `deduplicator`).
* What is kept is bounded by count, bytes and age; a batch that goes beyond is forgotten, the oldest first.
* A loss is known where something was forgotten that a round had to mend. Each round says how far back it mends, its
  *doubt*: the age of the oldest failure that it is begun for. A link whose failure is older waits for another round.
* Failures are remembered, also those that no round has mended yet: what a publisher that comes from elsewhere does not
  keep any more was lost if it is *doubtful*.

Source: docs/decisions/0011-recovery.md; the paper leaves open how nothing is lost while a tree is mended.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

from ...protocol.batch import EventBatch
from ...protocol.ids import FIRST_ROUND, ClientId, Link, RoundNumber

REMEMBERED_RETENTIONS: Final = 10
"""For how many times what is kept a failure is remembered: who was cut off by it may come back so late."""

FAILURES_MAX: Final = 1024


@dataclass(slots=True)
class _Closed:
    """A link that is closed, or opened in some round."""

    since: float
    ready_after: RoundNumber | None = None
    open_from: RoundNumber | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A batch that was published here, by whom and when; `number` counts them."""

    number: int
    at: float
    publisher: ClientId
    batch: EventBatch


class Rounds:
    """The rounds as one broker sees them.

    Parameters
    ----------
    retention_events_max, retention_seconds, retention_bytes_max
        How much is kept to be sent again.
    late_seconds
        How far the time that it was told last may be behind: what was accepted then is at most so much younger than it
        seems, and is kept so much longer.

    Attributes
    ----------
    current
        The round that has begun here last.
    doubt_seconds
        How far back it mends.
    forgotten
        How many events were forgotten because too many were kept.
    gone
        The last sequence of each publisher that was forgotten, and when it was accepted.
    dropped
        The numbers of the batches that were forgotten; whoever reads them clears them.
    """

    def __init__(
        self,
        retention_events_max: int,
        retention_seconds: float,
        retention_bytes_max: float = math.inf,
        late_seconds: float = 0.0,
    ) -> None:
        self.current = FIRST_ROUND
        self.doubt_seconds = 0.0
        self.forgotten = 0
        self.gone: dict[ClientId, tuple[int, float]] = {}
        self.dropped: list[tuple[int, ClientId]] = []
        self._now = 0.0
        self._doubted: float | None = None
        self._asleep = 0.0, math.inf, math.inf  # how long, until when, and when that is to have been noticed
        # When each was known here, and since when it was.
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
        """Note that this broker stood still: nothing of that counts as time to notice a failure.

        Parameters
        ----------
        seconds, until
            For how long, and until when.
        unnoticed_seconds
            How long a failure may go unnoticed while one does not stand still.
        """
        self._asleep = seconds, until, until + unnoticed_seconds

    def _awake(self, moment: float) -> float:
        """Return since when something is amiss that was noticed then: soon after standing still, since before that."""
        seconds, until, at_last = self._asleep
        return moment - seconds if until <= moment <= at_last else moment

    def close(self, link: Link) -> None:
        """Let nothing pass over a link until a round begins after it is ready."""
        former = self._links.get(link)
        still = former is not None and former.open_from is None
        self._links[link] = _Closed(former.since if still and former is not None else self._awake(self._now))
        self.doubt_from(self._now)

    def doubt_from(self, moment: float) -> None:
        """Note that since then something may have been missed."""
        moment = self._awake(moment)
        self._doubted = moment if self._doubted is None else min(moment, self._doubted)

    def doubted_seconds(self) -> float:
        """Return how far back the next round has to mend, what went unnoticed not counted."""
        return 0.0 if self._doubted is None else max(0.0, self._now - self._doubted)

    def doubtful(self, moment: float, unnoticed_seconds: float) -> bool:
        """Return whether somebody may lack what was published then: since a failure, or not long ago.

        Parameters
        ----------
        moment
            When it was published.
        unnoticed_seconds
            How long a failure may go unnoticed.
        """
        while self._failures and self._failures[0][0] < self._now - REMEMBERED_RETENTIONS * self._seconds:
            self._failures.popleft()
        noticed = self._now if self._doubted is None else self._doubted
        return moment >= noticed - unnoticed_seconds or any(since <= moment for _, since in self._failures)

    def learn(self, since: float) -> bool:
        """Remember a failure; return whether it was news.

        It is not when an older one was learned of not long ago. Whoever was cut off by it may come back when all else
        has been mended.
        """
        recently = self._now - self._seconds
        if any(known > recently and before <= since for known, before in self._failures):
            return False
        self._failures.append((self._now, since))
        return True

    def make_ready(self, link: Link, after: RoundNumber) -> None:
        """Note that all that is wanted over the link is installed up to the root, where `after` may have begun."""
        entry = self._links.get(link)
        if entry is not None:
            entry.ready_after = after

    def forget(self, link: Link) -> None:
        """Forget a link that is not there any more."""
        self._links.pop(link, None)

    def closed_links(self) -> list[Link]:
        """Return the links that no round has opened yet."""
        return [link for link, entry in self._links.items() if entry.open_from is None]

    def passes(self, link: Link, number: RoundNumber) -> bool:
        """Return whether events of a round may pass over a link."""
        entry = self._links.get(link)
        return entry is None or (entry.open_from is not None and number >= entry.open_from)

    def too_old(self) -> bool:
        """Return whether a link that is ready was closed before what the present round mends: it needs another."""
        since = self._now - self.doubt_seconds
        return any(
            entry.ready_after is not None and entry.open_from is None and entry.since < since
            for entry in self._links.values()
        )

    def all_pass(self, number: RoundNumber) -> bool:
        """Return whether events of a round may pass over every link."""
        return all(self.passes(link, number) for link in self._links)

    def begin(self, number: RoundNumber, doubt_seconds: float = math.inf) -> bool:
        """Begin a round and open the links that are ready; return False, and do nothing, when it is not newer.

        Parameters
        ----------
        number
            Of the round.
        doubt_seconds
            How far back it mends; a link that was closed before that stays so.
        """
        if number <= self.current:
            return False
        self.current, self.doubt_seconds = number, doubt_seconds
        since = self._now - doubt_seconds
        self._failures.append((self._now, since))
        for entry in self._links.values():
            ready = entry.ready_after is not None and number > entry.ready_after
            if entry.open_from is None and ready and entry.since >= since:
                entry.open_from = number
        if self._doubted is not None and self._doubted >= since:
            self._doubted = min(
                (entry.since for entry in self._links.values() if entry.open_from is None), default=None
            )
        return True

    def ready_after(self) -> RoundNumber:
        """Return the highest round after which a link is ready."""
        return max((entry.ready_after or FIRST_ROUND for entry in self._links.values()), default=FIRST_ROUND)

    def check(self) -> None:
        """Assert that links were opened by rounds that have begun, and that what is kept is counted."""
        opened = (entry.open_from or FIRST_ROUND for entry in self._links.values())
        assert max(opened, default=FIRST_ROUND) <= self.current, (
            "a link is open from a round on that has not begun"
        )
        assert self._kept_events == sum(len(kept.batch) for kept in self._kept)
        numbers = [kept.number for kept in self._kept]
        assert numbers == sorted(numbers), "what is kept is not in its order"

    # What is kept.

    @property
    def holds_any(self) -> bool:
        """Whether anything was ever kept, in this life or an earlier one."""
        return bool(self._kept or self.gone)

    def keep(self, now: float, publisher: ClientId, batch: EventBatch) -> Kept:
        """Keep what a publisher here has published, to send it again."""
        self._number += 1
        kept = Kept(self._number, now, publisher, batch)
        self._add(kept)
        return kept

    def restore(self, kept: Kept) -> None:
        """Keep what was kept in an earlier life, under its number; in the order of numbers."""
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
        """Take in the time, and forget what is too old."""
        self._now = now
        while self._kept and now - self._kept[0].at > self._seconds + self._late_seconds:
            self._drop_oldest()

    @property
    def expires_at(self) -> float:
        """The moment after which the oldest that is kept is too old; never, when nothing is."""
        return self._kept[0].at + self._seconds + self._late_seconds if self._kept else math.inf

    def _drop_oldest(self) -> int:
        kept = self._kept.popleft()
        size = len(kept.batch)
        self._kept_events -= size
        self._kept_bytes -= kept.batch.nbytes
        last = int(kept.batch.sequence[-1])
        if last > self.gone.get(kept.publisher, (0, 0.0))[0]:  # else a gap behind it is known
            self.gone[kept.publisher] = last, kept.at
        self.dropped.append((kept.number, kept.publisher))
        return size

    def kept(self) -> list[Kept]:
        """Return what is kept, in the order of publication."""
        return list(self._kept)
