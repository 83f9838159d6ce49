"""Requests of clients to a host: one method for all, answered when the broker has carried them out."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import ANY as ANYTHING
from unittest.mock import patch

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.requests import Accepted, Answers, Away, Lacking, Request, questions
from rayvous.faults.real.damage import Damage
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Write
from rayvous.protocol.errors import (
    BrokerLeaving,
    BrokerUnavailable,
    ClientError,
    InputError,
    NameTaken,
    RateExceeded,
    StateDamaged,
)
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Advertise, WouldAdmit
from rayvous.protocol.messages.pubsub import (
    Cancel,
    Consumed,
    Detach,
    Events,
    Flush,
    HasPublished,
    ReadClock,
    Register,
    Resume,
)
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.identity import IDENTITY
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.recovery.durability.stable import Stable
from rayvous.recovery.durability.summed import SUMS
from rayvous.recovery.replay.replay import ACCEPTED, KEPT, Replay
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

ANY = to_filter("x >= 0")
ROOT, LEAF = (position.broker for position in ClusterTree(2, 1).positions())


def go(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


class Far(PackedCalls):
    """The actor of the other broker: calls wait until the gate is open, and then go to its host."""

    def __init__(self) -> None:
        self.receive = self
        self.host: BrokerHost
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls = 0

    async def remote(self, *arguments: Any) -> None:
        self.calls += 1
        await self.gate.wait()
        await self.host.receive(*arguments)


async def pair() -> tuple[BrokerHost, Far]:
    """Return the host of the leaf of two brokers, and the handle of the root."""
    places = ClusterTree(2, 1).positions()
    hosts = {place.broker: BrokerHost("hybrid", Limits.for_tests()) for place in places}
    ways = {broker: Far() for broker in hosts}
    for place in places:
        ways[place.broker].host = hosts[place.broker]
        await hosts[place.broker].start_brokers([place])
    for host in hosts.values():
        await host.connect(ways)
    return hosts[LEAF], ways[ROOT]


async def single(recovery: Recovery | None = None) -> BrokerHost:
    host = BrokerHost("hybrid", Limits.for_tests(), recovery=recovery)
    await host.start_brokers(ClusterTree(1, 1).positions())
    await host.connect({})
    return host


def events(first: int, count: int = 1, publisher: str = "bob") -> Events:
    return Events(batch_of([{"x": 1}] * count, publisher=publisher, first_sequence=first))


async def turns(times: int = 30) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_what_is_to_be_answered() -> None:
    asked: list[Request] = [
        Resume({}), Register(1, ANY, admitted=True), Register(2, ANY), Cancel(3), Flush(4), Advertise(5, ANY, 1),
        WouldAdmit(6, ANY), Detach(), Away(), Accepted(), Consumed({}, 1), ReadClock(),
    ]  # fmt: skip
    found = [(kind, number) for _, kind, number in questions("c", asked)]
    assert found == [(Register, 2), (Flush, 4), (Advertise, 5), (WouldAdmit, 6), (ReadClock, 0)]


def test_a_client_that_is_about_to_come_is_told_the_time_of_the_broker_and_is_not_attached() -> None:
    async def test() -> None:
        host = await single(Recovery.for_tests())
        for _ in range(2):
            await host.ticking.turn()
            told = host.hosted_brokers[0].ticked_at
            assert await host.request(0, "alice", [ReadClock()], "process") == told
        assert await host.attached(0) == 0

    go(test())


def test_an_answer_is_given_once_and_to_all_that_wait_for_it() -> None:
    async def test() -> None:
        answers = Answers()
        one, other = ("c", Flush, 1), ("c", Register, 1)
        first, again, second = answers.owe(one), answers.owe(one), answers.owe(other)
        assert answers.of("c", Register) == [other] and answers.of("d", Register) == []
        answers.give(one, 7)
        answers.give(one, 8)
        answers.give(("nobody", Flush, 1))
        answers.refuse_all(ClientError("over"))
        assert await first == await again == 7
        with pytest.raises(ClientError, match="over"):
            await second
        for question in (one, one, other):
            answers.forget(question)
        assert not answers.of("c", Register) and not answers.owe(other).done()

    go(test())


def test_a_request_that_is_made_again_is_answered_with_the_first_and_registers_nothing_twice() -> None:
    async def test() -> None:
        host, way = await pair()
        way.gate.clear()
        calls = [
            asyncio.create_task(host.request(LEAF, "c", [Register(1, ANY), Register(2, ANY)], "process"))
            for _ in range(2)
        ]
        await turns()
        assert not any(call.done() for call in calls), "it is not installed up to the root"
        way.gate.set()
        await asyncio.gather(*calls)
        assert (await host.describe())[LEAF]["subscriptions"] == 2

    go(test())


def test_another_process_of_that_name_is_refused_and_does_not_take_the_answer_away() -> None:
    async def test() -> None:
        host, way = await pair()
        way.gate.clear()
        call = asyncio.create_task(host.request(LEAF, "c", [Register(1, ANY)], "process"))
        await turns()
        with pytest.raises(ClientError, match="attached to broker 1 by another process"):
            await host.request(LEAF, "c", [Register(1, ANY)], "other")
        way.gate.set()
        await call

    go(test())


def test_who_detaches_ends_what_it_waits_for() -> None:
    async def test() -> None:
        host, way = await pair()
        way.gate.clear()
        call = asyncio.create_task(host.request(LEAF, "c", [Register(n, ANY) for n in (1, 2)], "process"))
        await turns()
        await host.request(LEAF, "c", [Detach()])
        with pytest.raises(ClientError, match="of 'c' was cancelled meanwhile"):
            await call
        assert (await host.describe())[LEAF]["subscribers"] == 0
        way.gate.set()

    go(test())


def test_a_durable_subscriber_that_is_away_keeps_what_it_wants_and_a_publisher_learns_what_was_accepted() -> (
    None
):
    async def test() -> None:
        host = await single(Recovery.for_tests())
        wanted = [Resume({}, incarnation=1, numbers=(1,)), Register(1, ANY, admitted=True)]
        await host.request(0, "alice", wanted, "process")
        await host.request(0, "bob", [events(1, 3)])
        await host.request(0, "alice", [Consumed({"bob": 1}, 1)])
        await host.request(0, "alice", [Away()])
        found = (await host.describe())[0]
        assert found["subscribers"] == 0 and found["subscriptions"] == 1
        last, kept = await host.request(0, "bob", [Accepted()])
        assert last == 3 and sum(len(batch) for _, batch in kept) == 3
        assert await host.request(0, "carol", [Accepted()]) == (0, [])
        assert await host.request(0, "alice", [Lacking()]) == {}
        assert await host.request(0, "nobody", []) is None

    go(test())


def test_nothing_begins_at_a_broker_that_leaves_but_what_was_there_can_end() -> None:
    async def test() -> None:
        host = await single(Recovery.for_tests())
        await host.request(0, "alice", [Resume({}), Register(1, ANY, admitted=True)], "process")
        await host.dismiss(0)
        beginning: list[list[Request]] = [[events(1)], [Register(2, ANY)], [Resume({}), Register(2, ANY)]]
        for messages in beginning:
            with pytest.raises(BrokerLeaving):
                await host.request(0, "alice", messages, "process")
        await host.request(0, "alice", [Cancel(1)])
        await host.request(0, "alice", [Detach()])
        assert (await host.describe())[0]["subscribers"] == 0

    go(test())


def test_a_broker_that_has_left_may_be_told_again_to_let_its_clients_go() -> None:
    async def test() -> None:
        host = await single(Recovery.for_tests())
        await host.request(0, "alice", [Resume({}), Register(1, ANY, admitted=True)], "process")
        for attached in (1, 0):
            assert await host.attached(0) == attached
            await host.dismiss(0)
            await host.detach_all(0)
        assert await host.end_broker(0) == 0
        await host.dismiss(0)
        await host.detach_all(0)
        assert await host.attached(0) == 0 and await host.end_broker(0) == 0

    go(test())


async def quick(config: AdmissionConfig, rate: float) -> BrokerHost:
    """Return a host at which bob advertises `rate` events a second, which alice wants."""
    host = BrokerHost("hybrid", Limits.for_tests(), admission=config)
    await host.start_brokers(ClusterTree(1, 1).positions())
    await host.connect({})
    await host.begin()
    await host.request(0, "bob", [Advertise(1, ANY, round(rate * MICRO))])
    await host.request(0, "alice", [Register(1, ANY)], "process")
    return host


def no_time_passing(host: BrokerHost) -> AbstractContextManager[object]:
    """Let no time pass for the brokers of a host: however slow the machine is, what waits for a rate waits on."""
    return patch.object(host.clock, "now", return_value=host.clock.now())


def test_a_publisher_that_is_too_fast_is_answered_when_its_events_are_let_in() -> None:
    async def test() -> None:
        host = await quick(AdmissionConfig(), 20.0)
        with no_time_passing(host):
            await host.request(0, "bob", [events(1, 40)])
            late = asyncio.create_task(host.request(0, "bob", [events(41, 4)]))
            await turns()
            assert not late.done() and await host.request(0, "bob", [Accepted()]) == (44, [(0.0, ANYTHING)])
            assert (await host.describe())[0]["notifications"] == 40
        await late
        found = (await host.describe())[0]
        assert (found["notifications"], found["quota_held"], found["quota_waiting"]) == (44, 4, 0)

    go(test())


def test_a_publisher_that_goes_while_its_events_wait_is_told_that_they_were_not_taken() -> None:
    async def test() -> None:
        host = await quick(AdmissionConfig(), 20.0)
        with no_time_passing(host):
            await host.request(0, "bob", [events(1, 40)])
            late = asyncio.create_task(host.request(0, "bob", [events(41, 4)]))
            await turns()
            await host.request(0, "bob", [Detach()])
            with pytest.raises(ClientError, match="'bob' has gone: event 44 was not taken"):
                await late
        found = (await host.describe())[0]
        assert (found["notifications"], found["quota_waiting"], found["unadvertised_events"]) == (40, 0, 0)

    go(test())


def test_past_the_bounds_it_is_refused_with_the_reason_and_other_publishers_are_not() -> None:
    async def test() -> None:
        host = await quick(AdmissionConfig(held_events_max=5), 20.0)
        with no_time_passing(host):
            calls = [
                asyncio.create_task(host.request(0, "bob", [events(first, 40 if first == 1 else 4)]))
                for first in (1, 41, 45)
            ]
            with pytest.raises(
                RateExceeded, match="'bob' advertises 20 events/s; 4 of its events wait for that already"
            ):
                await calls[2]
        await host.request(0, "carol", [Advertise(1, ANY, 5 * MICRO)])
        await host.request(0, "carol", [events(1, publisher="carol")])
        await asyncio.gather(*calls[:2])
        found = (await host.describe())[0]
        assert (found["notifications"], found["quota_refused"]) == (45, 4)

    go(test())


def test_what_a_host_refuses() -> None:
    async def test() -> None:
        host = await single()
        with pytest.raises(BrokerUnavailable, match="broker 9 is not on this host"):
            await host.request(9, "c", [Register(1, ANY)], "process")
        with pytest.raises(InputError, match="no admission control"):
            await host.request(0, "c", [WouldAdmit(1, ANY)])

    go(test())


class Gated:
    """A store that commits when its gate is open."""

    def __init__(self, store: Any) -> None:
        self.store, self.gate = store, threading.Event()

    def commit(self, writes: Any) -> None:
        assert self.gate.wait(PATIENCE_SECONDS)
        self.store.commit(writes)

    def may_wait(self, writes: Any) -> bool:
        return True


def test_a_subscriber_that_leaves_while_its_notification_waits_for_the_disk_stops_nobody(
    tmp_path: Path,
) -> None:
    """Its delivery is carried out after it has left; the publisher is answered, the others are notified."""

    async def test() -> None:
        host = BrokerHost(
            "hybrid", Limits.for_tests(), recovery=Recovery.for_tests(), stable=Stable(tmp_path)
        )
        await host.start_brokers(ClusterTree(1, 1).positions())
        await host.connect({})
        for client in ("alice", "carol"):
            await host.request(0, client, [Register(1, ANY)], client)
        hosted = host.hosted_brokers[0]
        assert hosted.commits is not None
        hosted.commits._store = store = Gated(hosted.commits._store)
        publishing = asyncio.create_task(
            host.request(0, "bob", [Events(batch_of([{"x": 1}], publisher="bob"))])
        )
        await asyncio.sleep(0)
        leaving = asyncio.create_task(host.request(0, "alice", [Detach()]))
        while "alice" in hosted.owners:
            await asyncio.sleep(0)
        store.gate.set()
        await publishing
        await leaving
        (delivery,) = await host.poll("carol", 0, 1.0)
        assert delivery.clients == ("carol",)
        hosted.commits._store.store.close()

    go(test())


def comparing() -> Recovery:
    return Recovery.for_tests(compare_heartbeats=2.0)


def test_a_broker_that_sees_that_its_state_is_damaged_ends_and_says_nothing_more() -> None:
    """The operator of the network restarts it. Reference: paper 4, section 2."""

    async def test() -> None:
        ended: list[StateDamaged] = []
        with patch.object(BrokerHost, "_end", lambda host, error: ended.append(error)):
            host = await single(comparing())
        await host.request(0, "bob", [Events(batch_of([{"x": 1}], publisher="bob")), HasPublished(1)])
        assert not ended
        assert await host.inject(Damage(0, "numbers", "seed 2")) > 0
        accepted = host.hosted_brokers[0].broker.layer(Replay)._accepted
        accepted["bob"] = 1_000
        await host.request(0, "bob", [HasPublished(1)])
        (error,) = ended
        assert "has accepted what publisher 'bob' has not published" in str(error)

    go(test())


@pytest.mark.parametrize("compares", [True, False])
def test_a_store_that_is_damaged_is_cleared_and_its_broker_starts_clean(
    tmp_path: Path, compares: bool
) -> None:
    """Only where brokers compare; otherwise the remainder is trusted. Reference: paper 4, definition 10."""

    async def test() -> None:
        recovery = comparing() if compares else Recovery.for_tests()
        places = ClusterTree(1, 1).positions()

        async def lives(incarnation: int) -> BrokerHost:
            host = BrokerHost("hybrid", Limits.for_tests(), recovery=recovery, stable=Stable(tmp_path))
            await host.start_brokers(places, incarnation)
            await host.connect({})
            return host

        host = await lives(0)
        for number in range(1, 9):
            batch = batch_of([{"x": 1}], publisher="bob", first_sequence=number)
            await host.request(0, "bob", [Events(batch)])
        for incarnation, left in ((1, 8), (2, 0 if compares else 7)):
            assert host.hosted_brokers[0].commits is not None
            host.hosted_brokers[0].commits._store.close()
            if incarnation == 2:
                store = SqliteStore(Stable(tmp_path).backend().file_of(0))
                key, _ = next(iter(store.rows(KEPT)))
                gone = [
                    (SUMS, (table,)) for table in (ACCEPTED, IDENTITY)
                ]  # two tables have no checksums any more
                store.commit([Write(table, key, None) for table, key in [(KEPT, key), *gone]])
                store.close()
            host = await lives(incarnation)
            last, kept = await host.request(0, "bob", [Accepted()])
            assert len(kept) == left and last == (8 if left else 0)
        host.hosted_brokers[0].commits._store.close()  # type: ignore[union-attr]

    go(test())


def test_events_leave_before_the_call_that_brought_them_is_answered() -> None:
    """An answer takes CPU time, for which forwarded events would have to wait: `Driver.room`."""

    async def test() -> None:
        leaf, far = await pair()
        far.gate.clear()  # the root does not answer
        await leaf.request(LEAF, "bob", [events(1)])
        assert far.calls == 1

    go(test())


def test_a_poll_is_answered_before_the_call_that_brought_what_it_waits_for() -> None:
    async def test() -> None:
        host = await single()
        await host.request(0, "alice", [Register(1, ANY)], "process")
        poll = asyncio.create_task(host.poll("process", 0, PATIENCE_SECONDS))
        await turns()
        assert not poll.done()
        await host.request(0, "bob", [events(1)])
        assert poll.done() and len(poll.result()) == 1

    go(test())


def test_a_durable_subscriber_that_comes_back_ends_the_calls_for_what_it_does_not_name() -> None:
    """The process that made them may be dead, and nothing answers them: the broker has cancelled the subscriptions."""

    async def test() -> None:
        host = await single(Recovery.for_tests())
        wanted = [Resume({}, incarnation=1, numbers=(1,)), Register(1, ANY, admitted=True)]
        await host.request(0, "alice", wanted, "first process")
        waiting = host.hosted_brokers[0].answers.owe(("alice", Register, 2))
        other = host.hosted_brokers[0].answers.owe(("bob", Register, 2))
        again = [Resume({}, incarnation=2, numbers=(1,)), Register(1, ANY, admitted=True)]
        await host.request(0, "alice", again, "second process")
        with pytest.raises(ClientError, match="subscription 2 of 'alice' was cancelled meanwhile"):
            await waiting
        assert not other.done()

    go(test())


def test_a_call_of_an_earlier_incarnation_that_comes_late_changes_nothing() -> None:
    """It ended a call of the newer process, took the subscriber away from it, and registered in its name."""

    async def test() -> None:
        host = await single(Recovery.for_tests())
        for incarnation in (1, 2):
            wanted = [Resume({}, incarnation=incarnation, numbers=(1,)), Register(1, ANY, admitted=True)]
            await host.request(0, "alice", wanted, "newer process")
        waiting = host.hosted_brokers[0].answers.owe(("alice", Register, 2))
        late = [Resume({}, incarnation=1, numbers=(3,)), Register(3, to_filter("x < 0"), admitted=True)]
        with pytest.raises(NameTaken, match="subscriber 'alice' has come back by another call since"):
            await host.request(0, "alice", late, "dead process")
        assert not waiting.done()
        batch = batch_of([{"x": -1}, {"x": 1}], publisher="bob", first_sequence=1)
        await host.request(0, "bob", [Events(batch)])
        (delivery,) = await host.poll("newer process", 0, PATIENCE_SECONDS)
        assert (delivery.clients, delivery.batch.events()) == (("alice",), ({"x": 1},))

    go(test())
