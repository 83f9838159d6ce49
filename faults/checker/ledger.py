"""An index of what a trace says was retained, for fast checks of losses: the limits of :mod:`.losses` in columns.

Rules
-----
* The ledger gives the same answers as the formulas. Tests compare the two on random traces.
* The amount that a keeper took since a given event is the difference of two running totals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .trace import ITSELF, Bounded, Died, EventId, Kept, Operation, Shed


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
        :class:`Died` and :class:`Shed` are ignored.
    """

    def __init__(self, placed: Iterable[tuple[int, Operation]]) -> None:
        self.bounds: dict[str, Bounded] = {}
        self._totals: dict[tuple[int, str], _Totals] = {}
        self._all_own = _Totals()
        self._taken: dict[EventId, list[_Taking]] = {}
        self._own_start: dict[EventId, tuple[int, int]] = {}
        self._shed: dict[EventId, tuple[int, str]] = {}
        for position, op in placed:
            match op:
                case Bounded(_, client):
                    self.bounds[client] = op
                case Kept():
                    self._keep(position, op)
                case Died(_, broker, publisher):
                    self._of(broker, publisher).deaths.append(position)
                case Shed(_, publisher, sequence, limit, measured, allowed) if measured > allowed:
                    self._shed.setdefault((publisher, sequence), (position, limit))

    def _of(self, broker: int, publisher: str) -> _Totals:
        return self._totals.setdefault((broker, publisher if broker == ITSELF else ""), _Totals())

    def _keep(self, position: int, op: Kept) -> None:
        event = op.publisher, op.sequence
        start = self._of(op.broker, op.publisher).add(position, op.batch, op.size_bytes)
        self._taken.setdefault(event, []).append(_Taking(position, op.broker, start, op.batch))
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
        wanted
            Returns the rising positions of all publications that match a subscription which the client ever
            had.
        """
        found = self._shed.get(event)
        if found is not None and found[0] < claimed.position:
            return found[1]
        until = claimed if settled is None else min(claimed, settled)
        bound = self.bounds.get(client) if client else None
        if self._past_retention(event, published, until, bound is not None):
            return "retention"
        if self._died_out(event, published.position, until.position, claimed.position):
            return "died"
        if bound is not None and self._past_durable(event, bound, published, claimed, wanted):
            return "durable"
        return ""

    def _past_retention(self, event: EventId, published: Moment, until: Moment, durable: bool) -> bool:
        bound = self.bounds.get("")
        if bound is None:
            return False
        if until.at_seconds - published.at_seconds > bound.seconds:
            return True
        taken = [each for each in self._taken.get(event, ()) if each.position < until.position]
        own = [each for each in taken if each.broker == ITSELF]
        brokers = [each for each in taken if each.broker != ITSELF]
        for takings in (own, brokers):
            ends = [*(each.position for each in takings[1:]), until.position]
            mine = list(zip(takings, ends, strict=True)) if takings else []
            if any(self._crowded(event, *each, bound) for each in (mine if durable else mine[-1:])):
                return True
        return False

    def _crowded(self, event: EventId, taking: _Taking, until: int, bound: Bounded) -> bool:
        totals = self._of(taking.broker, event[0])
        death = bisect_left(totals.deaths, taking.position)
        if death < len(totals.deaths):
            until = min(until, totals.deaths[death])
        events, size, newest = totals.since(taking.start, until)
        return newest != taking.batch and (events > bound.events_max or size > bound.bytes_max)

    def _died_out(self, event: EventId, published: int, until: int, claimed: int) -> bool:
        deaths = self._of(ITSELF, event[0]).deaths
        place = bisect_left(deaths, published)
        if place == len(deaths) or deaths[place] >= until:
            return False
        last = {
            each.broker: each.position
            for each in self._taken.get(event, ())
            if each.broker != ITSELF and each.position < claimed
        }
        return all(self._died_between(broker, position, claimed) for broker, position in last.items())

    def _died_between(self, broker: int, begin: int, end: int) -> bool:
        deaths = self._of(broker, "").deaths
        place = bisect_left(deaths, begin)
        return place < len(deaths) and deaths[place] < end

    def _past_durable(
        self,
        event: EventId,
        bound: Bounded,
        published: Moment,
        claimed: Moment,
        wanted: Callable[[], Sequence[int]],
    ) -> bool:
        if claimed.at_seconds - published.at_seconds > bound.seconds:
            return True
        own = self._own_start.get(event)
        if own is not None and own[0] < claimed.position:
            _, size_bytes, _ = self._all_own.since(own[1], claimed.position)
            if size_bytes > bound.bytes_max:
                return True
        places = wanted()
        waits = bisect_left(places, claimed.position) - bisect_left(places, published.position)
        return waits > bound.events_max
