"""Three broker actors in a chain, compared with a bare chain of three Ray actors that only forward.

The brokers are a tree without branches. The publisher is at the far end from the root, so every event passes
all three, and each broker matches it against its share of the subscriptions (stock alerts: a symbol and a
price; about one notification per event in total). The bare chain carries the same batches, with one call in
flight per link, and its end is read by a long poll, like a subscriber's broker. Idle latency is measured with
one event at a time, from the call that publishes it until the driver has received it.

Both chains exist at the same time and take turns, so that other load on the machine affects both. Quotients
are medians of the rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import ray

from ..actors.channels.config import Links
from ..actors.network.network import Network, ensure_ray
from ..protocol.batch import Column, EventBatch, batch_from_columns
from ..protocol.messages.recovery import Recovery
from ..protocol.stability import Stable
from ..protocol.values import Kind
from ..routing.topologies.cluster_trees import ClusterTree

SYMBOLS = 5_000
SUBSCRIBERS_PER_BROKER = 10
BATCH_EVENTS = 8_192
LATENCY_EVENTS = 100
"""Events per round; the first tenth is not counted."""

ROUNDS = 5

Progress = Callable[[str, int, int], None]


def run(
    *,
    events: int = 400_000,
    subscriptions: int = 10_000,
    heals: bool = False,
    store: str | None = None,
    links: Links = "ray",
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure both chains in one run and return the figures.

    Parameters
    ----------
    events
        The number of events published in batches of 8,192.
    subscriptions
        The number of subscriptions, spread evenly over the three brokers.
    heals
        Whether the network detects and repairs failures.
    store
        The brokers' stores: a folder, or the address of a database; None for no stores.
    links
        How bytes go between the processes of the network; the bare chain always uses calls of Ray.
    """
    show = progress or (lambda name, done, total: None)
    random = np.random.default_rng(seed)
    batches = [_trades(random, min(BATCH_EVENTS, events - start)) for start in range(0, events, BATCH_EVENTS)]
    rounds: list[tuple[Round, Round]] = []
    started_ray = ensure_ray()
    try:
        recovery, stable = Recovery() if heals else None, None if store is None else Stable(store)
        chain = ClusterTree(3, 1, degree=1)
        with (
            Network.launch(chain, recovery=recovery, stable=stable, links=links, progress=False) as net,
            _BareChain() as bare,
        ):
            show("subscriptions", 0, subscriptions)
            installed = _subscribe(net, subscriptions, random)
            show("subscriptions", subscriptions, subscriptions)
            brokers = _BrokerChain(net)
            for done in range(ROUNDS):
                show("rounds of both chains", done, ROUNDS)
                rounds.append((_round(brokers, batches), _round(bare, batches)))
            show("rounds of both chains", ROUNDS, ROUNDS)
            notifications = brokers.notifications()
    finally:
        if started_ray:
            ray.shutdown()
    ours, theirs = zip(*rounds, strict=True)
    latencies, bare_latencies = (np.concatenate([one.latencies for one in chain]) for chain in (ours, theirs))
    shares = [mine.events_per_second / other.events_per_second for mine, other in rounds]
    times = [float(np.median(mine.latencies) / np.median(other.latencies)) for mine, other in rounds]
    return {
        "benchmark": "dataplane",
        "brokers": 3,
        "subscriptions": installed,
        "heals": heals,
        "stable": store is not None,
        "links": links,
        "events": events,
        "rounds": ROUNDS,
        "batch_events": BATCH_EVENTS,
        "notifications": notifications,
        "events_per_second": float(np.median([one.events_per_second for one in ours])),
        "latency_p50_seconds": float(np.percentile(latencies, 50)),
        "latency_p99_seconds": float(np.percentile(latencies, 99)),
        "bare_chain_events_per_second": float(np.median([one.events_per_second for one in theirs])),
        "bare_chain_latency_p50_seconds": float(np.percentile(bare_latencies, 50)),
        "bare_chain_latency_p99_seconds": float(np.percentile(bare_latencies, 99)),
        "times_bare_chain_latency": float(np.median(times)),
        "times_bare_chain_latency_by_round": times,
        "of_bare_chain_events_per_second": float(np.median(shares)),
        "of_bare_chain_events_per_second_by_round": shares,
    }


