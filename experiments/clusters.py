"""Figures 4 and 5 of paper 1: the cost and the delay of hybrid and hierarchical routing, by subscribers.

Method
------
* The network of 5.1: 100 designated brokers, each with 10 normal ones, transit-stub with 730 links, degree 8.
* There is one kind of event, which all publishers publish and all subscribers want. When all subscriptions are
  installed, each publisher publishes one event, at a random time within one second.
* TCT (figure 4) is the sum of the messages over all links between brokers, subscriptions among them; a multicast is
  one. The answers that a subscription is installed, which the paper has not, are counted apart.
* AED (figure 5) is per subscriber: the time from the publication of the first event that it receives to its
  last notification, divided by the number of events received; the mean over subscribers (0030). The quotient
  over all subscribers together is reported, too.
* ``hr`` is run in both readings: normal brokers as leaves below their designated broker, and every broker a node.
* A client is in the local network of the broker that serves it, so that no other cluster is nearer (section 2).

Open in the paper: two sets of choices (0159, 0174)
---------------------------------------------------
* *Preset* ``paper``: subscribers at brokers drawn uniformly; 1 ms to send a copy, which is the time of an event of 1
  KB on a link of some 10 Mbit/s, as was usual then. The other times, `SENSITIVITY`, show what depends on it.
* *Preset* ``calibrated``: subscribers spread evenly over all brokers, the 1,000 normal ones before the designated ones,
  none of which gets a second one before each has one, because the paper has its critical point at 1,000 subscribers,
  and lets them fill the nodes step by step; `FITTED_SEND_SECONDS` to send a copy, **fitted** to the knee of figure 5
  with 100 publishers.
* In both, a broker sends one copy after the other; a multicast is one copy, and so is the notification of a client.
  Publishers are at brokers drawn uniformly. The transit-stub graph gives the latency of a link.

Source: paper 1, section 5.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..protocol.effects import Deliver, Effect, Multicast, Send
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.pubsub import Announce, Events, Installed
from ..protocol.scenarios.scenario import LinkModel
from ..protocol.telemetry.tables import Table
from ..routing.topologies.cluster_trees import ClusterTree
from ..simulator.hosts import Host
from ..simulator.simulation import Simulation
from ..simulator.telemetry import SimulatedTelemetry
from .rows import Rows

SCHEMES: Final = {"hrm": "hybrid", "hr": "hierarchical", "hr, all nodes": "hierarchical+nodes"}
"""The curves: the paper's name, and the scheme."""

FORWARDING: Final = {"hrm, all forwarded": "hybrid+all", "hr, all forwarded": "hierarchical+all"}
"""Curves under which each subscription goes up to the root, covered or not, as figure 2 is printed."""

SEND_SECONDS: Final = 0.001
SENSITIVITY: Final = (0.0001, 0.01)
FITTED_SEND_SECONDS: Final = 0.0011
PUBLISH_SECONDS: Final = 1.0
KINDS: Final[Mapping[type, int]] = {Events: 0, Announce: 1, Installed: 2}
"""The columns that count messages of these types: `events`, `control`, `answers`."""

