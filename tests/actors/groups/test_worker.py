"""Workers of a group beside its actor, without Ray: calls run on a loop, and answers come when the test lets them."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from fake_groups import Subscriber, begun
from patience import PATIENCE_SECONDS
from ray.exceptions import GetTimeoutError
from rayvous.actors.clients.notification import Notification
from rayvous.actors.groups import actor as actor_module
from rayvous.actors.groups import worker as module
from rayvous.actors.groups.actor import GroupActor
from rayvous.actors.groups.worker import GroupWorker
from rayvous.clients.group import GroupMachine
from rayvous.protocol.errors import InputError


class Loop:
    """An actor on a loop of its own, as its workers call it; `held_back` has an event for answers that wait."""

    def __init__(self, actor: GroupActor) -> None:
        self.actor, self.loop = actor, asyncio.new_event_loop()
        self.held_back: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self._call(name, given))

    def _call(self, name: str, given: tuple[Any, ...]) -> Any:
        self.asked.append(name)
        return name, asyncio.run_coroutine_threadsafe(getattr(self.actor, name)(*given), self.loop)

    def get(self, call: tuple[str, Future[Any]], timeout: float | None = None) -> Any:
        name, future = call
        try:
            found = future.result(timeout)
        except Late:
            raise GetTimeoutError("no answer") from None
        if name in self.held_back:
            assert self.held_back[name].wait(PATIENCE_SECONDS)
        return found

    def run(self, what: Callable[[], Any]) -> Any:
        async def on_loop() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(on_loop(), self.loop).result(PATIENCE_SECONDS)

    def close(self) -> None:
        async def cancel() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        asyncio.run_coroutine_threadsafe(cancel(), self.loop).result(PATIENCE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self.loop.close()


class Group:
    """A group, what comes to it, and its workers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        monkeypatch.setattr(actor_module, "POLL_SECONDS", 0.1)
        self.subscriber = Subscriber()
        self.actor = begun(monkeypatch, self.subscriber, **given)
        self.loop = Loop(self.actor)
        monkeypatch.setattr(module, "ray", SimpleNamespace(get=self.loop.get, kill=lambda actor: None))
        self.workers: list[GroupWorker] = []
        self.loop.get(self.loop._call("ready", ()), PATIENCE_SECONDS)

    def worker(self) -> GroupWorker:
        self.workers.append(GroupWorker(self.actor._config, self.loop, lambda worker: None))  # type: ignore[arg-type]
        return self.workers[-1]

    def come(self, *numbers: int) -> None:
        events = [{"n": number} for number in numbers]
        self.loop.run(lambda: self.subscriber.come(*events, first=numbers[0]))

    def close(self) -> None:
        for worker in self.workers:
            worker.abandon()
        for worker in self.workers:
            worker._thread.join(PATIENCE_SECONDS)
        self.loop.close()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    made = Group(monkeypatch, silent_seconds=10_000.0, ack_seconds=1_000.0)
    yield made
    made.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def in_thread(what: Callable[[], Any]) -> Future[Any]:
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(what())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def test_a_worker_reads_columns_and_acknowledges_them(group: Group) -> None:
    worker = group.worker()
    group.come(1, 2, 3)
    with worker._changed:
        assert worker._changed.wait_for(lambda: len(worker._machine.held) == 3, PATIENCE_SECONDS)
    batches = worker.batches(PATIENCE_SECONDS, rows_max=2)
    first, second = next(batches), next(batches)
    assert first.schema.names[0] == "_publisher" and first.schema.names[-1] == "_deliveries"
    assert (first.column("n").to_pylist(), second.column("_sequence").to_pylist()) == ([1, 2], [3])
    worker.nack(Notification({}, "p", 3, 0.0, 0.0))
    assert next(batches).column("_deliveries").to_pylist() == [2]
    worker.acknowledge()
    assert group.subscriber.stored[-1][0] == {"p": 3} and not worker._machine.held
    group.come(4)

    async def read() -> list[int]:
        async for batch in worker.batches_async():
            return batch.column("n").to_pylist()
        return []

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE_SECONDS)) == [4]
    with pytest.raises(InputError, match="rows_max is 0"):
        worker.batches(rows_max=0)
    with pytest.raises(InputError, match="rows_max is 0"):
        worker.batches_async(rows_max=0)


def test_a_refused_event_that_comes_again_before_its_refusal_has_returned_is_held(group: Group) -> None:
    worker = group.worker()
    notes = worker.notifications(PATIENCE_SECONDS)
    group.come(1)
    first = next(notes)
    group.loop.held_back["settle"] = threading.Event()
    refusing = in_thread(lambda: worker.nack(first))
    with worker._changed:
        assert worker._changed.wait_for(lambda: worker._machine.next, PATIENCE_SECONDS)
    group.loop.held_back["settle"].set()
    refusing.result(PATIENCE_SECONDS)
    again = next(notes)
    assert (again.sequence, again.deliveries) == (1, 2)
    worker.acknowledge()
    assert group.subscriber.stored[-1][0] == {"p": 1}


def test_a_worker_that_acknowledges_to_a_later_process_first_says_all_that_it_holds(group: Group) -> None:
    worker = group.worker()
    notes = worker.notifications(PATIENCE_SECONDS)
    group.come(1, 2, 3)
    first = next(notes)
    group.loop.held_back["poll"] = threading.Event()  # the poll is late in what follows
    kept = group.actor._machine.progress()

    def restart() -> None:
        machine = group.actor._machine
        group.actor._machine = GroupMachine(group.actor._config, kept.position, {}, kept.tries, math.inf)
        for number in (1, 2, 3):
            group.actor._machine.take("p", number)
        assert machine.workers == {worker.worker: 3}

    group.loop.run(restart)
    worker.ack(first)
    assert group.actor._machine.workers == {worker.worker: 2}, "nobody else gets them"
    group.loop.held_back.pop("poll").set()
    assert [next(notes).sequence for _ in range(2)] == [2, 3]
    worker.acknowledge()
    assert group.subscriber.stored[-1][1]["done"] == {"p": [(1, 3)]}


