"""The walks of docs/architecture.md name the files that are entered, and no others.

Hosts are wired to each other without Ray: a call is packed to bytes, and unpacked by the host that it is for.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from rayvous.actors.clients.arrivals import Arrivals
from rayvous.actors.clients.inbox import Inbox
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from walks import Entry, entries_made, files_entered, steps_of, walk_in_docs

T = TypeVar("T")


class Wired(PackedCalls):
    """The actor of a host in this process."""

    def __init__(self, host: BrokerHost) -> None:
        for method in ("receive", "request", "poll"):
            setattr(self, method, SimpleNamespace(remote=getattr(host, method)))
        self.host = host

    def _call(self, *pieces: bytes) -> Any:
        return self.host.call(*pieces)


class Process:
    """The process of a subscriber."""

    def __init__(self) -> None:
        self.inbox = Inbox("root", 100, None)

    def inbox_of(self, client: str, host: Any) -> Inbox | None:
        return self.inbox

    def told(self, news: Any) -> None:
        raise AssertionError(f"{news} is not an event")

    def heard(self, host: Any, now: float) -> None:
        self.inbox.heard_at = now


async def two_hosts() -> tuple[BrokerHost, BrokerHost]:
    """Return the hosts of the root and of a leaf; a link between them has been used."""
    places = ClusterTree(2, 1).positions()
    hosts = [BrokerHost("hybrid", Limits.for_tests()) for _ in places]
    for host, place in zip(hosts, places, strict=True):
        await host.start_brokers([place])
    for host in hosts:
        await host.connect({place.broker: Wired(each) for place, each in zip(places, hosts, strict=True)})
    return hosts[0], hosts[1]


def walked(story: Callable[[], Awaitable[list[T]]]) -> list[T]:
    async def whole() -> list[T]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await story()

    return asyncio.run(whole())


async def event(watched: Callable[[], AbstractContextManager[list[T]]] = files_entered) -> list[T]:
    """A publisher at the leaf, a subscriber at the root."""
    root, leaf = await two_hosts()
    await root.request(0, "alice", [Register(1, to_filter("price > 10"))], "process")
    process = Process()
    arrivals = Arrivals(process, root)

    async def publish(price: int, number: int) -> None:
        batch = batch_of([{"price": price}], publisher="bob", first_sequence=number)
        await leaf.request(1, "bob", [Events(batch)])
        answer = await root.poll("process", number - 1, 1.0)
        assert await arrivals.take_all(answer) and arrivals.acknowledged == number

    await publish(11, 1)
    with watched() as found:
        await publish(12, 2)
    assert process.inbox.waiting == 2
    return found


async def subscription() -> list[str]:
    """A subscriber at the leaf; its subscription is confirmed by the root."""
    _, leaf = await two_hosts()
    await leaf.request(1, "alice", [Register(1, to_filter("price > 10"))], "process")
    wanted = to_filter("price > 5")
    with files_entered() as files:
        await leaf.request(1, "alice", [Register(2, wanted)], "process")
    return files


async def heartbeat() -> list[str]:
    """One heartbeat of a network that heals, in virtual time."""
    net = Simulation(ClusterTree(2, 2).positions(), recovery=Recovery.for_simulator())
    net.advance(10.0)
    with files_entered() as files:
        net.advance(1.0)
    return files


STEPS_MAX = {"An event": 37, "A subscription": 26, "A heartbeat": 31}
WALKS = {"An event": event, "A subscription": subscription, "A heartbeat": heartbeat}


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_the_files_that_are_entered(title: str) -> None:
    entered = steps_of(walked(WALKS[title]))
    assert sorted(set(walk_in_docs(title))) == sorted(entered), f"the walk is now: {', '.join(entered)}"
    assert len(entered) <= STEPS_MAX[title], "a walk does not grow unnoticed"


HOP_FILES_MAX = 25
HOP_ENTRIES_MAX = 5
ARRIVES = ("BrokerHost.request", "BrokerHost.call")
LEAVES = "BrokerHost.poll"


def hops(entries: list[Entry]) -> list[list[Entry]]:
    """Return the entries at each broker: from the arrival of the event there to its next one, or to the poll."""
    starts = [place for place, entry in enumerate(entries) if entry.function in (*ARRIVES, LEAVES)]
    assert [entries[place].function for place in starts] == [*ARRIVES, LEAVES]
    return [entries[one:other] for one, other in itertools.pairwise(starts)]


def test_an_event_passes_few_files_at_a_broker_and_enters_each_seldom() -> None:
    """Decision 0173. Values (`protocol`) are not entered: they are asked."""
    for hop in hops(walked(lambda: event(entries_made))):
        steps = steps_of([entry.file for entry in hop])
        assert len(steps) <= HOP_FILES_MAX, f"{len(steps)}: {', '.join(steps)}"
        times = Counter(entry.file for entry in hop if not entry.file.startswith("protocol/"))
        often = {file: count for file, count in times.items() if count > HOP_ENTRIES_MAX}
        assert not often, f"entered too often: {often}"
