"""A router restored from a snapshot behaves as the original from then on, message for message (promise 7).

Every scheme with every option takes random steps on a small network, with the links delivering in any order.
Now and then each router is snapshotted, and the snapshot is encoded and decoded with the codec of the stores
and restored into a new router, a *twin*. From then on both handle every message, and the twin must send and
keep the same as the original.
"""

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import draws
import numpy as np
import pytest
from draws import of_each_kind, slow, thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Effect, Multicast, Received, Send
from rayvous.protocol.ids import Link
from rayvous.protocol.messages.admission import Advertise, Unadvertise
from rayvous.protocol.messages.pubsub import Cancel, Detach, Events, Gone, Register
from rayvous.recovery.durability.codec import decode, encode
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.matching.covering_dag import SCAN_MAX
from rayvous.routing.matching.index import MatchIndex
from rayvous.routing.matching.witness_store import WitnessStore
from rayvous.routing.schemes.lbdd import Lbdd
from rayvous.routing.schemes.mesh import MeshRouter
from rayvous.routing.schemes.registry import NAMES, scheme
from rayvous.routing.schemes.viewed import ViewedRouter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.network import Step

TREE = ClusterTree(3, 2, degree=2).positions()
SELECTORS = (
    "x > 0",
    "x > 2",
    "s LIKE 'a%' AND x = 1",
    "s LIKE '%b' AND x = 1",
    "s = 'c' AND x = 1",
    "x = 3",
    "x IN (1, 3)",
    "x < 2",
    "x = 1 AND y = 1",
    "x = 2 AND y = 1",
    "x = 1 AND y = 2",
)
FILTERS = tuple(map(to_filter, SELECTORS))
MADE_ANEW = {"_handlers", "_plan", "_ways", "_origins", "_owners", "_events", "_codes", "_hash"}
"""Attributes that are made when they are needed, and what is bound to its own router."""


def difference(one: Any, other: Any, seen: dict[tuple[int, int], Any] | None = None) -> str:
    """Return where two values differ, down to single attributes, or ""; mappings have no order."""
    seen = {} if seen is None else seen
    if one is other or (id(one), id(other)) in seen:
        return ""
    seen[id(one), id(other)] = one, other  # kept, so that no other value gets the same id
    if type(one) is not type(other):
        return f" is {one!r}, not {other!r}"
    if isinstance(one, np.ndarray):
        return "" if one.dtype == other.dtype and np.array_equal(one, other) else f" is {one}, not {other}"
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f" has the keys {list(one)}, not {list(other)}"
        return first(f"[{key!r}]{difference(one[key], other[key], seen)}" for key in one)
    if isinstance(one, list | tuple | deque):
        if len(one) != len(other):
            return f" is {one}, not {other}"
        pairs = enumerate(zip(one, other, strict=True))
        return first(f"[{place}]{difference(a, b, seen)}" for place, (a, b) in pairs)
    if isinstance(one, MatchIndex):  # its rows are built when an event needs them
        return difference(one.snapshot(), other.snapshot(), seen)
    if isinstance(one, WitnessStore):  # its packing does not matter
        found = [[store.matched_by(item) for item in FILTERS] for store in (one, other)]
        return difference(*found, seen)
    if type(one).__eq__ is not object.__eq__ and one == other:
        return ""
    parts = inside(one)
    return difference(parts, inside(other), seen) if parts else f" is {one!r}, not {other!r}"


def first(found: Iterable[str]) -> str:
    """Return the first place that leads to a difference."""
    return next((place for place in found if not place.endswith("]")), "")


def inside(value: Any) -> dict[str, Any]:
    """Return the attributes of an object."""
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(value, "__dict__", ()))
    return {name: getattr(value, name) for name in names if name not in MADE_ANEW and hasattr(value, name)}


