"""Backpressure: the queues that a call has filled. The caller waits until they have room again.

Rule: one object is made for each call and is passed along with its messages. It therefore also tells how long
they have been waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .outbox import Outbox
from .sessions import Session


@dataclass(slots=True, eq=False)
class Backpressure:
    """The outboxes and client sessions that one call has filled, and the time when the call was `made`."""

    made: tuple[float, ...] = ()
    outboxes: dict[Outbox, None] = field(default_factory=dict)
    sessions: dict[Session, None] = field(default_factory=dict)

    @property
    def since(self) -> float | None:
        """When the call was made; None if its waiting time does not count."""
        return self.made[0] if self.made else None

    @property
    def filled(self) -> bool:
        """Whether anything has to be waited for."""
        return bool(self.outboxes or self.sessions)

    def from_clients(self) -> Backpressure:
        """Return one with the same sessions, for messages after which nobody waits for links."""
        return Backpressure(self.made, sessions=self.sessions)
