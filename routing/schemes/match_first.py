"""Match-first: every broker knows every subscription (paper 1, section 1: the second simple approach; Gryphon).

Rules
-----
* A subscription is announced over every link of the tree, covered or not: 2 (N - 1) messages among N brokers
  including the answers, and an entry in each of the N tables.
* An event goes only where it is wanted: over the links of its Steiner tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.configs import Position
from ...protocol.messages.recovery import Recovery
from .claims import Claims, Membership
from .hierarchical import NodeRouter
from .peer import PeerRouter
from .quench_above import MatchFirstAbove
from .router import Router


class MatchFirst(PeerRouter):
    """A broker of a tree that knows all subscriptions, and the link behind which each is wanted."""

    claims = Claims(wanted_only=True)
    membership = Membership.NODES
    covers = False

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree without clusters."""
        return NodeRouter.positions(positions)

    @classmethod
    def healing(cls, position: Position, recovery: Recovery) -> Router:
        """Return a router that may change its place, and tells everything up and down."""
        return MatchFirstAbove(position)