class Net:
    """Routers, their twins, and the messages in flight on each link."""

    def __init__(self, name: str) -> None:
        self.make = scheme(name)
        self.routers = {place.broker: self.make(place) for place in self.make.positions(TREE)}
        self.places = {broker: router.position for broker, router in self.routers.items()}
        self.twins: dict[int, Any] = {}
        self.links: dict[tuple[int, int], deque[Any]] = {}
        self.published = 0

    def twin_all(self) -> None:
        for broker, router in self.routers.items():
            plain = router.snapshot()
            if broker in self.twins:
                assert not difference(self.twins[broker].snapshot(), plain), "they have parted"
            twin = self.twins[broker] = self.make(self.places[broker])
            twin.restore(decode(encode(plain)))
            assert not difference(twin.snapshot(), plain)
            assert not difference(inside(twin), inside(router)), "something is lacking in the snapshot"
            twin.check()

    def give(self, broker: int, source: Link, message: Any) -> None:
        router, event = self.routers[broker], Received(source, message)
        kept = None if router.changed_by(event) else router.snapshot() | {"strays": 0}
        effects = router.handle(event)
        if kept is not None:
            assert not difference(kept, router.snapshot() | {"strays": 0}), (
                "it is changed by what it says is not"
            )
        if broker in self.twins:
            assert not difference(self.twins[broker].handle(event), effects), "the twin says something else"
        for effect in effects:
            self.carry_out(broker, effect)

    def carry_out(self, broker: int, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.links.setdefault((broker, effect.to), deque()).append(effect.message)
        elif isinstance(effect, Multicast):
            for member in self.routers[broker].position.members:
                if member != broker:
                    self.links.setdefault((broker, member), deque()).append(effect.message)

    def run(self, which: int, steps: int) -> None:
        """Deliver messages, over the links that `which` selects."""
        for turn in range(steps):
            busy = [link for link, waiting in self.links.items() if waiting]
            if not busy:
                return
            source, to = busy[which * (turn + 1) % len(busy)]
            message = self.links[source, to].popleft()
            if source in self.routers and to in self.routers:
                self.give(to, source, message)

    def publish(self, broker: int, events: list[dict[str, Any]]) -> None:
        batch = batch_of(events, publisher=f"p{broker}", first_sequence=self.published + 1)
        self.published += len(events)
        self.give(broker, f"p{broker}", Events(batch))

    def lose(self, broker: int) -> None:
        """Remove a broker, and tell the live broker with the lowest number."""
        if issubclass(self.make, MeshRouter) and len(self.routers) > 1:
            del self.routers[broker]
            self.give(min(self.routers), broker, Gone(broker))


def play(net: Net, kind: str, one: int, two: int) -> None:
    """Take one step; the two numbers select the broker and the details."""
    broker = sorted(net.routers)[one % len(net.routers)]
    client = f"c{broker}.{one // 6 % 2}"
    match kind:
        case "subscribe":
            asked = Register(two // 12 % 3, FILTERS[two % len(FILTERS)], local_first=one % 2 == 0)
            net.give(broker, client, asked)
        case "advertise":
            net.give(broker, f"p{broker}", Advertise(two // 12 % 3, FILTERS[two % len(FILTERS)], 0))
        case "unadvertise":
            net.give(broker, f"p{broker}", Unadvertise(two % 3))
        case "cancel":
            net.give(broker, client, Cancel(two % 3))
        case "detach":
            net.give(broker, client, Detach())
        case "publish":
            net.publish(broker, [{"x": (two + i) % 5, "y": two % 3} for i in range(two % 4 + 1)])
        case "run":
            net.run(one, two)
        case "twins":
            net.twin_all()
        case "lose" if two % 8 == 0:
            net.lose(broker)


KINDS = (
    *("subscribe", "subscribe", "cancel", "detach", "advertise", "unadvertise"),
    *("publish", "publish", "run", "run", "twins", "lose"),
)
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 63), st.integers(0, 63)), max_size=40)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(steps=STEPS)
def test_a_router_that_is_restored_does_what_the_other_does(
    name: str, steps: list[tuple[str, int, int]]
) -> None:
    net = Net(name)
    for step in [*steps, ("twins", 0, 0), ("run", 0, 400)]:
        play(net, *step)
    for broker in list(net.routers):
        net.publish(broker, [{"x": x, "y": x % 3} for x in range(5)])
    net.run(0, 400)
    net.twin_all()


def filters_of(router: Any) -> int:
    """Return the number of filters in the larger table of a router."""
    return max(len(router.table), len(getattr(router, "others", ())))


@pytest.mark.slow
@pytest.mark.parametrize("name", of_each_kind(NAMES))
def test_so_it_is_with_large_tables(name: str) -> None:
    """Tables too large to be scanned, in which slots have been freed and reused."""
    rng = random.Random(name)
    net = Net(name)
    held: list[tuple[int, str, int]] = []
    largest = 0
    for turn in range(160):
        if turn in (60, 110, 150):
            net.twin_all()
        if held and rng.random() < 0.3:
            broker, client, number = held.pop(rng.randrange(len(held)))
            net.give(broker, client, Cancel(number))
        else:
            broker = rng.choice(list(net.routers))
            client = f"c{broker}.{rng.randrange(3)}"
            held.append((broker, client, turn))
            low = rng.randrange(90)
            wanted = f"y = {rng.randrange(9)} AND x BETWEEN {low} AND {low + rng.randrange(9)}"
            net.give(broker, client, Register(turn, to_filter(wanted)))
        net.run(rng.randrange(9), rng.randrange(12))
        if turn % 3 == 0:
            events = [{"y": rng.randrange(9), "x": rng.randrange(99)} for _ in range(12)]
            net.publish(rng.choice(list(net.routers)), events)
        largest = max(largest, *map(filters_of, net.routers.values()))
    net.run(0, 10_000)
    net.twin_all()
    assert largest > SCAN_MAX or name.startswith("flooding")


QUICK = (("hypercube", 3),)
"""One tree and one network of views stand for the rest where there is little time."""


def new_one(router: Any, start: Position) -> Any:
    """Return a new router like this one; a router that moves is created for its starting position."""
    if isinstance(router, Lbdd):
        return Lbdd(router.position, router._held_max, heals=router._heals)
    return type(router)(router.position if isinstance(router, ViewedRouter) else start)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        (name, seed)
        if (name, seed) in QUICK
        else (slow if seed == 3 and name in draws.KINDS else thorough)(name, seed)
        for name in NAMES
        for seed in (3, 6)
    ],
)
def test_routers_of_networks_that_heal_say_all_that_they_keep(name: str, seed: int) -> None:
    """Snapshots are complete while brokers crash, take over, join and leave."""
    checked = 0

    def watch(step: Step) -> None:
        nonlocal checked
        checked += 1
        if checked % 20 == 0:
            router: Any = step.broker.router
            twin = new_one(router, step.broker.position)
            plain = router.snapshot()
            twin.restore(decode(encode(plain)))
            assert not difference(twin.snapshot(), plain)
            assert not difference(inside(twin), inside(router)), "something is lacking in the snapshot"

    report = run_case(draw_sim_case(seed, scheme=name, brokers_max=8), record=watch)
    assert report.holds, report.problems
    assert checked > 300
