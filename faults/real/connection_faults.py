"""Faults of the connections of one process during a test: reset in a frame, no longer read, refused at its door.

Rules
-----
* They act on the sockets of the process, below everything that production does with them.
* What lasts ends by itself after its time, or with `end`, whichever is first.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ...actors.channels.channel import Channel
from ...actors.channels.connection import Kind, frame
from ...actors.channels.pool import Channels
from ..plans.plans import OfConnections, RefuseConnections, ResetConnections, StopReading

if TYPE_CHECKING:
    from ...actors.host.host import BrokerHost

HALF_A_FRAME: Final = frame(Kind.CALL, 1, bytes(1_000))[:513]
"""The beginning of a call of 1,000 bytes."""

AT_ONCE: Final = struct.pack("ii", 1, 0)
"""The value of ``SO_LINGER`` with which the end of a connection is a reset."""


@dataclass(frozen=True, slots=True)
class ConnectionHarm:
    """A fault that the connections of a host's process get when this is called with it; None ends what lasts."""

    fault: OfConnections | None

    def __call__(self, host: BrokerHost) -> None:
        """Cause the fault, if there are connections."""
        channels = host.transport.channels
        if channels is None:
            return
        faults = _CAUSED.setdefault(channels, ConnectionFaults(channels))
        faults.end() if self.fault is None else faults.cause(self.fault)


class ConnectionFaults:
    """The faults of the connections of one process; used on the event loop of its channels.

    Parameters
    ----------
    channels
        The channels of the process.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unread: list[Channel] = []
        self._reserved: socket.socket | None = None  # the port of the door, while that is shut
        self._timers: dict[type, asyncio.TimerHandle] = {}
        self._opening: set[asyncio.Task[None]] = set()

    def cause(self, fault: OfConnections) -> None:
        """Cause a fault; one that lasts already is longer then."""
        match fault:
            case ResetConnections():
                self._reset()
            case StopReading(seconds=seconds):
                for channel in self._channels.opened():
                    channel.rest(self)
                    self._unread.append(channel)
                self._end_after(seconds, StopReading, self._read_again)
            case RefuseConnections(seconds=seconds):
                self._shut_door()
                self._reset()
                self._end_after(seconds, RefuseConnections, self._open_door)

    def end(self) -> None:
        """End what lasts."""
        self._read_again()
        self._open_door()

    def _end_after(self, seconds: float, kind: type, end: Callable[[], None]) -> None:
        self._drop_timer(kind)
        self._timers[kind] = self._channels.loop.call_later(seconds, end)

    def _drop_timer(self, kind: type) -> None:
        timer = self._timers.pop(kind, None)
        if timer is not None:
            timer.cancel()

    def _reset(self) -> None:
        for channel in self._channels.opened():
            assert channel.transport is not None, "it is open"
            known = channel.transport.get_extra_info("socket")
            known.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            channel.transport.write(HALF_A_FRAME)
            channel.abort("the connection was made to fail")

    def _read_again(self) -> None:
        self._drop_timer(StopReading)
        unread, self._unread = self._unread, []
        for channel in unread:
            channel.go_on(self)

    def _shut_door(self) -> None:
        """Close the listening socket, and keep its port, so that nobody else listens there meanwhile."""
        server, self._channels.server = self._channels.server, None
        if server is not None:
            family, at = server.sockets[0].family, server.sockets[0].getsockname()
            server.close()
            self._reserved = socket.socket(family)
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._reserved.bind(at)
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)

    def _open_door(self) -> None:
        self._drop_timer(RefuseConnections)
        reserved, self._reserved = self._reserved, None
        if reserved is not None:
            address, port = reserved.getsockname()[:2]
            reserved.close()
            task = self._channels.loop.create_task(self._listen(address, port))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _listen(self, address: str, port: int) -> None:
        self._channels.server = await self._channels.listen(address, [port])


_CAUSED: Final[WeakKeyDictionary[Channels, ConnectionFaults]] = WeakKeyDictionary()
