"""The STOMP listener over TCP, with or without TLS.

Rules
-----
* The number of connections is limited; a connection beyond the limit gets an ERROR and is closed.
* A connection that ends lingers until the client has read the last frames (STOMP 1.2, "Connection
  Lingering").
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final
from uuid import uuid4

from ...protocol.errors import InputError
from ...protocol.gateways import GatewayConfig
from ..core import Gateway
from .connection import Connection, Held
from .frames import Frame, encode
from .outgoing import SLICE_BYTES, Wire

READ_BYTES: Final = 64 << 10
LINGER_SECONDS: Final = 1.0
LINGER_BYTES_MAX: Final = 16 << 20


class StompServer:
    """Serves STOMP over a gateway's core.

    Parameters
    ----------
    gateway
        The core; it is not closed with the server.
    listener
        A listening socket, with the options that accepted sockets inherit, such as the user timeout. None if
        connections come over WebSocket only.
    tls
        The TLS context of encrypted connections: see `tls_of`.
    """

    def __init__(
        self, gateway: Gateway, listener: socket.socket | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._gateway, self._listener, self._tls = gateway, listener, tls
        self._held = Held(gateway.limits.bodies_bytes_max)
        self._connections: dict[Connection, asyncio.Task[object]] = {}
        self._server: asyncio.Server | None = None
        self._stopped = False

    @property
    def url(self) -> str:
        """Its URL, in the form that ActiveMQ clients accept."""
        if self._listener is None:
            return ""
        host, port = self._listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        return f"stomp{'+ssl' * (self._tls is not None)}://{host}:{port}"

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    async def start(self) -> None:
        """Start serving; connections queue from the moment the socket listens."""
        if self._listener is not None:
            seconds = None if self._tls is None else self._gateway.limits.request_seconds
            self._server = await asyncio.start_server(
                self._accepted,
                sock=self._listener,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                limit=READ_BYTES,
            )

    async def stop(self) -> None:
        """Accept no more clients, and end all connections."""
        self._stopped = True
        if self._server is not None:
            self._server.close()
        elif self._listener is not None:
            self._listener.close()
        for connection in self._connections:
            connection.fail(None, "the gateway ends: connect again, or to another one")
        if self._connections:
            await asyncio.wait(self._connections.values())
        if self._server is not None:
            await self._server.wait_closed()

    async def serve(self, wire: Wire) -> None:
        """Serve one connection until it ends; `stop` waits for the calling task."""
        most = self._gateway.limits.connections_max
        if self._stopped or len(self._connections) >= most:
            self._gateway.counts["refused.connections_max"] += 1
            why = f"{most:,} connections are open, which is the limit (connections_max): come again later"
            await self.turn_away(wire, why)
            wire.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        connection = Connection(wire, self._gateway, uuid4().hex, self._held)
        self._connections[connection] = task
        try:
            await connection.run()
        finally:
            del self._connections[connection]

    async def turn_away(self, wire: Wire, why: str) -> None:
        """Tell a client why it is not served."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await wire.send(encode(Frame("ERROR", {"message": why}, why.encode())))

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.serve(_Tcp(reader, writer))


def tls_of(config: GatewayConfig) -> ssl.SSLContext | None:
    """Return the TLS context, or None if connections are not encrypted.

    Raises
    ------
    InputError
        If the certificate or its key cannot be read.
    """
    if config.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.certificate, config.private_key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"gateway certificate {config.certificate}: {error}") from None
    return context


class _Tcp:
    """A TCP connection as a `Wire`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        writer.transport.set_write_buffer_limits(SLICE_BYTES)

    async def receive(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    def offer(self, data: bytes) -> bool:
        transport = self._writer.transport
        if transport.is_closing() or transport.get_write_buffer_size():
            return False
        self._writer.write(data)
        return True

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        writer = self._writer
        writer.transport.set_write_buffer_limits(1, 0)  # with 0, TLS reports a full buffer when it is empty
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        left = LINGER_BYTES_MAX
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (data := await self._reader.read(READ_BYTES)):
                    left -= len(data)
        writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()
