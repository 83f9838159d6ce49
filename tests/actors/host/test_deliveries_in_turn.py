"""Deliveries that wait for a commit while their durable subscriber comes back or catches up: in order, and all of them.

Reference: promises 1 and 3; docs/decisions/0015-exactly-once.md.
"""

import asyncio
import random
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.requests import Away, Request
from rayvous.actors.host.sessions import DeliveryBatch
from rayvous.actors.later import Later
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.pubsub import Consumed, Events, Register, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stable import Stable
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

ANY = to_filter("x >= 0")
LIMITS = Limits.for_tests()


def go(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


class Disk:
    """The store of the broker of a host: commits wait while it is shut."""

    def __init__(self, host: BrokerHost) -> None:
        commits = host.hosted_brokers[0].commits
        assert commits is not None
        self.commits, self.open = commits, threading.Event()
        self.open.set()
        self._commit = commits._store.commit
        self.patch = patch.multiple(commits._store, commit=self._late, may_wait=lambda writes: True)

    def _late(self, writes: Any) -> None:
        assert self.open.wait(PATIENCE_SECONDS)
        self._commit(writes)


async def host_in(folder: Path, limits: Limits = LIMITS) -> BrokerHost:
    host = BrokerHost("hybrid", limits, recovery=Recovery.for_tests(), stable=Stable(folder))
    await host.start_brokers(ClusterTree(1, 1).positions())
    await host.connect({})
    return host


async def attached(host: BrokerHost, session: str) -> None:
    """Attach a durable subscriber in its first incarnation, and let it subscribe."""
    for message in (Resume({}, incarnation=1), Register(1, ANY)):
        await host.request(0, "s", [message], session)


def published(host: BrokerHost, number: int) -> Coroutine[Any, Any, Any]:
    return host.request(0, "p", [Events(batch_of([{"x": 1}], publisher="p", first_sequence=number))])


def taken(machine: SubscriberMachine, deliveries: list[Any]) -> list[int]:
    """Return the numbers that a subscriber accepts of what its poll has brought."""
    return [
        sequence
        for each in deliveries
        if isinstance(each, DeliveryBatch)
        for sequence in each.batch.sequence[machine.admit(each.batch, each.rows)].tolist()
    ]


def test_what_waits_for_a_commit_does_not_overtake_what_a_subscriber_gets_again_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        host = await host_in(tmp_path)
        disk = Disk(host)
        with disk.patch:
            await attached(host, "dies")
            await published(host, 1)
            disk.open.clear()
            second = asyncio.create_task(published(host, 2))
            while disk.commits.idle:
                await asyncio.sleep(0)
            again = [Resume({}, incarnation=2, numbers=(1,)), Register(1, ANY, admitted=True)]
            back = asyncio.create_task(host.request(0, "s", again, "comes"))
            while "comes" not in host.attachments.sessions:
                await asyncio.sleep(0)
            disk.open.set()
            await asyncio.gather(second, back)
            assert taken(SubscriberMachine(durable=True), await host.poll("comes", 0, 0.0)) == [1, 2]

    go(test())


def test_what_waits_for_a_commit_does_not_overtake_what_was_withheld_from_a_slow_subscriber(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        host = await host_in(tmp_path, replace(LIMITS, delivery_events_max=1))
        disk, machine = Disk(host), SubscriberMachine(durable=True)
        with disk.patch:
            await attached(host, "slow")
            for number in (1, 2, 3):  # two fill its session, the third is withheld
                await published(host, number)
            found, acknowledged = list[int](), 0
            for _ in range(2):
                deliveries: Any = await host.poll("slow", acknowledged, 0.0)
                found += taken(machine, deliveries)
                acknowledged = deliveries[-1].number
            assert found == [1, 2]
            disk.open.clear()
            fourth = asyncio.create_task(published(host, 4))
            while disk.commits.idle:
                await asyncio.sleep(0)
            poll = asyncio.create_task(host.poll("slow", acknowledged, PATIENCE_SECONDS))
            await asyncio.sleep(0)  # it has read everything
            disk.open.set()
            await fourth
            while found[-1] < 4:
                deliveries = list(await poll)
                found += taken(machine, deliveries)
                acknowledged = deliveries[-1].number if deliveries else acknowledged
                poll = asyncio.create_task(host.poll("slow", acknowledged, PATIENCE_SECONDS))
            poll.cancel()
            assert found == [1, 2, 3, 4]

    go(test())


class Drawn:
    """A durable subscriber that is slow, dies and comes back, while commits take as long as is drawn."""

    def __init__(self, host: BrokerHost, disk: Disk, rng: random.Random) -> None:
        self.host, self.disk, self.rng = host, disk, rng
        self.number = self.incarnation = self.acknowledged = self.position = self.process = 0
        self.away = False
        self.calls: list[asyncio.Task[Any]] = []
        self.done: list[str] = []

    @property
    def session(self) -> str:
        return f"process {self.process}"

    async def call(self, client: str, *messages: Request) -> None:
        """Make a call that the host has taken when this returns, and that is answered when that is stable."""
        self.calls.append(asyncio.create_task(self.host.request(0, client, messages, self.session)))
        await asyncio.sleep(0)

    async def publish(self) -> None:
        self.number += 1
        await self.call("p", Events(batch_of([{"x": 1}], publisher="p", first_sequence=self.number)))

    async def shut(self) -> None:
        self.disk.open.clear()

    async def commit(self) -> None:
        self.disk.open.set()
        await self.disk.commits.stable()

    async def come(self) -> None:
        """Come to the broker in a new process, which knows what was acknowledged."""
        self.process += 1
        self.machine, self.acknowledged = SubscriberMachine(durable=True), 0
        self.machine.marks = {"p": self.position}
        await self.resume()

    async def leave(self) -> None:
        """Leave for another broker, which does not answer."""
        if not self.away:
            self.away = True
            await self.call("s", Away())

    async def go_back(self) -> None:
        """Come again in the same process, which knows what it has read."""
        if self.away:
            await self.resume()

    async def resume(self) -> None:
        self.away = False
        self.incarnation += 1
        numbers = (1,) if self.incarnation > 1 else ()
        resume = Resume({"p": self.position}, incarnation=self.incarnation, numbers=numbers)
        await self.call("s", resume, *(Register(number, ANY, admitted=True) for number in numbers))

    async def read(self) -> None:
        deliveries: Any = list(await self.host.poll(self.session, self.acknowledged, 0.0))
        before = self.machine.marks.get("p", 0)
        found = taken(self.machine, deliveries)
        assert found == list(range(before + 1, before + 1 + len(found))), self.done
        self.acknowledged = deliveries[-1].number if deliveries else self.acknowledged

    async def acknowledge(self) -> None:
        if (read := self.machine.marks.get("p", 0)) > self.position:
            self.position = read
            await self.call("s", Consumed({"p": read}, self.incarnation))

    async def run(self, steps: int) -> None:
        await self.come()
        await self.call("s", Register(1, ANY))
        await self.commit()
        doings = [self.publish] * 4 + [
            self.shut,
            self.commit,
            self.come,
            self.read,
            self.read,
            self.acknowledge,
        ]
        doings += [self.leave, self.go_back]
        for _ in range(steps):
            do = self.rng.choice(doings)
            self.done.append(do.__name__)
            await do()
        await self.go_back()
        await self.commit()
        await asyncio.gather(*self.calls)
        while self.machine.marks.get("p", 0) < self.number:
            await self.read()


def check(folder: Path, seed: int) -> None:
    async def test() -> None:
        rng = random.Random(seed)
        host = await host_in(folder, replace(LIMITS, delivery_events_max=rng.choice((1, 3, 1000))))
        disk = Disk(host)
        with disk.patch:
            await Drawn(host, disk, rng).run(60)

    go(test())


@pytest.mark.parametrize("seed", [*range(8), 15])
def test_all_events_come_in_order_however_long_commits_take(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 40))
def test_all_events_come_in_order_with_more_seeds(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


def test_a_call_that_changes_nothing_stable_is_answered_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        host = await host_in(tmp_path)
        events = [Events(batch_of([{"x": 1}], publisher="p"))]
        await host.receive(0, 7, events)
        assert host.incoming.receive(0, 7, events) == host.incoming.node()
        disk = Disk(host)
        with disk.patch:
            disk.open.clear()
            waits = asyncio.create_task(published(host, 1))
            while disk.commits.idle:
                await asyncio.sleep(0)
            answer = host.incoming.receive(0, 7, events)
            assert not isinstance(answer, str), "it waits for what is before it"
            disk.open.set()
            assert await answer == host.incoming.node()
            await waits

    go(test())


def test_a_publisher_is_answered_without_a_task_and_when_its_events_have_found_room(tmp_path: Path) -> None:
    async def test() -> None:
        host = await host_in(tmp_path, replace(LIMITS, delivery_events_max=1))
        await host.request(0, "s", [Register(1, ANY)], "slow")
        await published(host, 1)
        for number in (2, 3):
            events = Events(batch_of([{"x": 1}], publisher="p", first_sequence=number))
            answer = host.incoming.request(0, "p", [events])
            assert isinstance(answer, Later)
            await host.hosted_brokers[0].stable()
            await asyncio.sleep(0)
            assert not answer.done, "two wait for the process, which has not polled"
            (first, *_) = await host.poll("slow", 0, 0.0)
            await host.poll("slow", first.number, 0.0)
            await answer

    go(test())
