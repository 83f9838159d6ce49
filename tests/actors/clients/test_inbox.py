"""What a subscriber has received and not yet read: in order, bounded, readable from any thread or loop."""

import asyncio
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from rayvous.actors.clients.inbox import WOKEN_AT_ONCE, Arrival, Inbox, _Wakeups, _wakeups_of
from rayvous.actors.host.departures import departures_here
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.batch import EventBatch, Rows, batch_of
from rayvous.protocol.errors import BrokerUnavailable
from rayvous.protocol.expiry import living, with_ttl
from rayvous.protocol.messages.pubsub import Lost


def batch(first: int, count: int) -> EventBatch:
    return batch_of([{"x": first + i} for i in range(count)])


async def put(inbox: Inbox, first: int, count: int) -> None:
    await inbox.put(batch(first, count), np.arange(count), 0.0)


def values(arrival: Arrival | None) -> list[int]:
    assert arrival is not None
    events = arrival.batch.events()
    return [events[row]["x"] for row in arrival.rows]  # type: ignore[misc]


async def pause() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_put_is_taken_in_order() -> None:
    async def run() -> None:
        inbox = Inbox("host", 100, 5.0)
        assert inbox.take() is None
        for first in (0, 10, 20):
            await put(inbox, first, 2)
        assert inbox.waiting == 6
        assert [values(inbox.take()) for _ in range(3)] == [[0, 1], [10, 11], [20, 21]]
        assert inbox.take() is None and inbox.waiting == 0
        assert inbox.wait(0) is None

    asyncio.run(run())


def test_a_full_inbox_stops_the_fetching_until_some_are_read() -> None:
    async def run() -> None:
        inbox = Inbox("host", 3, 60.0)
        await put(inbox, 0, 4)
        waiting = asyncio.create_task(put(inbox, 10, 2))
        await pause()
        assert not waiting.done() and inbox.waiting == 4
        assert values(inbox.take()) == [0, 1, 2, 3]
        await waiting
        assert values(inbox.take()) == [10, 11] and inbox.shed == 0

    asyncio.run(run())


def test_there_is_room_before_the_reader_lets_its_loop_have_a_turn() -> None:
    """Otherwise a reader that works long on each event would stop the fetching for its whole process."""
    inbox, fetching = Inbox("host", 1, None), asyncio.new_event_loop()
    poll = threading.Thread(target=fetching.run_forever)
    poll.start()

    async def read() -> None:
        asyncio.run_coroutine_threadsafe(put(inbox, 0, 2), fetching).result(10.0)
        waiting = asyncio.run_coroutine_threadsafe(put(inbox, 10, 1), fetching)
        asyncio.run_coroutine_threadsafe(pause(), fetching).result(10.0)
        assert not waiting.done() and values(inbox.take()) == [0, 1]
        waiting.result(2.0)

    try:
        asyncio.run(read())
    finally:
        fetching.call_soon_threadsafe(fetching.stop)
        poll.join()
        fetching.close()


def test_what_is_not_read_in_time_is_shed_the_oldest_first_and_counted() -> None:
    async def run() -> None:
        inbox = Inbox("host", 3, 0.0)
        for first in (0, 10, 20, 30):
            await put(inbox, first, 2)
        assert inbox.shed == 4
        got = []
        while (arrival := inbox.take()) is not None:
            got += values(arrival)
        assert got == [20, 21, 30, 31] and len(got) + inbox.shed == 8

    asyncio.run(run())


def test_a_reader_in_a_coroutine_is_woken() -> None:
    async def run() -> None:
        inbox = Inbox("host", 100, 5.0)
        reader = asyncio.create_task(inbox.wait_async())
        await pause()
        assert not reader.done()
        await put(inbox, 7, 1)
        assert values(await reader) == [7]
        reader = asyncio.create_task(inbox.wait_async())
        await pause()
        inbox.close()
        assert await reader is None

    asyncio.run(run())


def test_a_reader_in_a_thread_is_woken() -> None:
    inbox = Inbox("host", 100, 5.0)
    got: list[Arrival | None] = []
    reader = threading.Thread(target=lambda: got.extend([inbox.wait(10.0), inbox.wait(None)]))
    reader.start()
    asyncio.run(put(inbox, 3, 1))
    inbox.close()
    reader.join(10.0)
    assert not reader.is_alive() and values(got[0]) == [3] and got[1] is None


def test_a_reader_whose_loop_has_ended_does_not_stop_the_others() -> None:
    inbox = Inbox("host", 100, 5.0)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inbox.wait_async(), 0.01)

    asyncio.run(give_up())
    asyncio.run(put(inbox, 3, 1))
    assert values(inbox.take()) == [3]


