"""STOMP over WebSocket, for browsers: a route of the application that serves HTTP.

Rules
-----
* The subprotocol is the best that is offered. A client that offers only ``v10.stomp`` is let in, to be told in an ERROR
  which ones there are: a browser reads nothing of a refused handshake.
* Frames may be cut anywhere, also within a message of the WebSocket; text and binary messages are read alike.
* A page of another host may come only where the file of the network says so, as to the other paths.
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
    """Return the route that serves STOMP, for `gateway.http.app.app_of`.

    Parameters
    ----------
    server
        Serves what comes in over TCP, too; so limits count for both.
    origins
        Web pages of other hosts that may come; ``"*"`` lets all.
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
        return False  # what carries it cannot tell

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
        """End it: the application's coroutine returns, and with it the connection."""
