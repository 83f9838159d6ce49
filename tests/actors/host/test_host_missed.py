"""A call fails while the receiver may be alive: the host tells its broker, in every network that heals."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Send, Ticked
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import ClusterBeat, ClusterView, Goodbye, Recovery, TreeBeat, Wants
from rayvous.protocol.messages.rounds import Round
from rayvous.protocol.messages.views import ViewBeat
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.claims import Membership
from rayvous.routing.schemes.registry import NAMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

IN_VIEWS = [name for name in NAMES if scheme(name).membership is Membership.VIEWS]


class Deaf(PackedCalls):
    """A fake actor to which every call fails."""

    def __init__(self) -> None:
        self.receive = self
        self.calls = 0

    async def remote(self, *call: Any) -> None:
        self.calls += 1
        raise ConnectionError("nobody hears")


async def speak(host: BrokerHost, broker: int, heard: Callable[[], bool]) -> asyncio.Future[Any]:
    """Let a broker call the others: by a subscription, or by an event where nobody is told of subscriptions."""
    asking = asyncio.ensure_future(host.request(broker, "s", [Register(1, to_filter("x > 0"))]))
    while not (heard() or asking.done()):
        await asyncio.sleep(0)
    if asking.done():
        event = Events(
            batch_of([{"x": 0}], publisher="p", first_sequence=1)
        )  # which leaves nothing to be polled here
        asking = asyncio.ensure_future(host.request(broker, "p", [event]))
    while not heard():
        await asyncio.sleep(0)
    return asking


@pytest.mark.parametrize("scheme_name", IN_VIEWS)
def test_a_call_that_failed_makes_a_broker_ask_for_another_view(scheme_name: str) -> None:
    async def run() -> None:
        one, other = scheme(scheme_name).positions(ClusterTree(2, 1).positions())
        host = BrokerHost(scheme_name, Limits.for_tests(), recovery=Recovery.for_tests())
        await host.start_brokers([one])
        member, point = Deaf(), Deaf()
        await host.connect({other.broker: member}, rendezvous=point)
        asking = await speak(host, one.broker, lambda: member.calls > 0)
        await host.quiet()
        asking.cancel()
        effects = host.hosted_brokers[one.broker].broker.handle(Ticked(time.monotonic()))
        told = [each.message for each in effects if isinstance(each, Send)]
        assert [each.wants_round for each in told if isinstance(each, ViewBeat)] == [True]

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


@pytest.mark.parametrize("begun_anew", ["before it fails", "after it failed"])
@pytest.mark.parametrize("scheme_name", IN_VIEWS)
def test_what_was_lost_to_the_earlier_life_of_a_broker_makes_one_ask_for_another_view(
    scheme_name: str, begun_anew: str
) -> None:
    """The view with the new incarnation may come before its first message; what is sent under it is lost."""

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
        await host.start_brokers([one])
        dead, alive = Dead(), Deaf()
        await host.connect({other.broker: dead}, rendezvous=Deaf())
        asking = await speak(host, one.broker, dead.called.is_set)
        if begun_anew == "before it fails":
            await host.relink(other.broker, alive, 1)
            dead.gate.set()
            await host.quiet()
        else:
            dead.gate.set()
            await host.quiet()
            await host.relink(other.broker, alive, 1)
        asking.cancel()
        effects = host.hosted_brokers[one.broker].broker.handle(Ticked(time.monotonic()))
        told = [each.message for each in effects if isinstance(each, Send)]
        assert [each.wants_round for each in told if isinstance(each, ViewBeat)] == [True]

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


class Process(PackedCalls):
    """A fake actor that records what it hears, or is dead."""

    def __init__(self, *, dead: bool = False) -> None:
        self.receive = self
        self.dead, self.heard = dead, list[Any]()

    async def remote(self, to: int, source: int, messages: Any, *said: Any) -> None:
        if self.dead:
            raise ActorDiedError
        self.heard += messages


def test_who_finds_an_actor_dead_asks_for_the_one_in_which_its_broker_was_started_again() -> None:
    """It may never send anything here, and the process that restarted it may not have reached this host."""

    async def run() -> None:
        member, above, other, below = ClusterTree(2, 2).positions()
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=Recovery.for_tests())
        await host.start_brokers([below])
        alive, asked = Process(), list[int]()

        async def whereabouts(broker: int) -> tuple[Any, int] | None:
            if broker in (member.broker, other.broker):
                return Process(), 0
            asked.append(broker)
            return (alive, 1) if len(asked) == 2 else None

        point: Any = SimpleNamespace(
            whereabouts=SimpleNamespace(remote=whereabouts), receive=SimpleNamespace(remote=Deaf().remote)
        )
        hosts = {above.broker: Process(dead=True), member.broker: Process(), other.broker: Process()}
        await host.connect(hosts, rendezvous=point)
        # The other member is asked who succeeds it, so it stays a neighbour for a while.
        view = ClusterView(above.cluster, 0, above.broker, above.members)
        await host.receive(below.broker, above.broker, [TreeBeat(view, (above.cluster,), 0)])
        for sequence in (1, 2):
            events = Events(batch_of([{"x": 1}], publisher="p", first_sequence=sequence))
            await host.request(below.broker, "p", [events])
            await host.quiet()
            await asyncio.sleep(0)
        assert len(asked) >= 2 and host.transport.incarnation_of(above.broker) == 1
        await host.quiet()
        assert any(isinstance(each, Goodbye) for each in alive.heard), "it joins anew, as something was lost"
        assert not await host.transport.current(99, 1), "who has left is not heard"

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_calls_of_a_new_life_go_on_in_the_order_in_which_they_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This includes calls that come once the incarnation is known, while earlier ones still wait for the query."""

    async def run() -> None:
        above, below = ClusterTree(2, 1).positions()
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=Recovery.for_tests())
        await host.start_brokers([below])
        answer, reborn = asyncio.Event(), Process()

        async def whereabouts(broker: int) -> tuple[Any, int]:
            await answer.wait()
            return reborn, 1

        point: Any = SimpleNamespace(whereabouts=SimpleNamespace(remote=whereabouts))
        await host.connect({above.broker: Process()}, rendezvous=point)
        came: list[Any] = []
        monkeypatch.setattr(
            host.driver, "handle", lambda hosted, source, message, pressure: came.append(message)
        )

        def call(message: Any) -> asyncio.Task[str]:
            return asyncio.create_task(host.receive(below.broker, above.broker, [message], 1))

        calls = [call(number) for number in (1, 2)]
        await asyncio.sleep(0)  # both have asked
        host.transport.relink(above.broker, reborn, 1)  # by the process that restarted it
        calls.append(call(3))
        await asyncio.sleep(0)
        assert came == []
        answer.set()
        await asyncio.gather(*calls)
        assert came == [1, 2, 3]

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


