"""The cost of reliability: crashes of brokers that recover from their stores, and damaged tables (paper 4).

Method
------
* *Crashes*: a tree of brokers that do not heal, each with a store (algorithms 1 to 4). `PUBLISHERS`
  publishers publish an event every half second for `SECONDS`; every third broker has a subscriber of one of
  `KINDS` kinds. Brokers without publishers crash at random times, a given number of times each in `SECONDS`,
  and restart a second later. Then the network has time to become quiescent.
* Counted are the messages between brokers and the commits of stores. *Consistent* is the longest time from a
  publication to a notification of it: the time until all subscribers of an event were notified.
* *Damage*: the same clients on brokers that heal and compare tables. Tables of a given number of brokers with
  children are damaged at once; consistent is when the structure and all routes are sound again, checked every
  half heartbeat.

Open in the paper, and our choice
---------------------------------
The paper has no experiment. So rates, sizes and times are ours: a broker crashes up to four times in a
hundred seconds, 15 and 31 brokers in a tree of degree 2, a tenth of a second until a message is
retransmitted.

Source: paper 4, section 3, algorithms 1 to 4, and its condition "from any state" (section 2); decision 0028.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...faults.checker.reliability import judge
from ...faults.simulated.judging import damage, structure_problems, subscription_problems
from ...protocol.effects import Write
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ...protocol.stability import Stability
from ...recovery.durability.stores import MemoryStore
from ...routing.topologies.cluster_trees import ClusterTree
from ...simulator.simulation import Simulation
from ..experiment import Repeated, Tables

CRASHES: Final = "crashes"
DAMAGE: Final = "damage"
DEGREE: Final = 2
PUBLISHERS: Final = 4
KINDS: Final = 4
SECONDS: Final = 100.0
DOWN_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 60.0
COMPARE_HEARTBEATS: Final = 2.0
HEALED_WITHIN_SECONDS: Final = 60.0
RETRANSMIT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Point:
    """A tree with a number of brokers, and its faults.

    Attributes
    ----------
    mode
        `CRASHES` or `DAMAGE`.
    size
        The number of brokers.
    rate
        How often each broker crashes in `SECONDS`, or how many brokers are damaged at once.
    run
        The seed of clients and faults.
    """

    mode: str
    size: int
    rate: float
    run: int = 0


def _points(sizes: Sequence[int]) -> tuple[Point, ...]:
    return tuple(
        Point(mode, size, float(rate))
        for size in sorted(sizes, reverse=True)
        for mode, rates in ((CRASHES, (0, 1, 2, 4)), (DAMAGE, (0, 1, 4)))
        for rate in rates
    )


PRESETS: Final = {
    "small": Repeated(_points((9, 15)), 1),
    "quick": Repeated(_points((15, 31)), 2),
    "paper": Repeated(_points((15, 31, 63, 127)), 20),
}
"""The plans by preset.

``small`` is a preview; nine brokers are the fewest with four inner brokers, which can be damaged.
"""


def measure(point: Point) -> Tables:
    """Run one tree and return its totals.

    Returns
    -------
    dict
        ``totals``: one row with the `events` published, the `messages` between brokers, the `commits` of
        stores, the number of `faults`, after how many seconds all was `consistent`, and whether it `holds`
        its promises.
    """
    found = _crashes(point) if point.mode == CRASHES else _damage(point)
    return {"totals": {name: [value] for name, value in found.items()}}


class _CountingStore(MemoryStore):
    """A store that counts its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    def commit(self, writes: Sequence[Write]) -> None:
        super().commit(writes)
        self.commits += 1


def _clients(net: Simulation, point: Point) -> list[BrokerId]:
    """Subscribe all subscribers and schedule the publications; return the brokers of the publishers."""
    rng = random.Random(f"reliability/clients/{point.size}/{point.run}")
    for broker in range(0, point.size, 3):
        net.subscribe(f"s{broker}", broker, f"kind = {rng.randrange(KINDS)}")
    net.advance(5.0)
    homes = [rng.randrange(point.size) for _ in range(PUBLISHERS)]
    for number, home in enumerate(homes):
        begin = net.now + rng.random() / 2
        for turn in range(int(2 * SECONDS)):
            net.at(
                begin + turn / 2,
                net.publish,
                f"p{number}",
                home,
                [{"kind": (number + turn) % KINDS, "n": turn}],
            )
    return homes


def _crashes(point: Point) -> dict[str, object]:
    stores: dict[BrokerId, _CountingStore] = {}

    def store(broker: BrokerId) -> _CountingStore:
        return stores.setdefault(broker, _CountingStore())

    net = Simulation(
        ClusterTree(point.size, 1, degree=DEGREE).positions(),
        "hybrid",
        store=store,
        stability=Stability(retransmit_seconds=RETRANSMIT_SECONDS),
        seed=point.run,
    )
    spared = _clients(net, point)
    rng = random.Random(f"reliability/crashes/{point.size}/{point.rate}/{point.run}")
    begin = net.now
    mortal = [broker for broker in range(point.size) if broker not in spared]
    moments = [(begin + rng.random() * SECONDS, broker) for broker in mortal for _ in range(int(point.rate))]
    for at, broker in moments:
        net.at(at, net.crash, broker)
        net.at(at + DOWN_SECONDS, net.restart, broker)
    net.advance(SECONDS + SETTLE_SECONDS)
    net.account.settled(net.now)
    published = net.account.publications()
    delays = [
        note.at_seconds - published[note.publisher, note.sequence].at_seconds
        for note in net.account.notifications()
    ]
    return {
        "events": len(published),
        "messages": sum(net.sent.values()),
        "commits": sum(each.commits for each in stores.values()),
        "faults": len(moments),
        "consistent": max(delays),
        "holds": judge(net.account).holds,
    }


def _damage(point: Point) -> dict[str, object]:
    recovery = Recovery.for_simulator(degree=DEGREE + 1, compare_heartbeats=COMPARE_HEARTBEATS)
    positions = ClusterTree(point.size, 1, degree=DEGREE).positions()
    net = Simulation(positions, "hybrid", recovery=recovery, seed=point.run)
    _clients(net, point)
    rng = random.Random(f"reliability/damage/{point.size}/{point.rate}/{point.run}")
    net.advance(SECONDS / 4)
    inner = [place.broker for place in positions if place.children]
    hit = [damage(net, broker) for broker in rng.sample(inner, int(point.rate))]
    began, sound = net.now, 0.0
    while net.now < began + HEALED_WITHIN_SECONDS:
        net.advance(recovery.heartbeat_seconds / 2)
        if structure_problems(net, recovery.degree) or subscription_problems(net):
            sound = net.now + recovery.heartbeat_seconds / 2 - began
    return {
        "events": len(net.account.publications()),
        "messages": sum(net.sent.values()),
        "commits": 0,
        "faults": sum(hit),
        "consistent": sound,
        "holds": sound < HEALED_WITHIN_SECONDS,
    }
