"""The queue of one client process at a host: notifications, fetched by long poll and retained until acknowledged.

Rules
-----
* Each client process has one long poll per host, for all its subscribers together. The number of the last delivery
  batch that the process received travels on its next poll as the acknowledgement. Unacknowledged delivery batches are
  sent again.
* Over a channel, a poll that waits brings delivery batches as parts of its answer, up to a number of notifications
  (`ahead`) and a quarter of the queue. It is answered when that is used up, when somebody waits for the
  acknowledgement, and when there is other news; then the next poll acknowledges all of them.
* A delivery batch carries each event once, however many of the process's subscribers get it.
* The queue is bounded. When it is full, senders wait. After the timeout, the oldest delivery batches are shed, and
  counted at the broker that brought them. A delivery batch that was handed to a poll is not shed: the process has it or
  will get it. Neither is the newest: it is above the bound by itself, or what was handed out fills the queue. A
  poll is answered with at most as many notifications as may wait, or one delivery batch; what it brought in parts comes
  on top of that. What has no notifications, but says
  what is lost or proposes a move, frees nothing and stays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.effects import Deliver
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Lost
from ...protocol.quick import quick
from ..later import Stream
from .departures import Departures

AHEAD_PART: Final = 4
"""One in so many of the notifications that may wait may be handed out in parts: what is handed out is not shed."""


@quick
@dataclass(frozen=True, slots=True, eq=False)
class DeliveryBatch:
    """Notifications for one client process: ``clients[i]`` gets ``rows[starts[i]:starts[i + 1]]`` of `batch`.

    From a broker with a store, `broker` and `note` are the broker and its number for the delivery. `last` says that
    nothing waited behind this delivery batch when it was handed out.
    """

    number: int
    batch: EventBatch
    clients: tuple[ClientId, ...]
    starts: Rows
    rows: Rows
    broker: int = -1
    note: int = 0
    losses: tuple[Lost, ...] = ()
    last: bool = False

    def from_client(self, first: int) -> DeliveryBatch:
        """Return the notifications for the clients from this place on."""
        counted = self.number, self.batch, self.clients[first:], self.starts[first:], self.rows
        return DeliveryBatch(*counted, self.broker, self.note, self.losses, self.last)

    def as_last(self) -> DeliveryBatch:
        """Return this delivery batch, behind which nothing waits."""
        counted = self.number, self.batch, self.clients, self.starts, self.rows
        return DeliveryBatch(*counted, self.broker, self.note, self.losses, True)


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A proposal that a subscriber of the process move to another broker; numbered as delivery batches are."""

    number: int
    client: ClientId
    broker: BrokerId
    rows: tuple[()] = ()


def split(deliver: Deliver, owners: Sequence[ProcessSession]) -> list[tuple[ProcessSession, DeliveryBatch]]:
    """Return the batches of a delivery, one per session; ``owners[i]`` is the session of ``deliver.clients[i]``."""
    sessions = dict.fromkeys(owners) if len(owners) > 1 else owners
    if len(sessions) == 1:
        session = owners[0]
        batch, rows = _compact(deliver.batch, deliver.rows)
        return [(session, DeliveryBatch(session.take_number(), batch, deliver.clients, deliver.starts, rows))]
    place = {session: i for i, session in enumerate(sessions)}
    owned, sizes = np.array([place[owner] for owner in owners]), np.diff(deliver.starts)
    owned_rows = np.repeat(owned, sizes)
    deliveries = []
    for session, i in place.items():
        mine = owned == i
        batch, rows = _compact(deliver.batch, deliver.rows[owned_rows == i])
        starts = np.concatenate(([0], np.cumsum(sizes[mine])))
        clients = tuple(compress(deliver.clients, mine.tolist()))
        deliveries.append((session, DeliveryBatch(session.take_number(), batch, clients, starts, rows)))
    return deliveries


def _compact(batch: EventBatch, rows: Rows) -> tuple[EventBatch, Rows]:
    """Return the batch reduced to the events in `rows`, and the rows renumbered for it."""
    if len(batch.sequence) == 1:
        return batch, rows
    used = np.zeros(len(batch), np.bool_)
    used[rows] = True
    kept = np.flatnonzero(used)
    if len(kept) == len(batch):
        return batch, rows
    return batch.take(kept), (np.cumsum(used) - 1)[rows]


@dataclass(frozen=True, slots=True)
class Farewell:
    """A broker is leaving, or has left, the network; its clients must go to another one. In every answer to a poll."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The host has detached all subscribers of the polling process, which was silent for too long."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The name of a client of the polling process, which attached with this ticket, is in use by another process."""

    kind: str
    name: ClientId
    ticket: str


