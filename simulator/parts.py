"""What the parts of a simulated network (transport, faults, queues) use of the network that they are parts of."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Never, Protocol

from ..protocol.configs import Position
from ..protocol.effects import Died, Drained, Effect, Missed, Received, Ticked
from ..protocol.features import Features
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.pubsub import Lost
from ..protocol.scenarios.scenario import LinkModel
from ..recovery.replay.history import Page, ReadHistory
from .hosts import Connection, Host
from .link_faults import Cuts, LinkFaults
from .telemetry import SimulatedTelemetry

Watcher = Callable[[float, BrokerId, BrokerId | None, Never], None]


class Observer(Protocol):
    """Is told of every message between processes; it changes nothing."""

    def under_way(
        self, connection: Connection, received: Received, leaves: float, arrives: float
    ) -> Callable[[Received], None]:
        """Return the function that takes the message when it arrives: `connection.arrive`, or one that calls it."""

    def lost(self, connection: Connection, received: Received, leaves: float, why: str) -> None:
        """Note that a message was lost as it left, and why."""

    def past_begins(self, client: ClientId, todo: Mapping[ClientId, tuple[int, int]]) -> None:
        """Note that a subscriber begins to read its past: by publisher, behind which number, and up to which one."""

    def past_asked(
        self, client: ClientId, broker: BrokerId, question: ReadHistory, page: Page | None
    ) -> None:
        """Note that a subscriber asked for a page of the past, and the answer, None for none."""

    def past_lost(self, client: ClientId, lost: Sequence[Lost], answered: Collection[BrokerId]) -> None:
        """Note what a subscriber gives up of its past, and which brokers had answered."""


class Spectator(Protocol):
    """Is told of every action of a network, before and after it; it changes nothing."""

    def aside(self) -> None:
        """Look at what was done since the last action, by whoever drives the network."""

    def before(self, action: Callable[[Never], None], value: object) -> None:
        """Look at an action that is due now."""

    def after(self) -> None:
        """Look at what the action has done."""

    def lost(self, connection: Connection, received: Received, why: str) -> None:
        """Note that a message was lost as it left, and why."""


class Bounds(Protocol):
    """The queues of a network, as its transport asks them."""

    def leave(self, host: Host, effect: Effect) -> float | None:
        """Return when an effect's message leaves; None if it would wait too long and is dropped."""


class Carrier(Protocol):
    """The transport of a network, as its faults use it."""

    def connections(self) -> Iterator[Connection]:
        """Iterate over all links."""

    def release(self, connection: Connection) -> None:
        """Let the messages that a link has held arrive, unless it was cut again meanwhile."""


class Whole(Protocol):
    """A simulated network, as its parts see it; `SimulatedNetwork` documents what these are."""

    now: float
    lost: int
    past_ttl: int
    expiring: bool
    steps: int
    seed: int
    plain: bool
    scheme: str
    heals: bool
    links: LinkModel
    link_faults: LinkFaults
    cuts: Cuts
    rng: random.Random
    telemetry: SimulatedTelemetry | None
    observer: Observer | None
    spectator: Spectator | None
    rendezvous: Host | None
    features: Features
    hosts: dict[BrokerId, Host]
    positions: dict[BrokerId, Position]
    heap: list[tuple[float, int, Callable[[Any], None], Any]]
    order: Iterator[int]
    watchers: dict[type, Watcher]
    carry_out: dict[type, Callable[[Host, Never], None]]
    take_in: Callable[[Host, Received | Drained | Missed | None], None]

    @property
    def queues(self) -> Bounds | None:
        """Its queues; None for no limit."""

    @property
    def transport(self) -> Carrier:
        """Its links."""

    def at(self, when: float, action: Callable[..., object], *values: object) -> None:
        """Schedule an action."""

    def serve(self, host: Host, given: Received | Drained | Missed | None) -> None:
        """Hand a message, or the time if it is None, to a process as soon as the process is ready."""

    def step(self, host: Host, event: Received | Ticked | Died | Drained | Missed) -> None:
        """Let a process handle an event, and carry out the returned effects."""

    def start_ticking(self, host: Host) -> None:
        """Tell a process the time, now and periodically, if it needs that."""

    def living(self) -> list[BrokerId]:
        """Return the brokers whose process exists, in ascending order."""

    def staying(self) -> list[BrokerId]:
        """Return the living brokers that are not leaving, in ascending order."""

    def host(self, broker: BrokerId) -> Host:
        """Return the process of a broker, or of the rendezvous point."""
