"""The highest epoch, term and round of a broker, which must never fall from one incarnation to the next.

Rules
-----
* None of these numbers ever decreases. A step that raises one is stable before any effect of that step
  leaves.
* The time at which the broker was last alive is recorded with them, often enough. Failures since that time
  are in doubt.
"""

from __future__ import annotations

import math
from typing import Final

from ...protocol.effects import Write
from ...protocol.ids import FIRST_ROUND, RoundNumber
from ..replay.rounds import Rounds
from .stores import Store

IDENTITY: Final = "identity"
ALIVE_ROWS_A_RETENTION: Final = 10
"""How often per retention period it is recorded that the broker is alive."""


class Identity:
    """The epoch, term and rounds of one broker, in its store.

    Parameters
    ----------
    rounds
        They are given what is known of an earlier incarnation.
    retention_seconds
        The retention period of the rounds.
    store
        None for a broker without a store.

    Attributes
    ----------
    rounds
        The rounds of the broker.
    epoch, term, after
        From an earlier incarnation: the highest epoch and term, and the highest round known to have begun anywhere.
    alive_at
        The last time at which that incarnation is known to have run.
    """

    SHARED = frozenset({"rounds"})

    def __init__(self, rounds: Rounds, retention_seconds: float, store: Store | None) -> None:
        self.epoch = self.term = 0
        self.after = FIRST_ROUND
        self.alive_at = 0.0
        self.rounds = rounds
        self._seconds = retention_seconds / ALIVE_ROWS_A_RETENTION
        self._stable = store is not None
        self._written: tuple[object, ...] = ()
        for _, (epoch, term, current, after, alive_at) in () if store is None else store.rows(IDENTITY):
            self.epoch, self.term, self.alive_at = epoch, term, alive_at
            rounds.current, self.after = RoundNumber(*current), RoundNumber(*after)
            rounds.expire(alive_at)
            rounds.repair_from(alive_at)

    @property
    def due(self) -> float:
        """The time after which it must be recorded that the broker is alive; infinity without a store."""
        return self.alive_at + self._seconds if self._stable else math.inf

    def writes(self, now: float, epoch: int, term: int, after: RoundNumber) -> list[Write]:
        """Return the writes that make the present state stable; none if it is stable already."""
        if not self._stable:
            return []
        known = epoch, term, tuple(self.rounds.current), tuple(max(after, self.rounds.current))
        if known == self._written and now - self.alive_at <= self._seconds:
            return []
        self._written, self.alive_at = known, now
        return [Write(IDENTITY, (0,), (*known, now))]
