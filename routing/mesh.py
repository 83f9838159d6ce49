"""Routing on a full mesh: every broker is a neighbour of every other (paper 5, section 2.1: all agents are connected).

Rules
-----
* A broker tells all others what its own clients want, and nothing of what it has heard: N - 1 messages and as many
  answers for a subscription, and an entry in each of the N tables.
* What a broker hears is for its own clients, or for a scheme to pass on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..protocol.configs import Position
from ..protocol.ids import Link
from .outlets import Outlet
from .peer import PeerRouter

EVERYBODY: Final[Link] = -2


class MeshRouter(PeerRouter):
    """A broker that knows what the clients of every other broker want."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers, each a cluster of its own with all others below it."""
        everyone = tuple(position.broker for position in positions)
        return [
            replace(
                position,
                members=(position.broker,),
                designated=position.broker,
                parent=None,
                parent_cluster=None,
                children=tuple(other for other in everyone if other != position.broker),
                child_clusters=(),
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
