"""Hosts wired to each other without Ray: a handle's ``receive.remote`` is a coroutine of the other host."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from rayvous.actors.host.host import BrokerHost
from rayvous.faults.real.link_faults import LinkFaultTable
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.errors import BrokerUnavailable, ClientError
from rayvous.protocol.messages.pubsub import BrokerMessage, Cancel, Detach, Events, Register
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

TINY = Limits.for_tests(call_events_max=4, outbox_events_max=8, delivery_events_max=100_000)
PAIR = ClusterTree(2, 1).positions()
CHAIN = ClusterTree(5, 1, degree=1).positions()
TREE = ClusterTree(4, 3, degree=2).positions()


class Handle(PackedCalls):
    """A fake handle of the actor of a broker: every call is pickled and counted."""

    def __init__(self, net: "Net", host: BrokerHost) -> None:
        self.net, self.host = net, host
        self.receive = self

    async def remote(
        self, to: int, source: int, messages: Sequence[BrokerMessage], incarnation: int = 0
    ) -> None:
        net, link = self.net, (source, to)
        net.loads[link] += 1
        net.flying[link] += 1
        net.most[link] = max(net.most[link], net.flying[link])
        for message in messages:
            if isinstance(message, Events):
                net.largest = max(net.largest, len(message.batch))
        await net.gate.wait()
        if to in net.dead:
            net.flying[link] -= 1
            raise ConnectionError(f"broker {to} is dead")
        await self.host.receive(to, source, pickle.loads(pickle.dumps(messages)), incarnation)
        net.flying[link] -= 1


class Net:
    """Hosts of one broker each, or of several, and one client process that polls them all."""

    def __init__(
        self,
        positions: Sequence[Position],
        scheme_name: str = "hybrid",
        limits: Limits = TINY,
        brokers_per_host: int = 1,
    ) -> None:
        self.positions = scheme(scheme_name).positions(positions)
        self.loads: Counter[tuple[int, int]] = Counter()
        self.flying: Counter[tuple[int, int]] = Counter()
        self.most: Counter[tuple[int, int]] = Counter()
        self.largest = 0
        self.dead: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.hosts: dict[int, BrokerHost] = {}
        self.hosted: list[tuple[BrokerHost, list[Position]]] = []
        for start in range(0, len(self.positions), brokers_per_host):
            host = BrokerHost(scheme_name, limits)
            mine = self.positions[start : start + brokers_per_host]
            self.hosted.append((host, list(mine)))
            self.hosts.update(dict.fromkeys([position.broker for position in mine], host))

    async def start(self) -> "Net":
        for host, mine in self.hosted:
            await host.start_brokers(mine)
        handles = {broker: Handle(self, host) for broker, host in self.hosts.items()}
        for host, _ in self.hosted:
            await host.connect(handles)
        return self

    async def subscribe(self, broker: int, client: str, selector: str, number: int = 1) -> None:
        register = Register(number, to_filter(selector))
        await self.hosts[broker].request(broker, client, [register], "process")

    async def publish(self, broker: int, publisher: str, values: Sequence[int], first: int = 1) -> None:
        batch = batch_of([{"x": value} for value in values], publisher=publisher, first_sequence=first)
        await self.hosts[broker].request(broker, publisher, [Events(batch)])

    async def fetch(self) -> dict[str, list[tuple[str, int]]]:
        """Return the notifications of each client, in order, until every host has nothing more."""
        out: dict[str, list[tuple[str, int]]] = {}
        for host, _ in self.hosted:
            acknowledged = 0
            while deliveries := await host.poll("process", acknowledged, 0.0):
                for delivery in deliveries:
                    for i, client in enumerate(delivery.clients):
                        rows = delivery.rows[delivery.starts[i] : delivery.starts[i + 1]].tolist()
                        out.setdefault(client, []).extend(delivery.batch.identity(row) for row in rows)
                    acknowledged = delivery.number
        return out

    async def rest(self) -> None:
        """Wait until all is quiet: two rounds in which nobody handled anything."""
        before: list[int] = []
        while before != (before := [await host.quiet(deliveries=False) for host, _ in self.hosted]):
            pass

    async def describe(self) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for host, _ in self.hosted:
            await host.check()
            found |= await host.describe()
        return found


def go(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(), PATIENCE_SECONDS)

    asyncio.run(run())


async def pause(times: int = 30) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_idle_links_carry_at_once_and_busy_ones_carry_all_that_waits() -> None:
    async def test() -> None:
        net = await Net(PAIR, limits=Limits.for_tests()).start()
        root, leaf = PAIR[0].broker, PAIR[1].broker
        await net.subscribe(root, "c", "x >= 0")
        net.gate.clear()
        for i in range(20):
            await net.publish(leaf, "p", [i], i + 1)
            await pause()
        assert net.loads[leaf, root] == 1 and net.flying[leaf, root] == 1
        net.gate.set()
        await net.rest()
        assert net.loads[leaf, root] == 2 and net.most[leaf, root] == 1 and net.largest == 19
        assert await net.fetch() == {"c": [("p", i + 1) for i in range(20)]}

    go(test)


QUICK = {("hybrid", "tree", 1), ("hierarchical", "tree", 3), ("hypercube", "chain", 3)}


@pytest.mark.parametrize(
    ("scheme_name", "positions", "brokers_per_host"),
    [
        pytest.param(
            name, positions, each, id=f"{each}-{shape}-{name}",
            marks=() if (name, shape, each) in QUICK else pytest.mark.slow,
        )
        for each in (1, 3)
        for shape, positions in (("chain", CHAIN), ("tree", TREE))
        for name in ("hybrid", "hierarchical", "hypercube")
    ],
)  # fmt: skip
def test_traffic_in_all_directions_through_tiny_queues(
    positions: list[Position], scheme_name: str, brokers_per_host: int
) -> None:
    async def test() -> None:
        net = await Net(positions, scheme_name, TINY, brokers_per_host).start()
        brokers = [position.broker for position in positions]
        await asyncio.gather(*(net.subscribe(broker, f"c{broker}", "x >= 0") for broker in brokers))

        async def feed(broker: int) -> None:
            for turn in range(12):
                await net.publish(broker, f"p{broker}", range(7), turn * 7 + 1)

        await asyncio.gather(*map(feed, brokers))
        await net.rest()
        got = await net.fetch()
        for broker in brokers:
            mine = got[f"c{broker}"]
            for other in brokers:
                numbers = [sequence for publisher, sequence in mine if publisher == f"p{other}"]
                assert numbers == list(range(1, 12 * 7 + 1)), f"from {other} to {broker}"
        calls = (
            1 if scheme_name == "hierarchical" else 2
        )  # a group and a link of its own may join two brokers
        assert max(net.most.values()) <= calls
        assert net.largest <= max(TINY.call_events_max, 7)
        for found in (await net.describe()).values():
            assert found["lost_events"] == found["shed_notifications"] == found["outbox_events"] == 0
            assert found["strays"] == 0

    go(test)


def test_a_publisher_waits_while_the_way_is_full_and_memory_stays_bounded() -> None:
    async def test() -> None:
        net = await Net(CHAIN).start()
        leaf, root = CHAIN[-1].broker, CHAIN[0].broker
        await net.subscribe(root, "c", "x >= 0")
        net.gate.clear()
        accepted = 0

        async def feed() -> None:
            nonlocal accepted
            for turn in range(50):
                await net.publish(leaf, "p", [1, 2, 3], turn * 3 + 1)
                accepted += 3

        feeding = asyncio.create_task(feed())
        await pause(500)
        assert not feeding.done()
        assert accepted <= TINY.outbox_events_max
        assert (await net.describe())[leaf]["outbox_events"] <= TINY.outbox_events_max + 3
        net.gate.set()
        await feeding
        await net.rest()
        assert len((await net.fetch())["c"]) == 150

    go(test)


def test_a_delivery_batch_comes_again_until_it_is_acknowledged() -> None:
    async def test() -> None:
        net = await Net(ClusterTree(1, 1).positions()).start()
        (broker,) = net.hosts
        host = net.hosts[broker]
        await net.subscribe(broker, "c", "x > 1")
        await net.publish(broker, "p", [1, 2, 3])
        for _ in range(2):
            (delivery,) = await host.poll("process", 0, 1.0)
            assert [delivery.batch.identity(row) for row in delivery.rows] == [("p", 2), ("p", 3)]
            assert len(delivery.batch) == 2
        assert await host.poll("process", delivery.number, 0.0) == []

    go(test)


def test_what_is_shed_is_counted_once_and_what_is_left_is_whole() -> None:
    async def test() -> None:
        limits = Limits.for_tests(delivery_events_max=10, delivery_wait_seconds=0.001)
        net = await Net(CHAIN, limits=limits, brokers_per_host=5).start()
        first, second = CHAIN[0].broker, CHAIN[1].broker
        await net.subscribe(first, "a", "x >= 0")
        await net.subscribe(second, "b", "x >= 0")
        for turn in range(20):
            await net.publish(first, "p", range(5), turn * 5 + 1)
        await net.rest()
        found = await net.describe()
        shed = sum(each["shed_notifications"] for each in found.values())
        got = await net.fetch()
        assert shed > 0
        assert sum(map(len, got.values())) + shed == 2 * 100
        for mine in got.values():
            assert mine == sorted(mine) and len(set(mine)) == len(mine)

    go(test)


def test_a_dead_neighbour_costs_what_was_sent_to_it_and_no_more() -> None:
    async def test() -> None:
        net = await Net(TREE).start()
        clients = {position.broker: f"c{position.broker}" for position in TREE}
        for broker, client in clients.items():
            await net.subscribe(broker, client, "x >= 0")
        deb = next(position for position in TREE if position.role == "REB")
        victim = next(member for member in deb.members if member != deb.broker)
        net.dead.add(victim)
        await net.publish(deb.broker, "p", [1, 2, 3])
        await net.rest()
        got = await net.fetch()
        assert all(len(got[client]) == 3 for broker, client in clients.items() if broker != victim)
        assert clients[victim] not in got
        found = await net.describe()
        assert found[deb.broker]["lost_events"] == 3
        assert sum(each["lost_events"] for each in found.values()) == 3

    go(test)


def test_a_subscription_that_is_cancelled_before_it_is_installed_ends_the_call() -> None:
    async def test() -> None:
        net = await Net(PAIR).start()
        leaf = PAIR[1].broker
        for end in ("unsubscribe", "detach"):
            net.gate.clear()
            call = asyncio.create_task(net.subscribe(leaf, "c", "x > 0"))
            await pause()
            assert not call.done()
            if end == "unsubscribe":
                await net.hosts[leaf].request(leaf, "c", [Cancel(1)])
            else:
                await net.hosts[leaf].request(leaf, "c", [Detach()])
            with pytest.raises(ClientError, match="subscription 1 of 'c' was cancelled"):
                await call
            net.gate.set()
            await net.rest()
            assert all(each["filters"] == 0 for each in (await net.describe()).values())
        await net.subscribe(leaf, "c", "x > 0", 2)
        await net.publish(leaf, "p", [1])
        assert await net.fetch() == {"c": [("p", 1)]}

    go(test)


def test_a_process_that_ends_leaves_nothing_behind() -> None:
    async def test() -> None:
        net = await Net(TREE).start()
        for position in TREE:
            await net.subscribe(position.broker, f"c{position.broker}", f"x >= {position.broker}")
        await net.publish(TREE[0].broker, "p", [50])
        await net.rest()
        resting = [asyncio.create_task(host.quiet()) for host, _ in net.hosted]
        await pause()
        assert not any(task.done() for task in resting)
        for host, _ in net.hosted:
            await host.end_session("process")
            await host.end_session("nobody")
        await asyncio.gather(*resting)
        await net.rest()
        for found in (await net.describe()).values():
            for name in ("filters", "announced", "subscriptions", "subscribers", "outbox_events"):
                assert found[name] == 0, name

    go(test)


def test_what_a_host_refuses() -> None:
    async def test() -> None:
        net = await Net(PAIR).start()
        first, second = PAIR[0].broker, PAIR[1].broker
        with pytest.raises(BrokerUnavailable, match=f"broker {second} is not on this host"):
            await net.hosts[first].request(second, "p", [Events(batch_of([{"x": 1}]))])
        await net.subscribe(first, "c", "x > 0")
        with pytest.raises(ClientError, match="by another process"):
            await net.hosts[first].request(first, "c", [Register(1, to_filter("x > 0"))], "other")
        await net.publish(first, "p", [1])
        assert await net.fetch() == {"c": [("p", 1)]}

    go(test)


def test_a_cut_link_holds_events_and_gives_them_in_order_when_it_is_mended() -> None:
    async def test() -> None:
        net = await Net(CHAIN, limits=Limits.for_tests()).start()
        root, leaf = CHAIN[0].broker, CHAIN[-1].broker
        for broker in (root, CHAIN[3].broker):
            await net.subscribe(broker, f"c{broker}", "x >= 0")
        ends = sorted((CHAIN[0].broker, CHAIN[1].broker))
        cut = LinkFaultTable(frozenset({(ends[0], ends[1])}))
        for host, _ in net.hosted:
            await host.inject(cut)
        for i in range(5):
            await net.publish(leaf, "p", [i], i + 1)
        await pause(200)
        got = await net.fetch()
        assert len(got[f"c{CHAIN[3].broker}"]) == 5 and f"c{root}" not in got
        for host, _ in net.hosted:
            await host.inject(LinkFaultTable())
        await net.publish(leaf, "p", [5], 6)
        await net.rest()
        assert (await net.fetch())[f"c{root}"] == [("p", number) for number in range(1, 7)]

    go(test)


class Point:
    """A fake rendezvous point that knows one actor, and records each query."""

    def __init__(self, handle: Any) -> None:
        self.whereabouts = self
        self.handle = handle
        self.asked: list[int] = []

    async def remote(self, broker: int) -> Any:
        self.asked.append(broker)
        return self.handle, 1


def test_a_broker_that_is_started_again_is_heard_under_its_new_life_only() -> None:
    async def test() -> None:
        net = await Net(PAIR).start()
        root, leaf = PAIR[0].broker, PAIR[1].broker
        here = net.hosts[root]
        await net.subscribe(root, "c", "x >= 0")
        await net.rest()
        new = BrokerHost("hybrid", TINY)
        await new.start_brokers([PAIR[1]], 1)
        point = Point(Handle(net, new))
        await here.connect({leaf: Handle(net, net.hosts[leaf])}, point)
        net.hosts[leaf] = new
        events = [Events(batch_of([{"x": 1}], publisher="p", first_sequence=1))]
        for incarnation in (1, 1, 0):
            await here.receive(root, leaf, events, incarnation)
        assert point.asked == [leaf], "asked for once, when the new incarnation was heard of first"
        assert (await net.fetch())["c"] == [("p", 1), ("p", 1)], "what the old one said last is not heard"
        await new.connect({root: Handle(net, here)}, point)
        await net.publish(leaf, "q", [1, 2])
        await new.quiet(deliveries=False)
        await net.rest()
        await here.relink(leaf, None, 1)  # known already
        assert (await net.fetch())["c"][-2:] == [("q", 1), ("q", 2)]

    go(test)
