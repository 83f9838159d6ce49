"""A stream: what one subscription brings to one client, in order, as fast as the client takes it.

Rules
-----
* What comes is taken from the network at once and waits here, within the limits; so a slow client slows no other one.
* A durable stream that is full takes nothing more: its broker keeps what comes, within the limits of the network. Any
  other is shed, oldest first and told by name, or cut off, as the limits say.
* A durable stream hands out at most `unacknowledged_max` that are not acknowledged.
* Acknowledgements that come together are written down together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from ..protocol.errors import RayvousError, StreamEnded
from ..protocol.gateways import GatewayLimits
from ..routing.filters.filter import Filter
from .deliveries import Delivery, Texts, Waiting
from .network import Arrived, Feed
from .positions import Marks, Seal, Window, identity
from .queues import NAMED_MAX, DeliveryQueue, Gap

TAKEN_MAX: Final = 256
BREATH: Final = 64
"""Events that are taken in before others have a turn."""

Item: TypeAlias = Delivery | Gap

_LOG = logging.getLogger("rayvous.gateway")


class Stream:
    """Deliveries of one subscription, and gaps. Made by `Session.subscribe`; iterate over it, or call `receive`.

    Attributes
    ----------
    filter
        What it brings: what was asked for, or what the right left of it.
    durable
        Its durable name; None for one that ends with its connection.
    """

    def __init__(
        self,
        feed: Feed,
        limits: GatewayLimits,
        texts: Texts,
        *,
        filter: Filter,
        durable: str | None = None,
        seal: Seal | None = None,
        on_end: Callable[[Stream], None] = lambda stream: None,
    ) -> None:
        self.filter, self.durable = filter, durable
        self._feed, self._limits, self._texts, self._seal = feed, limits, texts, seal
        self._queue: DeliveryQueue[Waiting] = DeliveryQueue(limits.queue_events_max, limits.queue_bytes_max)
        self._window = Window(limits.unacknowledged_max)
        self._had: Marks = {}
        self._lost: dict[str, tuple[int, int]] = {}
        self._lost_count = 0
        self._gaps: list[Gap] = []
        self._more, self._room = asyncio.Event(), asyncio.Event()
        self._unwritten: Marks = {}
        self._writing = asyncio.Lock()
        self._ended: str | None = None
        self._on_end = on_end
        self._pump: asyncio.Task[None] | None = None

    # Beginning and end.

    async def begin(self, after: str | None) -> None:
        """Go on behind a delivery, or at the beginning; then take in what comes.

        Raises
        ------
        InputError
            If `after` is no id of a delivery of this stream.
        """
        if after:
            if self._seal is None:
                self._gaps.append(Gap("absent"))
            else:
                self._had = self._seal.marks_of(after)
                await self._feed.acknowledge(self._had)
                self._window.marks = dict(reversed(self._had.items()))
        self._pump = asyncio.get_running_loop().create_task(self._take_in())

    @property
    def ended(self) -> str | None:
        """Why it brings nothing more; None while it does."""
        return self._ended

    async def close(self, reason: str = "closed", *, for_good: bool = False) -> None:
        """End it; what is durable stays, but with `for_good`. What waits is not handed out any more."""
        if self._ended is None:
            self._end(reason)
        if self._pump is not None:
            pump, self._pump = self._pump, None
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
            self._on_end(self)
            with suppress(RayvousError):  # a network that is gone has forgotten it
                await (self._feed.end() if for_good else self._feed.close())

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._more.set()
        self._room.set()

    # Taking in.

    async def _take_in(self) -> None:
        try:
            while (arrived := await self._feed.arrived()) is not None:
                await self._take(arrived)
            reason = "the network has ended it"
        except RayvousError as error:
            reason = str(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            _LOG.exception("a stream has failed")
            reason = "the gateway has failed"
        if self._ended is None:
            self._end(reason)

    async def _take(self, arrived: Arrived) -> None:
        if arrived.losses or arrived.shed:
            self._note_losses(arrived)
        if arrived.batch is None or arrived.rows is None:
            return
        for count, row in enumerate(arrived.rows.tolist(), 1):
            item = self._texts.read(arrived.batch, row)
            if item.sequence <= self._had.get(item.publisher, 0):
                continue
            if not self._queue.has_room(item.size) and not await self._make_room(item.size):
                return
            self._queue.put(item)
            self._more.set()
            if count % BREATH == 0:
                await asyncio.sleep(0)

    async def _make_room(self, size: int) -> bool:
        """Wait for room, leave it to the queue to shed, or end; return whether to go on."""
        if self.durable is not None:
            while self._ended is None and not self._queue.has_room(size):
                self._room.clear()
                await self._room.wait()
        elif self._limits.slow == "cut":
            self._end(
                f"too slow: {len(self._queue):,} deliveries ({self._queue.bytes:,} bytes) were waiting "
                "(queue_events_max, queue_bytes_max)"
            )
        return self._ended is None

    def _note_losses(self, arrived: Arrived) -> None:
        self._lost_count += arrived.shed
        for lost in arrived.losses:
            if lost.publisher in self._lost or len(self._lost) < NAMED_MAX:
                first, last = self._lost.get(lost.publisher, (lost.first, lost.last))
                self._lost[lost.publisher] = min(first, lost.first), max(last, lost.last)
        self._gaps = [gap for gap in self._gaps if gap.reason != "network"]
        self._gaps.append(Gap("network", self._lost_count or None, dict(self._lost)))
        self._more.set()

    # Handing out.

    @property
    def held(self) -> bool:
        """Whether it waits for acknowledgements before it hands out more."""
        return self._seal is not None and self._window.full

    @property
    def shed(self) -> int:
        """How many deliveries were shed because the client did not take them in time."""
        return self._queue.shed

    async def receive(self, most: int = TAKEN_MAX, timeout_seconds: float | None = None) -> list[Item]:
        """Return what comes next, at least one and at most so many; none when the time is over.

        Raises
        ------
        StreamEnded
            If nothing more comes; the message says why.
        """
        if timeout_seconds is None:
            return await self._next(most)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._next(most)
        except TimeoutError:
            return []

    async def _next(self, most: int) -> list[Item]:
        while not (items := self._hand_out(most)):
            if self._ended is not None:
                raise StreamEnded(self._ended)
            self._more.clear()
            await self._more.wait()
        self._room.set()
        return items

    async def __aiter__(self) -> AsyncIterator[Item]:
        try:
            while True:
                for item in await self.receive():
                    yield item
        except StreamEnded:
            return

    def _hand_out(self, most: int) -> list[Item]:
        items: list[Item] = list(self._gaps)
        if self._gaps:
            self._gaps, self._lost, self._lost_count = [], {}, 0
        if (gap := self._queue.gap()) is not None:
            items.append(gap)
        while len(items) < most and self._queue and not self.held:
            items.append(self._delivery(self._queue.take()))
        return items

    def _delivery(self, item: Waiting) -> Delivery:
        if self._seal is None:
            id = identity(item.publisher, item.sequence)
        else:
            self._window.hand_out(item.publisher, item.sequence)
            id = self._seal.id_of(self._window.marks, item.publisher)
        return Delivery(id, item.event, item.publisher, item.sequence, item.published_at, item.text)

    # Acknowledging.

    async def acknowledge(self, id: str, *, alone: bool = False) -> None:
        """Acknowledge a delivery and all before it, or with `alone` only that one; on return it does not come again.

        A stream that is not durable has nothing to acknowledge.

        Raises
        ------
        InputError
            If it is no id of a delivery of this stream.
        BrokerUnavailable
            If it cannot be written down; then it may come again.
        """
        if self._seal is None:
            return
        marks = self._seal.marks_of(id)
        publisher, sequence = next(iter(marks.items()))
        if self._window.is_open(publisher, sequence):
            change = self._window.alone if alone else self._window.up_to
            marks = change(publisher, sequence)
            self._more.set()
        elif alone:
            return  # acknowledged before
        await self._write(marks)

    async def _write(self, marks: Mapping[str, int]) -> None:
        for publisher, sequence in marks.items():
            self._unwritten[publisher] = max(sequence, self._unwritten.get(publisher, 0))
        async with self._writing:
            if not self._unwritten:
                return  # whoever was here before has written these, too
            taken, self._unwritten = self._unwritten, {}
            try:
                await self._feed.acknowledge(taken)
            except BaseException:
                self._unwritten = taken | self._unwritten
                raise