@pytest.mark.parametrize("named_first", [True, False])
def test_what_a_member_missed_before_its_new_incarnation_was_heard_of_is_sent_again(
    named_first: bool,
) -> None:
    """The heartbeat that readmits it may come before its first message; what is sent in between is lost."""

    async def run() -> None:
        low, one, other = (place.broker for place in ClusterTree(1, 3).positions())
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=Recovery.for_tests())
        await host.start_brokers([ClusterTree(1, 3).positions()[one]])
        speaks, alive = Process(), Process()
        await host.connect({other: speaks, low: Process(dead=True)}, rendezvous=Deaf())
        group = host.hosted_brokers[one].broker.layer(HealingBroker).group
        host.driver.tell_time(host.hosted_brokers[one])

        async def beat(*members: int) -> None:
            view = ClusterView(0, 1, other, members)
            await host.receive(one, other, [ClusterBeat(view, None, (), (0,), 1)])
            host.driver.tell_time(host.hosted_brokers[one])
            await host.quiet()

        async def publish(sequence: int) -> None:
            events = Events(batch_of([{"x": sequence}], publisher="p", first_sequence=sequence))
            await host.request(one, "p", [events])
            await host.quiet()

        await beat(low, one, other)
        await host.receive(one, other, [Round(RoundNumber(1, 1), 60.0)])
        await publish(1)
        await beat(one, other)
        await publish(2)
        if not named_first:
            await host.relink(low, alive, 1)
        await beat(low, one, other)
        await publish(3)
        speaks.heard.clear()
        if named_first:
            await host.relink(low, alive, 1)
        assert group.busy is named_first
        await beat(low, one, other)
        told = [each for each in speaks.heard if isinstance(each, Wants)]
        assert bool(told) is named_first, "it begins anew with all, and asks for a round"
        sent = [int(each.batch.sequence[0]) for each in alive.heard if isinstance(each, Events)]
        assert sent == ([] if named_first else [3])

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


@pytest.mark.parametrize("scheme_name", [name for name in NAMES if name not in IN_VIEWS])
def test_a_call_that_failed_is_told_to_a_broker_with_any_options(scheme_name: str) -> None:
    async def run() -> None:
        above, below = ClusterTree(2, 1).positions()
        host = BrokerHost(scheme_name, Limits.for_tests(), recovery=Recovery.for_tests())
        await host.start_brokers([below])
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

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
