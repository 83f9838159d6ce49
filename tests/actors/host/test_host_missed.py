"""A call fails while the other side may live: the host tells its broker, in every network that heals."""

import asyncio
import time
from typing import Any

import pytest
from packed_calls import PackedCalls
from ray.exceptions import ActorDiedError
from rayvous.actors.broker import HEALING_SCHEMES
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Send, Ticked
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.messages.views import CubeBeat
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.claims import claims_of
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Deaf(PackedCalls):
    """Stands for an actor to which every call fails."""

    def __init__(self) -> None:
        self.receive = self
        self.calls = 0

    async def remote(self, *call: Any) -> None:
        self.calls += 1
        raise ConnectionError("nobody hears")


@pytest.mark.parametrize("scheme_name", [name for name in HEALING_SCHEMES if claims_of(name).views])
def test_a_call_that_failed_makes_a_broker_ask_for_another_view(scheme_name: str) -> None:
    async def run() -> None:
        one, other = scheme(scheme_name).positions(ClusterTree(2, 1).positions())
        host = BrokerHost(scheme_name, Limits.for_tests(), recovery=Recovery.for_tests())
        await host.seat([one])
        fellow, point = Deaf(), Deaf()
        await host.connect({other.broker: fellow}, rendezvous=point)
        wants = Register(1, to_filter("x > 0"))
        asking = asyncio.ensure_future(host.request(one.broker, "s", [wants]))
        while not fellow.calls:  # the other one has to be told
            await asyncio.sleep(0)
        await host.quiet()
        asking.cancel()
        effects = host.seats[one.broker].broker.handle(Ticked(time.monotonic()))
        (beat,) = [each.message for each in effects if isinstance(each, Send)]
        assert isinstance(beat, CubeBeat) and beat.wants_round

    asyncio.run(run())


@pytest.mark.parametrize("begun_anew", ["before it fails", "after it failed"])
@pytest.mark.parametrize("scheme_name", [name for name in HEALING_SCHEMES if claims_of(name).views])
def test_what_was_lost_to_the_earlier_life_of_a_broker_makes_one_ask_for_another_view(
    scheme_name: str, begun_anew: str
) -> None:
    """The view with the new life may come before its first word, and what is told under that view is lost."""

    class Dead(PackedCalls):
        def __init__(self) -> None:
            self.receive = self
            self.called, self.gate = asyncio.Event(), asyncio.Event()

        async def remote(self, *call: Any) -> None:
            self.called.set()
            await self.gate.wait()
            raise ActorDiedError

    async def run() -> None:
        one, other = scheme(scheme_name).positions(ClusterTree(2, 1).positions())
        host = BrokerHost(scheme_name, Limits.for_tests(), recovery=Recovery.for_tests())
        await host.seat([one])
        dead, alive = Dead(), Deaf()
        await host.connect({other.broker: dead}, rendezvous=Deaf())
        asking = asyncio.ensure_future(host.request(one.broker, "s", [Register(1, to_filter("x > 0"))]))
        await dead.called.wait()
        if begun_anew == "before it fails":
            await host.relink(other.broker, alive, 1)
            dead.gate.set()
            await host.quiet()
        else:
            dead.gate.set()
            await host.quiet()
            await host.relink(other.broker, alive, 1)
        asking.cancel()
        effects = host.seats[one.broker].broker.handle(Ticked(time.monotonic()))
        (beat,) = [each.message for each in effects if isinstance(each, Send)]
        assert isinstance(beat, CubeBeat) and beat.wants_round

    asyncio.run(run())


@pytest.mark.parametrize("scheme_name", [name for name in HEALING_SCHEMES if not claims_of(name).views])
def test_a_call_that_failed_is_told_to_a_broker_with_any_options(scheme_name: str) -> None:
    async def run() -> None:
        above, below = ClusterTree(2, 1).positions()
        host = BrokerHost(scheme_name, Limits.for_tests(), recovery=Recovery.for_tests())
        await host.seat([below])
        parent = Deaf()
        await host.connect({above.broker: parent}, rendezvous=Deaf())
        events = Events(batch_of([{"x": 1}], publisher="p", first_sequence=1))
        await host.request(below.broker, "p", [events])
        await host.quiet()
        survey = (await host.survey())[below.broker]
        assert parent.calls > 0
        assert survey["parent"] is None and survey["searching"], (
            "it joins anew, and what was lost comes again"
        )

    asyncio.run(run())
