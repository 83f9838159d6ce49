"""A link out of a host: messages wait here while one call is in flight.

Rules
-----
* At most one call is in flight per link. Meanwhile the outbox fills. When the call returns, everything that waited
  goes as one call, with neighbouring events joined into one batch. An idle link therefore has the latency of one
  call, and a busy link the throughput of large batches.
* The messages of a link arrive in the order in which they were put.
* A call is answered when the receiver has room again. A slow broker therefore slows down its senders, up to the
  publishers. A sender waits for room in the outboxes that it has filled, and in no other. On a tree these waits
  point away from the origin of an event, so they cannot form a cycle.
* A heartbeat does not wait behind events: it is sent beside the call in flight, unless something that it must not
  overtake is waiting or in flight. A busy broker is therefore not taken for dead. No heartbeat overtakes another one
  that waits: the receiver would take the older state for the newer one, until both are repeated.
* In a network that heals a link is a connection. When a call fails and the receiver may be alive, the outbox drops
  everything that waits and everything new, until the broker renews the link. It does the same when the receiver
  turns out to have restarted and anything was lost: others may have reported its new incarnation before, and the lost
  messages may have been for that incarnation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ...admission.meters import DelayMeter
from ...admission.waiting import too_long
from ...protocol.batch import EventBatch, concat, joined_bytes
from ...protocol.expiry import passable
from ...protocol.gathering import TTLS
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import AdmissionMessage
from ...protocol.messages.beats import is_beat
from ...protocol.messages.pubsub import BrokerMessage, Directed, Events, Numbered, marks_of
from ...protocol.messages.recovery import RecoveryMessage
from ..later import Later
from ..logs import HOST, Log
from .departures import Departures

LinkMessage: TypeAlias = BrokerMessage | RecoveryMessage | AdmissionMessage
Queued: TypeAlias = "LinkMessage | Renewed | Regrouped"
Flying: TypeAlias = "Coroutine[Any, Any, int] | Later[bytes]"
Flight: TypeAlias = Callable[[list[Any]], Flying]
"""Takes messages to the receiver: as a coroutine, that returns how many copies of them were lost on a successful
call, or as a call of one receiver, under way."""

CARRIERS: Final = (Events, Directed)
"""The messages that carry events; neighbouring `Events` are joined into one batch."""

JOINED_BYTES_MAX: Final = 32 << 20
"""The maximum size of a joined batch."""
BEATS_ASIDE_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Renewed:
    """In the outbox of a group: from here on this member receives messages again."""

    member: BrokerId


@dataclass(frozen=True, slots=True)
class Peer:
    """Another broker and how to pass it messages: ``receive(to, source, messages)``.

    `send` does the same at once, or returns None if something has to be waited for before. So does `at_once`, for a
    broker of the same host: it gives the Ray node, or what is to be awaited for it.
    """

    broker: BrokerId
    receive: Callable[..., Awaitable[object]]
    local: bool
    send: Callable[..., Later[bytes] | None] | None = None
    at_once: Callable[..., str | Awaitable[str] | None] | None = None


@dataclass(frozen=True, slots=True)
class Regrouped:
    """In the outbox of a group: from here on these are its members; up to here the previous ones were."""

    members: tuple[Peer, ...]


class Unreached(Exception):
    """The receiver did not take a load, and may be alive: `seconds` is how long ago the call was made."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds = seconds


@dataclass(slots=True)
class _Load:
    """The messages of one call, with their counts."""

    messages: list[Queued]
    since: float  # when it left
    size: int = 0
    events: int = 0
    counted: int = 0  # messages, heartbeats excluded
    ordered: int = 0  # of those, the ones that carry no events

    @property
    def recovery_only(self) -> bool:
        """Whether its loss needs no warning: the recovery machines ask again."""
        return all(isinstance(message, RecoveryMessage | Renewed | Regrouped) for message in self.messages)

    def count(self, message: Queued, size: int) -> None:
        """Add a message to the counts."""
        self.size += size
        if not is_beat(message):
            self.counted += 1
            self.ordered += not isinstance(message, CARRIERS)


_Waiting: TypeAlias = tuple[float, int, Queued]
"""When a message was put, its size, and the message."""


