"""A stream: the deliveries of one subscription to one client, in order, as fast as the client takes them.

Rules
-----
* Arrivals are taken from the network at once and queue here, within the limits; so a slow client does not
  slow others.
* A durable stream that is full takes nothing more: its broker retains later events, within the limits of the
  network. Any other stream sheds the oldest events and names them, or ends, as the limits say.
* A durable stream delivers at most `unacknowledged_max` events that are not acknowledged.
* Concurrent acknowledgements are stored together.
* A reader awaits `receive`, or a `Taker` is given the items as they come, with no task waiting: an item that
  finds nothing before it, and room, bypasses the queue.
* What the network passes straight goes to the taker as rows of a batch, without a `Delivery` for each: see `straight`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from ..protocol.batch import EventBatch, Rows
from ..protocol.errors import RayvousError, StreamEnded
from ..protocol.gateways import GatewayLimits
from ..routing.filters.filter import Filter
from .deliveries import Delivery, Reading, Texts, apart
from .network import Arrived, Feed
from .positions import Marks, Seal, Window
from .queues import NAMED_MAX, DeliveryQueue, Gap

TAKEN_MAX: Final = 256
BREATH: Final = 64
"""Events that are taken in, or handed over, before the event loop runs other work."""

Item: TypeAlias = Delivery | Gap


class Taker(Protocol):
    """Receives the items of a stream, on the stream's loop; it calls `Stream.go_on` when it has room again."""

    @property
    def room(self) -> bool:
        """Whether it takes one more item now; checked before each, since one item may fill all the room."""
        ...

    def take(self, item: Item) -> None:
        """Take a delivery, or a gap."""
        ...

    def take_rows(self, reading: Reading, rows: Sequence[int]) -> int:
        """Take events of a batch from the first on, as far as there is room; return how many."""
        ...

    def ended(self, reason: str) -> None:
        """Notify that no more items come."""
        ...


_LOG = logging.getLogger("rayvous.gateway")


