"""The processes of a simulated network, and the connections between them.

Rules
-----
* A process is one broker, or the rendezvous point; it can die, be paused or be slow.
* A connection is first in, first out. A message arrives once and in order, or not at all: it is lost if one of the
  ends dies before it arrives, or if the connection breaks. With a `loss` in the model, single messages are lost.
* While a link is cut, messages that would arrive are held. When the link is mended, all of them arrive at once, in
  order, one delay later, before anything newer.
* A connection may break while both ends live. Everything sent until it is renewed is lost, except heartbeats.
* If a bad period delays a message, all messages behind it wait too (see :mod:`rayvous.simulator.link_faults`).
* The random choices of a link come from a generator of its own, seeded with (seed, link). What happens on one link
  therefore depends neither on other links nor on hash order.
* The group link to a member is separate from the unicast link to it, as multicast is separate from TCP.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeAlias

from ..protocol.effects import Died, Drained, Effect, Missed, Received, Ticked
from ..protocol.errors import StateDamaged
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.recovery import RENDEZVOUS
from ..protocol.scenarios.scenario import LinkModel
from ..recovery.durability.stores import MemoryStore, Store
from ..recovery.durability.summed import SummedStore
from .link_faults import LinkFaults, pair_of


def in_memory(broker: BrokerId) -> Store:
    """Return a store for a broker that lasts as long as the simulation."""
    return MemoryStore()


def in_memory_with_sums(broker: BrokerId) -> Store:
    """Return such a store with checksums, which detects damage, and is then cleared."""
    return SummedStore(MemoryStore())


@dataclass(frozen=True, slots=True)
class FromClient(Received[ClientId, Any]):
    """A message from a client, and the number of the client's connection that it came over."""

    connection: int


class Host:
    """One process.

    Parameters
    ----------
    id
        The broker, or RENDEZVOUS.
    cluster
        Its cluster; -1 for the rendezvous point.
    boot
        Makes the machine of one incarnation, given the number of the incarnation.
    store
        Where its machines store what must outlive them.

    Attributes
    ----------
    incarnation
        How often it has been restarted: its incarnation.
    alive, paused, factor
        Its state; a factor above 1 is slow.
    plain
        Whether a step consists only of the returned effects: the network is plain, and no fault affects this
        process.
    leaving
        Whether this incarnation was asked to leave by a fault: another one may come back.
    retiring, gone
        Whether it is to leave the network, and whether it has left for good.
    parent
        The broker above it at the start.
    attached
        The number of the connection of each client that it has heard.
    asked
        The same of each client that has asked it for the time, and may be about to come.
    links
        The links whose messages are lost when it dies.
    connections, group_connections, group
        Its links to others, and those of its group; None before the first use.
    free_at
        When it has finished sending what it is busy with.
    cleared
        How often its store was found damaged, and cleared.
    fuse
        How many effects it carries out before it dies in the middle of a step; None if it does not.
    ticked_at
        When it was last told the time.
    waiting
        Inputs that wait because it is paused or slow; None is a tick.
    """

    __slots__ = (
        "alive",
        "asked",
        "attached",
        "boot",
        "cleared",
        "cluster",
        "connections",
        "factor",
        "free_at",
        "fuse",
        "gone",
        "group",
        "group_connections",
        "handle",
        "id",
        "incarnation",
        "leaving",
        "links",
        "machine",
        "parent",
        "paused",
        "plain",
        "retiring",
        "serving",
        "store",
        "ticked_at",
        "waiting",
    )

    def __init__(
        self,
        id: BrokerId,
        cluster: int,
        boot: Callable[[int], Any],
        store: Store | None = None,
        parent: BrokerId | None = None,
    ) -> None:
        self.id = id
        self.cluster = cluster
        self.parent = parent
        self.boot = boot
        self.incarnation = -1
        self.cleared = 0
        self.alive = self.paused = self.serving = self.leaving = self.retiring = self.gone = False
        self.factor = 1.0
        self.attached: dict[ClientId, int] = {}
        self.asked: dict[ClientId, int] = {}
        self.links: list[Connection] = []
        self.connections: dict[BrokerId, Connection] = {}
        self.group_connections: dict[BrokerId, Connection] = {}
        self.group: list[Connection] | None = None
        self.fuse: int | None = None
        self.ticked_at = self.free_at = 0.0
        self.waiting: deque[Received | Drained | Missed | None] = deque()
        self.machine: Any = None
        self.store = MemoryStore() if store is None else store
        self.handle: Callable[[Received | Ticked | Died | Drained | Missed], list[Effect]]
        self.start()

    def start(self) -> None:
        """Start a new incarnation."""
        self.incarnation += 1
        self.alive = self.plain = True
        try:
            self.machine = self.boot(self.incarnation)
        except StateDamaged:
            assert isinstance(self.store, SummedStore)
            self.store.clear()  # the store does not contain what was written: start with an empty one
            self.cleared += 1
            self.machine = self.boot(self.incarnation)
        self.handle = self.machine.handle

    def connections_of(self, over_group: bool) -> dict[BrokerId, Connection]:
        """Return its links to others: those for multicasts, or those for single messages."""
        return self.group_connections if over_group else self.connections

    def die(self) -> None:
        """End this incarnation; the machine stays for inspection until the next one."""
        self.alive = self.paused = self.serving = self.leaving = False
        self.factor = 1.0
        self.fuse = None
        self.waiting.clear()
        self.attached.clear()
        self.asked.clear()
        for link in self.links:
            link.lose()
        self.gone = self.retiring  # a broker that was to leave is not restarted


