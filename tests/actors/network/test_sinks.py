"""Asking for a sink: which one is ended, which one is refused, and what is a folder."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import Actor, Ray
from ray.exceptions import GetTimeoutError, RayTaskError
from rayvous.actors.network import sinks
from rayvous.actors.network.sinks import CONTROL, FileSink, Sinks, place_of
from rayvous.pipelines.sink.actor import SinkActor
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.protocol.sinks import SinkConfig

CONFIG = SinkConfig("lake", "/data/lake", "x > 0")


def asked(monkeypatch: pytest.MonkeyPatch, ready: object, **other: object) -> list[object]:
    """Ask for a sink whose actor says this; return what is killed, with the error first."""
    fake = Ray(monkeypatch, sinks)
    running = Actor(SinkActor, config=CONFIG, ready=ready)
    if isinstance(ready, GetTimeoutError):
        running.ready.answers = False
    monkeypatch.setattr(sinks, "own", lambda name: SinkActor)
    monkeypatch.setattr(sinks, "actor", lambda *_, **how: SimpleNamespace(remote=lambda *given: running))
    directory = SimpleNamespace(
        name="flights", nodes=(), place=None, spared=(), features=SimpleNamespace(heals=True)
    )
    hosts = SimpleNamespace(require_open=lambda: None, directory=directory)
    with pytest.raises((InputError, BrokerUnavailable)) as error:
        Sinks(hosts).sink("/data/lake", "x > 0", name="lake", **other)  # type: ignore[arg-type]
    return [error.value, *(each is running for each in fake.killed)]


def test_a_sink_that_waits_for_its_disk_is_not_ended_by_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (error,) = asked(monkeypatch, GetTimeoutError("no answer"))
    assert isinstance(error, BrokerUnavailable)


def test_a_sink_that_says_that_it_cannot_begin_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = InputError("target '/data/lake' cannot be used: not a folder")
    error, killed = asked(monkeypatch, RayTaskError("ready", "trace", cause))
    assert error is cause and killed


def test_a_refusal_names_the_fields_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    (error,) = asked(monkeypatch, None, roll_seconds=5, partition="day")
    assert "with partition 'hour' instead of 'day', roll_seconds 60.0 instead of 5. Close it first" in str(
        error
    )


def test_calls_that_do_not_wait_for_a_disk_have_a_group_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Ray(monkeypatch, sinks)
    running = Actor(SinkActor, finish=None, status=None, flush=None)
    sink = FileSink(CONFIG, running)
    sink.status()
    sink.flush(3.0)
    sink.close()
    assert running.status.asked_with == [{"concurrency_group": CONTROL}]
    assert running.finish.asked_with == [{"concurrency_group": CONTROL, "max_task_retries": 0}]
    assert running.flush.asked_with == []


def test_a_target_is_a_folder_or_a_url(tmp_path: Path) -> None:
    assert place_of(tmp_path / "lake") == str(tmp_path / "lake") and place_of("s3://b/x") == "s3://b/x"
    for wrong in (Path("s3://b/x"), "gs:/b/x"):
        with pytest.raises(InputError, match="a URL as a string, with two slashes"):
            place_of(wrong)
