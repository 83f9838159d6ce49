"""A network is ended in an order in which no client is sent elsewhere meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError
from rayvous.actors.network import ending
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.hosts import Hosts
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.recovery import Recovery


@pytest.mark.parametrize("says", [ActorDiedError(), GetTimeoutError()])
def test_the_rendezvous_point_ends_first_and_the_collector_last(
    monkeypatch: pytest.MonkeyPatch, says: Exception
) -> None:
    """It answers that call by its death; one that stands still is killed."""
    done: list[Any] = []

    def get(call: Any, timeout: float) -> None:
        done.append(call)
        raise says

    point = SimpleNamespace(end=SimpleNamespace(remote=lambda: "the rendezvous point ends"))
    hosts = {0: "a host", 1: "a host", 2: "another"}
    directory = Directory("n", "hybrid", Limits(), (), hosts, "collector", Recovery(), token="t")
    monkeypatch.setattr(ending, "ray", SimpleNamespace(get=get, kill=done.append))
    monkeypatch.setattr(ending, "save_telemetry", lambda directory: done.append("telemetry"))
    monkeypatch.setattr(ending, "end_gateways", lambda directory: done.append("gateways"))
    monkeypatch.setattr(
        ending, "RayStore", lambda token: SimpleNamespace(clear=lambda: done.append(f"cleared {token}"))
    )
    ending.end_network(Hosts(directory, point))
    assert done == [
        "telemetry", "gateways", "the rendezvous point ends", "a host", "another", point, "collector", "cleared t",
    ]  # fmt: skip
