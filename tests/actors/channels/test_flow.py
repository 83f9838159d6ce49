"""A peer that does not read: what waits for it is bounded, only its link suffers, nothing is lost or reordered."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorUnavailableError
from rayvous.actors.channels.channel import Channel, Waiting
from rayvous.actors.channels.config import ChannelConfig
from rayvous.actors.channels.connection import Connection, Self
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import Channels, unavailable
from rayvous.actors.channels.replies import Awaited, packed_error
from rayvous.protocol.configs import Limits

MOST = 64 * 1024
PIECE = bytes(8 * 1024)
SYSTEM_BYTES = 1024 * 1024
"""What the buffers of a pair of sockets hold at most."""


@pytest.fixture(autouse=True)
def _plain_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "TCP_USER_TIMEOUT", None, raising=False)
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")  # these are sockets of Unix


class End:
    """One end of a channel, and what it has carried out."""

    def __init__(self, name: bytes, opens: bool, answer: bytes = b"") -> None:
        self.begun: list[int] = []
        self.refused: list[str] = []
        self.answer = answer
        machine: Connection[Waiting] = Connection(Self(b"n" * 16, name * 16, b"s" * 32), opens, name * 32)
        self.channel = Channel(
            machine,
            self._serve,
            packed_error,
            lambda _: None,
            self._ended,
            lambda _, why: self.refused.append(why),
            unread_bytes_max=MOST,
        )

    async def _serve(self, content: bytes) -> bytes:
        self.begun.append(int.from_bytes(content[:4], "big"))
        return self.answer

    def _ended(self, channel: Channel, lost: list[Waiting], parted: bool) -> None:
        for each in lost:
            each.lane.leave()
            each.failed(unavailable(channel.why, b"?" * 16))

    def ask(self, number: int, content: bytes = PIECE) -> Awaited:
        lane = Lane()
        lane.enter(True)
        waiting = Awaited(lane)
        self.channel.call(number.to_bytes(4, "big") + content, waiting)
        return waiting

    @property
    def waits_bytes(self) -> int:
        """What waits in this process for the other end to read it."""
        transport: Any = self.channel.transport
        return int(transport.get_write_buffer_size())


async def connected(one: End, other: End) -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: one.channel, sock=ours)
    await loop.connect_accepted_socket(lambda: other.channel, theirs)
    assert await one.channel.done and await other.channel.done


async def turns(number: int = 50) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test()

    asyncio.run(bounded())


@pytest.mark.parametrize("opener_calls", [True, False], ids=["who opened calls", "who accepted calls"])
def test_calls_to_who_does_not_read_wait_in_order_and_in_bounded_memory(opener_calls: bool) -> None:
    async def test() -> None:
        ends = End(b"a", True), End(b"b", False)
        await connected(*ends)
        caller, deaf = ends if opener_calls else ends[::-1]
        deaf.channel.rest("test")
        asked = [caller.ask(number) for number in range(400)]
        await turns()
        assert MOST < caller.waits_bytes <= MOST + len(PIECE) + 64
        assert not any(each.done for each in asked)
        back = deaf.ask(7, b"")
        await turns()
        assert caller.begun == [7], "the other direction goes on"
        deaf.channel.go_on("test")
        await asyncio.gather(back, *asked)
        assert deaf.begun == list(range(400)) and caller.waits_bytes == 0

    run(test)


def test_who_calls_and_does_not_read_the_answers_is_not_read_either() -> None:
    async def test() -> None:
        caller, server = End(b"a", True), End(b"b", False, answer=PIECE)
        await connected(caller, server)
        caller.channel.rest("test")
        asked = [caller.ask(number, b"") for number in range(4_000)]
        await turns(400)
        assert not asked[0].done and 0 < len(server.begun) < len(asked)
        assert server.waits_bytes + SYSTEM_BYTES < 4_000 * len(PIECE) / 4, "most of the answers were not made"
        stands = len(server.begun)
        await turns()
        assert len(server.begun) == stands
        caller.channel.go_on("test")
        assert await asyncio.gather(*asked) == [PIECE] * 4_000
        assert server.begun == list(range(4_000)) and not caller.refused + server.refused

    run(test)


def test_two_ends_that_are_full_of_calls_to_each_other_do_not_wait_for_each_other() -> None:
    async def test() -> None:
        one, other = End(b"a", True), End(b"b", False)
        await connected(one, other)
        for end in (one, other):
            end.channel.rest("test")
        asked = [end.ask(number) for number in range(400) for end in (one, other)]
        await turns()
        assert min(one.waits_bytes, other.waits_bytes) > MOST
        for end in (one, other):
            end.channel.go_on("test")
        await asyncio.gather(*asked)
        assert one.begun == other.begun == list(range(400))

    run(test)


def test_calls_that_wait_fail_with_the_connection() -> None:
    async def test() -> None:
        caller, deaf = End(b"a", True), End(b"b", False)
        await connected(caller, deaf)
        deaf.channel.rest("test")
        asked = [caller.ask(number) for number in range(400)]
        await turns()
        caller.channel.abort("cut")
        assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {
            ActorUnavailableError
        }
        assert len(deaf.begun) < 400

    run(test)


def test_who_does_not_read_costs_its_own_link_only() -> None:
    async def test() -> None:
        deaf, server = End(b"d", True), End(b"s", False)
        busy, same = End(b"a", True), End(b"s", False)
        await connected(deaf, server)
        await connected(busy, same)
        deaf.channel.rest("test")
        waiting = [server.ask(number) for number in range(400)]
        await turns()
        for number in range(50):
            assert await busy.ask(number) == await same.ask(number) == b""
        assert not any(each.done for each in waiting)
        deaf.channel.go_on("test")
        await asyncio.gather(*waiting)

    run(test)


def test_the_limit_of_a_process_is_that_of_its_channels() -> None:
    async def test() -> None:
        limits = Limits.for_tests()
        channels = Channels(
            ChannelConfig(b"n" * 16, b"s" * 32), name=b"h" * 16, unread_bytes_max=limits.connection_bytes_max
        )
        low, high = list[bytes](), list[int]()
        channel = channels._channel(opens=True)
        channel.connection_made(Recorder(high, low))
        assert high == [limits.connection_bytes_max] < [Limits().connection_bytes_max]
        channel.connection_lost(None)

    class Recorder(asyncio.Transport):
        def __init__(self, high: list[int], low: list[bytes]) -> None:
            super().__init__()
            self._high, self._low = high, low

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            self._high.append(high or 0)

        def write(self, data: Any) -> None:
            self._low.append(data)

    run(test)
