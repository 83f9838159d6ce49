"""Links between brokers: connections, or datagrams; slow and lossy in bad weather, and cut, broken and mended.

Rules
-----
* A connection is first in, first out. A message arrives once and in order, or not at all: when one of its ends dies
  before it arrives, or the connection breaks, it is gone. With a `loss` in the model single messages are.
* While a link is cut, what would arrive is held; when it is mended, all of it arrives at once, in order, one delay
  later, before anything newer.
* A connection may break while both ends live: all that comes until it is renewed is lost, but for heartbeats.
* What bad weather adds to one message, all behind it wait for too (see :mod:`rayvous.chaos.weather`).
* A datagram may be lost, arrive twice, or overtake others.
* The chance of a link comes from a generator of its own, seeded with (seed, link), so that what happens on one link
  does not depend on what happens on another, nor on any hash order.
* The group link of a member is apart from its unicast link to the same member, as multicast is from TCP.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..chaos.weather import Weather, pair_of
from ..protocol.effects import Received
from ..protocol.ids import BrokerId
from ..protocol.scenario import LinkModel
from .hosts import Host


@dataclass(frozen=True, slots=True)
class Datagrams:
    """How bad datagrams are: chances from 0 to 1, and how much later a message may be than another."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder_seconds: float = 0.0

    def arrivals(self, arrives: float, dice: random.Random) -> list[float]:
        """Return when the copies of a datagram arrive that would arrive then."""
        if dice.random() < self.loss:
            return []
        copies = 1 + (dice.random() < self.duplicate)
        return [arrives + dice.random() * self.reorder_seconds for _ in range(copies)]


class Connection:
    """One directed link.

    Parameters
    ----------
    source, target
        Its ends.
    delay_seconds
        The least time that a message takes, but for what the model adds once for a link.
    model
        Spread, jitter and loss.
    arrive
        Takes what arrives, with the connection and the epoch in which it was sent.
    group
        Whether it is for multicasts.
    seed
        For its own chance.

    Attributes
    ----------
    arrive
        Takes a message that is sent now, when it arrives.
    delay_seconds
        The least time that a message takes.
    epoch
        Rises when what is under way is lost: when the connection breaks, or an end dies.
    broken_life
        The life of its source in which it has broken and has not been renewed; -1 for none.
    held
        What has arrived since it was cut, each with the epoch in which it was sent; None when it is not cut.
    steady
        Whether, in good weather, every message takes `delay_seconds`.
    """

    __slots__ = (
        "_arrive",
        "_group",
        "_model",
        "_random",
        "_seed",
        "arrive",
        "broken_life",
        "delay_seconds",
        "epoch",
        "held",
        "last",
        "source",
        "steady",
        "target",
    )

    def __init__(
        self,
        source: Host,
        target: Host,
        delay_seconds: float,
        model: LinkModel,
        arrive: Callable[[Connection, int, Received], None],
        *,
        group: bool = False,
        seed: int = 0,
    ) -> None:
        self.source = source
        self.target = target
        self.held: list[tuple[int, Received]] | None = None
        self.last = 0.0  # when the last message arrives that took longer
        self.epoch = -1
        self._arrive = arrive
        self.lose()
        self.broken_life = -1
        self.steady = not (model.jitter_seconds or model.loss)
        self.delay_seconds = delay_seconds
        self._model = model
        self._group, self._seed = group, seed
        self._random: random.Random | None = None
        if model.spread_seconds:
            self._dice()

    def _dice(self) -> random.Random:
        if self._random is None:
            kind = "group" if self._group else "unicast"
            self._random = random.Random(f"connection/{self._seed}/{kind}/{self.source.id}/{self.target.id}")
            self.delay_seconds += self._random.random() * self._model.spread_seconds
        return self._random

    def lose(self) -> None:
        """Lose what is under way."""
        self.epoch += 1
        self.arrive: Callable[[Received], None] = partial(self._arrive, self, self.epoch)

    @property
    def pair(self) -> tuple[BrokerId, BrokerId]:
        """Its ends, the lower one first."""
        return pair_of(self.source.id, self.target.id)

    @property
    def broken(self) -> bool:
        """Whether it has broken, and its source, which knows or will, has not renewed it."""
        return self.broken_life == self.source.life

    def arrival(self, leaves: float, weather: Weather) -> float | None:
        """Return when a message that leaves now arrives; None when it is lost."""
        model = self._model
        arrives = leaves + self.delay_seconds
        if model.loss and self._dice().random() < model.loss:
            return None
        if model.jitter_seconds:
            arrives += self._dice().random() * model.jitter_seconds
        if weather.shakes:
            arrives += weather.extra(leaves, self.pair, self._dice())
        if arrives > self.last:
            self.last = arrives
        return self.last
