"""A publisher, for any process that is attached to a network; synchronous, with asynchronous variants.

Rules
-----
* ``publish`` returns when the publisher's broker has accepted the events (promise 2).
* A publisher numbers its events from 1; (publisher, sequence) identifies an event everywhere.
* Events that the broker has not accepted precede anything later, in networks that do not lose them.
* In a network that heals, the publisher moves to another broker when its own dies (see `client`). The user
  notices only the time that this takes.
* What the publisher says to brokers is in `clients.publisher` and `clients.link`, the machines that the simulator
  drives too. Here each message waits for its answer.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeVar, overload

import numpy as np

from ...clients.link import ClientLinks
from ...clients.publisher import PublisherMachine, Said
from ...clients.quota import Excess
from ...protocol import checks
from ...protocol.batch import EventBatch, batch_of
from ...protocol.errors import BrokerLeaving, EventError, InputError
from ...protocol.expiry import checked_ttl, with_ttl
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import Advertise
from ...protocol.messages.pubsub import Events, Numbered
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from ..host.requests import Stored
from .advertiser import Advertiser, Calls
from .bulk import SLICE_BYTES
from .client import Client, Context, Place
from .columns import accepted_from, batch_from
from .distributing import CutPayload, Distribution
from .waits import Behind, Given, Pause, Turn, Work, carried_out, in_thread

_QUESTIONS: Final = itertools.count(1)
"""Numbers this process's questions about complete delivery (see `flushing`)."""

BUSY_PATIENCES: Final = 5
"""How many patience periods republication may take, because the broker may have to wait for others."""

T = TypeVar("T")