class Outbox:
    """The queue of one link.

    Parameters
    ----------
    name
        The name of the link, for messages: ``"broker 3 to broker 7"``.
    fly
        Takes one load to the receiver.
    call_events_max
        The maximum number of events in one call.
    events_max
        How many events may wait; beyond that `room` waits.
    missed
        Called when something is lost, with how many seconds ago the call was made, and whether the receiver has
        restarted: False after `fly` raised `Unreached`. Then nothing leaves before `renew`. None for a link that
        continues without it.
    deadline_seconds
        How long events may wait here; later ones are dropped and counted in `expired_events`. Numbered messages do
        not expire: they would be retransmitted anyway. None for no limit.
    clock
        The clock for deadlines.
    log
        The log of its broker.
    departures
        The queues of its host that have something to send.
    waits
        Measures how long events wait here; None if nobody asks.
    """

    def __init__(
        self,
        name: str,
        fly: Flight,
        call_events_max: int,
        events_max: int,
        missed: Callable[[float, bool], None] | None = None,
        deadline_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        log: Log = HOST,
        departures: Departures | None = None,
        waits: DelayMeter | None = None,
    ) -> None:
        self._waits = waits
        self.name = name
        self._log = log
        self._departures = departures or Departures()
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self.expired_events = self.past_ttl = 0
        self._expires = False  # whether something waits that has a time to live
        self._missed = missed
        self._broken = False
        self._lost_at: float | None = None  # when the first load was lost for a dead receiver
        self.events = 0  # waiting or in flight; a message without events counts as one
        self.lost_events = 0
        self.sent_events = 0  # taken by the receiver
        self._fly = fly
        self._call_events_max = call_events_max
        self._events_max = events_max
        self._waiting: deque[_Waiting] = deque()
        self._busy = False  # a call is in flight, or about to leave
        self._beats = 0  # heartbeats that wait
        self._task: asyncio.Task[None] | None = None  # waits for the call in flight
        self._counted = 0  # messages waiting or in flight, heartbeats excluded
        self._ordered = 0  # of those, the ones without events: no heartbeat overtakes them
        self._aside: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or in flight, except heartbeats."""
        return self._counted == 0

    @property
    def clear(self) -> bool:
        """Whether nothing is waiting or in flight, not even heartbeats."""
        return not self._busy and not self._aside

    @property
    def full(self) -> bool:
        """Whether its senders have to wait."""
        return self.events > self._events_max

    def put(self, message: Queued) -> bool:
        """Queue a message, which leaves with the next call, a heartbeat at once; return whether it is full then."""
        carries = isinstance(message, CARRIERS)
        size = len(message.batch.sequence) if carries else _size(message)  # type: ignore[union-attr]
        if self._broken:
            self.lost_events += size if carries else 0
            return self.events > self._events_max
        if carries:
            self._counted += 1
            self._expires = self._expires or TTLS in message.batch.columns  # type: ignore[union-attr]
        elif not is_beat(message):
            self._counted += 1
            self._ordered += 1
        elif self._busy and not self._ordered:
            if self._beats:
                self._put_before_events(message)
            else:
                self._fly_aside(message)
            return self.events > self._events_max
        else:
            self._beats += 1
        self.events += size
        self._waiting.append((self._clock(), size, message))
        if not self._busy:
            self._busy = True
            self._departures.add(self._leave)
        return self.events > self._events_max

    def _put_before_events(self, beat: Queued) -> None:
        """Queue a heartbeat behind those that wait, and all of them ahead of the events, whose order is another one."""
        beats = [each for each in self._waiting if is_beat(each[2])]
        events = [each for each in self._waiting if not is_beat(each[2])]
        self._waiting = deque([*beats, (self._clock(), 1, beat), *events])
        self._beats += 1
        self.events += 1

    def renew(self) -> None:
        """Accept messages again, after a failed call."""
        self._broken = False

    def begin_anew(self) -> None:
        """Drop what waits: the broker that it was for has restarted."""
        first = next((since for since, _, message in self._waiting if not is_beat(message)), None)
        lost_at = first if self._lost_at is None else self._lost_at
        self._lost_at = None
        self._drop()
        if lost_at is not None and self._missed is not None and not self._broken:
            self._broken = True
            self._missed(self._clock() - lost_at, True)

    def _drop(self) -> None:
        for _, size, message in self._waiting:
            self.events -= size
            self._counted -= not is_beat(message)
            self._ordered -= not is_beat(message) and not isinstance(message, CARRIERS)
            self.lost_events += size if isinstance(message, CARRIERS) else 0
        self._waiting.clear()
        self._beats = 0
        self._moved.set()

    @property
    def longest_wait(self) -> float:
        """How long events have waited here lately, in seconds; 0 if that is not measured."""
        return 0.0 if self._waits is None else self._waits.highest(self._clock())

    async def room(self) -> None:
        """Wait until the outbox is not full."""
        while self.full:
            self._moved.clear()
            await self._moved.wait()

    async def drained(self) -> None:
        """Wait until nothing is waiting or in flight."""
        while not self.idle:
            self._moved.clear()
            await self._moved.wait()

    def _leave(self) -> bool:
        """Make the next call, since none is in flight; return whether it has been made already."""
        load = self._next_load()
        if not load.messages:  # everything that waited has expired, or was dropped
            self._busy = False
            self._moved.set()
            return True
        try:
            flying = self._fly(load.messages)
        except Exception as error:
            self._landed(load, 1, error)
            return True
        if isinstance(flying, Later):
            flying.then(lambda call: self._landed(load, 0, call.error))
            return True
        self._task = asyncio.get_running_loop().create_task(self._wait(load, flying))
        self._task.add_done_callback(lambda _: flying.close())  # if the host has ended before it began
        return False

    async def _wait(self, load: _Load, flying: Coroutine[Any, Any, int]) -> None:
        try:
            lost_copies = await flying
        except asyncio.CancelledError:  # the host ends
            self._busy = False
            self._moved.set()
            raise
        except Exception as error:
            self._landed(load, 1, error)
        else:
            self._landed(load, lost_copies, None)

    def _landed(self, load: _Load, lost_copies: int, error: Exception | None) -> None:
        unreached = None
        if error is None:
            self.sent_events += load.events
        else:
            # The receiver is gone. Nothing here can repair that; the loss is counted and logged, never silent.
            lost_copies = 1
            level = logging.DEBUG if load.recovery_only else logging.WARNING
            self._log.log(level, "%s: %d messages lost: %s", self.name, len(load.messages), first_line(error))
            if isinstance(error, Unreached) and self._missed is not None and load.counted:
                unreached = error
                self._broken = True
                self._drop()
            elif load.counted and self._lost_at is None:
                self._lost_at = load.since
        self.lost_events += load.events * lost_copies
        self.events -= load.size
        self._counted -= load.counted
        self._ordered -= load.ordered
        self._moved.set()
        if self._waiting:
            self._departures.add(self._leave)
        else:
            self._busy = False
        if unreached is not None and self._missed is not None:
            self._missed(unreached.seconds, False)

    def _expire(self) -> None:
        """Drop the first message, whose events have waited too long."""
        _, size, _ = self._waiting.popleft()
        self.events -= size
        self._counted -= 1
        self.expired_events += size
        self._moved.set()

    def _drop_past_ttl(self) -> None:
        """Drop the events whose time to live has passed, from the messages that do not count them."""
        now, waiting, self._expires = time.time(), self._waiting, False
        self._waiting = deque()
        for since, size, message in waiting:
            left: Queued | None = message
            if isinstance(message, Events):
                left, gone = passable(message, now)
                size -= gone
                self.events -= gone
                self.past_ttl += gone
            if left is None:
                self._counted -= 1
                continue
            self._waiting.append((since, size, left))
            self._expires = self._expires or (isinstance(left, CARRIERS) and TTLS in left.batch.columns)
        self._moved.set()

    def _fly_aside(self, beat: Queued) -> None:
        """Send a heartbeat beside the call in flight; drop it if too many are out, since it adds nothing."""
        if len(self._aside) < BEATS_ASIDE_MAX:
            task = asyncio.get_running_loop().create_task(self._fly_beat(beat))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)

    async def _fly_beat(self, beat: Queued) -> None:
        try:
            await self._fly([beat])
        except Exception as error:
            self._log.debug("%s: a heartbeat was lost: %s", self.name, first_line(error))

    def _next_load(self) -> _Load:
        """Take the messages of the next call, with neighbouring events as one batch."""
        now, deadline = self._clock(), self._deadline_seconds
        if self._expires:
            self._drop_past_ttl()
        if len(self._waiting) == 1:
            since, size, message = self._waiting[0]
            if isinstance(message, CARRIERS) and (deadline is None or not too_long(since, now, deadline)):
                self._waiting.clear()
                if self._waits is not None:
                    self._waits.saw(now - since, now)
                return _Load([message], now, size, size, 1)
        load = _Load([], now)
        batches: list[EventBatch] = []
        kind: Events | None = None  # only events that agree in all other fields are joined
        while self._waiting:
            since, size, message = self._waiting[0]
            if isinstance(message, CARRIERS):
                if deadline is not None and too_long(since, now, deadline):
                    self._expire()
                    continue
                if load.events and load.events + size > self._call_events_max:
                    break
                load.events += size
                if self._waits is not None:
                    self._waits.saw(now - since, now)
            if isinstance(message, Events):
                if kind is None or marks_of(kind) != marks_of(message):
                    _join(load.messages, batches, kind)
                    kind = message
                batches.append(message.batch)
            else:
                _join(load.messages, batches, kind)
                load.messages.append(message)
                self._beats -= is_beat(message)
            load.count(message, size)
            self._waiting.popleft()
        _join(load.messages, batches, kind)
        return load


def _join(load: list[Queued], batches: list[EventBatch], kind: Events | None) -> None:
    if batches and kind is not None:
        if len(batches) > 1 and joined_bytes(batches) <= JOINED_BYTES_MAX:
            batches[:] = [concat(batches)]
        load.extend(kind if batch is kind.batch else replace(kind, batch=batch) for batch in batches)
        batches.clear()


def _size(message: Queued) -> int:
    if isinstance(message, Numbered):
        return _size(message.message)  # between brokers it is never a client's message
    return len(message.batch.sequence) if isinstance(message, CARRIERS) else 1


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without what Ray adds about the actor."""
    return next(iter(str(error).splitlines()), type(error).__name__)


async def wait_for_room(boxes: Sequence[Outbox]) -> None:
    """Wait until none of the outboxes is full."""
    for box in boxes:
        if box.full:
            await box.room()
