"""One STOMP client: carries out the requests of its session over the gateway's core, and sends what the session sends.

Rules
-----
* Frames are processed one after another, and nothing is read meanwhile: so a slow network slows its
  publishers.
* SENDs that arrive together are published together; each gets its receipt afterwards.
* SUBSCRIBEs that arrive together are carried out together, up to `SUBSCRIBES_AT_ONCE`; each gets its receipt when it
  and those before it are in force, and whatever comes behind them waits for them.
* A client that publishes faster than its rate is not refused, but slowed, as a slow network would slow it.
* A subscription delivers while there is room in its window and in the client's send buffer. The rest waits in
  the core.
* The session of the core is always closed, and no task is left over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ...protocol.batch import EventBatch, batch_of, concat, joined_bytes
from ...protocol.errors import AccessDenied, EventError, InputError, LimitReached, NotGiven, RayvousError
from ...protocol.expiry import with_deadlines
from ...protocol.values import Value
from ..core import Delivery, Gateway, Session, Stream
from ..deliveries import Reading
from ..group_streams import require_group
from ..publisher_queue import columns_bytes_max
from ..queues import Gap
from .content import event_of
from .frames import HEARTBEAT, Decoder, Frame, FrameError, FrameLimits, encode, frames_of
from .gaps import Gaps
from .outgoing import Outgoing, Wire
from .requests import (
    Acknowledge,
    Close,
    Forget,
    Open,
    Out,
    Publish,
    PublishOnce,
    Refuse,
    Say,
    StompLimits,
    Subscribe,
    Unsubscribe,
)
from .runs import Sends
from .session import State, StompSession

FREE_BYTES: Final = 16 << 10
"""The bytes of frames and transactions that each connection may hold, whatever the total."""
SUBSCRIBES_AT_ONCE: Final = 16
ANSWERS: Final = ("ACK", "NACK", "COMMIT")
"""Frames after which a window may have room again."""

_LOG = logging.getLogger("rayvous.gateway")


@dataclass(frozen=True, slots=True)
class _Sent:
    """Events that wait to be published: the frame or run that they came in, and the frames to send after acceptance.

    `receipts` belong to the frame or run itself, `later` to frames behind it.
    """

    came: Frame | Sends
    events: tuple[dict[str, Value], ...] | EventBatch
    receipts: list[Frame | bytes]
    later: list[Frame | bytes]
    expires: Mapping[int, float] = field(default_factory=dict)

    def apart(self) -> Iterator[_Sent]:
        """Iterate over the frames of a run, each as a `_Sent`; a single frame yields itself."""
        if isinstance(self.came, Frame):
            yield self
            return
        last = len(self.came) - 1
        for number, frame in enumerate(frames_of(self.came)):
            later = self.later if number == last else []
            yield _Sent(frame, (event_of(frame),), self.receipts[number : number + 1], later)


@dataclass(frozen=True, slots=True)
class _Subscribing:
    """A SUBSCRIBE that is being carried out, and the frames to send after it: its own receipt, and those behind it."""

    frame: Frame
    number: int
    stream: asyncio.Task[Stream]
    receipts: list[Frame | bytes]
    later: list[Frame | bytes]


def _together(sends: Sequence[_Sent], bytes_max: int) -> EventBatch:
    """Return all waiting events as one batch; EventError if its columns are too large."""
    alone = sends[0].events
    if len(sends) == 1 and isinstance(alone, EventBatch) and joined_bytes((alone,)) <= bytes_max:
        return alone
    parts: list[EventBatch] = []
    plain: list[dict[str, Value]] = []
    expires: dict[int, float] = {}
    now = time.time()
    for sent in sends:
        if not isinstance(sent.events, EventBatch):
            expires |= {len(plain) + row: until for row, until in sent.expires.items()}
            plain += sent.events
            continue
        if plain:
            parts.append(with_deadlines(batch_of(plain, bytes_max=bytes_max), expires, now))
            plain, expires = [], {}
        parts.append(sent.events)
    if plain:
        parts.append(with_deadlines(batch_of(plain, bytes_max=bytes_max), expires, now))
    size = joined_bytes(parts)
    if size > bytes_max:
        raise EventError(
            f"the events would take {size:,} bytes together, the limit is {bytes_max:,}: publish events with different "
            "attributes separately"
        )
    return concat(parts)


class Held:
    """The bytes of frames and transactions that all connections of a gateway hold together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


