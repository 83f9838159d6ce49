"""Brokers rest while their hosts send heartbeats for them, and a death is noticed no later.

Hosts are wired to each other without Ray; the test sets the time.

Reference: paper 1, 4.1; promise 6; docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

import ast
import asyncio
import pickle
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError
from rayvous.actors.host import resting
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.resting import Awake, Resting
from rayvous.actors.host.standing import Stands
from rayvous.actors.host.ticking import TOLD_AT_ONCE
from rayvous.faults.real.link_faults import LinkFaultTable
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.ids import BrokerId
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.replay.replay import Replay
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery(heartbeat_seconds=1.0, suspect_after_seconds=3.0, retention_seconds=8.0)
TICK = 0.25
TREE = ClusterTree(3, 3, degree=2).positions()
ROOT = 2
HOSTS = 3
LOST = 2
"""A host: that of the brokers 4 and 5, of which 5 is designated in cluster 1 and a child of the root."""


def place_of(broker: BrokerId) -> int:
    """Return the host of a broker; hosts 0 and 2 have no brokers that know each other."""
    return broker // 2 % HOSTS


class Call:
    """A method of an actor; it pickles its arguments."""

    def __init__(self, handle: "Handle", name: str) -> None:
        self.handle, self.name = handle, name

    async def remote(self, *call: Any) -> Any:
        handle = self.handle
        if handle.dead:
            raise ActorDiedError
        if handle.away:
            raise ConnectionError("nobody can be reached there")
        handle.calls[self.name] += 1
        await handle.reachable.wait()
        return await getattr(handle.host, self.name)(*pickle.loads(pickle.dumps(call)))


class Handle(PackedCalls):
    """A fake handle of an actor."""

    def __init__(self, host: BrokerHost) -> None:
        self.host, self.calls = host, Counter[str]()
        self.dead = self.away = False
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.receive, self.host_beat = Call(self, "receive"), Call(self, "host_beat")


class Point:
    """A fake rendezvous point that hears the root, and never answers."""

    receive: "Point"

    def __init__(self) -> None:
        self.receive = self

    async def remote(self, *call: Any) -> None:
        return None


class Net:
    """Hosts with some of the brokers each, and one clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.hosts: list[BrokerHost] = []
        self.handles: list[Handle] = []
        self.stopped: set[int] = set()
        self.told: Counter[BrokerId] = Counter()

    async def start(self) -> "Net":
        for place in range(HOSTS):
            host = BrokerHost("hybrid", Limits.for_tests(), recovery=RECOVERY)
            await host.start_brokers([position for position in TREE if place_of(position.broker) == place])
            self.set_clock(host)
            self.hosts.append(host)
        self.handles = [Handle(host) for host in self.hosts]
        known = {position.broker: self.handles[place_of(position.broker)] for position in TREE}
        for host in self.hosts:
            await host.connect(known, rendezvous=Point())
            host.clock.begin()
            self.count(host)
        return self

    def set_clock(self, host: BrokerHost) -> None:
        host.clock.now = lambda: self.now  # type: ignore[method-assign]
        assert isinstance(host.resting, Resting)
        host.resting._went_on_at = self.now

    def count(self, host: BrokerHost) -> None:
        """Count the events that the brokers of a host handle."""
        for broker, hosted in host.hosted_brokers.items():
            handle = hosted.broker.handle

            def counted(event: Any, broker: BrokerId = broker, handle: Any = handle) -> Any:
                self.told[broker] += 1
                return handle(event)

            hosted.broker.handle = counted

    async def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, tick by tick; return whether `until` became true."""
        for _ in range(round(seconds / TICK)):
            self.now += TICK
            for place, host in enumerate(self.hosts):
                if place not in self.stopped:
                    await host.ticking.turn()
            for _ in range(60):
                await asyncio.sleep(0)
            if until():
                return True
        return False

    def stop(self, place: int) -> None:
        """Pause the process of a host: it does not continue, and calls to it hang."""
        self.stopped.add(place)
        self.handles[place].reachable.clear()

    def kill(self, place: int) -> None:
        """Kill the process of a host."""
        self.stopped.add(place)
        self.handles[place].dead = True

    def go_on(self, place: int) -> None:
        self.stopped.discard(place)
        self.handles[place].reachable.set()

    def resting(self) -> list[BrokerId]:
        """Return the brokers that rest, on running hosts."""
        going = [host for place, host in enumerate(self.hosts) if place not in self.stopped]
        hosted_brokers = {broker: hosted for host in going for broker, hosted in host.hosted_brokers.items()}
        return sorted(broker for broker, hosted in hosted_brokers.items() if hosted.rests_until is not None)

    def healing(self, broker: BrokerId) -> Any:
        return self.hosts[place_of(broker)].hosted_brokers[broker].broker.layer(HealingBroker)

    async def never_rest(self) -> None:
        for host in self.hosts:
            await host.inject(LinkFaultTable())

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Count the calls between hosts in this block."""
        before = sum((handle.calls for handle in self.handles), Counter[str]())
        made = Counter[str]()
        yield made
        made.update(sum((handle.calls for handle in self.handles), Counter[str]()) - before)