def test_a_listener_whose_loop_has_ended_does_not_stop_the_delivery() -> None:
    """An exception in the poll would end it for all subscribers of the process. Reference: promise 2."""
    inbox, told = Inbox("host", 100, 5.0), list[str]()

    async def listen(who: str) -> None:
        inbox.listen(asyncio.get_running_loop(), lambda: told.append(who))
        await pause()
        inbox.take()

    asyncio.run(listen("gone"))
    asyncio.run(put(inbox, 3, 1))
    asyncio.run(put(inbox, 4, 1))
    asyncio.run(listen("next"))
    assert told == ["gone", "next"] and values(inbox.take()) == [4]
    inbox.close()


def test_a_loop_that_ends_while_a_reader_is_woken_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox, told = Inbox("host", 100, 5.0), list[int]()
    loop = asyncio.new_event_loop()
    inbox.listen(loop, lambda: told.append(1))
    loop.run_until_complete(pause())
    inbox.take()
    loop.close()
    monkeypatch.setattr(loop, "is_closed", lambda: False)  # as it was when it was checked
    asyncio.run(put(inbox, 3, 1))
    assert told == [1] and values(inbox.take()) == [3]


def test_what_came_is_read_and_the_inbox_closed_when_the_loop_of_the_poll_has_ended() -> None:
    async def cancelled(inbox: Inbox) -> None:
        await put(inbox, 0, 2)
        waiting = asyncio.create_task(put(inbox, 10, 2))
        await pause()
        waiting.cancel()

    read, closed = Inbox("host", 1, 60.0), Inbox("host", 1, 60.0)
    for inbox in (read, closed):
        asyncio.run(cancelled(inbox))
    closed.close()
    assert values(read.take()) == values(closed.wait(None)) == [0, 1] and closed.wait(None) is None


def test_after_the_host_is_gone_what_came_is_read_and_then_it_is_said() -> None:
    async def run() -> None:
        inbox = Inbox("host", 100, 5.0)
        await put(inbox, 0, 1)
        inbox.fail(ConnectionError())
        assert values(inbox.take()) == [0]
        for read in (inbox.take, lambda: inbox.wait(None)):
            with pytest.raises(BrokerUnavailable, match=r"broker is gone \(ConnectionError\)"):
                read()
        with pytest.raises(BrokerUnavailable):
            await inbox.wait_async()
        inbox.close()
        assert inbox.wait(None) is None

    asyncio.run(run())


def test_what_is_queued_can_be_taken_without_an_error_which_the_next_take_raises() -> None:
    async def run() -> None:
        inbox = Inbox("host", 1, 60.0)
        assert inbox.take_queued() is None
        await put(inbox, 0, 2)
        waiting = asyncio.create_task(put(inbox, 10, 1))
        await pause()
        assert not waiting.done()
        inbox.fail(ConnectionError())
        assert values(inbox.take_queued()) == [0, 1] and inbox.waiting == 0
        await waiting
        assert values(inbox.take_queued()) == [10] and inbox.take_queued() is None
        with pytest.raises(BrokerUnavailable):
            inbox.take()

    asyncio.run(run())


def test_a_closed_inbox_takes_nothing_in_and_lets_whoever_waits_go() -> None:
    async def run() -> None:
        inbox = Inbox("host", 1, 60.0)
        await put(inbox, 0, 2)
        waiting = asyncio.create_task(put(inbox, 10, 2))
        await pause()
        inbox.close()
        await waiting
        await put(inbox, 20, 2)
        assert values(inbox.wait(None)) == [0, 1]
        assert inbox.wait(None) is None and inbox.shed == 0

    asyncio.run(run())


def test_readers_of_several_inboxes_are_woken_by_one_call():
    """A process fetches for all subscribers at once: a call per reader took a fifth of a gateway's time."""
    calls = []

    class Loop(asyncio.SelectorEventLoop):
        def call_soon(self, callback, *args, **named):
            if getattr(callback, "__func__", None) is _Wakeups._call_some:
                calls.append(callback)
            return super().call_soon(callback, *args, **named)

    async def work():
        inboxes = [Inbox(None, 10, None) for _ in range(3)]
        reads = [asyncio.ensure_future(inbox.wait_async()) for inbox in inboxes]
        await asyncio.sleep(0)
        for turn in range(2):
            for inbox in inboxes:
                await inbox.put(batch_of([{"turn": turn}]), np.array([0]), 0.0)
            arrivals = await asyncio.gather(*reads)
            assert [arrival.batch.events()[0] for arrival in arrivals] == [{"turn": turn}] * 3
            reads = [asyncio.ensure_future(inbox.wait_async()) for inbox in inboxes]
            await asyncio.sleep(0)
        for inbox in inboxes:
            inbox.close()
        assert await asyncio.gather(*reads) == [None] * 3

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work())
    assert len(calls) == 3, "one for each time that something came for them, and one for the end"


