"""Three broker actors in a chain, compared with bare chains of three Ray actors that only forward.

The brokers are a tree without branches. The publisher is at the far end from the root, so every event passes
all three, and each broker matches it against its share of the subscriptions (stock alerts: a symbol and a
price; about one notification per event in total). The bare chains (`bare_chains`) carry the same batches. Idle
latency is measured with one event at a time, from the call that publishes it until the driver has received it.
The CPU time of these events is that of the three actors and of the driver.

All chains exist at the same time and take turns, so that other load on the machine affects all. Quotients are
medians of the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import ray

from ..actors.channels.config import LINKS_DEFAULT, Links
from ..actors.network.network import Network, ensure_ray
from ..protocol.batch import Column, EventBatch, batch_from_columns
from ..protocol.messages.recovery import Recovery
from ..protocol.values import Kind
from ..recovery.durability.stable import Stable
from ..routing.topologies.cluster_trees import ClusterTree
from .bare_chains import RayChain, SocketChain

SYMBOLS = 5_000
SUBSCRIBERS_PER_BROKER = 10
BATCH_EVENTS = 8_192
LATENCY_EVENTS = 100
"""Events per round; the first tenth is not counted."""

ROUNDS = 5
GOALS = {
    "of_bare_chain_events_per_second": "at least 2",
    "times_bare_chain_latency": "at most 0.2",
    "times_bare_chain_cpu": "at most 0.2",
    "times_socket_chain_latency": "at most 3",
}
"""What the ratios of these names are compared with."""

Progress = Callable[[str, int, int], None]


def run(
    *,
    events: int = 400_000,
    subscriptions: int = 10_000,
    heals: bool = False,
    store: str | None = None,
    links: Links = LINKS_DEFAULT,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Measure all chains in one run and return the figures.

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
        How bytes go between the processes of the network.
    """
    show = progress or (lambda name, done, total: None)
    random = np.random.default_rng(seed)
    batches = [_trades(random, min(BATCH_EVENTS, events - start)) for start in range(0, events, BATCH_EVENTS)]
    rounds: list[tuple[Round, ...]] = []
    started_ray = ensure_ray()
    try:
        recovery, stable = Recovery() if heals else None, None if store is None else Stable(store)
        chain = ClusterTree(3, 1, degree=1)
        with (
            Network.launch(chain, recovery=recovery, stable=stable, links=links, progress=False) as net,
            RayChain() as bare,
            SocketChain() as sockets,
        ):
            show("subscriptions", 0, subscriptions)
            installed = _subscribe(net, subscriptions, random)
            show("subscriptions", subscriptions, subscriptions)
            brokers = _BrokerChain(net)
            for done in range(ROUNDS):
                show("rounds of all chains", done, ROUNDS)
                rounds.append(tuple(_round(each, batches) for each in (brokers, bare, sockets)))
            show("rounds of all chains", ROUNDS, ROUNDS)
            notifications = brokers.notifications()
    finally:
        if started_ray:
            ray.shutdown()
    ours, called, joined = zip(*rounds, strict=True)
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
        **_figures("", ours),
        **_figures("bare_chain_", called),
        **_figures("socket_chain_", joined),
        **_ratios("bare_chain", ours, called),
        **_ratios("socket_chain", ours, joined),
        "goals": GOALS,
    }


class Round(NamedTuple):
    """The result of one turn of a chain; the CPU time is that of the events that were sent one at a time."""

    latencies: npt.NDArray[np.float64]
    cpu_seconds_per_event: float
    events_per_second: float


class _Chain(Protocol):
    def latency(self, number: int) -> float:
        """Return the latency of one event."""
        ...

    def carry(self, batches: list[EventBatch]) -> None:
        """Send the events of batches from end to end."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU time that the chain's actors have used so far."""
        ...


def _round(chain: _Chain, batches: list[EventBatch]) -> Round:
    warm = LATENCY_EVENTS // 10
    for number in range(warm):
        chain.latency(number)
    used = chain.cpu_seconds() + time.process_time()
    latencies = [chain.latency(number) for number in range(warm, LATENCY_EVENTS)]
    used = chain.cpu_seconds() + time.process_time() - used
    started = time.perf_counter()
    chain.carry(batches)
    seconds = time.perf_counter() - started
    return Round(np.array(latencies), used / len(latencies), sum(map(len, batches)) / seconds)


def _figures(prefix: str, rounds: Sequence[Round]) -> dict[str, float]:
    latencies = np.concatenate([one.latencies for one in rounds])
    return {
        f"{prefix}events_per_second": float(np.median([one.events_per_second for one in rounds])),
        f"{prefix}latency_p50_seconds": float(np.percentile(latencies, 50)),
        f"{prefix}latency_p99_seconds": float(np.percentile(latencies, 99)),
        f"{prefix}cpu_seconds_per_event": float(np.median([one.cpu_seconds_per_event for one in rounds])),
    }


def _ratios(other: str, ours: Sequence[Round], theirs: Sequence[Round]) -> dict[str, object]:
    """Return our figures over those of another chain: of each round, and the median."""
    pairs = list(zip(ours, theirs, strict=True))
    found = {
        f"times_{other}_latency": [
            float(np.median(mine.latencies) / np.median(its.latencies)) for mine, its in pairs
        ],
        f"times_{other}_cpu": [mine.cpu_seconds_per_event / its.cpu_seconds_per_event for mine, its in pairs],
        f"of_{other}_events_per_second": [
            mine.events_per_second / its.events_per_second for mine, its in pairs
        ],
    }
    medians = {key: float(np.median(values)) for key, values in found.items()}
    return medians | {f"{key}_by_round": values for key, values in found.items()}


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
    brokers = [position.broker for position in net.inspect.positions]
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
        root = next(position.broker for position in net.inspect.positions if position.role == "REB")
        far = net.inspect.positions[-1].broker
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

    def cpu_seconds(self) -> float:
        """Return the CPU time that the hosts have used so far."""
        return self._net.inspect.cpu_seconds()

    def notifications(self) -> int:
        """Return the number of notifications of the batches."""
        graph = self._net.inspect.describe()
        return int(sum(data["notifications"] for _, data in graph.nodes(data=True))) - self._pings
