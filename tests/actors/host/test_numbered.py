"""A host with admission control and a store: numbered client messages survive a crash, and count once.

Reference: promises 7 and 8; paper 3, section 3.1; paper 4, section 3.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.requests import Stored, questions
from rayvous.broker.admission import Admitting
from rayvous.clients.link import ClientLinks
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import ClientError, SubscriptionRejected
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Capacity,
    Unadvertise,
    WouldAdmit,
)
from rayvous.protocol.messages.pubsub import Back, Detach, Events, Numbered, Register
from rayvous.protocol.stability import Stability
from rayvous.recovery.durability.stable import Stable
from rayvous.recovery.durability.unacknowledged import TABLE
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

ANY = to_filter("x >= 0")
QUICK = Stability(retransmit_seconds=0.05)


def go(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


async def host_in(folder: Path, config: AdmissionConfig | None = None) -> BrokerHost:
    """Return the host of one broker, started from what an earlier one has left in the folder."""
    config = config or AdmissionConfig(capacity=Capacity(events_per_second=60))
    host = BrokerHost("hybrid", Limits.for_tests(), admission=config, stable=Stable(folder, stability=QUICK))
    await host.start_brokers(ClusterTree(1, 1).positions())
    await host.connect({})
    await host.begin()
    return host


async def die(host: BrokerHost) -> None:
    """Close the file, as the end of the process does."""
    assert host.ticking._task is not None
    host.ticking._task.cancel()
    store = host.hosted_brokers[0].commits
    assert store is not None
    await store.stable()
    store._store.close()  # type: ignore[attr-defined]


def advert(number: int, rate: float = 20.0) -> Advertise:
    return Advertise(number, ANY, round(rate * MICRO))


def events(first: int, count: int = 1) -> Numbered:
    batch = batch_of([{"x": 1}] * count, publisher="bob", first_sequence=first)
    return Numbered(first + count - 1, first - 1, Events(batch))


def test_only_the_last_of_what_has_numbers_is_answered() -> None:
    link = ClientLinks()
    for message in (advert(1), Unadvertise(1), advert(2)):
        link.send(message)
    assert questions("bob", link.back()) == [("bob", Advertise, 2)]
    link.send(Unadvertise(2))
    assert questions("bob", link.back()) == []


def test_what_was_advertised_is_there_after_a_crash_once_whatever_the_client_has_heard(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        link = ClientLinks()
        link.send(advert(1))
        host = await host_in(tmp_path)
        note = await host.request(0, "bob", link.back())
        assert note > 0
        await die(host)  # and the answer was lost
        host = await host_in(tmp_path)
        assert await host.request(0, "bob", link.back()) == note, "the same answer again"
        books = (await host.books())[0]
        assert books["advertisements"] == 1 and books["cpu"] == (20.0, 60.0)
        link.acknowledged("subscriptions", link.subscriptions.sent)
        link.take(note)
        link.send(Unadvertise(1))
        await host.request(0, "bob", link.back())
        await host.request(0, "bob", link.back())
        assert (await host.books())[0]["advertisements"] == 0
        await host.quiet()
        await die(host)
        host = await host_in(tmp_path)
        assert (await host.books())[0]["advertisements"] == 0
        assert not list(host.hosted_brokers[0].commits._store.rows(TABLE)), "nobody waits for an answer"  # type: ignore[union-attr]
        await die(host)

    go(test())


def test_a_new_process_of_that_name_takes_back_what_an_earlier_one_has_left(tmp_path: Path) -> None:
    async def test() -> None:
        host = await host_in(tmp_path)
        link = ClientLinks()
        for number in (1, 2):
            link.send(advert(number, 10.0))
        await host.request(0, "bob", link.back())
        assert (await host.books())[0]["advertisements"] == 2
        assert (
            await host.request(0, "bob", [Detach(), Stored("subscriptions")]) == link.subscriptions.sent == 2
        )
        fresh = ClientLinks()
        fresh.subscriptions.sent = link.subscriptions.sent
        fresh.send(advert(1, 15.0))
        assert await host.request(0, "bob", fresh.back()) > 0
        assert [
            each.rate
            for each in host.hosted_brokers[0].broker.layer(Admitting).admission.books.adverts.values()
        ] == [15 * MICRO]  # type: ignore[union-attr]
        await die(host)

    go(test())


def test_subscriptions_are_there_after_a_crash_and_dry_runs_leave_nothing(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        host = await host_in(tmp_path, AdmissionConfig(capacity=Capacity(60, entries=3)))
        for name in ("bob", "carol"):
            link = ClientLinks()
            link.send(advert(1))
            await host.request(0, name, link.back())
        await host.request(0, "alice", [Back(0)], "process")
        await host.request(0, "alice", [Register(1, ANY)], "process")
        with pytest.raises(SubscriptionRejected, match="memory"):
            await host.request(0, "alice", [Register(2, to_filter("x > 1"))], "process")
        judged = await host.request(0, "somebody", [WouldAdmit(1, to_filter("x > 1"))])
        assert not judged.admitted
        before = await host.books()
        await die(host)
        host = await host_in(tmp_path, AdmissionConfig(capacity=Capacity(60, entries=3)))
        assert await host.books() == before and before[0]["filters"] == 1
        kept = host.hosted_brokers[0].commits._store.rows(TABLE)  # type: ignore[union-attr]
        assert "somebody" not in str(list(kept))
        await die(host)

    go(test())


def test_who_publishes_too_fast_is_acknowledged_when_its_quota_allows_and_may_ask_twice(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        host = await host_in(tmp_path)
        link = ClientLinks()
        link.send(advert(1, 20.0))
        await host.request(0, "bob", link.back())
        with patch.object(host.clock, "now", return_value=host.clock.now()):  # no time passes
            await host.request(0, "bob", [events(1, 40)])
            calls = [
                asyncio.create_task(host.request(0, "bob", [events(first, 4)])) for first in (41, 41, 45)
            ]
            await asyncio.sleep(0)
            assert await host.request(0, "bob", [Stored()]) == 40
        await asyncio.gather(*calls)
        assert await host.request(0, "bob", [Stored()]) == 48
        with pytest.raises(ClientError, match="49 to 59 are missing"):
            await host.request(0, "bob", [events(60)])
        assert (await host.describe())[0]["quota_waiting"] == 0
        await die(host)

    go(test())


@pytest.mark.parametrize("scheme", ["hybrid", "hypercube", "lbdd"])
def test_events_that_waited_too_long_are_dropped_and_acknowledged(tmp_path: Path, scheme: str) -> None:
    async def test() -> None:
        config = AdmissionConfig(deadline_seconds=1e-9)
        host = BrokerHost(
            scheme, Limits.for_tests(), admission=config, stable=Stable(tmp_path, stability=QUICK)
        )
        await host.start_brokers(ClusterTree(1, 1).positions())
        await host.connect({})
        await host.begin()
        link = ClientLinks()
        link.send(advert(1))
        await host.request(0, "bob", link.back())
        await host.request(0, "bob", [events(1, 5)], "", 1.0)
        found = (await host.describe())[0]
        assert found["expired_events"] == 5 and await host.request(0, "bob", [Stored()]) == 5
        await die(host)

    go(test())
