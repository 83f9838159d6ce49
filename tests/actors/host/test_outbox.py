"""The outbox of a link: one call in flight, all that waits goes as one, in order; senders wait for room."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError
from rayvous.actors.host.outbox import BEATS_ASIDE_MAX, LinkMessage, Outbox, Unreached, wait_for_room
from rayvous.protocol.batch import batch_of
from rayvous.protocol.expiry import with_ttl
from rayvous.protocol.messages.pubsub import Events, Installed
from rayvous.protocol.messages.recovery import MemberBeat

BEAT = MemberBeat(0, 0, 0)


class Wire:
    """The receiver: takes a load when its gate is open, and records how many calls were in flight at once."""

    def __init__(self) -> None:
        self.loads: list[list[Any]] = []
        self.flying = self.most = 0
        self.gate = asyncio.Semaphore(0)
        self.fails = False

    async def fly(self, load: list[LinkMessage]) -> int:
        self.flying += 1
        self.most = max(self.most, self.flying)
        await self.gate.acquire()
        self.flying -= 1
        if self.fails:
            raise ConnectionError("gone")
        self.loads.append([plain(message) for message in load])
        return 0

    def open(self) -> None:
        for _ in range(1_000):
            self.gate.release()


def plain(message: LinkMessage) -> Any:
    if isinstance(message, Events):
        return [event["x"] for event in message.batch.events()]
    if isinstance(message, MemberBeat):
        return f"epoch {message.epoch}" if message.epoch else "beat"
    assert isinstance(message, Installed)
    return message.token


def events(first: int, count: int) -> Events:
    return Events(batch_of([{"x": first + i} for i in range(count)]))


async def pause() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_batches_that_have_nothing_in_common_go_together_and_stay_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 9: joined, a thousand events with different attributes would take gigabytes in a broker."""
    monkeypatch.setattr("rayvous.actors.host.outbox.JOINED_BYTES_MAX", 9 * 5 * 4)

    async def run() -> list[Any]:
        wire = Wire()
        wire.open()
        box = Outbox("link", wire.fly, 100, 100)
        box.put(events(0, 1))
        for i in range(1, 4):
            box.put(Events(batch_of([{"x": i, f"a{i}": 1}])))  # three events, four columns
        await pause()
        for i in range(4, 10):
            box.put(Events(batch_of([{"x": i, f"a{i}": 1}])))
        await pause()
        await box.drained()
        return [load for load in wire.loads if len(load) > 0]

    assert asyncio.run(run()) == [[[0, 1, 2, 3]], [[4], [5], [6], [7], [8], [9]]]


def test_one_call_in_flight_and_what_waits_goes_as_one() -> None:
    async def run() -> None:
        wire = Wire()
        box = Outbox("link", wire.fly, 100, 100)
        assert box.idle and not box.full
        box.put(events(0, 1))
        await pause()
        for i in range(1, 6):
            box.put(events(i, 1))
        box.put(Installed(7))
        box.put(events(6, 2))
        await pause()
        assert wire.loads == [] and wire.flying == 1 and not box.idle
        wire.gate.release()
        await pause()
        assert wire.loads == [[[0]]] and wire.flying == 1
        wire.gate.release()
        await box.drained()
        assert wire.loads[1] == [[1, 2, 3, 4, 5], 7, [6, 7]]
        assert wire.most == 1 and box.idle and box.events == 0

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=40), st.integers(1, 10), st.lists(st.booleans(), max_size=40))
def test_order_and_call_size(sizes: list[int], call_max: int, pauses: list[bool]) -> None:
    async def run() -> None:
        wire = Wire()
        wire.open()
        box = Outbox("link", wire.fly, call_max, 1_000)
        sent: list[Any] = []
        for place, size in enumerate(sizes):  # size 0 is a message that carries no events
            box.put(events(100 * place, size) if size else Installed(place))
            sent += [100 * place + i for i in range(size)] if size else [("token", place)]
            if place < len(pauses) and pauses[place]:
                await asyncio.sleep(0)
        await box.drained()
        got: list[Any] = []
        for load in wire.loads:
            carried = 0
            for part in load:
                got += part if isinstance(part, list) else [("token", part)]
                carried += len(part) if isinstance(part, list) else 0
            assert carried <= max(call_max, *sizes), "more than one call carries"
        assert got == sent and wire.most <= 1 and box.events == 0

    asyncio.run(run())


def test_whoever_fills_it_waits_until_a_load_was_taken() -> None:
    async def run() -> None:
        wire = Wire()
        box, other = Outbox("full", wire.fly, 4, 8), Outbox("empty", wire.fly, 4, 8)
        for i in range(3):
            box.put(events(i * 4, 4))
        assert box.full and box.events == 12
        waiting = asyncio.create_task(wait_for_room([other, box]))
        await pause()
        assert not waiting.done()
        wire.gate.release()
        await pause()
        assert waiting.done() and not box.full and box.events == 8
        wire.open()
        await box.drained()
        assert box.events == 0

    asyncio.run(run())


