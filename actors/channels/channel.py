"""A channel: a `Connection` on a socket, whose calls run on the event loop of its process.

Rules
-----
* The order in which calls are made is the order in which they begin at the other end.
* A thread writes its call to the socket itself, if nothing waits before it; the event loop only reads the answer.
* A connection that has not opened within `GREETING_SECONDS` is closed.
* While more than `SERVING_MAX` calls of the other end run here, nothing more is read.
* An end that takes its leave still answers what it was asked before the other end knew; that end then closes.
* What the other end does not read waits here, up to a limit in bytes. Calls beyond it wait unsent, in order. When as
  much of answers has come together, nothing more is read: then the other end has calls in flight, and reads nothing.
* Whatever was in flight when a channel ends goes to `ended`: its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from ...protocol.configs import CONNECTION_BYTES_MAX
from ..later import Later, Stream
from ..logs import Log
from .connection import Answered, Called, Connection, Continued, Opened, Parted, Refused
from .lanes import Lane

GREETING_SECONDS: Final = 3.0
SERVING_MAX: Final = 10_000
TOO_MANY: Final = "too many calls run here"
UNREAD: Final = "too many answers are not read there"
"""Reasons not to read."""
PROBES: Final = 5
"""How often the other machine of a connection at rest is asked in the time in which it may be silent."""


class Waiting(Protocol):
    """Who waits for an answer; the call leaves its lane when it is answered, or when the channel ends."""

    lane: Lane

    def given(self, content: bytes, failed: bool) -> None:
        """Take the answer."""

    def continued(self, content: bytes) -> None:
        """Take a part of the answer; only of a call that takes parts."""

    def failed(self, error: Exception) -> None:
        """Learn that there will be none."""


Serve = Callable[[bytes], "bytes | Later[bytes] | Awaitable[bytes]"]
"""Begins a call, and returns the answer, now or later."""


class Channel(asyncio.Protocol):
    """One end of a channel.

    Parameters
    ----------
    connection
        Its machine.
    serve
        Begins a call of the other end, and returns the answer; None for a process that takes no calls.
    excuse
        Packs an error of `serve` for the other end.
    opened, ended
        Called when the other end has proved itself, and when the connection has ended, with what is in flight and
        with whether the other end took its leave. `ended` is called once, also for one that never opened.
    refused
        Called with the reason when the other end breaks a rule.
    silent_seconds
        How long the other machine may be silent before the connection has ended; None for as long as the system
        waits. After a cut link that is back, TCP alone would wait for as long again as the cut was; and who only
        waits for an answer would never learn that the machine is gone.
    unwanted
        Why the connection is refused at once; "" if it is not.
    unread_bytes_max
        How much waits for the other end to read it, before calls wait (`Limits.connection_bytes_max`).

    Attributes
    ----------
    transport
        The connection, from when it is made.
    """

    def __init__(
        self,
        connection: Connection[Waiting],
        serve: Serve | None,
        excuse: Callable[[Exception], bytes],
        opened: Callable[[Channel], None],
        ended: Callable[[Channel, list[Waiting], bool], None],
        refused: Callable[[Channel, str], None],
        silent_seconds: float | None = None,
        unwanted: str = "",
        unread_bytes_max: int = CONNECTION_BYTES_MAX,
    ) -> None:
        self._connection = connection
        self._serve = serve
        self._excuse = excuse
        self._on_opened = opened
        self._on_ended = ended
        self._on_refused = refused
        self._silent_seconds = silent_seconds
        self._unwanted = unwanted
        self._unread_bytes_max = unread_bytes_max
        self._full = False
        self._unsent: deque[tuple[bytes, Waiting, bool]] = deque()  # calls that wait while it is full
        self._answered_bytes = 0  # since it is full
        self.transport: asyncio.Transport | None = None
        self._parted = self._told_parted = False
        self._told = False  # whether somebody knows why it ends
        self._rests: set[object] = set()
        self._greeting: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.open = False
        self.why = "the connection has ended"
        self._loop = loop = asyncio.get_running_loop()
        # A thread writes to the socket itself: what it makes, and in which order, is decided with this lock.
        self._writing = threading.Lock()
        self._descriptor: int | None = None
        self._begun: list[bytes] = []  # the rest of what a thread has begun to write, and what follows it
        self.used_at = time.monotonic()
        self.done: asyncio.Future[bool] = loop.create_future()
        """Whether the channel has opened, once that is known."""

    @property
    def peer(self) -> bytes | None:
        """The name of the other end, once that is proved."""
        return self._connection.peer

    @property
    def number(self) -> bytes:
        """What tells an open channel from all others, at both ends."""
        return self._connection.number

    @property
    def source(self) -> str:
        """The address of the other end, for messages."""
        found = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(found[0]) if found else "?"

    # What this end does.

    def call(self, content: bytes, waiting: Waiting, parts: bool = False) -> None:
        """Make a call over an open channel, which may take `parts` of its answer; on the event loop."""
        if self._full:
            self._unsent.append((content, waiting, parts))
        else:
            with self._writing:
                self._write(self._connection.call(content, waiting, parts))

    def call_from_thread(self, content: bytes, waiting: Waiting) -> bool:
        """Make a call from any other thread, if nothing waits before it; return whether it was made."""
        with self._writing:
            transport = self.transport
            if not self.open or self._descriptor is None or transport is None or transport.is_closing():
                return False
            if self._full or self._unsent or self._begun or transport.get_write_buffer_size():
                return False
            frame = self._connection.call(content, waiting)
            try:
                written = os.write(self._descriptor, frame)
            except OSError:  # it takes nothing now, or has ended: the event loop finds out
                written = 0
            if written < len(frame):
                self._begun.append(frame[written:])
                self._loop.call_soon_threadsafe(self._write_begun)
            return True

    def _write(self, data: bytes) -> None:
        """Write frames behind what a thread has begun to write; with the lock."""
        assert self.transport is not None
        if self._begun:
            self._begun.append(data)
        else:
            self.transport.write(data)

    def _write_begun(self) -> None:
        with self._writing:
            if self.transport is not None:
                self.transport.write(b"".join(self._begun))
            self._begun.clear()

    def part(self) -> None:
        """End the connection in good order."""
        if self.transport is not None:
            self._parted = True
            with self._writing:
                if self.open:
                    self._write(self._connection.farewell())
                self.transport.close()

    def retire(self) -> None:
        """Make no more calls over the connection, which ends when the other end has no call under way either."""
        if self.transport is not None and self.open:
            with self._writing:
                self.open, self._parted = False, True
                self._write(self._connection.farewell())

    @property
    def at_rest(self) -> bool:
        """Whether no call is under way in either direction."""
        return not self._connection.waiting and not self._connection.serving and not self._unsent

    def abort(self, why: str) -> None:
        """End the connection at once; what was sent and not read is dropped."""
        if self.transport is not None:
            self.why, self._told = why, True
            self.transport.abort()

    def rest(self, reason: object) -> None:
        """Read nothing until `go_on` is called with the same reason."""
        if self.transport is not None:
            self._rests.add(reason)
            self.transport.pause_reading()

    def go_on(self, reason: object) -> None:
        """Read again, unless there is another reason not to."""
        if reason in self._rests:
            self._rests.remove(reason)
            if not self._rests and self.transport is not None:
                self.transport.resume_reading()

    def certify(self, certificate: bytes) -> None:
        """Note the certificate that this end has shown in the handshake of TLS, as the end that has accepted."""
        self._connection.certificate = certificate

    def fail(self, why: str) -> None:
        """Note that the connection has ended before it could be used."""
        if not self._told:
            self.why, self._told = why, True
            self._on_refused(self, why)
        self.connection_lost(None)

    # What happens to it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the other end."""
        # Ray runs the loops of actors by uvloop where that is installed, and its transports are of no class of asyncio.
        transport = self.transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(self._unread_bytes_max)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and not self._connection.certificate:
            self.certify(tls.getpeercert(binary_form=True))  # this end has opened
        known = transport.get_extra_info("socket")
        if tls is None and known is not None:
            self._descriptor = known.fileno()
        if self._silent_seconds is not None and known is not None and known.family != socket.AF_UNIX:
            bound_silence(known, self._silent_seconds)
        self._write_out()
        loop = asyncio.get_running_loop()
        self._greeting = loop.call_later(GREETING_SECONDS, self._refuse, "it does not greet in time")
        if self._unwanted:
            self._refuse(self._unwanted)

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        for event in self._connection.take(data):
            kind = type(event)
            if kind is Called:
                self._carry_out(*event)  # type: ignore[misc]
            elif kind is Answered:
                waiting, content, failed = event  # type: ignore[misc]
                waiting.given(content, failed)
            elif isinstance(event, Continued):
                event.waiting.continued(event.content)
            else:
                self._learn(event)
        if self._connection.out:
            self._write_out()
        self.used_at = time.monotonic()
        if self._told_parted:
            self._end_if_parted()

    def _learn(self, event: object) -> None:
        match event:
            case Opened():
                self._write_out()
                self._open()
            case Parted():
                self._parted = self._told_parted = True
                with self._writing:
                    self.open = False
            case Refused(why):
                self._refuse(why)

    def _end_if_parted(self) -> None:
        """End the connection once the other end has taken its leave and nothing is under way any more."""
        if self._told_parted and self.at_rest and self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand over what is in flight."""
        with self._writing:
            self.open = False
        if self._connection.begun and not (self._told or self._parted):
            self._on_refused(self, "it leaves in the middle of the greeting")
        if self._greeting is not None:
            self._greeting.cancel()
        if not self.done.done():
            self.done.set_result(False)
        lost = [*self._connection.waiting.values(), *(waiting for _, waiting, _ in self._unsent)]
        self._connection.waiting.clear()
        self._unsent.clear()
        self._on_ended(self, lost, self._parted)

    def pause_writing(self) -> None:
        """Send no more calls: the other end does not read what it has been sent."""
        self._full = True
        self._answered_bytes = 0

    def resume_writing(self) -> None:
        """Send the calls that have waited: the other end has read most of it."""
        self._full = False
        self.go_on(UNREAD)
        while self._unsent and not self._full and self.transport is not None:
            with self._writing:
                self._write(self._connection.call(*self._unsent.popleft()))

    def _open(self) -> None:
        assert self._greeting is not None
        self._greeting.cancel()
        self.open = True
        self.done.set_result(True)
        self._on_opened(self)

    def _write_out(self) -> None:
        if self._connection.out and self.transport is not None:
            with self._writing:
                self._write(b"".join(self._connection.out))
            self._connection.out.clear()

    def _refuse(self, why: str) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        self.why, self._told = why, True
        self._on_refused(self, why)
        if not self.open:
            self.transport.write(self._connection.refusal(why))
            self.transport.close()  # the other end reads why
        else:
            self.transport.abort()

    # Calls of the other end.

    def _carry_out(self, number: int, content: bytes) -> None:
        if self._serve is None:
            self._refuse("it calls a process that takes no calls")
            return
        try:
            answer = self._serve(content)
        except Exception as error:
            self._answer(number, error)
            return
        if isinstance(answer, bytes):
            self._answer(number, answer)
            return
        if isinstance(answer, Later):
            if isinstance(answer, Stream):
                answer.each(lambda content: self._continue(number, content))
            answer.then(lambda given: self._answer(number, given.error or given.value))
        else:
            task = asyncio.get_running_loop().create_task(self._answer_later(number, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(self._connection.serving) > SERVING_MAX and self.transport is not None:
            self.rest(TOO_MANY)

    async def _answer_later(self, number: int, call: Awaitable[bytes]) -> None:
        answer: bytes | Exception
        try:
            answer = await call
        except Exception as error:
            answer = error
        self._answer(number, answer)

    def _continue(self, number: int, content: bytes) -> None:
        """Send a part of an answer; how much of them may be sent unread is up to who gives them."""
        if self.transport is not None and not self.transport.is_closing():
            with self._writing:
                self._write(self._connection.part(number, content))

    def _answer(self, number: int, answer: bytes | Exception) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        content, failed = (answer, False) if isinstance(answer, bytes) else (self._excuse(answer), True)
        with self._writing:
            self._write(self._connection.answer(number, content, failed=failed))
        if self._full:
            self._answered_bytes += len(content)
            if self._answered_bytes > self._unread_bytes_max:
                self.rest(UNREAD)
        if self._rests and len(self._connection.serving) <= SERVING_MAX // 2:
            self.go_on(TOO_MANY)
        if self._told_parted:
            self._end_if_parted()


def bound_silence(connection: socket.socket, seconds: float) -> None:
    """Let the system end a connection whose other machine is silent for that long, whether or not data is sent.

    The system of the other machine answers, so a process that is paused or busy is not silent.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    each = max(1, round(seconds / PROBES))
    for option, value in (
        ("TCP_KEEPIDLE", each),
        ("TCP_KEEPINTVL", each),
        ("TCP_KEEPCNT", PROBES - 1),
        ("TCP_USER_TIMEOUT", round(1000 * seconds)),
    ):
        if hasattr(socket, option):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Refusals:
    """Bad peers in the log: one line at once, and then at most one in `every_seconds`, with how many there were."""

    def __init__(self, log: Log, clock: Callable[[], float], every_seconds: float = 10.0) -> None:
        self._log = log
        self._clock = clock
        self._every_seconds = every_seconds
        self._next = 0.0
        self._unsaid = 0

    def add(self, source: str, why: str) -> None:
        """Note a peer that was refused."""
        now = self._clock()
        if now < self._next:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last such line)" if self._unsaid else ""
        self._next, self._unsaid = now + self._every_seconds, 0
        self._log.warning("a channel from %s is refused: %s%s", source, why, more)
