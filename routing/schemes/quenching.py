"""Quenching on the tree: brokers know what is wanted above and beside them, so events that nobody wants stop early.

Rules
-----
* A parent tells each child what anybody above or beside it wants, as the child tells it what is wanted below (Elvin's
  quenching, link by link; Siena's acyclic peers). So no event climbs just in case.
* In a cluster all members hear what each of them wants, since that is multicast anyway; they answer it, and the
  designated broker multicasts what is wanted outside.
* So events cross the links of their Steiner tree, and no others.

What it costs: a subscription that nothing covers goes to every broker instead of up one path, and `subscribe()` waits
for their answers; tables grow accordingly. It pays where events outnumber changes of subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.configs import Position
from .hierarchical import Hierarchical
from .hybrid import Hybrid
from .peer import PeerRouter


class QuenchedHybrid(PeerRouter):
    """A broker of a tree of multicast clusters that lets no event go where nobody wants it."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places as they are."""
        return Hybrid.positions(positions)


class QuenchedHierarchical(QuenchedHybrid):
    """The same on a tree without clusters."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree without clusters."""
        return Hierarchical.positions(positions)


class QuenchedMergedHybrid(QuenchedHybrid):
    """With perfect merging beside."""

    merges = True


class QuenchedMergedHierarchical(QuenchedHierarchical):
    """With perfect merging beside, on a tree without clusters."""

    merges = True


class MergedHybrid(Hybrid):
    """Hybrid routing with perfect merging on the way to the root."""

    merges = True


class MergedHierarchical(Hierarchical):
    """Hierarchical routing with perfect merging on the way to the root."""

    merges = True
