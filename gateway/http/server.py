"""Listening for HTTP: sockets, TLS, and the times and numbers that a connection is held to.

Rules
-----
* A header has to be whole within `request_seconds`, from the connection or from the last answer; who only keeps a
  connection open is let go after as long. So has a handshake of TLS, before that.
* More than `connections_max` connections are turned away as they come, before anything is read.
* A client that takes nothing of what was sent to it, or is not there any more, is cut off by the kernel after
  `stall_seconds`: what waits for it in buffers goes with it.
* The sockets are bound before anything else, so that a port that is taken is an error at once.
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
    """Return a socket that listens at an address, and cuts off who is silent.

    One that is `shared` lets other processes of this account listen there, too; connections are spread over them.

    Raises
    ------
    InputError
        If the address cannot be used; `name` says whose it is.
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
            if hasattr(socket, option):  # not on every system
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
        """HTTP/1.1 whose headers come in time, on no more connections than may be."""

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
        """Serve at the socket; with TLS the handshake and the goodbye have their times, too."""
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
        yield  # whoever runs the gateway has its own


class HttpServer:
    """Serves an application at one address.

    Parameters
    ----------
    app
        The application.
    config
        Where, with which certificate, and within which limits.

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
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what fails is told by the gateway
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
        """Where it is to be reached."""
        host, port = self._listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        return f"http{'s' * self._tls}://{host}:{port}"

    async def start(self) -> None:
        """Serve from now on; connections were taken since the server was made."""
        self._work = asyncio.get_running_loop().create_task(self._server.serve())

    async def stop(self) -> None:
        """Take no more, let what is under way end, and stop."""
        self._server.should_exit = True
        if self._work is not None:
            await self._work
        self._listener.close()
