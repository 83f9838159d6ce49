"""Faults of the connections of a process: what each does to the channels there, and that it ends."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakes import Ray
from patience import PATIENCE_SECONDS
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels.channel import Channel, Waiting
from rayvous.actors.channels.config import ChannelConfig
from rayvous.actors.channels.connection import Connection, Self
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import Channels, unavailable
from rayvous.actors.channels.replies import Awaited, packed_error
from rayvous.faults.plans.plans import RefuseConnections, ResetConnections, StopReading
from rayvous.faults.real.connection_faults import ConnectionFaults

CONFIG = ChannelConfig(b"n" * 16, b"s" * 32)
LONG_SECONDS = 1_000.0


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "TCP_USER_TIMEOUT", None, raising=False)
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")  # these are sockets of Unix
    monkeypatch.setattr(pool_file, "node_here", lambda: "node")
    Ray(monkeypatch, pool_file).joined = False


class Harmed:
    """A process whose connections are harmed, and another one that calls it."""

    def __init__(self) -> None:
        self.pool = Channels(CONFIG, name=b"h" * 16, serve=self._serve)
        self.faults = ConnectionFaults(self.pool)
        self.ended: list[bool] = []
        self.channel: Channel

    async def _serve(self, content: bytes) -> bytes:
        return content[::-1]

    def _lost(self, channel: Channel, lost: list[Waiting], parted: bool) -> None:
        self.ended.append(parted)
        for each in lost:
            each.lane.leave()
            each.failed(unavailable(channel.why, channel.peer or b"?" * 16))

    async def connect(self) -> None:
        self.pool.loop  # noqa: B018  # it is that of this test
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.pool._channel(opens=False), theirs)
        machine: Connection[Waiting] = Connection(Self(b"n" * 16, b"c" * 16, b"s" * 32), True, b"c" * 32)
        _, self.channel = await loop.create_connection(
            lambda: Channel(machine, None, packed_error, lambda _: None, self._lost, lambda *_: None),
            sock=ours,
        )
        assert await self.channel.done
        await self.until(self.pool.opened)

    async def until(self, met: Callable[[], object]) -> None:
        while not met():
            await asyncio.sleep(0)

    def ask(self, content: bytes) -> Awaited:
        lane = Lane()
        lane.enter(True)
        waiting = Awaited(lane)
        self.channel.call(content, waiting)
        return waiting


def run(test: Callable[[Harmed], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            harmed = Harmed()
            await harmed.connect()
            await test(harmed)
            harmed.faults.end()
            await harmed.pool.close()

    asyncio.run(bounded())


def test_a_reset_ends_connections_in_a_frame_without_a_farewell() -> None:
    async def test(harmed: Harmed) -> None:
        assert await harmed.ask(b"abc") == b"cba"
        harmed.faults.cause(ResetConnections(0.0, 3))
        await harmed.until(lambda: harmed.ended)
        assert harmed.ended == [False] and not harmed.pool.opened()
        assert harmed.channel._connection._held, "half a frame has come"
        await harmed.connect()
        assert await harmed.ask(b"xyz") == b"zyx", "another connection is as good as the first"

    run(test)


@pytest.mark.parametrize("ends", ["by itself", "when everything heals"])
def test_a_process_that_stops_reading_answers_when_it_reads_again(ends: str) -> None:
    async def test(harmed: Harmed) -> None:
        harmed.faults.cause(StopReading(0.0, 3, LONG_SECONDS))
        asked = harmed.ask(b"abc")
        for _ in range(50):
            await asyncio.sleep(0)
        assert not asked.done and harmed.channel.open
        if ends == "by itself":
            harmed.faults.cause(StopReading(0.0, 3, 0.0))
        else:
            harmed.faults.end()
        assert await asked == b"cba"

    run(test)


@pytest.mark.parametrize("ends", ["by itself", "when everything heals"])
def test_a_door_that_refuses_keeps_its_port_and_opens_there_again(ends: str) -> None:
    async def test(harmed: Harmed) -> None:
        door = await harmed.pool.door()
        harmed.faults.cause(RefuseConnections(0.0, 3, LONG_SECONDS))
        await harmed.until(lambda: harmed.ended)
        assert harmed.pool.server is None and not harmed.pool.opened()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((door.address, door.port))
        if ends == "by itself":
            harmed.faults.cause(RefuseConnections(0.0, 3, 0.0))
        else:
            harmed.faults.end()
        await harmed.until(lambda: harmed.pool.server)
        server: Any = harmed.pool.server
        assert [each.getsockname() for each in server.sockets] == [(door.address, door.port)]
        assert await harmed.pool.door() == door

    run(test)
