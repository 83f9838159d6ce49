"""Quenching in a tree that heals: a designated broker tells those below it what is wanted above and beside them.

Rule: a broker that has been told nothing, or that nothing is known, sends all events up. So in doubt too many events
travel up, never too few. Source: docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
    """The answer to an `Above`: it is in force here and everywhere below."""

    number: int


QuenchMessage: TypeAlias = Above | AboveDone