def go(test: Callable[[Net], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(await Net().start()), PATIENCE_SECONDS)

    asyncio.run(run())


ALL_BUT_ROOT = sorted(position.broker for position in TREE if position.broker != ROOT)


def test_all_but_the_root_rest_and_take_no_time_and_hosts_beat_once_a_heartbeat() -> None:
    async def test(net: Net) -> None:
        assert await net.run(8, lambda: net.resting() == ALL_BUT_ROOT)
        await net.run(2)
        net.told.clear()
        with net.counted() as calls:
            await net.run(10)
        assert set(net.told) == {ROOT}
        assert calls == {"host_beat": 10 * 4}, "one from each to each that it knows, and nothing else"

    go(test)


def test_nobody_rests_while_links_have_faults() -> None:
    async def test(net: Net) -> None:
        await net.run(8)
        await net.never_rest()
        assert not net.resting()
        net.told.clear()
        with net.counted() as calls:
            await net.run(3)
        assert min(net.told[position.broker] for position in TREE) >= 12, "they are told the time"
        assert calls["receive"] > 20 and calls["host_beat"] <= 4, "what stood is taken back"
        assert not net.resting()

    go(test)


def noticed_after(rest: bool) -> dict[str, float]:
    """Return how long after its host stops a broker is suspected, in its cluster and in the tree."""
    found: dict[str, float] = {}

    async def test(net: Net) -> None:
        await net.run(10)
        if not rest:
            await net.never_rest()
        await net.run(22.5)
        assert bool(net.resting()) is rest
        stopped_at = net.now
        net.stop(LOST)

        def look() -> bool:
            if net.healing(3).place.succession.state.value != "normal":
                found.setdefault("by a member", net.now - stopped_at)
            if net.healing(ROOT).place.probing.probed:
                found.setdefault("by the root", net.now - stopped_at)
            return len(found) == 2

        await net.run(20, look)

    go(test)
    return found


def test_a_silent_host_is_suspected_as_soon_as_its_brokers_would_be() -> None:
    rested, awake = noticed_after(rest=True), noticed_after(rest=False)
    assert rested.keys() == awake.keys() and len(rested) == 2
    for who, seconds in rested.items():
        assert seconds <= awake[who] + 2 * TICK, "no slower"
        assert seconds > RECOVERY.suspect_after_seconds - RECOVERY.heartbeat_seconds, (
            "nor sooner than it may be"
        )


def test_what_a_host_took_along_is_mended_and_all_rest_again() -> None:
    async def test(net: Net) -> None:
        await net.run(10)
        net.kill(LOST)
        assert await net.run(20, lambda: net.healing(3).designated and bool(net.healing(3).place.path))
        assert net.healing(ROOT).place.children[1].designated == 3
        left = [broker for broker in ALL_BUT_ROOT if place_of(broker) != LOST]
        assert await net.run(20, lambda: net.resting() == left)

    go(test)


def test_a_host_that_is_only_late_wakes_who_listens_to_it_and_nobody_is_suspected() -> None:
    async def test(net: Net) -> None:
        await net.run(10)
        net.told.clear()
        net.stop(0)
        await net.run(2.25)
        assert set(net.told) == {ROOT, 8}, "who listens to a broker there is told the time again"
        net.go_on(0)
        assert await net.run(8, lambda: net.resting() == ALL_BUT_ROOT)
        assert all(net.healing(position.broker).place.view.epoch == 0 for position in TREE)

    go(test)


def test_a_beat_that_nobody_took_does_not_stand() -> None:
    """A host that does not have the broker yet says so, and is told again."""

    async def test(net: Net) -> None:
        late = net.hosts[place_of(5)].hosted_brokers.pop(5)
        await net.run(2.5)
        net.hosts[place_of(5)].hosted_brokers[5] = late
        assert await net.run(8, lambda: net.resting() == ALL_BUT_ROOT)
        assert all(net.healing(position.broker).place.view.epoch == 0 for position in TREE)

    go(test)


def test_what_is_revoked_at_a_host_without_the_broker_is_not_said_again() -> None:
    """Its broker has left. It would be told with every heartbeat for ever."""

    async def test(net: Net) -> None:
        host = net.hosts[place_of(3)]
        beats = [Stands(ROOT, 0, to, beat) for to in (3, 99) for beat in ("I live", None)]
        assert await host.host_beat("another", beats) == [True, True, False, True]

    go(test)


def test_a_host_to_which_no_beat_can_be_brought_is_known() -> None:
    """So a group does not wait for a member there that Ray does not yet know to be dead."""

    async def test(net: Net) -> None:
        await net.run(10)
        ways, lost = net.hosts[1].transport, net.handles[LOST]
        assert not ways.unreached(5)
        lost.away = True
        await net.run(1.25)
        assert ways.unreached(5) and ways.unreached(4) and not ways.unreached(1) and not ways.unreached(8)
        lost.away = False
        await net.run(1.25)
        assert not ways.unreached(5)

    go(test)


def test_a_host_that_stood_still_tells_its_brokers_so() -> None:
    async def test(net: Net) -> None:
        await net.run(10)
        net.stop(0)
        await net.run(2.5)
        net.go_on(0)
        await net.run(TICK)
        for hosted in net.hosts[0].hosted_brokers.values():
            replay = hosted.broker.layer(Replay)
            assert replay is not None and replay.rounds._asleep[0] == pytest.approx(2.75)
        for hosted in net.hosts[1].hosted_brokers.values():
            assert hosted.broker.layer(Replay).rounds._asleep[0] == 0.0, "they rested"

    go(test)


def test_events_wake_those_on_their_way_and_are_kept_as_long_as_ever() -> None:
    """Promise 2: retention continues while a broker rests."""

    async def test(net: Net) -> None:
        await net.run(10)
        reader = net.hosts[0]
        asking = asyncio.ensure_future(reader.request(6, "s", [Register(1, to_filter("x > 0"))], "process"))
        assert await net.run(1, asking.done), "a subscription does not wait for anybody to wake"
        batch = Events(batch_of([{"x": 1}], publisher="p"))
        publishing = asyncio.ensure_future(net.hosts[place_of(3)].request(3, "p", [batch]))
        assert await net.run(1, publishing.done)
        await net.run(TICK)
        (delivery,) = await reader.poll("process", 0, 0.0)
        assert delivery.batch.identity(0) == ("p", 1)
        assert await net.run(3, lambda: 3 in net.resting()), "what is kept does not keep it from resting"
        kept = net.hosts[place_of(3)].hosted_brokers[3].broker.layer(Replay)
        assert kept is not None and len(kept.rounds.kept()) == 1
        await net.run(RECOVERY.retention_seconds + 2)
        assert not kept.rounds.kept(), "what is kept is forgotten in time"
        assert net.resting() == ALL_BUT_ROOT

    go(test)


def test_calls_are_taken_while_many_brokers_are_told_the_time() -> None:
    async def run() -> None:
        positions = ClusterTree(1, 2 * TOLD_AT_ONCE).positions()
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=RECOVERY)
        await host.start_brokers(positions)
        await host.connect({}, rendezvous=Point())
        told: list[BrokerId] = []
        host.driver.tell_time = lambda hosted: told.append(hosted.broker.position.broker)  # type: ignore[method-assign]

        async def call() -> int:
            return len(told)

        calling = asyncio.ensure_future(call())
        await host.ticking.turn()
        assert len(told) == len(positions) and await calling == TOLD_AT_ONCE

    asyncio.run(run())


def test_where_nothing_heals_no_broker_rests_and_every_heartbeat_is_sent() -> None:
    """What stands in for `Resting` has each method that parts of a host call, and does nothing."""

    async def test() -> None:
        host = BrokerHost("hybrid", Limits.for_tests())
        assert type(host.resting) is Awake
        await host.start_brokers(ClusterTree(1, 1).positions())
        (hosted,) = host.hosted_brokers.values()
        box: Any = None
        assert not host.resting.holds_back(hosted, 1, (1,), "a beat", box)
        host.resting.turn()
        host.resting.try_rest(hosted)
        host.resting.wake(hosted)
        host.resting.stop()
        host.resting.reborn(0)
        await host.resting.hear("another host", [])
        assert hosted.rests_until is None and hosted.ticked_at == 0.0

    asyncio.run(test())
    called = {
        node.func.attr
        for path in Path(resting.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr in ("_resting", "resting")
    }
    assert called and called <= vars(Awake).keys()
