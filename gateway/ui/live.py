"""The routes of the live page: its files, and the WebSocket that sends frames and takes the viewer's requests.

Rules
-----
* The first message of a viewer is its token, since a page cannot set a header, or a code that stands for a token
  once (`codes`); until then it gets nothing. A page with a code is told its token, for its next connection.
* A viewer with the right to watch sees every broker and, in the box for selectors, only what it may subscribe
  to. Killing a broker takes another right.
* A viewer is a client like any other: bounded, and disconnected when it accepts nothing.
* The page loads nothing from elsewhere, and its headers make the browser enforce that.

Messages to the server: ``{"token": text or null}`` or ``{"code": text}``, then ``{"try": selector or null}`` and
``{"kill": broker}``. Messages from it have a ``kind``: ``look`` (`watch.frame_of`), ``events``, ``said``, ``token``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from contextlib import aclosing
from importlib import resources
from typing import Any, Final

from ...protocol.errors import AccessDenied, InputError, LimitReached, RayvousError
from ...protocol.extras import extra
from ...protocol.ids import BrokerId
from ...protocol.json_events import parse
from ...protocol.printable import printable
from ..core import Gateway, Session
from ..deliveries import Delivery
from ..http.answers import closing_reason
from ..origins import check_origin
from ..streams import Stream
from .codes import Codes
from .watch import Watch

with extra("gateway"):
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
    from starlette.staticfiles import StaticFiles
    from starlette.types import Scope
    from starlette.websockets import WebSocket, WebSocketDisconnect

REFUSED: Final = 4401
"""The close code for a viewer that may not watch; the reason says why."""

SHOWN_MAX: Final = 20
"""Events of a trial that are sent at once; a person reads no more."""

WORD_CHARACTERS_MAX: Final = 8_192

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def ui_routes(
    gateway: Gateway,
    watch: Watch,
    kill: Callable[[BrokerId], object],
    origins: Collection[str] = (),
    codes: Codes | None = None,
) -> list[BaseRoute]:
    """Return the routes of the page, ``/ui`` and below, for `gateway.http.app.app_of`.

    Parameters
    ----------
    gateway
        Opens sessions.
    watch
        Observes the network.
    kill
        Ends the process of a broker; it may take a while, and is called in a thread.
    origins
        Origins of other hosts whose web pages may watch, too.
    codes
        Codes that pages may show in place of a token; without them there are none.
    """
    accepted = Codes() if codes is None else codes

    async def live(socket: WebSocket) -> None:
        viewer = _Viewer(socket, gateway, watch, kill, accepted)
        try:
            check_origin(socket.headers, origins)
        except InputError as error:
            await viewer.turn_away(str(error))
        else:
            await viewer.serve()

    async def without_slash(request: Request) -> Response:
        page = resources.files("rayvous.gateway.ui").joinpath("page", "index.html").read_text("utf-8")
        return HTMLResponse(page.replace("<head>", '<head><base href="ui/">', 1), headers=_HEADERS)

    files = _Page(packages=[("rayvous.gateway.ui", "page")], html=True)
    below = Mount("/ui", routes=[WebSocketRoute("/live", live), Mount("/", files)])
    return [Route("/ui", without_slash, methods=["GET"]), below]


class _Page(StaticFiles):
    """The files of the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_HEADERS)
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path == ".":
            path = "index.html"
        return await super().get_response(path, scope)


