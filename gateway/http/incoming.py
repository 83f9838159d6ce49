"""Limits on incoming WebSocket messages while they are incomplete: bytes, fragments and time.

Rules
-----
* The bytes of incomplete messages count for all connections together. A connection that exceeds the total
  while it holds more than `FREE_BYTES` itself is aborted.
* A message must be complete within `request_seconds` of its first byte. Time in which the gateway does not
  read is not counted.
* The gateway does not read from a client that does not accept its outgoing data: otherwise the answers to the
  client's pings would pile up in memory.

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
"""The bytes that each connection may hold, whatever the total."""
FRAGMENTS_MAX: Final = 1_024
"""Fragments per message. Each fragment, even an empty one, is stored separately until the message is complete."""


def websocket_protocol(limits: GatewayLimits) -> type[asyncio.Protocol]:
    """Return the protocol class that serves one WebSocket connection."""

    class Bounded(WebSocketsSansIOProtocol):
        """A WebSocket protocol with limits on incoming messages."""

        coming_bytes = 0  # class attribute: the total of all connections
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
            self._stop_waiting()  # what follows belongs to the next message
            super().send_receive_event_to_app()

        async def receive(self) -> Any:
            message = await super().receive()
            if not self.writable.is_set():
                self.transport.pause_reading()
            if self._until_whole is not None:  # reading was paused
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
                self._await_rest()  # reading is paused
            else:
                self._cut()

        def _cut(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    return Bounded
