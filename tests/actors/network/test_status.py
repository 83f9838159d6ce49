"""What a status says beside what the brokers answer: stores that do not, and the collector."""

from typing import Any

import pytest
from fakes import Actor, Ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError
from rayvous.actors.host.survey import Look
from rayvous.actors.network import status
from rayvous.actors.telemetry.collector_actor import CollectorActor


def test_a_store_that_does_not_answer_is_a_problem() -> None:
    looks = {broker: Look({}, {}, {}, None, seconds) for broker, seconds in ((2, 13.2), (0, 2.9), (1, 3.1))}
    assert status._stores(looks) == [
        "the store of broker 1 has not answered for 3 s", "the store of broker 2 has not answered for 13 s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (7, "alive"),
        (ActorDiedError(), "dead"),
        (ActorUnavailableError("not now", None), "silent"),
        (GetTimeoutError("late"), "silent"),
    ],
)
def test_the_collector_is_asked_once_and_its_state_is_shown(
    monkeypatch: pytest.MonkeyPatch, answer: Any, state: str
) -> None:
    ray, collector = Ray(monkeypatch, status), Actor(CollectorActor, pid=answer)
    assert status._collector_said(status._ask_collector(collector), 5.0) == state
    assert ray.waited == [5.0] * isinstance(answer, GetTimeoutError)
    assert collector.pid.asked_with == [{"max_task_retries": 0}], (
        "it is not waited for while Ray starts it again"
    )
    assert status._collector_said(status._ask_collector(None), 5.0) == "alive"