@dataclass(slots=True, eq=False)
class Tally:
    """How many notifications of one broker were shed."""

    shed: int = 0


@dataclass(slots=True, eq=False)
class _Poll:
    answer: Stream[list[DeliveryBatch | Proposal]]
    until: float  # when it is answered with nothing
    events_max: int
    ahead: int  # how many notifications it may still bring before it is answered


class ProcessSession:
    """The queue of one client process at one host.

    Parameters
    ----------
    name
        The name of the process.
    events_max
        How many notifications may wait.
    silent_seconds
        A process that has not polled for this long is gone.
    departures
        The queues of its host that have something to send.
    """

    def __init__(
        self, name: str, events_max: int, silent_seconds: float, departures: Departures | None = None
    ) -> None:
        self.name = name
        self._departures = departures or Departures()
        self.waiting = 0
        self.ended = False
        self._events_max = events_max
        self._silent_seconds = silent_seconds
        self._heard_at = 0.0
        self._next_number = 1
        self._handed = 0  # the last delivery batch that a poll was given; all up to it may have arrived
        self._deliveries: deque[DeliveryBatch | Proposal] = deque()
        self._tallies: dict[int, Tally] = {}  # by delivery batch number
        self._polls: list[_Poll] = []  # those that wait; an earlier one may have been given up by the process
        self._timer: asyncio.TimerHandle | None = None  # fires no later than the first of them ends
        self._leaving = False
        self._news = False  # whether waiting polls, or the next, have to be answered, and not only get parts
        self._awaited = 0  # how many wait for an acknowledgement
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        """Return how many delivery batches wait."""
        return len(self._deliveries)

    def heard(self, now: float) -> None:
        """Note a sign of life of the process, at `now` seconds."""
        self._heard_at = now

    def silent_seconds(self, now: float) -> float:
        """Return for how long the process has given no sign of life."""
        return now - self._heard_at

    def silent(self, now: float, seconds: float) -> bool:
        """Return whether the process gave no sign of life for more than these seconds."""
        return self.silent_seconds(now) > seconds

    def gone(self, now: float) -> bool:
        """Return whether the process has been silent for too long."""
        return self.silent(now, self._silent_seconds)

    def take_number(self) -> int:
        """Return the number of the next delivery batch."""
        self._next_number += 1
        return self._next_number - 1

    @property
    def full(self) -> bool:
        """Whether senders have to wait."""
        return self.waiting > self._events_max

    def put(self, delivery: DeliveryBatch | Proposal, tally: Tally) -> None:
        """Queue a delivery batch and wake the poll; `tally` counts what is shed of the delivery batch."""
        self._deliveries.append(delivery)
        self._tallies[delivery.number] = tally
        self.waiting += len(delivery.rows)
        self._leave_soon()

    def propose(self, client: ClientId, broker: BrokerId, tally: Tally) -> None:
        """Queue a proposal that a subscriber should move."""
        self.put(Proposal(self.take_number(), client, broker), tally)

    def up_to(self, acknowledged: int) -> list[DeliveryBatch | Proposal]:
        """Return the waiting delivery batches up to a number."""
        return [delivery for delivery in self._deliveries if delivery.number <= acknowledged]

    def acknowledge(self, number: int) -> None:
        """Drop the delivery batches up to this number: the process has them."""
        while self._deliveries and self._deliveries[0].number <= number:
            delivery = self._deliveries.popleft()
            del self._tallies[delivery.number]
            self.waiting -= len(delivery.rows)
            self._moved.set()

    async def passed(self) -> None:
        """Wait until the process has acknowledged everything that waits now, or is gone."""
        last = self._next_number - 1
        while self._deliveries and self._deliveries[0].number <= last and not self.ended:
            self._moved.clear()
            with self._acknowledgement():
                await self._moved.wait()

    @contextmanager
    def _acknowledgement(self) -> Iterator[None]:
        """Have what was handed out acknowledged at once inside the block."""
        self._awaited += 1
        self._leave_soon()
        try:
            yield
        finally:
            self._awaited -= 1

    def poll(
        self, acknowledged: int, timeout_seconds: float, events_max: int, ahead: int = 0
    ) -> Stream[list[DeliveryBatch | Proposal]]:
        """Give what waits, or an empty list after the timeout.

        Parameters
        ----------
        acknowledged
            The number of the last delivery batch that the process has; all delivery batches up to it are dropped.
        timeout_seconds
            How long to wait if nothing is there.
        events_max
            The maximum number of notifications in one answer; one delivery batch is always returned.
        ahead
            How many notifications may come as parts of the answer, before it.
        """
        self.acknowledge(acknowledged)
        answer: Stream[list[DeliveryBatch | Proposal]] = Stream()
        if self._deliveries or self._news:
            self._news = False
            answer.give(self._handed_out(events_max, 0))
        else:
            loop = asyncio.get_running_loop()
            until = loop.time() + timeout_seconds
            for poll in self._polls:
                if poll.ahead:
                    poll.answer.give([])  # the process has given it up
            self._polls = [poll for poll in self._polls if not poll.answer.done]
            self._polls.append(_Poll(answer, until, events_max, min(ahead, self._events_max // AHEAD_PART)))
            if self._timer is None or until < self._timer.when():
                self._arm(loop, until)
        return answer

    def _arm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Look at `at` which polls have waited long enough; one timer outlasts many polls that are answered sooner."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._timer is not None
        now, self._timer = max(loop.time(), self._timer.when()), None
        over = [poll for poll in self._polls if poll.until <= now]
        self._polls = [poll for poll in self._polls if poll.until > now]
        if self._polls:
            self._arm(loop, min(poll.until for poll in self._polls))
        for poll in over:
            poll.answer.give([])

    def _handed_out(self, events_max: int, after: int) -> list[DeliveryBatch | Proposal]:
        """Hand out the delivery batches with higher numbers than `after`."""
        answer: list[DeliveryBatch | Proposal] = []
        size, events_max = 0, min(events_max, self._events_max)
        for delivery in self._deliveries:
            if delivery.number <= after:
                continue
            if answer and size + len(delivery.rows) > events_max:
                break
            size += len(delivery.rows)
            answer.append(delivery)
        if not answer:
            return []  # the session has ended, or only has to say something
        newest = answer[-1]
        self._handed = max(self._handed, newest.number)
        if isinstance(newest, DeliveryBatch) and newest is self._deliveries[-1]:
            answer[-1] = newest.as_last()
        return answer

    def wake(self) -> None:
        """Answer waiting polls when the step is done, or else the next at once, although nothing may have arrived."""
        self._news = True
        self._leave_soon()

    def _leave_soon(self) -> None:
        if self._polls and not self._leaving:
            self._leaving = True
            self._departures.add(self._leave, last=True)

    def _leave(self) -> bool:
        """Give waiting polls what they were not given yet; return whether that has left."""
        self._leaving, left = False, True
        newest = self._polls[-1] if self._polls else None
        if newest is not None and newest.ahead and not (self._news or self._awaited):
            if self._give_part(newest):
                return not newest.answer.awaited
        after = self._handed
        polls, self._polls = self._polls, []
        self._news = self._news and not polls
        for poll in polls:
            if not poll.answer.done:
                poll.answer.give(self._handed_out(poll.events_max, after))
                left &= not poll.answer.awaited
        return left

    def _give_part(self, poll: _Poll) -> bool:
        """Give a poll everything new as a part of its answer; return whether that is within what it may bring."""
        size = 0
        for delivery in reversed(self._deliveries):
            if delivery.number <= self._handed:
                break
            size += max(len(delivery.rows), 1)
        if not 0 < size <= poll.ahead:
            return False
        poll.ahead -= size
        poll.answer.part(self._handed_out(size, self._handed))
        return True

    async def room(self, wait_seconds: float) -> None:
        """Wait until the queue is not full; after `wait_seconds` shed the oldest that no poll was given, but one."""
        try:
            async with asyncio.timeout(wait_seconds):
                while self.full:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            self._shed_oldest()

    def _shed_oldest(self) -> None:
        free = [each for each in self._deliveries if each.number > self._handed and len(each.rows)]
        shed = set[int]()
        for delivery in free[:-1]:
            if not self.full:
                break
            shed.add(delivery.number)
            self.waiting -= len(delivery.rows)
            self._tallies.pop(delivery.number).shed += len(delivery.rows)
        self._deliveries = deque(each for each in self._deliveries if each.number not in shed)
        self._moved.set()

    async def moved(self, timeout_seconds: float) -> None:
        """Wait until the process acknowledges something, or until the timeout."""
        self._moved.clear()
        with suppress(TimeoutError), self._acknowledgement():
            await asyncio.wait_for(self._moved.wait(), timeout_seconds)

    def end(self) -> None:
        """Drop everything: the process is gone. Wake all waiters."""
        self.ended = True
        if self._timer is not None and not self._polls:
            self._timer.cancel()
            self._timer = None
        self._deliveries.clear()
        self._tallies.clear()
        self.waiting = 0
        self._moved.set()
        self.wake()
