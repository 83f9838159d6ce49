"""Networks of hundreds to thousands of brokers that heal: the cost of starting, running, and losing a node.

Uses several Ray nodes on one machine, or a running cluster. On the latter no node can be removed, so the
actors of one node are killed.

Rules
-----
* Each size is a separate network, launched, measured and closed; parameters are the same for all, and
  reported.
* Deliveries are compared with publications, publisher by publisher: anything missing is reported as such.
* Idle CPU is that of the processes with brokers over a window, after all brokers that can rest do (decision
  0092).
* Memory is the processes' private memory, divided by the number of brokers.
* A node is removed while events are published. Times count from there: until the first broker has noticed and
  until the last one has found its place, as reported by the brokers; until a survey shows one tree without
  the dead brokers; until everything published is delivered; and, beside them, until Ray has declared the node
  dead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any, Final

import psutil

from ..actors.channels.config import LINKS, LINKS_DEFAULT, Links
from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.network.network import Network
from ..protocol.checks import one_of
from ..protocol.errors import BrokerUnavailable, InputError
from ..protocol.ids import ClientId
from ..protocol.messages.recovery import Recovery
from ..routing.topologies.cluster_trees import ClusterTree
from .ray_nodes import Nodes, ask, ask_each, brokers_by_node, ray_nodes

CLUSTER_BROKERS: Final = 10
SUBSCRIBERS: Final = 100
EVENTS: Final = 1_000
PACE_SECONDS: Final = 0.25
EVENTS_A_PACE: Final = 10
IDLE_SECONDS: Final = 10.0
SUSPECT_HEARTBEATS: Final = 3
"""As in `Recovery`."""
REST_HEARTBEATS: Final = 30
BOUND_SECONDS: Final = 300.0

Progress = Callable[[str, int, int], None]


def run(
    *,
    brokers: Sequence[int] = (100, 1_000, 10_000),
    nodes: int = 3,
    address: str | None = None,
    brokers_per_actor: int = 500,
    heartbeat_seconds: float = 2.0,
    links: Links = LINKS_DEFAULT,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Measure each size, and return the figures as plain data.

    Parameters
    ----------
    brokers
        The sizes; multiples of ten, as a cluster has ten brokers.
    nodes
        Ray nodes on this machine, if there is no `address`.
    address
        The address of a running Ray cluster.
    brokers_per_actor, heartbeat_seconds, links
        Settings of every network.

    Raises
    ------
    InputError
        If a size is not a multiple of ten.
    BrokerUnavailable
        If a network does not become quiescent, or does not heal.
    """
    for size in brokers:
        if size < CLUSTER_BROKERS or size % CLUSTER_BROKERS:
            raise InputError(f"brokers {size}: a multiple of {CLUSTER_BROKERS}, which a cluster has")
    one_of("links", links, LINKS)
    show = progress or (lambda name, done, total: None)
    recovery = Recovery(
        heartbeat_seconds=heartbeat_seconds, suspect_after_seconds=SUSPECT_HEARTBEATS * heartbeat_seconds
    ).validate()
    rows = []
    with ray_nodes(nodes, address) as here:
        for size in brokers:
            rows.append(_measure(size, here, brokers_per_actor, recovery, links, show))
            if here.own and len(here.living()) < nodes:
                here.add(nodes - len(here.living()))
    return {
        "benchmark": "scale",
        "nodes": nodes if address is None else "of the cluster",
        "brokers_per_actor": brokers_per_actor,
        "heartbeat_seconds": heartbeat_seconds,
        "links": links,
        "suspect_after_seconds": recovery.suspect_after_seconds,
        "results": rows,
    }


