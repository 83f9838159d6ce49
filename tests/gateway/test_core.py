"""Sessions and streams: rights, rates, limits, slow clients, durable names."""

from __future__ import annotations

import asyncio

import pytest
from rayvous.gateway.core import Accepted, Delivery, Gap
from rayvous.gateway.publisher_queue import BEGUN_EVENTS
from rayvous.protocol.errors import (
    AccessDenied,
    BrokerUnavailable,
    EventError,
    InputError,
    LimitReached,
    StreamEnded,
)
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of
from rayvous.protocol.messages.pubsub import Lost


def numbers(items):
    return [item.event["n"] for item in items if isinstance(item, Delivery)]


async def received(stream, count):
    items = []
    while sum(isinstance(item, Delivery) for item in items) < count:
        items += await stream.receive()
    return items


def test_what_is_published_comes_to_who_subscribed(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("n > 1")
            accepted = await alice.publish([{"n": 1}, {"n": 2}, {"n": 3}])
            items = await received(stream, 2)
        return accepted, items

    accepted, items = run(story())
    assert accepted == Accepted("alice", 1, 3)
    assert [(item.id, item.event["n"], item.text) for item in items] == [
        ("alice:2", 2, '{"n":2}'),
        ("alice:3", 3, '{"n":3}'),
    ]


def test_a_doubtful_selector_is_subscribed_to_and_the_doubt_is_told(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            doubtful = await alice.subscribe('n = 1 OR sym = "UK"')
            plain = await alice.subscribe("n = 1", durable="mail")
            back = await alice.subscribe(None, durable="mail")
            await alice.publish([{"n": 1}])
            return doubtful.doubts, plain.doubts, back.doubts, await received(doubtful, 1)

    doubts, *without, items = run(story())
    assert doubts == ("sym = UK compares two attributes: a string is written 'UK'",)
    assert without == [(), ()] and numbers(items) == [1]


def test_few_events_are_on_their_way_in_the_turn_in_which_they_come_and_many_wait_for_others(
    gateway, run, tokens
):
    async def story():
        gate, calls = gateway(), []
        async with await gate.open(tokens["alice"]) as alice:
            await alice.publish([{"n": 0}])
            outlet = gate.upstream.outlets[0]
            publish = outlet.publish
            outlet.publish = lambda batch: calls.append(len(batch)) or publish(batch)
            for count in (1, BEGUN_EVENTS, BEGUN_EVENTS + 1):
                asked = [asyncio.ensure_future(alice.publish([{"n": 1}] * count)) for _ in range(3)]
                await asyncio.sleep(0)
                begun = list(calls)
                await asyncio.gather(*asked)
                later = calls[len(begun) :]
                assert (begun, later) == (
                    ([count], [2 * count]) if count <= BEGUN_EVENTS else ([], [3 * count])
                )
                calls.clear()

    run(story())


def test_events_that_come_while_one_call_flies_are_the_next_call(gateway, run, tokens):
    async def story():
        gate = gateway()
        network = gate.upstream
        network.open_gate.clear()
        async with await gate.open(tokens["alice"]) as alice:
            asked = [asyncio.ensure_future(alice.publish([{"n": n}])) for n in range(50)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            network.open_gate.set()
            answers = await asyncio.gather(*asked)
        return network.calls, answers

    calls, answers = run(story())
    assert calls <= 2
    assert [answer.first for answer in answers] == list(range(1, 51))


@pytest.mark.parametrize(
    ("who", "event", "right"),
    [
        ("alice", {"anything": 1}, None),
        ("bob", {"origin": "JFK"}, None),
        ("bob", {"origin": "LGA"}, "publish"),
        ("bob", {}, "publish"),
        (None, {"public": True}, "publish"),
    ],
)
def test_who_may_publish_what(gateway, run, tokens, who, event, right):
    async def story():
        async with await gateway().open(tokens.get(who)) as session:
            await session.publish([event])

    if right is None:
        run(story())
    else:
        with pytest.raises(AccessDenied, match="the right to publish") as refused:
            run(story())
        assert refused.value.right == right


@pytest.mark.parametrize(
    ("who", "selector", "narrow", "brings"),
    [
        ("alice", "TRUE", False, "TRUE"),
        ("bob", "origin = 'JFK' AND dep_delay > 60", False, "dep_delay > 60 AND origin = 'JFK'"),
        ("bob", "dep_delay > 60", False, None),
        ("bob", "dep_delay > 60", True, "dep_delay > 60 AND origin IN ('JFK', 'LGA')"),
        ("bob", "origin = 'EWR'", True, None),
        (None, "public = TRUE AND x = 1", False, "public = TRUE AND x = 1"),
        (None, "x = 1", False, None),
    ],
)
def test_who_may_subscribe_to_what(gateway, run, tokens, who, selector, narrow, brings):
    async def story():
        async with await gateway().open(tokens.get(who)) as session:
            return str((await session.subscribe(selector, narrow=narrow)).filter)

    if brings is None:
        with pytest.raises(AccessDenied) as refused:
            run(story())
        assert refused.value.right == "subscribe"
    else:
        assert run(story()) == brings


def test_a_slow_client_is_shed_by_name_and_slows_nobody(gateway, run, tokens):
    async def story():
        gate = gateway(GatewayLimits(queue_events_max=10))
        async with await gate.open(tokens["alice"]) as alice:
            slow, fast = await alice.subscribe("TRUE"), await alice.subscribe("TRUE")
            seen = []
            for n in range(100):
                await alice.publish([{"n": n}])
                seen += await received(fast, 1)
            return seen, await slow.receive(), slow.shed

    seen, items, shed = run(story())
    assert numbers(seen) == list(range(100))
    assert items[0] == Gap("slow", 90, {"alice": (1, 90)})
    assert numbers(items) == list(range(90, 100))
    assert shed == 90


def test_a_slow_client_is_cut_off_where_the_limits_say_so(gateway, run, tokens):
    async def story():
        gate = gateway(GatewayLimits(queue_events_max=10, slow="cut"))
        async with await gate.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE")
            await alice.publish([{"n": n} for n in range(100)])
            while True:
                await received(stream, 1)

    with pytest.raises(StreamEnded, match="too slow: 10 deliveries"):
        run(story())


def test_a_durable_stream_waits_and_loses_nothing(gateway, run, tokens):
    async def story():
        gate = gateway(GatewayLimits(queue_events_max=10, unacknowledged_max=1000))
        async with await gate.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE", durable="mail")
            await alice.publish([{"n": n} for n in range(100)])
            await asyncio.sleep(0.01)
            most = len(stream._queue)
            return most, await received(stream, 100)

    most, items = run(story())
    assert most == 10
    assert numbers(items) == list(range(100))


def test_a_durable_stream_hands_out_no_more_than_may_be_unacknowledged(gateway, run, tokens):
    async def story():
        gate = gateway(GatewayLimits(unacknowledged_max=5))
        async with await gate.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE", durable="mail")
            await alice.publish([{"n": n} for n in range(12)])
            first = await received(stream, 5)
            none = await stream.receive(timeout_seconds=0.02)
            held = stream.held
            await stream.acknowledge(first[3].id)
            return first, none, held, await stream.receive(), gate.upstream.feeds[0].writes

    first, none, held, then, writes = run(story())
    assert (numbers(first), none, held) == ([0, 1, 2, 3, 4], [], True)
    assert numbers(then) == [5, 6, 7, 8]
    assert writes == [{"alice": 4}]


def test_a_durable_name_goes_on_behind_the_last_id_at_another_gateway(gateway, run, tokens):
    async def story():
        one = gateway()
        async with await one.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE", durable="mail")
            async with await one.open(tokens["bob"]) as bob:
                await alice.publish([{"n": 0}])
                await bob.publish([{"n": 1, "origin": "JFK"}])
                await alice.publish([{"n": 2}])
            items = await received(stream, 3)
        other = gateway(network=one.upstream)
        async with await other.open(tokens["alice"]) as alice:
            stream = await alice.subscribe(None, durable="mail", after=items[1].id)
            assert str(stream.filter) == "TRUE"
            again = await stream.receive()
            await alice.unsubscribe("mail")
            with pytest.raises(InputError, match="no such name"):
                await alice.subscribe(None, durable="mail")
        return items, again

    items, again = run(story())
    assert numbers(items) == [0, 1, 2]
    assert numbers(again) == [2]


def test_who_opens_a_durable_name_again_takes_it_over(gateway, run, tokens):
    async def story():
        gate = gateway()
        first, second = await gate.open(tokens["alice"]), await gate.open(tokens["alice"])
        before = await first.subscribe("TRUE", durable="mail")
        await second.subscribe("TRUE", durable="mail")
        with pytest.raises(StreamEnded, match="opened again elsewhere"):
            await before.receive()
        await gate.close()
        assert gate.streams == gate.sessions == 0
        assert gate.upstream.feeds == gate.upstream.outlets == []

    run(story())


def test_an_id_is_acknowledged_only_by_the_stream_that_it_is_of(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice, await gate.open(tokens["bob"]) as bob:
            mine = await alice.subscribe("TRUE", durable="mail")
            its = await bob.subscribe("origin = 'JFK'", durable="mail")
            await alice.publish([{"n": 0, "origin": "JFK"}])
            [item] = await mine.receive()
            with pytest.raises(InputError, match="not the id of a delivery of this stream"):
                await its.acknowledge(item.id)
            with pytest.raises(InputError, match="not the id"):
                await mine.acknowledge(item.id.replace("alice:1", "alice:9"))
            await mine.acknowledge(item.id)

    run(story())


def test_what_the_network_lost_is_told(gateway, run, tokens):
    async def story():
        gate = gateway()
        async with await gate.open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE", durable="mail")
            gate.upstream.lose("alice/mail", Lost("faa", 3, 5), Lost("faa", 7, 8))
            return await stream.receive()

    assert run(story()) == [Gap("network", None, {"faa": (3, 8)})]


def test_a_stream_that_is_not_durable_says_that_it_was_away(gateway, run, tokens):
    async def story():
        async with await gateway().open(tokens["alice"]) as alice:
            stream = await alice.subscribe("TRUE", after="alice:7")
            return await stream.receive()

    assert run(story()) == [Gap("absent")]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_who_publishes_too_fast_waits_a_little_and_is_refused_beyond(gateway, run):
    access = AccessConfig(anonymous=Principal(publish="TRUE", events_per_second=10, burst_events=10))

    async def story():
        gate = gateway(GatewayLimits(rate_wait_seconds=0.01), access)
        gate.clock = Clock()
        async with await gate.open(None) as session:
            await session.publish([{}] * 10)
            with pytest.raises(LimitReached, match=r"retry in 0.1 s \(events_per_second\)") as refused:
                await session.publish([{}])
            gate.clock.now = 1.0
            await session.publish([{}] * 10)
        return refused.value

    error = run(story())
    assert (error.limit, error.after_seconds) == ("events_per_second", pytest.approx(0.1))


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda s: s.publish([]), EventError, "there is no event"),
        (lambda s: s.publish([{"a": {"b": 1}, "a.b": 2}]), EventError, "attribute 'a.b' occurs twice"),
        (lambda s: s.publish([{"n": 1}] * 11), LimitReached, "batch_events_max"),
        (lambda s: s.subscribe("a = 1 AND" * 100), InputError, "selector_characters_max"),
        (lambda s: s.subscribe("(a = 1"), InputError, "line 1"),
        (lambda s: s.subscribe("a > 10 -- 5"), InputError, "-- begins a comment in SQL, .*: leave it out"),
        (lambda s: s.subscribe("EXISTS(a)"), InputError, "write a IS NOT NULL"),
        (lambda s: s.subscribe(None), InputError, "a selector is missing"),
        (lambda s: s.subscribe("a = 1", durable="\n"), InputError, "durable"),
        (lambda s: s.subscribe("a = 1", durable="mail", after="x:1"), InputError, "not the id"),
        (lambda s: s.acknowledge("mail", "x"), InputError, "not open here"),
        (lambda s: s.unsubscribe("mail"), InputError, "no such name"),
    ],
)
def test_what_cannot_be_is_refused_with_words(gateway, run, tokens, ask, error, words):
    async def story():
        gate = gateway(GatewayLimits(batch_events_max=10, selector_characters_max=100))
        async with await gate.open(tokens["alice"]) as alice:
            with pytest.raises(error, match=words):
                await ask(alice)
        assert gate.streams == 0
        assert gate.upstream.feeds == []

    run(story())


def test_principals_have_limits_of_their_own(gateway, run):
    mine = Principal((digest_of("t"),), "TRUE", "TRUE", connections_max=1, streams_max=2, durables_max=1)

    async def story():
        gate = gateway(access=AccessConfig({"me": mine}))
        session = await gate.open("t")
        with pytest.raises(LimitReached, match="connections_max"):
            await gate.open("t")
        stream = await session.subscribe("TRUE", durable="one")
        with pytest.raises(LimitReached, match="durables_max"):
            await session.subscribe("TRUE", durable="two")
        await session.subscribe("TRUE")
        with pytest.raises(LimitReached, match="streams_max"):
            await session.subscribe("TRUE")
        await stream.close()
        await session.subscribe("TRUE")
        await session.close()
        await gate.open("t")

    run(story())


def test_durable_names_that_are_opened_at_once_are_counted_one_by_one(gateway, run):
    mine = Principal((digest_of("t"),), "TRUE", "TRUE", durables_max=4, streams_max=64)

    async def story():
        gate = gateway(access=AccessConfig({"me": mine}))
        session = await gate.open("t")
        asked = [session.subscribe("TRUE", durable=f"n{n}") for n in range(20)]
        opened = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in opened if isinstance(each, LimitReached)]
        assert (len(refused), len(gate.upstream.kept), gate.streams) == (16, 4, 4)
        assert gate.counts["refused.durables_max"] == 16

    run(story())


