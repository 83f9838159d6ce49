"""Channels over transports in memory: what they carry, and what becomes of calls when they end."""

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayTaskError
from rayvous.actors.channels import channel as channel_file
from rayvous.actors.channels.channel import SERVING_MAX, Channel, Refusals, Waiting
from rayvous.actors.channels.connection import Connection, Kind, Self, frame
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import unavailable
from rayvous.actors.channels.replies import Awaited, Reply, packed_error
from rayvous.actors.later import Stream
from rayvous.actors.logs import Log
from rayvous.protocol.errors import InputError

NETWORK, SECRET = b"n" * 16, b"s" * 32


class Wire(asyncio.BaseTransport):
    """A transport whose bytes arrive at the other end in a later turn; no `asyncio.Transport`, as uvloop's are none."""

    def __init__(self) -> None:
        super().__init__()
        self.other: Wire | None = None
        self.protocol: Channel | None = None
        self.reading, self.closed = True, False

    def write(self, data: Any) -> None:
        assert self.other is not None
        asyncio.get_running_loop().call_soon(self.other.arrive, bytes(data))

    def arrive(self, data: bytes) -> None:
        if self.protocol is not None and not self.closed:
            self.protocol.data_received(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.abort)

    def abort(self) -> None:
        for each in (self, self.other):
            if each is not None and not each.closed:
                each.closed = True
                if each.protocol is not None:
                    each.protocol.connection_lost(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Ends:
    """Two channels that are connected, and what happened to them."""

    def __init__(self, serve: Callable[[bytes], Awaitable[bytes]] | None) -> None:
        self.refused: list[str] = []
        self.lost: list[tuple[int, bool]] = []
        self.one, self.other = self._channel(b"a", True, None), self._channel(b"b", False, serve)
        wires = Wire(), Wire()
        wires[0].other, wires[1].other = wires[1], wires[0]
        self.wires = wires
        for wire, channel in zip(wires, (self.one, self.other), strict=True):
            wire.protocol = channel
            channel.connection_made(wire)

    def _channel(self, name: bytes, opens: bool, serve: Any) -> Channel:
        machine: Connection[Waiting] = Connection(Self(NETWORK, name * 16, SECRET), opens, name * 32)
        return Channel(machine, serve, packed_error, lambda channel: None, self._ended, self._refused)

    def _ended(self, channel: Channel, lost: list[Waiting], parted: bool) -> None:
        self.lost.append((len(lost), parted))
        for waiting in lost:
            waiting.lane.leave()
            waiting.failed(unavailable(channel.why, channel.peer or b"?" * 16))

    def _refused(self, channel: Channel, why: str) -> None:
        self.refused.append(why)

    async def opened(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self.one.done and await self.other.done

    def ask(self, content: bytes) -> Awaited:
        lane = Lane()
        lane.enter(True)
        waiting = Awaited(lane)
        self.one.call(content, waiting)
        return waiting


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test()

    asyncio.run(bounded())


def test_calls_begin_in_order_and_are_answered_when_they_are_ready() -> None:
    begun: list[bytes] = []
    first = asyncio.Event()

    async def serve(content: bytes) -> bytes:
        begun.append(content)
        if content == b"0":
            await first.wait()
        return content + b"!"

    async def test() -> None:
        ends = Ends(serve)
        await ends.opened()
        asked = [ends.ask(b"%d" % n) for n in range(4)]
        assert [await each for each in asked[1:]] == [b"1!", b"2!", b"3!"]
        assert begun == [b"0", b"1", b"2", b"3"] and not asked[0].done and asked[0].lane.out == 1
        first.set()
        assert await asked[0] == b"0!" and not any(each.lane.out for each in asked)

    run(test)


def test_the_error_of_a_host_is_the_error_that_a_call_of_ray_raises() -> None:
    async def serve(content: bytes) -> bytes:
        raise InputError("no such thing")

    async def test() -> None:
        ends = Ends(serve)
        await ends.opened()
        with pytest.raises(InputError, match="no such thing") as raised:
            await ends.ask(b"x")
        assert isinstance(raised.value, RayTaskError) and isinstance(raised.value.cause, InputError)

    run(test)


class Picky(Exception):
    """It is pickled, but not made again from what was pickled."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


def test_an_error_that_cannot_be_made_again_fails_its_call_alone_and_says_what_it_was() -> None:
    async def serve(content: bytes) -> bytes:
        if content == b"x":
            raise Picky("this", "that")
        return content

    async def test() -> None:
        ends = Ends(serve)
        await ends.opened()
        asked = ends.ask(b"x"), ends.ask(b"y")
        with pytest.raises(RuntimeError, match="Picky: this: that"):
            await asked[0]
        assert await asked[1] == b"y"

    run(test)


def test_a_connection_that_ends_fails_what_was_in_flight_and_says_whether_it_was_told() -> None:
    async def serve(content: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def test() -> None:
        for part, parted in (
            (lambda ends: ends.wires[1].abort(), False),
            (lambda ends: ends.other.part(), True),
        ):
            ends = Ends(serve)
            await ends.opened()
            asked = ends.ask(b"x")
            await asyncio.sleep(0)
            part(ends)
            with pytest.raises(ActorUnavailableError, match="may or may not have been executed"):
                await asked
            assert (1, parted) in ends.lost and not asked.lane.out and not ends.one.open

    run(test)


def test_a_call_that_nobody_waits_for_any_more_is_in_its_lane_until_it_is_answered() -> None:
    gate = asyncio.Event()

    async def serve(content: bytes) -> bytes:
        await gate.wait()
        return b"late"

    async def test() -> None:
        ends = Ends(serve)
        await ends.opened()
        asked = ends.ask(b"x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asked
        assert asked.lane.out == 1
        gate.set()
        assert await ends.ask(b"y") == b"late"
        assert asked.lane.out == 0 and ends.one.open and not ends.refused

    run(test)


def test_a_part_that_cannot_be_taken_fails_its_call_alone() -> None:
    """What came with it in one read is taken: else those calls would never be answered, nor leave their lanes."""
    taken: list[bytes] = []

    def take(content: bytes) -> None:
        taken.append(content)
        if content == b"bad":
            raise ValueError("not to be taken")

    async def test() -> None:
        ends = Ends(lambda content: Stream())
        await ends.opened()
        streamed, asked, posted = Awaited(Lane(), take), Awaited(Lane()), Reply[str]()
        posted.lane = Lane()
        for waiting in (streamed, asked, posted):
            waiting.lane.enter(True)
            ends.one.call(b"?", waiting, parts=waiting is streamed)
        answers = frame(Kind.ANSWER, 2, b"there") + frame(Kind.ANSWER, 3, pickle.dumps("there too"))
        parts = b"".join(frame(Kind.PART, 1, content) for content in (b"good", b"bad", b"after it"))
        ends.one.data_received(parts + answers)
        with pytest.raises(ValueError, match="not to be taken"):
            await streamed
        assert await asked == b"there" and posted.result(0) == "there too" and taken == [b"good", b"bad"]
        assert ends.one.open and (streamed.lane.out, asked.lane.out, posted.lane.out) == (1, 0, 0)
        ends.one.data_received(frame(Kind.ANSWER, 1, b"last"))
        assert streamed.lane.out == 0, "it is under way until its answer comes"

    run(test)


def test_who_takes_no_calls_refuses_them() -> None:
    async def test() -> None:
        ends = Ends(None)
        await ends.opened()
        with pytest.raises(ActorUnavailableError):
            await ends.ask(b"x")
        assert ends.refused == ["it calls a process that takes no calls"]

    run(test)


def test_a_connection_that_does_not_greet_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_file, "GREETING_SECONDS", 0.01)

    async def test() -> None:
        machine: Connection[Waiting] = Connection(Self(NETWORK, b"a" * 16, SECRET), False, b"a" * 32)
        refused: list[str] = []
        channel = Channel(
            machine, None, packed_error, lambda one: None, lambda *_: None, lambda _, why: refused.append(why)
        )
        wire, silent = Wire(), Wire()
        wire.other, wire.protocol, silent.other = silent, channel, wire
        channel.connection_made(wire)
        assert not await channel.done
        assert refused == ["it does not greet in time"]

    run(test)


def test_nothing_is_read_while_too_many_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_file, "SERVING_MAX", 4)
    assert SERVING_MAX > 4
    gate = asyncio.Event()

    async def serve(content: bytes) -> bytes:
        await gate.wait()
        return b""

    async def test() -> None:
        ends = Ends(serve)
        await ends.opened()
        asked = [ends.ask(b"x") for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not ends.wires[1].reading
        gate.set()
        await asyncio.gather(*(each for each in asked))
        assert ends.wires[1].reading

    run(test)


def test_a_thread_waits_for_its_reply_and_may_give_up() -> None:
    reply: Reply[int] = Reply()
    reply.lane = Lane()
    reply.lane.enter(True)
    with pytest.raises(GetTimeoutError):
        reply.result(0)
    reply.given(pickle.dumps(7), False)
    assert reply.result(0) == 7 and reply.lane.out == 0

    async def awaited() -> int:
        return await reply

    assert asyncio.run(awaited()) == 7
    failed: Reply[int] = Reply()
    failed.failed(TimeoutError("of the host"))
    with pytest.raises(TimeoutError, match="of the host"):
        failed.result(0)


def test_many_bad_peers_are_a_few_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    refusals = Refusals(Log("rayvous.test"), lambda: now[0])
    with caplog.at_level(logging.WARNING, "rayvous.test"):
        for _ in range(10_000):
            refusals.add("10.0.0.9", "it does not speak this protocol")
        now[0] = 11.0
        refusals.add("10.0.0.9", "garbage")
    assert [record.getMessage() for record in caplog.records] == [
        "a channel from 10.0.0.9 is refused: it does not speak this protocol",
        "a channel from 10.0.0.9 is refused: garbage (9999 more since the last such line)",
    ]