class Publisher(Client):
    """Publishes events at a broker.

    Created by :meth:`Network.publisher`. Safe to use from several threads.

    Attributes
    ----------
    on_accepted
        Called with each batch that a broker has accepted, and that broker; from any thread.
    ttl
        The time to live, in seconds, of events that are published without one; None if they do not expire.
    """

    kind = "publisher"

    def __init__(self, name: ClientId, broker: BrokerId, context: Context, published: int = 0) -> None:
        super().__init__(name, broker, context)
        directory, process = self._directory, self._process
        self.on_accepted: Callable[[BrokerId, EventBatch], None] = lambda broker, batch: None
        self.ttl: float | None = None
        self._turn = Turn()
        self._machine_turn = threading.Lock()
        self._links = ClientLinks() if self._features.numbers else None
        self._counted = not self._features.numbers  # whether the numbers that were used before are known
        # After a move: the new broker, and the last number that was republished.
        self._taken: tuple[BrokerId, int] = (broker, 0)
        self._machine = PublisherMachine(name, *self._features.retention)
        self._machine.reattach(time.time(), published, ())
        followed = process.session if self._features.heals else ""
        self._adverts = Advertiser(self._machine, self._links, name, directory, self._calls(), followed)
        if self._features.heals:
            process.follow(self)
        process.hold(self)

    def _calls(self) -> Calls:
        def settle(place: Place, step: Callable[[], list[Said]]) -> Work[list[Said]]:
            return self._settle(place, partial(self._locked, step))

        def still(step: Callable[[], list[Said]]) -> Work[list[Said]]:
            return self._still(partial(self._locked, step))

        return Calls(self._ask, self._answer, settle, still, self._handle)

    def _locked(self, step: Callable[[], T]) -> T:
        with self._machine_turn:
            return step()

    @property
    def published(self) -> int:
        """The last sequence number that was used."""
        return self._machine.published

    def publish(self, event: Mapping[str, Any], *, ttl: float | None = None) -> int:
        """Publish one event and return its sequence number, once the broker has accepted it.

        Parameters
        ----------
        event
            Attribute names and values.
        ttl
            Its time to live: for how many seconds after its publication it may be handed to subscribers. None for the
            publisher's `ttl`, which is none unless you set it. See docs/expiry.md.

        Raises
        ------
        EventError
            If an attribute has an invalid name or value.
        InputError
            If `ttl` is not a number of seconds above 0.
        NameTaken
            If another process has taken over the publisher's name. The event was not accepted.
        BrokerUnavailable
            If the broker does not accept the event.
        """
        return in_thread(self._publish(self._expiring(batch_of((event,)), ttl)))

    def _expiring(self, batch: EventBatch, ttl: float | None) -> EventBatch:
        return with_ttl(batch, self.ttl if ttl is None else checked_ttl(ttl))

    @overload
    def publish_batch(
        self, data: Any, *, on_error: Literal["raise"] = "raise", ttl: float | None = None
    ) -> int: ...

    @overload
    def publish_batch(
        self, data: Any, *, on_error: Literal["skip"], ttl: float | None = None
    ) -> dict[int, EventError]: ...

    def publish_batch(
        self, data: Any, *, on_error: Literal["raise", "skip"] = "raise", ttl: float | None = None
    ) -> int | dict[int, EventError]:
        """Publish many events, and return once the broker has accepted them all.

        Parameters
        ----------
        data
            A pandas DataFrame, an Arrow table, a mapping of columns, or a sequence of mappings.
        on_error
            What an invalid event does: ``"raise"`` publishes nothing and raises; ``"skip"`` publishes the others.
        ttl
            The time to live of each of them; see `publish`.

        Returns
        -------
        int or dict
            The sequence number of the last event; with ``"skip"`` what was refused: the place of each invalid event
            in `data`, from 0, and what is wrong with it.

        Raises
        ------
        EventError
            If an event is invalid; the message says which.
        BrokerUnavailable
            If the broker does not accept the events.
        """
        if checks.one_of("on_error", on_error, ("raise", "skip")) == "raise":
            return in_thread(self._publish(self._expiring(batch_from(data), ttl)))
        batch, refused = accepted_from(data)
        batch = self._expiring(batch, ttl)
        if len(batch):
            in_thread(self._publish(batch))
        return refused

    async def publish_async(self, event: Mapping[str, Any], *, ttl: float | None = None) -> int:
        """Publish one event from a coroutine; see `publish`."""
        return await carried_out(self._publish(self._expiring(batch_of((event,)), ttl)), self._process)

    @overload
    async def publish_batch_async(
        self, data: Any, *, on_error: Literal["raise"] = "raise", ttl: float | None = None
    ) -> int: ...

    @overload
    async def publish_batch_async(
        self, data: Any, *, on_error: Literal["skip"], ttl: float | None = None
    ) -> dict[int, EventError]: ...

    async def publish_batch_async(
        self, data: Any, *, on_error: Literal["raise", "skip"] = "raise", ttl: float | None = None
    ) -> int | dict[int, EventError]:
        """Publish many events from a coroutine; see `publish_batch`."""
        if isinstance(data, EventBatch) and on_error == "raise":
            return await carried_out(self._publish(self._expiring(data, ttl)), self._process)
        return await asyncio.to_thread(self.publish_batch, data, on_error=on_error, ttl=ttl)  # type: ignore[arg-type]

    def distribute(self, payload: Any, *, topic: str, slice_bytes: int = SLICE_BYTES) -> Distribution:
        """Distribute a payload to the broker of every subscriber to its topic; return when all of them have it.

        Subscribers to ``"topic = '...'"`` are notified of an event with `topic`, `payload`, `payload_bytes` and
        `payload_md5`, and read the payload with :meth:`Subscriber.payload`. The network's scheme must be
        ``lbdd``, where subscribers' brokers forward slices to each other, or ``point-to-point``.

        Parameters
        ----------
        payload
            Bytes, or any object with a buffer of bytes. It must not change until this returns.
        topic
            The topic of the payload.
        slice_bytes
            The number of bytes in a slice.

        Raises
        ------
        InputError
            If it is not a payload, or the scheme does not know the subscribers of a topic.
        BrokerUnavailable
            If the publisher's broker is gone, or the payload does not arrive.
        """
        self._open()
        cut = CutPayload(payload, topic, slice_bytes)
        notifies = not self._features.heals
        event_numbered: EventBatch | None = None  # a call made again is about the same event

        async def numbered() -> EventBatch:
            nonlocal event_numbered
            if event_numbered is None:
                async with self._turn:
                    with self._machine_turn:
                        event_numbered, _ = self._machine.publish(cut.batch(), time.time())
                        self._machine.accept(
                            self.published, time.time()
                        )  # it does not pass through this publisher
            return event_numbered

        async def call(place: Place, retrying: bool, seconds: float) -> Distribution:
            def answer(call: Any) -> Any:
                return in_thread(self._answer(call, place, seconds))

            def event() -> EventBatch:
                return in_thread(numbered()) if notifies else cut.batch()

            return cut.send(place.host, place.broker, event, answer, notifies=notifies)

        async def distribute() -> Distribution:
            done = await self._ask(call, self._directory.limits.call_seconds)
            if not notifies:
                await self._publish(cut.batch())
            return done

        return in_thread(distribute())

    async def _publish(self, batch: EventBatch) -> int:
        step = self._directory.limits.call_events_max
        async with self._turn:  # one call in flight, and sequence numbers in the order of publication
            self._open()
            if not self._counted:
                await self._ask(self._count, self._directory.limits.call_seconds)
            quota = self._adverts.quota
            for allowed in (batch,) if quota is None else quota.pass_on(batch):
                if isinstance(allowed, float):
                    await Pause(allowed)
                    continue
                size = len(allowed)
                for start in range(0, size, step):
                    part = allowed
                    if size > step:
                        part = allowed.take(np.arange(start, min(start + step, size)))
                    await self._call(part)
            return self.published

    async def _count(self, place: Place, retrying: bool, seconds: float) -> None:
        """Continue after the last number that a stable broker has of a publisher of this name."""
        assert self._links is not None
        stored = await Given(self._request(place, [Stored()]), seconds)
        self._machine.reattach(time.time(), stored, ())
        self._links.events.sent = stored
        self._counted = True

    async def _call(self, batch: EventBatch) -> None:
        if self._links is not None:
            await (
                self._hand_over_kept()
            )  # events not yet stable go first; while that fails nothing more is taken
        # Counted first: a failed call may have been accepted, and a number is never reused.
        with self._machine_turn:
            numbered, said = self._machine.publish(batch, time.time())
        if self._links is not None:
            for message in said:
                self._links.send(message)
            await self._hand_over_kept()
            return
        try:
            await self._hand_over(Events(numbered), held=not said)
        finally:  # the caller of a failed call decides what to do
            self._accepted(numbered)

    async def _hand_over_kept(self) -> None:
        """Retransmit, in networks that lose nothing, what the broker has not made stable."""
        for message in () if self._links is None else self._links.kept():
            if isinstance(message.message, Events):
                await self._hand_over(message)
                self._links.acknowledged("events", message.number)  # type: ignore[union-attr]
                self._accepted(message.message.batch)

    def _accepted(self, batch: EventBatch) -> None:
        with self._machine_turn:
            self._machine.accept(int(batch.sequence[-1]), time.time())

    async def _hand_over(self, message: Events | Numbered, *, held: bool = False) -> None:
        """Hand events to the broker. If they are `held`, the move in progress publishes them."""
        events: Events = message if isinstance(message, Events) else message.message
        if not self._features.outlives_processes and not held:
            with suppress(BrokerLeaving):  # then it was not accepted, and is taken to another broker below
                await self._hand_over_here(events)
                return
        last = int(events.batch.sequence[-1])

        async def call(place: Place, retrying: bool, seconds: float) -> None:
            if held and not retrying:
                place, retrying = await Behind(self._process, self._arrived()), True
            if retrying and self._taken[0] == place.broker and self._taken[1] >= last:
                return  # the move has published it
            said = _repeated(message) if retrying else message
            asked = self._handle(place.host).publish(
                place.broker, self.name, [said], time.time(), self.ticket
            )
            await self._answer(asked, place, seconds)
            await self._stay(place)  # the next broker, too, must have all events up to the last
            self.on_accepted(place.broker, events.batch)

        await self._ask(call, self._directory.limits.call_seconds)

    async def _hand_over_here(self, events: Events) -> None:
        """Hand events to the broker where no call is made again."""
        place, now = self._place, time.time()
        with broker_errors(self):
            asked = self._handle(place.host).publish(place.broker, self.name, [events], now, self.ticket)
            await Given(asked, self._directory.limits.call_seconds)
        self.on_accepted(place.broker, events.batch)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        until = asyncio.get_running_loop().time() + patience_seconds
        async with asyncio.timeout_at(until):
            await HostHandle(host).pid()
        machine = self._machine
        with self._machine_turn:
            waiting, taken_over = deque(machine.arrive(time.time())), machine.taken_over()
        again = False
        try:
            while waiting:
                again = again or isinstance(waiting[0], Events)
                waiting += await self._say_at(host, broker, waiting.popleft(), until, patience_seconds)
        except BaseException:
            with self._machine_turn:  # nobody answers there any more: what is held is retained as well
                for number in (*machine.adverts, *machine.withdrawn):
                    machine.everywhere(number, time.time())
            raise
        if again and broker != self.broker:
            self._request(self._place, [taken_over])  # without waiting for the answer

    async def _say_at(
        self, host: Any, broker: BrokerId, message: Said, until: float, patience_seconds: float
    ) -> list[Said]:
        """Say one thing to a new broker; return what may be said once it knows that."""
        handle, name = self._handle(host), self.name
        if isinstance(message, Events):
            async with asyncio.timeout(patience_seconds * BUSY_PATIENCES):
                await handle.publish(broker, name, [message], time.time(), self.ticket)
            self._taken = (broker, int(message.batch.sequence[-1]))
            self.on_accepted(broker, message.batch)
        elif isinstance(message, Advertise):
            async with asyncio.timeout_at(until):
                await handle.request(broker, name, [message], self._process.session)
            with self._machine_turn:
                return self._machine.everywhere(message.number, time.time())
        else:
            handle.request(broker, name, [message])  # without waiting for the answer
        return []

    def _say_what_it_knows(self) -> None:
        with self._machine_turn:  # no event with a higher number is sent before this
            self._request(self._place, [self._machine.has_published()])

    def _leave(self, host: Any, broker: BrokerId) -> None:
        with self._machine_turn:
            left = self._machine.leave()
        if left:
            self._handle(host).request(broker, self.name, left)

    # Advertisements.

    def advertise(self, filter: Any, *, max_rate: float | None = None, excess: Excess = "wait") -> int:
        """Advertise events, and return the advertisement's number once it is in force.

        With admission control it is in force when every broker knows it; events that no advertisement covers
        are rejected (`NotAdvertised`). Without admission control it is in force when the publisher's broker
        knows it. That broker then answers subscribers that ask for such events (`Subscriber.answers`), and
        other events may be published all the same.

        Parameters
        ----------
        filter
            The events that will be published.
        max_rate
            With admission control: the highest number of events per second. None uses the highest rate that
            this publisher has had in a second, or the network's default.
        excess
            With admission control: how to treat events above that rate. ``"wait"`` publishes them later,
            ``"drop"`` drops and counts them (`dropped`), ``"raise"`` raises `RateExceeded`.

        Raises
        ------
        InputError
            If `max_rate` or `excess` is given without admission control, if a parameter is out of range, or if
            a user-defined scheme takes no advertisements.
        """

        async def advertise() -> int:
            async with self._turn:
                self._open()
                return await self._adverts.advertise(filter, max_rate, excess)

        return in_thread(advertise())

    def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement, after everything that was published under it.

        Raises
        ------
        InputError
            If there is no advertisement of that number.
        """

        async def unadvertise() -> None:
            async with self._turn:
                self._open()
                await self._hand_over_kept()  # without the advertisement it would be rejected
                await self._adverts.unadvertise(number)

        in_thread(unadvertise())

    @property
    def dropped(self) -> int:
        """The number of events that were dropped because they exceeded the advertised rate."""
        quota = self._adverts.quota
        return 0 if quota is None else quota.dropped

    # Confirmation of delivery.

    def flush(self, *, timeout_seconds: float | None = None) -> None:
        """Wait until everything published so far is delivered.

        An event is delivered when every subscriber in the tree with a matching subscription has it in its
        process; for a durable subscriber, when its broker retains it. While the network heals, this waits for
        the round that retransmits what was missed.

        Parameters
        ----------
        timeout_seconds
            How long to wait; None for the network's `call_seconds`.

        Raises
        ------
        InputError
            If the network does not heal.
        BrokerUnavailable
            If delivery is not confirmed in time. The events may still be delivered later.
        """
        in_thread(self._flush(timeout_seconds))

    async def _flush(self, timeout_seconds: float | None) -> None:
        self._open()
        seconds = checks.optional_seconds("timeout_seconds", timeout_seconds)
        if not self._features.heals:
            raise InputError(
                "flush: this network does not heal; launch it with recovery=Recovery(), or use settle()"
            )
        if seconds is None:
            seconds = self._directory.limits.call_seconds

        def ask() -> list[Said]:
            with self._machine_turn:
                return self._machine.flush(next(_QUESTIONS), time.time())

        async def call(place: Place, retrying: bool, left: float) -> None:
            question = await self._settle(place, ask)
            asked = self._request(place, question)
            await self._answer(asked, place, left)

        async with self._turn:
            self._open()
            await self._ask(call, seconds)

    async def flush_async(self, *, timeout_seconds: float | None = None) -> None:
        """Wait from a coroutine until everything is delivered; see `flush`."""
        await carried_out(self._flush(timeout_seconds), self._process)

    # Closing.

    def close(self) -> None:
        """Leave the network; the name is free again."""
        in_thread(self._leave_network())

    async def close_async(self) -> None:
        """Leave the network from a coroutine; see `close`."""
        await carried_out(self._leave_network(), self._process)

    async def _leave_network(self) -> None:
        if not self._ended and self._machine.adverts and not self._process.has_left_ray:
            async with self._turn:
                await self._adverts.withdraw_all()
        self._closed = True
        if self._features.heals:
            self._process.leave(self)
        self._process.let_go(self)

    def __repr__(self) -> str:
        return f"Publisher({self.name!r}, broker={self.broker}, published={self.published})"


def _repeated(message: Events | Numbered) -> Events | Numbered:
    """Return a message about which a broker has perhaps been told before."""
    if isinstance(message, Numbered):
        return replace(message, message=_repeated(message.message))
    return Events(message.batch, retransmitted=True)
