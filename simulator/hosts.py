"""A process of the hostile network: one broker, or the rendezvous point; it can die, stand still or be slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ..actors.broker import Broker
from ..faults.stores import MemoryStore, Store
from ..protocol.admission import AdmissionConfig
from ..protocol.configs import Position
from ..protocol.effects import Drained, Effect, Missed, Received, Ticked
from ..protocol.ids import BrokerId, ClientId
from ..protocol.recovery import Recovery


class Machine(Protocol):
    """What runs in a process."""

    @property
    def handle(self) -> Callable[[Any], list[Any]]:
        """Take one event in and return what is to be done."""
        ...


class Host:
    """One process.

    Parameters
    ----------
    id
        The broker, or RENDEZVOUS.
    cluster
        Its cluster; -1 for the rendezvous point.
    boot
        Makes the machine of one life, by its number.
    store
        Where its machines make stable what must outlive them.

    Attributes
    ----------
    life
        How often it has been started, less one: the incarnation.
    alive, paused, factor
        Its state; a factor above 1 is slow.
    retiring, gone
        Whether it is to leave the network, and whether it has left for good.
    attached
        The number of the connection of each client that it has heard.
    fuse
        How many effects it carries out until it dies in the middle of a step; None for no such end.
    told_at
        When it was told the time last.
    waiting
        What it has not taken in yet, because it stands still or is slow; None is a tick.
    """

    __slots__ = (
        "alive",
        "attached",
        "boot",
        "cluster",
        "factor",
        "fuse",
        "gone",
        "handle",
        "id",
        "life",
        "machine",
        "paused",
        "retiring",
        "serving",
        "store",
        "told_at",
        "waiting",
    )

    def __init__(
        self, id: BrokerId, cluster: int, boot: Callable[[int], Machine], store: Store | None = None
    ) -> None:
        self.id = id
        self.cluster = cluster
        self.boot = boot
        self.life = -1
        self.alive = self.paused = self.serving = self.retiring = self.gone = False
        self.factor = 1.0
        self.attached: dict[ClientId, int] = {}
        self.fuse: int | None = None
        self.told_at = 0.0
        self.waiting: deque[Received | Drained | Missed | None] = deque()
        self.machine: Any = None
        self.store = store or MemoryStore()
        self.handle: Callable[[Received | Ticked | Drained | Missed], list[Effect]]
        self.start()

    def start(self) -> None:
        """Begin a new life."""
        self.life += 1
        self.alive = True
        self.machine = self.boot(self.life)
        self.handle = self.machine.handle

    def die(self) -> None:
        """End this life; the machine stays to be looked at until the next one."""
        self.alive = self.paused = self.serving = False
        self.factor = 1.0
        self.fuse = None
        self.waiting.clear()
        self.attached.clear()
        self.gone = self.retiring  # whoever was to leave anyway is not started again


def make_broker(
    position: Position,
    scheme: str,
    recovery: Recovery | None,
    incarnation: int,
    seed: int,
    joins: bool = False,
    store: Store | None = None,
    admission: AdmissionConfig | None = None,
) -> Broker:
    """Return a broker; one that does not heal has no store."""
    if recovery is None:
        return Broker(position, scheme, admission=admission)
    return Broker(position, scheme, recovery, incarnation, seed, joins, store=store, admission=admission)