class Round(NamedTuple):
    """The result of one turn of a chain."""

    latencies: np.ndarray[Any, Any]
    events_per_second: float


class _Chain(Protocol):
    def latency(self, number: int) -> float:
        """Return the latency of one event."""
        ...

    def carry(self, batches: list[EventBatch]) -> None:
        """Send the events of batches from end to end."""
        ...


def _round(chain: _Chain, batches: list[EventBatch]) -> Round:
    latencies = [chain.latency(number) for number in range(LATENCY_EVENTS)]
    started = time.perf_counter()
    chain.carry(batches)
    seconds = time.perf_counter() - started
    return Round(np.array(latencies[LATENCY_EVENTS // 10 :]), sum(map(len, batches)) / seconds)


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
    """Spread the subscriptions over all brokers; return their number."""
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


class _BrokerChain:
    """Three brokers, from the far end to the root."""

    def __init__(self, net: Network) -> None:
        self._net = net
        root = next(position.broker for position in net.positions if position.role == "REB")
        far = net.positions[-1].broker
        self._subscriber = net.subscriber("idle", broker=root)
        self._subscriber.subscribe("ping = TRUE")
        self._pinger = net.publisher("pinger", broker=far)
        self._exchange = net.publisher("exchange", broker=far)
        self._pings = 0

    def latency(self, number: int) -> float:
        """Return the latency of one event to a subscriber at the root."""
        self._pinger.publish({"ping": True, "number": number})
        self._pings += 1
        return next(self._subscriber.notifications(timeout_seconds=10)).latency_seconds

    def carry(self, batches: list[EventBatch]) -> None:
        """Publish batches, and return when the last notification has arrived."""
        for batch in batches:
            self._exchange.publish_batch(batch)
        self._net.settle(600)

    def notifications(self) -> int:
        """Return the number of notifications of the batches."""
        graph = self._net.describe()
        return int(sum(data["notifications"] for _, data in graph.nodes(data=True))) - self._pings


class _BareActor:
    """Forwards its input, with one call in flight; the last actor stores it for the driver's poll."""

    def __init__(self, following: Any) -> None:
        self._following = following
        self._kept: list[Any] = []
        self._events = 0
        self._arrived = asyncio.Event()
        self._flying = asyncio.Lock()

    async def take(self, payload: Any) -> None:
        if self._following is None:
            self._kept.append(payload)
            self._arrived.set()
        else:
            asyncio.get_running_loop().create_task(self._pass_on(payload))

    async def take_when_free(self, payload: Any) -> None:
        """Accept a batch and return when there is room for the next."""
        if self._following is None:
            self._events += len(payload)
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
        """Return when that many events have arrived."""
        while self._events < events:
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


class _BareChain:
    """Three actors that only forward."""

    def __init__(self) -> None:
        actor = ray.remote(_BareActor).options(num_cpus=0, max_concurrency=1000)
        self._last = actor.remote(None)
        self._first = actor.remote(actor.remote(self._last))
        self._carried = 0

    def __enter__(self) -> _BareChain:
        return self

    def __exit__(self, *error: object) -> None:
        ray.kill(self._first)
        ray.kill(self._last)

    def latency(self, number: int) -> float:
        """Return the latency of one event to the driver, which polls the last actor."""
        poll = self._last.poll.remote()
        sent = time.time()
        taken = self._first.take.remote({"ping": True, "number": number, "sent": sent})
        ray.get(poll)
        seconds = time.time() - sent
        ray.get(taken)
        return seconds

    def carry(self, batches: list[EventBatch]) -> None:
        """Send batches through the chain, and return when the last actor has all of them."""
        for batch in batches:
            ray.get(self._first.take_when_free.remote(batch))
        self._carried += sum(map(len, batches))
        ray.get(self._last.arrived.remote(self._carried))
