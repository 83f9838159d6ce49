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

from collections.abc import Sequence

from ...protocol.configs import Position
from .hierarchical import Hierarchical
from .hybrid import Hybrid
from .peer import PeerRouter


class QuenchedHybrid(PeerRouter):
    """A broker of a tree of multicast clusters that sends no event where it is not wanted."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places unchanged."""
        return Hybrid.positions(positions)


class QuenchedHierarchical(QuenchedHybrid):
    """The same on a tree without clusters."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree without clusters."""
        return Hierarchical.positions(positions)


class QuenchedMergedHybrid(QuenchedHybrid):
    """`QuenchedHybrid` with perfect merging."""

    merges = True


class QuenchedMergedHierarchical(QuenchedHierarchical):
    """`QuenchedHierarchical` with perfect merging."""

    merges = True


class MergedHybrid(Hybrid):
    """Hybrid routing with perfect merging on the way to the root."""

    merges = True


class MergedHierarchical(Hierarchical):
    """Hierarchical routing with perfect merging on the way to the root."""

    merges = True
