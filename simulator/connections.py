"""Links as connections: first in first out, holding what they are given while cut, slow and lossy in bad weather.

Rules
-----
* A message arrives once and in order, or not at all: when one of its ends dies before it arrives, it is gone.
* While a link is cut, what would arrive is held; when it is mended, all of it arrives at once, in order, one delay
  later, before anything newer.
* A drop shows as delay: the transport sends again after :data:`RETRY_SECONDS`, then after twice that, and so on; what
  is behind waits too. A duplicate is discarded by the transport.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..faults.plans import Shake
from ..protocol.ids import BrokerId
from ..protocol.scenario import LinkModel
from .hosts import Host

RETRY_SECONDS: Final = 0.2
RETRIES_MAX: Final = 6


class Underway(NamedTuple):
    """A message on a link, and which lives of its two ends it belongs to."""

    connection: Connection
    message: Any
    sender_life: int
    target_life: int


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
    """

    __slots__ = ("_delay", "_dice", "_jitter", "_last", "held", "pair", "source", "target")

    def __init__(
        self, source: Host, target: Host, delay_seconds: float, model: LinkModel, name: str, seed: int
    ) -> None:
        self.source = source
        self.target = target
        self.pair = (source.id, target.id) if source.id < target.id else (target.id, source.id)
        self.held: deque[Underway] = deque()
        self._dice = random.Random(f"connection/{seed}/{name}")
        self._delay = delay_seconds + self._dice.random() * model.spread_seconds
        self._jitter = model.jitter_seconds
        self._last = 0.0

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


@dataclass(slots=True)
class Weather:
    """What is bad about the links at present.

    Attributes
    ----------
    shakes
        (until when, what) of each bad spell.
    dropped, duplicated
        How many messages the transport had to send again, and how many copies it discarded.
    """

    shakes: list[tuple[float, Shake]] = field(default_factory=list)
    dropped: int = 0
    duplicated: int = 0

    def extra(self, now: float, pair: tuple[BrokerId, BrokerId], dice: random.Random) -> float:
        """Return how much longer a message takes on the link between a pair, and forget what is over."""
        seconds = 0.0
        self.shakes = [entry for entry in self.shakes if entry[0] > now]
        for _, shake in self.shakes:
            if shake.brokers and pair[0] not in shake.brokers and pair[1] not in shake.brokers:
                continue
            seconds += dice.random() * shake.delay_seconds
            retry = RETRY_SECONDS
            for _ in range(RETRIES_MAX):
                if dice.random() >= shake.drop:
                    break
                self.dropped += 1
                seconds += retry
                retry *= 2
            if dice.random() < shake.duplicate:
                self.duplicated += 1
        return seconds


@dataclass(slots=True)
class Cuts:
    """Which pairs of brokers cannot reach each other, and why: a pair is mended when no reason is left."""

    reasons: dict[tuple[BrokerId, BrokerId], set[object]] = field(default_factory=dict)

    def add(self, one: BrokerId, other: BrokerId, reason: object) -> None:
        """Cut the link between two brokers, both ways."""
        self.reasons.setdefault((min(one, other), max(one, other)), set()).add(reason)

    def remove(self, reason: object) -> list[tuple[BrokerId, BrokerId]]:
        """Take a reason away everywhere; return the pairs that are mended by that."""
        mended = []
        for pair, reasons in list(self.reasons.items()):
            reasons.discard(reason)
            if not reasons:
                del self.reasons[pair]
                mended.append(pair)
        return mended

    def clear(self) -> list[tuple[BrokerId, BrokerId]]:
        """Mend everything; return the pairs that were cut."""
        mended = list(self.reasons)
        self.reasons.clear()
        return mended
