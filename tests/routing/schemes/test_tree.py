"""A small tree of routers with first-in-first-out links, driven by hand in any interleaving."""

import random
from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Confirm, Deliver, Effect, Multicast, Received, Send
from rayvous.protocol.ids import GROUP, Link
from rayvous.protocol.messages.pubsub import (
    Announce,
    Cancel,
    Detach,
    Events,
    Installed,
    Message,
    Register,
    Withdraw,
)
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

FILTERS = tuple(
    map(to_filter, ("x >= 0", "x > 1", "x > 2", "x = 1", "x = 3", "x IN (1, 3)", "x < 2", "TRUE", "FALSE"))
)
FIGURE = (  # root cluster 0-1-2; child clusters 3-4 and 5; under 3-4 the cluster 6-7
    Position(0, 0, "R0", (0, 1, 2), 0, None, (3, 5)),
    Position(1, 0, "N1", (0, 1, 2), 0, None, (3, 5)),
    Position(2, 0, "N2", (0, 1, 2), 0, None, (3, 5)),
    Position(3, 1, "D3", (3, 4), 3, 0, (6,)),
    Position(4, 1, "N4", (3, 4), 3, 0, (6,)),
    Position(5, 2, "D5", (5,), 5, 0, ()),
    Position(6, 3, "D6", (6, 7), 6, 3, ()),
    Position(7, 3, "N7", (6, 7), 6, 3, ()),
)
EventId = tuple[str, int]


