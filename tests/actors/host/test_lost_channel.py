"""A host that is found dead because its channel has ended: the brokers here learn it at once."""

import asyncio
from types import SimpleNamespace
from typing import Any

from rayvous.actors.host.transport import Transport
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.recovery import Recovery


def told_when_lost(recovery: Recovery | None) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []

    async def never(*_: Any) -> None:
        raise AssertionError("nothing is sent")

    async def nowhere(broker: int) -> None:
        return None

    async def test() -> None:
        transport = Transport(
            Limits(),
            recovery,
            {0, 1},
            never,
            died=lambda *pair: told.append(pair),
            reborn=lambda broker: None,
        )
        transport.rendezvous = SimpleNamespace(whereabouts=SimpleNamespace(remote=nowhere))
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