def test_who_listens_is_called_when_something_has_come_and_again_when_it_has_taken_all() -> None:
    async def run() -> None:
        inbox, calls = Inbox("host", 100, 5.0), []
        await put(inbox, 0, 1)
        inbox.listen(asyncio.get_running_loop(), lambda: calls.append(inbox.waiting))
        await pause()
        assert calls == [1], "what was there before counts"
        await put(inbox, 1, 1)
        await pause()
        assert calls == [1] and inbox.take() and inbox.take() and not inbox.take()
        await put(inbox, 2, 1)
        await pause()
        assert calls == [1, 1] and inbox.take() and not inbox.take()
        inbox.close()
        await pause()
        assert calls == [1, 1, 0] and inbox.closed

    asyncio.run(run())


def test_what_those_who_listen_send_has_left_when_they_were_called() -> None:
    left: list[bool] = []

    async def run() -> None:
        inbox = Inbox("host", 100, 5.0)
        inbox.listen(
            asyncio.get_running_loop(), lambda: departures_here().add(lambda: left.append(True) or True)
        )
        await put(inbox, 0, 1)
        await asyncio.sleep(0)
        assert left == [True], "without one more turn of the event loop"

    asyncio.run(run())


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError], ids=["error", "cancelled"])
def test_readers_that_wait_for_a_turn_have_it_although_something_fails_to_leave(
    error: type[BaseException],
) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        wakeups, called = _wakeups_of(asyncio.get_running_loop()), list[int]()

        def fail() -> bool:
            raise error

        wakeups.wake(lambda: departures_here().add(fail))
        for reader in range(WOKEN_AT_ONCE):
            wakeups.wake(partial(called.append, reader))
        await pause()
        assert called == list(range(WOKEN_AT_ONCE)), "one of them in a turn of its own"

    asyncio.run(run())


def test_who_listens_need_not_look_once_more_when_the_inbox_is_idle() -> None:
    async def run() -> None:
        inbox, called = Inbox("host", 100, 5.0), list[int]()
        inbox.listen(asyncio.get_running_loop(), lambda: called.append(inbox.waiting))
        await pause()
        assert inbox.idle and called.pop() == 0 and inbox.take() is None
        for first in (0, 10):
            await put(inbox, first, 2)
        await pause()
        assert called == [4]
        assert values(inbox.take()) == [0, 1] and not inbox.idle
        assert values(inbox.take()) == [10, 11] and inbox.idle
        await put(inbox, 20, 1)
        await pause()
        assert called == [4, 1], "nobody has looked in vain before"
        inbox.take()
        inbox.fail(RuntimeError("gone"))
        await pause()
        assert called == [4, 1, 0] and not inbox.idle

    asyncio.run(run())


def test_what_nothing_precedes_is_passed_straight_to_who_listens_unless_it_takes_it_otherwise() -> None:
    async def run() -> None:
        machine = SubscriberMachine()
        machine.arrive(0.0)
        inbox, called, had, takes = Inbox("host", 1, 0.01, machine), list[int](), list[int](), True

        def straight(given: EventBatch, rows: Rows) -> bool:
            had.extend(values(Arrival(given, rows, 0.0)) if takes else ())
            return takes

        def offer(first: int, ttl: float | None = None) -> None:
            given = batch_of(
                [{"x": first}], publisher="p", first_sequence=first + 1, published_at=time.time()
            )
            assert inbox.offer(with_ttl(given, ttl), np.arange(1), 0.0)

        inbox.listen(asyncio.get_running_loop(), lambda: called.append(inbox.waiting), straight)
        offer(0)
        assert not had, "who listens has yet to look whether something is there"
        await pause()
        assert called == [1] and values(inbox.take()) == [0]
        offer(1)
        assert had == [1] and inbox.waiting == 0 and inbox.idle
        offer(1)
        assert had == [1], "it has come before"
        takes = False
        offer(2)
        takes = True
        offer(3)
        assert had == [1] and inbox.waiting == 2, "what waits is not overtaken"
        assert values(inbox.take()) == [2] and values(inbox.take()) == [3]
        offer(4, ttl=60.0)
        assert had == [1] and values(inbox.take()) == [4], "it may expire"
        inbox.tell((Lost("q", 1, 1),))
        offer(5)
        assert had == [1] and values(inbox.take()) == [5], "it is told what was lost before it"
        offer(6)
        assert had == [1, 6]
        inbox.fail(RuntimeError("gone"))
        with pytest.raises(BrokerUnavailable):
            inbox.take()
        offer(7)
        assert had == [1, 6] and values(inbox.take()) == [7], "behind the error"
        inbox.recover()
        inbox.close()
        assert inbox.take() is None
        offer(8)
        assert had == [1, 6] and inbox.take() is None
        await pause()

    asyncio.run(run())


