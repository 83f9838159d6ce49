"""A running gateway: its core over a network of this process, and the listeners of its protocols."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import gethostname
from typing import Final, Protocol

from ..actors.network.network import Network
from ..protocol.gateways import AccessConfig, GatewayConfig, address_of
from .access import Access
from .core import Gateway
from .http.app import app_of
from .http.server import HttpServer, listening
from .joined import Joined
from .stomp.server import StompServer, tls_of
from .stomp.websocket import stomp_route
from .ui.codes import Codes
from .ui.live import ui_routes
from .ui.watch import Watch

YOUNG_OBJECTS: Final = 50_000
"""New objects before the garbage collector runs on the youngest generation: those of a few thousand events."""


class Listener(Protocol):
    """Accepts connections of one protocol; its socket is bound at construction."""

    @property
    def url(self) -> str:
        """Its URL; empty if it is reached through another listener."""
        ...

    async def start(self) -> None:
        """Start serving."""
        ...

    async def stop(self) -> None:
        """Accept no more connections, let current requests finish, and stop."""
        ...


def listeners_of(
    gateway: Gateway,
    config: GatewayConfig,
    network: Network,
    *,
    http: bool = True,
    codes: Codes | None = None,
) -> list[Listener]:
    """Return the listeners that the network file configures. STOMP over WebSocket and the live page come with HTTP.

    Without `http` only STOMP over TCP is served. Of several processes of a node, one serves everything else,
    since over HTTP a durable name is acknowledged at the gateway where it is open. The live page accepts `codes`.

    Raises
    ------
    InputError
        If an address cannot be used, or a certificate cannot be read.
    """
    shared, address = config.stomp_processes > 1, config.stomp
    socket = None if address is None else listening("gateway stomp", address, config.limits, shared=shared)
    try:
        stomp = StompServer(gateway, socket, tls_of(config))
        if not http:
            return [stomp]
        live = ui_routes(gateway, Watch(network.status), network.kill_broker, config.origins, codes)
        pages = [stomp_route(stomp, config.origins), *live]
        app = app_of(gateway, origins=config.origins, hosts=names_of(config), pages=pages)
        return [HttpServer(app, config), stomp]
    except BaseException:
        if socket is not None:
            socket.close()
        raise


def names_of(config: GatewayConfig) -> tuple[str, ...]:
    """Return the names by which clients may address a gateway on this machine."""
    return (*config.hosts, address_of("gateway http", config.http)[0], gethostname())


class Serving:
    """A running gateway.

    Attributes
    ----------
    gateway
        The core of the gateway.
    urls
        Its URLs.
    codes
        The codes that the live page accepts.
    """

    def __init__(self, gateway: Gateway, joined: Joined, listeners: list[Listener], codes: Codes) -> None:
        self.gateway, self.codes = gateway, codes
        self._joined = joined
        self.urls = [listener.url for listener in listeners if listener.url]

    async def until_ended(self, stop: asyncio.Event) -> bool:
        """Wait until `stop` is set, or the network has been ended; return True in the second case."""
        waiting = asyncio.ensure_future(stop.wait())
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=self.gateway.limits.heartbeat_seconds)
                await self._joined.alive()
                if self._joined.ended:
                    return True
        finally:
            waiting.cancel()
        return False


def settle_memory() -> None:
    """Exclude the existing objects from garbage collection; for a process that only serves.

    Ray, Arrow and this package are some hundred thousand permanent objects, and frames and events are freed
    by reference counting. Searching all of them for cycles every few hundred objects took a fifth of a busy
    gateway's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


@asynccontextmanager
async def serving(
    network: Network, config: GatewayConfig, access: AccessConfig, *, http: bool = True
) -> AsyncIterator[Serving]:
    """Serve a network while the block runs, and leave it at the end. `http` is that of `listeners_of`.

    Raises
    ------
    InputError
        If an address cannot be used, a certificate cannot be read, or a right is not a valid selector.
    """
    joined = Joined(network, config.limits.queue_events_max)
    try:
        gateway = Gateway(joined, Access(access), config.limits)
        codes = Codes()
        listeners = listeners_of(gateway, config, network, http=http, codes=codes)
        try:
            for listener in listeners:
                await listener.start()
            yield Serving(gateway, joined, listeners, codes)
        finally:
            await gateway.close()
            for listener in listeners:
                await listener.stop()
    finally:
        await joined.close()
