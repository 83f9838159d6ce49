"""Routing on a full mesh that heals: who is on it is said by views (paper 5, sections 2.1 and 3.4).

Rules, beside those of views
----------------------------
* A broker tells each other what it wants, and is answered by each (2.1: all agents are connected).
* The broker of a publisher settles who wants an event. All of them are in its view; how copies come to them is what
  schemes on a mesh differ in: `point_to_point`, `lbdd_views`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position
from ...protocol.effects import Deliver, Effect
from ...protocol.ids import BrokerId
from ...protocol.messages.views import CubeView
from .dissemination import Targets
from .mesh import MeshRouter, straight_to
from .viewed import ViewedRouter


class MeshInViews(ViewedRouter):
    """A broker that knows what the clients of every other broker of its view want.

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
        """Return the places on a mesh, with the first view."""
        return MeshRouter.positions(positions)

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
        return Placed(others, ways=straight_to(others))

    # Payloads that travel beside the events (see `actors.clients.bulk`).

    def wanting(self, batch: EventBatch) -> Targets:
        """Return the other brokers whose clients want something of a batch."""
        return tuple(sorted(link for link, _ in self.others.route(batch).links))

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return to whom each of these sends a copy of what comes from `origin`: here the origin to all."""
        nothing: Targets = ()
        return dict.fromkeys(targets, nothing) | {origin: targets}
