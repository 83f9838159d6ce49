"""A worker of a consumer group, in any process that has joined the network.

Rules
-----
* A thread polls the group's actor, and so says that the process lives. What the worker may hold is bounded
  (`unacknowledged_max`), so what it has fetched and its program has not read is, too.
* An acknowledgement returns when it is stored. What was not the worker's (any more) is an error: the event was not
  given to it, or was given to another worker since.
* When the actor has been restarted, or has taken this worker for dead, the worker says what it holds. What is not its
  own any more it drops, if its program has not read it yet. An answer that comes after that may be of the process that
  died, so what was settled with it is said again.

What it holds stands in `clients.group_worker`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import ray
from pyarrow import RecordBatch
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from ...clients.beginnings import At, asked_for
from ...clients.group import Hold, Settled
from ...clients.group_worker import WorkerMachine
from ...protocol import checks
from ...protocol.batch import EventBatch, Rows, concat
from ...protocol.errors import BrokerUnavailable, ClientError, GroupEnded, InputError, NotGiven
from ...protocol.expiry import deadline
from ...protocol.groups import GroupConfig
from ...protocol.ids import EventId
from ...routing.filters.filter import Filter
from ...routing.language.questions import to_filter
from ..clients.notification import Notification, for_people
from ..clients.record_batches import DELIVERIES, Layout
from ..clients.subscriber import ROWS_MAX
from ..host.errors import broker_errors
from .messages import POLL_SECONDS, Portion

CALL_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
"""How long a worker waits before it asks a group again that does not reach its network."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Unread:
    """An event that has come and that the program has not read: row `row` of `batch`."""

    batch: EventBatch
    row: int
    event: EventId
    deliveries: int
    received_at: float


