"""Clients of a chaos run that die: each in a process of its own, which is killed, and returns in another.

Rules
-----
* The process executes calls and reports what it has heard; its caller remembers what must be remembered. A durable
  subscriber acknowledges only what has been reported, so that it is known what it had when it died.
* Processes are started in advance, so that a return takes no longer than attaching. A process in which a client
  could not attach is ended, and another one is started on demand; its caller reports the reason.
* They run on the node of their caller, which kills them: faults of another host's link affect only the brokers
  there.
* A publisher returns when all brokers that may have accepted its last events answer, or are dead for good.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...actors.clients.durable import DurableSubscriber
from ...actors.clients.publisher import Publisher
from ...actors.clients.subscriber import Subscriber
from ...actors.host.errors import broker_errors
from ...actors.network.network import Network
from ...protocol.batch import EventBatch
from ...protocol.errors import RayvousError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import Refusal
from ...protocol.messages.pubsub import Lost
from ...routing.filters.filter import Filter

CALLS_AT_ONCE: Final = 4
ANSWER_SECONDS: Final = 90.0
"""More than any call of a client takes."""

Heard = tuple[list[tuple[float, ClientId, int]], list[Lost]]
"""(when, publisher, sequence) of each notification, and the losses."""


Found = int | dict[ClientId, int]
"""The last number that was accepted of a publisher, or a subscriber's position."""

Accepted = tuple[float, BrokerId, EventBatch]
"""The broker, the time, and the events that it has accepted."""

ClientState = tuple[BrokerId, dict[int, Filter], dict[int, tuple[Refusal, ...]]]
"""The broker of a client, its subscriptions, and what these lack."""


def arrived(subscriber: Subscriber) -> list[tuple[float, ClientId, int]]:
    """Return what a subscriber has received since the last call: (when, publisher, sequence)."""
    return [
        (arrival.received_at, *arrival.batch.identity(row))
        for arrival in subscriber.arrivals(timeout_seconds=0)
        for row in arrival.rows.tolist()
    ]


def state_of(client: Publisher | Subscriber) -> ClientState:
    """Return the broker of a client, and the subscriptions of a subscriber and what they lack, by number."""
    if isinstance(client, Publisher):
        return client.broker, {}, {}
    return client.broker, dict(client.subscriptions), client.degraded()


class ProcessIsDead(Exception):
    """The client's process is dead, or died during the call."""


class ClientActor:
    """One client in a process of its own.

    Parameters
    ----------
    network
        The name of the network.
    """

    def __init__(self, network: str) -> None:
        self._network = network
        self._client: Publisher | Subscriber
        self._told = 0
        self._accepted: list[Accepted] = []

    def pid(self) -> int:
        """Return the id of the process."""
        return os.getpid()

    def come(self, name: ClientId, broker: BrokerId, publishes: bool) -> tuple[BrokerId, Found]:
        """Attach; return the broker, and what is known of the client there."""
        net = Network.attach(self._network)
        if publishes:
            self._client = publisher = net.publisher(name, broker=broker, durable=True)
            publisher.on_accepted = lambda at, batch: self._accepted.append((time.time(), at, batch))
            return publisher.broker, publisher.published
        self._client = subscriber = net.subscriber(name, broker=broker, durable=True)
        return subscriber.broker, subscriber.position

    def call(self, method: str, *arguments: object, **options: object) -> Any:
        """Call a method of the client."""
        return getattr(self._client, method)(*arguments, **options)

    def state(self) -> ClientState:
        """Return the broker of the client, its subscriptions, and what these lack."""
        return state_of(self._client)

    def place(self) -> tuple[Any, int]:
        """Return the actor of its broker, and how often it has moved."""
        return self._client.host, self._client.moves

    def numbers(self) -> list[int]:
        """Return the numbers of a subscriber's subscriptions."""
        assert isinstance(self._client, Subscriber)
        return list(self._client.subscriptions)

    def held(self) -> list[tuple[int, int, int]]:
        """Return (first sequence, number of events, bytes) of each batch that a publisher keeps."""
        assert isinstance(self._client, Publisher)
        return self._client._machine.held

    def accepted(self) -> list[Accepted]:
        """Return what brokers have accepted of a publisher since the last call."""
        told, self._accepted = self._accepted, []
        return told

    def hear(self) -> Heard:
        """Return what a subscriber has not reported yet."""
        assert isinstance(self._client, DurableSubscriber)
        heard = arrived(self._client)
        losses = self._client.losses[self._told :]
        self._told += len(losses)
        return heard, losses


