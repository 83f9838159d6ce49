"""The state with which a broker that heals starts a life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....faults.durability.identity import Identity
from ....faults.replay.rounds import Rounds
from ....protocol.configs import Position
from ....protocol.messages.recovery import Recovery


class Start(NamedTuple):
    """One life of a broker that heals, at its start.

    Attributes
    ----------
    position
        The place at the start of the network.
    recovery
        How quickly failures are detected and repaired.
    router
        Makes the router of a place.
    rounds
        The rounds of this broker, shared with the layer that retransmits.
    identity
        What is known of an earlier life.
    incarnation
        0 at the start of the network, or of a new cluster; higher after each restart, and for a broker that
        joins.
    seed
        Of the random numbers for its waits.
    joins
        Whether it joins a running network, as the designated broker of a new cluster.
    """

    position: Position
    recovery: Recovery
    router: Callable[[Position], Any]
    rounds: Rounds
    identity: Identity
    incarnation: int = 0
    seed: int = 0
    joins: bool = False
