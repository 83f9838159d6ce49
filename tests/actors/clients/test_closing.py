"""Closing a network in a process: many subscribers leave in the time of one."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.clients import attaching as attaching_file
from rayvous.actors.clients.attaching import Attaching
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.protocol.errors import BrokerUnavailable

did: list[str] = []


class Leaving(Subscriber):
    def __init__(self, name: str, dead: bool) -> None:
        self.name, self.ticket, self.dead = name, "", dead

    async def close_async(self) -> None:
        did.append(f"{self.name} is closed")

    def start_closing(self) -> Any:
        did.append(f"{self.name} says goodbye")
        return self.finish

    def finish(self) -> None:
        did.append(f"{self.name} is answered")
        if self.dead:
            raise BrokerUnavailable("gone")


class Returning(DurableSubscriber):
    def __init__(self, name: str) -> None:
        self.name, self.ticket = name, ""

    def close(self) -> None:
        did.append(f"{self.name} goes away")

    def start_closing(self) -> Any:
        pytest.fail("it would not come back")


def attaching() -> tuple[Attaching, list[Any]]:
    """Return the clients of a process, and what the rendezvous point is told of those that leave."""
    left: list[Any] = []
    leave = SimpleNamespace(remote=lambda *said: left.append(said))
    hosts: Any = SimpleNamespace(
        rendezvous=SimpleNamespace(leave=leave), require_open=bool, closed=False, hosts=list, name="net"
    )
    process: Any = SimpleNamespace(has_left_ray=False, end_sessions=lambda _: None, close=lambda: None)
    return Attaching(hosts, process), left


def test_every_goodbye_is_said_before_the_first_answer_is_awaited() -> None:
    did.clear()
    attached, left = attaching()
    attached._clients = dict.fromkeys([Leaving("a", True), Returning("r"), Leaving("b", False)])
    attached.close_all()
    assert did == ["a says goodbye", "r goes away", "b says goodbye", "a is answered", "b is answered"]
    assert left == [("subscriber", {"a": "", "r": "", "b": ""}, {})]


def test_names_of_subscribers_that_leave_an_event_loop_soon_after_each_other_are_freed_by_one_call() -> None:
    async def story() -> None:
        attached, left = attaching()
        leaving = [Leaving(name, False) for name in "abc"]
        attached._clients = dict.fromkeys(leaving)
        for client in leaving:
            await attached.release_here(client)
        assert not attached.clients and not left, "the names wait for others"
        while not left:
            await asyncio.sleep(0.001)
        assert left == [("subscriber", {"a": "", "b": "", "c": ""}, {})]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


def test_names_that_wait_are_freed_when_the_network_is_closed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching_file, "LEAVE_SECONDS", 1000.0)

    async def story() -> None:
        attached, left = attaching()
        gone, there = Leaving("a", False), Leaving("b", False)
        attached._clients = dict.fromkeys([gone, there])
        await attached.release_here(gone)
        await attached.close_here()
        assert left == [("subscriber", {"a": "", "b": ""}, {})]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))
