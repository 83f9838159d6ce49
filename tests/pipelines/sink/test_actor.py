"""How a process of a sink ends, with an actor whose thread is not started and a Ray that is a stand-in."""

import logging
from types import SimpleNamespace

import pytest
from rayvous.pipelines.sink import actor
from rayvous.pipelines.sink.actor import SinkActor
from rayvous.protocol.errors import NameTaken, NetworkNotFound
from rayvous.protocol.sinks import SinkConfig

CONFIG = SinkConfig("lake", "s3://key:word@bucket/lake", "x > 0")


class Exited(BaseException):
    """The process has ended."""


class World:
    """What a sink did to its process and to its actor."""

    def __init__(self, restarted: bool | None) -> None:
        self.ended_for_good = False
        self.restarted = restarted

    def get_runtime_context(self) -> SimpleNamespace:
        if self.restarted is None:
            raise OSError("Ray does not answer")
        return SimpleNamespace(was_current_actor_reconstructed=self.restarted)

    def end_for_good(self) -> None:
        self.ended_for_good = True


def made(monkeypatch: pytest.MonkeyPatch, world: World, error: BaseException, *, ready: bool) -> SinkActor:
    """Return a sink that meets this error, before or after it has begun."""

    def leave(status: int) -> None:
        raise Exited

    monkeypatch.setattr(actor, "threading", SimpleNamespace(Lock=actor.threading.Lock, Thread=Unstarted))
    monkeypatch.setattr(actor, "os", SimpleNamespace(_exit=leave))
    monkeypatch.setattr(actor, "ray", world)
    monkeypatch.setattr(actor, "end_for_good", world.end_for_good)
    monkeypatch.setattr(actor, "has_ended", lambda network: True)
    monkeypatch.setattr(actor, "Network", SimpleNamespace(attach=lambda name: None))

    def fail(self: SinkActor) -> None:
        raise error

    monkeypatch.setattr(SinkActor, "_begin", (lambda self: None) if ready else fail)
    monkeypatch.setattr(SinkActor, "_step", fail)
    return SinkActor("flights", CONFIG)


class Unstarted:
    """A thread that does not run."""

    def __init__(self, **how: object) -> None:
        pass

    def start(self) -> None:
        pass


@pytest.mark.parametrize("restarted", [True, None])
@pytest.mark.parametrize("ready", [True, False])
def test_a_process_whose_name_its_successor_may_have_ends_only_itself(
    monkeypatch: pytest.MonkeyPatch, restarted: bool | None, ready: bool
) -> None:
    """Its node was cut off, Ray started the sink elsewhere, and the link returned: the actor is the successor now."""
    world = World(restarted)
    sink = made(monkeypatch, world, NameTaken("taken over"), ready=ready)
    with pytest.raises(Exited):
        sink._run()
    assert not world.ended_for_good


@pytest.mark.parametrize("error", [NameTaken("taken over"), NetworkNotFound("gone")])
def test_a_sink_that_ray_has_never_restarted_ends_for_good(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = World(False)
    sink = made(monkeypatch, world, error, ready=True)
    sink._run()
    assert world.ended_for_good


def test_a_process_that_ends_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = made(monkeypatch, World(False), KeyError("a bug"), ready=True)
    with caplog.at_level(logging.ERROR, "rayvous.sink"), pytest.raises(Exited):
        sink._run()
    assert "this process of sink lake ends" in caplog.text and "a bug" in caplog.text


def test_a_flush_does_not_wait_longer_than_it_was_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else as many of them as are answered at once would keep all later calls waiting."""
    sink = made(monkeypatch, World(False), KeyError(), ready=True)
    with pytest.raises(TimeoutError):
        sink.flush(0.0)


def test_a_status_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = made(monkeypatch, World(False), KeyError(), ready=True)
    assert sink.status().target == "s3://***@bucket/lake"
