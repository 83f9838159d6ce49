"""Routing on a full mesh: every broker is a neighbour of every other (paper 5, section 2.1: all agents are connected).

Rules, beside those of views
----------------------------
* All stand at one vertex of a view. In a network that heals the next one says who is there; in one that does not, the
  first one is all that is ever said, and who cannot reach a broker takes it for gone, and tells all others.
* A broker tells each other what its own clients want, and is answered by each: N - 1 messages and as many answers. A
  broker that is gone has cancelled all that it wanted (paper 5, section 3.4), and its answers are not waited for.
* The broker of a publisher settles who wants an event. How copies come to them is what schemes on a mesh differ in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position, Ways
from ...protocol.effects import Deliver, Effect, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Gone
from ...protocol.messages.views import CubeSeat, CubeView
from ..topologies.cube_members import CubeMembers
from .dissemination import Targets
from .viewed import ViewedRouter

CLUSTER_MAX: Final = 1 << 31
"""In the views of a mesh all brokers stand at one vertex, however many they are."""


class MeshRouter(ViewedRouter):
    """A broker that knows what the clients of every other broker want.

    Parameters
    ----------
    position
        As :meth:`positions` gives it; without a view when the broker has to join first.
    """

    def __init__(self, position: Position) -> None:
        self._others: list[BrokerId] = []
        super().__init__(position)

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

    def enter(self, view: CubeView) -> None:
        """Take another view for the present one."""
        super().enter(view)
        self._others = [broker for broker in sorted(view.born) if broker != self.me]

    def onwards(self, source: BrokerId | None) -> list[BrokerId]:
        """Return all others for a change of its own; what others tell, they tell everybody themselves."""
        return self._others if source is None else []

    def neighbours(self) -> list[BrokerId]:
        """Return all others."""
        return self._others

    def behind(self, origin: BrokerId) -> list[BrokerId]:
        """Return all others for what this broker tells, and nobody for what others tell everybody themselves."""
        return self._others if origin == self.me else []

    def deliver(self, batch: EventBatch) -> list[Effect]:
        """Return the effect that notifies this broker's own clients."""
        routes = self.table.route(batch)
        return [Deliver(batch, routes.clients, routes.starts, routes.rows)] if routes.clients else []

    def placed(self) -> Placed:
        """Return where it stands: what comes from a broker goes no further, as far as books are concerned."""
        others = tuple(self._others)
        return Placed(others, ways=Ways(((None, others), *((other, ()) for other in others))))

    # Payloads that travel beside the events (see `actors.clients.bulk`).

    def wanting(self, batch: EventBatch) -> Targets:
        """Return the other brokers whose clients want something of a batch."""
        return tuple(sorted(link for link, _ in self.others.route(batch).links))

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return to whom each of these sends a copy of what comes from `origin`: here the origin to all."""
        nothing: Targets = ()
        return dict.fromkeys(targets, nothing) | {origin: targets}

    # Brokers that are gone, where nothing heals.

    def _on_gone(self, source: Link, message: Gone) -> list[Effect]:
        gone = message.broker
        if gone not in self._others:
            return []
        told = [Send(other, message) for other in self._others if other not in (gone, source)]
        return [*told, *self.forget(gone)]

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Take a broker that is gone out of the view, and wait for it no longer."""
        assert self.view is not None, "it was in it"
        self.view = replace(self.view, seats=tuple(seat for seat in self.view.seats if seat.broker != broker))
        self._others.remove(broker)
        self._forget_broker(broker)
        effects: list[Effect] = []
        for key, awaited in list(self._awaited.items()):
            awaited.behind.discard(broker)
            effects += self._echo(*key)
        return effects