Placement: TypeAlias = Literal["any", "even"]
"""Where subscribers are: at any broker, or spread evenly over all, the normal ones first."""


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
    placement
        Where subscribers are.
    often
        Publishers, and from how many to how many subscribers points are run that often; others, which decide less or
        cost more, are run once. Without an entry for the publishers all are run that often.
    once
        Curves that are run once.
    forwarded
        The points on the axis of `FORWARDING`, which are run once, with the fewest publishers.
    """

    tree: ClusterTree
    subscribers: Mapping[int, tuple[int, ...]]
    runs: int
    send_seconds: tuple[float, ...]
    placement: Placement = "any"
    often: tuple[tuple[int, int, int], ...] = ()
    once: tuple[str, ...] = ()
    forwarded: tuple[int, ...] = ()

    def points(self) -> list[Point]:
        """Return the points, the largest first, so that no long run is left at the end."""
        few = min(self.subscribers)
        points = [
            self._point(curve, publishers, subscribers, run, seconds)
            for publishers, axis in self.subscribers.items()
            for subscribers in axis
            for curve in SCHEMES
            for run in range(self._runs_of(curve, publishers, subscribers))
            for seconds in (self.send_seconds if run == 0 else self.send_seconds[:1])
        ]
        points += [
            self._point(curve, few, subscribers, 0, self.send_seconds[0])
            for subscribers in self.forwarded
            for curve in FORWARDING
        ]
        return sorted(points, key=lambda point: (-point.publishers, -point.subscribers))

    def _point(self, curve: str, publishers: int, subscribers: int, run: int, seconds: float) -> Point:
        tree = replace(self.tree, seed=run)
        return Point(curve, publishers, subscribers, run, seconds, tree, self.placement)

    def _runs_of(self, curve: str, publishers: int, subscribers: int) -> int:
        ranges = [(first, last) for many, first, last in self.often if many == publishers]
        often = all(first <= subscribers <= last for first, last in ranges)
        return self.runs if often and curve not in self.once else 1


@dataclass(frozen=True, slots=True)
class Point:
    """One network and the behaviour of its clients."""

    curve: str
    publishers: int
    subscribers: int
    run: int
    send_seconds: float
    tree: ClusterTree
    placement: Placement = "any"


AXIS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SHORT_AXIS: Final = (1, 10, 20, 50, 100, 200, 500, 1_000, 10_000)
TREE: Final = ClusterTree(100, 11, degree=8, shape="transit-stub", links=730)

SMALL_TREE: Final = ClusterTree(20, 11, degree=8, shape="transit-stub", links=146)
"""A fifth of the paper's network, as a preview: the paper's statements about 1,000 subscribers do not apply to it."""

PRESETS: Final = {
    "small": Plan(SMALL_TREE, {20: (1, 10, 50, 200), 80: (1, 10, 50, 200)}, 1, (SEND_SECONDS,)),
    "paper": Plan(TREE, {100: AXIS, 1_000: AXIS}, 10, (SEND_SECONDS, *SENSITIVITY)),
    "calibrated": Plan(
        TREE,
        {100: SHORT_AXIS, 1_000: (*SHORT_AXIS[:6], 1_000)},
        10,
        (FITTED_SEND_SECONDS,),
        "even",
        often=((100, 1, 200), (1_000, 50, 100)),
        once=("hr, all nodes",),
        forwarded=(100, 1_000, 10_000),
    ),
    "quick": Plan(
        TREE,
        {100: (1, 10, 20, 50, 100, 200, 500, 1_000, 10_000), 400: (1, 10, 20, 50, 100, 200, 1_000, 10_000)},
        1,
        (SEND_SECONDS,),
    ),
}


def measure(point: Point) -> dict[str, Table]:
    """Run one point in virtual time and return what was counted.

    Returns
    -------
    dict
        Two tables. ``links``: `broker`, `link_kind`, and how many messages with `events`, of `control` and as
        `answers` it sent over its links of that kind. ``heard``: for each `subscriber` the `notifications`, the
        publication of the `first` of their events and the time of the `last` one, in seconds.
    """
    seen = _Seen()
    scheme = {**SCHEMES, **FORWARDING}[point.curve]
    net = Simulation(
        point.tree.positions(),
        scheme,
        links=LinkModel(send_seconds=point.send_seconds),
        seed=point.run,
        delay_of=point.tree.path_seconds,
        telemetry=seen,
        keep_notifications=False,
    )
    rng = random.Random(f"clusters/{point.run}/{point.publishers}/{point.subscribers}")
    brokers = sorted(net.hosts)
    for number, broker in enumerate(places(point, brokers, rng)):
        net.subscribe(f"s{number}", broker, "kind = 1")
    net.run()
    start = net.now
    for number in range(point.publishers):
        moment, broker = start + rng.random() * PUBLISH_SECONDS, rng.choice(brokers)
        net.at(moment, _publish, net, f"p{number}", broker)
    net.run()
    return {"links": seen.links(), "heard": seen.heard()}


def places(point: Point, brokers: Sequence[BrokerId], rng: random.Random) -> list[BrokerId]:
    """Return the broker of each subscriber."""
    if point.placement == "any":
        return [rng.choice(brokers) for _ in range(point.subscribers)]
    positions = point.tree.positions()
    normal = [place.broker for place in positions if place.role == "NEB"]
    rng.shuffle(normal)
    every = [*normal, *(place.broker for place in positions if place.role != "NEB")]
    return [every[number % len(every)] for number in range(point.subscribers)]


def _publish(net: Simulation, client: ClientId, broker: BrokerId) -> None:
    net.publish(client, broker, [{"kind": 1}])


class _Seen(SimulatedTelemetry):
    """Counts messages by link and notifications by subscriber, as they leave; tables of all would fill the memory."""

    def __init__(self) -> None:
        super().__init__()
        self._links: dict[tuple[int, str], list[int]] = {}
        self._heard: dict[str, list[float]] = {}

    def effect(self, now: float, host: Host, effect: Effect) -> None:
        """Count an effect that is carried out at `now`."""
        if isinstance(effect, Deliver):
            self._notify(now, effect)
        elif (
            isinstance(effect, (Send, Multicast)) and (column := KINDS.get(type(effect.message))) is not None
        ):
            kind = (
                "multicast" if isinstance(effect, Multicast) else "up" if effect.to == host.parent else "down"
            )
            self._links.setdefault((host.id, kind), [0, 0, 0])[column] += 1

    def _notify(self, now: float, effect: Deliver) -> None:
        starts, published = effect.starts.tolist(), effect.batch.published_at[effect.rows].tolist()
        for place, subscriber in enumerate(effect.clients):
            mine = published[starts[place] : starts[place + 1]]
            known = self._heard.setdefault(subscriber, [0, mine[0], now])
            known[:] = known[0] + len(mine), min(known[1], *mine), max(known[2], now)

    def stepped(self, now: float, host: Host, event: object) -> None:
        """Ignore what a broker takes in."""

    def links(self) -> Table:
        """Return the messages of each broker over its links of each kind."""
        keys = list(self._links)
        counts = np.array(list(self._links.values()), np.int64).reshape(-1, 3)
        return {
            "broker": np.array([key[0] for key in keys], np.int32),
            "link_kind": np.array([key[1] for key in keys], object),
            "events": counts[:, 0],
            "control": counts[:, 1],
            "answers": counts[:, 2],
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


def main_send_seconds(rows: Iterable[Mapping[str, object]]) -> float:
    """Return the time of a copy of the figures: the fitted one, if the rows have it."""
    fitted = any(row["send_seconds"] == FITTED_SEND_SECONDS for row in rows)
    return FITTED_SEND_SECONDS if fitted else SEND_SECONDS


def curves(
    rows: Rows, value: str, send_seconds: float | None = None
) -> dict[tuple[str, int], dict[float, Any]]:
    """Return the curves of a figure: by curve and number of publishers, the value at each number of subscribers."""
    shown = main_send_seconds(rows) if send_seconds is None else send_seconds
    found: dict[tuple[str, int], dict[float, Any]] = {}
    for row in sorted(rows, key=lambda row: row["subscribers"]):
        if row["send_seconds"] == shown:
            found.setdefault((row["curve"], row["publishers"]), {})[row["subscribers"]] = row[value]
    return found
