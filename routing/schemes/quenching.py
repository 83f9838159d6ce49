"""Quenching on the tree: brokers know what is wanted above and beside them, so unwanted events stop early.

Rules
-----
* A parent tells each child what is wanted above or beside the child, as the child tells it what is wanted below
  (Elvin's quenching, link by link; Siena's acyclic peers). So no event goes up speculatively.
* In a cluster all members hear what each of them wants, because that is multicast anyway. The members answer, and the
  designated broker multicasts what is wanted outside.
* So events cross the links of their Steiner tree, and no others.

Cost: a subscription that no other covers goes to every broker instead of up one path, and `subscribe()` waits for the
answers of all; tables grow accordingly. Quenching pays off where events outnumber changes of subscriptions.
"""

from __future__ import annotations

from ...protocol.configs import Position
from ...protocol.messages.recovery import Recovery
from .claims import Claims, Membership
from .peer import PeerRouter
from .quench_above import QuenchedAbove, QuenchedMergedAbove
from .router import Router


class QuenchedHybrid(PeerRouter):
    """A broker of a tree of multicast clusters that sends no event where it is not wanted."""

    claims = Claims(multicast=True, wanted_only=True)
    membership = Membership.CLUSTERS

    @classmethod
    def healing(cls, position: Position, recovery: Recovery) -> Router:
        """Return a router that may change its place, and is told what is wanted above."""
        return (QuenchedMergedAbove if cls.merges else QuenchedAbove)(position)


class QuenchedMergedHybrid(QuenchedHybrid):
    """`QuenchedHybrid` with perfect merging."""

    merges = True
