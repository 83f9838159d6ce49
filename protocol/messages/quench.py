"""What a designated broker tells the ones below of what is wanted above and beside them, in a tree that heals.

Rule: who has been told nothing, or that nothing is known, sends all events up; so in doubt too much climbs, never too
little. Source: docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .pubsub import Announce, Withdraw


@dataclass(frozen=True, slots=True)
class Above:
    """What is wanted elsewhere, as a change of what was said before.

    Attributes
    ----------
    number
        Rises with each of the sender's messages.
    known
        Whether the sender knows what is wanted above itself; if not, nothing is known.
    begins
        Whether this is the whole set, and not a change.
    changes
        Filters that are wanted from now on, and such as are not any more.
    """

    number: int
    known: bool
    begins: bool = False
    changes: tuple[Announce | Withdraw, ...] = ()


@dataclass(frozen=True, slots=True)
class AboveDone:
    """The answer to an `Above`: it counts here, and everywhere below."""

    number: int


QuenchMessage: TypeAlias = Above | AboveDone
