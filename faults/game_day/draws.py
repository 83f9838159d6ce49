"""What a seed determines of a game day: for each fault its kind, whom it hits, when it comes and how long it lasts.

Rule: the n-th fault is drawn from the seed and n alone, whatever happened before. Who is there to be hit depends on the
network, so a pick is a number from 0 up to 1.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from .terms import Terms

GAPS: Final = (0.2, 3.0)
"""The shortest and the longest time between two faults, in mean times."""
DELAY_SECONDS: Final = (0.02, 0.2)
"""The delay of each message of a slow link, at most."""


@dataclass(frozen=True, slots=True)
class DrawnFault:
    """One fault, before it is known whom it can hit.

    Attributes
    ----------
    number
        Its number, from 1.
    kinds
        All kinds that are allowed, the drawn one first; the others in case it can hit nobody.
    pick
        From 0 up to 1: selects whom it hits.
    gap_seconds
        How long the network is left whole before it.
    lease_seconds
        How long it lasts.
    delay_seconds
        By how much it delays messages if it makes links slow.
    """

    number: int
    kinds: tuple[str, ...]
    pick: float
    gap_seconds: float
    lease_seconds: float
    delay_seconds: float


def drawn(terms: Terms, number: int) -> DrawnFault:
    """Return the fault of that number, from 1."""
    rng = random.Random(f"game day/{terms.seed}/{number}")
    kinds = rng.sample(terms.kinds, len(terms.kinds))
    mean = 1.0 / terms.per_second
    least, most = (part * mean for part in GAPS)
    return DrawnFault(
        number,
        tuple(kinds),
        rng.random(),
        min(max(least, rng.expovariate(terms.per_second)), most),
        round(rng.uniform(*terms.lease_seconds), 3),
        round(rng.uniform(*DELAY_SECONDS), 3),
    )


__all__ = ["DrawnFault", "drawn"]