def test_the_limit_of_durable_names_is_in_the_way_of_opening_only(gateway, run):
    mine = Principal((digest_of("t"),), "TRUE", "TRUE", durables_max=1)

    async def story():
        network = gateway().upstream
        one, other = (gateway(access=AccessConfig({"me": mine}), network=network) for _ in range(2))
        first = await one.open("t")
        await (await first.subscribe("TRUE", durable="old")).close()
        second = await other.open("t")
        await second.subscribe("TRUE", durable="new")
        with pytest.raises(InputError, match="not open here"):
            await second.acknowledge("old", "me:1;x")
        await second.unsubscribe("old")
        assert set(network.kept) == {"me/new"}

    run(story())


@pytest.mark.parametrize("broken", [False, True])
def test_a_durable_name_that_cannot_be_opened_is_not_left_behind(gateway, run, tokens, broken):
    async def story():
        gate = gateway()
        session = await gate.open(tokens["alice"])
        if broken:  # the id is valid, but its position cannot be written
            stream = await session.subscribe("TRUE", durable="mail")
            await session.publish([{"n": 1}])
            after = (await received(stream, 1))[0].id
            await session.unsubscribe("mail")
            feed = gate.upstream.feed

            async def fails(marks):
                raise BrokerUnavailable("the broker is gone")

            async def attached(principal, durable):
                made = await feed(principal, durable)
                made.acknowledge = fails
                return made

            gate.upstream.feed = attached
        with pytest.raises(BrokerUnavailable if broken else InputError):
            await session.subscribe("TRUE", durable="mail", after=after if broken else "none")
        assert (gate.upstream.kept, gate.upstream.feeds, gate.streams) == ({}, [], 0)

    run(story())


def test_all_that_is_worked_on_at_once_is_bounded(gateway):
    gate = gateway(GatewayLimits(bodies_bytes_max=100))
    with gate.working(60):
        with pytest.raises(LimitReached, match="bodies_bytes_max"), gate.working(50):
            pass
        with gate.working(40):
            pass
    with gate.working(100):
        pass


@pytest.mark.parametrize(
    ("token", "login", "said"),
    [
        ("wrong", None, "not known"),
        ("token-of-alice", "bob", "do not go together"),
        ("\ud800", None, "not known"),
    ],
)
def test_who_is_not_known_does_not_come_in(gateway, run, token, login, said):
    with pytest.raises(AccessDenied, match=said) as refused:
        run(gateway().open(token, login))
    assert refused.value.right == "token"


def test_without_a_token_only_where_the_file_says_so(gateway, run, tokens):
    only = AccessConfig({"alice": Principal((digest_of("t"),))})
    with pytest.raises(AccessDenied, match="a token is missing"):
        run(gateway(access=only).open(None))
    assert run(gateway().open(None)).principal == "anonymous"
