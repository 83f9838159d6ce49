"""Which clients a host waits for when it is asked to become quiet, and which not."""

import asyncio
import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.host import ticking
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.sessions import GivenUp
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.pubsub import Events, Flush, Register, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery.for_tests()
LIMITS = Limits.for_tests()


class Deaf:
    """A fake rendezvous point that hears, and never answers."""

    def __init__(self) -> None:
        self.receive = self

    async def remote(self, *call: Any) -> None:
        """Do nothing."""


async def host_with(
    incarnation: int, limits: Limits = LIMITS, recovery: Recovery | None = RECOVERY
) -> BrokerHost:
    """Return a host of one broker, with an event waiting for a subscriber, durable if `incarnation` is not 0."""
    host = BrokerHost("hybrid", limits, recovery=recovery)
    await host.start_brokers(ClusterTree(1, 1).positions())
    await host.connect({}, Deaf())
    wanted = Register(1, to_filter("x >= 0"), admitted=bool(incarnation))
    await host.request(
        0, "alice", [Resume({}, incarnation=incarnation), wanted] if incarnation else [wanted], "first"
    )
    await host.request(0, "bob", [Events(batch_of([{"x": 1}], publisher="bob", first_sequence=1))])
    assert len(host.attachments.sessions["first"]) == 1
    return host


def silence(host: BrokerHost) -> None:
    """Make the subscriber's process silent for longer than its patience, but not long enough to be gone."""
    host.attachments.sessions["first"].heard(time.monotonic() - RECOVERY.client_patience_seconds - 1.0)


@pytest.mark.parametrize(
    ("incarnation", "silent", "waits"), [(1, False, True), (1, True, False), (0, True, True)]
)
def test_only_a_durable_subscribers_process_that_is_silent_is_not_waited_for(
    incarnation: int, silent: bool, waits: bool
) -> None:
    async def run() -> None:
        host = await host_with(incarnation)
        if silent:
            silence(host)
        resting = asyncio.get_running_loop().create_task(host.quiet())
        for _ in range(20):
            await asyncio.sleep(0)
        assert resting.done() is not waits
        resting.cancel()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("incarnation", "heals", "goes"), [(0, True, True), (0, False, True), (1, True, False)]
)
def test_who_is_gone_is_let_go_and_nobody_waits_until_it_has_read(
    incarnation: int, heals: bool, goes: bool
) -> None:
    """Otherwise `flush` would fail forever for publishers to which a killed process had subscribed."""

    async def run() -> None:
        limits = Limits.for_tests(session_seconds=0.05)
        host = await host_with(incarnation, limits, RECOVERY if heals else None)
        await host.begin()
        flush = asyncio.ensure_future(host.request(0, "bob", [Flush(1)])) if heals else None
        if flush is not None:
            await asyncio.wait_for(flush, PATIENCE_SECONDS)
        while goes and host.hosted_brokers[0].owners:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.0 if goes else 3 * limits.session_seconds)
        assert bool(host.hosted_brokers[0].owners) is not goes
        assert (await host.poll("first", 0, 0.0) == [GivenUp()]) is goes

    asyncio.run(run())


def test_a_host_that_stood_still_lets_nobody_go_whom_it_could_not_hear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        host = await host_with(0, Limits.for_tests(session_seconds=0.05))
        stood_still = itertools.count(0.0, 1.0)
        monkeypatch.setattr(ticking, "time", SimpleNamespace(monotonic=lambda: next(stood_still)))
        await host.begin()
        await asyncio.sleep(0.2)
        assert host.hosted_brokers[0].owners and next(stood_still) >= 3.0

    asyncio.run(run())


def test_what_waits_for_a_process_is_let_go_when_another_one_takes_its_name_over() -> None:
    async def run() -> None:
        host = await host_with(1)
        before = host.attachments.sessions["first"]
        again = [Resume({}, incarnation=2, numbers=(1,)), Register(1, to_filter("x >= 0"), admitted=True)]
        await host.request(0, "alice", again, "second")
        assert "first" not in host.attachments.sessions and before.ended and not len(before)
        assert len(host.attachments.sessions["second"]) == 1, (
            "what is not acknowledged comes to the next process"
        )

    asyncio.run(run())