class _Viewer:
    """A connected viewer."""

    def __init__(
        self,
        socket: WebSocket,
        gateway: Gateway,
        watch: Watch,
        kill: Callable[[BrokerId], object],
        codes: Codes,
    ) -> None:
        self._socket, self._gateway, self._watch, self._kill = socket, gateway, watch, kill
        self._codes = codes
        self._one_at_a_time = asyncio.Lock()
        self._trial: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        await self._socket.accept()
        try:
            async with await self._signed_in() as session:
                await self._watching(session)
        except (AccessDenied, LimitReached, InputError) as error:
            await self._refuse(str(error))
        except (WebSocketDisconnect, TimeoutError):
            return  # the viewer has disconnected or stalled

    async def turn_away(self, reason: str) -> None:
        """Close the connection with a reason."""
        await self._socket.accept()  # a refused handshake carries no reason
        await self._refuse(reason)

    async def _refuse(self, reason: str) -> None:
        await self._socket.close(REFUSED, closing_reason(reason))

    async def _signed_in(self) -> Session:
        try:
            async with asyncio.timeout(self._gateway.limits.request_seconds):
                word = await self._word()
        except TimeoutError:
            raise LimitReached("no token came in time (request_seconds)", "request_seconds") from None
        token, code = word.get("token"), word.get("code")
        if not isinstance(token, str | None) or not isinstance(code, str | None):
            raise InputError("a token must be text, and so must a code")
        if code is not None:
            token = self._codes.redeem(code)
        session = await self._gateway.open(token or None)
        try:
            session.require("watch")
        except AccessDenied:
            await session.close()
            raise
        if code is not None:
            await self._send({"kind": "token", "token": token})
        return session

    async def _word(self) -> dict[str, object]:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        if text is None:
            raise InputError("a message must be text")
        if len(text) > WORD_CHARACTERS_MAX:
            raise InputError(f"a message of {len(text):,} characters, the limit is {WORD_CHARACTERS_MAX:,}")
        word = parse(text, "a word, which is a JSON object")
        if not isinstance(word, dict):
            raise InputError("a message must be a JSON object")
        return word

    async def _watching(self, session: Session) -> None:
        looks = asyncio.create_task(self._looks(session))
        listening = asyncio.create_task(self._listen(session))
        try:
            await asyncio.wait((looks, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending = [looks, listening, *([] if self._trial is None else [self._trial])]
            for task in ending:
                task.cancel()
            ended = await asyncio.gather(*ending, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception) and not isinstance(error, asyncio.CancelledError):
                raise error

    async def _send(self, word: dict[str, object]) -> None:
        async with self._one_at_a_time, asyncio.timeout(self._gateway.limits.stall_seconds):
            await self._socket.send_text(json.dumps(word, allow_nan=False))

    async def _looks(self, session: Session) -> None:
        may_kill = session.may("operate")
        async with aclosing(self._watch.frames()) as frames:
            async for frame in frames:
                await self._send({**frame, "may_kill": may_kill})

    async def _listen(self, session: Session) -> None:
        while True:
            word = await self._word()
            try:
                if "try" in word:
                    await self._try(session, word["try"])
                elif "kill" in word:
                    await self._do_kill(session, word["kill"])
            except RayvousError as error:
                await self._say(str(error))

    async def _say(self, text: str) -> None:
        await self._send({"kind": "said", "text": printable(text)})

    # Trial of a selector.

    async def _try(self, session: Session, selector: object) -> None:
        if self._trial is not None:
            self._trial.cancel()
            await asyncio.gather(self._trial, return_exceptions=True)
            self._trial = None
        if selector is None:
            return
        if not isinstance(selector, str):
            raise InputError("a selector must be text")
        stream = await session.subscribe(selector, narrow=True)
        await self._say("; ".join([f"subscribed to {stream.filter}", *stream.doubts]))
        self._trial = asyncio.create_task(self._bring(stream))

    async def _bring(self, stream: Stream) -> None:
        count = 0
        try:
            while True:
                items = [item for item in await stream.receive() if isinstance(item, Delivery)]
                count += len(items)
                shown = [item.text for item in items[-SHOWN_MAX:]]
                await self._send({"kind": "events", "count": count, "events": shown})
        except RayvousError as error:
            await self._say(str(error))
        finally:
            await stream.close()

    async def _do_kill(self, session: Session, broker: object) -> None:
        session.require("operate")
        if type(broker) is not int:
            raise InputError("a broker must be a number")
        await asyncio.to_thread(self._kill, broker)
