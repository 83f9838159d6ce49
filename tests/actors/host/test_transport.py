"""How the hosts' transport passes messages between brokers of one host."""

import asyncio
from typing import Any

from rayvous.actors.host.departures import departures_here
from rayvous.actors.host.transport import PASSED_AT_ONCE, Transport
from rayvous.protocol.configs import Limits
from rayvous.protocol.features import Features
from rayvous.protocol.messages.pubsub import Cancel

MEMBERS = range(1, 3 * PASSED_AT_ONCE)


def test_between_messages_within_a_host_others_on_its_event_loop_have_a_turn() -> None:
    """A round wakes all brokers of a host; a client that subscribes meanwhile would wait for all of them."""
    had: list[tuple[int, bool]] = []

    def receive_now(to: int, source: int, load: Any, *said: float) -> str:
        had.append((to, True))
        return "node"

    async def receive(to: int, source: int, load: Any, *said: float) -> str:
        had.append((to, False))
        return "node"

    async def run() -> None:
        transport = Transport(
            Limits(),
            Features(),
            range(max(MEMBERS) + 1),
            receive,
            died=lambda source, broker: None,
            reborn=lambda broker: None,
            departures=departures_here(),
            receive_now=receive_now,
        )
        group = transport.regroup(0, MEMBERS, None)
        assert group is not None
        for load in (1, 2):
            had.clear()
            group.put(Cancel(load))
            departures_here().go()
            await group.drained()
            assert sorted(to for to, _ in had) == list(MEMBERS), "each had it once"
            assert [now for _, now in had] == [each < PASSED_AT_ONCE for each in range(len(had))]

    asyncio.run(run())
