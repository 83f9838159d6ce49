"""The deduplicator of a delivering broker: it records what each subscriber has had, so that no duplicate is delivered.

Rules
-----
* One number per subscriber and publisher, a mark, records what the subscriber has had (`rising`).
* A retransmitted event is for a subscription if its number is beyond the *position* at which the subscription
  begins (`high_water`). A subscription that has not been confirmed yet has no position, and gets no
  retransmitted event.
* A position lacks the publishers that nobody on the way to its broker knew of, for example behind a cut link.
  Their events are for the subscription unless they are certainly older. No two clocks are compared for that: a
  retransmitted event carries how long ago it was accepted, by the clock of the accepting broker, and a
  subscription's age is measured by the clock of this broker. Transport takes time, so an event seems younger
  than it is. It seems older by at most what the time of both brokers may lag. In doubt the event is
  delivered.
* A subscription whose subscriber reads what was before it from histories (`Register.past`) is owed everything behind
  its position, however old: what no history had when it began may have been accepted long before, by a broker that is
  gone, and comes from nowhere else.
* An event that is past its time is dropped between the broker and the subscriber. So a subscriber may have had less
  than its mark says if an event that expires raised the mark to that number (`expiring`).
* Positions are dropped when nobody retains an event that old, and beyond a limit the oldest is.

Source: promises 1 and 3; docs/decisions/0011-recovery.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...protocol.batch import EventBatch, Mask, Rows
from ...protocol.expiry import deadline
from ...protocol.gathering import TTLS
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost
from ...routing.filters.filter import Filter
from .high_water import Marks
from .rising import rising

POSITIONS_MAX: Final = 1_048_576
"""How many numbers the positions of all subscriptions of a broker have at most."""


@dataclass(slots=True)
class _Want:
    """A subscription: since when it is in force, its filter, and where it begins; None before it is confirmed.

    With `past` that position counts alone, and not since when it is in force.
    """

    since: float
    filter: Filter
    begins: Marks | None
    past: bool = False

    def owed(self, batch: EventBatch, rows: Rows, accepted: float) -> Mask | None:
        """Return which of these retransmitted events are not older than the subscription; None for all."""
        if self.begins is None or (self.since > accepted and not self.past):
            return np.zeros(len(rows), np.bool_)
        first = [self.begins.get(name, 0) for name in batch.publishers]
        if not any(first):
            return None
        beyond: Mask = batch.sequence[rows] > np.array(first, np.int64)[batch.publisher[rows]]
        return None if beyond.all() else beyond


class Deduplicator:
    """The last sequence of each publisher that each subscriber was notified of.

    Parameters
    ----------
    behind_seconds
        How far the time of two brokers together may lag. An event seems older than it is by at most this
        much.
    position_seconds
        How long a position is of use: longer than anybody retains an event.
    positions_max
        How many numbers all positions have at most.
    """

    def __init__(
        self,
        behind_seconds: float = 0.0,
        position_seconds: float = math.inf,
        positions_max: int = POSITIONS_MAX,
    ) -> None:
        self._behind_seconds = behind_seconds
        self._position_seconds = position_seconds
        self._positions_max = positions_max
        self._positions: deque[tuple[float, ClientId, int, Marks]] = deque()  # since when each is known here
        self._position_numbers = 0
        self._marks: dict[ClientId, dict[str, int]] = {}
        self._since: dict[ClientId, float] = {}
        self._wants: dict[ClientId, dict[int, _Want]] = {}
        # Of subscriptions made elsewhere: since when, and where they begin, until they are registered here.
        self._brought: dict[ClientId, dict[int, tuple[float, Marks | None]]] = {}
        self._expiring: dict[ClientId, dict[str, int]] = {}  # the last event that expires of each publisher
        self._told: dict[ClientId, dict[str, int]] = {}  # up to which sequence losses were reported

    def begin(self, client: ClientId, now: float) -> None:
        """Record that a subscriber is here since `now`, if it was not before."""
        if client not in self._marks:
            self._marks[client] = {}
            self._since[client] = now

    def resume(self, client: ClientId, marks: Mapping[str, int], since: float = float("-inf")) -> None:
        """Record what a subscriber that moved here has had elsewhere, and since when it is a subscriber."""
        self._marks[client] = dict(marks)
        self._since[client] = since
        self._told.pop(client, None)

    def bring(self, client: ClientId, number: int, since: float, begins: Marks | None, now: float) -> None:
        """Record since when a subscription exists elsewhere, and where it begins; None if it was not confirmed."""
        want = self._wants.get(client, {}).get(number)
        if begins is not None and want is not None:
            self._begin(client, number, want, begins, now)
        else:
            self._brought.setdefault(client, {})[number] = since, begins

    def want(self, client: ClientId, number: int, wanted: Filter, now: float, *, past: bool = False) -> None:
        """Record that a subscriber wants a filter, not confirmed yet; no effect if it does already."""
        since, begins = self._brought.get(client, {}).pop(number, (now, None))
        wants = self._wants.setdefault(client, {})
        if number not in wants or wants[number].filter != wanted:
            wants[number] = _Want(since, wanted, None)
        wants[number].past = wants[number].past or past  # it may be rewound later
        if begins is not None:
            self._begin(client, number, wants[number], begins, now)

    def confirm(self, client: ClientId, number: int, marks: Marks, now: float) -> Marks:
        """Let a subscription begin now, at a position, unless it has begun; return where it begins."""
        want = self._wants.get(client, {}).get(number)
        if want is None:
            return marks
        if want.begins is None:
            want.since = max(now, want.since)
        return self._begin(client, number, want, marks, now)

    def _begin(self, client: ClientId, number: int, want: _Want, marks: Marks, now: float) -> Marks:
        if want.begins is None:
            want.begins = marks
            if marks:
                self._positions.append((now, client, number, marks))
                self._position_numbers += len(marks)
        self.expire(now)
        return want.begins

    def expire(self, now: float) -> None:
        """Drop positions that are not of use any more, and the oldest beyond the limit."""
        while self._positions and (
            now - self._positions[0][0] > self._position_seconds
            or self._position_numbers > self._positions_max
        ):
            _, client, number, marks = self._positions.popleft()
            self._position_numbers -= len(marks)
            want = self._wants.get(client, {}).get(number)
            if want is not None and want.begins is marks:
                want.begins = {}

    def want_no_more(self, client: ClientId, number: int) -> None:
        """Forget a subscription that was cancelled."""
        self._wants.get(client, {}).pop(number, None)

    def advance(self, client: ClientId, marks: Mapping[str, int]) -> None:
        """Record what a subscriber has had apart from what it was given here."""
        mine = self._marks.setdefault(client, {})
        for publisher, sequence in marks.items():
            mine[publisher] = max(sequence, mine.get(publisher, 0))

    def marks(self, client: ClientId) -> Mapping[str, int] | None:
        """Return, per publisher, the sequence up to which a subscriber has had all that it wants; None if unknown."""
        return self._marks.get(client)

    def expiring(self, client: ClientId) -> Mapping[str, int]:
        """Return, per publisher, the number of the last event with a time to live that was for a subscriber."""
        return self._expiring.get(client, {})

    def since(self, client: ClientId) -> float:
        """Return since when a client is a subscriber."""
        return self._since.get(client, float("-inf"))

    def missed(self, client: ClientId, publisher: str, last: int, accepted: float) -> Lost | None:
        """Return the loss to report when all up to `last` is gone; None if the subscriber had that or was told.

        Parameters
        ----------
        client, publisher
            The subscriber and the publisher.
        last
            The last sequence of the publisher that is no longer retained anywhere.
        accepted
            When that event was accepted, by the clock here.
        """
        if client not in self._marks or self._is_newer(client, accepted + self._behind_seconds):
            return None
        told = self._told.setdefault(client, {})
        wants = self._wants.get(client, {}).values()
        begins = [want.begins.get(publisher, 0) for want in wants if want.begins is not None]
        if wants and not begins:
            return None  # none of its subscriptions has begun
        known = max(self._marks[client].get(publisher, 0), told.get(publisher, 0), min(begins, default=0))
        if known >= last:
            return None
        told[publisher] = last
        return Lost(publisher, known + 1, last)

    def forget(self, client: ClientId) -> None:
        """Forget a subscriber that left."""
        self._marks.pop(client, None)
        self._since.pop(client, None)
        self._wants.pop(client, None)
        self._brought.pop(client, None)
        self._expiring.pop(client, None)
        self._told.pop(client, None)

    def admit(
        self, client: ClientId, batch: EventBatch, rows: Rows, *, accepted: float | None = None
    ) -> Rows:
        """Return the rows that the subscriber has not had, and record that it has them now.

        Parameters
        ----------
        client
            The subscriber.
        batch, rows
            The events that match its subscriptions; the rows rise.
        accepted
            When the events were accepted, by the clock here; None for events that were not sent before.
        """
        marks = self._marks.setdefault(client, {})
        if accepted is not None:
            latest = accepted + self._behind_seconds
            rows = rows[:0] if self._is_newer(client, latest) else self._timely(client, batch, rows, latest)
        new = rising(batch, rows, marks)
        if TTLS in batch.columns and len(new):
            last = dict(zip(batch.publisher[new].tolist(), new.tolist(), strict=True))
            expire = [batch.identity(row) for row in last.values() if deadline(batch, row) is not None]
            self._expiring.setdefault(client, {}).update(expire)
        return new

    def _is_newer(self, client: ClientId, moment: float) -> bool:
        """Return whether a subscriber has come since, and has no past."""
        wants = self._wants.get(client, {}).values()
        return moment < self.since(client) and not any(want.past for want in wants)

    def _timely(self, client: ClientId, batch: EventBatch, rows: Rows, accepted: float) -> Rows:
        """Return the rows that match a subscription which had begun when the events were accepted."""
        wants = self._wants.get(client, {}).values()
        owed = [want.owed(batch, rows, accepted) for want in wants]
        if all(each is None for each in owed) or not len(rows):
            return rows
        part = batch.take(rows)
        wanted = np.zeros(len(rows), np.bool_)
        for want, mine in zip(wants, owed, strict=True):
            if mine is None:
                wanted |= want.filter.evaluate_batch(part)
            elif mine.any():
                wanted |= mine & want.filter.evaluate_batch(part)
        return rows[wanted]
