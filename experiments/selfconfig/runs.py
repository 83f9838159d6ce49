"""How a tree of clusters heals: one fault happens while events flow (paper 1, section 4, which plots nothing).

Method
------
* A tree of clusters of equal size, in virtual time, whose brokers heal. Every cluster has a subscriber, at
  any of its brokers; `PUBLISHERS` publishers are at brokers drawn from all, and publish an event every half
  heartbeat. There are `KINDS` kinds of events; a subscriber wants one of them.
* When all is installed and has run for a while, one fault happens, and stays, except for the rendezvous
  point, which restarts after `AWAY_HEARTBEATS`. The network is observed for `WATCHED_HEARTBEATS`.
* *One tree* is when the structure is sound, and stays so; checked every half heartbeat. *Heard again*: until
  the last subscriber has received an event that was published after the fault. *Late* is a notification that
  comes more than half a heartbeat after its publication. *Again* counts the retransmitted events on links.
* Messages are those of healing: all between brokers, and with the rendezvous point, except events and
  heartbeats.

Open in the paper, and our choice
---------------------------------
* *Times.* A heartbeat per second, and the failure detector's timeout of `Recovery`; so times are multiples of
  a heartbeat.
* *Sizes.* Four brokers per cluster; the preset `paper` has the paper's eleven, too, on 100 clusters. Degree
  8. Transit-stub.

Source: paper 1, sections 4.1, 4.2 and 6.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from ...faults.checker.reliability import judge
from ...faults.simulated.judging import structure_problems
from ...protocol.configs import Position
from ...protocol.effects import Multicast, Send
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.pubsub import Events
from ...protocol.messages.recovery import (
    RENDEZVOUS,
    ClusterBeat,
    MemberBeat,
    Recovery,
    RootBeat,
    TreeBeat,
)
from ...routing.topologies.cluster_trees import ClusterTree
from ...simulator.network import Step
from ...simulator.simulation import Simulation
from ..experiment import Repeated, Tables

NOBODY: Final = "nobody"
VICTIMS: Final = (NOBODY, "NEB", "DEB", "cluster", "root", "root's cluster", "RP", "link")
"""The victims of a fault; the link is all connections between the brokers of two clusters."""

DEGREE: Final = 8
PUBLISHERS: Final = 10
KINDS: Final = 10
BUILD_HEARTBEATS_MAX: Final = 120
WARM_HEARTBEATS: Final = 5
WATCHED_HEARTBEATS: Final = 40
AWAY_HEARTBEATS: Final = 10
LATE_HEARTBEATS: Final = 0.5
BACKGROUND: Final = (Events, ClusterBeat, MemberBeat, RootBeat, TreeBeat)
"""Messages that are sent without a fault, too."""


@dataclass(frozen=True, slots=True)
class Point:
    """A tree with numbers of clusters and of members in each, and the kind of victim; `run` draws the victim."""

    victim: str
    clusters: int
    members: int = 4
    run: int = 0


def _points(*sizes: tuple[int, int]) -> tuple[Point, ...]:
    return tuple(Point(victim, clusters, members) for clusters, members in sizes for victim in VICTIMS)


PRESETS: Final = {
    "quick": Repeated(_points((30, 4), (10, 4)), 2),
    "paper": Repeated(_points((1_000, 4), (300, 4), (100, 11), (100, 4), (30, 4), (10, 4)), 10),
}


def measure(point: Point) -> Tables:
    """Run one fault and return its effects.

    Returns
    -------
    dict
        ``subscribers``: for each `subscriber`, after how many seconds it has `heard` an event that was
        published after the fault, and how many notifications came `late`. For the whole run, the same in all
        rows: `structure`, the seconds until there is one tree, `again`, the retransmitted events on links,
        `messages` of healing, and whether it `holds` its promises.
    """
    run = _Run(point)
    run.build()
    run.break_and_watch()
    return {"subscribers": run.table()}


class _Run:
    """One tree, its clients, and the observations."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.rng = random.Random(f"selfconfig/{point.victim}/{point.clusters}/{point.members}/{point.run}")
        tree = ClusterTree(point.clusters, point.members, degree=DEGREE, seed=point.run, shape="transit-stub")
        self.positions = tree.positions()
        self.recovery = Recovery.for_simulator(degree=DEGREE + 1)
        self.again = 0
        self.net = Simulation(
            self.positions,
            "hybrid",
            recovery=self.recovery,
            seed=point.run,
            delay_of=tree.path_seconds,
            record=self._count,
        )
        self.heartbeat = self.recovery.heartbeat_seconds
        self.struck, self.messages = 0.0, 0
        self.looks: list[tuple[float, bool]] = []

    def _count(self, step: Step) -> None:
        for effect in step.effects:
            if isinstance(effect, Send | Multicast) and isinstance(effect.message, Events):
                self.again += len(effect.message.batch) if effect.message.retransmitted else 0

    def build(self) -> None:
        """Subscribe all clients, wait until everything is installed, and schedule the events."""
        clients = random.Random(f"selfconfig/clients/{self.point.clusters}/{self.point.run}")
        homes: dict[ClusterId, list[BrokerId]] = {}
        for place in self.positions:
            homes.setdefault(place.cluster, []).append(place.broker)
        for cluster, brokers in homes.items():
            self.net.subscribe(f"s{cluster}", clients.choice(brokers), f"kind = {clients.randrange(KINDS)}")
        limit = self.net.now + BUILD_HEARTBEATS_MAX * self.heartbeat
        while self.net.unconfirmed() and self.net.now < limit:
            self.net.advance(self.heartbeat)
        steps = 2 * (WARM_HEARTBEATS + WATCHED_HEARTBEATS - 5)
        for number in range(PUBLISHERS):
            home, begin = clients.choice(self.positions).broker, clients.random() / 2
            for turn in range(steps):
                at = self.net.now + (begin + turn / 2) * self.heartbeat
                self.net.at(
                    at, self.net.publish, f"p{number}", home, [{"kind": (number + turn) % KINDS, "n": turn}]
                )
        self.net.advance(WARM_HEARTBEATS * self.heartbeat)

    def break_and_watch(self) -> None:
        """Cause the fault, and check every half heartbeat whether there is one tree."""
        net = self.net
        self.struck, self.again, before = net.now, 0, self._sent()
        strike(net, self.positions, self.point.victim, self.rng, AWAY_HEARTBEATS * self.heartbeat)
        for _ in range(2 * WATCHED_HEARTBEATS):
            net.advance(self.heartbeat / 2)
            self.looks.append((net.now - self.struck, not structure_problems(net, self.recovery.degree)))
        net.account.settled(net.now)
        self.messages = self._sent() - before

    def _sent(self) -> int:
        return sum(count for kind, count in self.net.sent.items() if kind not in BACKGROUND)

    def table(self) -> dict[str, object]:
        """Return the effects, a row for each subscriber."""
        published = self.net.account.publications()
        heard: dict[str, float] = {}
        late: dict[str, int] = {}
        for note in self.net.account.notifications():
            began = published[note.publisher, note.sequence].at_seconds
            if began >= self.struck:
                heard.setdefault(note.client, note.at_seconds - self.struck)
            if note.at_seconds > max(self.struck, began + LATE_HEARTBEATS * self.heartbeat):
                late[note.client] = late.get(note.client, 0) + 1
        names = sorted(name for name in self.net.sessions if name.startswith("s"))
        never = WATCHED_HEARTBEATS * self.heartbeat
        return {
            "subscriber": names,
            "heard": [float(heard.get(name, never)) for name in names],
            "late": [late.get(name, 0) for name in names],
            "structure": np.full(len(names), self._structure()),
            "again": np.full(len(names), self.again),
            "messages": np.full(len(names), self.messages),
            "holds": np.full(len(names), judge(self.net.account).holds),
        }

    def _structure(self) -> float:
        """Return the time of the first check from which on all checks found one tree; 0 if all checks did."""
        bad = [place for place, (_, sound) in enumerate(self.looks) if not sound]
        if not bad:
            return 0.0
        return self.looks[min(bad[-1] + 1, len(self.looks) - 1)][0]


