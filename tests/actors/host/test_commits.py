"""Effects after a Persist wait for it; commits are grouped; after a failure nothing leaves."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.host.commits import AT_ONCE_SECONDS_MAX, IN_THREAD_SECONDS, Commits
from rayvous.actors.host.departures import Departures
from rayvous.actors.host.hosted_broker import HostedBroker
from rayvous.actors.host.survey import look_at
from rayvous.broker import Broker
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Confirm, Persist, Write
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.telemetry.recorder import TelemetryBuffer
from rayvous.routing.topologies.cluster_trees import ClusterTree

OTHER = Confirm("alice", 1)


class GatedStore:
    """Commits when its gate is open, and fails on request."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.committed: list[list[str]] = []
        self.fails = False

    def commit(self, writes: Sequence[Write]) -> None:
        assert self.gate.wait(20)
        if self.fails:
            raise StorageFailed("the disk is full")
        self.committed.append([write.value for write in writes])

    def may_wait(self, writes: Sequence[Write]) -> bool:
        return True


class QuickStore(GatedStore):
    """Commits of up to two changes wait for nothing; it notes the threads in which commits were made."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.set()
        self.here: list[bool] = []

    def commit(self, writes: Sequence[Write]) -> None:
        self.here.append(threading.current_thread() is threading.main_thread())
        super().commit(writes)

    def may_wait(self, writes: Sequence[Write]) -> bool:
        return len(writes) > 2


def persist(*values: str) -> Persist:
    return Persist(tuple(Write("t", (value,), value) for value in values))


def go(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def test_effects_leave_in_their_order_after_what_is_before_them_is_stable() -> None:
    async def test() -> None:
        store, left = GatedStore(), []
        commits = Commits("broker 1", store)  # type: ignore[arg-type]
        commits.put(OTHER, lambda: left.append(0))
        assert left == [0]
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: left.append(1))
        await asyncio.sleep(0)
        commits.put(persist("b"), lambda: None)
        commits.put(persist("c", "d"), lambda: None)
        commits.put(OTHER, lambda: left.append(2))
        assert left == [0] and not commits.idle
        store.gate.set()
        await commits.stable()
        assert left == [0, 1, 2] and store.committed == [["a"], ["b", "c", "d"]]
        commits.put(OTHER, lambda: left.append(3))
        await commits.stable()
        assert left == [0, 1, 2, 3]

    go(test)


def test_the_changes_of_a_step_are_one_commit_that_begins_when_the_step_ends() -> None:
    async def test() -> None:
        store, departures = GatedStore(), Departures()
        store.gate.set()
        commits = Commits("broker 1", store, departures=departures)  # type: ignore[arg-type]
        departures.hold()
        commits.put(persist("a"), lambda: None)
        commits.put(persist("b"), lambda: None)
        assert commits.seconds == 0.0 and not commits.idle
        departures.go()
        await commits.stable()
        assert store.committed == [["a", "b"]] and commits.idle

    go(test)


def test_what_is_stable_leaves_in_the_turn_in_which_that_is_known() -> None:
    async def test() -> None:
        store, departures, left = GatedStore(), Departures(), list[str]()
        commits = Commits("broker 1", store, departures=departures)  # type: ignore[arg-type]

        def send() -> None:
            asyncio.get_running_loop().call_soon(left.append, "a turn later")
            departures.add(lambda: left.append("sent") or True)

        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, send)
        store.gate.set()
        while len(left) < 2:
            await asyncio.sleep(0)
        assert left == ["sent", "a turn later"]

    go(test)


def test_an_answer_is_given_when_all_before_it_is_stable_and_has_left() -> None:
    async def test() -> None:
        store, departures, left = GatedStore(), Departures(), list[str]()
        commits = Commits("broker 1", store, departures=departures)  # type: ignore[arg-type]
        assert commits.stable_later().done
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: departures.add(lambda: left.append("sent") or True))
        commits.stable_later().then(lambda _: left.append("answered"))
        commits.put(persist("b"), lambda: None)
        last = commits.stable_later()
        assert not left
        store.gate.set()
        await last
        assert left == ["sent", "answered"] and store.committed == [["a"], ["b"]]

    go(test)


def test_who_waits_for_such_an_answer_is_told_of_a_failure() -> None:
    async def test() -> None:
        store = GatedStore()
        commits = Commits("broker 1", store)
        store.fails = True
        commits.put(persist("a"), lambda: None)
        answer = commits.stable_later()
        store.gate.set()
        for each in (answer, commits.stable_later()):
            with pytest.raises(StorageFailed, match="broker 1 has stopped: the disk is full"):
                await each
        with pytest.raises(StorageFailed, match="broker 1 has stopped"):
            await commits.stable_later()

    go(test)


def test_what_follows_a_commit_under_way_does_not_wait_for_the_next_one() -> None:
    async def test() -> None:
        store, left = GatedStore(), []
        commits = Commits("broker 1", store)  # type: ignore[arg-type]
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: (left.append(1), store.gate.clear()))
        commits.put(persist("b"), lambda: None)
        commits.put(OTHER, lambda: left.append(2))
        store.gate.set()
        while not left:
            await asyncio.sleep(0)
        assert left == [1] and store.committed == [["a"]]
        store.gate.set()
        await commits.stable()
        assert left == [1, 2] and store.committed == [["a"], ["b"]]

    go(test)


def test_after_a_failure_nothing_leaves_and_whoever_waits_is_told() -> None:
    async def test() -> None:
        store, left, told = GatedStore(), [], []
        commits = Commits("broker 1", store, told.append)  # type: ignore[arg-type]
        store.fails = True
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: left.append(1))
        store.gate.set()
        with pytest.raises(StorageFailed, match="broker 1 has stopped: the disk is full"):
            await commits.stable()
        commits.put(OTHER, lambda: left.append(2))
        with pytest.raises(StorageFailed):
            await commits.stable()
        assert left == [] and len(told) == 1

    go(test)


def test_what_cannot_be_carried_out_is_said_and_nobody_waits_for_ever() -> None:
    async def test() -> None:
        store, left, told = GatedStore(), [], []
        commits = Commits("broker 1", store, told.append)  # type: ignore[arg-type]
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: left[0])
        store.gate.set()
        with pytest.raises(StorageFailed, match="broker 1 has stopped: an effect was not carried out"):
            await commits.stable()
        assert len(told) == 1

    go(test)


def test_a_commit_that_waits_for_nothing_is_made_at_once_the_first_of_a_step() -> None:
    async def test() -> None:
        store, departures, left = QuickStore(), Departures(), list[int]()
        commits = Commits("broker 1", store, departures=departures)  # type: ignore[arg-type]
        departures.hold()
        commits.put(persist("a"), lambda: None)
        assert store.committed == [["a"]] and commits.passes and commits.made == 1
        commits.put(OTHER, lambda: left.append(1))
        assert left == [1] and commits.stable_later().done
        commits.put(persist("b"), lambda: None)
        commits.put(persist("c"), lambda: None)
        commits.put(OTHER, lambda: left.append(2))
        assert not commits.passes and left == [1]
        departures.go()
        await commits.stable()
        assert store.committed == [["a"], ["b", "c"]] and left == [1, 2] and commits.passes
        departures.hold()
        commits.put(persist("d", "e", "f"), lambda: None)
        departures.go()
        await commits.stable()
        departures.hold()
        commits.put(persist("g"), lambda: None)
        assert store.here == [True, False, False, True]

    go(test)


def test_after_a_commit_at_once_that_took_long_commits_run_in_a_thread_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        store, departures, clock = QuickStore(), Departures(), [100.0]
        monkeypatch.setattr("rayvous.actors.host.commits.time.monotonic", lambda: clock[0])
        commits = Commits("broker 1", store, departures=departures)  # type: ignore[arg-type]
        commit = store.commit

        def slow(writes: Sequence[Write]) -> None:
            commit(writes)
            clock[0] += 2 * AT_ONCE_SECONDS_MAX

        for late, made in ((0.0, slow), (0.0, commit), (IN_THREAD_SECONDS, commit)):
            clock[0] += late
            monkeypatch.setattr(store, "commit", made)
            departures.hold()
            commits.put(persist("a"), lambda: None)
            departures.go()
            await commits.stable()
        assert store.here == [True, False, True]

    go(test)


def test_a_commit_at_once_that_fails_halts_the_broker() -> None:
    async def test() -> None:
        store, left, told = QuickStore(), list[int](), list[StorageFailed]()
        store.fails = True
        commits = Commits("broker 1", store, told.append)  # type: ignore[arg-type]
        commits.put(persist("a"), lambda: None)
        commits.put(OTHER, lambda: left.append(1))
        assert not commits.passes and not left and len(told) == 1
        with pytest.raises(StorageFailed, match="broker 1 has stopped: the disk is full"):
            await commits.stable()

    go(test)


def test_a_store_that_does_not_answer_is_seen_in_the_look_at_its_broker() -> None:
    async def test() -> None:
        store = GatedStore()
        commits = Commits("broker 1", store)
        assert commits.seconds == 0.0
        commits.put(persist("a"), lambda: None)
        while not commits.seconds:
            await asyncio.sleep(0)
        place = ClusterTree(1, 1).positions()[0]
        hosted = HostedBroker(
            Broker(place), TelemetryBuffer(place, Limits.for_tests()), None, commits=commits
        )
        assert look_at(hosted, {}).store_seconds > 0.0
        store.gate.set()
        await commits.stable()
        assert commits.seconds == 0.0 == look_at(hosted, {}).store_seconds

    go(test)
