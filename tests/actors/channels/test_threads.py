"""Calls that threads make: written to the socket by the thread itself, in the order in which they were made."""

import asyncio
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels.channel import Channel, Waiting
from rayvous.actors.channels.connection import Connection, Self
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import Way
from rayvous.actors.channels.replies import Awaited, Reply, packed_error
from rayvous.actors.host.frames import packed

LARGE = 3_000_000
"""More than a socket takes at once."""


class Answer:
    """Waits for the answer to a call that a thread makes."""

    def __init__(self) -> None:
        self.lane = Lane()
        self.lane.enter(True)
        self.there = threading.Event()
        self.content: Any = None

    def given(self, content: bytes, failed: bool) -> None:
        self.content = content
        self.there.set()

    def failed(self, error: Exception) -> None:
        self.content = error
        self.there.set()


class Ends:
    """Two ends of a connection; the other one notes what it is asked, and answers with its size."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.one, self.other = self._end(b"a", True), self._end(b"b", False)

    def _end(self, name: bytes, opens: bool) -> Channel:
        machine: Connection[Waiting] = Connection(Self(b"n" * 16, name * 16, b"s" * 32), opens, name * 32)

        def serve(content: bytes) -> bytes:
            self.asked.append(content)
            return str(len(content)).encode()

        def ended(channel: Channel, lost: list[Waiting], parted: bool) -> None:
            for waiting in lost:
                waiting.failed(ConnectionError("lost"))

        return Channel(machine, serve, packed_error, lambda _: None, ended, lambda *_: None)

    async def connected(self) -> "Ends":
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.other, theirs)
        await loop.create_connection(lambda: self.one, sock=ours)
        assert await self.one.done and await self.other.done
        return self


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def test_a_thread_writes_its_call_without_the_event_loop() -> None:
    async def test() -> None:
        ends = await Ends().connected()
        answer = Answer()
        done = threading.Event()

        def call() -> None:
            assert ends.one.call_from_thread(b"abc", answer)
            done.set()

        thread = threading.Thread(target=call)
        thread.start()
        assert done.wait(PATIENCE_SECONDS), "the event loop does nothing meanwhile"
        thread.join()
        assert ends.other.transport is not None
        with socket.socket(fileno=os.dup(ends.other.transport.get_extra_info("socket").fileno())) as there:
            assert there.recv(1000, socket.MSG_PEEK).endswith(b"abc"), "it is there already"
        while not answer.there.is_set():
            await asyncio.sleep(0)
        assert answer.content == b"3"

    run(test)


def test_calls_of_threads_and_of_the_event_loop_keep_their_order_and_stay_whole() -> None:
    async def test() -> None:
        ends = await Ends().connected()
        answers: list[Answer] = []
        direct: list[bool] = []

        def calls() -> None:
            for number in range(40):
                answers.append(Answer())
                content = b"t%d " % number + b"x" * (LARGE if number % 10 == 3 else number)
                while not ends.one.call_from_thread(content, answers[-1]):
                    direct.append(False)
                direct.append(True)

        thread = asyncio.get_running_loop().run_in_executor(None, calls)
        waiting = []
        for number in range(40):
            waiting.append(Awaited(Lane()))
            ends.one.call(b"l%d " % number + b"y" * (LARGE if number % 10 == 5 else number), waiting[-1])
            await asyncio.sleep(0)
        await thread
        await asyncio.gather(*(each for each in waiting))
        while not all(each.there.is_set() for each in answers):
            await asyncio.sleep(0)
        for kind in (b"t", b"l"):
            order = [int(each.split()[0][1:]) for each in ends.asked if each.startswith(kind)]
            assert order == list(range(40)), kind
        assert {len(each) - len(each.split()[0]) - 1 for each in ends.asked} >= {LARGE, 0, 39}
        assert True in direct

    run(test)


def test_a_call_of_a_thread_that_is_in_flight_when_the_channel_ends_fails() -> None:
    async def test() -> None:
        ends = await Ends().connected()
        answer, late = Answer(), Answer()
        assert ends.one.call_from_thread(b"abc", answer)
        ends.one.abort("it is cut")
        while not answer.there.is_set():
            await asyncio.sleep(0)
        assert isinstance(answer.content, ConnectionError)
        assert not ends.one.call_from_thread(b"abc", late) and not late.there.is_set()

    run(test)


class FakeChannel:
    """An open channel that notes the calls."""

    def __init__(self) -> None:
        self.open = True
        self.takes = True
        self.calls: list[tuple[bytes, bool]] = []

    def call(self, content: bytes, waiting: Any, parts: bool = False) -> None:
        self.calls.append((content, False))

    def call_from_thread(self, content: bytes, waiting: Any) -> bool:
        if self.takes:
            self.calls.append((content, True))
        return self.takes


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a way whose channel is open, with its queue of calls for the event loop."""
    monkeypatch.setattr(pool_file, "unavailable", lambda *_: OSError("no channel"))
    queue: list[Any] = []
    loop = SimpleNamespace(call_soon_threadsafe=lambda *call: queue.append(call))
    actor = SimpleNamespace(_actor_id=SimpleNamespace(binary=lambda: b"h" * 16))
    found: Any = Way(SimpleNamespace(thread=None, loop=loop), actor)  # type: ignore[arg-type]
    found.channel, found._held, found.queue = FakeChannel(), None, queue
    return found


def test_a_request_of_a_thread_pays_no_hop_and_never_overtakes_one_that_does(way: Any) -> None:
    def post(content: bytes) -> Reply[Any]:
        reply = Reply[Any]()
        way.post(content, reply, lambda: pytest.fail("by Ray"))
        return reply

    first = post(b"1")
    assert way.channel.calls == [(b"1", True)] and not way.queue and way.requests.out == 1
    way.channel.takes = False
    post(b"2")
    way.channel.takes = True
    post(b"3")
    assert len(way.queue) == 2 and way.requests.out == 1, "the third waits behind the second"
    for function, *arguments in way.queue:
        function(*arguments)
    way.queue.clear()
    assert way.channel.calls[1:] == [(b"2", False), (b"3", False)]
    post(b"4")
    assert way.channel.calls[3:] == [(b"4", True)]
    first.given(packed(None), False)
    assert way.requests.out == 3


def test_a_request_of_a_thread_waits_while_it_is_not_known_what_carries_it(way: Any) -> None:
    way._held = []
    way.post(b"1", Reply[Any](), lambda: pytest.fail("by Ray"))
    way.channel, way._held = None, None
    way.post(b"2", Reply[Any](), lambda: pytest.fail("by Ray"))
    way.channel, way._passed = FakeChannel(), 0
    way.requests.out, way.requests.direct = 1, False  # a call of Ray is under way
    way.post(b"3", Reply[Any](), lambda: pytest.fail("by Ray"))
    assert len(way.queue) == 3 and not way.channel.calls
