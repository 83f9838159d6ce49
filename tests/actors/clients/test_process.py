"""The polls of a client process."""

import asyncio
import threading
from concurrent.futures import Future
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from packed_calls import PackedCalls
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.replies import Awaited
from rayvous.actors.clients.inbox import Inbox
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.host.frames import unpacked
from rayvous.actors.host.sessions import DeliveryBatch, GivenUp, Taken
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import BrokerUnavailable


class Host(PackedCalls):
    """The actor of a broker with nothing to deliver; it counts the comparisons of its handle."""

    def __init__(self, polls: int) -> None:
        self.compared, self.polls, self.left = 0, polls, polls
        self.done = threading.Event()
        self.poll = SimpleNamespace(remote=self._poll)
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    def __eq__(self, other: object) -> bool:
        self.compared += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)

    async def _poll(self, *_: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            self.done.set()
            await asyncio.Event().wait()
        return []


def test_a_poll_compares_no_more_handles_when_there_are_more_subscribers() -> None:
    """A gateway has thousands of subscribers, and comparing two handles takes a third of a microsecond."""
    for patience in (None, 60.0):
        process, host = ClientProcess("test", patience), Host(polls=20)
        try:
            for number in range(50):
                process.watch(host, f"subscriber {number}", Inbox(host, 10, None), 0)
            assert host.done.wait(20)
            assert host.compared < host.polls
        finally:
            process.close()


class Taking(Host):
    """The actor of a broker where the names of this process are in use by another one."""

    def __init__(self) -> None:
        super().__init__(polls=1)
        self.alive = SimpleNamespace(remote=self._alive)

    async def _poll(self, *_: Any) -> list[Any]:
        self.left -= 1
        return [Taken("subscriber", "s", "t1")] if self.left == 0 else await super()._poll()

    async def _alive(self, session: str) -> list[Taken]:
        return [Taken("publisher", "p", "t2"), Taken("publisher", "q", "an earlier one")]


def test_a_client_is_lost_when_a_poll_or_a_sign_of_life_says_that_its_name_is_taken() -> None:
    process, host = ClientProcess("test", None), Taking()
    lost: dict[str, Event] = {name: Event() for name in ("s", "p", "q")}

    def client(kind: str, name: str, ticket: str) -> Any:
        made = SimpleNamespace(kind=kind, name=name, ticket=ticket, host=host)
        made.lose = lambda error: (lost[name].set(), process.lose(made))
        return made

    try:
        process.hold(client("subscriber", "s", "t1"))
        for name in ("p", "q"):
            process.hold(client("publisher", name, "t2"))
        inbox = Inbox(host, 10, None)
        process.watch(host, "s", inbox, 0)
        assert lost["s"].wait(20) and lost["p"].wait(20) and not lost["q"].is_set()
    finally:
        process.close()


class Hasty(PackedCalls):
    """The actor of a broker that has given up this process."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.poll = SimpleNamespace(remote=self._poll)
        self.end_session = SimpleNamespace(remote=lambda *_: self.ended.set())

    async def _poll(self, *_: Any) -> list[Any]:
        return [GivenUp()]


def test_a_process_that_was_given_up_moves_its_clients_or_tells_their_readers() -> None:
    """Its subscribers are attached to no broker any more: without notice they would wait forever."""
    process, host = ClientProcess("test", None), Hasty()
    try:
        inbox = Inbox(host, 10, None)
        process.watch(host, "s", inbox, 0)
        with pytest.raises(BrokerUnavailable, match="silent for too long: subscribe again"):
            inbox.wait(20)
        assert host.ended.wait(20), "else whoever subscribes again would be told the same"
        host.ended.clear()
    finally:
        process.close()

    process, moved = ClientProcess("test", 60.0), Future[tuple[object, bool]]()

    async def move(left: object, dead: bool) -> None:
        moved.set_result((left, dead))

    try:
        process.follow(SimpleNamespace(host=host, broker=0, name="s", kind="subscriber", move=move))
        assert moved.result(20) == (host, False), "it is alive, and has retained what was missed"
        assert host.ended.wait(20), "so that it may come back there"
    finally:
        process.close()


class Waiting(PackedCalls):
    """The actor of a broker that has nothing."""

    def __init__(self) -> None:
        self.poll = SimpleNamespace(remote=self._poll)
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    async def _poll(self, *_: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []


def test_nothing_is_begun_on_the_loop_of_a_process_that_closes() -> None:
    """Python told of a poll that was destroyed with its event loop: a move that was cancelled had begun it."""

    async def story() -> set[asyncio.Task[Any]]:
        process, moves = ClientProcess("test", 60.0, here=True), asyncio.Event()
        gone, there = Hasty(), Waiting()

        async def move(left: object, dead: bool) -> None:
            mover.host = there
            moves.set()
            try:
                await asyncio.Event().wait()
            finally:
                process.poll(there)
                process.begin(asyncio.Event().wait())  # type: ignore[arg-type]

        mover = SimpleNamespace(host=gone, broker=0, name="s", kind="subscriber", move=move)
        process.follow(mover)
        await asyncio.wait_for(moves.wait(), 60)
        await asyncio.to_thread(process.close)
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(story()) == set()


class Broken(PackedCalls):
    """The actor, and the handle, of a broker whose deliveries cannot be taken, as an answer or as a part of one."""

    def __init__(self, in_parts: bool) -> None:
        self.in_parts, self.ended = in_parts, threading.Event()

    async def poll(self, *asked: Any) -> list[Any]:
        starts, rows = np.arange(2), np.zeros(1, np.intp)
        broken = DeliveryBatch(1, batch_of([{"x": 1}]), ("of nobody", "s"), starts, rows)
        if not self.in_parts:
            return [broken]
        waiting = Awaited(Lane(), lambda part: asked[-1](unpacked([part])))
        waiting.continued(b"no pickle")
        return [await waiting]

    def end_session(self, *_: Any) -> None:
        self.ended.set()


@pytest.mark.parametrize("in_parts", [False, True], ids=["answer", "part"])
def test_what_cannot_be_taken_ends_the_polls_of_a_host_and_its_readers_are_told(
    in_parts: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nobody would poll that host any more, and its readers would wait for ever."""
    process, host = ClientProcess("test", None), Broken(in_parts)
    monkeypatch.setattr(process, "handle", lambda _: host)
    try:
        inbox = Inbox(host, 10, None)
        process.watch(host, "s", inbox, 0)
        with pytest.raises(BrokerUnavailable, match=r"gone \((ValueError|UnpicklingError)\)"):
            inbox.wait(5)
        assert host.ended.wait(5) and "what a host has sent could not be taken" in caplog.text
    finally:
        process.close()
