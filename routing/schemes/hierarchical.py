"""Hierarchical routing: a tree of brokers without clusters (paper 1's baseline "hr"; JEDI, Siena).

The paper does not say where the normal brokers are when there are no clusters. Two interpretations are implemented,
for the same network, subscribers and events, so that each can be compared with multicast:

* ``hierarchical``: only designated brokers have others below them. The members of a cluster become children of
  their designated broker, beside its child clusters, and it sends to each of them separately. So the degree of
  the tree holds for the clusters only.
* ``hierarchical+nodes``: every broker is a node of the tree like any other, and the degree holds for all. A
  designated broker without a free place puts a broker below one of its members.

Source: paper 1, 5.1; docs/decisions/0030-what-the-experiment-of-paper-1-counts.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from .claims import Claims, Membership
from .clusters import ClusterRouter
from .quenching import QuenchedHybrid
from .router import Router


class NodeRouter(ClusterRouter):
    """A broker of a tree without clusters, in which each member of a cluster is a leaf below its designated broker."""

    claims = Claims()
    membership = Membership.NODES

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree where each is a one-broker cluster."""
        children = {
            position.broker: _others(position) + position.children
            for position in positions
            if position.role != "NEB"
        }
        return _flat(positions, children)


class HierarchicalNodes(NodeRouter):
    """A broker of a tree without clusters, in which every broker may have others below it."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree in which no broker has more children than a cluster had.

        A designated broker keeps its child clusters, except for one place that goes to one of its members.
        Brokers that find no place there go below that member, or below the next one.
        """
        speakers = [position for position in positions if position.role != "NEB"]
        degree = max(2, *(len(position.children) for position in speakers))
        children: dict[BrokerId, tuple[BrokerId, ...]] = {}
        for position in speakers:
            members = _others(position)
            first = position.children[: degree - 1] if members else position.children
            waiting = deque((*members, *position.children[len(first) :]))
            children[position.broker] = first
            nodes = deque((position.broker, *members))
            while waiting:
                node = nodes.popleft()
                mine = children.get(node, ())
                room = [waiting.popleft() for _ in range(min(degree - len(mine), len(waiting)))]
                children[node] = (*mine, *room)
        return _flat(positions, children)


class MergedHierarchical(NodeRouter):
    """Hierarchical routing with perfect merging on the way to the root."""

    merges = True


class ForwardingHierarchical(NodeRouter):
    """Hierarchical routing under which every subscription goes up to the root."""

    forwards_all = True


class QuenchedHierarchical(QuenchedHybrid):
    """Quenching on a tree without clusters."""

    claims = Claims(wanted_only=True)
    membership = Membership.NODES

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree without clusters."""
        return NodeRouter.positions(positions)


class QuenchedMergedHierarchical(QuenchedHierarchical):
    """`QuenchedHierarchical` with perfect merging."""

    merges = True


class Hierarchical(NodeRouter):
    """Hierarchical routing, and its options."""

    options: ClassVar[Mapping[str, type[Router]]] = {
        "nodes": HierarchicalNodes,
        "quench": QuenchedHierarchical,
        "merge": MergedHierarchical,
        "quench+merge": QuenchedMergedHierarchical,
        "all": ForwardingHierarchical,
    }


def _others(position: Position) -> tuple[BrokerId, ...]:
    return tuple(member for member in position.members if member != position.broker)


def _flat(positions: Sequence[Position], children: dict[BrokerId, tuple[BrokerId, ...]]) -> list[Position]:
    """Return the places where each broker is a one-broker cluster, with these children."""
    above = {child: parent for parent, below in children.items() for child in below}
    return [
        replace(
            position,
            members=(position.broker,),
            designated=position.broker,
            parent=above.get(position.broker),
            children=children.get(position.broker, ()),
        )
        for position in positions
    ]
