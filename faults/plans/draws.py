"""Random fault plans: mixed, overlapping, and always survivable.

Rules
-----
* One broker is spared: it is never crashed by id and never left dead, so at least one broker always survives.
  (`crash_root` hits the present root; hosts spare the last living broker.)
* Faults come in bursts: often several start within the same half second. Most are undone after a while,
  before or after the others; the rest are undone when the plan heals.
* A plan can be aimed: its first fault then kills the given target (one of `AIMS`, or `FLAT_AIMS`), so that a
  few seeds are certain to cover every kind.
* About one plan in three has a single fault, so that recovery times can be told apart by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId, ClusterId
from .plans import (
    Crash,
    CrashCluster,
    CrashRendezvous,
    CrashRoot,
    Cut,
    CutClusters,
    Fault,
    FaultPlan,
    Heal,
    Leave,
    Mend,
    MendClusters,
    Partition,
    Pause,
    Restart,
    RestartRendezvous,
    Resume,
    Shake,
    Slow,
)

if TYPE_CHECKING:
    from random import Random

KINDS: Final = {
    "crash": 6,
    "crash_designated": 6,
    "crash_cluster": 3,
    "crash_root": 3,
    "crash_rendezvous": 2,
    "pause": 4,
    "slow": 2,
    "cut": 2,
    "cut_tree": 4,
    "partition": 2,
    "shake": 3,
}
"""The kinds of faults and their weights; `crash_designated` and `cut_tree` aim by the positions at the start."""

AIMS: Final = ("designated", "normal", "root", "cluster", "rendezvous", "home")
"""The targets that a plan can kill first: `home` is a broker that has clients, `cluster` one below the root."""

FLAT_KINDS: Final = {
    "crash": 8,
    "crash_cluster": 3,
    "crash_rendezvous": 2,
    "leave": 6,
    "pause": 4,
    "slow": 2,
    "cut": 3,
    "partition": 2,
    "shake": 3,
}
"""The same for a network without root and tree, in which brokers may leave."""

FLAT_AIMS: Final = ("broker", "cluster", "rendezvous", "leave", "home")
"""The targets that a plan can harm first there: any broker, several at once, one that leaves."""

SLOW_FACTORS: Final = (5.0, 20.0, 100.0)


def draw(
    rng: Random,
    positions: Sequence[Position],
    seconds: float,
    *,
    kinds: Sequence[str] | None = None,
    faults_max: int = 6,
    name: str = "drawn",
    flat: bool = False,
) -> FaultPlan:
    """Return a plan for a network with these positions.

    Parameters
    ----------
    rng
        The source of randomness.
    positions
        The brokers of the network.
    seconds
        When everything is healed. Faults come in the first nine tenths.
    kinds
        The kinds of faults to draw from; None for all.
    faults_max
        The maximum number of faults, not counting those that undo others.
    name
        A name for reports.
    flat
        Whether the network has no tree: then the kinds are those of `FLAT_KINDS`, else those of `KINDS`.
    """
    drawer = _Drawer(rng, positions, seconds)
    known = FLAT_KINDS if flat else KINDS
    words = list(known if kinds is None else kinds)
    weights = [known[word] for word in words]
    count = 1 if rng.random() < 0.35 else rng.randint(2, max(2, faults_max))
    at = rng.uniform(0.0, 0.4) * seconds
    for _ in range(count):
        drawer.add(rng.choices(words, weights)[0], at)
        if rng.random() < 0.5:  # else the next one comes at the same time
            at = rng.uniform(at, min(at + 0.4 * seconds, 0.9 * seconds))
        else:
            at = min(at + rng.choice((0.0, 0.0, rng.random() / 2)), 0.9 * seconds)
    return drawer.plan(name)


def aimed(
    rng: Random, plan: FaultPlan, aim: str, positions: Sequence[Position], homes: Sequence[BrokerId]
) -> FaultPlan:
    """Return the plan with a fault ahead of all others that kills the target of `aim`, or with this fault only.

    Parameters
    ----------
    rng
        The source of randomness.
    plan
        A plan for a network with these positions.
    aim
        One of :data:`AIMS` or :data:`FLAT_AIMS`.
    positions
        The brokers. They include a cluster below the root and a normal broker.
    homes
        The brokers to which clients are attached.
    """
    at = round(rng.uniform(0.02, 0.1) * plan.heal_seconds, 3)
    later = tuple(replace(fault, at_seconds=max(at, fault.at_seconds)) for fault in plan.faults)
    if rng.random() < 0.5:
        later = ()
    back = at + rng.uniform(0.3, 0.9) * (plan.heal_seconds - at)
    fault, brokers = _aim(rng, aim, at, positions, homes)
    undone: tuple[Fault, ...] = ()
    stay_dead = set(plan.stay_dead) if later else set()
    fate = rng.random()
    if fate < 0.4:
        undone = tuple(Restart(round(back, 3), broker) for broker in brokers)
    elif fate < 0.7:
        stay_dead.update(brokers)
    faults = sorted((*later, *undone), key=lambda each: each.at_seconds)
    return FaultPlan(plan.name, (fault, *faults), plan.heal_seconds, tuple(sorted(stay_dead)))


def _aim(
    rng: Random, aim: str, at: float, positions: Sequence[Position], homes: Sequence[BrokerId]
) -> tuple[Fault, tuple[BrokerId, ...]]:
    """Return the fault, and the brokers that it kills as far as that is known beforehand."""
    if aim == "root":
        return CrashRoot(at, rng.random() < 0.5), ()
    if aim == "rendezvous":
        return CrashRendezvous(at), ()
    if aim == "cluster":
        below = [place for place in positions if place.role == "DEB"]
        chosen = rng.choice(below)
        return CrashCluster(at, chosen.cluster), chosen.members
    among = {
        "broker": [place.broker for place in positions],
        "leave": [place.broker for place in positions],
        "designated": [place.broker for place in positions if place.role == "DEB"],
        "normal": [place.broker for place in positions if place.role == "NEB"],
        "home": list(homes),
    }[aim]
    broker = rng.choice(among)
    return (Leave if aim == "leave" else Crash)(at, broker), (broker,)


class _Drawer:
    def __init__(self, rng: Random, positions: Sequence[Position], seconds: float) -> None:
        self.rng = rng
        self.positions = list(positions)
        self.seconds = seconds
        self.brokers = [place.broker for place in positions]
        self.spared = rng.choice(self.brokers)
        self.clusters: dict[ClusterId, Position] = {}
        for place in positions:
            if place.broker == place.designated:
                self.clusters[place.cluster] = place
        self.faults: list[Fault] = []
        self.stay_dead: dict[BrokerId, None] = {}
        self.kinds: dict[str, Callable[[float], None]] = {
            "crash": lambda at: self._crash(at, self.brokers),
            "crash_designated": lambda at: self._crash(
                at, [place.broker for place in self.clusters.values()]
            ),
            "crash_cluster": self._crash_cluster,
            "crash_root": self._crash_root,
            "crash_rendezvous": self._crash_rendezvous,
            "leave": self._leave,
            "pause": self._pause,
            "slow": self._slow,
            "cut": self._cut,
            "cut_tree": self._cut_tree,
            "partition": self._partition,
            "shake": self._shake,
        }

    def add(self, kind: str, at: float) -> None:
        self.kinds[kind](at)

    def plan(self, name: str) -> FaultPlan:
        faults = sorted(self.faults, key=lambda fault: fault.at_seconds)
        return FaultPlan(name, tuple(faults), self.seconds, tuple(sorted(self.stay_dead)))

    def _until(self, at: float) -> float | None:
        """Return when a fault is undone; None leaves it to the healing."""
        if self.rng.random() < 0.3:
            return None
        longest = (self.seconds - at) * 0.95
        return round(at + longest * self.rng.random() ** 2, 3)  # short times are more likely

    def _add(self, fault: Fault, undo: Callable[..., Fault], *given: object) -> None:
        """Add a fault, and the fault that undoes it, unless that is left to the healing."""
        self.faults.append(fault)
        until = self._until(fault.at_seconds)
        if until is not None:
            self.faults.append(undo(until, *given))

    def _crash(self, at: float, among: Sequence[BrokerId]) -> None:
        broker = self.rng.choice(among)
        if broker != self.spared:
            self.faults.append(Crash(at, broker))
            self._fate(at, [broker])

    def _fate(self, at: float, brokers: Sequence[BrokerId]) -> None:
        """Let dead brokers be restarted one by one, or stay dead."""
        if self.rng.random() < 0.3:
            self.stay_dead |= dict.fromkeys(brokers)
            return
        for broker in brokers:
            until = self._until(at)
            if until is not None:
                self.faults.append(Restart(until, broker))

    def _crash_cluster(self, at: float) -> None:
        cluster = self.rng.choice(list(self.clusters))
        members = self.clusters[cluster].members
        if self.spared not in members:
            self.faults.append(CrashCluster(at, cluster))
            self._fate(at, members)

    def _crash_root(self, at: float) -> None:
        self.faults.append(CrashRoot(at, self.rng.random() < 0.7))

    def _leave(self, at: float) -> None:
        broker = self.rng.choice(self.brokers)
        if broker != self.spared:
            comes_back = self.rng.random() < 0.7
            self.faults.append(Leave(at, broker, comes_back))
            until = self._until(at)
            if comes_back and until is not None:
                self.faults.append(Restart(until, broker))

    def _crash_rendezvous(self, at: float) -> None:
        self._add(CrashRendezvous(at), RestartRendezvous)

    def _pause(self, at: float) -> None:
        broker = self.rng.choice(self.brokers)
        self._add(Pause(at, broker), Resume, broker)

    def _slow(self, at: float) -> None:
        broker = self.rng.choice(self.brokers)
        self._add(Slow(at, broker, self.rng.choice(SLOW_FACTORS)), Slow, broker, 1.0)

    def _cut(self, at: float) -> None:
        if len(self.brokers) < 2:
            return
        one, other = sorted(self.rng.sample(self.brokers, 2))
        self._add(Cut(at, one, other), Mend, one, other)

    def _cut_tree(self, at: float) -> None:
        below = [place for place in self.clusters.values() if place.parent is not None]
        if not below:
            return
        place = self.rng.choice(below)
        upper = next(other.cluster for other in self.positions if other.broker == place.parent)
        one, other = sorted((place.cluster, upper))
        self._add(CutClusters(at, one, other), MendClusters, one, other)

    def _partition(self, at: float) -> None:
        if len(self.clusters) < 2:
            return
        count = self.rng.randint(1, len(self.clusters) - 1)
        apart = tuple(sorted(self.rng.sample(list(self.clusters), count)))
        self._add(Partition(at, apart, self.rng.random() < 0.5), Heal)

    def _shake(self, at: float) -> None:
        some = self.rng.random() < 0.5
        chosen = tuple(sorted(self.rng.sample(self.brokers, min(3, len(self.brokers))))) if some else ()
        self.faults.append(
            Shake(
                at,
                seconds=round(self.rng.uniform(0.05, 0.9) * (self.seconds - at), 3),
                delay_seconds=self.rng.choice((0.0, 0.05, 0.5)),
                drop=self.rng.choice((0.0, 0.01, 0.2)),
                duplicate=self.rng.choice((0.0, 0.05)),
                brokers=chosen,
            )
        )
