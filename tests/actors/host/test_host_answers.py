"""Publishers advertise at a host and satisfy subscriptions there; without Ray (paper 2, 2.3(1))."""

import asyncio
from typing import Any

import pytest
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.requests import WhoAnswers
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import Advertise, Unadvertise, WouldAdmit
from rayvous.protocol.messages.pubsub import Answers, Detach, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

WANTED = to_filter("x > 0")
ADVERT = Advertise(1, WANTED, 0)


async def host_of(name: str = "hypercube", recovery: Recovery | None = None) -> BrokerHost:
    """Return a host whose one broker is the whole network."""
    host = BrokerHost(name, Limits.for_tests(), recovery=recovery)
    await host.start_brokers(scheme(name).positions(ClusterTree(1, 1).positions()))
    await host.connect({})
    return host


async def here(host: BrokerHost) -> bool:
    found: dict[int, Answers] = await host.request(0, "s", [WhoAnswers()])
    return found[1].here


@pytest.mark.parametrize("end", ["unadvertise", "detach", "session", "silence"])
def test_a_subscription_is_answered_where_publishers_satisfy_it_as_long_as_they_are_there(end: str) -> None:
    """A publisher may withdraw or detach, and its process may end or be silent for too long."""

    async def run() -> None:
        host = await host_of(recovery=Recovery.for_tests())
        await host.request(0, "p", [ADVERT], "process of p")
        await host.request(0, "s", [Register(1, WANTED, local_first=True)], "process of s")
        assert await here(host)
        host.attachments.bury()
        assert await here(host), "its process has just been heard"
        match end:
            case "unadvertise":
                await host.request(0, "p", [Unadvertise(1)])
            case "detach":
                await host.request(0, "p", [Detach()])
            case "session":
                await host.end_session("process of p")
            case "silence":
                host.attachments.sessions["process of p"].heard(float("-inf"))
                host.attachments.bury()
        assert not await here(host)
        host.hosted_brokers[0].broker.check()

    asyncio.run(run())


@pytest.mark.parametrize("name", ["hypercube", "hybrid", "lbdd"])
def test_without_admission_control_publishers_advertise_and_nobody_judges(name: str) -> None:
    async def run() -> None:
        host = await host_of(name)
        await host.request(0, "p", [ADVERT])
        with pytest.raises(InputError, match="no admission control"):
            await host.request(0, "s", [WouldAdmit(1, WANTED)])

    asyncio.run(run())


def test_a_scheme_that_takes_no_advertisements_says_so() -> None:
    async def run() -> None:
        host = await host_of()
        router: Any = host.hosted_brokers[0].broker.router
        assert Advertise in router.takes
        host.hosted_brokers[0].broker.pipeline._owners.pop(Advertise)
        with pytest.raises(InputError, match="no admission control"):
            await host.request(0, "p", [ADVERT])

    asyncio.run(run())
