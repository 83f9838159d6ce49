"""Publishers and subscribers, for any process that has joined a network; sync, with async twins.

Rules
-----
* ``publish`` returns when the publisher's broker has accepted the events; ``subscribe`` returns when the subscription
  is in the tables of every broker up to the root. So an event that is published after ``subscribe`` returned, and
  matches, is delivered (promise 2).
* A publisher counts its events from 1; (publisher, sequence) names an event everywhere.
* In a network that heals, a client whose broker dies moves to another one (see `client`), and its user notices no more
  than the time that this takes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayTaskError

from ..faults.clients import PublisherMachine, SubscriberMachine
from ..protocol.admission import Refusal
from ..protocol.batch import EventBatch, batch_of
from ..protocol.errors import BrokerUnavailable, InputError, RayvousError, SubscriptionTimeout
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Lost
from ..routing.filters import Filter
from ..routing.language import to_filter
from .bulk import SLICE_BYTES
from .client import Client
from .columns import batch_from
from .distributing import Distribution, Parcel, read_payload
from .edge import Edge
from .errors import broker_errors
from .flusher import Flusher
from .inbox import Arrival, Inbox
from .notification import Notification, for_people
from .process import ClientProcess

if TYPE_CHECKING:
    from .rendezvous import Directory


BUSY_PATIENCES: Final = 5
"""How many times as long as a sign of life what is published again may take: the broker may have to wait for others."""


class Publisher(Flusher):
    """Publishes events at its broker.

    Made by :meth:`Network.publisher`; may be used from several threads.
    """

    kind = "publisher"

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        directory: Directory,
        process: ClientProcess,
        rendezvous: Any = None,
        published: int = 0,
    ) -> None:
        super().__init__(name, broker, directory, process, rendezvous)
        self.published = published
        self._turn = threading.Lock()
        self._edge = None if directory.admission is None else Edge(time.time, time.sleep)
        self._machine: PublisherMachine | None = None
        self._machine_turn = threading.Lock()
        self._unaccepted: list[EventBatch] = []  # a stable broker takes no later events before these
        self._counted = directory.stable is None  # whether it is known which numbers were used before
        # After a move: where, and the last number published again.
        self._taken: tuple[BrokerId, int] = (broker, 0)
        if self._recovery is not None:
            keep = self._recovery.retention_events_max, self._recovery.retention_seconds
            self._machine = PublisherMachine(name, *keep)
            process.follow(self)

    def publish(self, event: Mapping[str, Any]) -> int:
        """Publish one event and return its sequence number, once the broker has accepted it.

        Raises
        ------
        EventError
            If an attribute has a bad name or value.
        BrokerUnavailable
            If the broker does not accept it.
        """
        return self._publish(batch_of((event,)))

    def publish_batch(self, data: Any) -> int:
        """Publish many events and return the sequence number of the last, once the broker has accepted them all.

        Parameters
        ----------
        data
            A pandas DataFrame, an Arrow table, a mapping of columns, or a sequence of mappings.
        """
        return self._publish(batch_from(data))

    async def publish_async(self, event: Mapping[str, Any]) -> int:
        """Publish one event from a coroutine; see `publish`."""
        return await asyncio.to_thread(self.publish, event)

    async def publish_batch_async(self, data: Any) -> int:
        """Publish many events from a coroutine; see `publish_batch`."""
        return await asyncio.to_thread(self.publish_batch, data)

    def distribute(self, payload: Any, *, topic: str, slice_bytes: int = SLICE_BYTES) -> Distribution:
        """Bring a payload to the broker of every subscriber to its topic; return when all of them have it.

        Subscribers to ``"topic = '...'"`` are notified of an event with `topic`, `payload`, `payload_bytes` and
        `payload_md5`, and read the payload with :meth:`Subscriber.payload`. The scheme of the network has to be
        ``lbdd``, where subscribers' brokers pass slices on to each other, or ``point-to-point``.

        Parameters
        ----------
        payload
            Bytes, or anything with a buffer of them; it must not change until this returns.
        topic
            What it is about.
        slice_bytes
            Bytes in a slice.

        Raises
        ------
        InputError
            If it is no payload, or the scheme does not know who wants it.
        BrokerUnavailable
            If the publisher's broker is gone, or the payload does not arrive.
        """
        self._open()
        parcel = Parcel(payload, topic, slice_bytes)
        notifies = self._recovery is None

        def call(host: Any, broker: BrokerId, again: bool, seconds: float) -> Distribution:
            def answer(call: Any) -> Any:
                return self._answer(call, host, seconds)

            return parcel.send(host, broker, batch, answer, notifies=notifies)

        with self._turn:
            batch = self._stamp(parcel.batch())
            self.published += notifies
        done = self._ask(call, self._directory.limits.call_seconds)
        if not notifies:
            self._publish(parcel.batch())
        return done

    def _publish(self, batch: EventBatch) -> int:
        step = self._directory.limits.call_events_max
        with self._turn:  # one call in flight, and sequence numbers in the order of publication
            self._open()
            if not self._counted:
                self._ask(self._count, self._directory.limits.call_seconds)
            for allowed in (batch,) if self._edge is None else self._edge.pass_on(batch):
                for start in range(0, len(allowed), step):
                    part = allowed
                    if len(allowed) > step:
                        part = allowed.take(np.arange(start, min(start + step, len(allowed))))
                    self._call(self._stamp(part))
            return self.published

    def _count(self, host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
        """Go on after the last number that a stable broker has of a publisher of this name."""
        self.published = ray.get(host.sequence.remote(broker, self.name), timeout=seconds)
        self._counted = True

    def _stamp(self, batch: EventBatch) -> EventBatch:
        size = len(batch)
        return replace(
            batch,
            publishers=(self.name,),
            publisher=np.zeros(size, np.int32),
            sequence=np.arange(self.published + 1, self.published + size + 1, dtype=np.int64),
            published_at=np.full(size, time.time()),
            _events=[],
        )

    def _call(self, batch: EventBatch) -> None:
        # Counted first: whether a call that failed had been accepted is not known, and a number is never used again.
        self.published += len(batch)
        if self._machine is not None:
            with self._machine_turn:
                self._machine.keep(time.time(), batch)
        self._unaccepted.append(batch)
        while self._unaccepted:
            try:
                self._hand_over(self._unaccepted[0])
            except BaseException:
                if self._directory.stable is None:
                    self._accepted(
                        len(self._unaccepted)
                    )  # whoever is told of the error knows best what to do
                raise
            self._accepted(1)

    def _accepted(self, batches: int) -> None:
        last = int(self._unaccepted[batches - 1].sequence[-1])
        del self._unaccepted[:batches]
        if self._machine is not None:
            with self._machine_turn:
                self._machine.accept(last, time.time())

    def _hand_over(self, batch: EventBatch) -> None:
        last = int(batch.sequence[-1])

        def call(host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
            if again and self._taken[0] == broker and self._taken[1] >= last:
                return  # the move has brought it along
            self._answer(host.publish.remote(broker, self.name, batch, again), host, seconds)
            self._stay(host)  # at the next broker, too, its events are to be all there up to the last

        self._ask(call, self._directory.limits.call_seconds)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        assert self._machine is not None
        async with asyncio.timeout(patience_seconds):
            await host.pid.remote()
            await self._advertise_again(host, broker)
        with self._machine_turn:
            again = self._machine.moved(time.time())
        for events in again:
            ages = events.age_seconds, events.forgot_seconds
            async with asyncio.timeout(patience_seconds * BUSY_PATIENCES):
                await host.publish.remote(broker, self.name, events.batch, True, *ages)
            self._taken = (broker, int(events.batch.sequence[-1]))

    def close(self) -> None:
        """Leave the network; the name is free again."""
        if not self._closed:
            self._withdraw_all()
        self._closed = True
        if self._recovery is not None:
            self._process.leave(self)

    def __repr__(self) -> str:
        return f"Publisher({self.name!r}, broker={self.broker}, published={self.published})"


class Subscriber(Client):
    """Registers subscriptions at its broker and is notified of what matches them.

    Made by :meth:`Network.subscriber`. Iterate over :meth:`notifications`, or ``async for note in subscriber``.
    """

    kind = "subscriber"

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        directory: Directory,
        process: ClientProcess,
        rendezvous: Any = None,
    ) -> None:
        super().__init__(name, broker, directory, process, rendezvous)
        self.subscriptions: dict[int, Filter] = {}
        self._priorities: dict[int, int] = {}
        self.received = 0
        self._next_number = 1
        self._unread: deque[Notification] = deque()
        limits = directory.limits
        self._machine = None if self._recovery is None else self._new_machine()
        self._inbox = Inbox(self.host, limits.delivery_events_max, self._inbox_wait_seconds, self._machine)
        self._turn = threading.Lock()
        process.watch(self.host, name, self._inbox, broker)
        if self._recovery is not None:
            process.follow(self)

    def _new_machine(self) -> SubscriberMachine:
        return SubscriberMachine()

    @property
    def _inbox_wait_seconds(self) -> float | None:
        return self._directory.limits.delivery_wait_seconds

    @property
    def losses(self) -> list[Lost]:
        """What it may have lost for good, by publisher and sequence, oldest first: see docs/exactly-once.md."""
        return [] if self._machine is None else list(self._machine.losses)

    @property
    def shed(self) -> int:
        """How many notifications were shed because they were not read in time."""
        return self._inbox.shed

    def subscribe(self, filter: Any, *, timeout_seconds: float | None = None, priority: int = 0) -> int:
        """Subscribe, and return the subscription's number once it is installed up to the root.

        Parameters
        ----------
        filter
            A selector (``"origin = 'JFK' AND dep_delay > 60"``), a filter built with :func:`rayvous.attr`, or a JSON
            pattern as a mapping.
        timeout_seconds
            How long to wait; None for the network's `call_seconds`.
        priority
            With admission control: when a broker can no longer carry everything, the lowest degrades first.

        Raises
        ------
        SelectorError, FilterTooComplex
            If the filter is not one, or its normal form is too large.
        SubscriptionTimeout
            If it was not installed in time; it is cancelled then.
        SubscriptionRejected
            If the network has admission control and cannot carry it; `refusals` says who lacks what.
        BrokerUnavailable
            If the broker's host is gone.
        """
        return self.subscribe_all([filter], timeout_seconds=timeout_seconds, priority=priority)[0]

    def subscribe_all(
        self, filters: Iterable[Any], *, timeout_seconds: float | None = None, priority: int = 0
    ) -> list[int]:
        """Subscribe to several filters in one call; all of them, or none when an error is raised. See `subscribe`."""
        self._open()
        limits = self._directory.limits
        items = [to_filter(given, clauses_max=limits.filter_clauses_max) for given in filters]
        seconds = limits.call_seconds if timeout_seconds is None else timeout_seconds
        with self._turn:
            numbers = list(range(self._next_number, self._next_number + len(items)))
            self._next_number += len(items)
        numbered = list(zip(numbers, items, strict=True))
        if self._machine is not None:
            self._machine.wants(time.time())

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> Any:
            waiting = host.subscribe.remote(broker, self._process.session, self.name, numbered, priority)
            try:
                self._answer(waiting, host, left)
            except (GetTimeoutError, RayTaskError) as error:
                cancel = host.unsubscribe.remote(broker, self.name, numbers)
                self._answer(cancel, host, limits.call_seconds)
                if isinstance(error, RayTaskError):
                    raise
                return None
            return host

        self._priorities.update(dict.fromkeys(numbers, priority) if priority else {})
        deadline = time.monotonic() + seconds
        while True:
            installed_at = self._ask(call, max(deadline - time.monotonic(), 0.0))
            if installed_at is None:
                raise SubscriptionTimeout(
                    f"{self}: not installed up to the root within {seconds} s, cancelled"
                )
            if self._process.submit(self._record(installed_at, numbered)).result():
                return numbers

    async def _record(self, host: Any, numbered: list[tuple[int, Filter]]) -> bool:
        """Note subscriptions that a host has installed; return False when it has been left since."""
        async with self._moving:
            if self.host == host:
                self.subscriptions.update(numbered)
            return bool(self.host == host)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        assert self._machine is not None
        self._inbox.host = host  # from here on nothing of the old one is taken in
        items = list(self.subscriptions.items())
        resume = self._machine.resume(time.time(), time.time() - self._inbox.heard_at)
        async with asyncio.timeout(patience_seconds):
            await host.resume.remote(
                broker, self._process.session, self.name, resume, items, self._priorities
            )

    def _leave(self, host: Any, broker: BrokerId) -> None:
        host.detach.remote(broker, self.name)

    def _fail(self, error: RayvousError) -> None:
        self._inbox.fail(error)
        raise error

    async def subscribe_async(self, filter: Any, *, timeout_seconds: float | None = None) -> int:
        """Subscribe from a coroutine; see `subscribe`."""
        return await asyncio.to_thread(self.subscribe, filter, timeout_seconds=timeout_seconds)

    def unsubscribe(self, number: int) -> None:
        """Cancel a subscription; what was on its way already may still come.

        Raises
        ------
        InputError
            If there is no subscription of that number.
        """
        self._open()
        if number not in self.subscriptions:
            known = list(self.subscriptions)
            raise InputError(f"subscriber {self.name!r} has no subscription {number}: it has {known}")

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> None:
            self._answer(host.unsubscribe.remote(broker, self.name, [number]), host, left)

        self._ask(call, self._directory.limits.call_seconds)
        del self.subscriptions[number]

    def degraded(self) -> dict[int, tuple[Refusal, ...]]:
        """Return the subscriptions that some broker can no longer carry as promised, by number, and what it lacks."""
        self._open()

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> dict[int, tuple[Refusal, ...]]:
            return ray.get(host.standing.remote(broker, self.name), timeout=left)  # type: ignore[no-any-return]

        return self._ask(call, self._directory.limits.call_seconds)

    async def unsubscribe_async(self, number: int) -> None:
        """Cancel a subscription from a coroutine; see `unsubscribe`."""
        await asyncio.to_thread(self.unsubscribe, number)

    def notifications(self, timeout_seconds: float | None = None) -> Iterator[Notification]:
        """Iterate over notifications as they come.

        Parameters
        ----------
        timeout_seconds
            End when nothing has come for so long; None never ends by itself, 0 takes only what is there.
        """
        while (note := self._next_unread()) is not None or self._unpack(self._inbox.wait(timeout_seconds)):
            if note is not None:
                yield note

    async def __aiter__(self) -> AsyncIterator[Notification]:
        while (note := self._next_unread()) is not None or self._unpack(await self._inbox.wait_async()):
            if note is not None:
                yield note

    def batches(self, timeout_seconds: float | None = None) -> Iterator[Arrival]:
        """Iterate over what comes in batches: `batch`, the `rows` of it that are for this subscriber, `received_at`."""
        while (arrival := self._inbox.wait(timeout_seconds)) is not None:
            self.received += len(arrival.rows)
            for row in arrival.rows.tolist():
                self._hand_out(*arrival.batch.identity(row))
            yield arrival

    def payload(self, notification: Notification) -> bytes:
        """Return the payload that a notification is about; see :meth:`Publisher.distribute`.

        Raises
        ------
        InputError
            If the event describes none, or the broker has forgotten it to make room for later ones.
        BrokerUnavailable
            If the broker is gone, or the publisher's process, which the slices belong to, has ended.
        """
        self._open()
        with broker_errors(str(self)):
            seconds = self._directory.limits.call_seconds
            return read_payload(self.host, self.broker, notification.event, seconds)

    def _next_unread(self) -> Notification | None:
        """Return the next notification of what was unpacked, so that a reader that stops loses none."""
        if not self._unread:
            return None
        note = self._unread.popleft()
        self.received += 1
        self._hand_out(note.publisher, note.sequence)
        return note

    def _hand_out(self, publisher: ClientId, sequence: int) -> None:
        """Note that the user is given this one."""

    def _unpack(self, arrival: Arrival | None) -> bool:
        """Make notifications of an arrival; return False when there is none."""
        if arrival is None:
            return False
        events = arrival.batch.events()
        for row in arrival.rows.tolist():
            publisher, sequence = arrival.batch.identity(row)
            event = {name: for_people(value) for name, value in events[row].items()}
            published_at = float(arrival.batch.published_at[row])
            self._unread.append(Notification(event, publisher, sequence, published_at, arrival.received_at))
        return True

    def close(self) -> None:
        """Leave the network: subscriptions are cancelled, readers end, the name is free again."""
        if self._closed:
            return
        self._closed = True
        if self._recovery is not None:
            self._process.leave(self)
        forgiven = () if self._recovery is None else (BrokerUnavailable,)  # a dead broker has forgotten it
        with suppress(*forgiven), broker_errors(str(self)):
            call = self.host.detach.remote(self.broker, self.name)
            ray.get(call, timeout=self._directory.limits.call_seconds)
        self._inbox.close()
        self._process.forget(self.name)

    def __repr__(self) -> str:
        count = len(self.subscriptions)
        return f"Subscriber({self.name!r}, broker={self.broker}, subscriptions={count}, received={self.received})"
