"""Links between brokers: connections, or datagrams; slow and lossy in bad weather, and cut, broken and mended.

Rules
-----
* A connection is first in, first out. A message arrives once and in order, or not at all: when one of its ends dies
  before it arrives, or the connection breaks, it is gone. With a `loss` in the model single messages are.
* While a link is cut, what would arrive is held; when it is mended, all of it arrives at once, in order, one delay
  later, before anything newer.
* A connection may break while both ends live: all that comes until it is renewed is lost, but for heartbeats.
* What bad weather adds to one message, all behind it wait for too (see :mod:`rayvous.faults.chaos.link_faults`).
* A datagram may be lost, arrive twice, or overtake others.
* The chance of a link comes from a generator of its own, seeded with (seed, link), so that what happens on one link
  does not depend on what happens on another, nor on any hash order.
* The group link of a member is apart from its unicast link to the same member, as multicast is from TCP.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import TypeAlias

from ..faults.chaos.link_faults import LinkFaults, pair_of
from ..protocol.effects import Received
from ..protocol.ids import BrokerId
from ..protocol.messages.recovery import RENDEZVOUS
from ..protocol.scenarios.scenario import LinkModel
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


Ticket: TypeAlias = "list[Connection]"
"""Of what is under way over a connection; empty when that is lost, because the connection broke, or an end died."""


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
        Takes what arrives, with the ticket under which it was sent.
    name
        The seed and the kind of link, for its own chance.

    Attributes
    ----------
    arrive
        Takes a message that is sent now, when it arrives.
    delay_seconds
        The least time that a message takes.
    broken_life
        The life of its source in which it has broken and has not been renewed; -1 for none.
    held
        What has arrived since it was cut, each with its ticket; None when it is not cut.
    plain
        Whether, in good weather, every message takes `delay_seconds`, as far as is known.
    known_lives
        The life of its source, and that of its target which this one knows of.
    lost_at
        Since when something is lost that was for another life of its target; None when nothing is.
    """

    __slots__ = (
        "_arrive",
        "_model",
        "_name",
        "_random",
        "_ticket",
        "arrive",
        "broken_life",
        "delay_seconds",
        "held",
        "known_lives",
        "last",
        "lost_at",
        "plain",
        "source",
        "target",
    )

    def __init__(
        self,
        source: Host,
        target: Host,
        delay_seconds: float,
        model: LinkModel,
        arrive: Callable[[Ticket, Received], None],
        name: tuple[int, str] = (0, "unicast"),
    ) -> None:
        self.source = source
        self.target = target
        self.held: list[tuple[Ticket, Received]] | None = None
        self.last = 0.0  # when the last message arrives that took longer
        self._arrive = arrive
        self._ticket: Ticket = [self]
        self.arrive: Callable[[Received], None] = MethodType(arrive, self._ticket)
        self.broken_life = -1
        self.known_lives = source.life, target.life
        self.lost_at: float | None = None
        self.plain = not (model.jitter_seconds or model.loss)
        self.delay_seconds = delay_seconds
        self._model = model
        self._name = name
        self._random: random.Random | None = None
        if model.spread_seconds:
            self._dice()

    def _dice(self) -> random.Random:
        if self._random is None:
            seed, kind = self._name
            self._random = random.Random(f"connection/{seed}/{kind}/{self.source.id}/{self.target.id}")
            self.delay_seconds += self._random.random() * self._model.spread_seconds
        return self._random

    def lose(self) -> None:
        """Lose what is under way."""
        self._ticket.clear()
        self._ticket = [self]
        self.arrive = MethodType(self._arrive, self._ticket)

    def break_off(self) -> None:
        """Lose what is under way, and what is sent before it is renewed."""
        self.lose()
        self.broken_life = self.source.life
        self.plain = False

    @property
    def pair(self) -> tuple[BrokerId, BrokerId]:
        """Its ends, the lower one first."""
        return pair_of(self.source.id, self.target.id)

    @property
    def broken(self) -> bool:
        """Whether it has broken, and its source, which knows or will, has not renewed it."""
        return self.broken_life == self.source.life

    def reaches(self, leaves: float, *, counts: bool) -> bool:
        """Return whether the target lives, in the life that the source knows of; else what `counts` is noted as lost.

        Who is started asks where all others are; who is there already learns of a new life when it is heard.
        """
        source, target = self.source, self.target
        if self.known_lives[0] != source.life:
            self.known_lives, self.lost_at = (source.life, target.life), None
        if RENDEZVOUS in (source.id, target.id):
            return target.alive  # it knows all, and is where it was
        if target.alive and self.known_lives[1] == target.life:
            return True
        if counts and self.lost_at is None:
            self.lost_at = leaves
        return False

    def arrival(self, leaves: float, link_faults: LinkFaults) -> float | None:
        """Return when a message that leaves now arrives; None when it is lost."""
        model = self._model
        arrives = leaves + self.delay_seconds
        if model.loss and self._dice().random() < model.loss:
            return None
        if model.jitter_seconds:
            arrives += self._dice().random() * model.jitter_seconds
        if link_faults.shakes:
            arrives += link_faults.extra(leaves, self.pair, self._dice())
        if arrives > self.last:
            self.last = arrives
        self.plain = False  # what comes next may have to wait for this one
        return self.last
