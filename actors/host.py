"""The Ray host of brokers: an actor that feeds them what comes in and carries out their effects.

Rules
-----
* All calls of one host run on one event loop; a broker is never entered twice at once.
* Effects are carried out in their order. A send goes into the outbox of its link, never straight to the network.
* What clients want comes by `request`, one call for every kind of message.
* A call that brought events returns when the outboxes and queues that they filled have room again (backpressure).
* What a broker makes stable is committed in a thread, and what comes after it waits (`commits`).
* In a network that heals, the host ticks its brokers four times a heartbeat, on the wall clock as it was at the start
  and monotone since; any broker can be sent to, and who is not known yet is asked for at the rendezvous point.

The class is plain Python; `network.py` makes a Ray actor of it where it is launched.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import ray

from ..faults.stores import Store
from ..protocol.admission import (
    AdmissionConfig,
    AdmissionMessage,
    AdmissionRequest,
    Advertise,
    Unadvertise,
    WouldAdmit,
)
from ..protocol.beats import is_beat
from ..protocol.configs import Limits, Position
from ..protocol.cube import CubeView, CubeWants
from ..protocol.effects import (
    Confirm,
    Deliver,
    Drain,
    Drained,
    Effect,
    Flushed,
    Inform,
    Missed,
    Multicast,
    Propose,
    Received,
    Regroup,
    Renew,
    Report,
    Send,
    Ticked,
)
from ..protocol.errors import BrokerUnavailable
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.messages import Cancel, Detach, Directed, Events, Flush, Gone, Message, Register, Resume
from ..protocol.recorder import TelemetryBuffer
from ..protocol.recovery import RENDEZVOUS, TIMED, Recovery, RecoveryMessage
from ..protocol.stability import Stable
from ..routing.claims import claims_of
from .backpressure import Backpressure
from .broker import Broker
from .bulk import BulkHost
from .commits import Commits
from .host_admission import AdmissionSide
from .host_lasting import LastingClients, accepted, store_of
from .host_quiet import Quieting
from .host_survey import Surveyed
from .host_telemetry import TelemetrySide
from .metrics import BrokerMetrics
from .outbox import LinkMessage, Outbox, wait_for_room
from .requests import Accepted, Away, Lacking, Request, questions
from .seat import Seat
from .sessions import Session, split
from .turnover import Turnover
from .ways import LINK, Ways
from .weather import Forecast

TICKS_A_HEARTBEAT = 4
TICKS_A_FLUSH = 40

_LOG = logging.getLogger("rayvous.host")


class BrokerHost(LastingClients, TelemetrySide, Turnover, Surveyed, Quieting, AdmissionSide, BulkHost):
    """Hosts one broker or many.

    Parameters
    ----------
    scheme_name
        The routing scheme of the network.
    limits
        What it keeps at most.
    trace_events
        Whether to write down each event published and notified, beside the batches.
    collector
        The actor that takes telemetry; None keeps none.
    network
        The network's name, under which metrics go out; None sends none.
    recovery
        How quickly its brokers notice and mend failures; None for a network that does not heal.
    admission
        What its brokers admit; None for a network without admission control.
    stores
        Where brokers that heal keep what must outlive them; None when they keep it nowhere.
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
        stores: Stable | None = None,
    ) -> None:
        super().__init__()
        claims = claims_of(scheme_name)
        self._scheme_name = scheme_name
        self._rings = claims.rings
        self._limits = limits
        self._trace_events = trace_events
        self._collector = collector
        self._network = network
        self._recovery = recovery
        self._admission = admission
        self._stores = stores
        self._seats: dict[BrokerId, Seat] = {}
        self._sessions: dict[str, Session] = {}
        self._ways = Ways(
            limits,
            recovery,
            self._seats,
            self.receive,
            died=self._died,
            reborn=self._drop_links,
            missed=self._missed if recovery is not None and claims.lasting else None,
        )
        self._leaving: dict[BrokerId, None] = {}
        self._clock_zero = time.time() - time.monotonic()
        self._ticking: asyncio.Task[None] | None = None
        self._handled = 0
        self._draining: set[asyncio.Task[None]] = set()

    # Set-up.

    async def seat(self, positions: Sequence[Position], life: int = 0) -> None:
        """Make the brokers of these positions; `life` is how often they have been started before."""
        for position in positions:
            self._take_seat(position, life)

    def _take_seat(self, position: Position, life: int, *, joins: bool = False) -> None:
        """Make a broker, from its store when there is one."""
        store = None if self._stores is None else store_of(self._stores, position.broker, life)
        make = partial(Broker, position, self._scheme_name, self._recovery, life, joins=joins)
        self._make_seat(make(store=store, admission=self._admission), life, store)

    def _make_seat(self, broker: Broker, life: int = 0, store: Store | None = None) -> Seat:
        position = broker.position
        self._ways.born(position.broker, life)
        telemetry = TelemetryBuffer(position, self._limits, trace_events=self._trace_events)
        metrics = None if self._network is None else BrokerMetrics(self._network, position.broker)
        seat = self._seats[position.broker] = Seat(broker, telemetry, metrics)
        if store is not None:
            seat.commits = Commits(f"broker {position.broker}", store, seat.answers.refuse_all)
        return seat

    async def connect(self, hosts: Mapping[BrokerId, Any], rendezvous: Any = None) -> None:
        """Make the links of every broker here; `hosts` has the actor of each neighbour that is not here.

        In a network that heals, `rendezvous` knows all the others.
        """
        self._ways.rendezvous = rendezvous
        self._measure_soon()
        self._hosts = {broker: host for broker, host in hosts.items() if broker not in self._seats}
        for seat in self._seats.values():
            position = seat.broker.position
            seat.group = self._ways.group(position, hosts)
            for other in position.neighbours:
                self._ways.peer(other, hosts)
                seat.links[other] = self._ways.link(position.broker, other)

    async def relink(self, broker: BrokerId, host: Any, life: int) -> None:
        """Take note that a broker has been started again, and lives in this actor now."""
        self._ways.relink(broker, host, life)

    async def _actor_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker; None when it is here."""
        if broker in self._seats or self._recovery is None:
            return self._hosts.get(broker)
        return await self._ways.actor_of(broker)

    def _drop_links(self, broker: BrokerId) -> None:
        for seat in self._seats.values():
            if broker in seat.links:
                seat.links[broker].drop()

    def _died(self, source: BrokerId, other: BrokerId) -> None:
        if self._recovery is None:
            self._handle(self._seats[source], other, Gone(other))
        else:
            self._seats[source].broker.learn_dead(other)

    def _missed(self, source: BrokerId, missed: Missed) -> None:
        seat = self._seats.get(source)
        if seat is not None:
            self._drive(seat, missed)

    async def weather(self, forecast: Forecast) -> None:
        """Let links be cut, slow and bad, and brokers slow, as it says; for tests of what goes wrong."""
        self._ways.forecast(forecast)

    async def _service(self, broker: BrokerId, messages: int = 1) -> None:
        if self._ways.weather is not None:
            await self._ways.weather.service(broker, messages)

    # Time, in a network that heals.

    async def begin(self) -> None:
        """Start to tick the brokers, once every host is connected."""
        if self._recovery is None or self._ticking is not None:
            return
        self._ticking = asyncio.get_running_loop().create_task(
            self._tick(self._recovery.heartbeat_seconds / TICKS_A_HEARTBEAT)
        )
        self._ticking.add_done_callback(_say_end)

    def _now(self) -> float:
        return self._clock_zero + time.monotonic()

    async def _tick(self, seconds: float) -> None:
        for turn in itertools.count(1):
            if turn % TICKS_A_FLUSH == 0 and self._collector is not None:
                self._flush_soon()  # whoever dies takes little of what was seen along
            for broker, seat in list(self._seats.items()):
                await self._service(broker)
                self._tell_time(seat)
            await asyncio.sleep(seconds)

    def _tell_time(self, seat: Seat) -> None:
        seat.told_at = self._now()
        self._drive(seat, Ticked(seat.told_at))

    def _is_late(self, seat: Seat) -> bool:
        """Return whether a broker has not been told the time for a heartbeat: this process stood still, or was busy."""
        if self._recovery is None or self._ticking is None:
            return False
        return self._now() - seat.told_at > self._recovery.heartbeat_seconds

    async def pid(self) -> tuple[str, int]:
        """Return the Ray node and the id of the process that this is."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    async def ping(self, at: BrokerId) -> str:
        """Return the Ray node that this is on, once the broker has taken all that came before."""
        await self._service(at)
        return str(ray.get_runtime_context().get_node_id())

    # What comes in.

    async def receive(
        self, to: BrokerId, source: BrokerId, messages: Sequence[LinkMessage], life: int = 0
    ) -> None:
        """Take messages from another broker in its `life`, or from the rendezvous point, in order."""
        if not await self._heard(to, source, len(messages), life):
            return
        seat = self._seats.get(to)
        if seat is None:
            return  # it has left
        pressure = Backpressure()
        for message in messages:
            again = isinstance(message, CubeView | CubeWants)  # events leave in all directions: nobody waits
            self._handle(seat, source, message, pressure.from_clients() if again else pressure)
        await seat.stable()
        await self._room(pressure)

    async def _heard(self, to: BrokerId, source: BrokerId, messages: int, life: int) -> bool:
        """Wait until the messages may be handed in; return False when their sender has been started again since."""
        if life != self._ways.life_of(source) and not await self._ways.current(source, life):
            return False
        if self._ways.weather is not None:
            if source == RENDEZVOUS:
                await self._ways.weather.passage(source, to, LINK)
            await self._ways.weather.service(to, messages)
        return True

    async def request(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str = ""
    ) -> Any:
        """Hand a client's messages to its broker, in order; return the answer to the last (see `requests`).

        `session` names the process of a subscriber that comes or subscribes.
        """
        await self._service(at)
        seat = self._seat_for(at, client, messages, session)
        owed = questions(client, messages)
        answers = [seat.answers.owe(question) for question in owed]
        pressure = Backpressure()
        try:
            taken = [self._take(seat, client, message, pressure) for message in messages]
            await seat.stable()
            await self._room(pressure)
            given = await asyncio.gather(*answers)
        finally:
            for question in owed:
                seat.answers.forget(question)
        return (given or taken or [None])[-1]

    def _seat_for(self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str) -> Seat:
        """Return the seat that a request is for, once it is known that the client may make it there."""
        kinds = set(map(type, messages))
        if kinds & {Advertise, Unadvertise, WouldAdmit}:
            self._require_admission()
        if Detach in kinds:
            return self._seats.get(at) or self._seat_of(at)  # also from a broker that has left already
        seat = self._open_seat(at) if kinds & {Events, Register, Resume} else self._seat_of(at)
        if Resume in kinds:
            self._take_over(seat, client, session)
        elif Register in kinds:
            self._own(seat, client, session)
        return seat

    def _take(
        self,
        seat: Seat,
        client: ClientId,
        message: Request,
        pressure: Backpressure,
    ) -> Any:
        """Take one message of a client, and return the answer to a question that the host can answer."""
        match message:
            case Events():
                if not message.again:
                    seat.telemetry.published(time.time(), message.batch)
                self._handle(seat, client, message, pressure)
            case Cancel(number):
                self._handle(seat, client, message)
                self._cancelled(seat, client, number)
            case Detach():
                self._let_go(seat, client)
            case Away():
                seat.owners.pop(client, None)
            case Accepted():
                return accepted(seat.broker, client)
            case Lacking():
                return self._degraded(seat, client)
            case _:
                self._handle(seat, client, message)  # type: ignore[arg-type]  # not a question
        return None

    async def poll(self, session: str, acknowledged: int, timeout_seconds: float) -> list[Any]:
        """Return the parcels that wait for a client process; see :meth:`Session.poll`."""
        events_max = self._limits.call_events_max * 4
        queue = self._session(session)
        queue.acknowledge(acknowledged)
        self._catch_up(queue)
        parcels = await queue.poll(acknowledged, timeout_seconds, events_max)
        return [*parcels, *self._farewells()]

    def _session(self, session: str) -> Session:
        queue = self._sessions.get(session)
        if queue is None:
            queue = Session(session, self._limits.delivery_events_max, self._limits.session_seconds)
            self._sessions[session] = queue
        queue.heard(time.monotonic())
        return queue

    def _seat_of(self, broker: BrokerId) -> Seat:
        if broker not in self._seats or self._seats[broker].broker.left:
            raise BrokerUnavailable(f"broker {broker} is not on this host, or has left")
        return self._seats[broker]

    # The driver: an event in, its effects carried out.

    def _handle(
        self,
        seat: Seat,
        source: Link,
        message: Message | RecoveryMessage | AdmissionMessage | AdmissionRequest,
        pressure: Backpressure | None = None,
    ) -> None:
        self._handled += not is_beat(message)
        if isinstance(message, Events):
            taken = self._take_in(seat, message)
            if taken is None:
                return
            message = taken
        if isinstance(message, Events | Directed):
            seat.events_in += len(message.batch)
            if seat.metrics is not None:
                seat.metrics.events_in(len(message.batch))
        if isinstance(message, TIMED) or self._is_late(seat):
            self._tell_time(seat)
        self._drive(seat, Received(source, message), pressure)
        self._flush_when_due(seat)

    def _drive(
        self,
        seat: Seat,
        event: Received | Ticked | Drained | Missed,
        pressure: Backpressure | None = None,
    ) -> None:
        commits = seat.commits
        if commits is None:
            for effect in seat.broker.handle(event):
                self._carry_out(seat, effect, pressure)
        elif commits.error is None:
            for effect in seat.broker.handle(event):
                commits.put(effect, partial(self._carry_out, seat, effect, pressure))

    def _carry_out(
        self,
        seat: Seat,
        effect: Effect,
        pressure: Backpressure | None,
    ) -> None:
        now = time.time()
        seat.telemetry.effect(now, effect)
        match effect:
            case Send(to, message):
                box = seat.links.get(to)
                if box is None:
                    box = seat.links[to] = self._ways.link(seat.broker.position.broker, to)
                self._put(seat, box, message, pressure)
            case Multicast(message):
                if seat.group is not None:
                    self._put(seat, seat.group, message, pressure)
            case Regroup(members):
                seat.group = self._ways.regroup(seat.broker.position.broker, members, seat.group)
            case Renew(to, over_group):
                seat.renew(to, over_group)
            case Deliver():
                if seat.metrics is not None:
                    seat.metrics.delivered(now, effect)
                self._deliver(seat, effect, pressure)
            case Propose(client, broker):
                if (owner := seat.owners.get(client)) is not None:  # publishers do not poll
                    owner.propose(client, broker, seat.tally)
            case Confirm(client, subscription):
                seat.answers.give((client, Register, subscription))
            case Flushed(client, number):
                seat.answers.give((client, Flush, number))
            case Report(client, losses):
                self._tell_losses(seat, client, losses)
            case Drain(number):
                self._drain_soon(seat, number)
            case Inform(client, news):
                self._inform(seat, client, news)

    def _put(self, seat: Seat, box: Outbox, message: LinkMessage, pressure: Backpressure | None) -> None:
        box.put(message)
        if isinstance(message, Events | Directed):
            seat.events_out += len(message.batch)
        if pressure is not None and box.full:
            pressure.outboxes[box] = None

    def _deliver(self, seat: Seat, deliver: Deliver, pressure: Backpressure | None) -> None:
        seat.notifications += len(deliver.rows)
        here = seat.absent.reachable(deliver, seat.owners, seat.durable)
        if here is None:
            return
        deliver = here
        owners = [seat.owners[client] for client in deliver.clients]
        for session, parcel in split(deliver, owners):
            session.put(parcel, seat.tally)
            if pressure is not None and session.full and parcel.clients[0] not in seat.durable:
                pressure.sessions[session] = None

    async def _room(self, pressure: Backpressure) -> None:
        if pressure.outboxes:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.delivery_wait_seconds if self._rings else None):
                    await wait_for_room(list(pressure.outboxes))
        for session in pressure.sessions:
            if session.gone(time.monotonic()):
                await self.end_session(session.name)
            else:
                await session.room(self._limits.delivery_wait_seconds)


def _say_end(ticking: asyncio.Task[None]) -> None:
    if not ticking.cancelled() and ticking.exception() is not None:
        _LOG.error("a broker broke and its host stands still", exc_info=ticking.exception())
