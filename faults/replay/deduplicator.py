"""The deduplicator of a delivering broker: what each of its subscribers has had, so that nobody is notified twice.

Rules
-----
* One number for each subscriber and publisher, a mark, says what it has had (`rising`).
* What was accepted before a subscriber came is not for it when it is sent again, nor is what none of its subscriptions
  wants that were there then. No two clocks are compared: an event that is sent again says how long ago it was accepted,
  by the clock of the broker that did, and a subscription's age is told by the clock of this one. The way takes time, so
  an event seems younger than it is; older it seems by no more than what both brokers may be behind with the time. In
  doubt it is delivered.

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
        How far two brokers together may be behind with the time: by no more an event seems older than it is.
    """

    def __init__(self, behind_seconds: float = 0.0) -> None:
        self._behind_seconds = behind_seconds
        self._marks: dict[ClientId, dict[str, int]] = {}
        self._since: dict[ClientId, float] = {}
        self._wants: dict[ClientId, dict[int, tuple[float, Filter]]] = {}  # since when, and what
        self._told: dict[ClientId, dict[str, int]] = {}  # up to where losses were told

    def begin(self, client: ClientId, now: float) -> None:
        """Note that a subscriber is here since `now`, if it was not before."""
        if client not in self._marks:
            self._marks[client] = {}
            self._since[client] = now

    def resume(self, client: ClientId, marks: Mapping[str, int], since: float = float("-inf")) -> None:
        """Note what a subscriber that moved here has had elsewhere, and since when it is a subscriber."""
        self._marks[client] = dict(marks)
        self._since[client] = since
        self._told.pop(client, None)

    def want(self, client: ClientId, number: int, wanted: Filter, since: float) -> None:
        """Note since when a subscriber wants something; nothing new if it does already."""
        wants = self._wants.setdefault(client, {})
        if number not in wants or wants[number][1] != wanted:
            wants[number] = since, wanted

    def want_no_more(self, client: ClientId, number: int) -> None:
        """Forget a subscription that was cancelled."""
        self._wants.get(client, {}).pop(number, None)

    def advance(self, client: ClientId, marks: Mapping[str, int]) -> None:
        """Note what a subscriber has had beside what it was given here."""
        mine = self._marks.setdefault(client, {})
        for publisher, sequence in marks.items():
            mine[publisher] = max(sequence, mine.get(publisher, 0))

    def marks(self, client: ClientId) -> Mapping[str, int] | None:
        """Return up to which sequence of each publisher a subscriber has had what it wants; None for one unknown."""
        return self._marks.get(client)

    def since(self, client: ClientId) -> float:
        """Return since when a client is a subscriber."""
        return self._since.get(client, float("-inf"))

    def missed(self, client: ClientId, publisher: str, last: int, accepted: float) -> Lost | None:
        """Return what a subscriber may have lost when all up to `last` is gone; None when it had that, or was told.

        Parameters
        ----------
        client, publisher
            The two.
        last
            The last sequence of the publisher that nobody keeps any more.
        accepted
            When that was accepted, by the clock here.
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
        """Return those of the rows that the subscriber has not had, and note that it has them now.

        Parameters
        ----------
        client
            The subscriber.
        batch, rows
            The events that match its subscriptions; rows rise.
        accepted
            When they were accepted, by the clock here; None for events that were not sent before.
        """
        marks = self._marks.setdefault(client, {})
        if accepted is not None:
            latest = accepted + self._behind_seconds
            rows = rows[:0] if latest < self.since(client) else self._timely(client, batch, rows, latest)
        return rising(batch, rows, marks)

    def _timely(self, client: ClientId, batch: EventBatch, rows: Rows, accepted: float) -> Rows:
        """Return those of the rows that a subscription wants which was there when they were accepted."""
        wants = self._wants.get(client, {}).values()
        if all(since <= accepted for since, _ in wants) or not len(rows):
            return rows
        part = batch.take(rows)
        wanted = np.zeros(len(rows), np.bool_)
        for since, item in wants:
            if since <= accepted:
                wanted |= item.evaluate_batch(part)
        return rows[wanted]
