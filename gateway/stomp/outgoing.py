"""The send queue of one client, in order. Producers wait for room, and a client that accepts nothing is disconnected.

Rules
-----
* A frame is queued as a whole, without waiting: so frames are sent in the order in which they were decided.
* A producer first waits until fewer than `WAITING_BYTES` are queued. One producer at a time is admitted: so
  the queue exceeds that by one frame at most.
* Everything queued in one step (`actors.host.departures`), or in one turn of the event loop, is sent together,
  immediately if the connection accepts it, else in slices.
* A producer that found no room and does not wait is notified when there is room: see `relieved`.
* Each slice has its own timeout: a client that reads slowly is slowed, and one that accepts nothing for
  `stall_seconds` is disconnected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ...actors.host.departures import Departures, departures_here

SLICE_BYTES: Final = 64 << 10
WAITING_BYTES: Final = 64 << 10


class Wire(Protocol):
    """A connection that carries bytes both ways."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end."""
        ...

    def offer(self, data: bytes) -> bool:
        """Send bytes if none are queued to the client; return whether they were accepted."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; return when more may be sent."""
        ...

    async def close(self) -> None:
        """Close the connection so that the client still gets what was sent."""
        ...

    def abort(self) -> None:
        """Close the connection immediately."""
        ...


class Outgoing:
    """The bytes queued for one client.

    Parameters
    ----------
    wire
        The connection.
    stall_seconds
        How long the client may accept nothing.
    relieved
        Called when the queue shrinks below `WAITING_BYTES`.
    """

    def __init__(self, wire: Wire, stall_seconds: float, relieved: Callable[[], None] = lambda: None) -> None:
        self._wire, self._stall_seconds, self._relieved = wire, stall_seconds, relieved
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._sending = self._called = False
        self._departures: Departures | None = None
        self._more, self._less, self._turn = asyncio.Event(), asyncio.Event(), asyncio.Lock()

    def __len__(self) -> int:
        return self._bytes

    def put(self, data: bytes) -> None:
        """Append bytes to the queue."""
        self._waiting.append(data)
        self._bytes += len(data)
        if not self._called:
            self._called = True
            if self._departures is None:  # it begins on the event loop on which it stays
                self._departures = departures_here()
            self._departures.add(self._offer)

    def _offer(self) -> bool:
        """Send the queue if the connection accepts it immediately; otherwise let `run` send it in slices."""
        self._called = False
        if self._sending or not self._waiting:
            return True
        if self._bytes <= SLICE_BYTES:
            data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
            if self._wire.offer(data):
                self._waiting.clear()
                self._gone(len(data))
                return True
        self._more.set()
        return True

    @property
    def full(self) -> bool:
        """Whether producers have to wait until something is sent."""
        return self._bytes >= WAITING_BYTES

    async def room(self, below: int = WAITING_BYTES) -> None:
        """Wait until fewer bytes than that are queued."""
        if self._bytes < below and not self._turn.locked():
            return
        async with self._turn:
            while self._bytes >= below:
                self._less.clear()
                await self._less.wait()

    async def run(self) -> None:
        """Send queued bytes, until cancelled.

        Raises
        ------
        TimeoutError
            If the client accepted nothing for `stall_seconds`.
        OSError
            If the connection is lost.
        """
        while True:
            await self._more.wait()
            self._more.clear()
            self._sending = True
            while self._waiting:
                data = b"".join(self._waiting)
                self._waiting.clear()
                for start in range(0, len(data), SLICE_BYTES):
                    part = data[start : start + SLICE_BYTES]
                    async with asyncio.timeout(self._stall_seconds):
                        await self._wire.send(part)
                    self._gone(len(part))
            self._sending = False

    def _gone(self, size: int) -> None:
        full, self._bytes = self.full, self._bytes - size
        self._less.set()
        if full and not self.full:
            self._relieved()
