"""Figures 4 and 5 of paper 1: the cost and the delay of hybrid and hierarchical routing, by subscribers.

Method
------
* The network of 5.1: 100 designated brokers, each with 10 normal ones, transit-stub with 730 links, degree 8.
* There is one kind of event, which all publishers publish and all subscribers want. Publishers and
  subscribers are placed at brokers drawn uniformly. When all subscriptions are installed, each publisher
  publishes one event.
* TCT (figure 4) is the sum of the messages over all links between brokers, subscriptions among them; a multicast is
  one.
* AED (figure 5) is per subscriber: the time from the publication of the first event that it receives to its
  last notification, divided by the number of events received; the mean over subscribers (0030). The quotient
  over all subscribers together is reported, too.
* ``hr`` is run in both readings: normal brokers as leaves below their designated broker, and every broker a node.

Open in the paper, and our choice
---------------------------------
* *The time of a message.* A broker sends one copy after the other, each takes `SEND_SECONDS`; a multicast is
  one copy, and so is the notification of a client. 1 ms is the time of an event of 1 KB on a link of some 10
  Mbit/s, as was usual then. The other times, `SENSITIVITY`, show what depends on it. The transit-stub graph
  gives the latency of a link.
* *When events are published.* Within one second, each at a random time.

Source: paper 1, section 5.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ..protocol.configs import Limits
from ..protocol.ids import BrokerId, ClientId
from ..protocol.scenarios.scenario import LinkModel
from ..protocol.telemetry.tables import Table
from ..routing.topologies.cluster_trees import ClusterTree
from ..simulator.simulation import Simulation
from ..simulator.telemetry import SimulatedTelemetry

SCHEMES: Final = {"hrm": "hybrid", "hr": "hierarchical", "hr, all nodes": "hierarchical+nodes"}
"""The curves: the paper's name, and the scheme."""

