"""Links that are datagrams: each may be lost, arrive twice, or overtake others."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Datagrams:
    """The quality of datagrams: probabilities, and the maximum additional delay of one datagram over another."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder_seconds: float = 0.0

    def arrivals(self, arrives: float, rng: random.Random) -> list[float]:
        """Return the arrival times of the copies of a datagram that is due at `arrives`."""
        if rng.random() < self.loss:
            return []
        copies = 1 + (rng.random() < self.duplicate)
        return [arrives + rng.random() * self.reorder_seconds for _ in range(copies)]
