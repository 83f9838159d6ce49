"""What waits for a client process: kept until acknowledged, sent again, bounded, and shed with counts."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_SECONDS
from rayvous.actors.host.absent import loss_batch
from rayvous.actors.host.departures import Departures
from rayvous.actors.host.sessions import DeliveryBatch, ProcessSession, Tally, split
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Deliver
from rayvous.protocol.messages.pubsub import Lost


def deliver(rows_of: dict[str, list[int]], size: int = 10) -> Deliver:
    batch = batch_of([{"x": i} for i in range(size)], publisher="p")
    starts = np.cumsum([0, *map(len, rows_of.values())])
    rows = np.array([row for rows in rows_of.values() for row in rows], np.intp)
    return Deliver(batch, tuple(rows_of), starts, rows)


def content(delivery: DeliveryBatch) -> dict[str, list[int]]:
    return {
        client: [
            delivery.batch.events()[row]["x"]
            for row in delivery.rows[delivery.starts[i] : delivery.starts[i + 1]]
        ]
        for i, client in enumerate(delivery.clients)
    }  # type: ignore[misc]


def queue(events_max: int) -> ProcessSession:
    return ProcessSession("process", events_max, 60.0)


def put(session: ProcessSession, size: int, tally: Tally) -> None:
    ((_, delivery),) = split(deliver({"c": list(range(size))}), [session])
    session.put(delivery, tally)


rows_lists = st.sets(st.integers(0, 9), min_size=1).map(sorted)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), rows_lists, min_size=1), st.integers(1, 3), st.integers(0, 99)
)
def test_a_delivery_is_split_by_process_and_cut_to_what_is_used(
    rows_of: dict[str, list[int]], processes: int, seed: int
) -> None:
    sessions = [queue(100) for _ in range(processes)]
    owners = [sessions[(seed * (place + 7)) % processes] for place in range(len(rows_of))]
    deliveries = split(deliver(rows_of), owners)
    assert len(deliveries) == len(set(owners)) == len({id(session) for session, _ in deliveries})
    for session, delivery in deliveries:
        mine = {c: rows for (c, rows), owner in zip(rows_of.items(), owners, strict=True) if owner is session}
        assert content(delivery) == mine
        assert len(delivery.batch) == len({row for rows in mine.values() for row in rows})
        assert delivery.number == 1


def test_what_is_not_acknowledged_is_sent_again() -> None:
    async def run() -> None:
        session, tally = queue(100), Tally()
        for size in (1, 2, 3):
            put(session, size, tally)
        assert [delivery.number for delivery in await session.poll(0, 1.0, 100)] == [1, 2, 3]
        assert [delivery.number for delivery in await session.poll(0, 1.0, 100)] == [1, 2, 3]
        assert [(delivery.number, delivery.last) for delivery in await session.poll(2, 1.0, 100)] == [
            (3, True)
        ]
        assert session.waiting == 3
        assert await session.poll(3, 0.0, 100) == [] and session.waiting == 0

    asyncio.run(run())


def test_one_answer_is_bounded_but_one_delivery_batch_always_goes() -> None:
    async def run() -> None:
        session, tally = queue(100), Tally()
        for size in (6, 2, 2, 6):
            put(session, size, tally)
        assert [delivery.number for delivery in await session.poll(0, 1.0, 5)] == [1]
        answer = await session.poll(1, 1.0, 5)
        assert [(delivery.number, delivery.last) for delivery in answer] == [(2, False), (3, False)], (
            "another waits"
        )
        assert [(delivery.number, delivery.last) for delivery in await session.poll(3, 1.0, 5)] == [(4, True)]

    asyncio.run(run())


def test_a_poll_waits_for_the_next_delivery_batch() -> None:
    async def run() -> None:
        session = queue(100)
        poll = asyncio.ensure_future(session.poll(0, 60.0, 10))
        await asyncio.sleep(0)
        assert not poll.done()
        put(session, 1, Tally())
        (delivery,) = await poll
        assert content(delivery) == {"c": [0]}

    asyncio.run(run())


def test_one_timer_outlasts_many_polls_and_each_ends_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        session, loop, armed = queue(100), asyncio.get_running_loop(), []
        call_at = loop.call_at

        def counted(when: float, *rest: Any) -> asyncio.TimerHandle:
            armed.append(when)
            return call_at(when, *rest)

        monkeypatch.setattr(loop, "call_at", counted)
        for number in range(3):
            poll = asyncio.ensure_future(session.poll(number, 60.0, 10))
            await asyncio.sleep(0)
            put(session, 1, Tally())
            assert len(await poll) == 1
        assert len(armed) == 1, "the polls that were answered have armed no other"
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)  # a busy machine would let both times pass at once
        later, sooner = session.poll(3, 0.02, 10), session.poll(3, 0.01, 10)
        assert armed[1:] == sorted(armed[1:], reverse=True) and len(armed) == 3
        now += 0.01
        assert await sooner == [] and not later.done
        now += 0.01
        assert await later == []
        await session.poll(3, 0.0, 10)  # the timer for a poll that ends at once is a new one
        assert len(session) == 0

    asyncio.run(run())


def test_room_comes_with_the_acknowledgement() -> None:
    async def run() -> None:
        session, tally = queue(5), Tally()
        put(session, 6, tally)
        assert session.full
        waiting = [asyncio.create_task(session.room(60.0)) for _ in range(2)]
        await session.poll(0, 1.0, 10)
        assert not any(task.done() for task in waiting)
        poll = asyncio.ensure_future(session.poll(1, 0.01, 10))
        await asyncio.gather(*waiting)
        assert not session.full and tally.shed == 0
        assert await poll == []

    asyncio.run(run())


def test_when_nobody_fetches_the_oldest_are_shed_and_counted_where_they_came_from() -> None:
    async def run() -> None:
        session, one, other = queue(5), Tally(), Tally()
        for size, tally in ((2, one), (3, other), (2, one), (2, other)):
            put(session, size, tally)
        await session.room(0.0)
        assert (one.shed, other.shed, session.waiting) == (2, 3, 4) and not session.full
        assert [delivery.number for delivery in await session.poll(0, 1.0, 10)] == [3, 4]

    asyncio.run(run())


def test_what_was_handed_out_is_not_shed() -> None:
    async def run() -> None:
        session, tally = queue(5), Tally()
        put(session, 4, tally)
        assert [delivery.number for delivery in await session.poll(0, 1.0, 10)] == [1]
        put(session, 3, tally)
        put(session, 1, tally)
        await session.room(0.0)
        assert tally.shed == 3
        assert [delivery.number for delivery in await session.poll(0, 1.0, 10)] == [1, 3], (
            "the answer was lost"
        )
        assert [delivery.number for delivery in await session.poll(1, 1.0, 10)] == [3]
        put(session, 9, tally)
        put(session, 10, tally)
        await session.room(0.0)
        assert tally.shed == 12 and session.waiting == 11, "the newest stays"

    asyncio.run(run())


def test_a_queue_that_is_full_of_what_was_handed_out_keeps_the_newest() -> None:
    """A process that reads late finds the latest state, not a gap that lasts until it has read."""

    async def run() -> None:
        session, tally = queue(5), Tally()
        put(session, 6, tally)
        assert [delivery.number for delivery in await session.poll(0, 1.0, 10)] == [1]
        for _ in range(3):
            put(session, 2, tally)
            await session.room(0.0)
        assert (tally.shed, session.waiting) == (4, 8)
        assert [delivery.number for delivery in await session.poll(1, 1.0, 10)] == [4]

    asyncio.run(run())


def test_what_says_something_else_is_not_shed_with_the_events() -> None:
    async def run() -> None:
        session, tally = queue(5), Tally()
        session.propose("c", 7, tally)
        session.put(loss_batch(session, "c", (Lost("p", 1, 2),)), tally)
        for _ in range(2):
            put(session, 9, tally)
            session.propose("c", 8, tally)
        await session.room(0.0)
        for acknowledged, numbers in ((0, [1, 2, 4]), (4, [5]), (5, [6])):
            assert [each.number for each in await session.poll(acknowledged, 1.0, 100)] == numbers
        assert tally.shed == 9

    asyncio.run(run())


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9)),
    st.tuples(st.just("poll"), st.integers(0, 3)),
    st.tuples(st.just("ahead"), st.integers(0, 9)),
    st.tuples(st.just("room"), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=30), st.integers(1, 12))
def test_a_queue_is_bounded_and_sheds_the_oldest_that_nobody_has(
    steps: list[tuple[str, int]], most: int
) -> None:
    """Whatever a process does with its polls; a poll of `poll` acknowledges all that was handed out but so many."""

    async def run() -> None:
        session, tally, sizes = queue(most), Tally(), dict[int, int]()
        given, acknowledged, largest = set[int](), 0, 0
        for do, number in steps:
            if do == "put":
                put(session, number, tally)
                sizes[len(sizes) + 1] = number
                largest = max(largest, number)
            elif do == "room":
                before = [delivery.number for delivery in session._deliveries]
                await session.room(0.0)
                left = [delivery.number for delivery in session._deliveries]
                gone = [each for each in before if each not in left]
                free = [each for each in before if each not in given and sizes[each]]
                assert gone == free[: len(gone)], "the oldest"
                assert not free or free[-1] in left, "never the newest"
                assert session.waiting <= max(
                    most, sum(sizes[each] for each in left if each in given) + largest
                )
                assert sum(sizes[each] for each in left) == session.waiting
            else:
                if do == "poll":
                    acknowledged = max([acknowledged, *given]) - number
                poll = session.poll(acknowledged, 60.0, 100, number if do == "ahead" else 0)
                poll.each(lambda part: given.update(each.number for each in part))
                poll.then(lambda poll: given.update(each.number for each in poll.value))
                acknowledged = max(acknowledged, 0)
            await asyncio.sleep(0)
            handed = [delivery.number for delivery in session._deliveries if delivery.number in given]
            assert sum(sizes[each] for each in handed) <= max(most, largest) + most // 4 + largest
        assert tally.shed + session.waiting <= sum(sizes.values())
        session.end()

    asyncio.run(run())


@pytest.mark.parametrize("how", ["shed", "end", "acknowledge"])
def test_whoever_waits_for_it_to_empty_is_woken_however_that_comes(how: str) -> None:
    async def run() -> None:
        session = queue(5)
        put(session, 9, Tally())
        drained = asyncio.create_task(session.moved(60.0))
        await asyncio.sleep(0)
        if how == "shed":
            put(session, 1, Tally())
            await session.room(0.0)
        elif how == "end":
            session.end()
        else:
            await session.poll(1, 0.0, 1)
        await asyncio.wait_for(drained, PATIENCE_SECONDS)
        assert session.waiting == len(session) == int(how == "shed")

    asyncio.run(run())


def test_the_end_wakes_polls_and_those_who_wait_for_room() -> None:
    async def run() -> None:
        session = queue(5)
        poll = asyncio.ensure_future(session.poll(0, 60.0, 10))
        await asyncio.sleep(0)
        session.end()
        assert await asyncio.wait_for(poll, PATIENCE_SECONDS) == []
        put(session, 9, Tally())
        room = asyncio.create_task(session.room(60.0))
        await asyncio.sleep(0)
        session.end()
        await asyncio.wait_for(room, PATIENCE_SECONDS)

    asyncio.run(run())


def test_a_process_that_is_silent_for_too_long_is_gone() -> None:
    session = ProcessSession("process", 5, 60.0)
    session.heard(100.0)
    assert not session.gone(160.0) and session.gone(160.5)
    session.heard(160.5)
    assert not session.gone(200.0)


class Ahead:
    """A poll that brings up to so many notifications in parts, and the numbers of what it was given."""

    def __init__(self, session: ProcessSession, acknowledged: int, ahead: int) -> None:
        self.parts: list[list[int]] = []
        self.answer = session.poll(acknowledged, 60.0, 100, ahead)
        self.answer.each(lambda part: self.parts.append([batch.number for batch in part]))

    @property
    def last(self) -> list[int] | None:
        return [batch.number for batch in self.answer.value] if self.answer.done else None


def test_a_poll_brings_parts_until_what_it_may_bring_is_used_up() -> None:
    async def run() -> None:
        session, tally = queue(100), Tally()
        poll = Ahead(session, 0, 3)
        for size in (1, 2, 1, 1):
            put(session, size, tally)
            await asyncio.sleep(0)
        assert (poll.parts, poll.last) == ([[1], [2]], [3]), "three came in parts, the fourth is the answer"
        assert session.waiting == 5, "nothing is acknowledged yet"
        following = Ahead(session, 3, 3)
        assert following.last == [4] and session.waiting == 1

    asyncio.run(run())


def test_who_waits_for_an_acknowledgement_does_not_wait_for_more_deliveries() -> None:
    async def run() -> None:
        for waits in (lambda session: session.passed(), lambda session: session.moved(60.0)):
            session, tally = queue(100), Tally()
            poll = Ahead(session, 0, 50)
            put(session, 1, tally)
            await asyncio.sleep(0)
            assert (poll.parts, poll.last) == ([[1]], None)
            waiting = asyncio.ensure_future(waits(session))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert poll.last == [], "its answer has the process poll again"
            following = Ahead(session, 1, 50)
            await asyncio.wait_for(waiting, PATIENCE_SECONDS)
            put(session, 1, tally)
            await asyncio.sleep(0)
            assert (following.parts, following.last) == ([[2]], None), "nobody waits any more"

    asyncio.run(run())


def test_a_quarter_of_the_queue_comes_in_parts_so_that_the_rest_can_be_shed() -> None:
    async def run() -> None:
        session, tally = queue(8), Tally()
        poll = Ahead(session, 0, 50)
        for size in (1, 1, 1):
            put(session, size, tally)
            await asyncio.sleep(0)
        assert (poll.parts, poll.last) == ([[1], [2]], [3])

    asyncio.run(run())


def test_news_is_an_answer_and_a_later_poll_ends_one_that_was_given_up() -> None:
    async def run() -> None:
        session, tally = queue(100), Tally()
        given_up = Ahead(session, 0, 50)
        poll = Ahead(session, 0, 50)
        put(session, 1, tally)
        await asyncio.sleep(0)
        assert (given_up.parts, given_up.last) == ([], []) and (poll.parts, poll.last) == ([[1]], None)
        session.wake()
        await asyncio.sleep(0)
        assert poll.last == []
        again = Ahead(session, 0, 50)
        assert again.last == [1], "what was not acknowledged is sent again"

    asyncio.run(run())


def test_a_delivery_leaves_behind_the_calls_to_other_brokers_of_its_step() -> None:
    async def test() -> None:
        departures, left = Departures(), list[str]()
        session = ProcessSession("process", 100, 60.0, departures)
        session.poll(0, PATIENCE_SECONDS, 100).then(lambda _: left.append("delivered"))
        departures.hold()
        put(session, 1, Tally())
        departures.add(lambda: left.append("passed on") or True)
        departures.go()
        assert left == ["passed on", "delivered"]
        session.end()

    asyncio.run(test())
