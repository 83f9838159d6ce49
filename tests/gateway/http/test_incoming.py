"""Limits enforced below the application: incoming WebSocket messages and TLS handshakes."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest
import uvicorn
from rayvous.gateway.http import server
from rayvous.gateway.http.incoming import FRAGMENTS_MAX, FREE_BYTES, websocket_protocol
from rayvous.protocol.gateways import GatewayConfig, GatewayLimits
from uvicorn.server import ServerState

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TEXT, MORE, PING, WHOLE = 1, 0, 9, 0x80


def frame(opcode, data=b"", size=None):
    """Return a client's frame, masked with zeros; `size` may announce more than is sent. RFC 6455, 5.2."""
    size = len(data) if size is None else size
    head = bytes([opcode, 0x80 | size]) if size < 126 else struct.pack("!BBQ", opcode, 0x80 | 127, size)
    return head + bytes(4) + data


class Transport(asyncio.Transport):
    """A fake transport that counts the bytes written and records whether it is reading or aborted."""

    def __init__(self):
        super().__init__()
        self.reading, self.aborted, self.written = True, False, 0

    def write(self, data):
        self.written += len(data)

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.aborted

    def close(self):
        pass

    def abort(self):
        self.aborted = True


@pytest.fixture
def connections():
    """Return a function of limits that gives (connect, app); `connect` returns (protocol, transport)."""

    def make(limits):
        async def app(scope, receive, send):
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                await app.go_on.wait()

        app.go_on = asyncio.Event()
        app.go_on.set()
        kind = websocket_protocol(limits)
        config = uvicorn.Config(
            app, ws=kind, ws_max_size=limits.body_bytes_max, lifespan="off", log_config=None
        )
        config.load()

        async def connect():
            protocol, transport = kind(config=config, server_state=ServerState(), app_state={}), Transport()
            protocol.connection_made(transport)
            protocol.data_received(HANDSHAKE)
            await turns()
            return protocol, transport

        return connect, app

    return make


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


def test_messages_that_are_not_whole_have_a_limit_together(run, connections):
    async def work():
        limits = GatewayLimits(bodies_bytes_max=3 * FREE_BYTES)
        connect, _ = connections(limits)
        one, two, three = [await connect() for _ in range(3)]
        part = frame(WHOLE | TEXT, b"x" * 2 * FREE_BYTES, 4 * FREE_BYTES)
        one[0].data_received(part)
        two[0].data_received(frame(TEXT, b"x" * FREE_BYTES))  # what each connection may always have
        assert not one[1].aborted and not two[1].aborted
        three[0].data_received(part)
        assert three[1].aborted
        one[0].connection_lost(None)
        three[0].connection_lost(None)
        four = await connect()
        four[0].data_received(part)
        assert not four[1].aborted  # closed connections have released theirs
        for each in (two, four):
            each[0].connection_lost(None)

    run(work())


def test_fragments_have_a_limit_also_when_they_are_empty(run, connections):
    async def work():
        connect, _ = connections(GatewayLimits())
        protocol, transport = await connect()
        protocol.data_received(frame(TEXT) + frame(MORE) * (FRAGMENTS_MAX - 1))
        assert not transport.aborted
        protocol.data_received(frame(MORE))
        assert transport.aborted
        protocol.connection_lost(None)

    run(work())


class Clock:
    """A fake event loop of a connection: the test makes the delayed calls by hand."""

    def __init__(self):
        self.waits = []

    def call_later(self, seconds, call):
        handle = SimpleNamespace(seconds=seconds, call=call, cancel=lambda: self.waits.remove(handle))
        self.waits.append(handle)
        return handle

    def ring(self):
        (handle,) = self.waits
        self.waits.clear()
        handle.call()


def test_a_message_has_to_be_whole_in_time_but_for_when_it_is_not_read(run, connections):
    async def work():
        connect, app = connections(GatewayLimits(request_seconds=7.0))
        protocol, transport = await connect()
        clock = protocol.loop = Clock()
        app.go_on.clear()
        protocol.data_received(frame(WHOLE | TEXT, b"{}"))
        assert not clock.waits  # the message is complete
        await turns()
        protocol.data_received(frame(WHOLE | TEXT, b"{}") + frame(TEXT, b"{"))
        assert not transport.reading
        clock.ring()
        assert not transport.aborted and len(clock.waits) == 1  # the gateway, not the client, is slow
        before = clock.waits[0]
        app.go_on.set()
        await turns()
        assert transport.reading and clock.waits[0] is not before  # the time starts again
        protocol.data_received(frame(WHOLE | MORE, b"}"))
        assert not clock.waits
        await turns()
        protocol.data_received(frame(TEXT))
        assert [each.seconds for each in clock.waits] == [7.0]
        clock.ring()
        assert transport.aborted
        protocol.connection_lost(None)

    run(work())


def test_who_takes_no_answers_to_pings_is_not_read(run, connections):
    async def work():
        connect, _ = connections(GatewayLimits())
        protocol, transport = await connect()
        written = transport.written
        protocol.data_received(frame(WHOLE | PING, b"x" * 100))
        assert transport.written > written and transport.reading
        protocol.pause_writing()  # the buffer is full
        assert not transport.reading
        protocol.data_received(frame(WHOLE | TEXT, b"{}"))  # read earlier
        await turns()
        assert not transport.reading
        protocol.resume_writing()
        await turns()
        assert transport.reading
        protocol.connection_lost(None)

    run(work())


def test_a_handshake_of_tls_has_to_be_over_in_time(run, monkeypatch):
    async def work():
        limits = GatewayLimits(request_seconds=3.0, stall_seconds=4.0)
        seen = {}

        async def create_server(connection, **given):
            seen.update(given)
            return SimpleNamespace(close=lambda: None)

        monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
        listening = server.HttpServer(None, GatewayConfig("127.0.0.1:0", limits=limits))
        inside = listening._server
        inside.config.ssl = object()
        await inside.startup()
        listening._listener.close()
        return seen

    seen = run(work())
    assert (seen["ssl_handshake_timeout"], seen["ssl_shutdown_timeout"]) == (3.0, 4.0)
