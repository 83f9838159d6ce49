"""STOMP over WebSocket, called as by an ASGI server, without sockets."""

import asyncio

import pytest
from rayvous.gateway.stomp.frames import SERVER_COMMANDS, Decoder, Frame, FrameLimits, encode
from rayvous.gateway.stomp.server import StompServer
from rayvous.gateway.stomp.websocket import stomp_route
from starlette.applications import Starlette

CONNECT = Frame("CONNECT", {"accept-version": "1.2", "passcode": "token-of-alice"})
ORIGINS = ["https://friend.example"]


class Page:
    """The client end of a WebSocket."""

    def __init__(self, app, subprotocols=(), origin=None):
        self.asked, self.told = asyncio.Queue(), asyncio.Queue()
        self.decoder = Decoder(FrameLimits(), SERVER_COMMANDS)
        headers = [(b"host", b"here:80")]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        scope = {
            "type": "websocket",
            "path": "/stomp",
            "headers": headers,
            "subprotocols": list(subprotocols),
        }
        self.asked.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(app(scope, self.asked.get, self.told.put))

    async def accepted(self):
        told = await self.told.get()
        assert told["type"] == "websocket.accept"
        return told["subprotocol"]

    def say(self, **message):
        self.asked.put_nowait({"type": "websocket.receive", **message})

    async def frames(self, count):
        frames = []
        while len(frames) < count:
            frames += self.decoder.feed((await self.told.get())["bytes"])
        return frames

    async def closed(self):
        assert (await self.told.get())["type"] == "websocket.close"
        await self.task


@pytest.fixture
def visited(gateway, run):
    """``visited(work)``: run ``work(app)`` with an application that has the STOMP route only."""

    def make(work):
        async def whole():
            core = gateway()
            server = StompServer(core)
            await work(Starlette(routes=[stomp_route(server, ORIGINS)]))
            await server.stop()
            assert server.connections == core.sessions == 0
            await core.close()

        run(whole())

    return make


def test_text_and_binary_messages_are_read_alike_wherever_they_are_cut(visited):
    async def work(app):
        page = Page(app, ["v10.stomp", "v12.stomp"])
        assert await page.accepted() == "v12.stomp"
        page.say(text=encode(CONNECT).decode())
        assert (await page.frames(1))[0].command == "CONNECTED"
        data = encode(Frame("SUBSCRIBE", {"id": "0", "destination": "/topic/é", "receipt": "r"}))
        data += encode(Frame("SEND", {"destination": "/topic/é"}, "grüße".encode()))
        for i in range(0, len(data), 7):
            page.say(bytes=data[i : i + 7])
        receipt, message = await page.frames(2)
        assert receipt.headers == {"receipt-id": "r"}
        assert message.body.decode() == "grüße"
        page.asked.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await page.task

    visited(work)


def test_who_speaks_an_older_version_is_told_which_there_is(visited):
    async def work(app):
        page = Page(app, ["v10.stomp"])
        assert await page.accepted() == "v10.stomp"
        page.say(text=encode(Frame("CONNECT", {"accept-version": "1.0"})).decode())
        assert "speaks STOMP 1.2" in (await page.frames(1))[0].body.decode()
        await page.closed()

    visited(work)


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("https://friend.example", True),
        ("http://here:80", True),
        ("https://evil.example", False),
        (None, True),
    ],
)
def test_pages_of_other_hosts_come_where_the_file_says_so(visited, origin, welcome):
    async def work(app):
        page = Page(app, origin=origin)
        await page.accepted()
        page.say(text=encode(CONNECT).decode())
        (frame,) = await page.frames(1)
        assert (frame.command == "CONNECTED") == welcome
        assert welcome or "origins" in frame.body.decode()
        if not welcome:
            await page.closed()

    visited(work)
