"""Quenching in a tree that heals: a designated broker tells those below it what is wanted above and beside them.

Rule: a broker that has been told nothing, or that nothing is known, sends all events up. So in doubt too many events
travel up, never too few. Source: docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..ids import ClientId
from .pubsub import Announce, Withdraw


@dataclass(frozen=True, slots=True)
class Above:
    """The filters that are wanted elsewhere, as a change to the previous message.

    Attributes
    ----------
    number
        Increases with each of the sender's messages.
    known
        Whether the sender knows what is wanted above itself; if not, the receiver knows nothing either.
    begins
        Whether this is the complete set instead of a change.
    changes
        Filters that are wanted from now on, and filters that are no longer wanted.
    """

    number: int
    known: bool
    begins: bool = False
    changes: tuple[Announce | Withdraw, ...] = ()


@dataclass(frozen=True, slots=True)
class AboveDone:
    """The answer to an `Above`: it is in force here and everywhere below. `high_water` is as in `Installed`."""

    number: int
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


QuenchMessage: TypeAlias = Above | AboveDone
