"""Routing on a full mesh: every broker is a neighbour of every other (paper 5, section 2.1: all agents are connected).

Rules
-----
* A broker tells all others what its own clients want, and nothing of what it has heard: N - 1 messages and as many
  answers for a subscription, and an entry in each of the N tables.
* What a broker hears is for its own clients, or for a scheme to pass on.
* Places have the first view, with which a mesh that heals begins (`mesh_views`): there all stand at one vertex.
* Who cannot reach a broker takes it for gone, and tells all others. A broker that is gone has cancelled all that it
  wanted (paper 5, section 3.4), and its answers are not waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position, Ways
from ...protocol.effects import Deliver, Effect, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Gone
from ...protocol.messages.views import CubeSeat, CubeView
from ..interest.outlets import Outlet
from ..topologies.cube_members import CubeMembers
from .peer import PeerRouter

EVERYBODY: Final[Link] = -2

CLUSTER_MAX: Final = 1 << 31
"""In the views of a mesh all brokers stand at one vertex, however many they are."""


def straight_to(others: tuple[BrokerId, ...]) -> Ways:
    """Return how events go at a broker from where they go straight to any other, and no further."""
    return Ways(((None, others), *((other, ()) for other in others)))


class MeshRouter(PeerRouter):
    """A broker that knows what the clients of every other broker want."""

    relays: ClassVar[bool] = False

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers, each a cluster of its own with all others below it."""
        everyone = tuple(position.broker for position in positions)
        labels = CubeMembers.of_clusters([everyone]).labels
        view = CubeView(
            1, 0, CLUSTER_MAX, tuple(CubeSeat(broker, labels[broker], 1) for broker in sorted(labels))
        )
        return [
            replace(
                position,
                members=(position.broker,),
                designated=position.broker,
                parent=None,
                parent_cluster=None,
                children=tuple(other for other in everyone if other != position.broker),
                child_clusters=(),
                cube=view,
            )
            for position in positions
        ]

    def make_outlets(self) -> dict[Link, Outlet]:
        """Return one, on which everybody is told; none for a broker that is alone."""
        others = self.position.neighbours
        return {EVERYBODY: Outlet(others, EVERYBODY, covering=False)} if others else {}

    def passes(self, link: Link, outlet: Link) -> bool:
        """Return whether it is a client's link: others speak for themselves."""
        return isinstance(link, str)

    def outlet_of(self, source: Link) -> Link:
        """Return the one outlet."""
        return EVERYBODY

    def placed(self) -> Placed:
        """Return where it stands: what comes from a broker goes no further, as far as books are concerned."""
        others = self.position.children
        return Placed(others, ways=straight_to(others))

    # Payloads that travel beside the events (see `actors.clients.bulk`).

    def wanting(self, batch: EventBatch) -> tuple[BrokerId, ...]:
        """Return the other brokers whose clients want something of a batch."""
        return tuple(sorted(link for link, _ in self.table.route(batch).links))

    def copies(self, origin: BrokerId, targets: tuple[BrokerId, ...]) -> dict[BrokerId, tuple[BrokerId, ...]]:
        """Return to whom each of these sends a copy of what comes from `origin`: here the origin to all."""
        nothing: tuple[BrokerId, ...] = ()
        return dict.fromkeys(targets, nothing) | {origin: targets}

    def deliver(self, batch: EventBatch) -> list[Effect]:
        """Return the effect that notifies this broker's own clients."""
        routes = self.table.route(batch)
        return [Deliver(batch, routes.clients, routes.starts, routes.rows)] if routes.clients else []

    def _on_gone(self, source: Link, message: Gone) -> list[Effect]:
        gone = message.broker
        if gone not in self._neighbours:
            return []
        self._neighbours -= {gone}
        told = [Send(other, message) for other in sorted(self._neighbours) if other != source]
        return [*told, *self.forget(gone)]

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Take a broker that is gone out of the table, and wait for it no longer."""
        effects: list[Effect] = []
        for item in self.table.held_by(broker, broker):
            effects += self._release(item, broker, broker)
        for name, outlet in self.outlets.items():
            effects += self._do(name, outlet.leave(broker))
        return effects