class Stream:
    """The deliveries and gaps of one subscription. Made by `Session.subscribe`; iterate over it, or call `receive`.

    Attributes
    ----------
    filter
        The filter in force: the requested one, or its intersection with the right.
    durable
        Its durable name; None for a stream that ends with its connection.
    doubts
        What is doubtful about the selector.
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
        self.doubts: tuple[str, ...] = ()
        self._feed, self._limits, self._texts, self._seal = feed, limits, texts, seal
        self._queue: DeliveryQueue[Delivery] = DeliveryQueue(limits.queue_events_max, limits.queue_bytes_max)
        self._window = Window(limits.unacknowledged_max)
        self._had: Marks = {}
        self._lost: dict[str, tuple[int, int]] = {}
        self._lost_count = 0
        self._gaps: list[Gap] = []
        self._more = asyncio.Event()
        self._coming: deque[Delivery] = deque()  # taken from the network, not yet in the queue
        self._fresh = False  # whether these still share the batch read for all streams
        self._taker: Taker | None = None
        self._begun = self._called = False
        self._unwritten: Marks = {}
        self._writing = asyncio.Lock()
        self._ended: str | None = None
        self.past_ttl = 0
        self._on_end = on_end

    # Beginning and end.

    async def begin(self, after: str | None) -> None:
        """Resume after a delivery, or start at the beginning; then take arrivals.

        Raises
        ------
        InputError
            If `after` is not the id of a delivery of this stream.
        """
        if after:
            if self._seal is None:
                self._gaps.append(Gap("absent"))
            else:
                self._had = self._seal.marks_of(after)
                await self._feed.acknowledge(self._had)
                self._window.marks = dict(reversed(self._had.items()))
        self._begun = True
        self._feed.listen(self._come, self.straight)
        self.go_on()

    @property
    def ended(self) -> str | None:
        """The reason for its end; None while it is open."""
        return self._ended

    async def close(self, reason: str = "closed", *, for_good: bool = False) -> None:
        """End the stream; a durable subscription remains unless `for_good`. Queued items are not delivered any more."""
        if self._ended is None:
            self._ended = reason
        self._more.set()
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.ended(self._ended)
        if self._begun:
            self._begun = False
            self._on_end(self)
            with suppress(RayvousError):  # a network that has ended has no subscription to end
                await (self._feed.end() if for_good else self._feed.close())

    # Arrivals.

    def go_on(self) -> None:
        """Schedule taking in arrivals and handing over items, on the loop."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _come(self) -> None:
        if not self._called:
            self._go_on()

    def straight(self, batch: EventBatch, rows: Rows) -> bool:
        """Hand events over in the turn in which they come, if nothing precedes them; return whether that is done.

        What the taker has no room for waits here. Events that expire, and many at once, come by `Feed.take` instead.
        """
        taker = self._taker
        if taker is None or self._coming or self._seal is not None or self._ended is not None:
            return False
        if len(rows) > BREATH or self._waits:
            return False
        try:
            reading, wanted = self._texts.reading(batch), rows.tolist()
            taken = taker.take_rows(reading, wanted)
        except Exception:
            self._fail()
            return True
        if taken < len(wanted):
            self._coming += [reading.delivery(row) for row in wanted[taken:]]
            self._fresh = True
            self._go_on()
        return True

    def _go_on(self) -> None:
        self._called = more = False
        try:
            self._pass_on()
            if self._ended is None:
                try:
                    more = self._take_in()
                except RayvousError as error:
                    self._note_end(str(error))
                self._pass_on()
        except Exception:
            self._fail()
        if self._ended is None and more:
            self.go_on()

    def _fail(self) -> None:
        """End the stream after an error of ours, which is logged."""
        _LOG.exception("a stream has failed")
        self._note_end("the gateway has failed")
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.ended("the gateway has failed")

    def _note_end(self, reason: str) -> None:
        self._ended = reason
        self._more.set()

    def _take_in(self) -> bool:
        """Take in some of the arrivals; return whether there are more, and room for them."""
        left, last = BREATH, False
        while left > 0:
            if not self._coming:
                left -= 1
                arrived = None if last else self._feed.take()
                if arrived is None:
                    return False
                last = arrived.last
                self._receive(arrived)
            elif passed := self._pass_by(left):
                left -= passed
            else:
                left -= 1
                if self._fresh:
                    self._coming, self._fresh = deque(apart(self._coming)), False
                item = self._coming[0]
                if not self._queue.has_room(item.size) and not self._make_room():
                    return False
                self._queue.put(self._coming.popleft())
                self._more.set()
        return True

    def _receive(self, arrived: Arrived) -> None:
        """Read an arrival of the network."""
        if arrived.losses or arrived.shed:
            self._note_losses(arrived)
        if arrived.batch is not None and arrived.rows is not None:
            read, had = self._texts.read(arrived.batch), self._had
            items = [read[row] for row in arrived.rows.tolist()]
            if had:
                items = [item for item in items if item.sequence > had.get(item.publisher, 0)]
            self._coming += items
            self._fresh = True

    def _make_room(self) -> bool:
        """Return True to let the queue shed, False to wait for the client; StreamEnded if slow streams are cut."""
        if self.durable is not None:
            return False
        if self._limits.slow == "cut":
            raise StreamEnded(
                f"too slow: {len(self._queue):,} deliveries ({self._queue.bytes:,} bytes) were waiting "
                "(queue_events_max, queue_bytes_max)"
            )
        return True

    def _note_losses(self, arrived: Arrived) -> None:
        self._lost_count += arrived.shed
        for lost in arrived.losses:
            if lost.publisher in self._lost or len(self._lost) < NAMED_MAX:
                first, last = self._lost.get(lost.publisher, (lost.first, lost.last))
                self._lost[lost.publisher] = min(first, lost.first), max(last, lost.last)
        self._gaps = [gap for gap in self._gaps if gap.reason != "network"]
        self._gaps.append(Gap("network", self._lost_count or None, dict(self._lost)))
        self._more.set()

    # Delivering.

    def hand_to(self, taker: Taker | None) -> None:
        """Hand items to a taker from now on, instead of queueing them for `receive`; None ends that."""
        self._taker = taker
        self.go_on()

    @property
    def _waits(self) -> bool:
        """Whether queued items or gaps precede new arrivals."""
        return bool(self._gaps) or not self._queue.idle

    def _pass_by(self, most: int) -> int:
        """Hand new arrivals over directly if nothing precedes them; return how many."""
        taker = self._taker
        if taker is None or self._seal is not None or self._waits:
            return 0
        coming, passed = self._coming, 0
        while passed < most and coming and taker.room:
            item = coming.popleft()
            if item.expires and _is_past(item):
                self._drop(item)
            else:
                taker.take(item)
            passed += 1
        return passed

    def _pass_on(self) -> None:
        """Hand queued items over, as far as there is room; report the end once nothing is queued."""
        taker = self._taker
        if taker is None or not (self._waits or self._ended is not None):
            return
        while taker.room and (items := self._hand_out(1)):
            for item in items:  # gaps, or one delivery
                taker.take(item)
        if self._ended is not None and not self._waits and self._taker is taker:
            self._taker = None
            taker.ended(self._ended)

    @property
    def held(self) -> bool:
        """Whether it waits for acknowledgements before it delivers more."""
        return self._seal is not None and self._window.full

    @property
    def shed(self) -> int:
        """The number of deliveries shed because the client did not take them in time."""
        return self._queue.shed

    async def receive(self, most: int = TAKEN_MAX, timeout_seconds: float | None = None) -> list[Item]:
        """Return the next items, at least one and at most `most` deliveries; none on timeout.

        Raises
        ------
        StreamEnded
            If no more items come; the message says why.
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
        if self._coming:  # there was no room for it
            self.go_on()
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
            item = self._queue.take()
            if _is_past(item):
                self._drop(item)
            else:
                items.append(self._delivery(item))
        return items

    def _drop(self, item: Delivery) -> None:
        """Drop a delivery that is past its time to live, and count it."""
        self.past_ttl += 1

    def _delivery(self, item: Delivery) -> Delivery:
        if self._seal is None:
            return item
        self._window.hand_out(item.publisher, item.sequence)
        return item.under(self._seal.id_of(self._window.marks, item.publisher))

    # Acknowledging.

    async def acknowledge(self, id: str, *, alone: bool = False) -> None:
        """Acknowledge a delivery and all before it, or `alone` only that one; on return it is not redelivered.

        A stream that is not durable has nothing to acknowledge.

        Raises
        ------
        InputError
            If it is not the id of a delivery of this stream.
        BrokerUnavailable
            If the acknowledgement cannot be stored; then the delivery may be redelivered.
        """
        if self._seal is None:
            return
        marks = self._seal.marks_of(id)
        publisher, sequence = next(iter(marks.items()))
        if self._window.is_open(publisher, sequence):
            change = self._window.alone if alone else self._window.up_to
            marks = change(publisher, sequence)
            self._more.set()
            self.go_on()
        elif alone:
            return  # acknowledged before
        await self._write(marks)

    async def _write(self, marks: Mapping[str, int]) -> None:
        for publisher, sequence in marks.items():
            self._unwritten[publisher] = max(sequence, self._unwritten.get(publisher, 0))
        async with self._writing:
            if not self._unwritten:
                return  # the previous holder has stored these, too
            taken, self._unwritten = self._unwritten, {}
            try:
                await self._feed.acknowledge(taken)
            except BaseException:
                self._unwritten = taken | self._unwritten
                raise


def _is_past(item: Delivery) -> bool:
    """Return whether a delivery is past its time to live."""
    return (until := item.expires_at) is not None and until < time.time()