Ticket: TypeAlias = "list[Connection]"
"""The connection of messages in flight; emptied when they are lost, because the connection broke or an end died."""


class Connection:
    """One directed link.

    Parameters
    ----------
    source, target
        Its ends.
    delay_seconds
        The minimum delay of a message, without the spread that the model adds once per link.
    model
        Spread, jitter and loss.
    arrive
        Takes each message that arrives, with the ticket under which it was sent.
    name
        The seed and the kind of link, for its own random generator.

    Attributes
    ----------
    arrive
        Takes a message sent under the current ticket, when it arrives.
    delay_seconds
        The minimum delay of a message.
    broken_incarnation
        The incarnation of its source in which it has broken and has not been renewed; -1 for none.
    held
        The messages that have arrived since it was cut, each with its ticket; None when there are none.
    plain
        Whether every message takes exactly `delay_seconds` outside of bad periods, as far as is known.
    source_incarnation, target_incarnation
        The incarnation of its source, and the incarnation of its target that the source knows of.
    lost_at
        When the first message was lost that was for another incarnation of its target; None if none was.
    """

    __slots__ = (
        "_arrive",
        "_model",
        "_name",
        "_random",
        "_ticket",
        "arrive",
        "broken_incarnation",
        "delay_seconds",
        "held",
        "last",
        "lost_at",
        "plain",
        "source",
        "source_incarnation",
        "target",
        "target_incarnation",
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
        self.last = 0.0  # the latest arrival of a message that took longer
        self._arrive = arrive
        self._ticket: Ticket = [self]
        self.arrive: Callable[[Received], None] = MethodType(arrive, self._ticket)
        self.broken_incarnation = -1
        self.source_incarnation, self.target_incarnation = source.incarnation, target.incarnation
        self.lost_at: float | None = None
        self.plain = not (model.jitter_seconds or model.loss)
        self.delay_seconds = delay_seconds
        self._model = model
        self._name = name
        self._random: random.Random | None = None
        if model.spread_seconds:
            self._rng()

    def _rng(self) -> random.Random:
        if self._random is None:
            seed, kind = self._name
            self._random = random.Random(f"connection/{seed}/{kind}/{self.source.id}/{self.target.id}")
            self.delay_seconds += self._random.random() * self._model.spread_seconds
        return self._random

    def lose(self) -> None:
        """Lose the messages in flight."""
        self._ticket.clear()
        self._ticket = [self]
        self.arrive = MethodType(self._arrive, self._ticket)

    def break_off(self) -> None:
        """Lose the messages in flight, and those sent before it is renewed."""
        self.lose()
        self.broken_incarnation = self.source.incarnation
        self.plain = False

    @property
    def pair(self) -> tuple[BrokerId, BrokerId]:
        """Its ends, the lower id first."""
        return pair_of(self.source.id, self.target.id)

    @property
    def broken(self) -> bool:
        """Whether it has broken, and its source, which knows or will learn that, has not renewed it."""
        return self.broken_incarnation == self.source.incarnation

    @property
    def knows_target(self) -> bool:
        """Whether the source, in its present incarnation, knows the present incarnation of the target."""
        return (
            self.source_incarnation == self.source.incarnation
            and self.target_incarnation == self.target.incarnation
        )

    def meet(self) -> None:
        """Note that the source knows the present incarnation of the target."""
        self.source_incarnation, self.target_incarnation, self.lost_at = (
            self.source.incarnation,
            self.target.incarnation,
            None,
        )

    def reaches(self, leaves: float, *, counts: bool) -> bool:
        """Return whether the target lives, as the source knows it; if not, note a loss that `counts`.

        A process that starts asks where all others are. A process that runs already learns of a new incarnation when it
        hears from it.
        """
        source, target = self.source, self.target
        if self.source_incarnation != source.incarnation:
            self.meet()
        if RENDEZVOUS in (source.id, target.id):
            return target.alive  # the rendezvous point knows all brokers, and its address does not change
        if target.alive and self.target_incarnation == target.incarnation:
            return True
        if counts and self.lost_at is None:
            self.lost_at = leaves
        return False

    def arrival(self, leaves: float, link_faults: LinkFaults) -> float | None:
        """Return when a message that leaves now arrives; None if it is lost."""
        model = self._model
        arrives = leaves + self.delay_seconds
        if model.loss and self._rng().random() < model.loss:
            return None
        if model.jitter_seconds:
            arrives += self._rng().random() * model.jitter_seconds
        if link_faults.shakes:
            arrives += link_faults.extra(leaves, self.pair, self._rng())
        if arrives > self.last:
            self.last = arrives
        self.plain = False  # the next message may have to wait for this one
        return self.last