class Net:
    """Routers, and the messages in flight on each link; `step` delivers a message of the chosen link."""

    def __init__(self, scheme_name: str, positions: tuple[Position, ...] = FIGURE) -> None:
        maker = scheme(scheme_name)
        self.routers = {position.broker: maker(position) for position in maker.positions(positions)}
        self.links: dict[tuple[int, int, bool], deque[Message]] = {}
        self.crossed: Counter[tuple[EventId, int, int]] = Counter()
        self.confirmed: list[tuple[str, int]] = []
        self.delivered: list[tuple[str, EventId, dict[str, Any]]] = []

    def give(self, broker: int, source: Link, message: Message) -> None:
        for effect in self.routers[broker].handle(Received(source, message)):
            self.carry_out(broker, effect)

    def carry_out(self, broker: int, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self.links.setdefault((broker, to, False), deque()).append(message)
                self.cross(broker, to, message)
            case Multicast(message):
                for member in self.routers[broker].position.members:
                    if member != broker:
                        self.links.setdefault((broker, member, True), deque()).append(message)
                self.cross(broker, GROUP, message)
            case Confirm(client, subscription):
                self.confirmed.append((client, subscription))
            case Deliver(batch, clients, starts, rows):
                for place, client in enumerate(clients):
                    for row in rows[starts[place] : starts[place + 1]].tolist():
                        self.delivered.append((client, batch.identity(row), batch.events()[row]))

    def cross(self, source: int, to: int, message: Message) -> None:
        if isinstance(message, Events):
            assert len(message.batch) > 0
            for row in range(len(message.batch)):
                identity = message.batch.identity(row)
                if to == GROUP:  # promise 4: once in a cluster, whichever member sends it
                    source = self.routers[source].position.designated
                assert to == GROUP or not self.crossed[identity, to, source], "an event went back"
                self.crossed[identity, source, to] += 1
                assert self.crossed[identity, source, to] == 1, "an event crossed a link twice"

    def busy(self) -> list[tuple[int, int, bool]]:
        return [link for link, waiting in self.links.items() if waiting]

    def step(self, choice: int) -> None:
        busy = self.busy()
        source, to, _ = link = busy[choice % len(busy)]
        self.give(to, source, self.links[link].popleft())

    def drain(self) -> None:
        while self.busy():
            self.step(0)

    def check(self) -> None:
        for router in self.routers.values():
            router.check()


class World:
    """A net, its clients, and a reference model that knows only filters and time."""

    def __init__(self, scheme_name: str) -> None:
        self.net = Net(scheme_name)
        self.active: dict[tuple[str, int], Filter] = {}
        self.installed: set[tuple[str, int]] = set()
        self.owed: dict[tuple[str, int], set[EventId]] = {}
        self.got: dict[str, dict[EventId, None]] = {}
        self.published: Counter[str] = Counter()

    def note(self) -> None:
        """Record confirmations and notifications, and check them against the active subscriptions."""
        for key in self.net.confirmed:
            assert key in self.active, "a subscription that is not there was confirmed"
            self.installed.add(key)
        for client, identity, event in self.net.delivered:
            filters = [item for (owner, _), item in self.active.items() if owner == client]
            assert any(item.matches(event) for item in filters), f"{client} did not ask for {event}"
            got = self.got.setdefault(client, {})
            assert identity not in got, f"{client} got {identity} twice"
            earlier = [sequence for publisher, sequence in got if publisher == identity[0]]
            assert not earlier or earlier[-1] < identity[1], f"{client} got {identity} out of order"
            got[identity] = None
        self.net.confirmed.clear()
        self.net.delivered.clear()

    def forget(self, client: str, number: int) -> None:
        del self.active[client, number]
        self.installed.discard((client, number))
        self.owed.pop((client, number), None)  # events in flight may or may not arrive

    def register(self, client: str, number: int, item: Filter) -> None:
        if self.active.get((client, number), item) != item:
            self.forget(client, number)
        self.active[client, number] = item
        self.net.give(home(client), client, Register(number, item))
        self.note()

    def cancel(self, client: str, number: int) -> None:
        self.forget(client, number)
        self.net.give(home(client), client, Cancel(number))
        self.note()

    def detach(self, client: str) -> None:
        for owner, number in list(self.active):
            if owner == client:
                self.forget(owner, number)
        self.net.give(home(client), client, Detach())
        self.note()

    def publish(self, broker: int, values: list[int]) -> None:
        publisher = f"p{broker}"
        first = self.published[publisher] + 1
        self.published[publisher] += len(values)
        given = [{"x": value} for value in values]
        for key in self.installed:
            owed = {
                (publisher, first + i) for i, event in enumerate(given) if self.active[key].matches(event)
            }
            self.owed.setdefault(key, set()).update(owed)
        batch = batch_of(given, publisher=publisher, first_sequence=first)
        self.net.give(broker, publisher, Events(batch))
        self.note()

    def move(self, choice: int) -> None:
        if self.net.busy():
            self.net.step(choice)
            self.note()

    def settle(self) -> None:
        while self.net.busy():
            self.move(0)
        self.net.check()
        assert self.installed == self.active.keys(), "not every subscription was confirmed"
        for (client, _), events in self.owed.items():
            assert events <= self.got.get(client, {}).keys(), f"{client} lacks events"

    def finish(self) -> None:
        """Cancel all subscriptions, and check that no broker keeps any state."""
        self.settle()
        for client, number in list(self.active):
            self.cancel(client, number)
        self.settle()
        for broker, router in self.net.routers.items():
            found = router.describe()
            assert found.pop("strays") == 0, f"broker {broker} got a message that makes no sense"
            assert not any(found.values()), f"broker {broker} keeps {found}"
            assert router.announcer._waiting == {} and len(router.table.index) == 0


def home(client: str) -> int:
    return int(client[1])


CLIENTS = tuple(f"c{broker}{letter}" for broker in range(8) for letter in "ab")


class Interleavings(RuleBasedStateMachine):
    """Clients come, go and publish while messages are in flight; hypothesis draws and shrinks the steps."""

    scheme_name = "hybrid"

    @initialize()
    def start(self) -> None:
        self.world = World(self.scheme_name)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()

    @rule(client=st.sampled_from(CLIENTS), number=st.integers(1, 2), item=st.sampled_from(FILTERS))
    def register(self, client: str, number: int, item: Filter) -> None:
        self.world.register(client, number, item)

    @precondition(lambda self: self.world.active)
    @rule(data=st.data(), all_of_it=st.booleans())
    def cancel(self, data: Any, all_of_it: bool) -> None:
        client, number = data.draw(st.sampled_from(list(self.world.active)))
        if all_of_it:
            self.world.detach(client)
        else:
            self.world.cancel(client, number)

    @rule(broker=st.integers(0, 7), values=st.lists(st.integers(0, 4), min_size=1, max_size=3))
    def publish(self, broker: int, values: list[int]) -> None:
        self.world.publish(broker, values)

    @precondition(lambda self: self.world.net.busy())
    @rule(choices=st.lists(st.integers(0, 30), min_size=1, max_size=12))
    def move(self, choices: list[int]) -> None:
        for choice in choices:
            self.world.move(choice)

    @precondition(lambda self: self.world.net.busy())
    @rule()
    def come_to_rest(self) -> None:
        self.world.settle()


class HierarchicalInterleavings(Interleavings):
    scheme_name = "hierarchical"


TestHybrid = Interleavings.TestCase
TestHybrid.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestHierarchical = HierarchicalInterleavings.TestCase
TestHierarchical.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("scheme_name", ["hybrid", "hierarchical"])
@pytest.mark.parametrize("seed", range(12))
def test_long_random_interleavings(scheme_name: str, seed: int) -> None:
    rng = random.Random(seed)
    world = World(scheme_name)
    pace = rng.choice((2, 5, 10))  # more moves between two client actions leave fewer messages in flight
    for _ in range(250):
        act = rng.random()
        if act < 0.35:
            world.register(rng.choice(CLIENTS), rng.randint(1, 2), rng.choice(FILTERS))
        elif act < 0.6 and world.active:
            world.cancel(*rng.choice(list(world.active)))
        elif act < 0.63 and world.active:
            world.detach(rng.choice(list(world.active))[0])
        else:
            world.publish(rng.randrange(8), [rng.randint(0, 4) for _ in range(rng.randint(1, 4))])
        for _ in range(rng.randrange(2 * pace)):
            world.move(rng.randrange(1000))
        if rng.random() < 0.02:
            world.settle()
    world.finish()
    assert sum(map(len, world.got.values())) > 200


@pytest.mark.parametrize("scheme_name", ["hybrid", "hierarchical"])
def test_an_event_meets_every_subscriber_once_wherever_it_is_published(scheme_name: str) -> None:
    net = Net(scheme_name)
    for broker in range(8):
        net.give(broker, f"c{broker}", Register(1, to_filter("x > 0")))
    net.drain()
    assert len(net.confirmed) == 8
    for broker in range(8):
        net.give(broker, f"p{broker}", Events(batch_of([{"x": 1}, {"x": 0}], publisher=f"p{broker}")))
        net.drain()
    got = Counter((client, identity) for client, identity, _ in net.delivered)
    assert set(got) == {(f"c{c}", (f"p{p}", 1)) for c in range(8) for p in range(8)}
    assert set(got.values()) == {1}
    net.check()


def test_a_confirmation_comes_only_when_the_root_has_it() -> None:
    net = Net("hybrid")
    net.give(7, "c", Register(1, to_filter("x = 1")))
    while net.busy() and not net.confirmed:
        net.step(0)
        everywhere = all(to_filter("x = 1") in net.routers[broker].table for broker in (7, 6, 3, 0))
        assert everywhere or not net.confirmed
    assert net.confirmed == [("c", 1)]


def test_what_makes_no_sense_is_counted_and_does_nothing() -> None:
    net = Net("hybrid")
    item = to_filter("x = 1")
    before = {broker: router.describe() for broker, router in net.routers.items()}
    net.give(5, 0, Announce(item, 1))  # from the parent
    net.give(5, 0, Withdraw(item))
    net.give(5, 99, Announce(item, 1))  # from a stranger
    net.give(5, "c", Cancel(1))  # never registered
    net.give(5, 0, Register(1, item))  # a broker is not a client
    net.give(5, "c", Announce(item, 1))  # a client is not a broker
    assert net.busy() == [] and net.confirmed == []
    assert net.routers[5].describe() == before[5] | {"strays": 6}
    net.give(5, 0, Installed(7))
    net.give(5, "c", Detach())
    net.give(0, 5, Withdraw(item))  # withdrawn twice, or never announced
    assert net.busy() == []
    net.check()


def shape(scheme_name, tree):
    """Return {broker: parent} under a scheme, and the largest number of children."""
    places = scheme(scheme_name).positions(tree.positions())
    for place in places:
        assert all(other.parent == place.broker for other in places if other.broker in place.children)
        assert place.members == (place.broker,)
    return {place.broker: place.parent for place in places}, max(len(place.children) for place in places)


def test_a_hierarchy_has_two_readings():
    """Members are leaves below their designated broker, beyond the degree; or all brokers are nodes in it.

    Reference: paper 1, 5.1 (each node has at most 8 children, each cluster 10 normal brokers).
    """
    tree = ClusterTree(12, 11, degree=8, seed=3)
    most = max(len(place.children) for place in tree.positions() if place.role != "NEB")
    leaves, widest = shape("hierarchical", tree)
    nodes, bounded = shape("hierarchical+nodes", tree)
    assert widest == most + 10 and bounded == most <= 8
    clusters = {place.broker: place for place in tree.positions()}
    for above in (leaves, nodes):
        assert above.keys() == clusters.keys()
        assert [broker for broker in above if above[broker] is None] == [
            broker for broker, place in clusters.items() if place.role == "REB"
        ]
    for broker, place in clusters.items():
        if place.role == "NEB":
            assert leaves[broker] == place.designated
            assert clusters[nodes[broker]].cluster == place.cluster, "its own cluster has room for it"
        elif place.parent is not None:
            assert leaves[broker] == place.parent
            assert clusters[nodes[broker]].cluster == place.parent_cluster


def test_a_full_designated_broker_leaves_a_place_to_a_member_of_its_own():
    full = ClusterTree(9, 2, degree=8).positions()
    (root,) = (place for place in full if place.role == "REB")
    (member,) = set(root.members) - {root.broker}
    assert len(root.children) == 8
    nodes, bounded = shape("hierarchical+nodes", ClusterTree(9, 2, degree=8))
    assert bounded == 8
    assert nodes[member] == root.broker
    assert [nodes[child] for child in root.children] == [root.broker] * 7 + [member]


def test_single_brokers_stand_as_they_do_in_clusters():
    row = ClusterTree(3, 1, degree=1)
    assert shape("hierarchical+nodes", row)[0] == shape("hierarchical", row)[0]
