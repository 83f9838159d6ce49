"""Durable subscribers and returning publishers on Ray: clients whose name outlives their process.

Rules
-----
* The rendezvous point holds a durable subscriber's position and subscriptions, and has stored them before
  `acknowledge` returns. The subscriber can therefore resume in any process, at any broker, even if its former
  broker is dead.
* Each process that attaches under the name begins a new incarnation. A call from an earlier one fails: a name is in use
  in one place only.
* Acknowledgement is explicit. What was handed out and not acknowledged when the process dies is handed out
  again.
* A subscriber that begins in the past, or was rewound, reads the histories of all brokers first. What arrives meanwhile
  waits. Its broker takes no part, and knows nothing of it.
* A durable subscriber has a poll of its own, so it may be slow without delaying others.
* A returning publisher goes to the broker that accepted its last events, and continues after them. If that
  broker is gone, it continues at another one, with numbers above all that it may have used.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NotRequired

from ray.exceptions import ActorDiedError, RayActorError, RayError

from ...clients.beginnings import OLDEST, At, Beginning, asked_for, beginning_of, last_of, require_history
from ...clients.past import PastReader
from ...clients.subscriber import SubscriberMachine, SubscriberRecord
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError, RayvousError, TooManyKeys
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import ClientMessage, Consumed, Detach, HasConsumed, Undeliverable
from ...recovery.replay.history import EVER, HistoryAt, Page, ReadHistory, Span
from ..answers import answered
from ..host.errors import broker_errors
from ..host.handle import Answer
from ..host.requests import Away
from .client import Context, Place
from .inbox import Arrival
from .notification import Notification
from .publisher import Publisher
from .subscriber import Subscriber
from .waits import Behind, Given, in_thread


class FoundRecord(SubscriberRecord):
    """The record of a durable subscriber as the rendezvous point hands it out."""

    seen: float  # when it was last heard of, in seconds since 1970
    beside: NotRequired[object]  # what a process of this name has stored beside its position


class DurableSubscriber(Subscriber):
    """A subscriber whose subscriptions and position outlive its process.

    Created by :meth:`Network.subscriber` with ``durable=True``. A later incarnation receives again everything that was
    not acknowledged: call :meth:`acknowledge` after processing a notification.
    """

    def __init__(self, name: ClientId, broker: BrokerId, context: Context, record: FoundRecord) -> None:
        self._record_found = record
        self._told: dict[ClientId, int] = {}  # the acknowledged positions that the broker was told
        self._noting = threading.Lock()  # of what is read or acknowledged
        self._with_past: dict[BrokerId, object] = {}  # the hosts that were asked for the past last
        super().__init__(name, broker, context)
        self._handed: dict[ClientId, int] = {}
        with broker_errors(str(self)):
            self._process.run(self._arrive())
        if self._machine.past is not None:
            self._process.submit(self._read_past())

    def _hold_back(self) -> None:
        if self._machine.past is not None:
            self._inbox.hold()

    def _new_machine(self) -> SubscriberMachine:
        machine = SubscriberMachine(durable=True)
        machine.restore(self._record_found)
        return machine

    @property
    def _inbox_wait_seconds(self) -> float | None:
        return None

    @property
    def position(self) -> dict[ClientId, int]:
        """The last acknowledged sequence of each publisher."""
        return self._machine.acknowledged

    @property
    def incarnation(self) -> int:
        """The number of its incarnation, higher than those of all earlier processes of this name."""
        return self._machine.incarnation

    async def _arrive(self) -> None:
        """Tell the broker that the subscriber is attached; tell another one if that has died or does not answer."""
        seen = float(self._record_found["seen"])
        host = self.host
        try:
            async with asyncio.timeout(self._features.times.client_patience_seconds):
                clock = await self._clock_at(host, self.broker)
                await self._say_here(host, self.broker, seen, clock, self._machine.incarnation)
        except (RayActorError, BrokerUnavailable, TimeoutError) as error:
            await self.move(host, isinstance(error, ActorDiedError))

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        async with asyncio.timeout(patience_seconds):
            clock = await self._clock_at(host, broker)
        self._inbox.host = host  # from here on nothing from the old broker is accepted
        incarnation = await answered(
            self._rendezvous.renew.remote(self.name, self._machine.incarnation, broker)
        )
        async with asyncio.timeout(patience_seconds):
            await self._say_here(host, broker, self._inbox.heard_at, clock, incarnation)

    async def _say_here(
        self, host: Any, broker: BrokerId, heard_at: float, clock: float | None, incarnation: int = 0
    ) -> None:
        self._told = dict(self._machine.position)
        await super()._say_here(host, broker, heard_at, clock, incarnation)

    def _say_what_it_knows(self) -> None:
        """Tell the broker the acknowledged positions, which are those that the rendezvous point has stored."""
        self._request(self._place, [HasConsumed(dict(self._told), self._machine.incarnation)])

    def _leave(self, host: Any, broker: BrokerId) -> None:
        self._handle(host).request(
            broker, self.name, [Away()], self.ticket
        )  # the rendezvous point tells it when to drop what it holds

    # Subscriptions are stored when they are installed, and before they are changed or cancelled.

    async def _subscribe_all(
        self,
        filters: Iterable[Any],
        timeout_seconds: float | None,
        priority: int,
        *,
        local_first: bool,
        max_delay: float | None,
        at: At | None = None,
        last_per: str | None = None,
    ) -> list[int]:
        given = filters, timeout_seconds, priority
        if at is None and last_per is None:
            numbers = await super()._subscribe_all(*given, local_first=local_first, max_delay=max_delay)
            await self._write_down()
            return numbers
        if checks.flag("local_first", local_first):
            raise InputError("at: the past is that of all publishers: leave local_first out")
        if last_per is not None:
            checks.text("last_per", last_per)
        beginning = await self._beginning(OLDEST if at is None else at)
        self._inbox.hold()
        self._machine.awaits_past = True
        try:
            numbers = await super()._subscribe_all(*given, local_first=local_first, max_delay=max_delay)
            try:
                await self._begin_past(numbers, beginning, last_per)
            except BaseException:
                self._cancelled(self._place, numbers)  # nobody waits for it
                self._machine.past = None
                for number in numbers:
                    self._machine.cancel(number)
                raise
        finally:
            self._machine.awaits_past = False
            self._process.submit(self._read_past())
        return numbers

    # The past.

    async def _beginning(self, at: At) -> Beginning:
        """Return where in the past the first subscriptions begin."""
        self._open()
        require_history(self._features)
        asked = asked_for(at, time.time())
        if self._machine.subscriptions or self._machine.acknowledged:
            raise InputError(
                f"at: {self.name!r} has subscribed already: rewind it with net.rewind({self.name!r}, at=...)"
            )
        spans, _ = await self._past_of_brokers(asked.moment)
        return beginning_of(asked, list(spans.values()))

    async def _past_of_brokers(
        self, moment: float = EVER
    ) -> tuple[dict[BrokerId, Mapping[ClientId, Span]], set[BrokerId]]:
        """Return what those brokers have of the past that answer, and all brokers."""
        with broker_errors(f"{self}: the past"):
            found: tuple[dict[BrokerId, Mapping[ClientId, Span]], set[BrokerId]]
            found = await Behind(self._process, self._ask_brokers(moment))
            return found

    async def _ask_brokers(
        self, moment: float
    ) -> tuple[dict[BrokerId, Mapping[ClientId, Span]], set[BrokerId]]:
        async with asyncio.timeout(self._directory.limits.call_seconds):
            hosts: dict[BrokerId, object] = await answered(self._rendezvous.hosts.remote())
        self._with_past = hosts

        async def one(host: object) -> dict[BrokerId, Mapping[ClientId, Span]]:
            with suppress(RayError, TimeoutError):
                async with asyncio.timeout(self._features.times.client_patience_seconds):
                    found: dict[BrokerId, Mapping[ClientId, Span]] = await answered(
                        self._handle(host).ask("history", HistoryAt(moment))
                    )
                    return found
            return {}

        answers = await asyncio.gather(*map(one, dict.fromkeys(hosts.values())))
        known = {broker: spans for answer in answers for broker, spans in answer.items() if broker in hosts}
        return known, set(hosts)

    async def _begin_past(self, numbers: Iterable[int], beginning: Beginning, last_per: str | None) -> None:
        """Let subscriptions that are in force begin in the past, and store that."""
        spans, brokers = await self._past_of_brokers()
        last, awaits = last_of(spans.values()), sorted(brokers - spans.keys())
        machine = self._machine
        messages = machine.begin_past(numbers, beginning.since, beginning.marks, last, awaits, last_per)
        await self._write_down()
        await self._store_position(None)
        for message in messages:
            self._process.submit(self._let_forget(message))

    async def _read_past(self) -> None:
        """Read what the subscriber has not acknowledged of its past; on the background loop only."""
        machine, times = self._machine, self._features.times
        reader = PastReader(machine, times, time.monotonic())
        while self._goes_on and not reader.finished(time.monotonic()):
            try:
                await self._read_on(reader)
            except TooManyKeys as error:
                self._inbox.fail(error)
                return
            except (RayError, RayvousError, TimeoutError):
                await asyncio.sleep(times.heartbeat_seconds)
            except Exception as error:
                self._inbox.fail(error)
                raise
        if not self._goes_on:
            return
        self._inbox.let_in()
        with self._noting:
            before = machine.past
            messages = machine.acknowledge_past()
        self._inbox.tell(())  # what was reported meanwhile
        if machine.past == before:
            return
        with suppress(RayError):  # the next process reads it again
            await answered(self._say_position(None))
            for message in messages:
                await self._let_forget(message)

    @property
    def _goes_on(self) -> bool:
        return not (self._closed or self._network_ended) and self._lost is None

    async def _read_on(self, reader: PastReader) -> None:
        with self._noting:
            batch = reader.last_values(time.monotonic())
        if batch is not None:
            await self._inbox.put_ahead(batch, time.time())
            return
        questions = reader.questions()
        if not questions:
            answers, brokers = await self._ask_brokers(EVER)
            with self._noting:
                self._inbox.tell(tuple(reader.known(answers, brokers, time.monotonic())), of_past=True)
            if not reader.questions():
                await asyncio.sleep(self._features.times.heartbeat_seconds)
        for broker, question in questions:
            page = await self._page(broker, question)
            with self._noting:
                batch = reader.took(broker, question, page)
            if batch is not None:
                await self._inbox.put_ahead(batch, time.time())
            if page is None:
                await asyncio.sleep(self._features.times.heartbeat_seconds)

    async def _page(self, broker: BrokerId, question: ReadHistory) -> Page | None:
        """Return a page; None if the broker does not answer."""
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(self._features.times.client_patience_seconds):
                return await answered(self._handle(self._with_past[broker]).read_history(broker, question))
        return None

    async def _unsubscribe(self, number: int) -> None:
        await self._write_down(number)
        await super()._unsubscribe(number)

    async def _write_down(self, *without: int) -> None:
        """Store the subscriptions in force, except the ones that are about to be cancelled."""
        machine = self._machine
        await self._ask_rendezvous("subscriptions", machine.incarnation, machine.record(without))

    async def _ask_rendezvous(self, method: str, *arguments: Any) -> Any:
        with broker_errors(str(self)):
            call = getattr(self._rendezvous, method).remote(self.name, *arguments)
            return await Given(call, self._directory.limits.call_seconds)

    # Acknowledgements.

    def _hand_out_all(self, arrival: Arrival) -> None:
        super()._hand_out_all(arrival)
        for row in arrival.rows.tolist():
            self._hand_out(*arrival.batch.identity(row))

    def _hand_out(self, publisher: ClientId, sequence: int) -> None:
        self._handed[publisher] = max(sequence, self._handed.get(publisher, 0))

    def acknowledge(self, note: Notification | None = None) -> None:
        """Advance the position. When this returns, nothing up to it is ever handed out again.

        Parameters
        ----------
        note
            A notification: acknowledges it and all earlier ones of the same publisher. None acknowledges
            everything that was handed out so far.

        Raises
        ------
        NameTaken
            If another process has attached under this name since.
        ClientError
            If this subscriber is closed.
        BrokerUnavailable
            If the rendezvous point does not store the position in time. It may or may not be acknowledged then.
        """
        self._open()
        checks.optional("note", note, Notification, "a Notification")
        self.acknowledge_up_to(dict(self._handed) if note is None else {note.publisher: note.sequence})

    def acknowledge_up_to(self, marks: Mapping[ClientId, int], beside: object = None) -> None:
        """Advance the position to these sequences, by publisher; see `acknowledge`.

        `beside` is stored with it: plain data, which `found_beside` is in the next process of this name.
        """
        in_thread(self._acknowledge(marks, beside))

    @property
    def found_beside(self) -> object:
        """What the last process of this name has stored beside its position; None if it stored nothing."""
        return self._record_found.get("beside")

    async def _acknowledge(self, marks: Mapping[ClientId, int], beside: object = None) -> None:
        self._open()
        machine = self._machine
        with self._noting:
            before, past = dict(machine.position), machine.past
            messages = machine.acknowledge(marks)
        if not messages and beside is None and machine.past == past:
            return
        try:
            await self._store_position(beside)
        except BaseException:
            with self._noting:
                machine.position, machine.past = before, past
            raise
        for message in messages:
            # Not awaited: it only lets the broker drop data, and a returning process repeats it.
            self._process.submit(self._let_forget(message))

    async def _store_position(self, beside: object) -> None:
        with broker_errors(str(self)):
            await Given(self._say_position(beside), self._directory.limits.call_seconds)

    def _say_position(self, beside: object) -> Answer[None]:
        """Let the rendezvous point store the position, and what of the past is acknowledged: later calls tell more."""
        machine = self._machine
        with self._noting:
            past = () if machine.past is None else (machine.past,)
            said = machine.incarnation, dict(machine.position), beside, *past
            stored: Answer[None] = self._rendezvous.acknowledge.remote(self.name, *said)
            return stored

    async def _let_forget(self, message: ClientMessage) -> None:
        """Tell the broker what it need not retain; during a move tell the next one, which may know less."""
        assert isinstance(message, Consumed)
        async with self._moving:
            said = replace(message, incarnation=self._machine.incarnation)
            self._request(self._place, [said])
            self._told |= {name: max(mark, self._told.get(name, 0)) for name, mark in said.marks.items()}

    def give_up(self, publisher: ClientId, sequence: int, event: Mapping[str, object], reason: str) -> None:
        """Make an event that is not acknowledged a dead letter; it is acknowledged afterwards, by the caller.

        Raises
        ------
        BrokerUnavailable
            If the broker does not answer.
        """
        in_thread(self._give_up(Undeliverable(publisher, sequence, event, reason, 0)))

    async def _give_up(self, message: Undeliverable) -> None:
        self._open()

        async def call(place: Place, again: bool, left: float) -> None:
            said = replace(message, incarnation=self._machine.incarnation)
            await self._answer(self._request(place, [said]), place, left)

        await self._ask(call, self._directory.limits.call_seconds)

    async def acknowledge_async(self, note: Notification | None = None) -> None:
        """Acknowledge from a coroutine; see `acknowledge`."""
        await asyncio.to_thread(self.acknowledge, note)

    # Leaving.

    def close(self) -> None:
        """Detach. The subscriptions stay in force; the broker retains notifications until the subscriber returns."""
        if not self._closed:
            in_thread(self._depart(Away()))

    def end(self) -> None:
        """Leave for good: the subscriptions are cancelled and the position is deleted."""
        if not self._closed:
            in_thread(self._end())

    async def _end(self) -> None:
        await self._depart(Detach())
        await self._ask_rendezvous("end_durable", self._machine.incarnation)

    async def _depart(self, last_word: Away | Detach) -> None:
        if self._process.has_left_ray:
            self.abandon()
            self._process.close()
            return
        self._closed = True
        self._process.leave(self)
        place: Place = await Behind(self._process, self._arrived())
        if self._lost is None:
            self._request(place, [last_word], self.ticket)
        self._inbox.close()
        self._process.forget(self.name)
        self._handle(place.host).end_session(self._process.session)
        self._process.close()


class ReturningPublisher(Publisher):
    """A publisher whose numbering outlives its process. Created by :meth:`Network.publisher` with ``durable=True``."""

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        context: Context,
        known: tuple[int, list[tuple[float, Any]], int],
    ) -> None:
        published, kept, self._reserved = known
        super().__init__(name, broker, context, published)
        self._machine.reattach(time.time(), published, kept)

    async def _call(self, batch: Any) -> None:
        last = self.published + len(batch)
        if last > self._reserved:
            with broker_errors(str(self)):
                call = self._rendezvous.reserve.remote(self.name, last)
                self._reserved = await Given(call, self._directory.limits.call_seconds)
        await super()._call(batch)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        await answered(self._rendezvous.home_of_publisher.remote(self.name, broker, False))
        await super()._go_on_at(host, broker, patience_seconds)
        await answered(self._rendezvous.home_of_publisher.remote(self.name, broker, True))
