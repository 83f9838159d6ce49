"""The Ray host of brokers: an actor that takes calls for them, from other brokers and from clients.

Rules
-----
* All calls of one host run on one event loop; a broker is never entered concurrently.
* Clients use `request`, one call for every kind of message.
* A call that brought events returns when the queues that they filled have room again (backpressure).
* In a network that heals any broker can be sent to; the host asks the rendezvous point for an unknown one.
* Where brokers number what they send, Ray restarts a dead host; its handle stays valid. The new incarnation asks the
  rendezvous point which brokers are its own, and they recover from their files. Calls that arrive meanwhile wait.
* The host only takes calls. Its parts do the work: `driver`, `attachments`, `admission`, `telemetry`, `payloads`,
  `transport`, `ticking`, `numbered`. They are made in order. A part knows the others only through its constructor
  arguments, and nobody else sets its attributes. What is made before the driver passes events to brokers by the host.

The class is plain Python; `launching.py` makes a Ray actor of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import psutil
import ray
from ray.exceptions import RayError

from ...broker import Broker
from ...protocol.batch import EventBatch
from ...protocol.configs import Limits, Position
from ...protocol.durables import DurableStatus
from ...protocol.effects import Died, Missed
from ...protocol.errors import BrokerUnavailable
from ...protocol.features import Features
from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.pubsub import Gone
from ...protocol.messages.recovery import Recovery
from ...protocol.queries import HasLeft, Said
from ...protocol.stability import Stability
from ...protocol.telemetry.recorder import TelemetryBuffer
from ...recovery.durability.durable_cursor import DeadLetter
from ...recovery.durability.stable import Stable
from ...recovery.replay.history import HistoryAt, Page, ReadHistory, Span
from ...routing.schemes.registry import scheme as scheme_of
from ..channels.config import ChannelConfig, Door
from ..channels.pool import Channels
from ..clients.bulk import Payloads
from ..later import Later
from ..logs import HOST
from ..network.directory import NAMESPACE, rendezvous_name
from ..parts import async_of, later_of
from . import survey as host_survey
from .admission import HostAdmission
from .attachments import Attachments
from .broker_store import BrokerStores, NoStores, boot
from .clock import Clock
from .collecting import collecting_nothing, keep_for_good, let_go
from .commits import Commits
from .departures import Departures
from .driver import Driver
from .ending import end_process, end_with_raylet
from .frames import answered, begun
from .group import machine_here
from .hosted_broker import Given, Happened, HostedBroker
from .incoming import Incoming
from .metering import Metering
from .numbered import NumberedLinks
from .outbox import LinkMessage
from .quiet import QuietWait
from .requests import Request
from .resting import Awake, Resting
from .telemetry import HostTelemetry
from .ticking import Ticking, tick_seconds
from .transport import Transport

T = TypeVar("T")

UNHEARD_SESSIONS: Final = 10
"""After how many times of a session a host repeats that it hears no client."""


class BrokerHost:
    """Hosts one or more brokers.

    Parameters
    ----------
    scheme_name
        The routing scheme of the network.
    limits
        The limits of the network.
    trace_events
        Whether to record each published and notified event, beside the batches.
    collector
        The actor that collects telemetry; None collects none.
    network
        The network's name, under which metrics are exported; None exports none.
    recovery
        How quickly its brokers detect and repair failures; None for a network that does not heal.
    admission
        The admission configuration; None for a network without admission control.
    stable, still_seconds
        Where the brokers' stores are, None for none; how far their clock is behind the wall clock.
    channels
        How other processes are reached directly; None where all calls go by Ray.
    """

    def __init__(
        self,
        scheme_name: str,
        limits: Limits,
        trace_events: bool = False,
        collector: Any = None,
        network: str | None = None,
        recovery: Recovery | None = None,
        admission: AdmissionConfig | None = None,
        stable: Stable | None = None,
        still_seconds: float = 0.0,
        channels: ChannelConfig | None = None,
    ) -> None:
        self._scheme_name = scheme_name
        self._limits = limits
        self._trace_events = trace_events
        self._network = network
        self.features = Features(recovery, stable is not None, admission)
        self._stability = Stability() if stable is None else stable.stability
        self._stores = NoStores() if stable is None else BrokerStores(stable, self.features)
        self._hosts: dict[BrokerId, Any] = {}
        self.hosted_brokers: dict[BrokerId, HostedBroker] = {}
        log = HOST.of(network=network)
        self.log = log
        self.clock = Clock(self.features.late_seconds, still_seconds)
        self.departures = Departures(log)
        self.channels = self._make_channels(channels)
        self.telemetry = HostTelemetry(self.hosted_brokers, collector, self.log)
        self.admission = HostAdmission(self.features, self.hosted_brokers, self._drive)
        self.transport = self._make_transport()
        self.attachments = Attachments(
            self.hosted_brokers, limits, self._handle, self._drive, self.departures
        )
        self.resting = self._make_resting()
        self.driver = self._make_driver()
        self.numbered = self._make_numbered()
        self.metering = Metering(self.hosted_brokers, network, self.log)
        self.payloads = Payloads(
            self.attachments.hosted_broker, self._actor_of, self._died, self.driver.carry_out
        )
        self.rest = QuietWait(
            self.hosted_brokers,
            self.attachments,
            self.driver,
            self.numbered,
            limits,
            self.features.client_patience_seconds,
        )
        self.incoming = self._make_incoming()
        self.ticking = self._make_ticking()
        # The client processes that the rendezvous point was told of, and when.
        self._told_heard: tuple[list[str], float] | None = None
        self._asleep = self.numbered is not None  # until it knows its brokers: Ray may have restarted it
        self._waking = asyncio.Lock()

    def _make_channels(self, config: ChannelConfig | None) -> Channels | None:
        if config is None:
            return None
        return Channels(
            config,
            name=bytes.fromhex(ray.get_runtime_context().get_actor_id()),
            serve=partial(begun, self),
            heals=self.features.heals,
            died=self._lost,
            log=self.log,
            unread_bytes_max=self._limits.connection_bytes_max,
        )

    def _make_transport(self) -> Transport:
        return Transport(
            self._limits,
            self.features,
            self.hosted_brokers,
            self.receive,
            died=self._died,
            reborn=self._drop_links,
            missed=self._missed if self.features.heals else None,
            carried_out=self.telemetry.carried_out,
            deadline_seconds=self.admission.deadline_seconds,
            log=self.log,
            channels=self.channels,
            departures=self.departures,
            receive_now=lambda *call: self.incoming.receive(*call, near=True),
        )

    def _make_resting(self) -> Awake:
        if not self.features.heals:
            return Awake()
        into = self._handle, self._drive, self._tell_time
        seconds = self.features.times.heartbeat_seconds
        return Resting(self.hosted_brokers, self.transport, seconds, self.clock, *into)

    def _make_numbered(self) -> NumberedLinks | None:
        if not self.features.numbers:
            return None
        return NumberedLinks(self.hosted_brokers, self.attachments, self.driver, self._stability)

    def _make_driver(self) -> Driver:
        return Driver(
            self.hosted_brokers,
            self.transport,
            self.departures,
            self.clock,
            self.attachments,
            self.admission,
            self.telemetry,
            self.resting,
            self._limits,
            self._limits.delivery_wait_seconds if scheme_of(self._scheme_name).claims.rings else None,
            self._end,
        )

    def _make_incoming(self) -> Incoming:
        return Incoming(
            self.hosted_brokers,
            self._limits,
            self.transport,
            self.departures,
            self.driver,
            self.attachments,
            self.admission,
            self.features.admits,
            self.numbered,
            self._wake,
            self._service,
        )

    def _make_ticking(self) -> Ticking:
        return Ticking(
            self.hosted_brokers,
            self.driver,
            self.clock,
            self.attachments,
            self.telemetry,
            self.resting,
            tick_seconds(self.features, self._stability),
            self._service,
            self._limits,
            partial(self._tell_heard, time.monotonic()),
            self.log,
            keeps=self.features.numbers,
        )

    # What parts that are made before the driver pass to the brokers by it.

    def _handle(self, hosted: HostedBroker, source: Link, message: Given) -> None:
        self.driver.handle(hosted, source, message)

    def _drive(self, hosted: HostedBroker, event: Happened) -> None:
        self.driver.drive(hosted, event)

    def _tell_time(self, hosted: HostedBroker) -> None:
        self.driver.tell_time(hosted)

    def _lost(self, host: Any) -> None:
        self.transport.lost(host)

    # Set-up.

    async def start_brokers(self, positions: Sequence[Position], incarnation: int = 0) -> None:
        """Make the brokers of these positions; `incarnation` is how often they have been started before."""
        with collecting_nothing():
            for position in positions:
                self._host_broker(position, incarnation)
        self._asleep = False

    def _host_broker(
        self, position: Position, incarnation: int, *, joins: bool = False, reopened: bool = False
    ) -> None:
        """Make a broker, from its store if it has one."""
        broker = position.broker
        store = self._stores.store_of(broker, incarnation, reopened=reopened)
        self.transport.born(broker, incarnation)
        telemetry = TelemetryBuffer(position, self._limits, trace_events=self._trace_events)
        log = self.transport.log_of(broker)
        make = partial(
            Broker,
            position,
            self._scheme_name,
            self.features.recovery,
            incarnation,
            joins=joins,
            store=store,
            stability=self._stability,
            admission=self.features.admission,
        )
        machine = boot(make, store, log)
        hosted = self.hosted_brokers[broker] = HostedBroker(machine, telemetry, self.metering.of(position))
        log.info("broker %d starts", broker)
        if store is not None:
            failed = self._end if self.features.heals else hosted.answers.refuse_all
            hosted.commits = Commits(f"broker {broker}", store, failed, log, self.departures)

    async def start_newcomer(self, position: Position, incarnation: int) -> None:
        """Make a broker that joins a running network: in incarnation 0 with a new cluster, else in an existing one."""
        self._host_broker(position, incarnation, joins=not incarnation)

    async def connect(self, hosts: Mapping[BrokerId, Any], rendezvous: Any = None) -> None:
        """Know the neighbours of every broker here; `hosts` has the actor of each neighbour that is not here.

        A link to a neighbour is made when the first message goes over it: over most links of a large cluster none does.

        In a network that heals, `rendezvous` knows all other brokers.
        """
        self.transport.ask_at(rendezvous)
        self.admission.measure_soon()
        self._hosts = {broker: host for broker, host in hosts.items() if broker not in self.hosted_brokers}
        with collecting_nothing():
            for hosted in self.hosted_brokers.values():
                position = hosted.broker.position
                hosted.group = self.transport.group(position, hosts)
                for other in position.neighbours:
                    self.transport.meet(other, hosts)
            keep_for_good(len(self.hosted_brokers))

    relink = later_of("transport", Transport.relink)

    async def _actor_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker; None if the broker is here."""
        if broker in self.hosted_brokers or not self.features.heals:
            return self._hosts.get(broker)
        return await self.transport.actor_of(broker)

    def _drop_links(self, broker: BrokerId) -> None:
        self.driver.reborn(broker)
        for hosted in self.hosted_brokers.values():
            if broker in hosted.links:
                hosted.links[broker].begin_anew()

    def _died(self, source: BrokerId, other: BrokerId) -> None:
        if self.features.heals:  # once the call has failed, so that what is lost with it is known first
            asyncio.get_running_loop().call_soon(self._learn_dead, source, other)
        else:
            self.driver.handle(self.hosted_brokers[source], other, Gone(other))

    def _learn_dead(self, source: BrokerId, other: BrokerId) -> None:
        hosted = self.hosted_brokers.get(source)
        if hosted is not None:
            self.driver.tell_time(hosted)  # what is now known is not undone by what was heard before
            self.driver.drive(hosted, Died(other))
            self.driver.tell_time(hosted)

    def _missed(self, source: BrokerId, missed: Missed) -> None:
        hosted = self.hosted_brokers.get(source)
        if hosted is not None:
            self.driver.drive(hosted, missed)

    async def inject(self, fault: Callable[[BrokerHost], T]) -> T:
        """Call this with the host and return its answer: the door by which a test causes faults in here."""
        return fault(self)

    def _end(self, why: object) -> None:
        end_process(self.log, why)

    async def _service(self, broker: BrokerId, messages: int = 1) -> None:
        if self.transport.passage is not None:
            await self.transport.passage.service(broker, messages)

    async def _tell_heard(self, begun: float) -> None:
        """Tell the rendezvous point which client processes this host hears, once it has run as long as a session."""
        if self._network is None or time.monotonic() - begun <= self._limits.session_seconds:
            return
        heard, now, seconds = self.attachments.heard(), time.monotonic(), self._limits.session_seconds
        told, at = self._told_heard or (None, 0.0)
        if told == heard and now - at <= (seconds if heard else UNHEARD_SESSIONS * seconds):
            return
        # A message that is lost is repeated, and without a rendezvous point no name is taken.
        with suppress(RayError, ValueError):
            point = ray.get_actor(rendezvous_name(self._network), namespace=NAMESPACE)
            await point.hear.remote(list(self.hosted_brokers), heard)
            self._told_heard = heard, now

    # Time, and incarnations.

    async def begin(self) -> None:
        """Start ticking the brokers, if they need it, and exporting metrics, once every host is connected."""
        end_with_raylet(self._end)
        self.ticking.begin()
        self.metering.begin()

    async def _wake(self) -> None:
        """Resume from where an earlier incarnation ended, once."""
        async with self._waking:
            if not self._asleep:
                return
            assert self._network is not None
            actor = ray.get_actor(rendezvous_name(self._network), namespace=NAMESPACE)
            directory = await actor.directory.remote()
            if directory is None:
                raise BrokerUnavailable("the network is still being launched")
            me = ray.get_runtime_context().current_actor
            for place in directory.positions:
                if directory.hosts[place.broker] == me and place.broker not in self.hosted_brokers:
                    self._host_broker(place, 0, reopened=True)
            await self.connect(directory.hosts)
            await self.begin()
            self._asleep = False

    async def pid(self) -> tuple[str, int]:
        """Return the Ray node and the id of this process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    async def machine(self) -> str:
        """Return what tells this machine from others, as :func:`machine_here`."""
        return machine_here()

    async def door(self) -> Door | None:
        """Return where this host takes channels; None in a network whose links are calls of Ray."""
        return None if self.channels is None else await self.channels.door()

    async def drop_channel(self, number: bytes) -> None:
        """Read nothing any more from a channel that its other end has lost."""
        if self.channels is not None:
            self.channels.drop(number)

    async def ping(self, at: BrokerId) -> str:
        """Return the Ray node of this host, once the broker has handled everything that arrived before."""
        await self._service(at)
        return self.incoming.node()

    # Incoming calls.

    @ray.method(enable_task_events=False)  # type: ignore[untyped-decorator]
    async def call(self, *pieces: bytes) -> bytes:
        """Call a method whose arguments arrive as bytes; see `frames`."""
        return await answered(self, pieces)

    async def receive(
        self,
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        incarnation: int = 0,
        *since: float,
    ) -> str:
        """See :meth:`Incoming.receive`."""
        answer = self.incoming.receive(to, source, messages, incarnation, *since)
        return answer if isinstance(answer, str) else await answer

    host_beat = async_of("driver", Driver.host_beat)

    async def request(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str = "", *since: float
    ) -> Any:
        """See :meth:`Incoming.request`."""
        answer = self.incoming.request(at, client, messages, session, *since)
        return await answer if isinstance(answer, Awaitable) else answer

    async def poll(self, session: str, acknowledged: int, timeout_seconds: float) -> list[Any]:
        """See :meth:`Incoming.poll`."""
        answer = self.incoming.poll(session, acknowledged, timeout_seconds)
        return await answer if isinstance(answer, Later) else answer

    end_session = later_of("attachments", Attachments.end_session)
    alive = later_of("attachments", Attachments.alive)
    evict = later_of("attachments", Attachments.evict)

    # Payloads.

    async def bulk_targets(self, at: BrokerId, batch: EventBatch) -> tuple[BrokerId, ...]:
        """See :meth:`Payloads.targets`."""
        return self.payloads.targets(at, batch)

    bulk_begin = async_of("payloads", Payloads.bulk_begin)
    bulk_slices = async_of("payloads", Payloads.bulk_slices)
    bulk_end = async_of("payloads", Payloads.bulk_end)
    payload = async_of("payloads", Payloads.payload)
    payload_part = async_of("payloads", Payloads.payload_part)

    # Queries about all brokers of the host.

    async def quiet(self, deliveries: bool = True) -> int:
        """Wait until nothing waits to leave, as `QuietWait.still`; return how many messages this host has handled."""
        if self._asleep:
            await self._wake()
        return await self.rest.still(deliveries)

    async def survey(self) -> dict[BrokerId, Said]:
        """Return the place of each broker here, in a network that heals."""
        self.ticking.raise_error()
        found = {broker: host_survey.survey_of(hosted) for broker, hosted in self.hosted_brokers.items()}
        return {broker: said for broker, said in found.items() if said is not None}

    async def describe(self) -> dict[BrokerId, dict[str, int]]:
        """Return the sizes of the state of each broker here, its queues included."""
        if self._asleep:
            await self._wake()
        links = self.transport.carriers()
        return {
            broker: host_survey.sizes_of(hosted) | links for broker, hosted in self.hosted_brokers.items()
        }

    async def look(self) -> dict[BrokerId, host_survey.Look]:
        """Return the status of each broker here, for `Network.status`."""
        if self._asleep:
            await self._wake()
        links = self.transport.carriers()
        return {broker: host_survey.look_at(hosted, links) for broker, hosted in self.hosted_brokers.items()}

    async def check(self) -> None:
        """Assert every broker's invariants; for tests."""
        if self._asleep:
            await self._wake()
        for hosted in self.hosted_brokers.values():
            hosted.broker.check()

    async def accepted_here(self, *publishers: ClientId) -> dict[ClientId, int]:
        """Return the last sequence that any broker here accepted from each of these publishers, or from all."""
        return host_survey.accepted_here(
            (hosted.broker for hosted in self.hosted_brokers.values()), publishers
        )

    async def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters of the durable subscribers here, oldest first."""
        return [
            letter
            for hosted in self.hosted_brokers.values()
            for letter in host_survey.dead_letters(hosted.broker)
        ]

    async def history(self, query: HistoryAt) -> dict[BrokerId, Mapping[ClientId, Span]]:
        """Return what each broker here that keeps a history has of the past."""
        found = {broker: hosted.broker.ask(query) for broker, hosted in self.hosted_brokers.items()}
        return {broker: spans for broker, spans in found.items() if spans is not None}

    async def read_history(self, broker: BrokerId, query: ReadHistory) -> Page:
        """Return a page of the history of a broker; an empty one if it is not here."""
        hosted = self.hosted_brokers.get(broker)
        return query.otherwise if hosted is None else hosted.broker.ask(query)

    async def durables(self) -> list[DurableStatus]:
        """Return the durable subscribers here: attached or away, and how far they are behind."""
        return [each for hosted in self.hosted_brokers.values() for each in host_survey.durables_of(hosted)]

    async def books(self) -> dict[BrokerId, dict[str, Any]]:
        """Return the books of every broker here."""
        if self._asleep:
            await self._wake()
        found = {
            broker: host_survey.books_of(hosted.broker) for broker, hosted in self.hosted_brokers.items()
        }
        return {broker: books for broker, books in found.items() if books is not None}

    async def seen(self) -> dict[BrokerId, host_survey.Seen]:
        """Return the routes and the books of every broker here, for checks of the whole network."""
        return {broker: host_survey.seen_of(hosted.broker) for broker, hosted in self.hosted_brokers.items()}

    async def cpu_seconds(self) -> float:
        """Return the CPU time that this process has used so far."""
        return time.process_time()

    async def own_bytes(self) -> int:
        """Return the memory that only this process uses (its unique set size)."""
        return int(psutil.Process().memory_full_info().uss)

    flush_telemetry = async_of("telemetry", HostTelemetry.flush)

    # Brokers that leave.

    dismiss = later_of("attachments", Attachments.dismiss)

    async def attached(self, broker: BrokerId) -> int:
        """Return how many subscribers a broker has; 0 if it has left."""
        return len(self.hosted_brokers[broker].owners) if broker in self.hosted_brokers else 0

    async def holds(self, broker: BrokerId) -> int:
        """Return how many durable subscribers a broker holds, connected or not; 0 if it has left."""
        return len(self.hosted_brokers[broker].durable) if broker in self.hosted_brokers else 0

    async def detach_all(self, broker: BrokerId) -> None:
        """Detach all clients of a broker; they continue elsewhere once they notice, and receive what they missed."""
        if broker in self.hosted_brokers:
            self.attachments.let_all_go(self.hosted_brokers[broker])

    async def left(self, broker: BrokerId) -> bool:
        """Return whether a broker has left the network."""
        hosted = self.hosted_brokers.get(broker)
        return hosted is None or hosted.broker.ask(HasLeft())

    async def end_broker(self, broker: BrokerId) -> int:
        """Remove a broker that has left and handed over everything; return how many brokers are still here."""
        hosted = self.hosted_brokers.get(broker)
        if hosted is not None:
            for box in hosted.boxes():
                await box.drained()
            await self.telemetry.flush()
            self.hosted_brokers.pop(broker, None)
            self.driver.reborn(broker)
            let_go()
        return len(self.hosted_brokers)
