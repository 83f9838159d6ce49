"""STOMP over WebSocket, for browsers: a route of the HTTP application.

Rules
-----
* The best offered subprotocol is chosen. A client that offers only ``v10.stomp`` is accepted and then told
  the supported versions in an ERROR, since browsers cannot read a refused handshake.
* Frames may be split anywhere, also within a WebSocket message; text and binary messages are equivalent.
* A page of another host is allowed only if the network file allows it, as for the other paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol.errors import InputError
from ...protocol.extras import extra
from ..origins import check_origin
from .server import StompServer

with extra("gateway"):
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect

PATH: Final = "/stomp"
SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
POLICY: Final = 1008


def stomp_route(server: StompServer, origins: Sequence[str] = ()) -> WebSocketRoute:
    """Return the STOMP route, for `gateway.http.app.app_of`.

    Parameters
    ----------
    server
        The server, which also serves TCP; so its limits cover both.
    origins
        Origins of other hosts whose web pages are allowed; ``"*"`` allows all.
    """

    async def serve(socket: WebSocket) -> None:
        offered = socket.scope.get("subprotocols", [])
        known = [each for each in SUBPROTOCOLS if each in offered]
        await socket.accept(known[0] if known else None)
        wire = _WebSocketWire(socket)
        try:
            check_origin(socket.headers, origins)
        except InputError as error:
            await server.turn_away(wire, str(error))
            await socket.close(POLICY)
        else:
            await server.serve(wire)

    return WebSocketRoute(PATH, serve)


class _WebSocketWire:
    """A WebSocket as a `Wire`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return b""
            if data := message.get("bytes") or (message.get("text") or "").encode():
                return data

    def offer(self, data: bytes) -> bool:
        return False  # the WebSocket cannot tell

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def close(self) -> None:
        try:
            await self._socket.close()
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    def abort(self) -> None:
        """Do nothing: the connection ends when the application's coroutine returns."""
