"""A gateway as an actor: a share that it is told while it starts is used, and it ends with its network.

Reference: docs/decisions/0099-gateways-come-with-nodes.md; docs/decisions/0101-equal-shares.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RpcError
from rayvous.actors.network import lasting_actors
from rayvous.gateway import on_nodes
from rayvous.gateway.on_nodes import GatewayActor
from rayvous.protocol.errors import BrokerUnavailable, InputError


class World:
    """A fake of the network and of Ray around one gateway."""

    def __init__(self) -> None:
        self.shares: list[int] = []
        self.asked, self.answer, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.points: list[Exception] = []
        self.slept = 0

    def sharing(self, directory: Any) -> int:
        self.asked.set()
        assert self.answer.wait(10.0)
        if self.error is not None:
            raise self.error
        return 4

    @asynccontextmanager
    async def serving(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async def until_ended(stop: asyncio.Event) -> None:
            await asyncio.to_thread(self.ended.wait, 10.0)

        gateway = SimpleNamespace(share=self.shares.append)
        yield SimpleNamespace(gateway=gateway, urls=["http://here"], until_ended=until_ended)

    def get_actor(self, name: str, namespace: str) -> Any:
        if self.points:
            raise self.points.pop(0)
        return "the rendezvous point"

    def sleep(self, seconds: float) -> None:
        self.slept += 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    directory = SimpleNamespace(gateway="gateway", access="access")
    network = SimpleNamespace(
        attach=lambda name: SimpleNamespace(inspect=SimpleNamespace(directory=directory))
    )
    here = SimpleNamespace(was_current_actor_reconstructed=False)
    ray = SimpleNamespace(get_runtime_context=lambda: here, get_actor=made.get_actor)
    for name, value in {
        "Network": network, "ray": ray, "gateways_sharing": made.sharing, "serving": made.serving,
        "settle_memory": lambda: None, "end_for_good": made.ended.set, "time": made,
    }.items():  # fmt: skip
        monkeypatch.setattr(on_nodes, name, value)
    monkeypatch.setattr(lasting_actors, "ray", ray)
    yield made
    made.ended.set()
    for thread in threading.enumerate():
        if thread.name == "gateway":
            thread.join(10.0)


@pytest.mark.parametrize(("told", "counts"), [(3, 3), (None, 4)])
def test_what_it_was_told_while_it_starts_counts(world: World, told: int | None, counts: int) -> None:
    gateway = GatewayActor("net")
    assert world.asked.wait(10.0)
    if told is not None:
        gateway.share(told)
    world.answer.set()
    assert gateway.urls() == ["http://here"] and world.shares == [counts]


@pytest.mark.parametrize(
    "error", [BrokerUnavailable("the supervisor is gone"), InputError("a port is taken")]
)
def test_one_that_cannot_serve_ends_when_its_network_has_ended(world: World, error: Exception) -> None:
    world.error = error
    world.points = [RpcError("the head is away"), ValueError("there is none")]
    world.answer.set()
    gateway = GatewayActor("net")
    with pytest.raises(type(error)):
        gateway.urls()
    assert world.ended.wait(10.0) and world.slept == 1
