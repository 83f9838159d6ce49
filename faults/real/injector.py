"""Injects faults into a running network on Ray: kills, stops and restarts brokers, and breaks links.

Rules
-----
* A crash is alternately a SIGKILL of the process and a `ray.kill`. A pause is SIGSTOP. All processes must be on
  this machine.
* Every living host is told which links are bad and which brokers are slow (`LinkFaultTable`), and applies this where
  it sends.
* The host of a broker damages the state in its process on request. A store is damaged while its broker is dead,
  because it is read at the start. A broker that detects that its state is damaged ends; it is restarted once that
  is noticed.
* Ray restarts the rendezvous point as soon as it is dead, so a restart of it in a plan does nothing.
* The last living broker is spared. Each broker must have an actor of its own.
* Connections are harmed in the process of a broker (`connection_faults`), also those of its clients.
* On the run's own hosts (`machines`), the link of a whole host is cut or degraded by the network itself. Brokers
  behind a cut link count as silent until they have answered again, or until Ray has given them up and so killed
  them.
* Brokers may join and leave meanwhile (`operating`). A broker that was to leave and died is not restarted.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

import ray
from ray.exceptions import ActorDiedError, RayActorError

from ...actors.host.broker_store import BrokerStores
from ...actors.host.handle import HostHandle
from ...actors.network.network import Network
from ...protocol.configs import Position, clusters_of
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import RENDEZVOUS, LeaveNetwork
from ...recovery.durability.stable import Stable
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ...simulator.link_faults import Cuts
from ..damage import damage_store
from ..machines import links
from ..machines.layout import Layout
from ..machines.nodes import given_up, node_ids
from ..plans.plans import HostLink, OfConnections, Shake
from .connection_faults import ConnectionHarm
from .damage import Damage
from .link_faults import LinkFaultTable

TELL_SECONDS: Final = 2.0
"""How long hosts have to take in the link faults; a paused host takes them in when it resumes."""

REACHED_SECONDS: Final = 30.0
"""How long brokers behind a cut link have to answer once everything heals: TCP backs off between retries."""

LEFT_SECONDS: Final = 0.1
"""The interval between two checks whether a broker has left, or has answered."""


class Breaker:
    """A network in which faults can be caused, as :class:`rayvous.faults.injector.Breakable` specifies.

    Parameters
    ----------
    net
        The network, which heals; this process launched it.
    clock
        Returns the seconds of the run.
    layout
        The run's own hosts, on which the brokers are; None if there are none.
    stable
        Where the brokers have their stores; None if they have none.
    turn
        Whether the first kill is a SIGKILL (even) or a `ray.kill` (odd); then they alternate.

    Attributes
    ----------
    asking
        Held while all brokers except the silent ones are queried, so that no link is cut before they have answered.

    Raises
    ------
    InputError
        If brokers share an actor, or a process is on another machine.
    """

    def __init__(
        self,
        net: Network,
        clock: Callable[[], float],
        turn: int = 0,
        layout: Layout | None = None,
        stable: Stable | None = None,
    ) -> None:
        self._net = net
        self._clock = clock
        self.positions: dict[BrokerId, Position] = {place.broker: place for place in net.inspect.positions}
        self.members: dict[ClusterId, tuple[BrokerId, ...]] = clusters_of(net.inspect.positions)
        self.rendezvous: Any = net.inspect.rendezvous
        if len(net.inspect.hosts()) != len(net.inspect.positions):
            raise InputError("brokers share an actor: only one that has an actor of its own can be broken")
        self._views = scheme_of(net.inspect.scheme).membership is Membership.VIEWS
        self._pids = {broker: net.inspect.pid_of(broker) for broker in self.positions}
        self._nodes = [] if layout is None else node_ids(layout)
        self._places = {broker: net.inspect.node_of(broker) for broker in self.positions if self._nodes}
        self._dead: set[BrokerId] = set()
        self._retiring: set[BrokerId] = set()
        self._gone: set[BrokerId] = set()
        self._paused: set[BrokerId] = set()
        self._cuts = Cuts()
        self._shakes: list[tuple[float, Shake]] = []
        self._factors: dict[BrokerId, float] = {}
        self._unconnected: set[BrokerId] = set()  # whose connections suffer, or have suffered
        self._layout = layout
        self._stable = stable
        self._starting = threading.Lock()
        self._given_up: set[int] = set()
        self._bad_links: set[int] = set()
        self.asking = threading.Lock()
        self._unreached: dict[BrokerId, Any] = {}  # behind a cut link: the call pending since it was mended
        self._agenda: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._kills = itertools.count(turn)

    @property
    def now(self) -> float:
        """Seconds on the clock of the run."""
        return self._clock()

    def at(self, when: float, action: Callable[..., object], *values: object) -> None:
        """Schedule an action, which `run` will do."""
        heappush(self._agenda, (when, next(self._order), action, values))

    def run(self) -> None:
        """Do all scheduled actions, each at its time."""
        while self._agenda:
            when, _, action, values = heappop(self._agenda)
            time.sleep(max(0.0, when - self.now))
            action(*values)

    def living(self) -> list[BrokerId]:
        """Return the brokers whose process exists, even if it is paused."""
        return [broker for broker in list(self.positions) if broker not in self._dead | self._gone]

    def dead(self) -> list[BrokerId]:
        """Return the dead brokers, without those that have left for good."""
        return sorted(self._dead - self._gone)

    def staying(self) -> list[BrokerId]:
        """Return the living brokers that are not leaving."""
        return [broker for broker in self.living() if broker not in self._retiring]

    def leaving(self) -> list[BrokerId]:
        """Return the brokers that are leaving and have not left yet."""
        return sorted(self._retiring - self._gone)

    def silent(self) -> list[BrokerId]:
        """Return the brokers that would not answer now: those that are dead, paused, or behind a cut link."""
        return sorted((self._dead | self._paused | self._unreached.keys()) - self._gone)

    @property
    def cut_off(self) -> bool:
        """Whether there are brokers behind a cut link, or brokers that have not answered since it was mended."""
        return bool(self._unreached)

    # Brokers that join, and that leave gracefully.

    def came(self, brokers: Iterable[BrokerId]) -> None:
        """Note brokers that have joined the network; faults may affect them from now on."""
        places = {place.broker: place for place in self._net.inspect.positions}
        for broker in brokers:
            self._met(broker)
            self.positions[broker] = place = places[broker]
            self.members[place.cluster] = (*self.members.get(place.cluster, ()), broker)
            HostHandle(self._net.inspect.host_of(broker)).inject(self._link_faults())

    def _met(self, broker: BrokerId) -> None:
        self._pids[broker] = self._net.inspect.pid_of(broker)
        if self._nodes:
            self._places[broker] = self._net.inspect.node_of(broker)

    def retire(self, brokers: Iterable[BrokerId]) -> None:
        """Note brokers that are to leave: one that dies before it has left is not restarted."""
        self._retiring.update(brokers)

    def stay(self, brokers: Iterable[BrokerId]) -> None:
        """Note brokers that do not leave after all."""
        self._retiring.difference_update(brokers)

    def left(self, brokers: Iterable[BrokerId]) -> None:
        """Note brokers that have left, or died before they had."""
        self._gone.update(brokers)
        for broker in brokers:
            self._unreached.pop(broker, None)
            place = self.positions[broker]
            rest = (other for other in self.members[place.cluster] if other != broker)
            self.members[place.cluster] = tuple(rest)

    # Processes.

    def crash(self, broker: BrokerId) -> bool:
        """Kill a process; return False, and spare it, if it is dead or the last living broker."""
        if broker == RENDEZVOUS:
            ray.kill(self.rendezvous, no_restart=False)
            return True
        if broker not in self.living() or len(self.living()) == 1:
            return False
        self._dead.add(broker)
        # Ray asks a process to end itself, and a paused process does not receive that.
        if next(self._kills) % 2 == 0 or broker in self._paused:
            self._signal(broker, signal.SIGKILL)
        elif (host := self._host(broker)) is not None:
            ray.kill(host, no_restart=True)
        self._paused.discard(broker)
        self._factors.pop(broker, None)
        return True

    def restart(self, broker: BrokerId) -> bool:
        """Restart a dead broker; return False if it lives, as the rendezvous point always does, or is to leave."""
        with self._starting:
            if broker not in self._dead - self._retiring:
                return False
            self._net.kill_broker(broker)  # it is dead; this waits until Ray knows that
            self._net.restart_broker(broker)
            self._met(broker)
            self._dead.discard(broker)
            self._unreached.pop(broker, None)  # the pending call was to its earlier incarnation
            ray.get(HostHandle(self._net.inspect.host_of(broker)).inject(self._link_faults()))
            return True

    def start_fallen(self) -> list[BrokerId]:
        """Restart the brokers that have ended because their state was damaged; return them."""
        known = set(self._net.inspect.hosts())  # without those that are known to be dead
        near = [
            broker for broker in self.staying() if broker not in self._unreached
        ]  # those not behind a cut link
        fallen = [broker for broker in near if self._host(broker) not in (None, *known)]
        self._dead.update(fallen)
        return [broker for broker in fallen if self.restart(broker)]

    def leave(self, broker: BrokerId) -> bool:
        """Let a broker leave, then kill its process; return False if it is silent, the last one, or in a tree."""
        if not self._views or broker in self.silent() or len(self.living()) == 1:
            return False
        ray.get(self.rendezvous.retire.remote([broker]))
        ray.get(HostHandle(self._net.inspect.host_of(broker)).tell(broker, RENDEZVOUS, [LeaveNetwork()]))
        self.at(self.now, self._end_when_out, broker, self._pids[broker])
        return True

    def _end_when_out(self, broker: BrokerId, pid: int) -> None:
        if broker in self._dead or self._pids[broker] != pid:
            return
        out = broker not in self._paused and ray.get(
            HostHandle(self._net.inspect.host_of(broker)).left(broker)
        )
        if not (out and self.crash(broker)):
            self.at(self.now + LEFT_SECONDS, self._end_when_out, broker, pid)

    def pause(self, broker: BrokerId) -> bool:
        """Pause a broker; return False if it is dead or already paused."""
        if broker not in self.living() or broker in self._paused:
            return False
        if not self._signal(broker, signal.SIGSTOP):
            return False  # it has just left
        self._paused.add(broker)
        return True

    def resume(self, broker: BrokerId) -> bool:
        """Resume a paused broker; return False if it was not paused."""
        if broker not in self._paused:
            return False
        self._paused.discard(broker)
        return self._signal(broker, signal.SIGCONT)

    def _signal(self, broker: BrokerId, number: signal.Signals) -> bool:
        """Send a signal to a broker's process; return False if the process has ended meanwhile."""
        try:
            os.kill(self._pids[broker], number)
        except ProcessLookupError:
            return False
        return True

    def _host(self, broker: BrokerId) -> Any:
        """Return the actor of a broker; None if it has left."""
        return self._net.inspect.host_of(broker) if broker in self._net.inspect.brokers() else None

    # Links, and slow brokers.

    def slow(self, broker: BrokerId, factor: float) -> None:
        """Slow a broker down by `factor`; 1 restores its speed."""
        if broker not in self._dead:
            self._factors[broker] = factor
            self._tell()

    def cut(self, pairs: Iterable[tuple[BrokerId, BrokerId]], reason: object) -> None:
        """Cut links in both directions."""
        for one, other in pairs:
            self._cuts.add(one, other, reason)
        self._tell()

    def mend(self, reason: object = None) -> bool:
        """Remove a reason for cuts, or all reasons; return whether a link was mended."""
        mended = self._cuts.clear() if reason is None else self._cuts.remove(reason)
        self._tell()
        return bool(mended)

    def damage(self, broker: BrokerId, what: str) -> int:
        """Damage a part of the state of a broker; return how many values were changed, 0 if it is unreachable."""
        seed = f"damage/{broker}/{self.now}"
        if what == "store":
            return self._damage_store(broker, seed)
        if broker in self.silent():
            return 0
        try:
            answer = HostHandle(self._net.inspect.host_of(broker)).inject(Damage(broker, what, seed))
            return int(ray.get(answer, timeout=REACHED_SECONDS))
        except RayActorError:  # it has just ended
            return 0

    def _damage_store(self, broker: BrokerId, seed: str) -> int:
        """Damage the store of a broker, after killing the broker if it lives; it finds the rest when it restarts."""
        if self._stable is None or not (broker in self._dead or self.crash(broker)):
            return 0
        self._net.kill_broker(
            broker
        )  # this waits until Ray knows that it is dead, and nobody has the store open
        store = BrokerStores(self._stable, self._net.inspect.directory.features).store_of(
            broker, incarnation=1
        )
        try:
            return damage_store(store, Random(seed))
        finally:
            store.close()

    def harm_connections(self, fault: OfConnections) -> str:
        """Harm the connections of a broker's process; return why that has no effect, or an empty text."""
        if self._net.inspect.directory.channels is None:
            return "the links are calls of Ray"
        if fault.broker in self.silent():
            return "dead, paused, or behind a cut link"
        host = self._host(fault.broker)
        if host is None:
            return "it has left"
        try:
            ray.get(HostHandle(host).inject(ConnectionHarm(fault)), timeout=REACHED_SECONDS)
        except RayActorError:
            return "it has just ended"
        self._unconnected.add(fault.broker)
        return ""

    def shake(self, fault: Shake) -> None:
        """Degrade links for a while."""
        self._shakes.append((self.now + fault.seconds, fault))
        self._tell()

    def host_link(self, fault: HostLink) -> bool:
        """Cut or degrade the link of a host for a while; return False if there are no hosts."""
        if self._layout is None:
            return False
        self._bad_links.add(fault.host)
        if fault.carries:
            links.change(self._layout, fault.host, fault.megabits_per_second, fault.drop)
        else:
            with self.asking:
                self._unreached |= dict.fromkeys(self._on_host(fault.host))
                links.cut(self._layout, fault.host)
        self.at(self.now + fault.seconds, self._link_is_back, fault.host)
        return True

    def _link_is_back(self, host: int) -> None:
        """Restore the link of a host, and ask the brokers there whether they live."""
        if self._layout is None or host not in self._bad_links:
            return
        self._bad_links.discard(host)
        links.change(self._layout, host)
        for broker in [broker for broker, asked in list(self._unreached.items()) if asked is None]:
            if self._places[broker] == self._nodes[host]:
                self._unreached.pop(broker, None)  # a broker that died behind it is dead, not silent
        actors = {broker: self._host(broker) for broker in self._on_host(host)}
        self._unreached |= {
            broker: HostHandle(actor).pid() for broker, actor in actors.items() if actor is not None
        }
        self._hear()

    def _hear(self, seconds: float = 0.0) -> None:
        """Process the answers, and deaths that Ray reports; wait at most this long for all, and schedule a retry."""
        asked = {answer: broker for broker, answer in list(self._unreached.items()) if answer is not None}
        ready = ray.wait(list(asked), num_returns=len(asked), timeout=seconds)[0] if asked else []
        for answer in ready:
            broker = asked[answer]
            if self._unreached.get(broker) != answer:
                continue  # it has restarted or left meanwhile
            try:
                ray.get(answer)
            except ActorDiedError:
                self._dead.add(broker)
            except RayActorError:  # unreachable at the moment
                if (actor := self._host(broker)) is not None:
                    self._unreached[broker] = HostHandle(actor).pid()
                    continue
            self._unreached.pop(broker, None)
        if any(answer is not None for answer in list(self._unreached.values())):
            self.at(self.now + LEFT_SECONDS, self._hear)

    def given_up(self) -> list[int]:
        """Return the hosts that Ray has given up since the last call."""
        new = sorted(given_up(self._layout) - self._given_up) if self._layout is not None else []
        self._given_up.update(new)
        return new

    def _on_host(self, host: int) -> list[BrokerId]:
        """Return the brokers that live on a host."""
        return [broker for broker in self.living() if self._places[broker] == self._nodes[host]]

    def calm(self) -> None:
        """End every fault of links, connections and speed; first hear from the brokers behind cut links."""
        for broker in list(self._paused):
            self.resume(broker)
        for host in sorted(self._bad_links):
            self._link_is_back(host)
        self._hear(REACHED_SECONDS)
        self._shakes.clear()
        self._factors.clear()
        self._cuts.clear()
        self._tell()
        silent = self.silent()
        harmed = [broker for broker in self._unconnected if broker not in silent]
        self._unconnected.clear()
        actors = [host for broker in harmed if (host := self._host(broker)) is not None]
        ended = [HostHandle(host).inject(ConnectionHarm(None)) for host in actors]
        ray.wait(ended, num_returns=len(ended), timeout=TELL_SECONDS) if ended else None

    def _link_faults(self) -> LinkFaultTable:
        now = self.now
        self._shakes = [(until, shake) for until, shake in self._shakes if until > now]
        left = tuple((until - now, shake) for until, shake in self._shakes)
        return LinkFaultTable(frozenset(self._cuts.reasons), left, dict(self._factors))

    def _tell(self) -> None:
        table = self._link_faults()
        hosts = [host for broker in self.living() if (host := self._host(broker)) is not None]
        told = [HostHandle(host).inject(table) for host in hosts]
        ray.wait(told, num_returns=max(1, len(told) - len(self._paused)), timeout=TELL_SECONDS)
