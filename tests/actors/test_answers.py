"""Whoever waits for an answer of Ray on an event loop may be cancelled, also where Ray was joined through ray://."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor
from ray import ObjectRef
from ray.exceptions import RayTaskError
from ray.util.client.common import ClientObjectRef
from rayvous.actors.answers import answered
from rayvous.actors.clients.nearness import Nearness
from rayvous.actors.host.handle import HostHandle
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network.rendezvous import Rendezvous


class Ref(ClientObjectRef):
    """A call through a Ray client; `come` is what Ray calls with the answer, or with an error when it disconnects."""

    def __init__(self) -> None:
        self.come: Callable[[Any], None]
        worker = SimpleNamespace(register_callback=self._register, is_connected=lambda: False)
        self._worker, self._id_future = worker, None

    def _register(self, ref: ObjectRef, come: Callable[[Any], None]) -> None:
        self.come = come


def value(of: Any) -> bytearray:
    from ray.util.client.server.server_pickler import dumps_from_server

    return bytearray(dumps_from_server(of, "client", SimpleNamespace()))


async def asked(question: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(question)
    await asyncio.sleep(0)
    return task


def test_an_answer_comes_from_another_thread() -> None:
    async def test() -> None:
        ref = Ref()
        task = await asked(answered(ref))
        await asyncio.to_thread(ref.come, value({"a": 1}))
        assert await task == {"a": 1}

    asyncio.run(test())


def test_an_error_is_that_of_the_call() -> None:
    async def test() -> None:
        ref, other = Ref(), Ref()
        tasks = [await asked(answered(each)) for each in (ref, other)]
        ref.come(ConnectionError("the client has disconnected"))
        other.come(RayTaskError("poll", "a traceback", KeyError("x")))
        with pytest.raises(ConnectionError):
            await tasks[0]
        with pytest.raises(KeyError):
            await tasks[1]

    asyncio.run(test())


def calls(ref: Ref) -> dict[str, Coroutine[Any, Any, Any]]:
    """Return what clients wait for on a loop, each answered by this call."""
    host = HostHandle(Actor(BrokerHost, call=ref))
    nearness = Nearness.__new__(Nearness)
    return {
        "answered": answered(ref),
        "poll": host.poll("session", 4, 0.5),
        "tiers": nearness.tiers("nearest", Actor(Rendezvous, hosts=ref)),
    }


@pytest.mark.parametrize("name", ["answered", "poll", "tiers"])
@pytest.mark.parametrize("late", [False, True], ids=["while the loop runs", "when it has ended"])
def test_who_was_cancelled_leaves_nothing_on_which_ray_fails(name: str, late: bool) -> None:
    """An exception here is a traceback that Ray prints, and the other calls are never told."""
    ref = Ref()

    async def test() -> None:
        coroutines = calls(ref)
        task = await asked(coroutines.pop(name))
        for rest in coroutines.values():
            rest.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not late:
            ref.come(value(1))
            await asyncio.sleep(0)

    asyncio.run(test())
    if late:
        ref.come(ConnectionError("the client has disconnected"))
