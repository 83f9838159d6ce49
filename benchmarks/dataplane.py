"""Three broker actors in a row, beside a bare chain of three Ray actors that only pass on what they get.

The brokers are a tree without branches. The publisher stands at the far end from the root, so every event passes all
three, and each broker matches it against its share of the subscriptions (stock alerts: a symbol and a price; about one
notification an event in all). The bare chain carries the same batches, one call in flight a link, and its end is
fetched by a long poll, as a subscriber's broker is. Idle latency is one event at a time, from the call that publishes
it until the driver holds it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

from ..actors.network.network import Network, ensure_ray
from ..protocol.batch import Column, EventBatch, batch_from_columns
from ..protocol.messages.recovery import Recovery
from ..protocol.stability import Stable
from ..protocol.values import Kind
from ..routing.topologies.cluster_trees import ClusterTree

SYMBOLS = 5_000
SUBSCRIBERS_PER_BROKER = 10
BATCH_EVENTS = 8_192
LATENCY_EVENTS = 300

Progress = Callable[[str, int, int], None]


def run(
    *,
    events: int = 400_000,
    subscriptions: int = 10_000,
    heals: bool = False,
    store: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure both chains in one run and return the figures.

    Parameters
    ----------
    events
        How many events are published in batches of 8,192.
    subscriptions
        How many there are, spread evenly over the three brokers.
    heals
        Whether the network notices and mends failures.
    store
        Where brokers keep what must outlive them: a folder, or the address of a database; None for nowhere.
    """
    show = progress or (lambda name, done, total: None)
    random = np.random.default_rng(seed)
    batches = [_trades(random, min(BATCH_EVENTS, events - start)) for start in range(0, events, BATCH_EVENTS)]
    started_ray = ensure_ray()
    try:
        recovery, stable = Recovery() if heals else None, None if store is None else Stable(store)
        chain = ClusterTree(3, 1, degree=1)
        with Network.launch(chain, recovery=recovery, stable=stable, progress=False) as net:
            show("subscriptions", 0, subscriptions)
            installed = _subscribe(net, subscriptions, random)
            show("subscriptions", subscriptions, subscriptions)
            latencies = _idle_latencies(net)
            events_per_second, notifications = _throughput(net, batches, show)
        bare_latencies, bare_events_per_second = _bare_chain(batches)
    finally:
        if started_ray:
            ray.shutdown()
    p50 = float(np.percentile(latencies, 50))
    bare_p50 = float(np.percentile(bare_latencies, 50))
    return {
        "benchmark": "dataplane",
        "brokers": 3,
        "subscriptions": installed,
        "heals": heals,
        "stable": store is not None,
        "events": events,
        "batch_events": BATCH_EVENTS,
        "notifications": notifications,
        "events_per_second": events_per_second,
        "latency_p50_seconds": p50,
        "latency_p99_seconds": float(np.percentile(latencies, 99)),
        "bare_chain_events_per_second": bare_events_per_second,
        "bare_chain_latency_p50_seconds": bare_p50,
        "bare_chain_latency_p99_seconds": float(np.percentile(bare_latencies, 99)),
        "times_bare_chain_latency": p50 / bare_p50,
        "of_bare_chain_events_per_second": events_per_second / bare_events_per_second,
    }


def _trades(random: np.random.Generator, size: int) -> EventBatch:
    words = tuple(f"S{number}" for number in range(SYMBOLS))
    codes = random.integers(0, SYMBOLS, size).astype(np.int32)
    return batch_from_columns(
        {
            ("symbol", Kind.STRING): Column(Kind.STRING, codes, None, words),
            ("price", Kind.FLOAT): Column(Kind.FLOAT, random.uniform(0, 100, size).round(2)),
            ("volume", Kind.INTEGER): Column(Kind.INTEGER, random.integers(1, 10_000, size)),
        },
        size,
    )