def test_what_is_lost_is_counted_and_the_link_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        wire = Wire()
        wire.open()
        wire.fails = True
        box = Outbox("broker 3 to broker 7", wire.fly, 100, 2)
        box.put(events(0, 5))
        box.put(Installed(1))
        await wait_for_room([box])
        await box.drained()
        assert box.lost_events == 5 and box.events == 0
        wire.fails = False
        box.put(events(5, 1))
        await box.drained()
        assert wire.loads == [[[5]]] and box.lost_events == 5

    asyncio.run(run())
    assert "broker 3 to broker 7: 2 messages lost: gone" in caplog.text


def test_no_heartbeat_overtakes_one_that_waits() -> None:
    """Of two states that a broker tells in one step, the receiver would take the older one for the newer one."""

    async def run() -> None:
        wire = Wire()
        wire.open()
        box = Outbox("link", wire.fly, 100, 100)
        box.put(MemberBeat(0, 1, 0))
        box.put(MemberBeat(0, 2, 0))
        await pause()
        assert wire.loads == [["epoch 1", "epoch 2"]]
        wire.gate = asyncio.Semaphore(0)
        box.put(Installed(1))
        await pause()
        box.put(MemberBeat(0, 3, 0))  # behind the call in flight
        box.put(events(0, 2))
        wire.gate.release()
        while wire.flying:
            await asyncio.sleep(0)
        box.put(MemberBeat(0, 4, 0))  # the next call is about to leave
        box.put(events(2, 1))
        wire.open()
        await box.drained()
        await pause()
        assert wire.loads[1:] == [[1], ["epoch 3", "epoch 4", [0, 1, 2]]]
        assert box.clear and box.events == 0

    asyncio.run(run())


def test_a_heartbeat_overtakes_events_and_nothing_else() -> None:
    async def run() -> None:
        wire = Wire()
        box = Outbox("link", wire.fly, 100, 100)
        box.put(events(0, 1))
        await pause()
        box.put(events(1, 2))
        box.put(BEAT)
        await pause()
        assert wire.flying == 2, "beside the call in flight"
        box.put(Installed(7))
        box.put(BEAT)
        await pause()
        assert wire.flying == 2, "it may not overtake what is no event"
        wire.open()
        await box.drained()
        assert sorted(map(str, wire.loads[:2])) == ["['beat']", "[[0]]"]
        assert wire.loads[2] == [[1, 2], 7, "beat"]
        wire.gate = asyncio.Semaphore(0)
        box.put(BEAT)
        await pause()
        assert wire.flying == 1 and box.idle, "a heartbeat keeps nothing from being at rest"
        for _ in range(100):
            box.put(BEAT)
        await pause()
        assert wire.flying <= 1 + BEATS_ASIDE_MAX
        wire.open()
        await pause()

    asyncio.run(run())


def test_what_waits_is_let_go_when_the_other_side_has_begun_anew() -> None:
    async def run() -> None:
        wire = Wire()
        box = Outbox("a to b", wire.fly, 10, 100)
        box.put(Installed(1))
        await pause()
        for message in (events(0, 3), Installed(2), BEAT):
            box.put(message)
        box.begin_anew()
        assert box.lost_events == 3 and box.events == 1 and not box.idle
        box.put(Installed(3))
        wire.open()
        await box.drained()
        assert wire.loads == [[1], [3]] and box.idle and box.events == 0

    asyncio.run(run())


def test_what_was_lost_to_one_that_has_begun_anew_is_told_as_missed() -> None:
    """The lost messages may have been for the new incarnation, whether they waited or were in flight."""

    async def run() -> None:
        now, missed, gate = [0.0], list[tuple[float, bool]](), asyncio.Event()
        wire = Wire()

        async def fly(load: list[Any]) -> int:
            if gate.is_set():
                return await wire.fly(load)
            await gate.wait()
            raise ActorDiedError

        box = Outbox("link", fly, 100, 100, lambda *told: missed.append(told), clock=lambda: now[0])
        box.put(BEAT)
        await pause()
        gate.set()
        await pause()
        box.begin_anew()
        assert missed == [], "a heartbeat is nothing that has to come again"
        gate.clear()
        box.put(Installed(1))
        await pause()
        gate.set()
        await pause()
        assert missed == [], "it is dead, as all will know"
        now[0] = 2.0
        box.begin_anew()
        assert missed == [(2.0, True)]
        box.put(Installed(2))
        await pause()
        assert wire.loads == [] and box.idle
        box.renew()
        box.put(Installed(3))  # in flight
        await pause()
        box.put(Installed(4))
        now[0] = 5.0
        box.begin_anew()
        wire.open()
        await box.drained()
        assert wire.loads == [[3]] and missed == [(2.0, True), (3.0, True)]
        box.renew()
        box.begin_anew()
        assert missed == [(2.0, True), (3.0, True)]

    asyncio.run(run())


