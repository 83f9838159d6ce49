"""A publisher, for any process that has joined a network; sync, with async twins.

Rules
-----
* ``publish`` returns when the publisher's broker has accepted the events (promise 2).
* A publisher counts its events from 1; (publisher, sequence) names an event everywhere.
* What its broker has not accepted goes before anything later, in networks that do not lose it.
* In a network that heals, it moves to another broker when its own dies (see `client`), and its user notices no more
  than the time that this takes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import ray

from ..faults.clients import PublisherMachine
from ..protocol.batch import EventBatch, batch_of
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Events
from .bulk import SLICE_BYTES
from .columns import batch_from
from .distributing import Distribution, Parcel
from .edge import Edge
from .flusher import Flusher
from .nearness import Placement
from .process import ClientProcess
from .requests import Stored

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
        *,
        placement: Placement | None = None,
    ) -> None:
        super().__init__(name, broker, directory, process, rendezvous, placement=placement)
        self._turn = threading.Lock()
        self._edge = None if directory.admission is None else Edge(time.time, time.sleep)
        self._machine_turn = threading.Lock()
        self._counted = not directory.numbered  # whether it is known which numbers were used before
        # After a move: where, and the last number published again.
        self._taken: tuple[BrokerId, int] = (broker, 0)
        recovery = self._recovery
        keep = (0, 0.0, 0.0)  # where nothing heals, nothing is published again that was accepted
        if recovery is not None:
            keep = recovery.retention_events_max, recovery.retention_seconds, recovery.retention_bytes_max
        self._machine = PublisherMachine(name, *keep)
        self._machine.come_back(time.time(), published, ())
        if recovery is not None:
            process.follow(self)

    @property
    def published(self) -> int:
        """The last sequence number that it has used."""
        return self._machine.published

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
            batch = self._machine.numbered(parcel.batch(), time.time())
            self._machine.skip(int(notifies))
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
                    self._call(part)
            return self.published

    def _count(self, host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
        """Go on after the last number that a stable broker has of a publisher of this name."""
        stored = ray.get(host.request.remote(broker, self.name, [Stored()]), timeout=seconds)
        self._machine.come_back(time.time(), stored, ())
        self._counted = True

    def _call(self, batch: EventBatch) -> None:
        self._hand_over_all()  # what is not accepted yet goes first; while that fails nothing more is taken
        # Counted first: whether a call that failed had been accepted is not known, and a number is never used again.
        with self._machine_turn:
            self._machine.publish(batch, time.time())
        self._hand_over_all()

    def _hand_over_all(self) -> None:
        while waiting := self._machine.unaccepted():
            try:
                self._hand_over(waiting[0])
            except BaseException:
                if not self._directory.numbered:  # whoever is told of the error knows best what to do
                    self._accepted(waiting[-1])
                raise
            self._accepted(waiting[0])

    def _accepted(self, batch: EventBatch) -> None:
        with self._machine_turn:
            self._machine.accept(int(batch.sequence[-1]), time.time())

    def _hand_over(self, batch: EventBatch) -> None:
        last = int(batch.sequence[-1])

        def call(host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
            if again and self._taken[0] == broker and self._taken[1] >= last:
                return  # the move has brought it along
            events = [Events(batch, again=again)]
            self._answer(host.request.remote(broker, self.name, events), host, seconds)
            self._stay(host)  # at the next broker, too, its events are to be all there up to the last

        self._ask(call, self._directory.limits.call_seconds)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        async with asyncio.timeout(patience_seconds):
            await host.pid.remote()
            await self._advertise_again(host, broker)
        with self._machine_turn:
            again = self._machine.moved(time.time())
        for events in again:
            async with asyncio.timeout(patience_seconds * BUSY_PATIENCES):
                await host.request.remote(broker, self.name, [events])
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
