"""The limits of a principal are divided among the gateways of a network.

Reference: docs/decisions/0101-equal-shares.md; promise 9.
"""

from __future__ import annotations

import pytest
from rayvous.gateway.access import Access
from rayvous.gateway.core import Gateway
from rayvous.protocol.errors import LimitReached
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of

GATEWAYS = 4
MOST = Principal(
    publish="TRUE",
    subscribe="TRUE",
    events_per_second=100.0,
    burst_events=40,
    connections_max=8,
    streams_max=9,
)


class Site:
    """Gateways of one network, with a clock that the test sets."""

    def __init__(self, network, *, shared=True, principal=MOST):
        access, limits = AccessConfig(anonymous=principal), GatewayLimits(rate_wait_seconds=0.001)
        self.now = 0.0
        self.gateways = [Gateway(network, Access(access), limits, lambda: self.now) for _ in range(GATEWAYS)]
        if shared:
            self.share(GATEWAYS)

    def share(self, number):
        for gate in self.gateways:
            gate.share(number)

    async def published(self):
        """Return how many events all gateways together accept now, one by one."""
        return sum([await self._published(gate) for gate in self.gateways])

    async def _published(self, gate):
        async with await gate.open(None) as session:
            for number in range(1000):
                try:
                    await session.publish([{"n": number}])
                except LimitReached:
                    return number
        raise AssertionError("nothing holds it back")


def test_all_together_allow_the_rate_and_the_burst_of_one(run, local_network):
    async def story(shared):
        site = Site(local_network(), shared=shared)
        at_once = await site.published()
        site.now = 0.2
        return at_once, await site.published()

    assert run(story(True)) == (40, 20)
    assert run(story(False)) == (160, 80)


def test_connections_and_streams_are_shared_too(run, local_network):
    async def story():
        gate = Site(local_network()).gateways[0]
        sessions = [await gate.open(None) for _ in range(2)]
        with pytest.raises(LimitReached, match="connections_max"):
            await gate.open(None)
        for _ in range(2):
            await sessions[0].subscribe("n = 1")
        with pytest.raises(LimitReached, match="streams_max"):
            await sessions[0].subscribe("n = 1")

    run(story())


def test_when_gateways_come_and_go_shares_change_and_what_is_open_stays(run, local_network):
    async def story():
        site = Site(local_network(), shared=False)
        gate = site.gateways[0]
        sessions = [await gate.open(None) for _ in range(8)]
        site.share(2)
        assert gate.sessions == 8
        with pytest.raises(LimitReached):
            await gate.open(None)
        for session in sessions[:4]:
            await session.close()
        with pytest.raises(LimitReached):
            await gate.open(None)  # four are its share
        await sessions[4].close()
        await gate.open(None)
        site.now = 10.0
        site.share(1)
        return await site._published(gate)

    assert run(story()) == 40


def test_durable_names_are_not_divided_since_each_counts_wherever_it_was_used(run, local_network):
    mine = Principal(subscribe="TRUE", token_sha256=(digest_of("t"),), durables_max=GATEWAYS, streams_max=64)

    async def story():
        network = local_network()
        gateways = [
            Gateway(network, Access(AccessConfig({"me": mine})), GatewayLimits()) for _ in range(GATEWAYS)
        ]
        for gate in gateways:
            gate.share(GATEWAYS)
            for number in range(GATEWAYS):  # the client moves from one gateway to the next
                async with await gate.open("t") as session:
                    await session.subscribe("TRUE", durable=str(number))
        async with await gateways[0].open("t") as session:
            with pytest.raises(LimitReached, match="durables_max"):
                await session.subscribe("TRUE", durable="another")

    run(story())


def test_of_what_is_counted_each_allows_one_at_least() -> None:
    least = Principal(connections_max=2, streams_max=1, durables_max=3, burst_events=2).shared(GATEWAYS)
    assert (least.connections_max, least.streams_max, least.burst_events) == (1, 1, 1)
    assert MOST.shared(1) is MOST
    assert Principal(events_per_second=100.0).shared(GATEWAYS).burst_events == 25
