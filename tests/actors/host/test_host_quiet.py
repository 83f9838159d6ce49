"""Whom a host waits for when it is asked to come to rest, and whom not."""

import asyncio
import time

import pytest
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.pubsub import Events, Register, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery.for_tests()


async def host_with(life: int) -> BrokerHost:
    """Return a host of one broker with a subscriber, durable if it has a life, for which an event waits."""
    host = BrokerHost("hybrid", Limits.for_tests(), recovery=RECOVERY)
    await host.seat(ClusterTree(1, 1).positions())
    await host.connect({})
    wanted = Register(1, to_filter("x >= 0"), admitted=bool(life))
    await host.request(0, "alice", [Resume({}, life=life), wanted] if life else [wanted], "first")
    await host.request(0, "bob", [Events(batch_of([{"x": 1}], publisher="bob", first_sequence=1))])
    assert len(host.attachments.sessions["first"]) == 1
    return host


def silence(host: BrokerHost) -> None:
    """Let the subscriber's process have been silent for long, not for long enough to be gone."""
    host.attachments.sessions["first"].heard(time.monotonic() - RECOVERY.client_patience_seconds - 1.0)


@pytest.mark.parametrize(("life", "silent", "waits"), [(1, False, True), (1, True, False), (0, True, True)])
def test_only_a_durable_subscribers_process_that_is_silent_is_not_waited_for(
    life: int, silent: bool, waits: bool
) -> None:
    async def run() -> None:
        host = await host_with(life)
        if silent:
            silence(host)
        resting = asyncio.get_running_loop().create_task(host.quiet())
        for _ in range(20):
            await asyncio.sleep(0)
        assert resting.done() is not waits
        resting.cancel()

    asyncio.run(run())


def test_what_waits_for_a_process_is_let_go_when_another_one_takes_its_name_over() -> None:
    async def run() -> None:
        host = await host_with(1)
        before = host.attachments.sessions["first"]
        again = [Resume({}, life=2, numbers=(1,)), Register(1, to_filter("x >= 0"), admitted=True)]
        await host.request(0, "alice", again, "second")
        assert "first" not in host.attachments.sessions and before.ended and not len(before)
        assert len(host.attachments.sessions["second"]) == 1, (
            "what is not acknowledged comes to the next process"
        )

    asyncio.run(run())
