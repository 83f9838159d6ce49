"""What a scheme says of itself, as data on its class: its claims, and who decides which brokers are in the network.

Every scheme claims promises 1 to 3 as long as nothing fails: each event exactly once, to all subscribers that
want it, in order. This module has the claims in which schemes differ; the conformance suite verifies them, and
docs/schemes.md describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Claims:
    """What one scheme claims beyond promises 1 to 3.

    Attributes
    ----------
    multicast
        It sends one message to all members of a cluster.
    wanted_only
        An event goes only to brokers that want it or lie on the path to one that does.
    announces_first
        A subscription is confirmed when others have answered, so lost messages may leave it unconfirmed.
    survives_deaths
        Without `recovery`: events of live brokers reach subscribers of live brokers when other brokers die.
    rings
        Brokers pass events on in cycles of links that may all be full at once; so waits for free space are limited
        there.
    copies
        An event may cross a link in both directions, and its receivers drop further copies.
    fans_out
        Messages to all members of a cluster go from member to member instead of by multicast.
    """

    multicast: bool = False
    wanted_only: bool = False
    announces_first: bool = True
    survives_deaths: bool = False
    rings: bool = False
    fans_out: bool = False
    copies: bool = False


class Membership(Enum):
    """Who decides, in a network with `recovery`, which brokers are in it; `recovery.membership` implements each kind.

    Attributes
    ----------
    FIXED
        Nobody: the network cannot repair itself, and `recovery` is refused.
    CLUSTERS
        The brokers of a tree of clusters: members elect a successor, clusters find another parent (decision 0011).
    NODES
        The same where each broker is a node of the tree by itself, and has no other members that replace it.
    VIEWS
        The rendezvous point, in views; brokers may leave (decision 0017).
    """

    FIXED = "fixed"
    CLUSTERS = "clusters"
    NODES = "nodes"
    VIEWS = "views"

    @property
    def heals(self) -> bool:
        """Whether a network with `recovery` repairs itself."""
        return self is not Membership.FIXED
