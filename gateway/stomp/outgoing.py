"""What waits to be sent to one client, in order; whoever adds to it waits for room, and who takes nothing is cut off.

Rules
-----
* A frame is put as a whole, and never waits: so frames leave in the order in which they were decided.
* Who is about to put something waits until less than `WAITING_BYTES` are left. One at a time is let in: so one frame
  comes on top.
* What is put in one turn of the event loop goes out together, at once if the connection takes it; else in slices.
* Who found no room, and does not wait, is told when there is some: see `relieved`.
* Each slice has its own time: a client that reads slowly is slowed, one that takes nothing for `stall_seconds` is cut
  off.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

SLICE_BYTES: Final = 64 << 10
WAITING_BYTES: Final = 64 << 10


class Wire(Protocol):
    """A connection that carries bytes both ways."""

    async def receive(self) -> bytes:
        """Return what came next, some bytes; none at the end."""
        ...

    def offer(self, data: bytes) -> bool:
        """Send bytes if none are on their way to the client; return whether they were taken."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; return when more may be sent."""
        ...

    async def close(self) -> None:
        """End it so that the client still gets what was sent."""
        ...

    def abort(self) -> None:
        """End it at once."""
        ...


class Outgoing:
    """Bytes on their way to one client.

    Parameters
    ----------
    wire
        Where they go.
    stall_seconds
        How long the client may take nothing.
    relieved
        Called when fewer than `WAITING_BYTES` are left of more.
    """

    def __init__(self, wire: Wire, stall_seconds: float, relieved: Callable[[], None] = lambda: None) -> None:
        self._wire, self._stall_seconds, self._relieved = wire, stall_seconds, relieved
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._sending = self._called = False
        self._more, self._less, self._turn = asyncio.Event(), asyncio.Event(), asyncio.Lock()

    def __len__(self) -> int:
        return self._bytes

    def put(self, data: bytes) -> None:
        """Add bytes behind all others."""
        self._waiting.append(data)
        self._bytes += len(data)
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._offer)

    def _offer(self) -> None:
        """Send what waits if that goes at once; else let it be sent in slices."""
        self._called = False
        if self._sending or not self._waiting:
            return
        if self._bytes <= SLICE_BYTES:
            data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
            if self._wire.offer(data):
                self._waiting.clear()
                self._gone(len(data))
                return
        self._more.set()

    @property
    def full(self) -> bool:
        """Whether nothing is to be put before something has gone."""
        return self._bytes >= WAITING_BYTES

    async def room(self, below: int = WAITING_BYTES) -> None:
        """Return when fewer bytes than that wait."""
        if self._bytes < below and not self._turn.locked():
            return
        async with self._turn:
            while self._bytes >= below:
                self._less.clear()
                await self._less.wait()

    async def run(self) -> None:
        """Send what is put, until cancelled.

        Raises
        ------
        TimeoutError
            If the client took nothing for too long.
        OSError
            If the connection is gone.
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
