"""Links as connections: first in first out, holding what they are given while cut, slow and lossy in bad weather.

Rules
-----
* A message arrives once and in order, or not at all: when one of its ends dies before it arrives, it is gone.
* While a link is cut, what would arrive is held; when it is mended, all of it arrives at once, in order, one delay
  later, before anything newer.
* A connection may break while both ends live: what is under way is lost, and all that comes until it is renewed.
* What bad weather adds to one message, all behind it wait for too (see :mod:`rayvous.chaos.weather`).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, NamedTuple

from ..chaos.weather import Weather, pair_of
from ..protocol.scenario import LinkModel
from .hosts import Host


class Underway(NamedTuple):
    """A message on a link, and which lives of its two ends it belongs to."""

    connection: Connection
    message: Any
    sender_life: int
    target_life: int
    breaks: int = 0


class Connection:
    """One directed link of the hostile network.

    Parameters
    ----------
    source, target
        Its ends.
    delay_seconds
        The least time that a message takes.
    model
        Spread and jitter; a connection has no loss.
    name, seed
        For its own chance.

    Attributes
    ----------
    breaks
        How often it has broken.
    broken_life
        The life of its source in which it has broken and has not been renewed; -1 for none.
    """

    __slots__ = (
        "_delay",
        "_dice",
        "_jitter",
        "_last",
        "breaks",
        "broken_life",
        "held",
        "pair",
        "source",
        "target",
    )

    def __init__(
        self, source: Host, target: Host, delay_seconds: float, model: LinkModel, name: str, seed: int
    ) -> None:
        self.source = source
        self.target = target
        self.pair = pair_of(source.id, target.id)
        self.held: deque[Underway] = deque()
        self._dice = random.Random(f"connection/{seed}/{name}")
        self._delay = delay_seconds + self._dice.random() * model.spread_seconds
        self._jitter = model.jitter_seconds
        self._last = 0.0
        self.breaks = 0
        self.broken_life = -1

    @property
    def broken(self) -> bool:
        """Whether it has broken, and its source, which knows or will, has not renewed it."""
        return self.broken_life == self.source.life

    def arrival(self, leaves: float, weather: Weather) -> float:
        """Return when a message that leaves now arrives."""
        arrives = leaves + self._delay
        if self._jitter:
            arrives += self._dice.random() * self._jitter
        if weather.shakes:
            arrives += weather.extra(leaves, self.pair, self._dice)
        if arrives > self._last:
            self._last = arrives
        return self._last

    @property
    def delay_seconds(self) -> float:
        """The least time that a message takes."""
        return self._delay
