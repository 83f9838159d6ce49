"""Events that are published again under the same key are published once, at any gateway.

Reference: docs/decisions/0100-published-again-once.md; promise 1.
"""

from __future__ import annotations

import asyncio

import pytest
from rayvous.gateway.core import Accepted
from rayvous.protocol.errors import (
    AccessDenied,
    BrokerUnavailable,
    InputError,
    KeyReused,
    PublicationUnderWay,
)
from rayvous.protocol.gateways import AccessConfig, Principal

ONE, TWO = [{"n": 1}], [{"n": 2}, {"n": 3}]


def test_what_is_published_again_is_answered_as_before_and_not_published(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            first = await alice.publish(TWO, key="k")
            other = await alice.publish(TWO)
        async with await gate.open(tokens["alice"]) as alice:
            again = await alice.publish(TWO, key="k")
        return gate, first, other, again

    gate, first, other, again = run(story())
    assert (first, other) == (Accepted("alice", 1, 2), Accepted("alice", 3, 4))
    assert again == Accepted("alice", 1, 2, repeated=True)
    assert gate.counts["published"] == 4 and gate.counts["repeated"] == 2
    assert gate.upstream.last == {"alice": 4}


def test_events_with_other_arrays_are_other_events(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            await alice.publish([{"x": 1, "tags": ["a"], "more": [{"n": 1, "m": 2}]}], key="k")
            again = await alice.publish([{"more": [{"m": 2, "n": 1}], "tags": ["a"], "x": 1}], key="k")
            with pytest.raises(KeyReused):
                await alice.publish([{"x": 1, "tags": ["b"], "more": [{"n": 1, "m": 2}]}], key="k")
        return again

    assert run(story()).repeated


def test_it_is_known_at_another_gateway_too_and_to_its_principal_alone(gateway, run, tokens):
    async def story():
        one = gateway()
        other = gateway(network=one.upstream)
        async with await one.open(tokens["alice"]) as alice:
            first = await alice.publish(ONE, key="k")
        await one.close()
        async with await other.open(tokens["alice"]) as alice:
            again = await alice.publish(ONE, key="k")
        async with await other.open(tokens["bob"]) as bob:
            own = await bob.publish([{"origin": "JFK"}], key="k")
        return first, again, own

    first, again, own = run(story())
    assert (again.publisher, again.first, again.last) == (first.publisher, first.first, first.last)
    assert again.repeated and not own.repeated


def test_new_and_known_in_one_call_have_the_numbers_that_they_have(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            await alice.publish(ONE, key="k")
            gate.upstream.open_gate.clear()
            asked = [
                asyncio.ensure_future(alice.publish(events, key=key))
                for events, key in ((ONE, None), (ONE, None), (ONE, "k"), (TWO, "l"), (ONE, None))
            ]
            while len(asked) > gate.upstream.outlets[0].network.calls + 4:
                await asyncio.sleep(0)
            gate.upstream.open_gate.set()
            answers = await asyncio.gather(*asked)
            again = await alice.publish(TWO, key="l")
        return answers, again

    answers, again = run(story())
    assert [(each.first, each.last) for each in answers] == [(2, 2), (3, 3), (1, 1), (4, 5), (6, 6)]
    assert (again.first, again.last, again.repeated) == (4, 5, True)


def test_other_events_under_a_key_are_refused(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            await alice.publish(ONE, key="k")
            with pytest.raises(KeyReused, match="take a new key"):
                await alice.publish(TWO, key="k")

    run(story())


def test_what_became_of_it_is_not_guessed(gateway, run, tokens):
    """If the broker did not answer, it may have the events, so they are not published again."""

    async def story():
        gate = gateway()
        network = gate.upstream
        async with await gate.open(tokens["alice"]) as alice:
            network.broken = True
            with pytest.raises(BrokerUnavailable):
                await alice.publish(ONE, key="k")
            network.broken = False
            with pytest.raises(PublicationUnderWay, match="ask again with the same key") as told:
                await alice.publish(ONE, key="k")
            network.repeats.settle("alice", ["k"], "alice", accepted=False)
            return told.value.after_seconds, await alice.publish(ONE, key="k")

    after, accepted = run(story())
    assert after == 1.0 and not accepted.repeated


def test_where_nobody_knows_of_keys_what_has_none_is_published_all_the_same(gateway, run, tokens):
    async def story():
        gate = gateway()
        gate.upstream.forgetful = True
        async with await gate.open(tokens["alice"]) as alice:
            asked = [alice.publish(ONE, key="k"), alice.publish(TWO)]
            return await asyncio.gather(*asked, return_exceptions=True)

    keyed, plain = run(story())
    assert isinstance(keyed, BrokerUnavailable) and plain == Accepted("alice", 1, 2)


def test_two_at_once_are_one(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            asked = [alice.publish(ONE, key="k") for _ in range(2)]
            return gate, await asyncio.gather(*asked, return_exceptions=True)

    gate, (first, second) = run(story())
    assert first == Accepted("alice", 1, 1) and gate.upstream.last == {"alice": 1}
    assert isinstance(second, PublicationUnderWay) or second.repeated


def test_with_flush_it_waits_where_it_was_published_and_says_so_elsewhere(gateway, run, tokens):
    async def story():
        one = gateway()
        other = gateway(network=one.upstream)
        async with await one.open(tokens["alice"]) as alice:
            await alice.publish(ONE, key="k")
            assert (await alice.publish(ONE, key="k", flush=True)).repeated
        async with await other.open(tokens["alice"]) as alice:
            with pytest.raises(
                BrokerUnavailable, match=r"accepted as alice 1-1, but not seen to be delivered"
            ):
                await alice.publish(ONE, key="k", flush=True)
        return one.upstream.flushes

    assert run(story()) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
def test_a_key_is_short_and_printable(gateway, run, tokens, key):
    async def story():
        async with await gateway().open(tokens["alice"]) as alice:
            with pytest.raises(InputError, match="key"):
                await alice.publish(ONE, key=key)

    run(story())


def test_who_shows_no_token_has_no_keys(gateway, run):
    async def story():
        gate = gateway(access=AccessConfig(anonymous=Principal(publish="TRUE")))
        async with await gate.open(None) as nobody:
            with pytest.raises(AccessDenied, match="send a token"):
                await nobody.publish(ONE, key="k")

    run(story())
