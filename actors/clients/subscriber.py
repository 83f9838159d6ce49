"""A subscriber, for any process that is attached to a network; synchronous, with asynchronous variants.

Rules
-----
* ``subscribe`` returns when the subscription is in the tables of every broker up to the root. A matching event
  that is published after that is delivered (promise 2). A subscription that local publishers satisfy is in
  force at once, for their events.
* In a network that heals, the subscriber moves to another broker when its own dies (see `client`). The user
  notices only the time that this takes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyarrow import RecordBatch
from ray.exceptions import GetTimeoutError, RayTaskError

from ...clients.beginnings import At
from ...clients.subscriber import SubscriberMachine
from ...protocol import checks
from ...protocol.batch import EventBatch, concat
from ...protocol.errors import (
    BrokerUnavailable,
    ClientError,
    InputError,
    NameTaken,
    RayvousError,
    StorageFailed,
    SubscriptionRejected,
    SubscriptionTimeout,
)
from ...protocol.expiry import deadline
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import GuaranteeStatus, Judgement, Refusal, delay_asked
from ...protocol.messages.pubsub import Answers, Cancel, Detach, Lost
from ...routing.filters.filter import Filter
from ...routing.language.questions import to_filter
from ..forks import require_same_process
from ..host.errors import broker_errors
from ..host.requests import Lacking, WhoAnswers
from .client import Client, Context, Place
from .distributing import read_payload
from .inbox import Arrival, Inbox, Straight
from .notification import Notification, for_people
from .record_batches import Layout
from .waits import Behind, Given, carried_out, in_thread

ROWS_MAX: Final = 65_536
"""How many events a record batch is filled up to, if so many wait."""
BATCH_BYTES_MAX: Final = 64 << 20
"""A record batch of so many bytes is filled no further."""


class Subscriber(Client):
    """Registers subscriptions at a broker and receives notifications of matching events.

    Created by :meth:`Network.subscriber`. Iterate over :meth:`notifications`, or ``async for note in
    subscriber``.
    """

    kind = "subscriber"

    def __init__(self, name: ClientId, broker: BrokerId, context: Context) -> None:
        super().__init__(name, broker, context)
        self.received = 0
        self._unread: deque[Notification] = deque()
        self._past_ttl = 0  # of these
        limits, process = self._directory.limits, self._process
        self._machine = self._new_machine()
        before = self._machine if self._features.heals else None
        self._inbox = Inbox(self.host, limits.delivery_events_max, self._inbox_wait_seconds, before)
        self._hold_back()
        self._turn = threading.Lock()
        self._trying = False
        self._goodbye: Any = None  # the answer to it
        process.watch(self.host, name, self._inbox, broker)
        if self._features.heals:
            process.follow(self)
        process.hold(self)

    def _new_machine(self) -> SubscriberMachine:
        return SubscriberMachine()

    def _hold_back(self) -> None:
        """Let what arrives wait if something comes before it."""

    @property
    def _inbox_wait_seconds(self) -> float | None:
        return self._directory.limits.delivery_wait_seconds

    @property
    def subscriptions(self) -> dict[int, Filter]:
        """The subscriptions in force, by number."""
        return self._machine.in_force

    @property
    def losses(self) -> list[Lost]:
        """Events that may be lost for good, by publisher and sequence, oldest first; see docs/exactly-once.md."""
        return list(self._machine.losses)

    def losses_after(self, known: int) -> list[Lost]:
        """Return `losses` without the first `known` entries.

        Raises
        ------
        InputError
            If `known` is not a whole number from 0.
        """
        return self._machine.losses[checks.whole_number("known", known, 0) :]

    @property
    def shed(self) -> int:
        """The number of notifications that were shed because they were not read in time."""
        return self._inbox.shed

    @property
    def past_ttl(self) -> int:
        """The number of notifications that were not read before their time to live had passed."""
        return self._inbox.past_ttl + self._past_ttl

    def subscribe(
        self,
        filter: Any,
        *,
        timeout_seconds: float | None = None,
        priority: int = 0,
        local_first: bool = False,
        max_delay: float | None = None,
        at: At | None = None,
        last_per: str | None = None,
    ) -> int:
        """Subscribe, and return the subscription's number once it is installed up to the root.

        Parameters
        ----------
        filter
            A selector (``"origin = 'JFK' AND dep_delay > 60"``), a filter built with :func:`rayvous.attr`, or a
            JSON pattern as a mapping.
        timeout_seconds
            How long to wait; None for the network's `call_seconds`.
        priority
            With admission control: when a broker can no longer carry everything, the lowest priority degrades
            first. With `AdmissionConfig.priority_shares` it also decides who is admitted.
        local_first
            Whether publishers at the subscriber's own broker satisfy the subscription, as long as some of them
            advertise events that overlap the filter. Other brokers need not know it then; see
            docs/hypercube.md.
        max_delay
            How long its events may wait for brokers and links on their way, in seconds; None for any time. If they
            have waited longer lately, it is refused. Needs `AdmissionConfig.delay_window_seconds`; see
            docs/admission.md.
        at
            Where in the past it begins, for the first subscriptions of a durable subscriber in a network that keeps a
            history: a time (``"2026-11-25T10:00"``, of UTC if it has no zone; a `datetime`; seconds since 1970), a
            position (the last number of each publisher that is not wanted, such as `position`), or ``"oldest"`` for all
            that is retained. None begins now. See docs/replay.md.
        last_per
            An attribute, or ``"_publisher"``: of the past only the last event of each of its values is wanted. Without
            `at`, of all that is retained. See docs/last-value.md.

        Raises
        ------
        InputError
            If `max_delay` is no number from 0, or the network does not measure delays. If it cannot begin at `at`: the
            message says why, and what is possible.
        SelectorError, FilterTooComplex
            If the filter is invalid, or its normal form is too large.
        SubscriptionTimeout
            If it was not installed in time. It is cancelled then.
        SubscriptionRejected
            If the network has admission control and cannot carry it; `refusals` names the brokers and
            resources.
        BrokerUnavailable
            If the broker's host is gone.
        """
        return self.subscribe_all(
            [filter],
            timeout_seconds=timeout_seconds,
            priority=priority,
            local_first=local_first,
            max_delay=max_delay,
            at=at,
            last_per=last_per,
        )[0]

    def subscribe_all(
        self,
        filters: Iterable[Any],
        *,
        timeout_seconds: float | None = None,
        priority: int = 0,
        local_first: bool = False,
        max_delay: float | None = None,
        at: At | None = None,
        last_per: str | None = None,
    ) -> list[int]:
        """Subscribe to several filters in one call: to all of them, or to none if it raises. See `subscribe`."""
        work = self._subscribe_all(
            filters,
            timeout_seconds,
            priority,
            local_first=local_first,
            max_delay=max_delay,
            at=at,
            last_per=last_per,
        )
        return in_thread(work)

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
        self._open()
        for name, given in (("at", at), ("last_per", last_per)):
            if given is not None:
                raise InputError(f"{name}: only a durable subscriber begins in the past: give durable=True")
        limits = self._directory.limits
        if isinstance(filters, str | Mapping) or not isinstance(filters, Iterable):
            raise checks.wrong("filters", filters, "a list of filters")
        items = [to_filter(given, clauses_max=limits.filter_clauses_max) for given in filters]
        seconds = checks.optional_seconds("timeout_seconds", timeout_seconds)
        seconds = limits.call_seconds if seconds is None else seconds
        checks.whole_number("priority", priority)
        checks.flag("local_first", local_first)
        max_delay = delay_asked(self._features.admission, max_delay)
        with self._turn:
            first = self._machine.last_number + 1
            numbers = list(range(first, first + len(items)))
            for number, item in zip(numbers, items, strict=True):
                self._machine.subscribe(
                    number, item, time.time(), priority, local_first=local_first, max_delay=max_delay
                )

        async def call(place: Place, retrying: bool, left: float) -> bool:
            registers = self._machine.request(numbers)
            waiting = self._request(place, registers, self._process.session)
            try:
                begins = await self._answer(waiting, place, left)
            except (GetTimeoutError, RayTaskError) as error:
                await self._answer(self._cancelled(place, numbers), place, limits.call_seconds)
                if isinstance(error, RayTaskError):
                    raise
                return False
            except asyncio.CancelledError:
                self._cancelled(place, numbers)  # nobody waits for it
                raise
            await self._settle(place, lambda: confirmed(begins))
            return True

        def confirmed(begins: Mapping[int, Mapping[ClientId, int]] | None) -> None:
            for number in numbers:
                self._machine.confirmed(number, (begins or {}).get(number))

        try:
            if not await self._ask(call, seconds):
                raise SubscriptionTimeout(
                    f"{self}: not installed up to the root within {seconds} s, cancelled"
                )
        except SubscriptionRejected as error:
            for number in numbers:  # all of them or none
                self._machine.judged(Judgement(number, False, error.asked, tuple(error.refusals)))
            raise
        except BaseException:
            for number in numbers:
                self._machine.cancel(number)
            raise
        return numbers

    def _cancelled(self, place: Place, numbers: list[int]) -> Any:
        return self._request(place, [Cancel(number) for number in numbers])

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        async with asyncio.timeout(patience_seconds):
            clock = await self._clock_at(host, broker)
            self._inbox.host = host  # from here on nothing from the old broker is accepted
            await self._say_here(host, broker, self._inbox.heard_at, clock)

    async def _clock_at(self, host: object, broker: BrokerId) -> float | None:
        """Return what the clock of a broker reads, before the subscriber comes to it; None if it need not know."""
        asked = self._machine.approach()
        clock: float | None = None
        if asked:
            clock = await self._handle(host).request(broker, self.name, asked, self._process.session)
        return clock

    async def _say_here(
        self, host: Any, broker: BrokerId, heard_at: float, clock: float | None, incarnation: int = 0
    ) -> None:
        """Tell a broker that the subscriber is attached, what it has received, and which subscriptions are in force."""
        # Pending subscriptions are requested again by the calls that wait for them.
        now = time.time()
        said = self._machine.arrive(now, max(now - heard_at, 0.0), incarnation, clock)
        await self._handle(host).request(broker, self.name, said, self._process.session)
        self._inbox.recover()

    def _say_what_it_knows(self) -> None:
        self._request(self._place, [self._machine.has_had()])

    def _leave(self, host: Any, broker: BrokerId) -> None:
        self._handle(host).request(broker, self.name, [Detach()], self.ticket)

    def lose(self, error: NameTaken) -> None:
        """Record that another process has taken over the name: readers end with this error."""
        super().lose(error)
        self._inbox.fail(error)

    def _fail(self, error: RayvousError) -> None:
        self._inbox.fail(error)
        if not self._trying and not self._network_ended:
            self._trying = True
            self._process.begin(self._try_again())
        raise error

    async def _try_again(self) -> None:
        """Look for a broker again, after a while: nobody else does as long as the subscriber is only read."""
        await asyncio.sleep(self._features.times.client_patience_seconds)
        self._trying = False
        await self.move(self.host, False)

    async def subscribe_async(
        self,
        filter: Any,
        *,
        timeout_seconds: float | None = None,
        priority: int = 0,
        local_first: bool = False,
        max_delay: float | None = None,
        at: At | None = None,
        last_per: str | None = None,
    ) -> int:
        """Subscribe from a coroutine; see `subscribe`."""
        work = self._subscribe_all(
            [filter],
            timeout_seconds,
            priority,
            local_first=local_first,
            max_delay=max_delay,
            at=at,
            last_per=last_per,
        )
        return (await carried_out(work, self._process))[0]

    def set_local_first(
        self, number: int, local_first: bool, *, timeout_seconds: float | None = None
    ) -> None:
        """Make publishers at the subscriber's own broker suffice for a subscription, or no longer.

        The subscription keeps its number and its position. When publishers elsewhere are asked for again, the call
        returns once the subscription is installed at all brokers, as `subscribe` does.

        Parameters
        ----------
        number
            The subscription.
        local_first
            As in `subscribe`.
        timeout_seconds
            How long to wait; None for the network's `call_seconds`.

        Raises
        ------
        InputError
            If there is no subscription of that number.
        SubscriptionTimeout
            If it was not installed in time. It goes on, and is installed later; the same call waits for it again.
        """
        in_thread(self._set_local_first(number, local_first, timeout_seconds))

    async def set_local_first_async(
        self, number: int, local_first: bool, *, timeout_seconds: float | None = None
    ) -> None:
        """Do the same from a coroutine; see `set_local_first`."""
        await carried_out(self._set_local_first(number, local_first, timeout_seconds), self._process)

    async def _set_local_first(self, number: int, local_first: bool, timeout_seconds: float | None) -> None:
        self._open()
        self._check_number(number)
        checks.flag("local_first", local_first)
        seconds = checks.optional_seconds("timeout_seconds", timeout_seconds)
        seconds = self._directory.limits.call_seconds if seconds is None else seconds
        with self._turn:
            first = self._machine.set_local_first(number, local_first)
        if not first:
            return
        await self._write_down()  # whether it is installed in time or later

        async def call(place: Place, retrying: bool, left: float) -> bool:
            said = self._machine.request([number], awaited=True) if retrying else first
            try:
                begins = await self._answer(self._request(place, said, self._process.session), place, left)
            except GetTimeoutError:
                return False
            known = (begins or {}).get(number)
            await self._settle(place, lambda: self._machine.confirmed(number, known))
            return True

        if not await self._ask(call, seconds):
            raise SubscriptionTimeout(
                f"{self}: subscription {number} is not installed everywhere after {seconds} s"
            )

    async def _write_down(self, *without: int) -> None:
        """Store what outlives the process, without these subscriptions; nothing does if it is not durable."""

    def unsubscribe(self, number: int) -> None:
        """Cancel a subscription. Notifications that were already in flight may still arrive.

        Raises
        ------
        InputError
            If there is no subscription of that number.
        """
        in_thread(self._unsubscribe(number))

    async def _unsubscribe(self, number: int) -> None:
        self._open()
        self._check_number(number)

        async def call(place: Place, retrying: bool, left: float) -> None:
            await self._answer(self._cancelled(place, [number]), place, left)
            await self._settle(place, lambda: self._machine.cancel(number))

        await self._ask(call, self._directory.limits.call_seconds)

    def degraded(self) -> dict[int, tuple[Refusal, ...]]:
        """Return the subscriptions that some broker can no longer carry as promised, by number, and what each lacks."""
        self._open()
        found: dict[int, tuple[Refusal, ...]] = self._answer_to(Lacking())
        for number in self.subscriptions:
            self._machine.guarantee_changed(GuaranteeStatus(number, found.get(number, ())))
        return dict(self._machine.lacking)

    def answers(self, number: int) -> Answers:
        """Return the publishers that advertise what a subscription asks for, and their brokers.

        `known` names some of them; `more` is the number of others. With `here` set they are the current
        publishers at the subscriber's own broker, which satisfy the subscription, and no other broker knows it.
        Otherwise they answered when the subscription was installed. Under schemes in which brokers do not
        answer, none is known.

        Raises
        ------
        InputError
            If there is no subscription of that number.
        """
        self._open()
        self._check_number(number)
        found: dict[int, Answers] = self._answer_to(WhoAnswers())
        news = found.get(number, Answers(number, ()))
        self._machine.answered(news)
        return news

    def _answer_to(self, question: Lacking | WhoAnswers) -> Any:
        """Return the broker's answer to a question about this subscriber's subscriptions."""

        async def call(place: Place, retrying: bool, left: float) -> Any:
            asked = self._request(place, [question])
            return await self._answer(asked, place, left)

        return in_thread(self._ask(call, self._directory.limits.call_seconds))

    def _check_number(self, number: int) -> None:
        if checks.whole_number("number", number) not in self.subscriptions:
            known = list(self.subscriptions)
            raise InputError(f"subscriber {self.name!r} has no subscription {number}: it has {known}")

    async def unsubscribe_async(self, number: int) -> None:
        """Cancel a subscription from a coroutine; see `unsubscribe`."""
        await carried_out(self._unsubscribe(number), self._process)

    def notifications(self, timeout_seconds: float | None = None) -> Iterator[Notification]:
        """Iterate over notifications as they arrive.

        Parameters
        ----------
        timeout_seconds
            End after so many seconds without a notification. None never ends by itself; 0 returns only what has
            arrived.

        Raises
        ------
        InputError
            If it is not a number of seconds; raised by the call, not by the first iteration.
        NameTaken
            If another process has taken over the subscriber's name. Raised by an iteration that waits, too.
        BrokerUnavailable
            If its broker is gone, and no other takes the subscriber.
        """
        require_same_process()
        return self._notes(checks.optional_seconds("timeout_seconds", timeout_seconds))

    def _notes(self, timeout_seconds: float | None) -> Iterator[Notification]:
        while (note := self._next_unread()) is not None or self._unpack(self._inbox.wait(timeout_seconds)):
            if note is not None:
                yield note

    async def __aiter__(self) -> AsyncIterator[Notification]:
        while (note := self._next_unread()) is not None or self._unpack(await self._inbox.wait_async()):
            if note is not None:
                yield note

    def batches(
        self, timeout_seconds: float | None = None, *, rows_max: int = ROWS_MAX
    ) -> Iterator[RecordBatch]:
        """Iterate over events as `pyarrow.RecordBatch`, a row each: whatever has arrived by then, at least one.

        The columns `_publisher`, `_sequence` and `_published_at` come first; then one for each attribute
        (:mod:`rayvous.actors.clients.record_batches` has the rules). The schema of one iteration only widens: each
        batch has the columns of all before it, and each earlier one can be cast to a later schema. A durable subscriber
        acknowledges a batch with `acknowledge()`.

        Parameters
        ----------
        timeout_seconds
            As for `notifications`, whose errors this has, too: after the events that came before them.
        rows_max
            Nothing more is added to a batch of so many rows, or of 64 MiB.

        Raises
        ------
        InputError
            If an argument is wrong; raised by the call, not by the first iteration.
        """
        require_same_process()
        checks.whole_number("rows_max", rows_max, 1)
        wait = checks.optional_seconds("timeout_seconds", timeout_seconds)
        return map(Layout().record_batch, self._together(wait, rows_max))

    def _together(self, timeout_seconds: float | None, rows_max: int) -> Iterator[EventBatch]:
        for first in self._arrivals(timeout_seconds):
            yield self._with_what_waits(first, rows_max)

    def _with_what_waits(self, first: Arrival, rows_max: int) -> EventBatch:
        """Return the events of an arrival and of those that wait behind it; an error behind them is next."""
        found = [first.batch.take(first.rows)]
        rows, nbytes = len(first.rows), found[0].nbytes
        while (
            rows < rows_max and nbytes < BATCH_BYTES_MAX and (more := self._inbox.take_queued()) is not None
        ):
            self._hand_out_all(more)
            found.append(more.batch.take(more.rows))
            rows, nbytes = rows + len(more.rows), nbytes + found[-1].nbytes
        return concat(found)

    async def batches_async(self, *, rows_max: int = ROWS_MAX) -> AsyncIterator[RecordBatch]:
        """Iterate over events as `pyarrow.RecordBatch` from a coroutine; see `batches`."""
        checks.whole_number("rows_max", rows_max, 1)
        layout = Layout()
        while (first := await self._inbox.wait_async()) is not None:
            self._hand_out_all(first)
            yield layout.record_batch(self._with_what_waits(first, rows_max))

    def arrivals(self, timeout_seconds: float | None = None) -> Iterator[Arrival]:
        """Iterate over arrivals as the network delivers them: `batch`, the `rows` of it that count, `received_at`.

        `timeout_seconds` and the errors are those of `notifications`.
        """
        require_same_process()
        return self._arrivals(checks.optional_seconds("timeout_seconds", timeout_seconds))

    def _arrivals(self, timeout_seconds: float | None) -> Iterator[Arrival]:
        while (arrival := self._inbox.wait(timeout_seconds)) is not None:
            self._hand_out_all(arrival)
            yield arrival

    def listen(self, more: Callable[[], None], straight: Straight | None = None) -> None:
        """Call `more` on the running loop when something has arrived since `take` returned None, and at the end.

        On the event loop of the client process, events that nothing precedes are first passed to `straight`, if that is
        given, in the turn in which they come: a batch, and which rows of it. It returns whether it has taken them; then
        `take` does not return them, nor are they counted as `received`.

        Raises
        ------
        InputError
            If `more` cannot be called.
        ClientError
            If no loop runs in this thread.
        """
        if not callable(more):
            raise checks.wrong("more", more, "a function without arguments")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ClientError("listen is for coroutines: no event loop runs in this thread") from None
        self._inbox.listen(loop, more, straight if loop is self._process.loop else None)

    @property
    def idle(self) -> bool:
        """Whether `take` would return None now."""
        return self._inbox.idle

    def take(self) -> Arrival | None:
        """Return the next arrival, as `arrivals` does; None if there is none.

        Raises
        ------
        ClientError
            If nothing more will arrive because the subscriber is closed.
        BrokerUnavailable
            If nothing more will arrive because its broker is gone.
        NameTaken
            If nothing more will arrive because another process has taken over the subscriber's name.
        """
        arrival = self._inbox.take()
        if arrival is not None:
            self._hand_out_all(arrival)
        elif self._inbox.closed:
            raise ClientError(f"{self} is closed")
        return arrival

    def _hand_out_all(self, arrival: Arrival) -> None:
        self.received += len(arrival.rows)

    def payload(self, notification: Notification) -> bytes:
        """Return the payload that a notification describes; see :meth:`Publisher.distribute`.

        Raises
        ------
        InputError
            If the event describes none, or the broker has dropped it to make room for later ones.
        BrokerUnavailable
            If the broker is gone.
        """
        self._open()
        checks.instance("notification", notification, Notification, "a Notification")
        with broker_errors(str(self)):
            seconds = self._directory.limits.call_seconds
            return read_payload(self.host, self.broker, notification.event, seconds)

    def _next_unread(self) -> Notification | None:
        """Return the next notification of the unpacked batch, so that a reader that stops loses none."""
        while self._unread:
            note = self._unread.popleft()
            self._hand_out(note.publisher, note.sequence)
            if note.expired:
                self._past_ttl += 1
                continue
            self.received += 1
            return note
        return None

    def _hand_out(self, publisher: ClientId, sequence: int) -> None:
        """Record that the user receives this notification."""

    def _unpack(self, arrival: Arrival | None) -> bool:
        """Create the notifications of an arrival; return False if there is none."""
        if arrival is None:
            return False
        events = arrival.batch.documents(for_people)
        for row in arrival.rows.tolist():
            publisher, sequence = arrival.batch.identity(row)
            published_at = float(arrival.batch.published_at[row])
            self._unread.append(
                Notification(
                    events[row],
                    publisher,
                    sequence,
                    published_at,
                    arrival.received_at,
                    expires_at=deadline(arrival.batch, row),
                )
            )
        return True

    def abandon(self) -> None:
        """Record that this process has closed the network: the client can do nothing more, and its readers end."""
        super().abandon()
        self._inbox.close()

    def close(self) -> None:
        """Leave the network: subscriptions are cancelled, readers end, the name is free again."""
        in_thread(self._leave_network())

    async def close_async(self) -> None:
        """Leave the network from a coroutine; see `close`."""
        await carried_out(self._leave_network(), self._process)

    async def _leave_network(self) -> None:
        if await self._say_goodbye():
            await self._finish_closing()

    def start_closing(self) -> Callable[[], None]:
        """Say goodbye to the broker; the result waits for its answer, and completes what `close` does.

        So many subscribers leave in the time of one.
        """
        if in_thread(self._say_goodbye()):
            return lambda: in_thread(self._finish_closing())
        return lambda: None

    async def _say_goodbye(self) -> bool:
        """Tell the broker that the subscriber leaves; return whether there is more to do."""
        if self._closed:
            return False
        if self._process.has_left_ray:
            self.abandon()
            return False
        self._closed = True
        if self._features.heals:
            self._process.leave(self)
        with self._forgiving():
            if self._lost is None:
                place: Place = await Behind(self._process, self._arrived())
                asked = self._request(place, [Detach()], self.ticket)
                self._goodbye = asked
        return True

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Suppress what hinders no goodbye: a dead broker has no state, and one whose store failed promises nothing."""
        forgiven = (BrokerUnavailable, StorageFailed) if self._features.heals else ()
        with suppress(NameTaken, *forgiven), broker_errors(str(self)):
            yield

    async def _finish_closing(self) -> None:
        with self._forgiving():
            if self._goodbye is not None:
                await Given(self._goodbye, self._directory.limits.call_seconds)
        self._inbox.close()
        self._process.let_go(self)
        if self._lost is None:  # else another client of this process may have the name
            self._process.forget(self.name)

    def __repr__(self) -> str:
        count = len(self.subscriptions)
        return f"Subscriber({self.name!r}, broker={self.broker}, subscriptions={count}, received={self.received})"
