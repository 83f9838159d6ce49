"""A process in the simulated network: one broker, or the rendezvous point; it can die, be paused or be slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.effects import Died, Drained, Effect, Missed, Received, Ticked
from ..protocol.errors import StateDamaged
from ..protocol.ids import BrokerId, ClientId
from ..recovery.durability.stores import MemoryStore, Store
from ..recovery.durability.summed import SummedStore

if TYPE_CHECKING:
    from .links import Connection


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
    retiring, gone
        Whether it is to leave the network, and whether it has left for good.
    parent
        The broker above it at the start.
    attached
        The number of the connection of each client that it has heard.
    links
        The links whose messages are lost when it dies.
    ways, group_ways, group
        Its links to others, and those of its group; None before the first use.
    free_at
        When it has finished sending what it is busy with.
    cleared
        How often its store was found damaged, and cleared.
    fuse
        How many effects it carries out before it dies in the middle of a step; None if it does not.
    told_at
        When it was last told the time.
    waiting
        Inputs that wait because it is paused or slow; None is a tick.
    """

    __slots__ = (
        "alive",
        "attached",
        "boot",
        "cleared",
        "cluster",
        "factor",
        "free_at",
        "fuse",
        "gone",
        "group",
        "group_ways",
        "handle",
        "id",
        "incarnation",
        "links",
        "machine",
        "parent",
        "paused",
        "plain",
        "retiring",
        "serving",
        "store",
        "told_at",
        "waiting",
        "ways",
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
        self.alive = self.paused = self.serving = self.retiring = self.gone = False
        self.factor = 1.0
        self.attached: dict[ClientId, int] = {}
        self.links: list[Connection] = []
        self.ways: dict[BrokerId, Connection] = {}
        self.group_ways: dict[BrokerId, Connection] = {}
        self.group: list[Connection] | None = None
        self.fuse: int | None = None
        self.told_at = self.free_at = 0.0
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

    def ways_of(self, over_group: bool) -> dict[BrokerId, Connection]:
        """Return its links to others: those for multicasts, or those for single messages."""
        return self.group_ways if over_group else self.ways

    def die(self) -> None:
        """End this incarnation; the machine stays for inspection until the next one."""
        self.alive = self.paused = self.serving = False
        self.factor = 1.0
        self.fuse = None
        self.waiting.clear()
        self.attached.clear()
        for link in self.links:
            link.lose()
        self.gone = self.retiring  # a broker that was to leave is not restarted