class Spares:
    """The processes of clients that may die.

    Parameters
    ----------
    network
        The name of the network.
    count
        How many processes are started in advance.
    """

    def __init__(self, network: str, count: int) -> None:
        self._network = network
        self._actors: list[Any] = []
        self._free: list[tuple[Any, int]] = []
        self._turn = threading.Lock()
        self._start(count)

    def _start(self, count: int) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        kind = ray.remote(ClientActor).options(
            num_cpus=0, max_concurrency=CALLS_AT_ONCE, scheduling_strategy=here
        )
        new = [kind.remote(self._network) for _ in range(count)]
        self._actors += new
        self._free += zip(new, ray.get([actor.pid.remote() for actor in new]), strict=True)

    def take(self) -> tuple[Any, int]:
        """Return an unused process, and its id."""
        with self._turn:
            if not self._free:
                self._start(1)
            return self._free.pop()

    def close(self) -> None:
        """End all processes."""
        for actor in self._actors:
            ray.kill(actor)


class KillableClients:
    """A client whose process can be killed, as its caller sees it.

    Parameters
    ----------
    name, broker, publishes
        The client, its first broker, and whether it publishes or subscribes.
    spares
        The source of its processes.

    Attributes
    ----------
    alive
        Whether its process runs.
    broker
        Its last broker; before it has attached, its first one, if that has not left the network by then.
    published
        Of a publisher: the last number that it has used.
    held
        Of a publisher: (first sequence, number of events, bytes) of each batch that it retained at its start.
    """

    def __init__(self, name: ClientId, broker: BrokerId, publishes: bool, spares: Spares) -> None:
        self.name, self.publishes = name, publishes
        self.alive = False
        self.published = 0
        self.held: list[tuple[int, int, int]] = []
        self.broker = broker
        self._spares = spares
        self._moves = 0
        self._actor: Any = None
        self._pid = 0

    def start(self) -> Found:
        """Attach, or return; return what is known of the client there."""
        self._actor, self._pid = self._spares.take()
        try:
            found: Found
            self.broker, found = self._ask("come", self.name, self.broker, self.publishes)
        except RayvousError:
            os.kill(self._pid, signal.SIGKILL)  # no client of that name may live there
            raise
        if isinstance(found, int):
            self.published = found
            self.held = self._ask("held")
        self.alive = True
        return found

    def kill(self) -> bool:
        """Kill its process, whatever it is doing; return False if it is dead."""
        if not self.alive:
            return False
        self.alive = False
        os.kill(self._pid, signal.SIGKILL)
        return True

    def publish_batch(self, events: Sequence[Mapping[str, object]]) -> None:
        """Publish; the numbers are used, whatever the result."""
        self.published += len(events)
        self._ask("call", "publish_batch", list(events))

    def call(self, method: str, *arguments: object, **options: object) -> Any:
        """Call a method of the client, in its process.

        Raises
        ------
        ProcessIsDead
            If it is dead, or dies meanwhile.
        RayvousError
            What the client raises.
        """
        return self._ask("call", method, *arguments, **options)

    def numbers(self) -> list[int]:
        """Return the numbers of its subscriptions, none of a publisher."""
        return [] if self.publishes else list(self._ask("numbers"))

    def hear(self) -> Heard:
        """Return what it has heard since the last call."""
        return self._ask("hear")  # type: ignore[no-any-return]

    def accepted(self) -> list[Accepted]:
        """Return what brokers have accepted of it since the last call."""
        return self._ask("accepted")  # type: ignore[no-any-return]

    def state(self) -> ClientState:
        """Return its broker, its subscriptions, and what these lack."""
        return self._ask("state")  # type: ignore[no-any-return]

    def host(self) -> Any:
        """Return the actor of its broker."""
        host, self._moves = self._ask("place")
        return host

    @property
    def moves(self) -> int:
        """How often the present process had changed its broker at the last look."""
        return self._moves

    def _ask(self, method: str, *arguments: object, **options: object) -> Any:
        with broker_errors(f"client {self.name!r}"):
            try:
                return ray.get(
                    getattr(self._actor, method).remote(*arguments, **options), timeout=ANSWER_SECONDS
                )
            except RayActorError:
                raise ProcessIsDead(self.name) from None
