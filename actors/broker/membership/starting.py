"""What a broker that heals starts a life with."""

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
        Where it stands at the start of the network.
    recovery
        How quickly it notices and mends.
    router
        Makes the router of a place.
    rounds
        The rounds as this broker sees them: shared with the layer that sends again.
    identity
        What it knows of an earlier life.
    incarnation
        0 at the start of the network, or of a new cluster; higher after each restart, and for a broker that joins.
    seed
        Of the chance in its waits.
    joins
        Whether it comes to a network that runs already, as the designated broker of a new cluster.
    """

    position: Position
    recovery: Recovery
    router: Callable[[Position], Any]
    rounds: Rounds
    identity: Identity
    incarnation: int = 0
    seed: int = 0
    joins: bool = False
