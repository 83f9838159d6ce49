"""Which requests a gateway's publisher queue carries out by the same call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

import pytest
from rayvous.gateway.publisher_queue import BEGUN_EVENTS, QUIET_TURNS, TURNS_MAX, PublisherQueue
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import BrokerUnavailable
from rayvous.protocol.gateways import GatewayLimits
from rayvous.recovery.replay.repeats import Answer, NumbersRequest

MANY = BEGUN_EVENTS + 1


class Outlet:
    """A publisher whose calls are answered when the test says so."""

    name = "alice@1"

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.answered = asyncio.Semaphore(0)

    async def publish(self, batch: EventBatch) -> int:
        self.calls.append(len(batch))
        await self.answered.acquire()
        return sum(self.calls)

    async def claim(self, requests: Sequence[NumbersRequest]) -> list[Answer]:
        raise NotImplementedError

    async def settle(self, keys: Sequence[str]) -> None:
        raise NotImplementedError

    async def flush(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def run(story: Callable[[Outlet], Coroutine[None, None, None]]) -> None:
    """Run a story with an outlet that answers everything at the end: a queue is not cancelled, it is carried out."""

    async def whole() -> None:
        outlet = Outlet()
        try:
            await story(outlet)
        finally:
            for _ in range(100):
                outlet.answered.release()

    asyncio.run(whole())


@asynccontextmanager
async def clients(queue: PublisherQueue, number: int) -> AsyncIterator[list[int]]:
    """Let clients publish `MANY` events each, again two turns after the answer, as those do that are read meanwhile."""
    accepted: list[int] = []

    async def publish() -> None:
        while True:
            accepted.append((await queue.publish(batch_of([{"n": 1}] * MANY))).first)
            await turns(2)

    tasks = [asyncio.create_task(publish()) for _ in range(number)]
    yield accepted
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_clients_that_are_answered_together_publish_together() -> None:
    async def story(outlet: Outlet) -> None:
        async with clients(PublisherQueue(outlet, GatewayLimits()), 3) as accepted:
            for _ in range(5):
                await turns(10)
                outlet.answered.release()
            assert outlet.calls == [3 * MANY] * 5
            assert accepted == [1 + MANY * number for number in range(12)]

    run(story)


def test_clients_find_each_other_although_they_began_apart() -> None:
    async def story(outlet: Outlet) -> None:
        queue = PublisherQueue(outlet, GatewayLimits())
        async with clients(queue, 1):
            await turns(3)
            async with clients(queue, 2):
                for _ in range(5):
                    await turns(10)
                    outlet.answered.release()
                assert outlet.calls[2:] == [3 * MANY] * 3

    run(story)


def test_a_client_without_company_does_not_wait() -> None:
    async def story(outlet: Outlet) -> None:
        async with clients(PublisherQueue(outlet, GatewayLimits()), 1):
            await turns(10)
            for number in range(2, 6):
                outlet.answered.release()
                await turns(2 + QUIET_TURNS)
                assert outlet.calls == [MANY] * number

    run(story)


def test_few_events_do_not_wait() -> None:
    async def story(outlet: Outlet) -> None:
        queue = PublisherQueue(outlet, GatewayLimits())
        few = batch_of([{"n": 1}])
        first = asyncio.create_task(queue.publish(few))
        rest = [asyncio.create_task(queue.publish(few)) for _ in range(3)]
        await turns(2)
        assert outlet.calls == [1]
        outlet.answered.release()
        await turns(3)
        assert outlet.calls == [1, 3]
        outlet.answered.release()
        await asyncio.gather(first, *rest)

    run(story)


def test_company_that_never_ends_is_not_waited_for() -> None:
    async def story(outlet: Outlet) -> None:
        queue = PublisherQueue(outlet, GatewayLimits())
        publishing = [asyncio.create_task(queue.publish(batch_of([{"n": 1}] * MANY))) for _ in range(2)]
        await turns(3)
        outlet.answered.release()
        for _ in range(TURNS_MAX + 3):
            publishing.append(asyncio.create_task(queue.publish(batch_of([{"n": 1}] * MANY))))
            await turns(1)
        assert outlet.calls[0] == 2 * MANY and TURNS_MAX * MANY <= outlet.calls[1] < (TURNS_MAX + 3) * MANY

    run(story)


def test_what_waits_for_company_is_refused_when_the_gateway_ends() -> None:
    async def story(outlet: Outlet) -> None:
        queue = PublisherQueue(outlet, GatewayLimits())
        many = batch_of([{"n": 1}] * MANY)
        together = [asyncio.create_task(queue.publish(many)) for _ in range(2)]
        await turns(3)
        outlet.answered.release()
        await asyncio.gather(*together)
        waits = asyncio.create_task(queue.publish(many))
        await turns(2)
        outlet.answered.release()
        await queue.close()
        with pytest.raises(BrokerUnavailable, match="the gateway ends"):
            await waits
        assert outlet.calls == [2 * MANY]

    run(story)
