"""The layer that retains what was published at its broker for longer, for subscribers that begin in the past.

Rules
-----
* The history is a log beside everything else: events are appended as they pass inwards, in the step in which they are
  accepted, and read by queries. Nothing that a broker does depends on it, but what it writes to its store.
* It is bounded in seconds and in bytes; the oldest events are forgotten first. Of each publisher it remembers up to
  which number it has forgotten, and how recent that was, of so many publishers at most.
* A publisher's events may be in several histories, since it may have moved, and the same event in more than one.
* A broker that leaves hands over to its trustee what it retains of publishers, and how far it has forgotten others
  (decision 0185). Its history goes with it: what was in it alone is lost, and is told, since the trustee knows the
  numbers.
* A page has the events of some publishers, from a number on, as far as they follow each other here. Where a number is
  missing, the answer ends for that publisher.

Source: docs/decisions/0181-replay.md.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from ...protocol.batch import EventBatch, concat
from ...protocol.effects import Received, Ticked, Write
from ...protocol.ids import BrokerId, ClientId, EventId, Link
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.handover import Bequest
from ...protocol.messages.pubsub import Events
from ...protocol.queries import Answering, Query
from ...protocol.snapshots import Restorable
from ...routing.filters.filter import Filter
from ..durability.stores import Store

HISTORY: Final = "history"
FORGOTTEN: Final = "forgotten"
FORGOTTEN_MAX: Final = 65_536
"""Of how many publishers a broker remembers what it has forgotten."""

EVER: Final = -math.inf
"""The moment before everything that is retained."""

PAGE_EVENTS: Final = 4_096
PAGE_BYTES: Final = 4 << 20
"""How many events a page looks through, and how large what is found may be, apart from the last batch."""


class Span(NamedTuple):
    """What a broker knows of the past of a publisher, divided at a moment.

    Attributes
    ----------
    ranges
        The numbers that are retained, as (first, last), rising.
    last
        The highest number that was retained here or is.
    older, later
        The highest known number that was published before the moment, and the lowest one that was not; 0 for none.
    forgot
        Whether an event that was not older was forgotten.
    since
        When the oldest retained event was published; infinity if there is none.
    """

    ranges: tuple[tuple[int, int], ...]
    last: int
    older: int
    later: int
    forgot: bool
    since: float


@dataclass(frozen=True, slots=True)
class HistoryAt(Query[Mapping[ClientId, Span] | None]):
    """What a broker knows of the past, by publisher; None if it keeps no history."""

    moment: float = EVER
    otherwise = None


class Page(NamedTuple):
    """A part of a history: what matches, in the order in which it was accepted, and up to where it answers."""

    batch: EventBatch | None
    upto: Mapping[ClientId, int]


@dataclass(frozen=True, slots=True)
class ReadHistory(Query[Page]):
    """The next page of these events.

    Attributes
    ----------
    filters
        What is wanted.
    since
        Nothing is wanted that was published earlier.
    ranges
        By publisher: the number behind which it begins, and the last number that is wanted.
    """

    filters: tuple[Filter, ...]
    since: float
    ranges: Mapping[ClientId, tuple[int, int]]
    otherwise = Page(None, {})


@dataclass(frozen=True, slots=True)
class _Entry:
    """Events of a publisher with numbers that follow each other, which were accepted together."""

    number: int
    at: float
    publisher: ClientId
    batch: EventBatch

    @property
    def first(self) -> int:
        return int(self.batch.sequence[0])

    @property
    def last(self) -> int:
        return int(self.batch.sequence[-1])


class History(Restorable):
    """The history of one broker.

    Parameters
    ----------
    seconds, bytes_max
        The bounds.
    store
        Where it is stable, read here once.
    now
        The time to assume until the first tick.

    Attributes
    ----------
    bytes, events
        The size of what is retained.
    events_forgotten
        How many events were forgotten, for either bound.
    """

    takes: Mapping[type, Handler] = {}
    alters: Mapping[type, Handler] = {}

    def __init__(self, seconds: float, bytes_max: int, store: Store | None = None, now: float = 0.0) -> None:
        self.bytes = self.events = self.events_forgotten = 0
        self._seconds, self._bytes_max, self._now = seconds, bytes_max, now
        self._order: deque[ClientId] = deque()  # of the entries: whose each is
        self._of: dict[ClientId, deque[_Entry]] = {}  # rising, for each publisher
        self._forgotten: dict[ClientId, tuple[int, float]] = {}  # the last number, and the latest publication
        self._number = 0
        for (name,), (last, at) in store.rows(FORGOTTEN) if store is not None else ():
            self._forgotten[str(name)] = last, at
        for (number,), (at, name, batch) in store.rows(HISTORY) if store is not None else ():
            self._add(_Entry(int(number), at, name, batch))
        self.sees: Mapping[type, Handler] = {
            Events: self._on_events,
            Bequest: self._on_bequest,
            Ticked: self._on_tick,
        }

    @property
    def answers(self) -> Answering:
        """What readers ask of it."""
        return {
            HistoryAt: lambda query: self.spans(query.moment),
            ReadHistory: lambda query: self.page(query),
        }

    # Appending and forgetting.

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        if not isinstance(event.source, str):
            return [Inward(event)]
        return [*self.append(event.source, event.message.batch), Inward(event)]

    def _on_bequest(self, event: Received[BrokerId, Bequest]) -> list[Out]:
        """Append what a leaving broker hands over, and note up to where it has forgotten what was published there."""
        out: list[Out] = []
        for publisher, last, age in event.message.forgotten:
            known, at = self._forgotten.get(publisher, (0, EVER))
            if last > known:
                gone = self._forgotten[publisher] = last, max(at, self._now - age)
                out.append(Write(FORGOTTEN, (publisher,), gone))
        for publisher, _, batch in event.message.kept:
            out += self.append(publisher, batch)
        return [*out, *self._bounded(), Inward(event)]

    def append(self, publisher: ClientId, batch: EventBatch) -> list[Write]:
        """Retain what is published here and is not retained yet; return the writes."""
        known = self._of.get(publisher)
        last = known[-1].last if known else self._forgotten.get(publisher, (0, EVER))[0]
        rows = np.flatnonzero(batch.sequence > last)
        writes: list[Write] = []
        for run in np.split(rows, np.flatnonzero(np.diff(batch.sequence[rows]) != 1) + 1):
            if len(run):
                entry = _Entry(self._number + 1, self._now, publisher, batch.take(run))
                self._add(entry)
                writes.append(Write(HISTORY, (entry.number,), (entry.at, publisher, entry.batch)))
        return [*writes, *self._trim()] if writes else []

    def _add(self, entry: _Entry) -> None:
        self._number = entry.number
        self._order.append(entry.publisher)
        self._of.setdefault(entry.publisher, deque()).append(entry)
        self.bytes += entry.batch.nbytes
        self.events += len(entry.batch)

    @property
    def _oldest(self) -> _Entry:
        return self._of[self._order[0]][0]

    def _trim(self) -> list[Write]:
        writes: list[Write] = []
        while self._order and (self.bytes > self._bytes_max or self._now - self._oldest.at > self._seconds):
            mine = self._of[self._order.popleft()]
            entry = mine.popleft()
            if not mine:
                del self._of[entry.publisher]
            self.bytes -= entry.batch.nbytes
            self.events -= len(entry.batch)
            self.events_forgotten += len(entry.batch)
            known = self._forgotten.pop(entry.publisher, (0, EVER))
            gone = max(known[0], entry.last), max(known[1], float(entry.batch.published_at.max()))
            self._forgotten[entry.publisher] = gone
            writes += [Write(HISTORY, (entry.number,), None), Write(FORGOTTEN, (entry.publisher,), gone)]
        return [*writes, *self._bounded()]

    def _bounded(self) -> list[Write]:
        """Forget what was forgotten of more than so many publishers."""
        writes: list[Write] = []
        while len(self._forgotten) > FORGOTTEN_MAX:
            name = next(iter(self._forgotten))
            del self._forgotten[name]
            writes.append(Write(FORGOTTEN, (name,), None))
        return writes

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        return [*self._trim(), Inward(event)]

    def rests_until(self) -> float:
        """Return when the oldest events are to be forgotten."""
        return self._oldest.at + self._seconds if self._order else math.inf

    # Reading.

    def spans(self, moment: float = EVER) -> dict[ClientId, Span]:
        """Return what is known of each publisher, divided at a moment."""
        found: dict[ClientId, Span] = {}
        for name in {**self._of, **self._forgotten}:
            gone, gone_at = self._forgotten.get(name, (0, EVER))
            older, later = gone if gone_at < moment else 0, 0
            ranges: list[tuple[int, int]] = []
            since = math.inf
            for entry in self._of.get(name, ()):
                times, sequence = entry.batch.published_at, entry.batch.sequence
                since = min(since, float(times.min()))
                before = times < moment
                if before.any():
                    older = max(older, int(sequence[before].max()))
                if not before.all():
                    later = later or int(sequence[~before].min())
                if ranges and ranges[-1][1] + 1 == entry.first:
                    ranges[-1] = ranges[-1][0], entry.last
                else:
                    ranges.append((entry.first, entry.last))
            last = max(gone, ranges[-1][1] if ranges else 0)
            forgot = bool(gone) and gone_at >= moment > EVER
            found[name] = Span(tuple(ranges), last, older, later, forgot, since)
        return found

    def page(self, query: ReadHistory) -> Page:
        """Return the next events of some publishers."""
        upto: dict[ClientId, int] = {}
        found: list[EventBatch] = []
        looked = nbytes = 0
        at = {name: after for name, (after, _) in query.ranges.items()}
        for entry in merge(*map(self._from, query.ranges, at.values()), key=lambda each: each.number):
            name, last = entry.publisher, query.ranges[entry.publisher][1]
            if entry.first > at[name] + 1 or at[name] >= last:
                continue  # a number is missing, or nothing more is wanted
            if looked >= PAGE_EVENTS or nbytes >= PAGE_BYTES:
                break
            batch = entry.batch
            rows = np.flatnonzero((batch.sequence > at[name]) & (batch.sequence <= last))
            upto[name] = at[name] = min(entry.last, last)
            looked += len(rows)
            part = batch.take(rows[batch.published_at[rows] >= query.since])
            wanted = np.zeros(len(part), np.bool_)
            for each in query.filters if len(part) else ():
                wanted |= each.evaluate_batch(part)
            if wanted.any():
                found.append(part.take(np.flatnonzero(wanted)))
                nbytes += found[-1].nbytes
        return Page(concat(found) if found else None, upto)

    def _from(self, publisher: ClientId, after: int) -> Iterator[_Entry]:
        """Return what is retained of a publisher, from the entry with the first number behind `after`."""
        entries = self._of.get(publisher, ())
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if entries[middle].last <= after else (low, middle)
        return (entries[place] for place in range(low, len(entries)))

    def _entries(self) -> Iterator[_Entry]:
        return chain.from_iterable(self._of.values())

    def identities(self) -> Iterator[EventId]:
        """Return the identity of each event that is retained."""
        return (entry.batch.identity(row) for entry in self._entries() for row in range(len(entry.batch)))

    # Inspection.

    def describe(self) -> Mapping[str, int]:
        """Return the sizes and counters of this layer."""
        return {
            "history_events": self.events,
            "history_bytes": self.bytes,
            "history_forgotten": self.events_forgotten,
        }

    def check(self) -> None:
        """Assert that sizes are right, and that the numbers of each publisher rise; for tests."""
        assert self.bytes == sum(entry.batch.nbytes for entry in self._entries())
        assert self.events == sum(len(entry.batch) for entry in self._entries())
        assert Counter(self._order) == {name: len(entries) for name, entries in self._of.items()}
        for entries in self._of.values():
            numbers = [number for entry in entries for number in entry.batch.sequence.tolist()]
            assert all(one < other for one, other in pairwise(numbers))
