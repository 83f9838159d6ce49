"""Fixtures of STOMP tests without sockets: deliveries, sessions, and clients of a server in memory."""

import asyncio
import json

import pytest
from patience import PATIENCE_SECONDS
from rayvous.gateway.deliveries import Reading
from rayvous.gateway.stomp.frames import SERVER_COMMANDS, Decoder, Frame, FrameLimits, encode
from rayvous.gateway.stomp.requests import Say, StompLimits
from rayvous.gateway.stomp.server import StompServer
from rayvous.gateway.stomp.session import StompSession
from rayvous.protocol.batch import batch_of
from rayvous.protocol.gateways import GatewayLimits

LIMITS = GatewayLimits(heartbeat_seconds=60.0, stall_seconds=PATIENCE_SECONDS)


def delivery(sequence, publisher="alice", event=None):
    """Return a delivery like those of a stream."""
    event = {"x": 1} if event is None else event
    batch = batch_of([event], publisher=publisher, first_sequence=sequence, published_at=1.5)
    (one,) = Reading(batch).deliveries()
    return one.under(f"{publisher}:{sequence};signed")


def frame_of(said):
    """Return the decoded frame of a `Say`."""
    (frame,) = Decoder(FrameLimits(1 << 20, 1000, 1 << 24), SERVER_COMMANDS).feed(said.frame)
    return frame


class Talk:
    """A session that is given frames as command, body and headers."""

    def __init__(self, limits=None, **connect):
        self.session = StompSession("s-1", limits or StompLimits(), 0.0)
        self.connect = {"accept-version": "1.2", "host": "here"} | connect

    def __call__(self, command, body=b"", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.frame(Frame(command, named, body))

    def open(self):
        self.session.frame(Frame("CONNECT", self.connect))
        self.session.opened()
        return self

    def subscribe(self, **headers):
        (request,) = self("SUBSCRIBE", **({"id": "0", "destination": "/events"} | headers))
        return request.number

    def ack_of(self, number, delivery):
        said, *_ = self.session.deliver(number, delivery)
        return frame_of(said).headers.get("ack")


def error_of(outs):
    """Return the body of the only ERROR frame among these."""
    (frame,) = [out.frame for out in outs if isinstance(out, Say) and out.frame.command == "ERROR"]
    return frame.body.decode()


class Client:
    """A client of the server, and also the server's wire in memory."""

    def __init__(self, server):
        self.server = server
        self.coming = asyncio.Queue()
        self.frames = asyncio.Queue()
        self.beats = asyncio.Event()
        self.decoder = Decoder(FrameLimits(1 << 20, 1000, 1 << 24), SERVER_COMMANDS)
        self.reads = asyncio.Event()  # while cleared, it reads nothing
        self.reads.set()
        self.sent = self.numbers = 0
        self.task = asyncio.create_task(server.serve(self))

    # The wire that the server uses.

    async def receive(self):
        return await self.coming.get()

    def offer(self, data):
        if self.reads.is_set():
            self._take(data)
        return self.reads.is_set()

    async def send(self, data):
        await self.reads.wait()
        self._take(data)

    def _take(self, data):
        self.sent += len(data)
        if data == b"\n":
            self.beats.set()
        for frame in self.decoder.feed(data):
            self.frames.put_nowait(frame)

    async def close(self):
        pass

    def abort(self):
        self.frames.put_nowait(None)

    # The actions of the client.

    def put(self, *frames):
        self.coming.put_nowait(b"".join(encode(frame) for frame in frames))

    async def next(self, command):
        frame = await self.frames.get()
        assert frame is not None, "the connection has ended"
        assert frame.command == command, frame
        return frame

    async def ended(self):
        assert await self.frames.get() is None
        await self.task

    async def connect(self, token="token-of-alice", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.put(Frame("CONNECT", {"accept-version": "1.2", "host": "h", "passcode": token, **named}))
        await self.next("CONNECTED")
        return self

    async def ask(self, command, body=b"", **headers):
        """Send a frame, and wait for its receipt."""
        self.numbers += 1
        receipt = str(self.numbers)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.put(Frame(command, {**named, "receipt": receipt}, body))
        assert (await self.next("RECEIPT")).headers["receipt-id"] == receipt

    async def publish(self, **event):
        await self.ask(
            "SEND", json.dumps(event).encode(), destination="/events", content_type="application/json"
        )


@pytest.fixture
def talk():
    return Talk().open()


@pytest.fixture
def talks():
    """Return a factory of sessions that are not open yet, from limits and headers of CONNECT."""
    return Talk


@pytest.fixture
def delivered():
    return delivery


@pytest.fixture
def frame_said():
    return frame_of


@pytest.fixture
def error():
    return error_of


@pytest.fixture
def served(gateway):
    """``served(work, limits)``: run ``work(client, core)``, where ``client()`` makes a client."""

    def make(work, limits=LIMITS, seconds=PATIENCE_SECONDS, **options):
        async def whole():
            async with asyncio.timeout(seconds):
                await test()

        async def test():
            core = gateway(limits, **options)
            server = StompServer(core)
            await work(lambda: Client(server), core)
            await server.stop()
            assert server.connections == 0
            assert server._held.bytes == 0
            assert core.sessions == core.streams == 0
            await core.close()

        asyncio.run(whole())

    return make
