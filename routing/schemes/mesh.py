"""Routing on a full mesh: every broker is a neighbour of every other (paper 5, section 2.1: all agents are connected).

Rules, beside those of views
----------------------------
* All brokers are at one vertex of a view. In a network that heals, the next view defines the membership. In one that
  does not heal, the first view is the only one; a broker that cannot reach another considers it gone and tells all
  others.
* A broker tells each other broker what its own clients want, and each one answers: N - 1 messages and as many
  answers. The filters of a broker that is gone count as cancelled (paper 5, section 3.4), and its answers are not
  awaited.
* The publisher's broker determines which brokers want an event. Schemes on a mesh differ in how the copies reach
  them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position, Ways
from ...protocol.effects import Deliver, Effect, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Gone
from ...protocol.messages.views import MembershipView, ViewMember
from ..topologies.cube_members import CubeMembers
from .dissemination import Targets
from .viewed import ViewedRouter

CLUSTER_MAX: Final = 1 << 31
"""In the views of a mesh any number of brokers share one vertex."""


def single_brokers(
    positions: Sequence[Position],
    order: Sequence[BrokerId],
    beside: Callable[[MembershipView, BrokerId], tuple[BrokerId, ...]],
) -> list[Position]:
    """Return the places of brokers each of which is a cluster by itself, in a first view that labels them in `order`.

    `beside` returns the neighbours of a broker in that view.
    """
    labels = CubeMembers.of_clusters([order]).labels
    members = tuple(ViewMember(broker, labels[broker], 1) for broker in sorted(labels))
    view = MembershipView(1, 0, CLUSTER_MAX, members)
    return [
        replace(
            position,
            members=(position.broker,),
            designated=position.broker,
            parent=None,
            parent_cluster=None,
            children=beside(view, position.broker),
            child_clusters=(),
            view=view,
        )
        for position in positions
    ]


class MeshRouter(ViewedRouter):
    """A broker that knows what the clients of every other broker want.

    Parameters
    ----------
    position
        As returned by :meth:`positions`; without a view when the broker must join first.
    """

    def __init__(self, position: Position) -> None:
        self._others: list[BrokerId] = []
        super().__init__(position)

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers, each a one-broker cluster with all others below it."""
        everyone = tuple(position.broker for position in positions)
        return single_brokers(
            positions, everyone, lambda view, me: tuple(other for other in everyone if other != me)
        )

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one."""
        super().enter(view)
        self._others = [broker for broker in sorted(view.born) if broker != self.me]

    def onwards(self, source: BrokerId | None) -> list[BrokerId]:
        """Return all others for a change of its own; none otherwise, since each broker tells all others itself."""
        return self._others if source is None else []

    def neighbours(self) -> list[BrokerId]:
        """Return all others."""
        return self._others

    def behind(self, origin: BrokerId) -> list[BrokerId]:
        """Return all others for a broadcast of its own; none otherwise, since each broker tells all others itself."""
        return self._others if origin == self.me else []

    def deliver(self, batch: EventBatch) -> list[Effect]:
        """Return the effect that notifies this broker's own clients."""
        routes = self.table.route(batch)
        return [Deliver(batch, routes.clients, routes.starts, routes.rows)] if routes.clients else []

    def placed(self) -> Placed:
        """Return the place; for the books, events from another broker go no further."""
        others = tuple(self._others)
        return Placed(others, ways=Ways(((None, others), *((other, ()) for other in others))))

    # Payloads that travel separately from the events (see `actors.clients.bulk`).

    def wanting(self, batch: EventBatch) -> Targets:
        """Return the other brokers whose clients want events of a batch."""
        return tuple(sorted(link for link, _ in self.others.route(batch).links))

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return the brokers to which each of these sends a copy of what `origin` publishes: here the origin to all."""
        nothing: Targets = ()
        return dict.fromkeys(targets, nothing) | {origin: targets}

    # Brokers that are gone, in networks that do not heal.

    def _on_gone(self, source: Link, message: Gone) -> list[Effect]:
        gone = message.broker
        if gone not in self._others:
            return []
        told = [Send(other, message) for other in self._others if other not in (gone, source)]
        return [*told, *self.forget(gone)]

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Remove a broker that is gone from the view, and stop waiting for its echoes."""
        assert self.view is not None, "it was in it"
        self.view = replace(
            self.view, members=tuple(member for member in self.view.members if member.broker != broker)
        )
        self._others.remove(broker)
        self._forget_broker(broker)
        effects: list[Effect] = []
        for key, awaited in list(self._awaited.items()):
            awaited.behind.discard(broker)
            effects += self._echo(*key)
        return effects
