"""Backpressure: the queues that a call has filled, so that whoever made it waits until they have room again.

Rule: it is made when a call is worked on, and goes with what the call brings; so it also says since when that waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .outbox import Outbox
from .sessions import Session


@dataclass(slots=True, eq=False)
class Backpressure:
    """The outboxes and the sessions of client processes that one call has filled, and when it was `made`."""

    made: tuple[float, ...] = ()
    outboxes: dict[Outbox, None] = field(default_factory=dict)
    sessions: dict[Session, None] = field(default_factory=dict)

    @property
    def since(self) -> float | None:
        """When the call was made; None where that does not count."""
        return self.made[0] if self.made else None

    def from_clients(self) -> Backpressure:
        """Return one of the same sessions, for messages after which nobody waits for links."""
        return Backpressure(self.made, sessions=self.sessions)
