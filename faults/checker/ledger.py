"""An index of what a trace says was retained, for fast checks of losses: the limits of :mod:`.losses` in columns.

Rules
-----
* The ledger gives the same answers as the formulas. Tests compare the two on random traces.
* The amount that a keeper took since a given event is the difference of two running totals.
* A limit is asked about at the end of the time in which it was in force: until then, what it limits only grows.
  Of limits that were set after the subscriber had a later event, none is asked about.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from math import inf
from typing import NamedTuple

from ...protocol.ids import EventId
from ...protocol.traces.trace import ITSELF, Bounded, Died, Kept, Notified, Operation, Shed


class Moment(NamedTuple):
    """A position in the trace, and its time."""

    position: int
    at_seconds: float


@dataclass(slots=True)
class _Totals:
    """The running totals of one keeper, after each operation of its own."""

    positions: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)  # the index of the first event of each batch
    deaths: list[int] = field(default_factory=list)

    def add(self, position: int, batch: int, size: int) -> int:
        """Add an event; return the index of the first event of its batch."""
        start = self.starts.setdefault(batch, len(self.positions))
        self.positions.append(position)
        self.events.append(len(self.positions))
        self.sizes.append(size + (self.sizes[-1] if self.sizes else 0))
        self.batches.append(batch)
        return start

    def since(self, start: int, until: int) -> tuple[int, int, int]:
        """Return (events, bytes, the newest batch) taken from an index on and before a position."""
        end = bisect_left(self.positions, until)
        if end <= start:
            return 0, 0, ITSELF
        before = self.sizes[start - 1] if start else 0
        return end - start, self.sizes[end - 1] - before, self.batches[end - 1]


class _Taking(NamedTuple):
    position: int
    broker: int
    start: int
    batch: int


class Ledger:
    """What was retained, and what is gone.

    Parameters
    ----------
    placed
        (position, operation) of the trace, in order. All operations but :class:`Bounded`, :class:`Kept`,
        :class:`Died`, :class:`Shed` and :class:`Notified` are ignored. Of the last, one for each event will do.
    """

    def __init__(self, placed: Iterable[tuple[int, Operation]]) -> None:
        self._bounds: dict[str, list[tuple[int, Bounded]]] = {}
        self._totals: dict[tuple[int, str], _Totals] = {}
        self._all_own = _Totals()
        self._taken: dict[EventId, list[_Taking]] = {}
        # What each broker took of each publisher: (position, sequence).
        self._streams: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self._own_start: dict[EventId, tuple[int, int]] = {}
        self._shed: dict[EventId, tuple[int, str]] = {}
        self._heard: set[EventId] = set()
        for position, op in placed:
            match op:
                case Bounded(_, client):
                    self._bounds.setdefault(client, []).append((position, op))
                case Kept():
                    self._keep(position, op)
                case Died(_, broker, publisher):
                    self._of(broker, publisher).deaths.append(position)
                case Shed(_, publisher, sequence, limit, measured, allowed) if measured > allowed:
                    self._shed.setdefault((publisher, sequence), (position, limit))
                case Notified(_, _, publisher, sequence):
                    self._heard.add((publisher, sequence))

    def _of(self, broker: int, publisher: str) -> _Totals:
        return self._totals.setdefault((broker, publisher if broker == ITSELF else ""), _Totals())

    def _keep(self, position: int, op: Kept) -> None:
        event = op.publisher, op.sequence
        start = self._of(op.broker, op.publisher).add(position, op.batch, op.size_bytes)
        self._taken.setdefault(event, []).append(_Taking(position, op.broker, start, op.batch))
        self._streams.setdefault((op.broker, op.publisher), []).append((position, op.sequence))
        # An event that a restarted publisher takes back counts once.
        if op.broker == ITSELF and event not in self._own_start:
            self._own_start[event] = position, self._all_own.add(position, op.batch, op.size_bytes)

    def explain(
        self,
        client: str,
        event: EventId,
        published: Moment,
        claimed: Moment,
        settled: Moment | None,
        passed: Moment | None,
        wanted: Callable[[], Sequence[int]],
    ) -> str:
        """Return the name of the limit that explains a claim of loss, "" for none.

        Parameters
        ----------
        client, event
            The subscriber and the event that it is said to have lost.
        published, claimed, settled
            When the event was published, when the claim was made, and when the network first settled after
            the publication.
        passed
            When the subscriber was first notified of a later event of the publisher.
        wanted
            Returns the rising positions of all publications that match a subscription which the client ever
            had.
        """
        found = self._shed.get(event)
        if found is not None and found[0] < claimed.position:
            return found[1]
        until = claimed if settled is None else min(claimed, settled)
        last = claimed if passed is None else min(claimed, passed)
        if self._too_old(published, until, last):
            return "retention"
        quiet = inf if settled is None else settled.position
        if self._let_go(event, published, until, last, quiet, self._durable_since(client)):
            return "retention"
        if self._died_out(event, published.position, until.position, claimed.position):
            return "died"
        if self._past_durable(client, event, published, claimed, last, wanted):
            return "durable"
        return ""

    def _durable_since(self, client: str) -> int | None:
        """Return the position from which on a subscriber is durable, None if it never is."""
        return self._bounds[client][0][0] if client and client in self._bounds else None

    def _in_force(
        self, client: str, after: int, until: Moment, last: Moment
    ) -> Iterator[tuple[Bounded, Moment]]:
        """Yield the limits in force after one position and up to another, each with the end of that time.

        The limit in force at `last` is the last one: it stays in force.
        """
        given = [each for each in self._bounds.get(client, []) if each[0] < last.position]
        ends = [Moment(position, bound.at_seconds) for position, bound in given[1:]]
        for (position, bound), end in zip(given, [*ends, until], strict=False):
            if position < until.position and end.position > after:
                yield bound, min(end, until)

    def _too_old(self, published: Moment, until: Moment, last: Moment) -> bool:
        bounds = self._in_force("", published.position, min(until, last), last)
        return any(end.at_seconds - published.at_seconds > bound.seconds for bound, end in bounds)

    def _let_go(
        self,
        event: EventId,
        published: Moment,
        until: Moment,
        last: Moment,
        quiet: float,
        durable_since: int | None,
    ) -> bool:
        """Return whether a broker that is responsible for an event, or its publisher, had to release it."""
        taken = [each for each in self._taken.get(event, ()) if each.position < until.position]
        own = [each for each in taken if each.broker == ITSELF]
        brokers = [each for each in taken if each.broker != ITSELF]
        for takings in (own, brokers):
            former: dict[int, _Taking] = {}
            ends = [*(each.position for each in takings[1:]), until.position]
            for place, (taking, end_position) in enumerate(zip(takings, ends, strict=False)):
                former[taking.broker] = taking
                # A durable subscriber may have been told at any time, and a report repeats that.
                told = durable_since is not None and end_position > max(durable_since, published.position)
                if (told or place == len(takings) - 1) and any(
                    (each is taking or self._goes_on(each.broker, event, taking.position, quiet))
                    and self._crowded(event, each, end_position, last)
                    for each in former.values()
                ):
                    return True
        return False

    def _goes_on(self, broker: int, event: EventId, after: int, quiet: float) -> bool:
        """Return whether a broker takes a newer event of the publisher, after a position and before all settled."""
        publisher, sequence = event
        stream = self._streams.get((broker, publisher), [])
        following = islice(stream, bisect_left(stream, (after, 0)), None)
        before = takewhile(lambda each: each[0] < quiet, following)
        return any(number > sequence for _, number in before)

    def _crowded(self, event: EventId, taking: _Taking, until: int, last: Moment) -> bool:
        totals = self._of(taking.broker, event[0])
        death = bisect_left(totals.deaths, taking.position)
        if death < len(totals.deaths):
            until = min(until, totals.deaths[death])
        for bound, end in self._in_force("", taking.position, Moment(until, 0.0), last):
            events, size, newest = totals.since(taking.start, end.position)
            if newest != taking.batch and (events > bound.events_max or size > bound.bytes_max):
                return True
        return False

    def _died_out(self, event: EventId, published: int, until: int, claimed: int) -> bool:
        deaths = self._of(ITSELF, event[0]).deaths
        place = bisect_left(deaths, published)
        if place == len(deaths) or deaths[place] >= until:
            return False
        taken = [each for each in self._taken.get(event, ()) if each.broker != ITSELF]
        last = {each.broker: each.position for each in taken if each.position < claimed}
        if not last:
            return not taken and event not in self._heard
        return all(self._died_between(broker, position, claimed) for broker, position in last.items())

    def _died_between(self, broker: int, begin: int, end: int) -> bool:
        deaths = self._of(broker, "").deaths
        place = bisect_left(deaths, begin)
        return place < len(deaths) and deaths[place] < end

    def _past_durable(
        self,
        client: str,
        event: EventId,
        published: Moment,
        claimed: Moment,
        last: Moment,
        wanted: Callable[[], Sequence[int]],
    ) -> bool:
        since = self._durable_since(client)
        if since is None or since > published.position:
            return False
        own = self._own_start.get(event)
        for bound, end in self._in_force(client, published.position, claimed, last):
            if min(end, last).at_seconds - published.at_seconds > bound.seconds:
                return True
            if own is not None and own[0] < end.position:
                _, size_bytes, _ = self._all_own.since(own[1], end.position)
                if size_bytes > bound.bytes_max:
                    return True
            places = wanted()
            waits = bisect_left(places, end.position) - bisect_left(places, published.position)
            if waits > bound.events_max:
                return True
        return False