def _subscribe(net: Network, subscriptions: int, random: np.random.Generator) -> int:
    """Spread the subscriptions over all brokers; return how many there are."""
    brokers = [position.broker for position in net.positions]
    installed = 0
    for place, broker in enumerate(brokers):
        share = subscriptions // len(brokers) + (place < subscriptions % len(brokers))
        names = [f"alerts-{broker}-{number}" for number in range(SUBSCRIBERS_PER_BROKER)]
        for turn, subscriber in enumerate(net.subscribers(names, broker=broker)):
            mine = share // len(names) + (turn < share % len(names))
            subscriber.subscribe_all(
                f"symbol = 'S{random.integers(SYMBOLS)}' AND price > {random.uniform(0, 100):.2f}"
                for _ in range(mine)
            )
            installed += mine
    return installed


def _idle_latencies(net: Network) -> np.ndarray[Any, Any]:
    """Return the latencies of single events from the far end to the root, on an idle network."""
    root = next(position.broker for position in net.positions if position.role == "REB")
    far = net.positions[-1].broker
    subscriber = net.subscriber("idle", broker=root)
    subscriber.subscribe("ping = TRUE")
    publisher = net.publisher("pinger", broker=far)
    latencies = []
    for number in range(LATENCY_EVENTS):
        publisher.publish({"ping": True, "number": number})
        note = next(subscriber.notifications(timeout_seconds=10))
        latencies.append(note.latency_seconds)
    net.release(subscriber)
    return np.array(latencies[LATENCY_EVENTS // 10 :])


def _throughput(net: Network, batches: list[EventBatch], show: Progress) -> tuple[float, int]:
    """Return events per second from the first publication until the last notification is here, and their number."""
    publisher = net.publisher("exchange", broker=net.positions[-1].broker)
    total = sum(map(len, batches))
    started = time.perf_counter()
    done = 0
    for batch in batches:
        publisher.publish_batch(batch)
        done += len(batch)
        show("events through three brokers", done, total)
    net.settle(600)
    seconds = time.perf_counter() - started
    graph = net.describe()
    return total / seconds, sum(data["notifications"] for _, data in graph.nodes(data=True))


class _BareActor:
    """Passes on what it gets, one call in flight; the last one keeps it for the driver's poll."""

    def __init__(self, following: Any) -> None:
        self._following = following
        self._kept: list[Any] = []
        self._arrived = asyncio.Event()
        self._flying = asyncio.Lock()

    async def take(self, payload: Any) -> None:
        if self._following is None:
            self._kept.append(payload)
            self._arrived.set()
        else:
            asyncio.get_running_loop().create_task(self._pass_on(payload))

    async def take_when_free(self, payload: Any) -> None:
        """Take a batch and return when there is room for the next."""
        if self._following is None:
            self._kept.append(len(payload))
            self._arrived.set()
            return
        await self._flying.acquire()
        asyncio.get_running_loop().create_task(self._pass_on_and_free(payload))

    async def _pass_on_and_free(self, payload: Any) -> None:
        try:
            await self._following.take_when_free.remote(payload)
        finally:
            self._flying.release()

    async def arrived(self, events: int) -> None:
        """Return when so many events have come."""
        while sum(self._kept) < events:
            self._arrived.clear()
            await self._arrived.wait()

    async def _pass_on(self, payload: Any) -> None:
        await self._following.take.remote(payload)

    async def poll(self) -> list[Any]:
        while not self._kept:
            self._arrived.clear()
            await self._arrived.wait()
        kept, self._kept = self._kept, []
        return kept


def _bare_chain(batches: list[EventBatch]) -> tuple[np.ndarray[Any, Any], float]:
    """Return idle latencies and events per second of three actors that do nothing but pass on."""
    actor = ray.remote(_BareActor).options(num_cpus=0, max_concurrency=1000)
    last = actor.remote(None)
    first = actor.remote(actor.remote(last))
    try:
        latencies = []
        for number in range(LATENCY_EVENTS):
            poll = last.poll.remote()
            sent = time.time()
            taken = first.take.remote({"ping": True, "number": number, "sent": sent})
            ray.get(poll)
            latencies.append(time.time() - sent)
            ray.get(taken)
        started = time.perf_counter()
        for batch in batches:
            ray.get(first.take_when_free.remote(batch))
        ray.get(last.arrived.remote(sum(map(len, batches))))
        seconds = time.perf_counter() - started
    finally:
        ray.kill(first)
        ray.kill(last)
    return np.array(latencies[LATENCY_EVENTS // 10 :]), sum(map(len, batches)) / seconds
