"""A soak test: clients, filters and brokers come and go for a long time, on Ray; memory, queues and losses are watched.

Rules
-----
* Changes are sequential: events are published in rounds, and something changes between two rounds. So it is
  known exactly what each subscription is owed: the matching events published while it existed (promises 1 to
  3). A subscriber that has to move to another broker soon after it has subscribed may also receive events
  published shortly before, when they are retransmitted; those are counted separately.
* In every round a subscriber leaves and another comes, and one changes its filter. Every `BROKER_ROUNDS`
  rounds a broker changes: one is killed and restarted, one joins, one leaves, in turn; publishing continues
  meanwhile.
* At the end of a round the queues of the brokers are sampled. Then the network settles, all notifications are
  compared with what was owed, and the private memory of each process with brokers is recorded.
* Memory is judged by processes that have lived for a while, and live on for as long again: by a line fitted
  to their samples since then. Memory that a process allocates at its start, and retained events, are not a
  leak.

The seed determines the random choices, but not how many rounds fit into the time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..actors.channels.config import LINKS_DEFAULT, Links
from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.network.launching import joined_ray
from ..actors.network.network import Network
from ..protocol.ids import ClientId
from ..protocol.messages.recovery import Recovery
from ..routing.topologies.cluster_trees import ClusterTree
from .ray_nodes import ask_each

TREE: Final = ClusterTree(3, 2, degree=2)
PUBLISHERS: Final = 2
SUBSCRIBERS: Final = 20
EVENTS: Final = 50
"""Events of one publisher in one part of a round."""

PARTS: Final = 5
VALUES: Final = 100
BROKER_ROUNDS: Final = 4
BOUND_SECONDS: Final = 120.0
SETTLED_SECONDS: Final = 120.0
"""After this time a process has allocated its initial memory; events are retained for retransmission for a minute."""

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Owed:
    """Notifications owed to one subscriber, by publisher: values from `low` to `high`, from its subscription on.

    Attributes
    ----------
    before
        The last sequence of each publisher when it subscribed.
    """

    low: int
    high: int
    before: Mapping[ClientId, int]
    sequences: dict[ClientId, list[int]] = field(default_factory=dict)

    def published(self, publisher: ClientId, first: int, values: Sequence[int]) -> None:
        """Record that these values were published, from sequence `first` on."""
        mine = (first + place for place, value in enumerate(values) if self.low <= value <= self.high)
        self.sequences.setdefault(publisher, []).extend(mine)

    def settle(self, came: Iterable[tuple[ClientId, int]]) -> tuple[int, int, int]:
        """Compare the notifications since the last call; return how many were owed, went wrong, and were early.

        Wrong are missing, duplicate, reordered and surplus notifications; a publisher's events count as a
        whole. Early are events published before the subscription.
        """
        heard: dict[ClientId, list[int]] = {}
        early = 0
        for publisher, sequence in came:
            if sequence <= self.before.get(publisher, 0):
                early += 1
            else:
                heard.setdefault(publisher, []).append(sequence)
        owed, self.sequences = {name: each for name, each in self.sequences.items() if each}, {}
        wrong = sum(
            max(len(owed.get(name, ())), len(heard.get(name, ())))
            for name in {*owed, *heard}
            if owed.get(name) != heard.get(name)
        )
        return sum(map(len, owed.values())), wrong, early


def growth(samples: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the growth of a settled process in kilobytes per minute: the median of those that lived on as long.

    None if there are none: brokers are killed, and then the growth is unknown.
    """
    began: dict[str, float] = {}
    settled: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        seconds = sample["seconds"]
        for name, size in sample["own_bytes"].items():
            if seconds - began.setdefault(name, seconds) >= SETTLED_SECONDS:
                settled.setdefault(name, []).append((seconds / 60, size / 1024))
    long = [each for each in settled.values() if 60 * (each[-1][0] - each[0][0]) >= SETTLED_SECONDS]
    slopes = [_slope(each) for each in long]
    return float(np.median(slopes)) if slopes else None


def _slope(points: Sequence[tuple[float, float]]) -> float:
    minutes, sizes = np.array(points).T
    return float(np.polyfit(minutes, sizes, 1)[0])


def run(
    *, minutes: float = 30.0, seed: int = 0, links: Links = LINKS_DEFAULT, progress: Progress | None = None
) -> dict[str, Any]:
    """Soak for that long, over these links, and return the figures and all samples as plain data.

    Raises
    ------
    BrokerUnavailable
        If the network does not heal.
    """
    show = progress or (lambda name, done, total: None)
    with joined_ray(), Network.launch(TREE, recovery=Recovery(), links=links, progress=False) as net:
        soak = _Soak(net, random.Random(seed))
        began = time.monotonic()
        while (passed := time.monotonic() - began) < 60 * minutes:
            show("soak", int(passed), int(60 * minutes))
            soak.round(passed)
        show("soak", int(60 * minutes), int(60 * minutes))
    samples = soak.samples
    return {
        "benchmark": "soak",
        "minutes": minutes,
        "seed": seed,
        "links": links,
        "rounds": len(samples),
        "changes": soak.changes,
        "published": sum(soak.published.values()),
        "notifications_owed": soak.owed,
        "notifications_wrong": soak.wrong,
        "notifications_early": soak.early,
        "own_kilobytes_a_minute": growth(samples),
        "queued_events_max": max((sample["queued_events"] for sample in samples), default=0),
        "samples": samples,
    }