def test_what_was_refused_to_a_process_that_has_died_is_refused_to_the_later_one_that_was_told_it_is_held(
    group: Group,
) -> None:
    worker = group.worker()
    notes = worker.notifications(PATIENCE_SECONDS)
    group.come(1, 2)
    first, _ = next(notes), next(notes)
    for name in ("settle", "poll"):
        group.loop.held_back[name] = threading.Event()
    refusing = in_thread(lambda: worker.nack(first, 100.0))
    until(lambda: group.loop.run(lambda: group.actor._machine.workers == {worker.worker: 1}))
    later = GroupMachine(group.actor._config, opens_at=math.inf, process=9)
    group.loop.run(lambda: setattr(group.actor, "_machine", later))
    worker._claim()  # it was not told yet that its refusal was heard
    assert later.holds(worker.worker, ("p", 1))
    group.loop.held_back.pop("settle").set()
    refusing.result(PATIENCE_SECONDS)
    assert later.workers == {worker.worker: 1} and list(worker._machine.held) == [("p", 2)]
    group.loop.held_back.pop("poll").set()


def test_a_later_process_is_told_the_keys_of_what_workers_hold_and_which_process_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So those behind it of its key wait, although it never comes again, and a worker that was dead is not believed."""
    group = Group(monkeypatch, group_key="n", silent_seconds=10_000.0, ack_seconds=1_000.0)
    worker = group.worker()
    notes = worker.notifications(PATIENCE_SECONDS)
    group.come(4, 4)
    first, _ = next(notes), next(notes)
    had = worker._machine.holds
    assert [hold.token[0] for hold in had.values()] == [group.subscriber.incarnation] * 2
    group.loop.held_back["poll"] = threading.Event()  # the poll is late in what follows
    later = GroupMachine(group.actor._config, opens_at=math.inf, process=group.subscriber.incarnation + 1)
    group.loop.run(lambda: setattr(group.actor, "_machine", later))
    worker.ack(first)
    (key,) = {hold.key for hold in had.values()}
    assert later.take("p", 6, key) and later.workers == {worker.worker: 1}
    later.hear("other", 0.0)
    later._opens_at = 0.0
    later.tick(0.0)
    assert later.give("other", 0.0) == [], "6 waits for 5, which has not come"
    assert later._tokens == {("p", 5): had["p", 5].token}
    group.loop.held_back.pop("poll").set()
    group.close()


def test_a_poll_that_is_answered_late_is_awaited_and_what_it_brings_is_not_lost(group: Group) -> None:
    late = threading.Semaphore(2)

    def get(call: Any, timeout: float | None = None) -> Any:
        found = group.loop.get(call, timeout)
        if call[0] == "poll" and found.batch is not None and late.acquire(blocking=False):
            raise GetTimeoutError("no answer")
        return found

    module.ray.get = get  # type: ignore[attr-defined]
    worker = group.worker()
    group.come(1)
    assert next(worker.notifications(PATIENCE_SECONDS)).sequence == 1
    assert not late.acquire(blocking=False)


def test_a_worker_that_stood_still_gets_more_when_its_program_asks_without_waiting(group: Group) -> None:
    worker, told = group.worker(), threading.Event()
    worker.listen(told.set)
    group.come(1)
    assert told.wait(PATIENCE_SECONDS)
    told.clear()
    assert [note.sequence for note in worker.notifications(0)] == [1]
    until(lambda: not worker._asked)  # a poll has said so
    machine, config = group.actor._machine, group.actor._config
    group.loop.run(lambda: machine.tick(time.monotonic() + config.ack_seconds + 1))
    group.loop.run(group.actor._tell)
    assert told.wait(PATIENCE_SECONDS) and not worker._machine.held
    told.clear()
    taken = worker.take()
    assert taken is not None and taken[3] == [("p", 1)] and worker.take() is None
    worker.ask()
    assert told.wait(PATIENCE_SECONDS)
    assert [note.deliveries for note in worker.notifications(0)] == [2]


def test_a_reader_on_a_loop_that_is_cancelled_loses_no_event_and_holds_no_thread(group: Group) -> None:
    worker = group.worker()

    async def read() -> int:
        async for note in worker:
            return note.sequence
        return 0

    async def run() -> list[int]:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        assert worker._waiting == 1
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        assert worker._waiting == 0
        await asyncio.to_thread(group.come, 1, 2)
        return [await asyncio.wait_for(read(), PATIENCE_SECONDS) for _ in range(2)]

    assert asyncio.run(run()) == [1, 2]


def test_readers_end_when_the_group_ends_or_their_worker_leaves(group: Group) -> None:
    one, two = group.worker(), group.worker()

    async def read() -> None:
        async for _ in two:
            pass

    blocked = [in_thread(lambda: next(one.notifications(), None)), in_thread(lambda: asyncio.run(read()))]
    until(lambda: one._waiting == two._waiting == 1)
    two.close()
    assert blocked[1].result(PATIENCE_SECONDS) is None
    group.actor.finish = ended  # type: ignore[method-assign]
    one.end()
    assert blocked[0].result(PATIENCE_SECONDS) is None


async def ended(last: str) -> None:
    """Answer nothing to other workers, as an actor that is killed at once."""
