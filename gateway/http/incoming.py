"""WebSocket connections within limits while a message is on its way in: in bytes, in fragments, and in time.

Rules
-----
* What has come of messages that are not whole counts for all connections together; who would exceed what that may be,
  with more than `FREE_BYTES` of its own, is cut off.
* A message has to be whole within `request_seconds` from its first byte; the time in which the gateway does not read
  does not count.
* Nothing is read of a client that does not take what is sent to it: or it could have its pings answered into memory.

Reference: RFC 6455, 10.4 ("Implementation-Specific Limits").
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...protocol.extras import extra
from ...protocol.gateways import GatewayLimits

with extra("gateway"):
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

FREE_BYTES: Final = 16 << 10
"""What each connection may keep, however much all keep together."""
FRAGMENTS_MAX: Final = 1_024
"""Of one message: each is kept by itself until the message is whole, also an empty one."""


def websocket_protocol(limits: GatewayLimits) -> type[asyncio.Protocol]:
    """Return what serves one connection that has become a WebSocket."""

    class Bounded(WebSocketsSansIOProtocol):
        """A WebSocket whose messages come in within limits."""

        coming_bytes = 0  # of all connections, where it is of the class
        _mine = 0
        _until_whole: asyncio.TimerHandle | None = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            fragments = len(self.frames)
            coming = len(self.conn.reader.buffer) + sum(map(len, self.frames))
            self._hold(coming)
            too_much = coming > FREE_BYTES and Bounded.coming_bytes > limits.bodies_bytes_max
            if too_much or fragments > FRAGMENTS_MAX:
                self._cut()
            elif not coming and not fragments:
                self._stop_waiting()
            elif self._until_whole is None:
                self._await_rest()

        def send_receive_event_to_app(self) -> None:
            self._stop_waiting()  # what comes now is of the next one
            super().send_receive_event_to_app()

        async def receive(self) -> Any:
            message = await super().receive()
            if not self.writable.is_set():
                self.transport.pause_reading()
            if self._until_whole is not None:  # it was not read for a while
                self._stop_waiting()
                self._await_rest()
            return message

        def pause_writing(self) -> None:
            super().pause_writing()
            self.transport.pause_reading()

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.read_paused:
                self.transport.resume_reading()

        def connection_lost(self, exc: Exception | None) -> None:
            self._hold(0)
            self._stop_waiting()
            super().connection_lost(exc)

        def _hold(self, size: int) -> None:
            Bounded.coming_bytes += size - self._mine
            self._mine = size

        def _await_rest(self) -> None:
            self._until_whole = self.loop.call_later(limits.request_seconds, self._too_late)

        def _stop_waiting(self) -> None:
            if self._until_whole is not None:
                self._until_whole.cancel()
                self._until_whole = None

        def _too_late(self) -> None:
            self._until_whole = None
            if self.read_paused or not self.writable.is_set():
                self._await_rest()  # it is not read
            else:
                self._cut()

        def _cut(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    return Bounded
