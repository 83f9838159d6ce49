"""Requests of threads and coroutines without a network: each gets its reply, its timeout, or its broker's error."""

import asyncio
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.clients.notification import Notification
from rayvous.actors.clients.requesting import Requesting
from rayvous.protocol.errors import BrokerUnavailable, ClientError, InputError, NotARequest, RequestTimeout


class Wire:
    """Hands what is published to a replier, and its replies to the subscriber of a `Requesting`."""

    def __init__(self, answer: Any) -> None:
        self.made: list[str] = []
        self.published: list[tuple[Mapping[str, Any], float | None]] = []
        self.replies: queue.Queue[Notification | Exception | None] = queue.Queue()
        self.requesting = Requesting(self.make, self.make)  # type: ignore[arg-type]
        self._answer = answer
        self.refusal: Exception | None = None
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def make(self, name: str) -> "Wire":
        self.made.append(name.partition("-")[0])
        return self

    def subscribe(self, filter: Any) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.wanted = filter
        return 1

    def notifications(self) -> Iterator[Notification]:
        while (note := self.replies.get()) is not None:
            if isinstance(note, Exception):
                raise note
            yield note

    def publish(self, event: Mapping[str, Any], *, ttl: float | None = None) -> int:
        self.published.append((event, ttl))
        note = Notification(dict(event), "p", len(self.published), time.time(), 0.0)
        if self.wanted.matches(event):
            self.replies.put(note)
        elif self._answer is not None:
            self._answer(self.requesting, note)
        return len(self.published)

    async def publish_async(self, event: Mapping[str, Any], *, ttl: float | None = None) -> int:
        return await asyncio.to_thread(self.publish, event, ttl=ttl)


def twice(requesting: Requesting, note: Notification) -> None:
    requesting.reply(note, {"twice": 2 * note.event["n"]})  # type: ignore[operator]
    requesting.reply(note, {"twice": "the second reply"})


def test_threads_and_a_loop_get_each_its_own_reply_over_one_subscription() -> None:
    wire = Wire(twice)

    def ask(n: int) -> Any:
        return wire.requesting.request({"n": n}, timeout_seconds=PATIENCE_SECONDS).event["twice"]

    async def gathered() -> list[Any]:
        asked = (wire.requesting.request_async({"n": n}, timeout_seconds=PATIENCE_SECONDS) for n in range(20))
        return [note.event["twice"] for note in await asyncio.gather(*asked)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == [2 * n for n in range(40)]
    assert asyncio.run(gathered()) == [2 * n for n in range(20)]
    assert sorted(wire.made) == ["replies", "requests"]
    assert all(ttl == PATIENCE_SECONDS for event, ttl in wire.published if "n" in event)
    assert ask(99) == 198 and wire.requesting.dropped >= 60, "replies are read in order"
    wire.replies.put(None)


def test_a_timeout_and_the_end_of_the_subscription_are_errors_and_leave_nothing_behind() -> None:
    published = threading.Semaphore(0)
    wire = Wire(lambda requesting, note: published.release())
    with pytest.raises(RequestTimeout, match="no reply within"):
        wire.requesting.request({"n": 1}, timeout_seconds=0.01)
    with pytest.raises(RequestTimeout):
        asyncio.run(wire.requesting.request_async({"n": 1}, timeout_seconds=0.01))
    assert not wire.requesting._waiting and not len(wire.requesting._machine)
    for _ in range(2):
        assert published.acquire(timeout=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(wire.requesting.request, {"n": 2}, timeout_seconds=PATIENCE_SECONDS)
        assert published.acquire(timeout=PATIENCE_SECONDS)
        wire.replies.put(BrokerUnavailable("gone"))
        with pytest.raises(BrokerUnavailable, match="gone"):
            asked.result()
    wire._answer = twice
    assert wire.requesting.request({"n": 3}, timeout_seconds=PATIENCE_SECONDS).event["twice"] == 6, (
        "read again"
    )
    wire.replies.put(None)


def test_a_subscription_that_is_refused_leaves_no_name_behind() -> None:
    wire = Wire(twice)
    wire.refusal = BrokerUnavailable("full")
    with pytest.raises(BrokerUnavailable, match="full"):
        wire.requesting.request({"n": 1})
    assert wire.closed == 1
    wire.refusal = None
    assert wire.requesting.request({"n": 1}, timeout_seconds=PATIENCE_SECONDS).event["twice"] == 2
    wire.replies.put(None)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "5", None])
def test_what_is_wrong_is_refused_before_anything_is_published(wrong: Any) -> None:
    wire = Wire(None)
    with pytest.raises(InputError, match="timeout_seconds"):
        wire.requesting.request({"n": 1}, timeout_seconds=wrong)
    with pytest.raises(InputError, match="event"):
        wire.requesting.request(wrong)
    with pytest.raises(InputError, match="request"):
        wire.requesting.reply(wrong, {})
    with pytest.raises(NotARequest):
        wire.requesting.reply(Notification({}, "p", 1, 0.0, 0.0), {})
    assert not wire.published
    wire.replies.put(None)


def test_a_process_that_leaves_says_so() -> None:
    wire = Wire(twice)
    assert wire.requesting.request({"n": 1}).event["twice"] == 2
    wire._answer = None
    wire.replies.put(None)
    with pytest.raises(ClientError, match="closed"):
        wire.requesting.request({"n": 1}, timeout_seconds=PATIENCE_SECONDS)
