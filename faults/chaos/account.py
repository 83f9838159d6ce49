"""The trace of a run in which clients may die: what a dead process had not acknowledged, it has not had.

Rules
-----
* A durable subscriber that dies has had what it acknowledged; its other notifications are taken out of the trace, as
  the next process is to get them.
* What a subscriber is told that it may have lost stands in the trace as lost, for that subscriber only.
* A publisher that comes back goes on behind what was accepted, so it may use a number again that came to nothing.
* Who accepted an event is written down, so that one is known which a publisher took along when it died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Lost
from ..checker.trace import EventId, Notified, Published, Trace


class Account(Trace):
    """What clients did and heard, and what became of those that died.

    Attributes
    ----------
    losses
        What each subscriber was told that it may have lost.
    accepted_at
        The brokers that have accepted each event.
    orphans
        Events of publishers that died since: whether they were ever accepted is for brokers to say.
    """

    __slots__ = ("accepted_at", "losses", "orphans")

    def __init__(self) -> None:
        super().__init__()
        self.losses: dict[ClientId, list[Lost]] = {}
        self.accepted_at: dict[EventId, set[BrokerId]] = {}
        self.orphans: set[EventId] = set()

    def accepted(self, broker: BrokerId, events: Iterable[EventId]) -> None:
        """Write down that a broker has accepted events."""
        for event in events:
            self.accepted_at.setdefault(event, set()).add(broker)

    def published(self, now: float, client: str, first: int, events: Iterable[Mapping[str, Any]]) -> None:
        """Write down publications; an earlier one under the same number that no broker has accepted never was."""
        given = list(events)
        again = {(client, first + place) for place in range(len(given))} & self.orphans
        vain = again - self.accepted_at.keys()
        if vain:
            self.operations = [
                op
                for op in self.operations
                if not (type(op) is Published and (op.publisher, op.sequence) in vain)
            ]
        self.orphans -= vain
        super().published(now, client, first, given)

    def died(self, publisher: ClientId) -> None:
        """Write down that a publisher has died: nobody but brokers has its events now."""
        self.orphans.update(event for event in self.publications() if event[0] == publisher)

    def never_accepted(self, publisher: ClientId, last: int) -> None:
        """Write down that no broker has accepted what a publisher that has come back had numbered above `last`."""
        self.operations = [
            op
            for op in self.operations
            if not (type(op) is Published and op.publisher == publisher and op.sequence > last)
        ]

    def died_with_broker(self, now: float, publisher: ClientId, last: int) -> None:
        """Write down that a publisher's events above `last` were with it and with brokers that are dead for good."""
        for name, sequence in self.publications():
            if name == publisher and sequence > last:
                self.lost(now, name, sequence)

    def rolled_back(self, client: ClientId, position: Mapping[ClientId, int]) -> None:
        """Write down that a durable subscriber has died: what it had not acknowledged it has not had."""
        self.operations = [
            op
            for op in self.operations
            if not (
                type(op) is Notified and op.client == client and op.sequence > position.get(op.publisher, 0)
            )
        ]

    def told(self, now: float, client: ClientId, losses: Sequence[Lost]) -> None:
        """Write down what a subscriber was told that it may have lost."""
        self.losses.setdefault(client, []).extend(losses)
        for publisher, sequence in self.publications():
            if any(loss.publisher == publisher and loss.first <= sequence <= loss.last for loss in losses):
                self.lost(now, publisher, sequence, client)
