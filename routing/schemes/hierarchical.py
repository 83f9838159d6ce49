"""Hierarchical routing: every broker a node of the tree, no clusters (paper 1's baseline "hr"; JEDI, Siena).

The members of a cluster become children of its designated broker, each a tree node of its own, so that the same
network, subscribers and events can be routed with and without multicast and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...protocol.configs import Position
from .hybrid import Hybrid


class Hierarchical(Hybrid):
    """A broker of a tree without clusters."""

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a tree where each is a cluster of its own."""
        flat = []
        for position in positions:
            alone = replace(position, members=(position.broker,), designated=position.broker)
            if position.role == "NEB":
                flat.append(replace(alone, parent=position.designated, children=()))
            else:
                below = tuple(member for member in position.members if member != position.broker)
                flat.append(replace(alone, children=below + position.children))
        return flat
