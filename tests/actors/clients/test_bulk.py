"""Payloads of several hundred slices, from host to host without Ray; the test sets the order of calls.

Reference: paper 5, sections 3.2, 3.4, 4.1 (slices of 64 KB) and 4.3 (exactly n copies).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError
from rayvous.actors.clients import bulk
from rayvous.actors.clients.bulk import SLICES_WAITING_MAX, Payloads
from rayvous.actors.clients.distributing import CutPayload, Distribution
from rayvous.broker import Broker
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.effects import Received
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.payloads import Outcome
from rayvous.protocol.messages.pubsub import Announce, Register, Spread
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.schemes.registry import scheme as scheme_of
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.lbdd_plan import plan

PUBLISHER = -1
SOURCE, BROKERS = 10, range(12)
PLAN = plan(SOURCE, BROKERS)
SLICE = 16
SLICES = 400
BYTES = np.random.default_rng(5).integers(0, 256, SLICES * SLICE - 3, np.uint8).tobytes()

Hook = Callable[[int, int, str, tuple[Any, ...]], Awaitable[tuple[Any, ...] | None]]


class Wire:
    """A fake handle of the actor of another host."""

    def __init__(self, hosts: "Hosts", source: int, to: int) -> None:
        self._hosts, self._source, self._to = hosts, source, to

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *args: self._hosts.carry(self._source, self._to, method, args))


class Hosts:
    """Twelve brokers on hosts of their own, whose clients all want maps, and the calls between them."""

    def __init__(self, scheme: str = "lbdd") -> None:
        self.dead: set[int] = set()
        self.slices: Counter[tuple[int, int]] = Counter()
        self.notified: Counter[int] = Counter()
        self.hook: Hook | None = None
        self.hosts: dict[int, Payloads] = {}
        wanted = to_filter("topic = 'maps'")
        for position in scheme_of(scheme).positions(ClusterTree(len(BROKERS), 1).positions()):
            broker = Broker(position, scheme)
            for other in position.neighbours:
                broker.handle(Received(other, Spread(1, other, 1, Announce(wanted, 1))))
            broker.handle(Received("reader", Register(1, wanted)))
            self.hosts[position.broker] = self._host(position.broker, broker)

    def _host(self, me: int, broker: Broker) -> Payloads:
        async def actor_of(other: int) -> Any:
            return self.wire(me, other)

        def died(here: int, other: int) -> None:
            assert {here, other} & self.dead, "and who is dead hears from nobody"

        def carry_out(_: Any, effect: Any) -> None:
            self.notified[me] += effect.clients == ("reader",)

        hosted: Any = SimpleNamespace(broker=broker)
        return Payloads(lambda _: hosted, actor_of, died, carry_out)

    def wire(self, source: int, to: int) -> Any:
        """Return the handle by which a host, or a publisher, calls another host."""
        return Wire(self, source, to)

    async def carry(self, source: int, to: int, method: str, args: tuple[Any, ...]) -> Any:
        if self.hook is not None:
            args = await self.hook(source, to, method, args) or args
        if {source, to} & self.dead:
            raise ActorDiedError
        if method == "bulk_slices":
            self.slices[source, to] += -(-len(args[-1]) // SLICE)
        result = await getattr(self.hosts[to], method)(*args)
        if {source, to} & self.dead:
            raise ActorDiedError
        return result

    async def distribute(self) -> tuple[str, Distribution]:
        """Distribute the payload as a publisher does; return its name, and the outcome."""
        delivery, loop = CutPayload(BYTES, "maps", SLICE), asyncio.get_running_loop()

        def answer(call: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(call, loop).result(PATIENCE_SECONDS)

        async def targets(*args: Any) -> Any:
            return self.hosts[SOURCE].targets(*args)

        host = self.wire(PUBLISHER, SOURCE)
        host.bulk_targets = SimpleNamespace(remote=targets)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return delivery.name, await asyncio.to_thread(delivery.send, host, SOURCE, delivery.batch, answer)

    async def read(self, broker: int, name: str) -> bytes:
        nbytes, out = 1, bytearray()
        while len(out) < nbytes:
            nbytes, part = await self.hosts[broker].payload(broker, name, len(out))
            out += part.data
        return bytes(out)


@pytest.mark.parametrize("scheme", ["lbdd", "point-to-point"])
def test_each_sends_as_many_copies_as_the_plan_gives_it_children_and_n_are_sent_in_all(scheme):
    """Reference: paper 5, 4.3 (exactly n copies; the contribution rate of each); 1 (point-to-point)."""

    async def run():
        hosts = Hosts(scheme)
        name, done = await hosts.distribute()
        children = PLAN.children if scheme == "lbdd" else {SOURCE: tuple(sorted(PLAN.targets))}
        assert done.rounds == 1 and set(done.brokers) == PLAN.targets and not done.gone
        assert done.sent == {broker: len(to) * len(BYTES) for broker, to in children.items() if to}
        assert sum(done.sent.values()) == len(PLAN.targets) * len(BYTES)
        assert hosts.slices == {(PUBLISHER, SOURCE): SLICES} | {
            (source, to): SLICES for source, several in children.items() for to in several
        }
        assert all([await hosts.read(broker, name) == BYTES for broker in BROKERS])

    asyncio.run(run())


def test_a_grandchild_has_the_first_slice_before_its_parent_is_sent_the_last():
    """The last slices are withheld from the parent until then. Reference: paper 5, 4.1 (slices)."""
    parent = next(child for child in PLAN.children[SOURCE] if PLAN.children[child])
    grandchild = PLAN.children[parent][0]

    async def run():
        hosts, there = Hosts(), asyncio.Event()

        async def hook(source, to, method, args):
            if method == "bulk_slices" and to == grandchild:
                assert source == parent
                there.set()
            elif method == "bulk_slices" and to == parent and args[2] + SLICES_WAITING_MAX >= SLICES:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await there.wait()

        hosts.hook = hook
        name, done = await hosts.distribute()
        assert done.rounds == 1 and await hosts.read(grandchild, name) == BYTES

    asyncio.run(run())


def test_a_child_that_takes_nothing_stops_the_publisher_until_it_goes_on():
    """Reference: promise 9; docs/spec.md, limits (64 slices wait for a link)."""
    leaf = next(b for b in PLAN.targets if not PLAN.children[b])
    ways = {child: parent for parent, below in PLAN.children.items() for child in below}
    above = ways[leaf]
    hops = 1
    while above != SOURCE:
        above, hops = ways[above], hops + 1

    async def run():
        hosts, go_on, stands = Hosts(), asyncio.Event(), asyncio.Event()

        async def hook(source, to, method, args):
            if method == "bulk_slices" and to == leaf:
                stands.set()
                await go_on.wait()

        hosts.hook = hook
        distributing = asyncio.ensure_future(hosts.distribute())
        await stands.wait()
        before = -1
        while hosts.slices[PUBLISHER, SOURCE] != before:  # until nothing moves any more
            before = hosts.slices[PUBLISHER, SOURCE]
            for _ in range(500):
                await asyncio.sleep(0)
            await asyncio.to_thread(lambda: None)
        # At most `SLICES_WAITING_MAX` wait on each hop, and as many in the publisher's pending call.
        assert SLICES_WAITING_MAX <= before <= SLICES_WAITING_MAX * (hops + 1) < SLICES
        assert not distributing.done()
        go_on.set()
        name, done = await distributing
        assert done.rounds == 1 and hosts.slices[PUBLISHER, SOURCE] == SLICES
        assert await hosts.read(leaf, name) == BYTES

    asyncio.run(run())


def test_after_a_death_in_the_middle_those_behind_get_what_they_lack_and_no_slice_twice():
    """Reference: paper 5, 3.4 (a failed node is removed from all paths)."""
    inner = next(child for child in PLAN.children[SOURCE] if PLAN.children[child])
    behind = PLAN.below(inner)

    async def run():
        hosts = Hosts()
        half = SLICES // 2

        async def hook(source, to, method, args):
            if method == "bulk_slices" and source == inner and args[2] >= half:
                hosts.dead.add(inner)

        hosts.hook = hook
        name, done = await hosts.distribute()
        assert done.gone == (inner,) and done.rounds == 2
        assert set(done.brokers) == PLAN.targets - {inner}
        came = Counter()
        for (_, to), slices in hosts.slices.items():
            came[to] += slices
        assert {broker: came[broker] for broker in BROKERS if broker != inner} == dict.fromkeys(
            set(BROKERS) - {inner}, SLICES
        )
        again = {
            to: slices for (source, to), slices in hosts.slices.items() if to in behind and source != inner
        }
        assert again and any(slices <= SLICES - half for slices in again.values())
        for broker in set(BROKERS) - {inner}:
            assert await hosts.read(broker, name) == BYTES
        assert hosts.notified == dict.fromkeys(set(BROKERS) - {inner}, 1)
        assert not any(host._passing for each, host in hosts.hosts.items() if each != inner)

    asyncio.run(run())


def test_what_is_damaged_on_the_way_is_sent_anew():
    """Reference: docs/schemes.md, payloads: notified when all is there with the right checksum."""
    child = PLAN.children[SOURCE][0]

    async def run():
        hosts, spoilt = Hosts(), []

        async def hook(source, to, method, args):
            if method != "bulk_slices" or to != child or spoilt:
                return None
            spoilt.append(args[-1] ^ 1)
            return (*args[:-1], *spoilt)

        hosts.hook = hook
        name, done = await hosts.distribute()
        assert done.rounds == 2 and not done.gone
        assert hosts.notified == dict.fromkeys(BROKERS, 1)
        assert all([await hosts.read(broker, name) == BYTES for broker in BROKERS])

    asyncio.run(run())


def test_a_slice_out_of_its_turn_is_refused_and_an_unknown_payload_named():
    async def run():
        hosts = Hosts()
        delivery = CutPayload(BYTES, "maps", SLICE)
        payload = bulk.Payload(delivery.name, delivery.batch(), SOURCE, (), len(BYTES), SLICE, delivery.md5)
        host = hosts.hosts[SOURCE]
        with pytest.raises(InputError, match="is not in transit at broker 10"):
            await host.bulk_slices(SOURCE, delivery.name, 0, delivery.whole[:SLICE])
        assert await host.bulk_begin(SOURCE, payload) == 0
        with pytest.raises(InputError, match=r"slice 0 of payload .* did not arrive before slice 1"):
            await host.bulk_slices(SOURCE, delivery.name, 1, delivery.whole[SLICE : 2 * SLICE])
        await host.bulk_slices(SOURCE, delivery.name, 0, delivery.whole[: 3 * SLICE])
        await host.bulk_slices(SOURCE, delivery.name, 1, delivery.whole[SLICE : 5 * SLICE])
        assert await host.bulk_begin(SOURCE, payload) == 5, "a round that was cut off is gone on with"
        outcome = await host.bulk_end(SOURCE, delivery.name)
        assert outcome.missing == {SOURCE: f"damaged: 5 of {SLICES} slices, or a wrong checksum"}
        with pytest.raises(InputError, match="has no payload"):
            await host.payload(SOURCE, delivery.name, 0)

    asyncio.run(run())


def test_payloads_that_nobody_ends_make_room_for_others(monkeypatch):
    """Reference: promise 9."""
    monkeypatch.setattr(bulk, "PASSING_MAX", 2)

    async def run():
        host = Hosts().hosts[SOURCE]
        delivery = CutPayload(BYTES, "maps", SLICE)
        for name in ("a", "b", "c"):
            payload = bulk.Payload(name, delivery.batch(), SOURCE, (), len(BYTES), SLICE, delivery.md5)
            await host.bulk_begin(SOURCE, payload)
        assert [name for _, name in host._passing] == ["b", "c"]

    asyncio.run(run())


def test_where_a_publishers_broker_does_not_know_who_wants_a_payload_the_schemes_that_do_are_named():
    here = SimpleNamespace(broker=Broker(ClusterTree(2, 1).positions()[0], "hybrid"))
    payloads = Payloads(lambda broker: here, None, None, None)
    with pytest.raises(InputError, match=r"scheme 'hybrid' .* scheme='point-to-point' or 'lbdd'"):
        payloads.targets(0, batch_of([{"topic": "maps"}], publisher="p"))


@pytest.mark.parametrize("refused", [False, True])
def test_the_event_of_a_payload_takes_a_number_once_the_broker_has_said_who_wants_it(refused: bool) -> None:
    """A number that is taken in vain is a gap in what the publisher published."""
    said: list[str] = []
    cut = CutPayload(b"abc", "maps", 1)

    def numbered() -> EventBatch:
        said.append("numbered")
        return cut.batch()

    def answer(call: str) -> Any:
        said.append(call)
        if refused:
            raise InputError("launch the network with scheme='lbdd'")
        return {"bulk_targets": (), "bulk_begin": 3, "bulk_end": Outcome()}[call]

    calls = ("bulk_targets", "bulk_begin", "bulk_end")
    actor = SimpleNamespace(**{name: SimpleNamespace(remote=lambda *_, name=name: name) for name in calls})
    if refused:
        with pytest.raises(InputError):
            cut.send(actor, 0, numbered, answer)
        assert said == ["bulk_targets"]
    else:
        cut.send(actor, 0, numbered, answer)
        assert said == ["bulk_targets", "numbered", "bulk_begin", "bulk_end"]
