"""A network is ended in an order in which no client is sent to another broker meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError
from rayvous.actors.network import ending
from rayvous.actors.network import hosts as hosts_module
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.hosts import Hosts
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.recovery import Recovery


@pytest.mark.parametrize("says", [ActorDiedError(), GetTimeoutError()])
def test_the_rendezvous_point_ends_first_and_the_collector_last(
    monkeypatch: pytest.MonkeyPatch, says: Exception
) -> None:
    """It exits without answering, or hangs and is killed. Brokers started by other processes end, too."""
    done: list[Any] = []

    def get(call: Any, timeout: float) -> Any:
        if isinstance(call, dict | Directory):
            return call
        done.append(call)
        raise says

    hosts = {0: "a host", 1: "a host", 2: "another"}
    now = {0: "a host", 1: "a host", 2: "another, started again", 3: "a newcomer"}
    point = SimpleNamespace(
        end=SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: "the rendezvous point ends")),
        hosts=SimpleNamespace(remote=lambda: now),
    )
    directory = Directory("n", "hybrid", Limits(), (), hosts, "collector", Recovery(), token="t")
    for module in (ending, hosts_module):
        monkeypatch.setattr(module, "ray", SimpleNamespace(get=get, kill=done.append))
    point.directory = SimpleNamespace(remote=lambda: directory)
    monkeypatch.setattr(ending, "save_telemetry", lambda directory: done.append("telemetry"))
    monkeypatch.setattr(ending, "end_gateways", lambda directory: done.append("gateways"))
    monkeypatch.setattr(
        ending, "RayStore", lambda token: SimpleNamespace(clear=lambda: done.append(f"cleared {token}"))
    )
    ending.end_network(Hosts(directory, point))
    assert done == [
        "telemetry", "gateways", "the rendezvous point ends", "a host", "another", "another, started again",
        "a newcomer", point, "collector", "cleared t",
    ]  # fmt: skip
