"""What a hypercube needs of its hosts: clients move on request, brokers leave, and all have one view."""

import asyncio
from typing import Any

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.sessions import Proposal
from rayvous.actors.network.convergence import state_of
from rayvous.actors.network.rendezvous import Directory, Rendezvous
from rayvous.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Received, Ticked
from rayvous.protocol.errors import BrokerUnavailable
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import RENDEZVOUS, LeaveNetwork, Recovery
from rayvous.protocol.messages.views import MembershipView, ViewBeat, ViewMember
from rayvous.recovery.membership.structure import current_position, problems
from rayvous.recovery.membership.views import HealingViews
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.schemes.hypercube import Hypercube
from rayvous.routing.topologies.cluster_trees import ClusterTree

POSITIONS = Hypercube.positions(ClusterTree(4, 1).positions())
SETTINGS = Recovery.for_tests()


class Nobody(PackedCalls):
    """A fake of the other brokers' actors and of the rendezvous point: accepts everything, never answers."""

    def __init__(self) -> None:
        self.receive = self
        self.told: list[Any] = []

    async def remote(self, *arguments: Any) -> None:
        self.told.append(arguments)


def test_a_broker_that_leaves_asks_its_subscribers_to_move_and_then_takes_nothing() -> None:
    async def test() -> None:
        host, nobody = BrokerHost("hypercube", Limits.for_tests(), recovery=SETTINGS), Nobody()
        await host.start_brokers(POSITIONS[:1])
        await host.connect({place.broker: nobody for place in POSITIONS[1:]}, nobody)
        subscribing = asyncio.create_task(host.request(0, "c", [Register(1, to_filter("x > 1"))], "process"))
        await asyncio.sleep(0)
        await host.receive(0, RENDEZVOUS, [LeaveNetwork()])  # type: ignore[list-item]
        (proposal,) = await host.poll("process", 0, 0.0)
        assert isinstance(proposal, Proposal) and proposal.client == "c" and proposal.broker in (1, 2)
        assert await host.poll("process", proposal.number, 0.0) == [], (
            "it is acknowledged as delivery batches are"
        )
        others = tuple(member for member in POSITIONS[0].view.members if member.broker)  # type: ignore[union-attr]
        await host.receive(0, RENDEZVOUS, [MembershipView(2, 2, 1, others)])  # type: ignore[list-item]
        assert (await host.survey())[0]["left"]
        with pytest.raises(BrokerUnavailable, match="has left"):
            await host.request(0, "p", [Events(batch_of([{"x": 2}], publisher="p"))])
        await host.end_session("process")
        assert (
            await asyncio.wait_for(host.quiet(), PATIENCE_SECONDS)
            and not (await host.describe())[0]["subscribers"]
        )
        subscribing.cancel()

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def survey() -> dict[int, dict[str, Any]]:
    found = {}
    for position in POSITIONS:
        healing = Broker(position, "hypercube", SETTINGS).layer(HealingViews)
        found[position.broker] = healing.survey()
    return found


def test_a_cube_as_it_was_built_has_no_problem() -> None:
    found = survey()
    assert problems(found) == [] and state_of(found) == state_of(survey())
    assert current_position(POSITIONS[0], found).children == POSITIONS[0].children


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "has view 1, the newest is 2"),
        ({"settled": False}, "waits for subscriptions"),
        ({"closed": ["c"]}, "has closed links"),
        ({"missed": (1,)}, "broker 2 has yet to repair what [1] have missed"),
        ({"view_members": (ViewMember(0, 0, 1),)}, "alive are"),
        ({"left": True}, "alive are"),
    ],
)
def test_what_is_not_as_it_should_be_is_said(change: dict[str, Any], words: str) -> None:
    found = survey()
    found[2] |= change
    assert words in " ".join(problems(found))
    assert state_of(found) != state_of(survey()) or not {"version", "left"} & change.keys()


def test_a_broker_that_left_is_no_problem_once_it_is_out() -> None:
    found = survey()
    rest = tuple(member for member in found[0]["view_members"] if member.broker != 2)
    for one in found.values():
        one["view_members"] = rest
    found[2]["left"] = True
    assert problems(found) == []


class Actor(PackedCalls):
    """A fake actor of a broker, which records what it is sent."""

    def __init__(self, got: list[Any]) -> None:
        self.receive, self._got = self, got

    def remote(self, *arguments: Any) -> None:
        self._got.append(arguments)


def test_the_rendezvous_point_places_clients_who_move_and_none_at_who_leaves() -> None:
    point, got = Rendezvous(), list[Any]()
    hosts = {broker: Actor(got) for broker in (0, 1, 2, 3, 9)}
    point.open(Directory("net", "hypercube", Limits.for_tests(), tuple(POSITIONS), hosts, None, SETTINGS))
    assert point.place("subscriber", ["a", "b"], None).brokers == [0, 1]
    assert point.relocate("subscriber", "a", 0, {}, [0], 3) == (3, hosts[3])
    assert point.place("subscriber", ["c"], None).brokers == [0], "it is as empty as the others"
    point.retire([2])
    assert point.relocate("subscriber", "a", 3, {}, [3], 2) != (2, hosts[2]), "it was asked to leave"
    with pytest.raises(BrokerUnavailable, match="gone"):
        point.place("subscriber", ["d"], 2)
    point.receive(9, [ViewBeat(0, 0, (1,), False)])
    point.receive(0, [ViewBeat(0, 1, (), False)])
    assert {to for to, *_ in got} == set(hosts), "all hear that 9 came in"
    assert all(source == RENDEZVOUS and message.version == 2 for _, source, (message,) in got)


def test_a_new_broker_holds_what_it_is_given_until_it_is_in() -> None:
    """When a view includes it, it handles what it held back: as the only member it confirms at once."""
    broker = Broker(POSITIONS[0], "hypercube", SETTINGS, incarnation=1)
    (beat,) = broker.handle(Ticked(1.0))
    assert beat.message == ViewBeat(1, 0, (), False, SETTINGS.unnoticed_seconds)  # type: ignore[union-attr]
    broker.handle(Received("s", Register(1, to_filter("x > 1"))))
    assert broker.describe()["view"] == 0 and broker.describe()["subscriptions"] == 1
    view = MembershipView(2, 0, 1, (ViewMember(0, 0, 2),))
    effects = broker.handle(Received(RENDEZVOUS, view))
    assert [type(effect).__name__ for effect in effects] == ["Confirm"], "it is alone: installed everywhere"
    broker.check()