def strike(
    net: Simulation, positions: Sequence[Position], victim: str, rng: random.Random, away_seconds: float
) -> None:
    """Cause one fault; the victim is drawn from the brokers with children, if there are any.

    Parameters
    ----------
    net, positions
        The network, and the positions of its brokers.
    victim
        One of `VICTIMS`.
    rng
        Draws the victim.
    away_seconds
        How long the rendezvous point is down.
    """
    speakers = [place for place in positions if place.broker == place.designated and place.parent is not None]
    inner = [place for place in speakers if place.children] or speakers
    root = next(place for place in positions if place.parent is None and place.broker == place.designated)
    hit = rng.choice(inner)
    if victim == "NEB":
        net.crash(rng.choice([place.broker for place in positions if place.broker != place.designated]))
    elif victim in ("DEB", "root"):
        net.crash(hit.broker if victim == "DEB" else root.broker)
    elif victim in ("cluster", "root's cluster"):
        for broker in (hit if victim == "cluster" else root).members:
            net.crash(broker)
    elif victim == "RP":
        net.crash(RENDEZVOUS)
        net.at(net.now + away_seconds, net.restart, RENDEZVOUS)
    elif victim == "link":
        assert hit.parent_cluster is not None
        net.cut(product(sorted(net.members[hit.cluster]), sorted(net.members[hit.parent_cluster])), "figure")
