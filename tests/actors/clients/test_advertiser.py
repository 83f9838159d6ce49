"""What a publisher tells brokers that it leaves and returns to, in whatever order they hear it."""

import asyncio
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

from rayvous.actors.clients.advertiser import Advertiser, Calls
from rayvous.admission.controller import Admission
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.routing.filters.filter import to_filter


class Done:
    """The answer to a call, which may be awaited or not."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def test_a_publisher_that_is_back_at_once_is_not_withdrawn_by_what_it_said_when_it_left() -> None:
    """The broker hears of the departure last, because nobody waits for the answer to that call."""
    said: list[Any] = []

    def request(broker: int, name: str, messages: list[Any], session: str = "") -> Any:
        said.extend(messages)
        return Done()

    host = SimpleNamespace(request=SimpleNamespace(remote=request))
    directory: Any = SimpleNamespace(admission=AdmissionConfig(), limits=Limits(), numbered=False)
    calls = Calls(lambda call, seconds: None, lambda asked, host, seconds: None, lambda host, change: None)
    advertiser = Advertiser("p", directory, calls)
    advertiser._said[1] = to_filter("x > 0"), 5_000_000, False
    asyncio.run(advertiser.say_again(host, 0, {}))
    advertiser.withdraw_at(host, 0)
    asyncio.run(advertiser.say_again(host, 0, {}))
    came, left, back = said
    machine = Admission(0, AdmissionConfig(), [])
    for message in (came, back, left):
        machine.handle("p", message)
    assert list(machine.books.adverts) == [("p", 1)]
    machine.handle("p", came)
    machine.handle("p", left)
    assert not machine.books.adverts, "who has left has"
