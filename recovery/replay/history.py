"""What a broker retains of the past: the events that were published at it, for durable subscribers that begin earlier.

Rules
-----
* The history has what the broker has accepted, in that order, also after it is too old to be retransmitted. It is
  bounded by bytes and by age; the oldest is forgotten first, and counted. What may be retransmitted stays in any case,
  and is in memory once.
* It is read in pages. A page has, for every batch from where it begins, its publisher and numbers, and of its events
  those that are wanted. So a reader knows of which numbers it has seen everything.
* A *moment* is compared with the times of publication that the events carry. Of each publisher the history begins at
  its first event that is not older; times of a publisher that run backwards do not matter behind that.
* Its rows in the store are those of what is retained for retransmission (`replay`): a batch is written once.

Source: docs/decisions/0181-replay.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from ...protocol.batch import EventBatch
from ...protocol.ids import ClientId, EventId
from ...protocol.messages.history import Gone, HistoryPage, ReadHistory, Stretch
from ...protocol.queries import Query
from ...routing.filters.filter import Filter
from .rounds import Kept

SCANNED_EVENTS_MAX: Final = 65_536
"""How many events one page looks at, apart from its last batch: a page is one step of a broker."""

PAGE_BYTES_MAX: Final = 4 << 20
"""The memory of the events of one page, apart from its last batch."""

EVER: Final = -math.inf
"""The moment at which all that is retained begins."""

_NOTHING: Final[Mapping[ClientId, Span]] = {}


class LastForgotten(NamedTuple):
    """The last event of a publisher that a history has forgotten: its number, when it was published, and its batch."""

    last: int
    published_at: float
    accepted_at: float
    number: int


class Span(NamedTuple):
    """What a history knows of one publisher, divided at a moment.

    Attributes
    ----------
    last
        The highest number that it knows.
    older
        The highest number that is known to be older than the moment; 0 if none is.
    later
        The lowest retained number that is not older; 0 if none is.
    forgot
        The highest number that was forgotten although it is not older; 0 if there is none.
    since
        When the oldest retained event was published; infinity if none is retained.
    """

    last: int = 0
    older: int = 0
    later: int = 0
    forgot: int = 0
    since: float = math.inf


@dataclass(frozen=True, slots=True)
class HistoryAt(Query[Mapping[ClientId, Span] | None]):
    """What a broker knows of the past by publisher, divided at a moment; None if it has no history."""

    moment: float = EVER
    otherwise = None


class History:
    """The history of one broker.

    Parameters
    ----------
    seconds, bytes_max
        For how long, and how much, it retains.

    Attributes
    ----------
    events, bytes
        What is retained.
    dropped
        The numbers and publishers of the batches that were forgotten. The reader clears them.
    forgotten
        For each publisher, the last event that was forgotten.
    events_forgotten
        How many events were forgotten because there were too many bytes.
    events_expired
        How many were forgotten because they were too old.
    """

    def __init__(self, seconds: float, bytes_max: int) -> None:
        self._seconds, self._bytes_max = seconds, bytes_max
        self._log: deque[Kept] = deque()
        self.bytes = self.events = self.events_forgotten = self.events_expired = 0
        self.dropped: list[tuple[int, ClientId]] = []
        self.forgotten: dict[ClientId, LastForgotten] = {}

    def add(self, kept: Kept) -> None:
        """Retain a batch; numbers rise by one."""
        self._log.append(kept)
        self.events += len(kept.batch)
        self.bytes += kept.batch.nbytes

    def trim(self, now: float, needed: Callable[[int], bool]) -> None:
        """Forget what is too old or too much, except for batches that are `needed` for retransmission, by number."""
        while self._log and not needed(self._log[0].number):
            if self.bytes > self._bytes_max:
                self.events_forgotten += self._drop()
            elif now - self._log[0].at > self._seconds:
                self.events_expired += self._drop()
            else:
                return

    @property
    def expires_at(self) -> float:
        """The time after which the oldest batch is too old; infinity if there is none."""
        return self._log[0].at + self._seconds if self._log else math.inf

    def _drop(self) -> int:
        kept = self._log.popleft()
        batch = kept.batch
        self.events -= len(batch)
        self.bytes -= batch.nbytes
        last = LastForgotten(int(batch.sequence[-1]), float(batch.published_at[-1]), kept.at, kept.number)
        self.forgotten[kept.publisher] = last
        self.dropped.append((kept.number, kept.publisher))
        return len(batch)

    # Reading.

    def page(self, wanted: ReadHistory, now: float) -> HistoryPage:
        """Return the page that a reader asks for."""
        found: list[Stretch] = []
        after, scanned, matched, size, whole = wanted.after, 0, 0, 0, True
        for kept in self._behind(wanted.after):
            if scanned >= SCANNED_EVENTS_MAX or matched >= wanted.events_max or size >= PAGE_BYTES_MAX:
                whole = False
                break
            after, batch = kept.number, kept.batch
            first, last = int(batch.sequence[0]), int(batch.sequence[-1])
            if last <= wanted.marks.get(kept.publisher, 0):
                continue
            events = _matching(batch, wanted.filters)
            found.append(Stretch(kept.publisher, first, last, now - kept.at, events))
            scanned += len(batch)
            if events is not None:
                matched, size = matched + len(events), size + events.nbytes
        gone = tuple(
            Gone(name, each.last, now - each.accepted_at)
            for name, each in self.forgotten.items()
            if each.number > wanted.after and each.last > wanted.marks.get(name, 0)
        )
        return HistoryPage(wanted.client, wanted.turn, after, tuple(found), gone, whole)

    def _behind(self, number: int) -> Iterator[Kept]:
        """Return the batches behind one; all if that is none of this history: another store is in its place."""
        if not self._log or number > self._log[-1].number:
            return iter(self._log)
        return islice(self._log, max(0, number - self._log[0].number + 1), None)

    def spans(self, moment: float = EVER) -> dict[ClientId, Span]:
        """Return what it knows of each publisher, divided at a moment; at `EVER` all that was forgotten is older."""
        spans: dict[ClientId, Span] = {}
        for name, gone in self.forgotten.items():
            before = gone.published_at < moment or moment == EVER
            spans[name] = Span(gone.last, gone.last) if before else Span(gone.last, forgot=gone.last)
        for kept in self._log:
            batch, span = kept.batch, spans.get(kept.publisher, Span())
            older, later = span.older, span.later
            if not later:
                late = np.flatnonzero(batch.published_at >= moment)
                count = int(late[0]) if len(late) else len(batch)
                older = int(batch.sequence[count - 1]) if count else older
                later = int(batch.sequence[count]) if len(late) else 0
            since = min(span.since, float(batch.published_at[0]))
            spans[kept.publisher] = Span(int(batch.sequence[-1]), older, later, span.forgot, since)
        return spans

    def identities(self) -> Iterator[EventId]:
        """Iterate over the events that are retained."""
        return (kept.batch.identity(row) for kept in self._log for row in range(len(kept.batch)))

    def check(self) -> None:
        """Assert that numbers have no gaps, and that what is retained is counted; for tests."""
        numbers = [kept.number for kept in self._log]
        assert not numbers or numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert self.bytes == sum(kept.batch.nbytes for kept in self._log)
        assert self.events == sum(len(kept.batch) for kept in self._log)


def _matching(batch: EventBatch, filters: Sequence[Filter]) -> EventBatch | None:
    """Return the events that some filter matches; None if there are none."""
    wanted = np.zeros(len(batch), np.bool_)
    for item in filters:
        wanted |= item.evaluate_batch(batch)
    if wanted.all():
        return batch
    return batch.take(np.flatnonzero(wanted)) if wanted.any() else None
