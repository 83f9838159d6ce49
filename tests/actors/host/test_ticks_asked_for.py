"""A broker that asks to be told the time is told it then, not with the next regular tick. Reference: decision 0139."""

import asyncio
from typing import Any

from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import TickAt, Ticked
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Asking:
    """A broker that notes the times that it is told, and asks for nothing more."""

    def __init__(self, position: Any) -> None:
        self.position = position
        self.told: list[float] = []
        self.more = asyncio.Event()

    def handle(self, event: Any) -> list[Any]:
        assert isinstance(event, Ticked)
        self.told.append(event.now)
        self.more.set()
        return []


def test_it_is_told_the_time_once_when_that_has_come_unless_it_has_left() -> None:
    async def test() -> None:
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=Recovery())
        await host.start_brokers(ClusterTree(2, 1).positions())
        for broker in (0, 1):
            host.hosted_brokers[broker].broker = Asking(host.hosted_brokers[broker].broker.position)  # type: ignore[assignment]
        asking: Any = host.hosted_brokers[0].broker
        gone: Any = host.hosted_brokers[1].broker
        at = host.clock.now() + 0.02
        for hosted in list(host.hosted_brokers.values()):
            host.driver.carry_out(hosted, TickAt(at))
        del host.hosted_brokers[1]
        await asyncio.wait_for(asking.more.wait(), PATIENCE_SECONDS)
        assert asking.told[0] >= at and not gone.told
        asking.more.clear()
        host.driver.carry_out(host.hosted_brokers[0], TickAt(at - 1.0))
        await asyncio.wait_for(asking.more.wait(), PATIENCE_SECONDS)
        assert len(asking.told) == 2

    asyncio.run(test())
