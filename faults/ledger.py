"""The ledger of a delivering broker: what each of its subscribers has had, so that nobody is notified twice.

Rule: a publisher's events reach a broker in the order of their sequence, also when they are sent again; so one number
for each subscriber and publisher says all: what is not above it was delivered, or did not match.

Source: promises 1 and 3; docs/decisions/0011-recovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..protocol.batch import EventBatch, Rows
from ..protocol.ids import ClientId


class Ledger:
    """The last sequence of each publisher that each subscriber was notified of."""

    def __init__(self) -> None:
        self._marks: dict[ClientId, dict[str, int]] = {}
        self._since: dict[ClientId, float] = {}

    def begin(self, client: ClientId, now: float) -> None:
        """Note that a subscriber is here since `now`, if it was not before."""
        if client not in self._marks:
            self._marks[client] = {}
            self._since[client] = now

    def resume(self, client: ClientId, marks: Mapping[str, int]) -> None:
        """Note what a subscriber that moved here has had elsewhere."""
        self._marks[client] = dict(marks)
        self._since[client] = float("-inf")

    def forget(self, client: ClientId) -> None:
        """Forget a subscriber that left."""
        self._marks.pop(client, None)
        self._since.pop(client, None)

    def admit(self, client: ClientId, batch: EventBatch, rows: Rows, *, again: bool) -> Rows:
        """Return those of the rows that the subscriber has not had, and note that it has them now.

        Parameters
        ----------
        client
            The subscriber.
        batch, rows
            The events that match its subscriptions; rows rise.
        again
            Whether they were sent before, in an earlier round. Of those, what was published before the subscriber was
            here is not for it.
        """
        marks = self._marks.setdefault(client, {})
        if again:
            since = self._since.get(client, float("-inf"))
            rows = rows[batch.published_at[rows] >= since]
        keep = np.zeros(len(rows), np.bool_)
        publishers = batch.publisher[rows]
        sequences = batch.sequence[rows]
        for code in np.unique(publishers).tolist():
            name = batch.publishers[code]
            mine = publishers == code
            # Each has to be above all before it: a batch may hold an event twice, sent again behind itself.
            highest = np.maximum.accumulate(np.concatenate(([marks.get(name, 0)], sequences[mine])))
            keep[mine] = highest[1:] > highest[:-1]
            marks[name] = int(highest[-1])
        return rows if keep.all() else rows[keep]
