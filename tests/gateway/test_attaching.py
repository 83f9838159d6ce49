"""A client that leaves while something is being attached for it: that is kept for later use, or closed."""

from __future__ import annotations

import asyncio

import pytest
from rayvous.protocol.errors import BrokerUnavailable


async def cancelled(network, work):
    """Cancel work that has asked the network to attach something, then let the network attach it."""
    asking = asyncio.ensure_future(work)
    await network.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    network.may_attach.set()


def test_a_publisher_is_there_for_who_publishes_next(gateway, run, tokens, slow):
    async def story():
        gate = gateway()
        network = slow(gate.upstream)
        async with await gate.open(tokens["alice"]) as alice:
            await cancelled(network, alice.publish([{"n": 1}]))
        async with await gate.open(tokens["alice"]) as alice:
            assert (await alice.publish([{"n": 2}])).last == 1
        await gate.close()
        assert network.outlets == []

    run(story())


def test_a_publisher_that_could_not_be_made_is_made_for_who_publishes_next(gateway, run, tokens):
    async def story():
        gate = gateway()
        outlet = gate.upstream.outlet

        async def broken(*args):
            gate.upstream.outlet = outlet
            raise BrokerUnavailable("not now")

        gate.upstream.outlet = broken
        async with await gate.open(tokens["alice"]) as alice:
            with pytest.raises(BrokerUnavailable, match="not now"):
                await alice.publish([{"n": 1}])
            assert (await alice.publish([{"n": 2}])).last == 1

    run(story())


def test_a_gateway_that_ends_waits_for_a_publisher_that_is_being_made(gateway, run, tokens, slow):
    async def story():
        gate = gateway()
        network = slow(gate.upstream)
        async with await gate.open(tokens["alice"]) as alice:
            await cancelled(network, alice.publish([{"n": 1}]))
        await gate.close()
        assert network.taken == {"alice"} and network.outlets == []

    run(story())


@pytest.mark.parametrize("durable", [None, "mail"])
def test_a_subscription_of_who_has_gone_is_closed_when_it_comes(gateway, run, tokens, slow, durable):
    async def story():
        gate = gateway()
        network = slow(gate.upstream)
        alice = await gate.open(tokens["alice"])
        await cancelled(network, alice.subscribe("TRUE", durable=durable))
        await alice.close()
        for _ in range(20):  # until it was attached and closed
            await asyncio.sleep(0)
        assert network.feeds == [] and gate.sessions == gate.streams == 0
        assert list(network.kept) == ([] if durable is None else ["alice/mail"])

    run(story())


def test_a_durable_name_is_ended_though_who_asked_for_that_has_gone(gateway, run, tokens, slow):
    async def story():
        gate = gateway()
        network = gate.upstream
        async with await gate.open(tokens["alice"]) as alice:
            await alice.subscribe("TRUE", durable="mail")
        slow(network)
        async with await gate.open(tokens["alice"]) as alice:
            await cancelled(network, alice.unsubscribe("mail"))
        await gate.close()
        assert network.feeds == [] and network.kept == {}

    run(story())