def _measure(
    size: int, here: Nodes, brokers_per_actor: int, recovery: Recovery, links: Links, show: Progress
) -> dict[str, object]:
    """Launch a network, use it, let it idle, remove a node, and return the measurements."""
    steps = iter(range(1, 7))

    def step() -> None:
        show(f"{size} brokers", next(steps), 6)

    tree = ClusterTree(size // CLUSTER_BROKERS, CLUSTER_BROKERS)
    began = time.perf_counter()
    settings: dict[str, Any] = {"recovery": recovery, "brokers_per_actor": brokers_per_actor, "links": links}
    with Network.launch(tree, progress=False, **settings) as net:
        row: dict[str, object] = {"brokers": size, "launch_seconds": time.perf_counter() - began}
        row["one_tree_seconds"] = net.await_convergence(BOUND_SECONDS)
        step()
        row |= _memory(net, size)
        row |= _idle(net, size, recovery)
        step()
        readers, told = _subscribe(net, size)
        row |= told
        step()
        row |= _publish(net, size, readers)
        row |= _connections(net, here)
        step()
        row |= _lose_node(net, here, readers)
        step()
    step()
    return row


def _memory(net: Network, size: int) -> dict[str, object]:
    own = ask(net, "own_bytes")
    return {
        "actors": len(own),
        "own_megabytes_an_actor": sum(own) / len(own) / 2**20,
        "own_kilobytes_a_broker": sum(own) / size / 2**10,
    }


def _connections(net: Network, here: Nodes) -> dict[str, object]:
    """Return how many connections and open files the actor with the most has, once all are in use."""
    found: dict[str, object] = {"channels_an_actor_max": None, "files_an_actor_max": None}
    looks = [next(iter(sizes.values())) for sizes in ask(net, "describe")]
    found["channels_an_actor_max"] = max(sizes.get("hosts_by_channel", 0) for sizes in looks)
    if here.own:
        pids = [int(process.partition(":")[2]) for process in ask_each(net, "own_bytes")]
        found["files_an_actor_max"] = max(psutil.Process(pid).num_fds() for pid in pids)
    return found


def resting(net: Network) -> int:
    """Return the number of resting brokers."""
    return sum(sizes["resting"] for answer in ask(net, "describe") for sizes in answer.values())


def _idle(net: Network, size: int, recovery: Recovery) -> dict[str, object]:
    """Wait, a heartbeat at a time, until all brokers that can rest do, and measure the CPU use of the actors."""
    for _ in range(REST_HEARTBEATS):
        if resting(net) >= size - 1:
            break
        time.sleep(recovery.heartbeat_seconds)
    before, began = sum(ask(net, "cpu_seconds")), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    used = sum(ask(net, "cpu_seconds")) - before
    return {"idle_cores": used / (time.perf_counter() - began), "resting": resting(net)}


def _subscribe(net: Network, size: int) -> tuple[list[Subscriber], dict[str, object]]:
    """Attach subscribers all over the network, one after the other; each subscribes to everything."""
    at = [number * size // SUBSCRIBERS for number in range(SUBSCRIBERS)]
    readers = [net.subscriber(f"reader-{number}", broker=broker) for number, broker in enumerate(at)]
    began = time.perf_counter()
    for number, reader in enumerate(readers):
        reader.subscribe(f"x >= 0 AND x > -{number + 1}")
    seconds = time.perf_counter() - began
    return readers, {"subscribers": len(readers), "subscribe_seconds": seconds / len(readers)}


def _publish(net: Network, size: int, readers: Sequence[Subscriber]) -> dict[str, object]:
    """Publish a batch at one broker, and wait until all subscribers have all of it."""
    publisher = net.publisher("first", broker=size // 2)
    began = time.perf_counter()
    publisher.publish_batch([{"x": x} for x in range(EVENTS)])
    published = time.perf_counter() - began
    net.settle(BOUND_SECONDS)
    seconds = time.perf_counter() - began
    missing, _ = judged(readers, {"first": EVENTS})
    net.release(publisher)
    return {
        "events": EVENTS,
        "publish_seconds": published,
        "settle_seconds": seconds,
        "notifications_per_second": (EVENTS * len(readers) - missing) / seconds,
        "notifications_missing": missing,
    }


def judged(readers: Sequence[Subscriber], published: Mapping[ClientId, int]) -> tuple[int, int]:
    """Read what subscribers that want everything have received, and compare it with what was published.

    Returns
    -------
    tuple of int
        The number of missing, duplicate and reordered notifications; and how many of the missing ones their subscriber
        was told of by name, as it is when brokers retained them for too short a time.
    """
    wrong = told = 0
    for reader in readers:
        came: dict[ClientId, list[int]] = {name: [] for name in published}
        for note in reader.notifications(0):
            came[note.publisher].append(note.sequence)
        lost = {(one.publisher, number) for one in reader.losses for number in range(one.first, one.last + 1)}
        for name, last in published.items():
            missing = set(range(1, last + 1)).difference(came[name])
            wrong += len(missing) + len(came[name]) - len(set(came[name]))
            wrong += sum(later < earlier for earlier, later in pairwise(came[name]))
            told += sum((name, number) in lost for number in missing)
    return wrong, told


def _lose_node(net: Network, here: Nodes, readers: Sequence[Subscriber]) -> dict[str, object]:
    """Remove a node under load, and return when it was noticed, and whether everything was delivered."""
    by_node = brokers_by_node(net)
    home = net.inspect.node_of(0)
    others = [node for node in sorted(by_node) if node != home]
    if not others:
        return {"removed": None}
    lost = others[-1]
    gone = by_node[lost]
    survivors = [broker for broker in net.inspect.brokers() if broker not in set(gone)]
    publishers = [net.publisher("kept", broker=survivors[-1]), net.publisher("moved", broker=gone[-1])]
    with _publishing(publishers) as (published, stop):
        time.sleep(4 * PACE_SECONDS)
        began, at = time.perf_counter(), time.time()
        if here.own:
            here.remove(lost)
        else:
            for host in {net.inspect.directory.hosts[broker] for broker in gone}:
                net.kill_broker(next(b for b in gone if net.inspect.directory.hosts[b] is host))
        seen: dict[str, float] = {}
        watching = threading.Thread(target=_watch_ray, args=(here, lost, began, seen))
        watching.start()
        while not set(gone).isdisjoint(net.inspect.survey()) and time.perf_counter() - began < BOUND_SECONDS:
            time.sleep(PACE_SECONDS)  # until they are dead
        dead = time.perf_counter() - began
        net.await_convergence(BOUND_SECONDS)
        healed = time.perf_counter() - began
        moved = [
            moment - at for one in net.inspect.survey().values() for moment in one["moved_at"] if moment > at
        ]
        stop.set()
    net.settle(BOUND_SECONDS)
    delivered = time.perf_counter() - began
    watching.join()
    expected = sum(published.values()) * len(readers)
    wrong, told = judged(readers, published)
    return {
        "removed": "a node" if here.own else "the actors of a node",
        "brokers_lost": len(gone),
        "noticed_seconds": min(moved, default=None),
        "mended_seconds": max(moved, default=None),
        "unheard_seconds": dead,
        "ray_noticed_seconds": seen.get("ray"),
        "healed_seconds": healed,
        "delivered_seconds": delivered,
        "notifications_expected": expected,
        "notifications_wrong": wrong,
        "notifications_told_lost": told,
    }


def _watch_ray(here: Nodes, lost: str, began: float, seen: dict[str, float]) -> None:
    """Record when Ray has declared a node dead; this can only be polled."""
    while here.own and time.perf_counter() - began < BOUND_SECONDS:
        if lost not in here.living():
            seen["ray"] = time.perf_counter() - began
            return
        time.sleep(PACE_SECONDS)


@contextmanager
def _publishing(publishers: Sequence[Publisher]) -> Iterator[tuple[dict[ClientId, int], threading.Event]]:
    """Publish a few events with each publisher repeatedly, until told to stop; yield how many each has published."""
    published: dict[ClientId, int] = {}
    stop = threading.Event()
    failed: list[Exception] = []

    def feed(publisher: Publisher) -> None:
        try:
            for number in count():
                first = number * EVENTS_A_PACE
                publisher.publish_batch([{"x": first + x} for x in range(EVENTS_A_PACE)])
                published[publisher.name] = first + EVENTS_A_PACE
                if stop.wait(PACE_SECONDS):
                    return
        except Exception as error:
            failed.append(error)

    feeds = [threading.Thread(target=feed, args=(publisher,)) for publisher in publishers]
    for each in feeds:
        each.start()
    try:
        yield published, stop
    finally:
        stop.set()
        for each in feeds:
            each.join()
    if failed:
        raise BrokerUnavailable(f"a publisher could not go on: {failed[0]}") from failed[0]
