"""How long a network takes to be whole again after a designated broker is killed, and what it spends that time on.

Three clusters of three brokers, each broker in a process of its own, with subscribers at all of them. A publisher at
the broker that is about to die publishes all the time. The process is killed with SIGKILL. Then the living brokers
are asked again and again, in one round of calls each time, so every phase but the first is known to a few
milliseconds:

* *noticed*: a living broker knows that the process is dead, by its own clock; the wall clock is the same for all.
* *elected*: another member speaks for the cluster.
* *joined*: the living clusters are one tree.
* *installed*: every subscription is installed up to the root, no link waits for a round, and all clients of the dead
  broker are at living ones. This is what `Network.await_convergence` waits for.
* *publisher*: another broker has accepted events of the publisher.

The broker is restarted before the next kill, which hits the next cluster, the root's included.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from ..actors.channels.config import Links
from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.network.launching import joined_ray
from ..actors.network.network import Network
from ..protocol.errors import BrokerUnavailable
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.messages.recovery import Recovery
from ..recovery.durability.stable import Stable
from ..recovery.membership.structure import Survey, problems, speakers, structure_problems
from ..routing.topologies.cluster_trees import ClusterTree

TREE: Final = ClusterTree(3, 3, degree=1)
SUBSCRIPTIONS: Final = 90
PHASES: Final = ("noticed", "elected", "joined", "installed", "publisher")
PUBLISH_SECONDS: Final = 0.005
"""The pause of the publisher between two events."""

QUIET_HEARTBEATS: Final = 2.0
"""How long the network is left alone before each kill."""

BOUND_SECONDS: Final = 60.0

Progress = Callable[[str, int, int], None]


def run(
    *,
    kills: int = 20,
    links: Links = "direct",
    store: str | None = None,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Kill designated brokers one after the other, and return the figures.

    Parameters
    ----------
    kills
        How many.
    links
        How bytes go between the processes of the network.
    store
        The brokers' stores: a folder, or the address of a database; None for no stores.

    Raises
    ------
    BrokerUnavailable
        If the network does not heal.
    """
    show = progress or (lambda name, done, total: None)
    recovery, stable = Recovery(), None if store is None else Stable(store)
    rows: list[dict[str, float]] = []
    with (
        joined_ray(),
        Network.launch(
            TREE, recovery=recovery, stable=stable, links=links, brokers_per_actor=1, progress=False
        ) as net,
    ):
        subscribers = _subscribe(net)
        publisher = net.publisher("publisher")
        for turn in range(kills):
            show("kills", turn, kills)
            net.await_convergence(BOUND_SECONDS)
            time.sleep(QUIET_HEARTBEATS * recovery.heartbeat_seconds)
            victim = _victim(net.inspect.survey(), turn)
            publisher.move_to(victim)
            rows.append(_kill(net, victim, publisher, subscribers))
            net.await_convergence(BOUND_SECONDS)
            net.restart_broker(victim)
        show("kills", kills, kills)
    return {
        "benchmark": "recovery",
        "brokers": TREE.clusters * TREE.brokers_per_cluster,
        "subscriptions": SUBSCRIPTIONS,
        "kills": kills,
        "links": links,
        "stable": store is not None,
        **figures(rows),
        "look_seconds": round(float(np.median([row["look"] for row in rows])), 4),
        "installed_seconds_by_kill": [round(row["installed"], 3) for row in rows],
    }


def figures(rows: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the median, the 90th percentile and the maximum of each phase, in seconds after the kill."""
    found = {}
    for phase in PHASES:
        seconds = [row[phase] for row in rows]
        p50, p90 = np.percentile(seconds, (50, 90))
        found[f"{phase}_seconds"] = {
            "median": round(float(p50), 4), "p90": round(float(p90), 4), "max": round(max(seconds), 4)
        }  # fmt: skip
    return found


def _subscribe(net: Network) -> list[Subscriber]:
    brokers = [position.broker for position in net.inspect.positions]
    subscribers = []
    for place, broker in enumerate(brokers):
        subscriber = net.subscriber(f"subscriber-{broker}", broker=broker)
        mine = range(place, SUBSCRIPTIONS, len(brokers))
        subscriber.subscribe_all(f"symbol = 'S{number}' AND price > 10" for number in mine)
        subscribers.append(subscriber)
    return subscribers


def _victim(survey: Survey, turn: int) -> BrokerId:
    """Return the designated broker of the cluster whose turn it is."""
    heads = speakers(survey)
    return int(heads[sorted(heads)[turn % len(heads)]]["broker"])


def _kill(
    net: Network, victim: BrokerId, publisher: Publisher, subscribers: Sequence[Subscriber]
) -> dict[str, float]:
    """Kill the process of a broker, and return how many seconds later each phase was over."""
    pid, cluster = (
        net.inspect.pid_of(victim),
        next(p.cluster for p in net.inspect.positions if p.broker == victim),
    )
    with _publishing(publisher) as accepted:
        killed_at = time.time()
        os.kill(pid, signal.SIGKILL)
        found: dict[str, float] = {}
        looks = 0
        while len(found) < len(PHASES):
            looks += 1
            look(net, victim, cluster, subscribers, killed_at, time.time, found)
            again = [at for at, broker in accepted if broker != victim and at > killed_at]
            if again:
                found.setdefault("publisher", again[0] - killed_at)
            if time.time() > killed_at + BOUND_SECONDS:
                raise BrokerUnavailable(f"the network has not healed: {sorted(set(PHASES) - found.keys())}")
        found["look"] = (time.time() - killed_at) / looks
    return found


def look(
    net: Network,
    victim: BrokerId,
    cluster: ClusterId,
    subscribers: Sequence[Subscriber],
    killed_at: float,
    clock: Callable[[], float],
    found: dict[str, float],
) -> None:
    """Ask the living brokers once, and note in `found` how long after the kill a phase was seen to be over."""
    moved = all(subscriber.broker != victim for subscriber in subscribers)
    survey = net.inspect.survey(without=[victim])
    at = clock() - killed_at
    learned = [
        when for one in survey.values() for dead, when in one["learned_dead"] if dead == victim and when > killed_at - 1
    ]  # fmt: skip
    if learned:
        found.setdefault("noticed", max(0.0, min(learned) - killed_at))
    if cluster in speakers(survey):
        found.setdefault("elected", at)
    if not structure_problems(survey):
        found.setdefault("joined", at)
        if moved and not problems(survey):
            found.setdefault("installed", at)


@contextmanager
def _publishing(publisher: Publisher) -> Iterator[list[tuple[float, BrokerId]]]:
    """Publish all the time while the block runs; yield when which broker has accepted events."""
    accepted: list[tuple[float, BrokerId]] = []
    publisher.on_accepted = lambda broker, batch: accepted.append((time.time(), broker))
    done = threading.Event()

    def publish() -> None:
        number = 0
        while not done.wait(PUBLISH_SECONDS):
            publisher.publish({"symbol": f"S{number % SUBSCRIPTIONS}", "price": 20 + math.fmod(number, 7)})
            number += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        deadline = time.monotonic() + BOUND_SECONDS
        while not accepted:
            if time.monotonic() > deadline:
                raise BrokerUnavailable("the publisher's broker accepts nothing")
            time.sleep(PUBLISH_SECONDS)
        yield accepted
    finally:
        done.set()
        thread.join()
