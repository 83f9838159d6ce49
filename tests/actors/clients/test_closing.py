"""Closing a network in a process: many subscribers leave in the time of one."""

from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.clients.attaching import Attaching
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.protocol.errors import BrokerUnavailable

did: list[str] = []


class Leaving(Subscriber):
    def __init__(self, name: str, dead: bool) -> None:
        self.name, self.ticket, self.dead = name, "", dead

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


def test_every_goodbye_is_said_before_the_first_answer_is_awaited() -> None:
    did.clear()
    left: list[Any] = []
    leave = SimpleNamespace(remote=lambda *said: left.append(said))
    attached = Attaching(SimpleNamespace(rendezvous=SimpleNamespace(leave=leave)), SimpleNamespace())  # type: ignore[arg-type]
    attached.clients = [Leaving("a", True), Returning("r"), Leaving("b", False)]
    attached.close_all()
    assert did == ["a says goodbye", "r goes away", "b says goodbye", "a is answered", "b is answered"]
    assert left == [("subscriber", {"a": "", "r": "", "b": ""}, {})]
