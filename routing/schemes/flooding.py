"""Flooding: every event goes to every broker (paper 1, section 1: the first of the two simple ways).

Rules
-----
* Subscriptions stay at the broker of their subscriber: there is nobody to tell, and they are installed at once.
* An event goes over every link of the tree but the one by which it came: N - 1 messages among N brokers, whether or
  not anybody wants it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.configs import Position
from ...protocol.effects import Deliver, Effect, Send
from ...protocol.ids import Link
from ...protocol.messages.pubsub import Events
from ..interest.outlets import Outlet
from .hierarchical import Hierarchical
from .peer import PeerRouter


class Flooding(PeerRouter):
    """A broker of a tree on which events go everywhere."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree without clusters."""
        return Hierarchical.positions(positions)

    def make_outlets(self) -> dict[Link, Outlet]:
        """Return none: nobody is told."""
        return {}

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        others = [other for other in self.position.neighbours if other != source]
        effects: list[Effect] = [Send(other, message) for other in others]
        routes = self.table.route(message.batch)
        if routes.clients:
            effects.append(Deliver(message.batch, routes.clients, routes.starts, routes.rows))
        return effects
