"""Received and unread notifications of a subscriber: a bounded queue between the poll and the reader, sync or async."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

import numpy as np

from ...clients.link import ClientLinks
from ...clients.subscriber import SubscriberMachine
from ...protocol.batch import EventBatch, Rows
from ...protocol.errors import BrokerUnavailable, NameTaken, TooManyKeys
from ...protocol.expiry import first_deadline, living
from ...protocol.gathering import TTLS
from ...protocol.messages.pubsub import Lost
from ...protocol.quick import quick
from ...recovery.durability.deadlines import Deadlines
from ..host.departures import departures_here

Straight = Callable[[EventBatch, Rows], bool]
"""Takes an arrival in the turn of the event loop in which it comes; returns whether it has taken all of it."""
WOKEN_AT_ONCE: Final = 64
"""How many readers are called before others on their loop have a turn."""


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Events of one delivery batch for one subscriber, and when they reached this process (seconds since 1970)."""

    batch: EventBatch
    rows: Rows
    received_at: float


class _Wakeups:
    """Wakes readers of one event loop from other threads: one call wakes all readers that wait by then.

    If another event loop wakes the readers, the call is made when that loop's turn is done: one call for
    everything that arrived with one poll. Readers that were called at the first arrival would contend for the
    interpreter with the thread that has yet to bring the rest.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._waiting: deque[Callable[[], None]] = deque()
        self._called = False

    def wake(self, reader: Callable[[], None]) -> bool:
        """Have a reader called; return False if its loop has ended."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return False
        self._waiting.append(reader)
        if not self._called:
            self._called = True
            try:
                running = asyncio.get_running_loop()
                running.call_soon(self._call_some if running is loop else self._call_over)
            except RuntimeError:  # this thread has no loop
                self._call_over()
        return True

    def _call_over(self) -> None:
        try:
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._call_some)
        except RuntimeError:  # the loop was closed just now
            self._called = False

    def _call_some(self) -> None:
        self._called = False  # before they are called: a later arrival calls again
        left = WOKEN_AT_ONCE
        departures = departures_here()
        departures.hold()
        try:
            while self._waiting and left:
                left -= 1
                self._waiting.popleft()()
        finally:
            try:
                departures.go()
            finally:
                if self._waiting and not self._called:
                    self._called = True
                    asyncio.get_running_loop().call_soon(self._call_some)


_WAKEUPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Wakeups] = WeakKeyDictionary()


def _wakeups_of(loop: asyncio.AbstractEventLoop) -> _Wakeups:
    found = _WAKEUPS.get(loop)
    return _WAKEUPS.setdefault(loop, _Wakeups(loop)) if found is None else found