class GroupWorker:
    """One worker of a consumer group. Created by :meth:`Network.subscriber` with ``group=True``.

    Iterate over :meth:`notifications`, or ``async for note in worker``; `ack` each when it is processed.

    Attributes
    ----------
    name, worker
        The group, and the worker in it.
    """

    def __init__(self, config: GroupConfig, actor: ActorHandle, left: Callable[[GroupWorker], None]) -> None:
        self.name, self.worker = config.name, uuid4().hex[:12]
        self._actor, self._left = actor, left
        self._machine = WorkerMachine[_Unread]()
        self._more: Callable[[], None] = lambda: None  # called when something has come
        self._listens = False
        self._lost: list[EventId] = []  # what was taken from a program that listens, and was not told of
        self._changed = threading.Condition()
        self._waiting = 0
        self._wakes: dict[Callable[[], None], None] = {}  # of readers on event loops
        self._asked = False  # whether its program has asked in vain since the last poll
        self._error: Exception | None = None
        self._closed = False
        self._unclaimed = False  # whether the group has to be told what this worker holds
        self._claims = 0  # how often that began
        self._thread = threading.Thread(target=self._run, name=f"group {self.name}", daemon=True)
        self._thread.start()

    # Subscriptions.

    @property
    def subscriptions(self) -> list[Filter]:
        """The subscription of the group, or none."""
        found: list[Filter] = self._ask(lambda: self._actor.ready.remote())
        return found

    def subscribe(
        self,
        filter: Any,
        *,
        priority: int = 0,
        max_delay: float | None = None,
        at: At | None = None,
        last_per: str | None = None,
    ) -> int:
        """Subscribe the group, and return the number of its subscription. All its workers share this one.

        `priority`, `max_delay` and `at` are those of `Subscriber.subscribe`; what the first worker says counts.

        Raises
        ------
        SelectorError, FilterTooComplex
            If the filter is invalid, or its normal form is too large.
        InputError
            If the group has subscribed to something else, or cannot begin at `at`. With `last_per`: a group is given
            every event.
        SubscriptionRejected, SubscriptionTimeout, BrokerUnavailable
            As `Subscriber.subscribe`.
        """
        wanted = to_filter(filter)
        if last_per is not None:
            raise InputError(
                "last_per: a group is given every event: leave it out, or take a durable subscriber that is no group"
            )
        if at is not None:
            asked_for(at, time.time())
        number: int = self._ask(lambda: self._actor.subscribe.remote(wanted, priority, max_delay, at))
        return number

    # Events.

    def notifications(self, timeout_seconds: float | None = None) -> Iterator[Notification]:
        """Iterate over the events that this worker gets; `deliveries` says how often each was given to a worker.

        Parameters
        ----------
        timeout_seconds
            End after so many seconds without an event. None never ends by itself; 0 returns only what is here.

        Raises
        ------
        InputError
            If it is not a number of seconds.
        GroupEnded
            If the group has ended, or another process has its name.
        """
        return self._each(_note, 1, checks.optional_seconds("timeout_seconds", timeout_seconds))

    def batches(
        self, timeout_seconds: float | None = None, *, rows_max: int = ROWS_MAX
    ) -> Iterator[RecordBatch]:
        """Iterate over the events that this worker gets as `pyarrow.RecordBatch`, as :meth:`Subscriber.batches` does.

        A batch has what is unread, `unacknowledged_max` events at most. Its last column, `_deliveries`, says how often
        each was given. `acknowledge()` acknowledges what was handed out.

        Parameters
        ----------
        timeout_seconds
            As for `notifications`, whose errors this has, too.
        rows_max
            A batch has at most so many rows.

        Raises
        ------
        InputError
            If an argument is wrong; raised by the call, not by the first iteration.
        """
        checks.whole_number("rows_max", rows_max, 1)
        wait = checks.optional_seconds("timeout_seconds", timeout_seconds)
        return self._each(_columns(), rows_max, wait)

    def batches_async(self, *, rows_max: int = ROWS_MAX) -> AsyncIterator[RecordBatch]:
        """Iterate over events as `pyarrow.RecordBatch` from a coroutine; see `batches`."""
        return self._each_async(_columns(), checks.whole_number("rows_max", rows_max, 1))

    def _each(
        self, made: Callable[[list[_Unread]], T], most: int, timeout_seconds: float | None
    ) -> Iterator[T]:
        """Iterate over what is `made` of so many events at most that are unread."""
        end = _end_of(timeout_seconds)
        while True:
            with self._changed:
                while self._machine.next is None:
                    left = None if end is None else end - time.monotonic()
                    if self._is_over() or (left is not None and left <= 0):
                        return
                    with self._wait():
                        self._changed.wait(left)
                taken, late = self._hand_out(most)
            self._give_back(late)
            if taken:
                yield made(taken)
                end = _end_of(timeout_seconds)

    def _give_back(self, late: list[EventId]) -> None:
        """Give events back that are past their time to live: the group lets go of them."""
        with suppress(NotGiven, BrokerUnavailable):  # they are overdue some time, too
            if late:
                self._settle((), [(event, 0.0) for event in late])

    def _is_over(self) -> bool:
        """Return whether the worker has left, where nothing has come; otherwise its program asks in vain."""
        if self._error is not None:
            raise self._error
        self._asked = True
        return self._closed

    @contextmanager
    def _wait(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _hand_out(self, most: int) -> tuple[list[_Unread], list[EventId]]:
        """Hand out what is unread, at most so many events; return it, and what is past its time to live."""
        taken, late, now = list[_Unread](), list[EventId](), time.time()
        while self._machine.next is not None and len(taken) < most:
            one = self._machine.hand_out()
            until = deadline(one.batch, one.row)
            if until is not None and now > until:
                late.append(one.event)
            else:
                taken.append(one)
        return taken, late

    def listen(self, more: Callable[[], None]) -> None:
        """Call `more` in some thread when something has come or was taken away, and at the end."""
        self._more, self._listens = more, True

    def take(self) -> tuple[EventBatch | None, Rows | None, list[int], list[EventId]] | None:
        """Return what has come, as a program that `listen`s reads it; or None.

        Returns
        -------
        batch, rows, deliveries, withdrawn
            Rows of a batch, and how often each was given; and what was taken from this worker before.

        Raises
        ------
        GroupEnded
            If there is nothing, and there will be nothing.
        """
        with self._changed:
            lost, self._lost = self._lost, []
            first = self._machine.next
            if first is None:
                if lost:
                    return None, None, [], lost
                if self._error is not None:
                    raise self._error
                return None
            batch, taken = first.batch, list[_Unread]()
            while (one := self._machine.next) is not None and one.batch is batch:
                taken.append(self._machine.hand_out())
        return batch, np.array([one.row for one in taken]), [one.deliveries for one in taken], lost

    def ask(self) -> None:
        """Record that the program waits for an event, as one does that `take`s; one that stood still gets more then."""
        self._asked = True

    def settle(self, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]]) -> None:
        """Acknowledge and refuse events by their identities; see `ack` and `nack`."""
        self._settle(acknowledged, refused)

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._each_async(_note, 1)

    async def _each_async(self, made: Callable[[list[_Unread]], T], most: int) -> AsyncIterator[T]:
        loop, come = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(come.set)

        with self._changed:
            self._wakes[wake] = None
        try:
            while True:
                come.clear()
                with self._changed:
                    found = None if self._machine.next is None else self._hand_out(most)
                    if found is None and self._is_over():
                        return
                if found is not None:
                    taken, late = found
                    if late:
                        await asyncio.to_thread(self._give_back, late)
                    if taken:
                        yield made(taken)
                    continue
                with self._wait():
                    await come.wait()
        finally:
            self._wakes.pop(wake, None)

    def _notify(self) -> None:
        """Wake the readers; called with the lock."""
        self._changed.notify_all()
        for wake in list(self._wakes):
            wake()

    # What the program says of them.

    def ack(self, note: Notification) -> None:
        """Acknowledge one event: when this returns, no worker ever gets it again.

        Raises
        ------
        NotGiven
            If the event was not given to this worker, or was taken from it since: it stood still, or was taken for
            dead, and another worker may have the event.
        BrokerUnavailable
            If that is not stored in time. The event may or may not be acknowledged then.
        """
        checks.instance("note", note, Notification, "a Notification")
        self._settle([(note.publisher, note.sequence)], ())

    def nack(self, note: Notification, seconds: float = 0.0) -> None:
        """Refuse one event: a worker gets it again in so many seconds, until it is a dead letter.

        With a `group_key` the events of its key that this worker holds behind it are given back with it, uncounted.

        Raises
        ------
        NotGiven, BrokerUnavailable
            As `ack`.
        """
        checks.instance("note", note, Notification, "a Notification")
        wait = checks.seconds("seconds", seconds)
        self._settle((), [((note.publisher, note.sequence), wait)])

    def acknowledge(self, note: Notification | None = None) -> None:
        """Acknowledge up to a position, as a durable subscriber does.

        Parameters
        ----------
        note
            An event: acknowledges it, and what this worker was handed out of the same publisher before it. None
            acknowledges everything that it was handed out.

        Raises
        ------
        NotGiven, BrokerUnavailable
            As `ack`.
        """
        checks.optional("note", note, Notification, "a Notification")
        with self._changed:
            meant = self._machine.handed(None if note is None else (note.publisher, note.sequence))
        if meant:
            self._settle(meant, ())

    def _settle(self, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]]) -> None:
        if self._closed:
            raise ClientError(f"{self} is closed")
        foreign: list[EventId] | None = None
        while True:
            with self._changed:
                had, said = self._machine.held, self._claims
            settled: Settled = self._ask(
                lambda: self._actor.settle.remote(self.worker, acknowledged, refused)
            )
            if not settled.stranger:
                foreign = [each for each in settled.foreign if foreign is None or each in foreign]
                over = [*acknowledged, *(event for event, _ in refused), *settled.withdrawn]
                with self._changed:
                    if self._claims == said:
                        self._machine.drop(over, had)
                        break  # else a process may have answered that has died, and a later one was told otherwise
            elif self._closed:
                raise ClientError(f"{self} is closed")
            else:
                self._claim()
        if foreign:
            named = ", ".join(f"{publisher} #{number}" for publisher, number in foreign[:5])
            raise NotGiven(
                f"group {self.name!r}: {named}: not given to this worker, or taken from it since; another worker may "
                "have it"
            )

    def _claim(self) -> None:
        """Say what this worker holds, to a process of the group that does not know it, and drop what is not its own."""
        with self._changed:
            if self._closed:
                return
            had, self._unclaimed = self._machine.held, True
            self._claims += 1
            call = self._actor.claim.remote(self.worker, self._machine.holds)
        self._drop(self._ask(lambda: call), had)
        self._unclaimed = False

    def _drop(self, events: Iterable[EventId], had: Mapping[EventId, int] | None = None) -> None:
        """Forget events that this worker holds no more: of copies only those that it `had`, if that is given."""
        with self._changed:
            self._machine.drop(events, had)

    # Leaving.

    def __enter__(self) -> GroupWorker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group: others get what this worker holds. The subscription stays in force."""
        if self._closed:
            return
        with self._changed:
            self._closed = True
            self._notify()
        self._left(self)
        if self._error is None:
            with suppress(RayError, GetTimeoutError):
                ray.get(self._actor.leave.remote(self.worker), timeout=CALL_SECONDS)

    def abandon(self) -> None:
        """Record that the worker can do nothing more, and that nobody can be told: the group or Ray has ended."""
        with self._changed:
            self._closed = True
            self._notify()

    def end(self) -> None:
        """End the group for good, for all its workers: its subscription is cancelled, its position deleted."""
        self._ask(lambda: self._actor.finish.remote("end"))
        self.abandon()
        self._left(self)
        ray.kill(self._actor)

    # The thread that polls.

    def _ask(self, call: Callable[[], Any]) -> Any:
        with broker_errors(f"group {self.name!r}", "the group"):
            return ray.get(call(), timeout=CALL_SECONDS)

    def _run(self) -> None:
        joined = False
        while not self._closed:
            try:
                if self._unclaimed:
                    self._claim()
                answer = self._poll(joined)
                if answer is None:
                    return
                joined, self._unclaimed = True, self._unclaimed or answer.stranger
                self._take(answer)
            except Exception as error:
                cause = error.cause if isinstance(error, RayTaskError) else error
                if isinstance(cause, BrokerUnavailable):
                    with self._changed:  # the group begins again, and does not reach its network yet
                        self._changed.wait_for(lambda: self._closed, AGAIN_SECONDS)
                    continue
                if not self._closed:
                    self._fail(error)
                return
            if answer.over:
                self._fail(GroupEnded(f"group {self.name!r}: {answer.over}"))
                return

    def _poll(self, joined: bool) -> Portion | None:
        """Ask for events, and wait until the group has answered; None if this worker has left meanwhile."""
        with self._changed:
            if self._closed:
                return None
            asks, self._asked = self._asked or self._waiting > 0, False
            call = self._actor.poll.remote(self.worker, joined, asks)  # before `close` says that it leaves
        answer: Portion | None = None
        while answer is None and not self._has_left():  # what it holds nobody else gets: it is awaited again
            with suppress(GetTimeoutError):
                answer = ray.get(call, timeout=CALL_SECONDS + POLL_SECONDS)
        return None if self._has_left() else answer

    def _has_left(self) -> bool:
        return self._closed

    def _take(self, answer: Portion) -> None:
        self._drop(answer.withdrawn)
        if answer.batch is None and not answer.withdrawn:
            return
        now = time.time()
        with self._changed:
            if self._listens:
                self._lost += answer.withdrawn
            told = zip(answer.deliveries, answer.keys, answer.tokens, strict=True)
            for row, (deliveries, key, token) in enumerate(told):
                assert answer.batch is not None
                one = _Unread(answer.batch, row, answer.batch.identity(row), deliveries, now)
                self._machine.come(one.event, one, Hold(key, token))
            self._notify()
        self._more()

    def _fail(self, error: Exception) -> None:
        known = error if isinstance(error, GroupEnded) else None
        with self._changed:
            self._error = known or GroupEnded(f"group {self.name!r} has ended: {type(error).__name__}")
            self._notify()
        self._more()

    def __repr__(self) -> str:
        return f"GroupWorker({self.name!r}, worker={self.worker!r})"


def _end_of(timeout_seconds: float | None) -> float | None:
    """Return when a wait ends that begins now, on the monotonic clock."""
    return None if timeout_seconds is None else time.monotonic() + timeout_seconds


def _note(taken: list[_Unread]) -> Notification:
    """Return the notification of the one event that was taken."""
    (one,) = taken
    published_at = float(one.batch.published_at[one.row])
    (shown,) = one.batch.take(np.array([one.row])).documents(for_people)
    until = deadline(one.batch, one.row)
    return Notification(shown, *one.event, published_at, one.received_at, one.deliveries, until)


def _columns() -> Callable[[list[_Unread]], RecordBatch]:
    """Return what makes record batches, in a schema that only widens."""
    layout = Layout()

    def made(taken: list[_Unread]) -> RecordBatch:
        runs = [list(run) for _, run in groupby(taken, lambda one: id(one.batch))]
        parts = [run[0].batch.take(np.array([one.row for one in run])) for run in runs]
        deliveries = pa.array([one.deliveries for one in taken], pa.int64())
        return layout.record_batch(concat(parts)).append_column(DELIVERIES, deliveries)

    return made
