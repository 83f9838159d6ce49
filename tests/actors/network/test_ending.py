"""A network is ended in an order in which no client is sent to another broker meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from ray.exceptions import ActorDiedError, GetTimeoutError
from rayvous.actors.network import ending
from rayvous.actors.network import hosts as hosts_module
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.hosts import Hosts
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.recovery import Recovery


@pytest.mark.parametrize("says", [ActorDiedError(), GetTimeoutError()])
def test_the_rendezvous_point_ends_first_and_the_collector_last(
    monkeypatch: pytest.MonkeyPatch, says: Exception
) -> None:
    """It exits without answering, or hangs and is killed. Brokers started by other processes end, too."""
    done = Ray(monkeypatch, ending, hosts_module).killed

    def ends() -> Any:
        done.append("the rendezvous point ends")
        return says

    hosts = {0: "a host", 1: "a host", 2: "another"}
    now = {0: "a host", 1: "a host", 2: "another, started again", 3: "a newcomer"}
    directory = Directory("n", "hybrid", Limits(), (), hosts, "collector", Recovery(), token="t")
    point = Actor(Rendezvous, end=ends, hosts_since=lambda edition: ("now", now), directory=directory)
    monkeypatch.setattr(ending, "save_telemetry", lambda directory: done.append("telemetry"))
    monkeypatch.setattr(ending, "end_gateways", lambda directory: done.append("gateways"))
    monkeypatch.setattr(ending, "end_sinks", lambda directory: done.append("sinks"))
    monkeypatch.setattr(ending, "end_groups", lambda directory: done.append("groups"))
    monkeypatch.setattr(
        ending, "RayStore", lambda token: SimpleNamespace(clear=lambda: done.append(f"cleared {token}"))
    )
    ending.end_network(Hosts(directory, point))
    assert done == [
        "telemetry", "gateways", "sinks", "groups", "the rendezvous point ends", "a host", "another",
        "another, started again", "a newcomer", point, "collector", "cleared t",
    ]  # fmt: skip
    assert point.end.asked_with == [{"max_task_retries": 0}], "who has ended is not asked again"
