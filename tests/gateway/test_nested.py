"""Events with objects and arrays at a gateway: who may publish them, and how they are delivered.

Reference: docs/decisions/0079-nested-events.md.
"""

import asyncio
import json
import threading

import pytest
from patience import PATIENCE_SECONDS
from rayvous.gateway.access import Rights
from rayvous.gateway.deliveries import Texts
from rayvous.gateway.stomp.content import event_of
from rayvous.gateway.stomp.frames import Frame
from rayvous.protocol.batch import WORK_CHARACTERS, WORK_VALUES, batch_of
from rayvous.protocol.documents import of_json
from rayvous.protocol.errors import AccessDenied, EventError
from rayvous.protocol.gateways import GatewayLimits, Principal
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.filters.filter import to_filter

EVENT = {"a": {"b": 1}, "t": [{"at": Timestamp(10**9)}, None, "x"], "n": NULL}


def test_a_right_to_publish_has_to_match_every_way_of_an_event():
    rights = Rights("alice", to_filter("tenant = 'a'"), to_filter("TRUE"), Principal())
    rights.check_publish(batch_of([{"tenant": ["a"]}, {"tenant": "a"}, {"tenant": ["a", "a"], "x": [1, 2]}]))
    with pytest.raises(AccessDenied, match="event 1: the right to publish of 'alice' does not match it"):
        rights.check_publish(batch_of([{"tenant": "a"}, {"tenant": ["a", "b"]}]))


def test_a_right_may_be_about_a_whole_array():
    rights = Rights("alice", to_filter("t CONTAINS NONE ('secret')"), to_filter("SIZE(t) < 3"), Principal())
    rights.check_publish(batch_of([{"t": ["a", "b"]}, {"t": []}]))
    with pytest.raises(AccessDenied, match="event 1"):
        rights.check_publish(batch_of([{"t": ["a"]}, {"t": ["a", "secret"]}]))
    wanted = rights.admit(to_filter("t CONTAINS ALL ('a')"), narrow=True)
    assert wanted.evaluate_batch(batch_of([{"t": ["a", "b"]}, {"t": ["a", "b", "c"]}])).tolist() == [
        True,
        False,
    ]
    with pytest.raises(AccessDenied):
        rights.admit(to_filter("t CONTAINS ALL ('a')"), narrow=False)


def test_an_event_is_told_as_it_was_published():
    told = json.loads(Texts().read(batch_of([{"x": 1}, EVENT]))[1].text)
    assert told == {"a": {"b": 1}, "t": [{"at": "1970-01-01T00:00:01Z"}, None, "x"], "n": None}


def test_what_is_nested_too_deep_is_refused_by_batches_and_not_by_the_stack():
    deep = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(EventError, match="nested more than 32 deep"):
        batch_of([of_json({"a": deep})])


def test_a_stomp_message_may_be_nested():
    frame = Frame(
        "SEND", {"destination": "/events", "content-type": "application/json"}, b'{"a": {"b": [1, null]}}'
    )
    assert batch_of([event_of(frame)]).documents() == [{"a": {"b": [1, NULL]}}]
    frame = Frame("SEND", {"destination": "/events", "content-type": "application/json"}, b'{"a": {"": 1}}')
    assert batch_of([event_of(frame)]).documents() == [{"a": {"": 1}}]


BOMB = {"origin": "JFK", **{f"k{i}": i for i in range(200)}, **{name: list(range(10)) for name in "abc"}}


def test_what_events_cost_is_charged_and_read_in_a_thread(gateway, tokens, run, monkeypatch):
    threads = []

    def read(*args, **more):
        threads.append(threading.current_thread())
        return batch_of(*args, **more)

    monkeypatch.setattr("rayvous.gateway.core.batch_of", read)
    costly = BOMB | {"texts": ["x" * WORK_CHARACTERS] * 99}

    async def work():
        core = gateway(GatewayLimits(rate_wait_seconds=0.001))
        async with await core.open(tokens["bob"]) as bob:
            assert (await bob.publish([{"origin": "JFK"}])).last == 1
            assert (await bob.publish([BOMB] * 10)).last == 11
            charged = []
            monkeypatch.setattr(bob._of, "pay", lambda work, *_: charged.append(work) or 0.0)
            await bob.publish([costly, {"origin": "JFK"}])
            assert charged == [batch_of([costly, {"origin": "JFK"}]).work] and charged[0] > 100
        await core.close()

    run(work())
    assert [each is threading.main_thread() for each in threads] == [True, False, False]


WAYS = {"origin": "JFK", "a": list(range(32)), "b": list(range(32))}


def test_nobody_waits_for_the_reading_of_events_with_many_ways(gateway, tokens, run, monkeypatch):
    """850 events of 1,024 ways each are charged for what they have, and hold up neither the loop nor a flush."""
    reading, go_on = threading.Event(), threading.Event()

    def read(events, **more):
        if len(events) == 850:
            reading.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return batch_of(events, **more)

    monkeypatch.setattr("rayvous.gateway.core.batch_of", read)

    async def work():
        core = gateway(GatewayLimits(rate_wait_seconds=60.0))
        async with await core.open(tokens["bob"]) as bob, await core.open(tokens["alice"]) as alice:
            charged = []
            monkeypatch.setattr(bob._of, "pay", lambda work, *_: charged.append(work) or 0.0)
            costly = asyncio.ensure_future(bob.publish([WAYS] * 850, flush=True))
            assert await asyncio.to_thread(reading.wait, PATIENCE_SECONDS)
            assert (await alice.publish([{"origin": "JFK"}], flush=True)).last == 1
            assert not costly.done() and not charged
            go_on.set()
            assert (await costly).last == 850
            assert charged == [850 * (1 + 63 // WORK_VALUES)]  # 63 commas in each form
        await core.close()

    run(work())


def test_who_may_publish_nothing_is_told_so_before_anything_is_made_of_it(gateway, run, monkeypatch):
    monkeypatch.setattr("rayvous.gateway.core.batch_of", None)

    async def work():
        core = gateway()
        async with await core.open(None) as nobody:
            with pytest.raises(AccessDenied, match="the right to publish of 'anonymous' is FALSE"):
                await nobody.publish([BOMB])
        assert core.counts["refused.publish"] == 1
        await core.close()

    run(work())
