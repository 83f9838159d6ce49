"""Paper 2, section 2.4, measured: a subscriber that moves to the broker of its publishers.

The paper's statement: after the move its subscription is answered locally and takes neither resources of the
network outside nor space in the subscription tables of other brokers (2.4, figure 5).

Method
------
* A cube whose brokers heal, in virtual time. A publisher advertises at one broker and publishes steadily; a
  subscriber at another broker subscribes to all its events. The subscriber's broker sees which publishers it
  hears, and proposes that it moves. One in :data:`BESIDE_EVERY` of the events that match comes from a
  publisher at a third broker, which advertises nothing.
* Counted are, in the whole cube and per published event: how many brokers have an entry for the subscription,
  and the messages over links, *before* the proposal, *during* the move and the following round, and *after*
  that.
* Each figure is the mean over all possible first brokers of the subscriber; with `local_first` and without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...protocol.effects import Send
from ...protocol.messages.pubsub import Echo, Events, Spread
from ...protocol.messages.recovery import RENDEZVOUS, Recovery
from ...protocol.messages.views import MembershipView
from ...recovery.membership.views import HealingViews
from ...routing.interest.nearing import REVIEW_HEARTBEATS
from ...routing.topologies.cluster_trees import ClusterTree
from ...simulator.network import Step
from ...simulator.simulation import Simulation
from ..experiment import Repeated, Tables

PHASES: Final = ("before", "during", "after")
EVENTS_A_HEARTBEAT: Final = 10
BEFORE_HEARTBEATS: Final = 4
"""Shorter than the time after which a broker first reviews which clients should move."""
DURING_HEARTBEATS: Final = 3 * REVIEW_HEARTBEATS
BESIDE_EVERY: Final = 10
COUNTED: Final = {Spread: "broadcasts", Echo: "echoes", Events: "events", MembershipView: "views"}


@dataclass(frozen=True, slots=True)
class Point:
    """One first broker of the subscriber.

    Attributes
    ----------
    local_first
        Whether publishers at its own broker satisfy it.
    home
        Its first broker; the publisher is at the last one, the other publisher at the last but one.
    run
        The random seed.
    size
        The number of brokers.
    """

    local_first: bool
    home: int
    run: int = 0
    size: int = 8


POINTS: Final = tuple(Point(local_first, home) for local_first in (False, True) for home in range(7))
PRESETS: Final = {"quick": Repeated(POINTS, 1), "paper": Repeated(POINTS, 4)}


def measure(point: Point) -> Tables:
    """Place one subscriber at a broker, let it move, and return the counts of each phase.

    Returns
    -------
    dict
        ``phases``: for each `phase` the `entries` of other brokers at its end; the `broadcasts`, `echoes` and
        `views` in it; the messages with `events` over links per published event; and how often the subscriber
        has moved so far (`moves`).
    """
    found = _follow(point.size, point.home, point.run, local_first=point.local_first)
    names = (*COUNTED.values(), "entries", "moves")
    columns = {name: np.array([found[phase][name] for phase in PHASES], np.float64) for name in names}
    return {"phases": {"phase": np.array(PHASES, object), **columns}}


def _follow(brokers: int, home: int, seed: int, *, local_first: bool) -> dict[str, Counter[object]]:
    """Place one subscriber at a broker, let it move, and return the counts of each phase."""
    sent: Counter[str] = Counter()

    def watch(step: Step) -> None:
        for effect in step.effects:
            if isinstance(effect, Send) and effect.to != RENDEZVOUS and type(effect.message) in COUNTED:
                sent[COUNTED[type(effect.message)]] += 1

    heal, last = Recovery(), brokers - 1
    net = Simulation(ClusterTree(brokers, 1).positions(), "hypercube", recovery=heal, seed=seed, record=watch)
    net.advertise("publisher", last, "x >= 0")
    net.run_until_installed(
        "subscriber", net.subscribe("subscriber", home, "x >= 0", local_first=local_first)
    )

    def publish(publisher: str, broker: int, x: int) -> None:
        net.publish(publisher, broker, [{"x": x}])

    found = {}
    for phase in PHASES:
        heartbeats = DURING_HEARTBEATS if phase == "during" else BEFORE_HEARTBEATS
        sent.clear()
        views = net.broker(last).layer(HealingViews).version
        published = heartbeats * EVENTS_A_HEARTBEAT
        for turn in range(published):
            at = net.now + turn * heal.heartbeat_seconds / EVENTS_A_HEARTBEAT
            net.at(at, publish, *(("publisher", last) if turn % BESIDE_EVERY else ("beside", last - 1)), turn)
        net.advance((heartbeats + 1) * heal.heartbeat_seconds)
        counted: Counter[object] = Counter(sent)
        counted["events"] = sent["events"] / published  # type: ignore[assignment]
        counted["views"] = net.broker(last).layer(HealingViews).version - views
        counted["entries"] = sum(broker.describe()["recorded"] for broker in net.brokers())
        counted["moves"] = net.clients.moves
        found[phase] = counted
    return found
