"""What comes from one host reaches the inboxes in order: parts of answers at once, and behind what waits for room."""

import asyncio
from typing import Any

import numpy as np
from rayvous.actors.clients.arrivals import PLACED_AT_ONCE, Arrivals
from rayvous.actors.clients.inbox import Inbox
from rayvous.actors.host.departures import departures_here
from rayvous.actors.host.sessions import DeliveryBatch, Farewell, GivenUp, Proposal
from rayvous.protocol.batch import EventBatch, Rows, batch_of

HOST = object()


class Process:
    """A process with one subscriber, which reads nothing by itself."""

    def __init__(self, room: int) -> None:
        self.inbox = Inbox(HOST, room, None)
        self.news: list[Any] = []
        self.up_to_date = 0
        self.left: list[int] = []

    def inbox_of(self, client: str, host: Any) -> Inbox | None:
        return self.inbox if client == "c" and host is HOST else None

    def told(self, news: Any) -> None:
        self.news.append(news)

    def heard(self, host: Any, now: float) -> None:
        self.up_to_date += 1

    def read(self) -> list[int]:
        """Take what is there now; return the values of the events."""
        found = []
        while (arrival := self.inbox.take()) is not None:
            found += [arrival.batch.events()[row]["x"] for row in arrival.rows]
        return found


def delivery(number: int, *clients: str, last: bool = False) -> DeliveryBatch:
    """Return a delivery batch with one event for each of these subscribers; its value is the batch's number."""
    clients = clients or ("c",)
    starts, rows = np.arange(len(clients) + 1), np.zeros(len(clients), np.intp)
    return DeliveryBatch(number, batch_of([{"x": number}]), clients, starts, rows, last=last)


def test_a_part_is_in_the_inbox_at_once_and_acknowledged_by_the_next_poll() -> None:
    async def run() -> None:
        process = Process(10)
        arrivals = Arrivals(process, HOST)
        arrivals.take([delivery(1), delivery(2, last=True)])
        assert process.read() == [1, 2] and arrivals.acknowledged == 2 and process.up_to_date == 1
        arrivals.take([delivery(3, "another", last=True)])
        assert process.read() == [] and arrivals.acknowledged == 3, "that subscriber is not here any more"

    asyncio.run(run())


def test_what_finds_no_room_waits_in_order_and_the_answer_behind_it() -> None:
    async def run() -> None:
        process = Process(1)
        arrivals = Arrivals(process, HOST)
        for number in range(1, 6):
            arrivals.take([delivery(number)])
        taking = asyncio.ensure_future(arrivals.take_all([delivery(6)]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert arrivals.acknowledged == 2 and not taking.done(), "one more than fits, as ever"
        read: list[int] = []
        while not taking.done():
            read += process.read()
            await asyncio.sleep(0)
        assert await taking and [*read, *process.read()] == [1, 2, 3, 4, 5, 6] and arrivals.acknowledged == 6
        arrivals.take([delivery(7)])
        assert process.read() == [7], "nothing waits any more"

    asyncio.run(run())


def test_deliveries_to_several_subscribers_and_proposals_keep_their_place() -> None:
    async def run() -> None:
        process = Process(10)
        arrivals = Arrivals(process, HOST)
        proposal = Proposal(2, "c", 7)
        arrivals.take([delivery(1, "other", "c"), proposal, delivery(3)])
        assert await arrivals.take_all([]) and process.read() == [1, 3]
        assert process.news == [proposal] and arrivals.acknowledged == 3

    asyncio.run(run())


def listening(process: Process) -> list[int]:
    """Return the values of the events that are passed straight to a reader."""
    had: list[int] = []

    def straight(batch: EventBatch, rows: Rows) -> bool:
        had.extend(batch.events()[row]["x"] for row in rows)
        departures_here().add(lambda: process.left.append(len(had)) or True)  # type: ignore[func-returns-value]
        return True

    process.inbox.listen(asyncio.get_running_loop(), lambda: None, straight)
    assert process.inbox.take() is None
    return had


def test_what_a_reader_sends_of_what_is_passed_to_it_leaves_in_the_turn_in_which_it_came() -> None:
    async def run() -> None:
        process = Process(10)
        had, arrivals = listening(process), Arrivals(process, HOST)
        arrivals.take([delivery(1, "other", "c"), delivery(2)])
        assert had == [1, 2] and process.left == [1, 2] and arrivals.acknowledged == 2

    asyncio.run(run())


def test_what_is_left_of_a_delivery_for_many_is_for_those_that_have_not_got_it() -> None:
    async def run() -> None:
        process = Process(1)
        arrivals = Arrivals(process, HOST)
        arrivals.take([delivery(1, "c", "c", "c", "other", "c", "c")])
        read: list[list[int]] = []
        while arrivals.acknowledged == 0:
            for _ in range(5):  # it waits for room meanwhile
                await asyncio.sleep(0)
            read.append(process.read())
        assert read[:2] == [[1, 1], [1, 1]] and sum(read, process.read()) == [1] * 5

    asyncio.run(run())


def test_others_have_a_turn_while_much_is_passed_to_many() -> None:
    async def run() -> None:
        process = Process(10)
        had, arrivals = listening(process), Arrivals(process, HOST)
        placing = asyncio.ensure_future(arrivals.take_all([delivery(1, *["c"] * (2 * PLACED_AT_ONCE + 1))]))
        found = set[int]()
        while not placing.done():
            await asyncio.sleep(0)
            found.add(len(had))
        assert sorted(found) == [PLACED_AT_ONCE, 2 * PLACED_AT_ONCE, 2 * PLACED_AT_ONCE + 1]

    asyncio.run(run())


def test_an_answer_says_when_polling_ends_and_news_alone_changes_no_acknowledgement() -> None:
    async def run() -> None:
        process = Process(10)
        arrivals = Arrivals(process, HOST)
        assert await arrivals.take_all([Farewell(3)])
        assert process.news == [Farewell(3)] and arrivals.acknowledged == 0 and process.up_to_date == 1
        assert not await arrivals.take_all([GivenUp(), Farewell(4)])
        assert process.news == [Farewell(3)]

    asyncio.run(run())