SEND_SECONDS: Final = 0.001
SENSITIVITY: Final = (0.0001, 0.01)
PUBLISH_SECONDS: Final = 1.0
BETWEEN_BROKERS: Final = ("up", "down", "multicast")


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of both figures.

    Attributes
    ----------
    tree
        The network; run n uses seed n.
    subscribers
        The points on the axis, for each number of publishers.
    runs
        The number of runs of each point, with seeds from 0.
    send_seconds
        The time of one copy: the first is used for the figures; the others, in run 0 only, show the
        sensitivity.
    """

    tree: ClusterTree
    subscribers: Mapping[int, tuple[int, ...]]
    runs: int
    send_seconds: tuple[float, ...]

    def points(self) -> list[Point]:
        """Return the points, the largest first, so that no long run is left at the end."""
        points = [
            Point(curve, publishers, subscribers, run, seconds, replace(self.tree, seed=run))
            for publishers, axis in self.subscribers.items()
            for subscribers in axis
            for run in range(self.runs)
            for seconds in (self.send_seconds if run == 0 else self.send_seconds[:1])
            for curve in SCHEMES
        ]
        return sorted(points, key=lambda point: (-point.publishers, -point.subscribers))


@dataclass(frozen=True, slots=True)
class Point:
    """One network and the behaviour of its clients."""

    curve: str
    publishers: int
    subscribers: int
    run: int
    send_seconds: float
    tree: ClusterTree


AXIS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
TREE: Final = ClusterTree(100, 11, degree=8, shape="transit-stub", links=730)

SMALL_TREE: Final = ClusterTree(20, 11, degree=8, shape="transit-stub", links=146)
"""A fifth of the paper's network, as a preview: the paper's statements about 1,000 subscribers do not apply to it."""

PRESETS: Final = {
    "small": Plan(SMALL_TREE, {20: (1, 10, 50, 200), 80: (1, 10, 50, 200)}, 1, (SEND_SECONDS,)),
    "paper": Plan(TREE, {100: AXIS, 1_000: AXIS}, 10, (SEND_SECONDS, *SENSITIVITY)),
    "quick": Plan(
        TREE,
        {100: (1, 10, 20, 50, 100, 200, 500, 1_000, 10_000), 400: (1, 10, 20, 50, 100, 200, 1_000, 10_000)},
        1,
        (SEND_SECONDS,),
    ),
}


def measure(point: Point) -> dict[str, Table]:
    """Run one point in virtual time and return its telemetry.

    Returns
    -------
    dict
        Two tables. ``links``: `broker`, `link_kind`, and how many messages with `events` and of `control` it
        sent over its links of that kind. ``heard``: for each `subscriber` the `notifications`, the
        publication of the `first` of their events and the time of the `last` one, in seconds.
    """
    seen = _Seen()
    net = Simulation(
        point.tree.positions(),
        SCHEMES[point.curve],
        links=LinkModel(send_seconds=point.send_seconds),
        seed=point.run,
        delay_of=point.tree.path_seconds,
        telemetry=SimulatedTelemetry(
            seen.take, trace_events=True, limits=Limits(telemetry_rows_max=10_000_000)
        ),
        keep_notifications=False,
    )
    rng = random.Random(f"clusters/{point.run}/{point.publishers}/{point.subscribers}")
    brokers = sorted(net.hosts)
    for number in range(point.subscribers):
        net.subscribe(f"s{number}", rng.choice(brokers), "kind = 1")
    net.run()
    start = net.now
    for number in range(point.publishers):
        moment, broker = start + rng.random() * PUBLISH_SECONDS, rng.choice(brokers)
        net.at(moment, _publish, net, f"p{number}", broker)
    net.run()
    assert net.telemetry is not None
    net.telemetry.flush()
    return {"links": seen.links(), "heard": seen.heard()}


def _publish(net: Simulation, client: ClientId, broker: BrokerId) -> None:
    net.publish(client, broker, [{"kind": 1}])


class _Seen:
    """Accumulates telemetry by link and by subscriber."""

    def __init__(self) -> None:
        self._links: dict[tuple[int, str], list[int]] = {}
        self._heard: dict[str, list[float]] = {}

    def take(self, chunk: Mapping[str, Table]) -> None:
        """Add a chunk of the tables."""
        sent = chunk.get("transfers")
        if sent is not None:
            columns = (sent[name].tolist() for name in ("broker", "link_kind", "messages", "events"))
            for broker, kind, messages, events in zip(*columns, strict=True):
                if kind in BETWEEN_BROKERS:
                    self._links.setdefault((broker, kind), [0, 0])[events == 0] += messages
        heard = chunk.get("notified")
        if heard is not None:
            columns = (heard[name].tolist() for name in ("subscriber", "published_at", "time_seconds"))
            for subscriber, published_at, at in zip(*columns, strict=True):
                known = self._heard.setdefault(subscriber, [0, published_at, at])
                known[:] = known[0] + 1, min(known[1], published_at), max(known[2], at)

    def links(self) -> Table:
        """Return the messages of each broker over its links of each kind."""
        keys, counts = list(self._links), list(self._links.values())
        return {
            "broker": np.array([key[0] for key in keys], np.int32),
            "link_kind": np.array([key[1] for key in keys], object),
            "events": np.array([count[0] for count in counts], np.int64),
            "control": np.array([count[1] for count in counts], np.int64),
        }

    def heard(self) -> Table:
        """Return the notifications of each subscriber."""
        values = np.array(list(self._heard.values()), np.float64).reshape(-1, 3)
        return {
            "subscriber": np.array(list(self._heard), object),
            "notifications": values[:, 0].astype(np.int64),
            "first": values[:, 1],
            "last": values[:, 2],
        }


def curves(
    rows: Iterable[Mapping[str, Any]], value: str, send_seconds: float = SEND_SECONDS
) -> dict[tuple[str, int], dict[float, float]]:
    """Return the curves of a figure: by curve and number of publishers, the value at each number of subscribers."""
    found: dict[tuple[str, int], dict[float, float]] = {}
    for row in sorted(rows, key=lambda row: row["subscribers"]):
        if row["send_seconds"] == send_seconds:
            found.setdefault((row["curve"], row["publishers"]), {})[row["subscribers"]] = row[value]
    return found
