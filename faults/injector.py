"""Executes a fault plan on a network, in virtual time or on real actors.

Rule: every fault reports in a sentence what it did, or that it had no effect at its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Never, Protocol

from ..protocol.configs import Position
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.messages.recovery import RENDEZVOUS
from .plans.plans import (
    Crash,
    CrashCluster,
    CrashRendezvous,
    CrashRoot,
    Cut,
    CutClusters,
    Damage,
    Fault,
    FaultPlan,
    Heal,
    HostLink,
    Leave,
    Mend,
    MendClusters,
    OfConnections,
    Partition,
    Pause,
    RefuseConnections,
    ResetConnections,
    Restart,
    RestartRendezvous,
    Resume,
    Shake,
    Slow,
    StopReading,
    describe,
)


class Breakable(Protocol):
    """A network into which faults can be injected. Brokers are named by id, the rendezvous point by RENDEZVOUS."""

    @property
    def now(self) -> float:
        """The time on the clock of the run, in seconds."""
        ...

    @property
    def positions(self) -> Mapping[BrokerId, Position]:
        """Every broker's position at the start."""
        ...

    @property
    def members(self) -> Mapping[ClusterId, tuple[BrokerId, ...]]:
        """The brokers of each cluster, dead or alive."""
        ...

    @property
    def rendezvous(self) -> object:
        """The rendezvous point, or None if there is none."""
        ...

    def at(self, when: float, action: Callable[..., object], *values: object) -> None:
        """Schedule an action for a future time."""
        ...

    def living(self) -> list[BrokerId]:
        """Return the brokers whose process runs."""
        ...

    def dead(self) -> list[BrokerId]:
        """Return the brokers whose process does not run."""
        ...

    def staying(self) -> list[BrokerId]:
        """Return the brokers whose process runs and that are not leaving."""
        ...

    def crash(self, broker: BrokerId) -> bool:
        """Kill a process; return False without effect if it is dead or the last broker alive."""
        ...

    def restart(self, broker: BrokerId) -> bool:
        """Restart a dead process with empty state; return False if it is alive."""
        ...

    def leave(self, broker: BrokerId) -> bool:
        """Let a broker leave; return False if it is dead, the last one, or in a network that brokers cannot leave."""
        ...

    def pause(self, broker: BrokerId) -> bool:
        """Pause a broker; return False if it is dead or paused already."""
        ...

    def resume(self, broker: BrokerId) -> bool:
        """Resume a paused broker; return False if it was not paused."""
        ...

    def slow(self, broker: BrokerId, factor: float) -> None:
        """Slow a broker down by `factor`; 1 restores its speed."""
        ...

    def cut(self, pairs: Iterable[tuple[BrokerId, BrokerId]], reason: object) -> None:
        """Cut links in both directions."""
        ...

    def mend(self, reason: object = None) -> bool:
        """Remove a reason for cuts, or all; return whether a link was mended."""
        ...

    def shake(self, fault: Shake) -> None:
        """Make links bad for a while."""
        ...

    def damage(self, broker: BrokerId, what: str) -> int:
        """Damage a part of a broker's state; return how many values were changed."""
        ...

    def host_link(self, fault: HostLink) -> bool:
        """Make the link of a host bad for a while; return False if the run has no hosts of its own."""
        ...

    def harm_connections(self, fault: OfConnections) -> str:
        """Harm the connections of a broker's process; return why that has no effect, or an empty text."""
        ...

    def calm(self) -> None:
        """End every cut, bad period, pause and slowdown, and everything that connections suffer."""
        ...


