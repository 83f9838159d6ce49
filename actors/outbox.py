"""A link out of a host: what has to go waits here while one call is in flight.

Rules
-----
* At most one call in flight a link. While it flies the outbox fills; when it returns, all that waited goes as one
  call, neighbouring events joined into one batch. So an idle link has the latency of one call, and a busy one the
  throughput of large batches.
* The messages of a link arrive in the order in which they were put.
* The answer to a call comes when the other side has room again, so a slow broker slows those who send to it, up to
  the publishers. Whoever puts waits for room in the outboxes that it just filled, and in no other. On a tree those
  waits point away from where an event came from, so they cannot form a ring.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ..protocol.batch import EventBatch, concat
from ..protocol.ids import RoundNumber
from ..protocol.messages import BrokerMessage, Events

_LOG = logging.getLogger("rayvous.host")

Flight: TypeAlias = Callable[[list[BrokerMessage]], Awaitable[int]]
"""Takes messages to the other side; returns, when they were taken there, how many copies of them were lost."""


class Outbox:
    """Messages for one link, and the task that flies them.

    Parameters
    ----------
    name
        Of the link, for messages: ``"broker 3 to broker 7"``.
    fly
        Carries one load to the other side.
    call_events_max
        Events in one call.
    events_max
        Events that may wait; past it `room` waits.
    """

    def __init__(self, name: str, fly: Flight, call_events_max: int, events_max: int) -> None:
        self.name = name
        self.events = 0  # that wait or fly; a message that carries none counts as one
        self.lost_events = 0
        self._fly = fly
        self._call_events_max = call_events_max
        self._events_max = events_max
        self._waiting: deque[BrokerMessage] = deque()
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing flies."""
        return self._task is None

    @property
    def full(self) -> bool:
        """Whether whoever fills it has to wait."""
        return self.events > self._events_max

    def put(self, message: BrokerMessage) -> None:
        """Take a message in; it leaves with the next call."""
        self._waiting.append(message)
        self.events += _size(message)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def room(self) -> None:
        """Wait until the outbox is not full."""
        while self.full:
            self._moved.clear()
            await self._moved.wait()

    async def drained(self) -> None:
        """Wait until nothing waits and nothing flies."""
        while not self.idle:
            self._moved.clear()
            await self._moved.wait()

    async def _run(self) -> None:
        while self._waiting:
            load, size, events = self._next_load()
            try:
                lost_copies = await self._fly(load)
            except Exception as error:
                # The other side is gone. Nothing here can mend that; the loss is counted and said, never silent.
                lost_copies = 1
                _LOG.warning("%s: %d messages lost: %s", self.name, len(load), error)
            self.lost_events += events * lost_copies
            self.events -= size
            self._moved.set()
        self._task = None
        self._moved.set()

    def _next_load(self) -> tuple[list[BrokerMessage], int, int]:
        """Take what goes with the next call, neighbouring events as one batch; return it, its size and its events."""
        load: list[BrokerMessage] = []
        batches: list[EventBatch] = []
        kind: tuple[RoundNumber, bool] | None = (
            None  # only events of one round, all sent before or none, make a batch
        )
        size = events = 0
        while self._waiting:
            message = self._waiting[0]
            if isinstance(message, Events):
                if events and events + len(message.batch) > self._call_events_max:
                    break
                if kind != (message.round, message.again):
                    _join(load, batches, kind)
                    kind = (message.round, message.again)
                events += len(message.batch)
                batches.append(message.batch)
            else:
                _join(load, batches, kind)
                load.append(message)
            size += _size(message)
            self._waiting.popleft()
        _join(load, batches, kind)
        return load, size, events


def _join(
    load: list[BrokerMessage], batches: list[EventBatch], kind: tuple[RoundNumber, bool] | None
) -> None:
    if batches and kind is not None:
        load.append(Events(concat(batches), *kind))
        batches.clear()


def _size(message: BrokerMessage) -> int:
    return len(message.batch) if isinstance(message, Events) else 1


async def wait_for_room(boxes: Sequence[Outbox]) -> None:
    """Wait until none of the outboxes is full."""
    for box in boxes:
        if box.full:
            await box.room()