class _Soak:
    """A network, its clients, and what they are owed."""

    def __init__(self, net: Network, chance: random.Random) -> None:
        self.samples: list[dict[str, Any]] = []
        self.changes = dict.fromkeys(("subscribers", "filters", "killed", "joined", "left"), 0)
        self.owed = self.wrong = self.early = 0
        self.published: dict[ClientId, int] = {}
        self._net = net
        self._chance = chance
        self._names = iter(range(1 << 62))
        net.await_convergence(BOUND_SECONDS)
        self._publishers: list[Publisher] = net.publishers([f"pub-{n}" for n in range(PUBLISHERS)])
        self._readers: dict[Subscriber, tuple[Any, Owed]] = {}
        for _ in range(SUBSCRIBERS):
            self._come()

    def round(self, seconds: float) -> None:
        """Publish and change things, settle, and take a sample."""
        number = len(self.samples)
        for part in range(PARTS):
            self._publish()
            if part == 0 and number % BROKER_ROUNDS == 0:
                self._change_broker(number // BROKER_ROUNDS)
        queued = self._waiting()
        self._net.settle(BOUND_SECONDS)
        self._look(seconds, queued)
        self._leave()
        self._come()
        self._refilter()

    # Events.

    def _publish(self) -> None:
        for publisher in self._publishers:
            values = [self._chance.randrange(VALUES) for _ in range(EVENTS)]
            first = self.published.get(publisher.name, 0) + 1
            self.published[publisher.name] = publisher.publish_batch({"x": values})
            for _, owed in self._readers.values():
                owed.published(publisher.name, first, values)

    def _waiting(self) -> dict[str, int]:
        """Return the queued events of all brokers, and the shed notifications so far."""
        sizes = [each for answer in ask_each(self._net, "describe").values() for each in answer.values()]
        return {
            "queued_events": sum(each["outbox_events"] for each in sizes),
            "shed_notifications": sum(each["shed_notifications"] for each in sizes),
            "brokers": len(sizes),
        }

    def _look(self, seconds: float, queued: Mapping[str, int]) -> None:
        for reader, (_, owed) in self._readers.items():
            came = [(note.publisher, note.sequence) for note in reader.notifications(0)]
            mine, wrong, early = owed.settle(came)
            self.owed += mine
            self.wrong += wrong
            self.early += early
        self.samples.append(
            {
                "seconds": seconds,
                "own_bytes": ask_each(self._net, "own_bytes"),
                **queued,
                "owed": self.owed,
                "wrong": self.wrong,
            }
        )

    # Clients and filters.

    def _subscribe(self, reader: Subscriber) -> None:
        """Subscribe to the values of a window; the previous subscription of the subscriber is owed nothing more."""
        low = self._chance.randrange(VALUES)
        high = self._chance.randrange(low, VALUES)
        wanted = reader.subscribe(f"x BETWEEN {low} AND {high}")
        self._readers[reader] = wanted, Owed(low, high, dict(self.published))

    def _come(self) -> None:
        reader = self._net.subscriber(f"reader-{next(self._names)}")
        self._subscribe(reader)

    def _leave(self) -> None:
        reader = self._chance.choice(list(self._readers))
        del self._readers[reader]
        self._net.release(reader)
        self.changes["subscribers"] += 1

    def _refilter(self) -> None:
        reader = self._chance.choice(list(self._readers))
        before, _ = self._readers[reader]
        self._subscribe(reader)
        reader.unsubscribe(before)
        self.changes["filters"] += 1

    # Brokers.

    def _change_broker(self, turn: int) -> None:
        """Kill and restart a broker, add one, or remove one, in turn."""
        kind = ("killed", "joined", "left")[turn % 3]
        living = sorted(self._net.inspect.survey())
        if kind == "killed":
            (lost,) = self._net.kill_broker(self._chance.choice(living))
            self._publish()
            self._net.await_convergence(BOUND_SECONDS)
            self._net.restart_broker(lost)
        elif kind == "joined":
            self._net.add_broker(self._chance.randrange(TREE.clusters))
        else:
            self._net.remove_broker(max(living))
        self._publish()
        self._net.await_convergence(BOUND_SECONDS)
        self.changes[kind] += 1
