"""What a broker must never know less of than in an earlier life: the highest epoch, term and round.

Rules
-----
* None of them ever runs backwards; a step that raises one is stable before anything of that step leaves.
* With them stands when the broker lived last, written often enough: what has failed since then is in doubt.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ...protocol.effects import Write
from ...protocol.ids import FIRST_ROUND, RoundNumber
from ..replay.rounds import Rounds
from .stores import Store

IDENTITY: Final = "identity"
ALIVE_ROWS_A_RETENTION: Final = 10
"""How often in a retention it is written that the broker lives."""


class Identity:
    """The epoch, term and rounds of one broker, in its store.

    Parameters
    ----------
    rounds
        They get what is known of an earlier life.
    retention_seconds
        Of the rounds.
    store
        None for a broker that makes nothing stable.

    Attributes
    ----------
    epoch, term, after
        Of an earlier life: the highest epoch and term, and the highest round known to have begun anywhere.
    alive_at
        When that life was known to go on last.
    """

    SHARED = frozenset({"_rounds"})

    def __init__(self, rounds: Rounds, retention_seconds: float, store: Store | None) -> None:
        self.epoch = self.term = 0
        self.after = FIRST_ROUND
        self.alive_at = 0.0
        self._rounds = rounds
        self._seconds = retention_seconds / ALIVE_ROWS_A_RETENTION
        self._stable = store is not None
        self._written: tuple[Any, ...] = ()
        for _, (epoch, term, current, after, alive_at) in () if store is None else store.rows(IDENTITY):
            self.epoch, self.term, self.alive_at = epoch, term, alive_at
            rounds.current, self.after = RoundNumber(*current), RoundNumber(*after)
            rounds.expire(alive_at)
            rounds.doubt_from(alive_at)

    @property
    def due(self) -> float:
        """The moment after which it is to be written that the broker lives; never, without a store."""
        return self.alive_at + self._seconds if self._stable else math.inf

    def writes(self, now: float, epoch: int, term: int, after: RoundNumber) -> list[Write]:
        """Return what makes stable what is known by now; nothing when that is so already."""
        if not self._stable:
            return []
        known = epoch, term, tuple(self._rounds.current), tuple(max(after, self._rounds.current))
        if known == self._written and now - self.alive_at <= self._seconds:
            return []
        self._written, self.alive_at = known, now
        return [Write(IDENTITY, (0,), (*known, now))]