class Injector:
    """Applies the faults of one plan.

    Parameters
    ----------
    network
        The network to harm.
    plan
        The plan.
    say
        Called with (fault, result) for each fault, and with None for the healing.
    root
        Returns the present root broker, as far as can be seen; None if there is none.

    Raises
    ------
    ScenarioError
        If the plan names a broker or cluster that the network does not have.
    """

    def __init__(
        self,
        network: Breakable,
        plan: FaultPlan,
        say: Callable[[Fault | None, str], None],
        root: Callable[[], BrokerId | None],
    ) -> None:
        plan.check(list(network.positions.values()))
        self._network = network
        self._plan = plan
        self._say = say
        self._root = root
        self._stay_dead = set(plan.stay_dead)
        self._table: dict[type, Callable[[Never], str]] = {
            Crash: lambda fault: self._crash([fault.broker]),
            Restart: lambda fault: self._restart([fault.broker]),
            CrashCluster: lambda fault: self._crash(network.members.get(fault.cluster, ())),
            CrashRoot: self._crash_root,
            Leave: self._leave,
            CrashRendezvous: lambda fault: self._rendezvous(network.crash),
            RestartRendezvous: lambda fault: self._rendezvous(network.restart),
            Pause: lambda fault: "" if network.pause(fault.broker) else "dead, or paused already",
            Resume: lambda fault: "" if network.resume(fault.broker) else "was not paused",
            Slow: self._slow,
            Cut: lambda fault: self._cut([(fault.one, fault.other)], _pair("brokers", fault)),
            Mend: lambda fault: self._mend(_pair("brokers", fault)),
            CutClusters: self._cut_clusters,
            MendClusters: lambda fault: self._mend(_pair("clusters", fault)),
            Partition: self._partition,
            Heal: lambda fault: self._mend("partition"),
            Shake: self._shake,
            HostLink: lambda fault: "" if network.host_link(fault) else "there are no hosts",
            ResetConnections: network.harm_connections,
            StopReading: network.harm_connections,
            RefuseConnections: network.harm_connections,
            Damage: lambda fault: f"{network.damage(fault.broker, fault.what)} values of its {fault.what}",
        }

    def begin(self) -> float:
        """Schedule all faults, counted from now; return when everything is healed."""
        start = self._network.now
        for fault in self._plan.faults:
            self._network.at(start + fault.at_seconds, self._apply, fault)
        self._network.at(start + self._plan.heal_seconds, self._heal)
        return start + self._plan.heal_seconds

    def _apply(self, fault: Fault) -> None:
        note = self._table[type(fault)](fault)  # type: ignore[arg-type]
        self._say(fault, describe(fault) + (f": {note}" if note else ""))

    def _heal(self) -> None:
        network = self._network
        network.calm()
        if network.rendezvous is not None:
            network.restart(RENDEZVOUS)
        back = [broker for broker in network.positions if broker not in self._stay_dead]
        if not network.living() and not back:
            back = list(network.positions)
        started = [broker for broker in back if network.restart(broker)]
        dead = network.dead()
        words = [f"started {_names(started)}" if started else "", f"left dead {_names(dead)}" if dead else ""]
        self._say(None, ", ".join(["everything healed", *filter(None, words)]))

    def _crash(self, brokers: Iterable[BrokerId]) -> str:
        spared = [broker for broker in brokers if not self._network.crash(broker)]
        return f"spared or dead already {_names(spared)}" if spared else ""

    def _restart(self, brokers: Iterable[BrokerId]) -> str:
        alive = [broker for broker in brokers if not self._network.restart(broker)]
        return f"alive already {_names(alive)}" if alive else ""

    def _leave(self, fault: Leave) -> str:
        if not self._network.leave(fault.broker):
            return "dead, the last one, or in a tree"
        if not fault.comes_back:
            self._stay_dead.add(fault.broker)
        return ""

    def _crash_root(self, fault: CrashRoot) -> str:
        victim = self._root()
        if victim is None:
            return "there is none just now"
        if not self._network.crash(victim):
            return f"spared {victim}"
        if not fault.comes_back:
            self._stay_dead.add(victim)
        return f"it was {victim}"

    def _rendezvous(self, action: Callable[[BrokerId], bool]) -> str:
        if self._network.rendezvous is None:
            return "there is none"
        return "" if action(RENDEZVOUS) else "it was so already"

    def _slow(self, fault: Slow) -> str:
        self._network.slow(fault.broker, fault.factor)
        return "dead" if fault.broker in self._network.dead() else ""

    def _cut(self, pairs: Iterable[tuple[BrokerId, BrokerId]], reason: object) -> str:
        self._network.cut(pairs, reason)
        return ""

    def _mend(self, reason: object) -> str:
        return "" if self._network.mend(reason) else "nothing to mend"

    def _cut_clusters(self, fault: CutClusters) -> str:
        members = self._network.members
        return self._cut(product(members[fault.one], members[fault.other]), _pair("clusters", fault))

    def _partition(self, fault: Partition) -> str:
        inside = {broker for cluster in fault.clusters for broker in self._network.members[cluster]}
        outside = set(self._network.positions) - inside
        far = inside if not fault.rendezvous else outside
        outside_or_all = product(sorted(inside), sorted(outside))
        return self._cut([*outside_or_all, *((RENDEZVOUS, broker) for broker in sorted(far))], "partition")

    def _shake(self, fault: Shake) -> str:
        self._network.shake(fault)
        return ""


def _pair(kind: str, fault: Cut | Mend | CutClusters | MendClusters) -> tuple[str, int, int]:
    return kind, min(fault.one, fault.other), max(fault.one, fault.other)


def _names(brokers: Iterable[BrokerId]) -> str:
    return " ".join(map(str, brokers))
