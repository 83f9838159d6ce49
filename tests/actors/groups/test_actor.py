"""A group's actor on an event loop, with a subscriber that only answers: what is stored, and when it is confirmed."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_groups import Subscriber, begun
from patience import PATIENCE_SECONDS
from rayvous.actors.groups import actor as module
from rayvous.actors.network.network import Network
from rayvous.clients.group import Hold
from rayvous.protocol.errors import BrokerUnavailable, InputError, NameTaken
from rayvous.recovery.durability.codec import decode, encode
from rayvous.routing.language.questions import to_filter


def holding(*numbers: int) -> dict[tuple[str, int], Hold]:
    return {("p", number): Hold(None, (1, number)) for number in numbers}


def numbers(portion: Any) -> list[int]:
    return [] if portion.batch is None else portion.batch.sequence.tolist()


def test_an_acknowledgement_is_confirmed_when_it_is_stored_and_those_that_come_meanwhile_go_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber)
        await group.ready()
        subscriber.come(*[{"n": n} for n in range(5)])
        portion = await group.poll("a", False, True)
        assert numbers(portion) == [1, 2, 3, 4, 5] and portion.deliveries == (1,) * 5
        subscriber.may_store.clear()
        calls = [asyncio.create_task(group.settle("a", [("p", number)])) for number in (2, 3, 5)]
        await asyncio.sleep(0)
        assert not any(call.done() for call in calls)
        subscriber.may_store.set()
        await asyncio.gather(*calls)
        assert [beside["done"] for _, beside in subscriber.stored] in (
            [{"p": [(2, 3), (5, 5)]}],
            [{"p": [(2, 2)]}, {"p": [(2, 3), (5, 5)]}],
        )
        assert decode(encode(subscriber.stored[-1])) == subscriber.stored[-1], "stores beside brokers take it"
        settled = await group.settle("a", [("p", 1), ("p", 9)])
        assert settled.foreign == (("p", 9),)
        assert subscriber.stored[-1] == ({"p": 3}, {"done": {"p": [(5, 5)]}, "tries": {"p": {4: 1}}})
        assert await group.claim("b", holding(4)) == (("p", 4),)
        before = len(subscriber.stored)
        assert (await group.settle("b", [("p", 4)])).foreign == (("p", 4),) and len(
            subscriber.stored
        ) == before
        subscriber.refuses = BrokerUnavailable("not now")
        with pytest.raises(BrokerUnavailable, match="not now"):
            await group.settle("a", [("p", 4)])
        subscriber.refuses = None
        assert (await group.settle("a", [("p", 4)])).foreign == (), "it may be repeated"
        assert subscriber.stored[-1][0] == {"p": 5}
        before = len(subscriber.stored)
        assert (await group.settle("a", [("p", 4)])).foreign == () and len(subscriber.stored) == before
        assert (await group.settle("b", [("p", 4)])).foreign == (("p", 4),)

    asyncio.run(run())


def test_a_worker_that_leaves_while_it_polls_gets_nothing_and_others_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber, silent_seconds=PATIENCE_SECONDS)
        await group.ready()
        polls = [asyncio.create_task(group.poll(name, False, True)) for name in "ab"]
        await asyncio.sleep(0)
        await group.leave("a")
        assert (await polls[0]).batch is None and await group.workers() == {"b": 0}
        subscriber.come({"n": 1}, {"n": 2})
        assert numbers(await polls[1]) == [1, 2]

    asyncio.run(run())


def test_a_later_process_hears_what_workers_hold_and_a_repeated_acknowledgement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        subscriber = Subscriber({"done": {"p": [(3, 3)]}, "tries": {"p": {2: 4}}}, {"p": 1})
        group = begun(monkeypatch, subscriber, restarted=True, silent_seconds=30.0)
        await group.ready()
        assert (await group.poll("a", True, True)).stranger
        assert await group.claim("a", holding(2, 3)) == (("p", 3),)
        subscriber.come(*[{"n": n} for n in range(2, 6)], first=2)
        assert (await group.settle("a", [("p", 3)])).foreign == (), "it was the same call before"
        assert (await group.settle("b", [("p", 4)])).stranger, "its worker has not joined yet"
        assert await group.workers() == {"a": 1}
        assert await group.claim("b", holding(4, 5)) == ()
        assert (await group.settle("b", [("p", 4)])).foreign == ()
        assert await group.workers() == {"a": 1, "b": 1}, "it keeps the rest"
        assert (await group.settle("a", [("p", 2)])).foreign == ()
        assert subscriber.stored[-1] == ({"p": 1}, {"done": {"p": [(2, 4)]}, "tries": {"p": {5: 1}}})

    asyncio.run(run())


def test_what_is_done_before_a_later_process_has_heard_its_workers_is_let_go_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        subscriber = Subscriber({"done": {}, "tries": {}}, {"p": 1})
        group = begun(monkeypatch, subscriber, restarted=True, silent_seconds=0.3)
        await group.ready()
        assert await group.claim("a", holding(2)) == ()
        subscriber.come({"n": 2}, first=2)
        assert (await group.settle("a", [("p", 2)])).foreign == ()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while subscriber.stored[-1] != ({"p": 2}, {"done": {}, "tries": {}}):
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_later_process_begins_although_nobody_asks_and_tries_again_while_its_network_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        subscriber, tries = Subscriber({"done": {}, "tries": {"p": {1: 1}}}), []
        monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
        group = begun(monkeypatch, subscriber, restarted=True, silent_seconds=0.05)
        attach = Network.attach

        def not_at_once(name: str) -> Network:
            tries.append(name)
            if len(tries) == 1:
                raise BrokerUnavailable("not yet")
            return attach(name)

        monkeypatch.setattr(Network, "attach", not_at_once)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not hasattr(subscriber, "more"):
                await asyncio.sleep(0.001)
        assert tries == ["flights"] * 2
        subscriber.come({"n": 1})
        portion = await group.poll("b", False, True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not numbers(portion):  # workers may say first what they hold
                portion = await group.poll("b", True, True)
        assert numbers(portion) == [1] and portion.deliveries == (2,)

    asyncio.run(run())


def test_what_is_delivered_too_often_is_a_dead_letter_and_then_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber, deliveries_max=1)
        await group.ready()
        subscriber.come({"n": 1})
        assert numbers(await group.poll("a", False, True)) == [1]
        assert (await group.settle("a", [], [(("p", 1), 0.0)])).withdrawn == (("p", 1),)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not subscriber.stored or subscriber.stored[-1][0] != {"p": 1}:
                await asyncio.sleep(0.01)
        assert subscriber.letters == [
            ("p", 1, {"n": 1}, "deliveries: 1, and at the last one worker 'a' refused it")
        ]

    asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


def test_an_acknowledgement_that_could_not_be_stored_is_stored_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber)
        await group.ready()
        subscriber.come({"n": 1})
        await group.poll("a", False, True)
        subscriber.refuses = BrokerUnavailable("not now")
        with pytest.raises(BrokerUnavailable):
            await group.settle("a", [("p", 1)])
        subscriber.refuses = None
        await until(lambda: bool(subscriber.stored))
        assert subscriber.stored[-1][0] == {"p": 1}

    asyncio.run(run())


def test_a_broker_that_does_not_answer_or_fails_keeps_nothing_else_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber, deliveries_max=1)
        await group.ready()
        subscriber.come({"n": 1})
        await group.poll("a", False, True)
        subscriber.may_give_up.clear()
        subscriber.unexpected = [ValueError("what is that")]
        await group.settle("a", [], [(("p", 1), 0.0)])
        await until(lambda: not group._machine.workers)  # it is silent, and time is looked at
        assert not subscriber.letters
        subscriber.may_give_up.set()
        await until(lambda: bool(subscriber.letters))
        assert "what is that" in caplog.text

    asyncio.run(run())


def test_it_takes_no_more_than_its_window_above_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "WINDOW_MAX", 3)
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber)
        await group.ready()
        for number in range(1, 6):
            subscriber.come({"n": number}, first=number)
        assert len(subscriber.arrivals) == 2
        assert numbers(await group.poll("a", False, True)) == [1, 2, 3]
        await group.settle("a", [("p", 2), ("p", 3)])
        assert len(subscriber.arrivals) == 2, "the oldest is not done"
        await group.settle("a", [("p", 1)])
        assert not subscriber.arrivals and numbers(await group.poll("a", True, True)) == [4, 5]

    asyncio.run(run())


def test_it_takes_no_more_while_what_is_not_done_has_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "WINDOW_BYTES_MAX", 1)
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber)
        await group.ready()
        subscriber.come({"n": 1}, {"n": 2})
        subscriber.come({"n": 3}, first=3)
        assert numbers(await group.poll("a", False, True)) == [1, 2]
        await group.settle("a", [("p", 2)])
        assert len(subscriber.arrivals) == 1
        await group.settle("a", [("p", 1)])
        assert numbers(await group.poll("a", True, True)) == [3] and group._bytes > 0
        await group.settle("a", [("p", 3)])
        assert group._bytes == 0

    asyncio.run(run())


def test_one_subscription_and_the_end_are_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber)
        assert await group.subscribe(to_filter("n > 1")) == await group.subscribe(to_filter("n > 1")) == 1
        with pytest.raises(InputError, match="group 'w' has subscribed to n > 1, not to n > 2"):
            await group.subscribe(to_filter("n > 2"))
        begin = time.monotonic()
        assert (await group.poll("a", False, True)).batch is None
        assert time.monotonic() - begin >= 0.1 - 0.01, "a poll waits, and says that the worker lives"
        poll = asyncio.create_task(group.poll("a", True, True))
        await asyncio.sleep(0)
        subscriber.error = NameTaken("group:w was taken over")
        subscriber.more()
        assert (await poll).over == "group:w was taken over"

    asyncio.run(run())


@pytest.mark.parametrize("used", ["not", "by a worker", "by a subscription"])
def test_a_group_without_a_subscription_and_without_a_worker_ends(
    monkeypatch: pytest.MonkeyPatch, used: str
) -> None:
    """Its first worker was refused: many names, all refused, would be as many processes."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.001)
    looks: list[str] = []

    async def run() -> None:
        subscriber = Subscriber()
        group = begun(monkeypatch, subscriber, silent_seconds=PATIENCE_SECONDS)
        monkeypatch.setattr(module, "has_ended", lambda network: looks.append(network))
        await group.claim("a", {})
        if used == "by a subscription":
            await group.subscribe(to_filter("n > 1"))
        if used != "by a worker":
            await group.leave("a")
        before = len(looks)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not subscriber.ended.is_set() and len(looks) < before + 5:
                await asyncio.sleep(0)
        assert subscriber.ended.is_set() == (used == "not") == bool(group._over)

    asyncio.run(run())


def test_no_other_client_has_the_name_of_a_group() -> None:
    with pytest.raises(
        InputError, match=r"'group:work' is the durable .* use subscriber\('work', group=True\)"
    ):
        Network.subscriber(object.__new__(Network), "group:work", durable=True)
