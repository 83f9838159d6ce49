"""The Ray host of brokers that keep what they promise in files, and go on where they were when it is started again.

Rules
-----
* Each broker has a file of its own (`protocol.stability`). What it wants done after a `Persist` waits for the commit.
* Ray starts a host again that died; its handle stays good. The host asks the rendezvous point which brokers are its
  own, reads their files, and goes on. Calls that came meanwhile wait for that.
* A call that publishes returns when the events are stable; made again, it finds that they are.
* A client process says BACK at each new life of a host, for each of its subscribers. What it acknowledges by its polls
  is acknowledged to the broker.
* A broker whose file fails stands still: calls to it raise `StorageFailed`. Others wait for it, as for a dead one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray

from ..faults.crash_recover import CrashRecover
from ..faults.sqlite_store import SqliteStore
from ..protocol.admission import AdmissionMessage, AdmissionRequest
from ..protocol.batch import EventBatch
from ..protocol.configs import Limits, Position
from ..protocol.effects import Deliver, Drained, Missed, Received, Ticked
from ..protocol.errors import BrokerUnavailable, ClientError, StorageFailed
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.messages import Ack, Adv, Back, Events, Message
from ..protocol.recovery import Recovery, RecoveryMessage
from ..protocol.stability import Stable
from .backpressure import Backpressure
from .broker import Broker
from .driver import Driver
from .host import BrokerHost
from .outbox import LinkMessage, Outbox
from .requests import Request, Stored
from .seat import Seat
from .sessions import split


class StableDriver(Driver):
    """The driver of brokers that keep what they have sent, by numbers, until it is acknowledged."""

    def handle(
        self,
        seat: Seat,
        source: Link,
        message: Message | RecoveryMessage | AdmissionMessage | AdmissionRequest,
        pressure: Backpressure | None = None,
    ) -> None:
        """Hand a broker a message; what stands in a numbered one counts as the events that it brings."""
        if isinstance(message, Adv) and isinstance(message.message, Events):
            seat.events_in += len(message.message.batch)
        super().handle(seat, source, message, pressure)

    def drive(
        self,
        seat: Seat,
        event: Received | Ticked | Drained | Missed,
        pressure: Backpressure | None = None,
    ) -> None:
        """Hand a broker an event; one that finds its file to be an old one stands still."""
        try:
            super().drive(seat, event, pressure)
        except StorageFailed as error:  # the broker has seen that its file is an old one
            assert seat.commits is not None
            seat.commits.stand_still(error)

    def _put(self, seat: Seat, box: Outbox, message: LinkMessage, pressure: Backpressure | None) -> None:
        if not (isinstance(message, Adv) and box.full):  # what is left out here is sent again
            super()._put(seat, box, message, pressure)

    def _deliver(self, seat: Seat, deliver: Deliver, pressure: Backpressure | None) -> None:
        seat.notifications += len(deliver.rows)
        owners = [seat.owners[client] for client in deliver.clients]
        for session, parcel in split(deliver, owners):
            session.put(replace(parcel, broker=seat.broker.position.broker, note=deliver.number), seat.tally)
            if pressure is not None and session.full:
                pressure.sessions[session] = None


class StableHost(BrokerHost):
    """Hosts one broker or many, with a file each; for the other parameters see :class:`BrokerHost`.

    Parameters
    ----------
    stable
        Where the files are, and what a commit waits for.
    rendezvous_name, namespace
        The actor that is asked for the directory in each life but the first.
    """

    driver_kind = StableDriver

    def __init__(
        self,
        scheme_name: str,
        limits: Limits,
        trace_events: bool,
        collector: Any,
        network: str | None,
        recovery: Recovery | None,
        stable: Stable,
        rendezvous_name: str,
        namespace: str,
    ) -> None:
        super().__init__(scheme_name, limits, trace_events, collector, network, recovery)
        self._stable = stable
        self._rendezvous_name = rendezvous_name, namespace
        self._waking = asyncio.Lock()

    # Set-up, in the first life by calls, in later ones by itself.

    async def seat(self, positions: Sequence[Position], life: int = 0) -> None:
        """Make the brokers of these positions, from their files where there are any.

        Raises
        ------
        StorageFailed
            If a file cannot be read, or is that of another broker.
        """
        for position in positions:
            file, stability = self._stable.file_of(position.broker), self._stable.stability
            store = SqliteStore(file, self._stable.synchronous, self._stable.pages_max)
            self._make_seat(
                Broker(position, self._scheme_name, store=store, stability=stability), store=store
            )

    async def begin(self) -> None:
        """Start to tick the brokers; with the first tick they send again what is not acknowledged."""
        if self._ticking is None:
            seconds = self._stable.stability.retransmit_seconds / 2
            self._ticking = asyncio.get_running_loop().create_task(self._tick(seconds))

    async def _awake(self) -> None:
        """Go on where an earlier life has ended, if there was one and that has not been done."""
        async with self._waking:
            if self.seats:
                return
            name, namespace = self._rendezvous_name
            directory = await ray.get_actor(name, namespace=namespace).directory.remote()
            if directory is None:
                raise BrokerUnavailable("the network is still being launched")
            me = ray.get_runtime_context().current_actor
            mine = [place for place in directory.positions if directory.hosts[place.broker] == me]
            await self.seat(mine)
            await self.connect(directory.hosts)
            await self.begin()

    # What comes in.

    async def receive(
        self, to: BrokerId, source: BrokerId, messages: Sequence[LinkMessage], life: int = 0
    ) -> None:
        """Take messages from another broker; return when what they changed is stable."""
        await self._awake()
        await super().receive(to, source, messages, life)

    async def request(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str = ""
    ) -> Any:
        """Hand a client's messages to its broker; return when what they changed is stable.

        Raises
        ------
        StorageFailed
            If that cannot be made stable; nothing of it was sent on.
        ClientError
            If a publisher's events before these are missing.
        """
        await self._awake()
        match messages:
            case [Events(batch, again=again)]:
                return await self._publish(at, client, batch, again)
        return await super().request(at, client, messages, session)

    def _seat_for(self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str) -> Seat:
        seat = super()._seat_for(at, client, messages, session)
        if messages and isinstance(messages[0], Back):
            self._come_back(seat, client, session)
        return seat

    def _take(self, seat: Seat, client: ClientId, message: Request, pressure: Backpressure) -> Any:
        if isinstance(message, Stored):
            return _machine(seat).heard_from(client, "events")
        return super()._take(seat, client, message, pressure)

    def _come_back(self, seat: Seat, client: ClientId, session: str) -> None:
        """Let this process have a subscriber that is there again, unless another one that lives has it."""
        before = seat.owners.get(client)
        if before is not None and before.gone(asyncio.get_running_loop().time()):
            del seat.owners[client]
        self.attachments.own(seat, client, session)

    async def _publish(self, at: BrokerId, publisher: ClientId, batch: EventBatch, again: bool) -> None:
        """Take events from a publisher; return when they are stable, and there is room for more."""
        seat, last = self.attachments.seat_of(at), int(batch.sequence[-1])
        machine = _machine(seat)
        if not again:
            seat.telemetry.published(batch.published_at[-1], batch)
        adv = Adv(last, int(batch.sequence[0]) - 1, Events(batch))
        pressure = Backpressure()
        while True:
            self.driver.handle(seat, publisher, adv, pressure)
            await seat.stable()
            heard = machine.heard_from(publisher, "events")
            if heard >= last:
                break
            if heard < adv.before:
                raise ClientError(f"publisher {publisher!r}: {heard + 1} to {adv.before} are missing")
            await asyncio.sleep(self._stable.stability.retransmit_seconds / 4)  # until a queue has room
        await self.driver.room(pressure)

    async def poll(self, session: str, acknowledged: int, timeout_seconds: float) -> list[Any]:
        """Return the parcels that wait for a client process, and let the brokers know what it has.

        Raises
        ------
        BrokerUnavailable
            If this life of the host does not know the process: it has to say BACK.
        """
        queue = self.attachments.sessions.get(session)
        if queue is None:
            raise BrokerUnavailable("the host was started again: say back")
        for (broker, client), note in _notes(queue.up_to(acknowledged)).items():
            self.driver.handle(self.seats[broker], client, Ack(note))
        return await super().poll(session, acknowledged, timeout_seconds)

    async def quiet(self, deliveries: bool = True) -> int:
        """Wait until nothing waits to leave, to be stable or to be acknowledged; see :meth:`BrokerHost.quiet`."""
        while True:
            await self._awake()
            handled = await super().quiet(deliveries)
            seats = self.seats.values()
            for seat in seats:
                await seat.stable()
            if not any(_machine(seat).unacknowledged for seat in seats) and handled == self.driver.handled:
                for seat in seats:
                    # What was acknowledged leaves the file: else it comes again in the next life.
                    self.driver.tell_time(seat)
                    await seat.stable()
                return handled
            await asyncio.sleep(self._stable.stability.retransmit_seconds / 4)

    async def describe(self) -> dict[BrokerId, dict[str, int]]:
        """Return the sizes of what each broker here keeps, and how many commits it made in this life."""
        await self._awake()
        found = await super().describe()
        for broker, seat in self.seats.items():
            assert seat.commits is not None
            found[broker]["commits"] = seat.commits.made
        return found


def _machine(seat: Seat) -> CrashRecover:
    assert seat.broker.stable is not None
    return seat.broker.stable


def _notes(parcels: Sequence[Any]) -> dict[tuple[BrokerId, ClientId], int]:
    """Return the last number of each broker's deliveries to each client."""
    return {(parcel.broker, client): parcel.note for parcel in parcels for client in parcel.clients}