class Inbox:
    """Arrivals in order; filled on the background loop, read from any thread or loop.

    Parameters
    ----------
    host
        The actor from which they come.
    events_max
        How many notifications may wait to be read. Beyond it, fetching pauses until some are read.
    wait_seconds
        The longest pause. After it the oldest unread notifications are shed and counted, so that a subscriber
        that is not read does not starve the others of its process. None pauses as long as necessary and sheds
        nothing.
    machine
        Recognises duplicates; None for a subscriber that does not move, and so gets none.

    Attributes
    ----------
    heard_at
        When the inbox last had everything that its broker had for it, in seconds since 1970.
    links
        Which deliveries of a broker with a store have come.
    shed
        How many notifications were not read in time.
    past_ttl
        How many were not read before their time to live had passed.
    """

    def __init__(
        self,
        host: Any,
        events_max: int,
        wait_seconds: float | None,
        machine: SubscriberMachine | None = None,
    ) -> None:
        self.host = host
        self.heard_at = time.time()
        self._machine = machine
        self._turn = asyncio.Lock()  # after a move the polls of two hosts may put
        self.links = ClientLinks()
        self.waiting = 0
        self.shed = 0
        self.past_ttl = 0
        self._expires = False  # whether something that may expire has come
        self._wait_seconds = wait_seconds
        self._events_max = events_max
        self._arrivals: OrderedDict[int, Arrival] = OrderedDict()  # by numbers that rise
        self._next = 0
        self._deadlines: Deadlines[int] | None = (
            None  # of arrivals, from when there was no room until all are read
        )
        self._guard = threading.RLock()  # of all that follows; a condition is entered by a call of Python
        self._changed = threading.Condition(self._guard)
        self._blocked = 0  # waiting threads
        self._wakers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._listener: tuple[_Wakeups, Callable[[], None]] | None = None
        self._told = False  # the listener was called, and has not yet taken everything
        self._straight: Straight | None = None
        self._unsaid = False  # whether something was lost or shed since the last arrival was taken
        self._room: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._lazy = False  # a wait since the last read was in vain; do not wait again
        self._error: BaseException | None = None
        self._closed = False
        self._held: asyncio.Event | None = (
            None  # set when what is put need no longer wait for what is put ahead
        )

    def offer(self, batch: EventBatch, rows: Rows, received_at: float) -> bool:
        """Accept events as `put` does, if that needs no wait; return whether they were accepted."""
        if self._turn.locked() or self._held is not None:
            return False
        with self._guard:
            if self.waiting > self._events_max and not self._closed:
                self._drop_expired()
                if self.waiting > self._events_max:
                    return False
            if self._machine is not None:
                rows = self._machine.admit(batch, rows)
            if len(rows) and not self._passes(batch, rows):
                self._add(batch, rows, received_at)
        return True

    def _passes(self, batch: EventBatch, rows: Rows) -> bool:
        """Pass events straight to the listener if nothing precedes them, and it takes them; return whether it has."""
        straight = self._straight
        if straight is None or self._arrivals or self._told or self._unsaid:
            return False
        if self._closed or self._error is not None or TTLS in batch.columns:
            return False
        return straight(batch, rows)

    async def put(self, batch: EventBatch, rows: Rows, received_at: float) -> None:
        """Accept events without duplicates; wait while the inbox is full and open."""
        if self.offer(batch, rows, received_at):
            return
        async with self._turn:
            if self._held is not None:
                await self._held.wait()
            if self._machine is not None:
                rows = self._machine.admit(batch, rows)
            if len(rows):
                await self._put(batch, rows, received_at)

    def hold(self) -> None:
        """Let what is put wait from now on, until `let_in`."""
        self._held = asyncio.Event()

    async def put_ahead(self, batch: EventBatch, received_at: float) -> None:
        """Accept events, all of which are new, ahead of those that wait; wait while the inbox is full and open."""
        await self._put(batch, np.arange(len(batch)), received_at)

    def let_in(self) -> None:
        """Let what waits in; on the background loop only."""
        if self._held is not None:
            self._held.set()
            self._held = None

    def tell(self, losses: tuple[Lost, ...], *, of_past: bool = False) -> None:
        """Record what the subscriber may have lost, as its broker says, or whoever reads its past."""
        self._unsaid = True
        if self._machine is not None:
            self._machine.lost(losses, of_past=of_past)

    async def _put(self, batch: EventBatch, rows: Rows, received_at: float) -> None:
        with self._guard:
            if self.waiting <= self._events_max or self._closed:
                self._add(batch, rows, received_at)
                return
            room = asyncio.Event()
            self._room = (asyncio.get_running_loop(), room)
        try:
            await asyncio.wait_for(room.wait(), 0 if self._lazy else self._wait_seconds)
        except TimeoutError:
            self._lazy = True
            self._shed_oldest()
        with self._guard:
            self._add(batch, rows, received_at)

    def _add(self, batch: EventBatch, rows: Rows, received_at: float) -> None:
        if not self._closed:
            self._arrivals[self._next] = Arrival(batch, rows, received_at)
            self._expires = self._expires or TTLS in batch.columns
            if self._deadlines is not None:
                self._deadlines.add(self._next, first_deadline(batch, rows), self._arrivals)
            self._next += 1
            self.waiting += len(rows)
            self._wake()

    def _drop_expired(self) -> None:
        """Drop what waits and is past its time to live."""
        if not self._expires:
            return
        if self._deadlines is None:
            self._deadlines = Deadlines()
            for number, each in self._arrivals.items():
                self._deadlines.add(number, first_deadline(each.batch, each.rows), self._arrivals)
        now = time.time()
        for number in self._deadlines.due(now, self._arrivals):
            before = self._arrivals[number]
            left = self._living(before, now)
            self.waiting -= len(before.rows) - len(left.rows)
            if len(left.rows):
                self._arrivals[number] = left
                self._deadlines.add(number, first_deadline(left.batch, left.rows), self._arrivals)
            else:
                del self._arrivals[number]

    def _living(self, arrival: Arrival, now: float) -> Arrival:
        """Return an arrival without what is past its time to live, which is counted."""
        rows = living(arrival.batch, arrival.rows, now)
        if len(rows) == len(arrival.rows):
            return arrival
        self.past_ttl += len(arrival.rows) - len(rows)
        return replace(arrival, rows=rows)

    def _shed_oldest(self) -> None:
        with self._guard:
            self._drop_expired()
            while self.waiting > self._events_max:
                gone = len(self._arrivals.popitem(last=False)[1].rows)
                self.waiting -= gone
                self.shed += gone
                self._unsaid = True

    def _wake(self) -> None:
        if self._blocked:
            self._changed.notify_all()
        for loop, event in self._wakers:
            _wakeups_of(loop).wake(event.set)
        self._wakers.clear()
        if self._listener is not None and not self._told:
            self._told = True
            wakeups, more = self._listener
            if not wakeups.wake(more):
                self._listener = None  # its loop has ended; the next listener is called at once

    def _make_room(self) -> None:
        """Admit waiting puts now: a reader may continue for long before its own loop has a turn."""
        if self._room is not None:
            loop, event = self._room
            self._room = None
            with suppress(RuntimeError):  # it was cancelled, and its loop has ended
                loop.call_soon_threadsafe(event.set)

    def listen(
        self, loop: asyncio.AbstractEventLoop, more: Callable[[], None], straight: Straight | None = None
    ) -> None:
        """Call `more` on a loop when something has arrived, and at the end; not again until everything was taken.

        What arrives while nothing waits, nothing was lost or shed before it, and none of it expires, is first passed to
        `straight`, if that is given: only by a listener on the loop that fills the inbox.
        """
        with self._guard:
            self._listener, self._told = (_wakeups_of(loop), more), False
            self._straight = straight
            self._wake()

    @property
    def closed(self) -> bool:
        """Whether the inbox is closed."""
        return self._closed

    @property
    def idle(self) -> bool:
        """Whether `take` would return None now."""
        return not (self._arrivals or self._error is not None or self._closed)

    def take(self) -> Arrival | None:
        """Return the next arrival, or None if there is none now.

        Raises
        ------
        BrokerUnavailable
            If there is none and the broker's host is gone.
        NameTaken
            If there is none and another process has taken over the subscriber's name.
        TooManyKeys
            If there is none, and the last event of each key was wanted, of too many.
        """
        with self._guard:
            return self._take()

    def take_queued(self) -> Arrival | None:
        """Return the next arrival, or None if there is none now; an error is raised by the next `take` or `wait`."""
        with self._guard:
            return self._pop()

    def _take(self) -> Arrival | None:
        arrival = self._pop()
        if arrival is None:
            self._told = False
            if isinstance(self._error, NameTaken | TooManyKeys):
                raise type(self._error)(str(self._error))
            if self._error is not None and not self._closed:
                gone = f"the subscriber's broker is gone ({type(self._error).__name__})"
                raise BrokerUnavailable(
                    str(self._error) if isinstance(self._error, BrokerUnavailable) else gone
                )
        return arrival

    def _pop(self) -> Arrival | None:
        """Return the next arrival of which something may be handed over, or None."""
        while self._arrivals:
            _, arrival = self._arrivals.popitem(last=False)
            self._told = self._told and bool(self._arrivals)
            self._lazy = self._unsaid = False
            self.waiting -= len(arrival.rows)
            if self.waiting <= self._events_max:
                self._make_room()
            if self._expires:
                arrival = self._living(arrival, time.time())
            if len(arrival.rows):
                return arrival
        self._deadlines, self._expires = None, False
        return None

    def wait(self, timeout_seconds: float | None) -> Arrival | None:
        """Return the next arrival, or None after the timeout, or if the inbox is closed and empty."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._guard:
            while (arrival := self._take()) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if self._closed or (left is not None and left <= 0):
                    return None
                self._blocked += 1
                try:
                    self._changed.wait(left)
                finally:
                    self._blocked -= 1
            return arrival

    async def wait_async(self) -> Arrival | None:
        """Return the next arrival, or None if the inbox is closed and empty."""
        while True:
            event = asyncio.Event()
            with self._guard:
                arrival = self._take()
                if arrival is not None or self._closed:
                    return arrival
                waker = (asyncio.get_running_loop(), event)
                self._wakers.append(waker)
            try:
                await event.wait()
            finally:  # a cancelled reader may leave a closed loop behind, which must not be woken
                with self._guard:
                    if waker in self._wakers:
                        self._wakers.remove(waker)

    def recover(self) -> None:
        """Accept arrivals from another host from now on, whatever was wrong with the last one."""
        with self._guard:
            if not isinstance(self._error, NameTaken):
                self._error = None

    def fail(self, error: BaseException) -> None:
        """Record that nothing more will arrive: the broker's host is gone, or another process has the name."""
        with self._guard:
            if not isinstance(self._error, NameTaken):
                self._error = error
            self._wake()

    def close(self) -> None:
        """Close the inbox and wake all waiting readers."""
        with self._guard:
            self._closed = True
            self._make_room()
            self._wake()