def test_a_link_goes_on_though_who_is_told_of_what_was_missed_has_failed() -> None:
    async def run() -> None:
        wire, said = Wire(), list[str]()
        wire.open()

        async def fly(load: list[Any]) -> int:
            if not said:
                raise Unreached(0.5, "no answer")
            return await wire.fly(load)

        def missed(seconds: float, anew: bool) -> None:
            said.append("missed")
            raise RuntimeError("a broker has failed")

        box = Outbox("link", fly, 100, 100, missed)
        box.put(events(0, 3))
        await pause()
        assert said == ["missed"] and box.clear and box.idle and box.events == 0 and box.lost_events == 3
        box.renew()
        box.put(events(3, 1))
        await pause()
        assert wire.loads == [[[3]]] and box.clear

    asyncio.run(run())


def test_after_a_call_that_a_living_broker_has_missed_nothing_leaves_before_it_is_renewed() -> None:
    async def run() -> None:
        wire = Wire()
        missed: list[tuple[float, bool]] = []

        async def fly(load: list[Any]) -> int:
            if wire.fails:
                raise Unreached(0.5, "no answer")
            return await wire.fly(load)

        box = Outbox("link", fly, 100, 100, lambda *told: missed.append(told))
        wire.open()
        wire.fails = True
        box.put(events(0, 2))
        await pause()
        assert missed == [(0.5, False)] and box.lost_events == 2 and box.idle
        wire.fails = False
        box.put(events(2, 3))
        box.put(BEAT)
        box.put(Installed(1))
        await pause()
        assert wire.loads == [] and box.lost_events == 5 and box.idle and box.events == 0
        box.renew()
        box.put(events(5, 1))
        await box.drained()
        assert wire.loads == [[[5]]] and missed == [(0.5, False)]

    asyncio.run(run())


def test_what_waits_behind_a_call_that_fails_is_lost_with_it_and_a_lost_heartbeat_is_nothing() -> None:
    async def run() -> None:
        missed: list[tuple[float, bool]] = []
        gate = asyncio.Event()

        async def fly(load: list[Any]) -> int:
            await gate.wait()
            raise Unreached(0.1, "no answer")

        box = Outbox("link", fly, 100, 100, lambda *told: missed.append(told))
        gate.set()
        box.put(BEAT)
        await pause()
        assert missed == []
        gate.clear()
        box.put(events(0, 1))
        await pause()
        box.put(events(1, 4))
        box.put(Installed(1))
        gate.set()
        await pause()
        assert missed == [(0.1, False)] and box.lost_events == 5 and box.idle and box.events == 0

    asyncio.run(run())


def test_events_that_wait_for_the_link_past_the_deadline_are_dropped_and_counted() -> None:
    """Paper 3, 5.1: events not processed after 5 s. Messages without events wait as long as necessary."""

    async def run() -> None:
        wire, now = Wire(), [0.0]
        box = Outbox("link", wire.fly, 100, 100, deadline_seconds=5.0, clock=lambda: now[0])
        box.put(events(0, 1))
        await pause()
        for second, message in ((1.0, events(1, 3)), (1.0, Installed(7)), (2.0, events(4, 2))):
            now[0] = second
            box.put(message)
        now[0] = 6.5
        wire.open()
        await box.drained()
        assert wire.loads == [[[0]], [7, [4, 5]]]
        assert box.expired_events == 3 and box.events == 0 and box.idle

    asyncio.run(run())


def test_a_load_of_nothing_is_not_sent() -> None:
    async def run() -> None:
        wire, now = Wire(), [0.0]
        box = Outbox("link", wire.fly, 100, 100, deadline_seconds=5.0, clock=lambda: now[0])
        box.put(events(0, 1))
        await pause()
        box.put(events(1, 3))
        now[0] = 9.0
        wire.open()
        await box.drained()
        assert wire.loads == [[[0]]] and box.expired_events == 3

    asyncio.run(run())


def test_events_whose_time_to_live_passes_in_the_outbox_do_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        wire = Wire()
        box = Outbox("link", wire.fly, 100, 100)
        box.put(events(0, 1))
        await pause()
        now = time.time()
        short, long = (with_ttl(events(first, 2).batch, ttl) for first, ttl in ((1, 5.0), (3, 500.0)))
        for batch in (short, long):
            box.put(Events(replace(batch, published_at=np.full(2, now))))
        box.put(Installed(7))
        box.put(Events(replace(short, published_at=np.full(2, now)), entry=1, number=3))
        monkeypatch.setattr("rayvous.actors.host.outbox.time.time", lambda: now + 10.0)
        wire.open()
        await box.drained()
        assert wire.loads == [[[0]], [[3, 4], 7, [1, 2]]], "a message of which its receiver keeps count stays"
        assert box.past_ttl == 2 and box.events == 0 and box.idle and box.expired_events == 0

    asyncio.run(run())
