"""The HTTP listener: sockets, TLS, timeouts and connection limits.

Rules
-----
* A header must be complete within `request_seconds` of the connection or of the last response. An idle
  keep-alive connection is closed after the same time. A TLS handshake, before that, has the same limit.
* Connections beyond `connections_max` are rejected on arrival, before anything is read.
* A client that accepts none of its outgoing data, or is no longer there, is disconnected by the kernel after
  `stall_seconds`. Its buffered data is dropped.
* The sockets are bound before anything else, so that an occupied port is an error at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

from ...protocol.errors import InputError
from ...protocol.extras import extra
from ...protocol.gateways import GatewayConfig, GatewayLimits, address_of
from .incoming import websocket_protocol

with extra("gateway"):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG: Final = 256
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


def listening(name: str, address: str, limits: GatewayLimits, *, shared: bool = False) -> socket.socket:
    """Return a listening socket whose connections the kernel closes when the peer stalls or is gone.

    If it is `shared`, other processes of this account may listen at the same address; connections are spread
    over them.

    Raises
    ------
    InputError
        If the address cannot be used; the message starts with `name`.
    """
    host, port = address_of(name, address)
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise InputError(f"{name} {address}: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for option, value in (
            ("TCP_USER_TIMEOUT", int(limits.stall_seconds * 1000)),
            ("TCP_KEEPIDLE", max(1, int(limits.heartbeat_seconds))),
        ):
            if hasattr(socket, option):  # not available on every system
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(f"{name} {address}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def _protocol(limits: GatewayLimits) -> type[asyncio.Protocol]:
    class Timed(H11Protocol):
        """HTTP/1.1 with a header timeout and a connection limit."""

        _until_header: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) >= limits.connections_max:
                transport.write(_FULL)
                transport.close()
                self.transport = transport
                self.turned_away = True
                return
            self.turned_away = False
            super().connection_made(transport)
            self._await_header()

        def connection_lost(self, exc: Exception | None) -> None:
            if not self.turned_away:
                self._stop_waiting()
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.turned_away:
                return
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self._until_header is None:
                self._await_header()
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._stop_waiting()
            super().handle_websocket_upgrade(event)

        def _await_header(self) -> None:
            self._until_header = self.loop.call_later(limits.request_seconds, self._too_late)

        def _stop_waiting(self) -> None:
            if self._until_header is not None:
                self._until_header.cancel()
                self._until_header = None

        def _too_late(self) -> None:
            self._until_header = None
            self.transport.abort()

    return Timed


class _Server(uvicorn.Server):
    def __init__(self, settings: uvicorn.Config, listener: socket.socket, limits: GatewayLimits) -> None:
        super().__init__(settings)
        self._listener, self._limits = listener, limits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve at the socket; with TLS, the handshake and the shutdown have timeouts, too."""
        config = self.config

        def connection() -> asyncio.Protocol:
            made = config.http_protocol_class
            return made(config=config, server_state=self.server_state, app_state={})  # type: ignore[call-arg]

        limits, tls = self._limits, config.ssl
        server = await asyncio.get_running_loop().create_server(
            connection,
            sock=self._listener,
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else limits.request_seconds,
            ssl_shutdown_timeout=None if tls is None else limits.stall_seconds,
        )
        self.servers = [server]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the process that runs the gateway handles signals


class HttpServer:
    """Serves an application at one address.

    Parameters
    ----------
    app
        The application.
    config
        Address, certificate and limits.

    Raises
    ------
    InputError
        If the address cannot be used, or the certificate cannot be read.
    """

    def __init__(self, app: Any, config: GatewayConfig) -> None:
        limits = config.limits
        settings = uvicorn.Config(
            app,
            http=_protocol(limits),
            ws=websocket_protocol(limits),
            ws_max_size=limits.body_bytes_max,
            ws_ping_interval=limits.heartbeat_seconds,
            ws_ping_timeout=limits.stall_seconds,
            ws_per_message_deflate=False,
            h11_max_incomplete_event_size=limits.header_bytes_max,
            timeout_keep_alive=max(1, int(limits.request_seconds)),
            timeout_graceful_shutdown=max(1, int(limits.stall_seconds)),
            ssl_certfile=config.certificate,
            ssl_keyfile=config.private_key,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # the gateway reports failures
        try:
            settings.load()
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"gateway certificate {config.certificate}: {error}") from None
        self._listener = listening("gateway http", config.http, limits)
        self._server = _Server(settings, self._listener, limits)
        self._tls = config.tls
        self._work: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = self._listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        return f"http{'s' * self._tls}://{host}:{port}"

    async def start(self) -> None:
        """Start serving; connections queue from the moment the server is constructed."""
        self._work = asyncio.get_running_loop().create_task(self._server.serve())

    async def stop(self) -> None:
        """Accept no more connections, let current requests finish, and stop."""
        self._server.should_exit = True
        if self._work is not None:
            await self._work
        self._listener.close()
