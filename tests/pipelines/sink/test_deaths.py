"""The sink's actor on a real folder, dying at each step that outlives it, and on a bucket that refuses."""

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from rayvous.pipelines.sink import actor as module
from rayvous.pipelines.sink import folder as folders
from rayvous.pipelines.sink.actor import SinkActor
from rayvous.pipelines.sink.folder import SinkFolder
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.pubsub import Lost
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.sinks import SinkConfig, SinkStatus

EVENTS, GIVEN_UP = range(1, 13), Lost("bob", 1, 3)


class Killed(BaseException):
    """The process ends; nothing in it may catch this."""


class Rendezvous:
    """What outlives the processes: the position, what is stored beside it, and how many steps the next one has left."""

    def __init__(self) -> None:
        self.position: dict[str, int] = {}
        self.beside: Any = None
        self.steps_left = 0

    def step(self) -> None:
        if self.steps_left == 0:
            raise Killed
        self.steps_left -= 1


class Subscriber:
    """A durable subscriber as a sink uses it; its broker has given up the first events."""

    subscriptions: dict[int, Any] = {}  # noqa: RUF012

    def __init__(self, lasting: Rendezvous) -> None:
        self._lasting = lasting
        self.position, self.found_beside = dict(lasting.position), lasting.beside
        had = self.position.get("bob", GIVEN_UP.last)
        self.losses = [] if self.position else [GIVEN_UP]
        self._left = [n for n in EVENTS if n > had]

    def subscribe(self, wanted: object) -> None:
        pass

    def arrivals(self, seconds: float) -> Iterator[Any]:
        while self._left:
            n = self._left.pop(0)
            batch = batch_of([{"n": n}], publisher="bob", first_sequence=n, published_at=3_600.0 * (n % 2))
            yield SimpleNamespace(batch=batch, rows=np.arange(1))

    def acknowledge_up_to(self, marks: dict[str, int], beside: object) -> None:
        self._lasting.step()
        self._lasting.position |= marks
        self._lasting.beside = beside
        self._lasting.step()  # it is stored, and the process dies before it knows


def process(lasting: Rendezvous, folder: Path | str) -> SinkActor:
    """Return what Ray makes, without its threads."""
    made = SinkActor("flights", SinkConfig("lake", str(folder), "n > 0", "jsonl", roll_events=4))
    directory = SimpleNamespace(seal="s", features=SimpleNamespace(times=Recovery()))
    made._attached = SimpleNamespace(  # type: ignore[assignment]
        inspect=SimpleNamespace(directory=directory),
        subscriber=lambda name, durable: Subscriber(lasting),
        close=lambda: None,
    )
    return made


def run(lasting: Rendezvous, folder: Path, steps: int) -> SinkActor:
    """Run a process until it dies, or until it has written everything."""
    lasting.steps_left = steps
    return worked(process(lasting, folder))


def worked(made: SinkActor) -> SinkActor:
    made._begin()
    made._ready.set_result(None)
    made._last = "close"
    assert made._step()
    return made


def dying(method: Callable[..., object], lasting: Rendezvous) -> Callable[..., object]:
    """Return a method of a folder before and after which the process may die."""

    def step(self: SinkFolder, *given: Any) -> object:
        lasting.step()
        found = method(self, *given)
        lasting.step()
        return found

    return step


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let actors be made without threads, as processes that Ray has started again."""
    no_threads = SimpleNamespace(
        Lock=threading.Lock, Thread=lambda **given: SimpleNamespace(start=lambda: None)
    )
    monkeypatch.setattr(module, "threading", no_threads)
    context = SimpleNamespace(was_current_actor_reconstructed=True)
    monkeypatch.setattr(module.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(folders, "synchronise", lambda system, path: None)


@pytest.mark.usefixtures("_alone")
def test_each_event_is_in_one_file_whichever_step_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process dies, too; what the broker has given up is told by the last one."""
    write, give_name = SinkFolder.write, SinkFolder._give_name
    for steps in count():
        lasting, folder = Rendezvous(), tmp_path / str(steps)
        monkeypatch.setattr(SinkFolder, "write", dying(write, lasting))
        monkeypatch.setattr(SinkFolder, "_give_name", dying(give_name, lasting))
        died = dies(lasting, folder, steps)
        dies(lasting, folder, 3 * steps % 8)
        last = run(lasting, folder, 1_000)
        lines = [line for path in folder.rglob("lake-*") for line in path.read_text().splitlines()]
        assert sorted(json.loads(line)["sequence"] for line in lines) == [*range(4, 13)]
        assert not [*folder.rglob("_*.tmp")]
        assert last.status().lost == 1
        if not died:
            break
    assert steps > 20


def dies(lasting: Rendezvous, folder: Path, steps: int) -> bool:
    try:
        run(lasting, folder, steps)
    except Killed:
        return True
    return False


@pytest.mark.usefixtures("_alone")
def test_a_bucket_that_refuses_is_waited_for_and_named_and_has_each_event_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each third of what is asked of it is done."""
    asked, seen, lasting = count(), list[SinkStatus](), Rendezvous()
    lasting.steps_left = 1_000

    def refusing(method: Callable[..., object]) -> Callable[..., object]:
        def call(*given: Any, **more: Any) -> object:
            if next(asked) % 3:
                raise PermissionError("Access Denied")
            return method(*given, **more)

        return call

    for step in ("_open", "mv"):
        monkeypatch.setattr(MemoryFileSystem, step, refusing(getattr(MemoryFileSystem, step)))
    made = process(lasting, "memory://bucket-of-a-test/lake")
    monkeypatch.setattr(module, "has_ended", lambda network: False)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: seen.append(made.status()))
    worked(made)
    assert len(seen) >= 6 and {each.state for each in seen} == {"waiting"}
    assert {each.problem for each in seen} == {"memory://bucket-of-a-test/lake: Access Denied"}
    assert any(each.waiting for each in seen)
    assert (made.status().state, made.status().problem) == ("writing", "")
    monkeypatch.undo()
    bucket = MemoryFileSystem()
    lines = [
        json.loads(line)
        for path in bucket.find("/bucket-of-a-test/lake")
        for line in bucket.cat_file(path).decode().splitlines()
    ]
    assert sorted(each["sequence"] for each in lines) == [*range(4, 13)]
    assert all("/lake-" in path for path in bucket.find("/bucket-of-a-test/lake"))
