"""The deduplicator of a delivering broker: it records what each subscriber has had, so that no duplicate is delivered.

Rules
-----
* One number per subscriber and publisher, a mark, records what the subscriber has had (`rising`).
* A retransmitted event that was accepted before a subscriber came is not for that subscriber. Neither is an
  event that was accepted before any of the subscriptions that match it existed. No two clocks are compared: a
  retransmitted event carries how long ago it was accepted, by the clock of the accepting broker, and a
  subscription's age is measured by the clock of this broker. Transport takes time, so an event seems younger
  than it is. It seems older by at most what the time of both brokers may lag. In doubt the event is
  delivered.

Source: promises 1 and 3; docs/decisions/0011-recovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost
from ...routing.filters.filter import Filter
from .rising import rising


class Deduplicator:
    """The last sequence of each publisher that each subscriber was notified of.

    Parameters
    ----------
    behind_seconds
        How far the time of two brokers together may lag. An event seems older than it is by at most this
        much.
    """

    def __init__(self, behind_seconds: float = 0.0) -> None:
        self._behind_seconds = behind_seconds
        self._marks: dict[ClientId, dict[str, int]] = {}
        self._since: dict[ClientId, float] = {}
        self._wants: dict[ClientId, dict[int, tuple[float, Filter]]] = {}  # since when, and the filter
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

    def want(self, client: ClientId, number: int, wanted: Filter, since: float) -> None:
        """Record since when a subscriber wants a filter; no effect if it does already."""
        wants = self._wants.setdefault(client, {})
        if number not in wants or wants[number][1] != wanted:
            wants[number] = since, wanted

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
        if client not in self._marks or accepted + self._behind_seconds < self.since(client):
            return None
        told = self._told.setdefault(client, {})
        known = max(self._marks[client].get(publisher, 0), told.get(publisher, 0))
        if known >= last:
            return None
        told[publisher] = last
        return Lost(publisher, known + 1, last)

    def forget(self, client: ClientId) -> None:
        """Forget a subscriber that left."""
        self._marks.pop(client, None)
        self._since.pop(client, None)
        self._wants.pop(client, None)
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
            rows = rows[:0] if latest < self.since(client) else self._timely(client, batch, rows, latest)
        return rising(batch, rows, marks)

    def _timely(self, client: ClientId, batch: EventBatch, rows: Rows, accepted: float) -> Rows:
        """Return the rows that match a subscription which existed when the events were accepted."""
        wants = self._wants.get(client, {}).values()
        if all(since <= accepted for since, _ in wants) or not len(rows):
            return rows
        part = batch.take(rows)
        wanted = np.zeros(len(rows), np.bool_)
        for since, item in wants:
            if since <= accepted:
                wanted |= item.evaluate_batch(part)
        return rows[wanted]
