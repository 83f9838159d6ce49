"""The parameters with which a broker that heals starts an incarnation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ...protocol.configs import Position
from ...protocol.messages.recovery import Recovery
from ..durability.identity import Identity
from ..replay.rounds import Rounds

R = TypeVar("R")


class Start(NamedTuple, Generic[R]):
    """The start of one incarnation of a broker that heals.

    Attributes
    ----------
    position
        Its place at the start of the network.
    recovery
        How quickly the broker detects and repairs failures.
    router
        Makes the router of a place.
    rounds
        The rounds as this broker sees them; shared with the retransmission layer.
    identity
        The state that the broker has from an earlier incarnation.
    incarnation
        0 at the start of the network, or of a new cluster; higher after each restart, and for a broker that joins.
    seed
        Seed of the random part of its waits.
    joins
        Whether it joins a running network, as the designated broker of a new cluster.
    """

    position: Position
    recovery: Recovery
    router: Callable[[Position], R]
    rounds: Rounds
    identity: Identity
    incarnation: int = 0
    seed: int = 0
    joins: bool = False