class Connection:
    """One client.

    Parameters
    ----------
    wire
        The connection.
    gateway
        The core.
    name
        The name of the session in CONNECTED.
    held
        Shared by the connections of a gateway.
    """

    def __init__(self, wire: Wire, gateway: Gateway, name: str, held: Held) -> None:
        limits = gateway.limits
        self._wire, self._gateway, self._held = wire, gateway, held
        self._clock = gateway.clock
        self._session = StompSession(name, StompLimits.of(limits), self._clock())
        sizes = {"body_bytes_max": limits.body_bytes_max, "run_frames_max": limits.batch_events_max}
        self._decoder = Decoder(FrameLimits(limits.header_bytes_max, **sizes))
        self._out = Outgoing(wire, limits.stall_seconds, self._go_on)
        self._core: Session | None = None
        self._streams: dict[int, Stream] = {}
        self._subscribing: deque[_Subscribing] = deque()
        self._confirmed: asyncio.Future[None] | None = None  # awaited while too many are under way
        self._held_up: dict[int, Stream] = {}
        self._sent: dict[int, str] = {}  # sent deliveries to acknowledge
        self._some_sent, self._acknowledging = asyncio.Event(), asyncio.Lock()
        self._sends: list[_Sent] = []
        self._columns_bytes_max = columns_bytes_max(limits)
        self._events = 0
        self._over = asyncio.Event()
        self._mine = 0

    async def run(self) -> None:
        """Serve the client until it or the gateway ends the connection."""
        parts = (self._read(), self._out.run(), self._tick(), self._acknowledge_always())
        tasks = [asyncio.ensure_future(self._guarded(part)) for part in parts]
        try:
            await self._over.wait()
        finally:
            self._over.set()  # also if this was cancelled
            rest = [task for task in tasks if task is not tasks[1]]
            for task in rest:
                task.cancel()
            for stream in self._streams.values():
                stream.hand_to(None)
            await asyncio.gather(*rest, return_exceptions=True)  # the core closes what is still being opened
            self._hold(0)
            self._gateway.counts["nacked"] += self._session.rejected
            try:
                with suppress(RayvousError):
                    await self._acknowledge_sent()
                if self._core is not None:
                    await self._core.close()
                await self._say_farewell(tasks[1])
            finally:
                tasks[1].cancel()
                self._wire.abort()

    async def _say_farewell(self, sending: asyncio.Task[None]) -> None:
        """Flush what is queued and close the connection in good order, as long as the client still accepts data."""
        with suppress(OSError, TimeoutError):
            going = asyncio.ensure_future(self._out.room(1))
            await asyncio.wait((going, sending), return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                async with asyncio.timeout(self._gateway.limits.stall_seconds):
                    await self._wire.close()
            going.cancel()

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        """Run a part of the connection; when it ends or fails, the whole connection ends, except on cancellation."""
        try:
            await work
        except (OSError, TimeoutError):
            pass  # the client has disconnected or stalled
        except RayvousError as error:
            self.fail(None, str(error))
        except Exception:
            _LOG.exception("a connection of STOMP has failed")
            self.fail(None, "the gateway has failed")
        self._over.set()

    def fail(self, frame: Frame | None, why: str) -> None:
        """End the connection with an ERROR, about a frame if one is given; only the first failure counts."""
        self._finish(self._session.failed(frame, why))

    def _finish(self, outs: list[Out]) -> None:
        if not self._over.is_set():
            for out in outs:
                if isinstance(out, Say):
                    self._say(out)
            self._over.set()

    # Time.

    async def _tick(self) -> None:
        while not self._over.is_set():
            await asyncio.sleep(self._session.tick_seconds)  # the clock of the session
            outs = self._session.tick(self._clock(), self._decoder.partial)
            if outs == [Say(None)]:
                if not len(self._out):  # else other bytes are on their way
                    self._say(Say(None))
            elif outs:
                self._finish(outs)

    # Incoming frames.

    async def _read(self) -> None:
        while not self._over.is_set() and (data := await self._wire.receive()):
            self._session.took()
            await self._take(data)
            self._session.waits(self._clock(), self._decoder.within)
            self._hold(self._decoder.size + self._session.size)

    async def _take(self, data: bytes) -> None:
        try:
            for came in self._decoder.feed(data):
                if not await self._work_on(came):
                    return
                await self._out.room()
        except FrameError as error:
            if await self._all_done():
                self.fail(self._decoder.partial, str(error))
            return
        await self._all_done()

    async def _work_on(self, came: Frame | Sends) -> bool:
        """Process a frame or a run of frames; return whether to continue."""
        if isinstance(came, Sends) and (outs := self._session.sends(came)):
            return await self._carry_all(came, outs)
        for frame in frames_of(came):
            if not await self._carry_all(frame, self._session.frame(frame)):
                return False
            if frame.command in ANSWERS:
                self._go_on()
        return True

    async def _carry_all(self, came: Frame | Sends, outs: list[Out]) -> bool:
        for out in outs:
            if not await self._carry(came, out):
                return False
        return True

    def _hold(self, size: int) -> None:
        held = self._held
        held.bytes += size - self._mine
        self._mine = size
        if size > FREE_BYTES and held.bytes > held.most:
            raise LimitReached(
                f"incomplete frames and transactions hold {held.bytes:,} bytes, the limit is {held.most:,} "
                "(bodies_bytes_max)",
                "bodies_bytes_max",
            )

    async def _carry(self, frame: Frame | Sends, out: Out) -> bool:
        """Carry out one result of a frame, in order; return whether to continue."""
        if isinstance(out, Say) and out.frame is not None and self._session.state is State.OPEN:
            if self._wait_behind(frame, out.frame):
                return True
        elif isinstance(out, Subscribe):
            return await self._begin_to_subscribe(frame, out)
        elif isinstance(out, Publish):
            if self._over.is_set() or (self._subscribing and not await self._subscribed_all()):
                return False
            return self._collect(frame, out) or (await self._publish_all() and self._collect(frame, out))
        if not await self._all_done():
            return False
        try:
            await self._do(out)
        except RayvousError as error:
            self.fail(next(frames_of(frame)), str(error))
        return not self._over.is_set()

    def _collect(self, frame: Frame | Sends, out: Publish) -> bool:
        """Let events wait for those behind them, to be published together; return False if too many wait for that."""
        if self._sends and self._events + len(out.events) > self._gateway.limits.batch_events_max:
            return False
        self._sends.append(_Sent(frame, out.events, [], [], out.expires))
        self._events += len(out.events)
        return True

    def _wait_behind(self, frame: Frame | Sends, said: Frame | bytes) -> bool:
        """Let a frame to the client wait for what is being carried out before it, if anything is."""
        if self._sends:
            last = self._sends[-1]
            (last.receipts if frame is last.came else last.later).append(said)
        elif self._subscribing:
            asked = self._subscribing[-1]
            (asked.receipts if frame is asked.frame else asked.later).append(said)
        else:
            return False
        return True

    async def _all_done(self) -> bool:
        """Carry out what was collected; return whether to continue."""
        if self._subscribing and not await self._subscribed_all():
            return False
        return not self._over.is_set() and await self._publish_all()

    async def _do(self, out: Out) -> None:
        core = self._core
        if isinstance(out, Say):
            self._say(out)
        elif isinstance(out, Open):
            self._core = await self._gateway.open(out.token, out.login)
            for said in self._session.opened():
                await self._do(said)
        elif isinstance(out, PublishOnce):
            batch = batch_of(out.events, bytes_max=self._columns_bytes_max)
            await self._publish(with_deadlines(batch, out.expires, time.time()), out.key)
        elif isinstance(out, Unsubscribe):
            await self._unsubscribe(out.number)
        elif isinstance(out, Forget):
            assert core is not None
            await core.unsubscribe(out.durable, group=out.group)
        elif isinstance(out, Acknowledge | Refuse):
            await self._settle(out)
        elif isinstance(out, Close):
            self._over.set()

    async def _settle(self, out: Acknowledge | Refuse) -> None:
        """Acknowledge or refuse a delivery. One of a group that was taken from this worker is another one's now."""
        stream = self._streams[out.number]
        with suppress(NotGiven):
            if isinstance(out, Acknowledge):
                await stream.acknowledge(out.id, alone=out.alone)
            else:
                await require_group(stream).refuse(out.id, out.seconds)

    def _say(self, out: Say) -> None:
        frame = out.frame
        self._out.put(frame if isinstance(frame, bytes) else HEARTBEAT if frame is None else encode(frame))
        self._session.said(self._clock())

    # Subscribing.

    async def _begin_to_subscribe(self, frame: Frame | Sends, out: Subscribe) -> bool:
        """Begin to carry out a SUBSCRIBE; return whether to continue."""
        core = self._core
        assert core is not None and isinstance(frame, Frame)
        if not await self._publish_all() or not await self._subscribed_all(SUBSCRIBES_AT_ONCE - 1):
            return False
        work = core.subscribing(
            out.selector, durable=out.durable, narrow=out.narrow, group=out.group, terms=out.terms
        )
        self._subscribing.append(_Subscribing(frame, out.number, work, [], []))
        work.add_done_callback(self._confirm)
        return True

    async def _subscribed_all(self, most: int = 0) -> bool:
        """Wait until at most so many SUBSCRIBEs are under way; return whether to continue."""
        while len(self._subscribing) > most and not self._over.is_set():
            self._confirmed = asyncio.get_running_loop().create_future()
            await self._confirmed
        return not self._over.is_set()

    def _confirm(self, work: asyncio.Task[Stream]) -> None:
        """Send the receipts of the SUBSCRIBEs that are in force, and those behind them, as soon as it is their turn."""
        if not work.cancelled():
            work.exception()  # seen here, or when it is its turn
        while self._subscribing and self._subscribing[0].stream.done() and not self._over.is_set():
            asked = self._subscribing.popleft()
            try:
                stream = asked.stream.result()
            except RayvousError as error:
                self.fail(asked.frame, str(error))
                break
            except BaseException:
                _LOG.exception("a subscription of STOMP has failed")
                self.fail(None, "the gateway has failed")
                break
            self._streams[asked.number] = stream
            stream.hand_to(_Hand(self, asked.number))
            for said in asked.receipts:
                if stream.doubts and isinstance(said, Frame):
                    said = Frame(said.command, {**said.headers, "doubt": "; ".join(stream.doubts)})
                self._say(Say(said))
            for said in asked.later:
                self._say(Say(said))
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_result(None)

    # Publishing.

    async def _publish_all(self) -> bool:
        """Publish the waiting events and send their receipts; return whether to continue."""
        sends, self._sends, self._events = self._sends, [], 0
        if not sends:
            return True
        try:
            await self._publish(_together(sends, self._columns_bytes_max))
        except (InputError, AccessDenied, LimitReached) as error:
            if len(sends) > 1 or isinstance(sends[0].came, Sends):
                return await self._publish_each(sends)
            self.fail(next(frames_of(sends[0].came)), str(error))
            return False
        except RayvousError as error:
            self.fail(next(frames_of(sends[0].came)), str(error))
            return False
        for sent in sends:
            for said in (*sent.receipts, *sent.later):
                self._say(Say(said))
        return True

    async def _publish_each(self, sends: list[_Sent]) -> bool:
        """Publish one SEND at a time up to the one that is refused; the refused batch has published none of them."""
        for sent in sends:
            for self._sends in ([one] for one in sent.apart()):
                if not await self._publish_all():
                    return False
        return True

    async def _publish(self, batch: EventBatch, key: str | None = None) -> None:
        """Publish events as soon as the limits of the principal allow it."""
        assert self._core is not None
        while True:
            try:
                await self._core.publish(batch, key=key)
                return
            except LimitReached as error:
                if error.after_seconds is None:
                    raise
                await asyncio.sleep(error.after_seconds)  # nothing is read meanwhile: backpressure

    # Delivering.

    def room(self, number: int) -> bool:
        """Return whether a subscription may get one more delivery now; if not, it resumes when there is room."""
        if not self._out.full and self._session.room(number):
            return True
        if number in self._streams:
            self._held_up[number] = self._streams[number]
        return False

    def _go_on(self) -> None:
        held, self._held_up = self._held_up, {}
        for stream in held.values():
            stream.go_on()

    def bring(self, number: int, item: Delivery, gaps: Gaps) -> None:
        """Send a delivery of a stream."""
        for out in self._session.deliver(number, item, gaps.tell()):
            if isinstance(out, Say):
                self._say(out)
                self._gateway.counts["delivered"] += 1
            elif isinstance(out, Acknowledge):
                self._sent[number] = out.id  # covers the deliveries before it, too
                self._some_sent.set()

    def bring_rows(self, number: int, reading: Reading, rows: Sequence[int], gaps: Gaps) -> int:
        """Send events of a stream from the first on, as far as there is room; return how many."""
        head = None if gaps else self._session.plain_head(number)
        if head is None:
            for taken, row in enumerate(rows):
                if not self.room(number):
                    return taken
                self.bring(number, reading.delivery(row), gaps)
            return len(rows)
        parts, out, taken = self._session.parts_of(reading), self._out, 0
        for row in rows:
            if out.full and not self.room(number):
                break
            out.put(head + parts[row])
            taken += 1
        if taken:
            self._session.said_plain(taken, self._clock())
            self._gateway.counts["delivered"] += taken
        return taken

    async def _acknowledge_always(self) -> None:
        while await self._some_sent.wait():
            await self._acknowledge_sent()

    async def _acknowledge_sent(self) -> None:
        """Acknowledge sent deliveries of subscriptions in mode auto; cancellation takes effect only afterwards."""
        async with self._acknowledging:
            self._some_sent.clear()
            while self._sent:
                number, id = self._sent.popitem()
                if number in self._streams:
                    with suppress(NotGiven):  # it was taken from this worker of a group
                        await _whole(self._streams[number].acknowledge(id))

    async def _unsubscribe(self, number: int) -> None:
        self._streams[number].hand_to(None)
        await self._acknowledge_sent()
        self._held_up.pop(number, None)
        await self._streams.pop(number).close()


class _Hand:
    """Takes the items of a stream for one subscription."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection, self._number = connection, number
        self._gaps = Gaps()

    @property
    def room(self) -> bool:
        return self._connection.room(self._number)

    def take(self, item: Delivery | Gap) -> None:
        if isinstance(item, Gap):
            self._gaps.add(item)
        else:
            self._connection.bring(self._number, item, self._gaps)

    def take_rows(self, reading: Reading, rows: Sequence[int]) -> int:
        return self._connection.bring_rows(self._number, reading, rows, self._gaps)

    def ended(self, reason: str) -> None:
        self._connection.fail(None, f"a subscription has ended: {reason}")


async def _whole(work: Coroutine[object, object, None]) -> None:
    """Await the work and be cancelled only afterwards: sent events are acknowledged even if the client is gone."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise
