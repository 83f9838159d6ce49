"""A host that is found dead because its channel has ended: the brokers here learn it at once."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rayvous.actors.host.transport import Transport
from rayvous.protocol.configs import Limits
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery


def lonely_transport(died: Callable[[int, int], None], recovery: Recovery | None) -> Transport:
    """Return the transport of a host of brokers 0 and 1, which send nothing."""

    async def never(*_: Any) -> None:
        raise AssertionError("nothing is sent")

    return Transport(Limits(), Features(recovery), {0, 1}, never, died=died, reborn=lambda broker: None)


def told_when_lost(recovery: Recovery | None) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []

    async def nowhere(broker: int) -> None:
        return None

    async def test() -> None:
        transport = lonely_transport(lambda *pair: told.append(pair), recovery)
        transport.ask_at(SimpleNamespace(whereabouts=SimpleNamespace(remote=nowhere)))
        for broker in (0, 1):
            transport.born(broker, 0)
        hosts = {2: "left", 3: "left", 4: "right"}
        for broker in hosts:
            transport.peer(broker, hosts)
        assert transport.carriers() == {}
        transport.lost("left")

    asyncio.run(test())
    return sorted(told)


def test_every_broker_here_is_told_of_every_broker_there() -> None:
    assert told_when_lost(Recovery.for_tests()) == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_a_network_that_does_not_heal_finds_that_with_its_next_call() -> None:
    assert told_when_lost(None) == []


class Ways:
    """Channels that note to which hosts they are asked to be opened."""

    def __init__(self) -> None:
        self.opened: list[object] = []

    def way(self, actor: object) -> Any:
        return SimpleNamespace(
            prepare=lambda: self.opened.append(actor),
            lane=lambda key: None,
        )


def test_who_is_met_is_found_and_a_channel_is_opened_before_anything_is_sent() -> None:
    """Not for a broker here, and a broker that is not found is found when it is sent to. Reference: decision 0139."""
    asked: list[int] = []
    channels = Ways()

    async def whereabouts(broker: int) -> tuple[str, int] | None:
        asked.append(broker)
        return None if broker == 9 else (f"host of {broker}", 0)

    async def test() -> None:
        transport = lonely_transport(lambda *pair: None, Recovery.for_tests())
        transport.channels = channels  # type: ignore[assignment]
        transport.ask_at(SimpleNamespace(whereabouts=SimpleNamespace(remote=whereabouts)))
        transport.prepare([0, 5, 9])
        while transport.preparing:
            await asyncio.gather(*transport.preparing)
        transport.prepare([5])
        while transport.preparing:
            await asyncio.gather(*transport.preparing)

    asyncio.run(test())
    assert asked == [5, 9] and channels.opened == ["host of 5", "host of 5"]