def test_what_waits_before_it_is_not_overtaken_by_what_is_offered() -> None:
    async def run() -> None:
        inbox = Inbox("host", 1, 60.0)
        assert inbox.offer(batch(0, 2), np.arange(2), 0.0)
        assert not inbox.offer(batch(10, 1), np.arange(1), 0.0), "it is full"
        waiting = asyncio.create_task(put(inbox, 10, 1))
        await pause()
        assert values(inbox.take()) == [0, 1]
        assert not inbox.offer(batch(20, 1), np.arange(1), 0.0), "another waits before it"
        await waiting
        assert inbox.offer(batch(20, 1), np.arange(1), 0.0)
        assert [values(inbox.take()) for _ in range(2)] == [[10], [20]]

    asyncio.run(run())


def test_listeners_of_many_inboxes_let_others_have_a_turn() -> None:
    async def run() -> None:
        inboxes, calls, turns = [Inbox("host", 100, 5.0) for _ in range(3 * WOKEN_AT_ONCE)], [], set()
        turn = 0
        for inbox in inboxes:
            inbox.listen(asyncio.get_running_loop(), lambda: (calls.append(0), turns.add(turn)))
            await put(inbox, 0, 1)
        while len(calls) < len(inboxes):
            turn += 1
            await asyncio.sleep(0)
        assert len(turns) == 3 and len(calls) == len(inboxes)

    asyncio.run(run())


def test_readers_on_another_loop_are_called_when_all_that_came_with_a_poll_is_there() -> None:
    """Called earlier, they would compete for the interpreter with the thread that delivers the rest."""
    there: list[int] = []
    inboxes = [Inbox("host", 100, 5.0) for _ in range(20)]
    came = threading.Event()

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, callback, *args, **named):  # type: ignore[no-untyped-def]
            there.append(sum(inbox.waiting > 0 for inbox in inboxes))
            return super().call_soon_threadsafe(callback, *args, **named)

    loop = Loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    left = list(inboxes)

    def taken(inbox: Inbox) -> None:
        if inbox.take() is not None:
            left.remove(inbox)
        inbox.take()
        if not left:
            came.set()

    for inbox in inboxes:
        inbox._listener = _wakeups_of(loop), partial(taken, inbox)

    async def poll() -> None:
        for inbox in inboxes:
            await put(inbox, 0, 1)

    asyncio.run(poll())
    all_came, called = came.wait(5.0), list(there)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert all_came and called == [len(inboxes)]


def test_what_is_read_after_its_time_to_live_is_dropped_and_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        clock = [100.0]
        monkeypatch.setattr("rayvous.actors.clients.inbox.time.time", lambda: clock[0])
        inbox = Inbox("host", 3, 60.0)
        for first, ttl in ((0, 5.0), (10, None), (20, 50.0)):
            events = replace(with_ttl(batch(first, 2), ttl), published_at=np.full(2, 100.0))
            assert inbox.offer(events, np.arange(2), 0.0) == (first < 20)
            if first == 20:
                clock[0] = 106.0
                assert inbox.offer(events, np.arange(2), 0.0), "what is late makes room"
        assert inbox.past_ttl == 2 and inbox.shed == 0 and inbox.waiting == 4
        assert values(inbox.take()) == [10, 11]
        clock[0] = 151.0
        assert inbox.take() is None and inbox.past_ttl == 4 and inbox.waiting == 0
        assert inbox.wait(0) is None

    asyncio.run(run())


def test_a_full_inbox_looks_at_what_expires_and_not_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looked = [100.0], []

    def looking(*given: Any) -> Any:
        looked.append(1)
        return living(*given)

    monkeypatch.setattr("rayvous.actors.clients.inbox.time.time", lambda: clock[0])
    monkeypatch.setattr("rayvous.actors.clients.inbox.living", looking)
    inbox = Inbox("host", 99, 60.0)
    for first in range(100):
        events = replace(with_ttl(batch(first, 1), 5.0), published_at=np.array([100.0 + first]))
        assert inbox.offer(events, np.arange(1), 0.0)
    assert not inbox.offer(events, np.arange(1), 0.0) and not looked
    clock[0] = 106.5
    assert inbox.offer(events, np.arange(1), 0.0) and len(looked) == 2
    assert inbox.past_ttl == 2 and inbox.waiting == 99 and values(inbox.take()) == [2]
