"""Brokers, the rendezvous point and the links between them in virtual time, in a world that does them harm.

Rules
-----
* One heap of what is to happen, by time and then by when it was put there; all chance comes from the seed. The same
  calls give the same run.
* A broker that runs with `recovery` is told the time a few times in each heartbeat, each broker with an offset of its
  own, and first of all when it starts; without `recovery` there are no ticks, and the network comes to rest.
* What is under way to or from a process dies with it. Who is paused keeps its state, and all that comes waits; when it
  goes on it may learn the time before or after what has waited. A slow one takes its input one by one, each after a
  while.
* A multicast reaches every member of the group that can be reached, each over a link of its own.

:class:`rayvous.simulator.Simulation` is the quick driver, for networks to which nothing happens; this is the other one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from ..actors.broker import Broker, rendezvous_of, start_of
from ..chaos.harm import clusters_of
from ..chaos.weather import Cuts, Weather
from ..faults.stores import MemoryStore
from ..protocol.beats import is_beat
from ..protocol.configs import Position
from ..protocol.effects import (
    Confirm,
    Deliver,
    Drain,
    Drained,
    Flushed,
    Missed,
    Multicast,
    Persist,
    Propose,
    Received,
    Regroup,
    Renew,
    Report,
    Send,
    Ticked,
)
from ..protocol.errors import InputError, SimulationStepLimit, StorageFailed
from ..protocol.ids import BrokerId
from ..protocol.recovery import RENDEZVOUS, TIMED, Recovery
from ..protocol.scenario import LinkModel
from ..routing.schemes import scheme as scheme_of
from ..routing.topologies import GROUP_SECONDS, LINK_SECONDS
from .connections import Connection, Underway
from .harmed import Harmed
from .hosts import Host, Machine, make_broker
from .network import Step

TICKS_PER_HEARTBEAT: Final = 4
SERVICE_SECONDS: Final = 0.001
"""What a slow broker takes for one message, times its factor."""

STEPS_MAX: Final = 20_000_000

Watcher = Callable[[float, BrokerId, BrokerId | None, Any], None]
"""Called with (time, sender, receiver or None for the group, message) when a broker sends."""


class HostileNetwork(Harmed):
    """Brokers in virtual time to which anything may happen.

    Parameters
    ----------
    positions
        Where the brokers stand at the start.
    scheme
        The routing scheme of all of them.
    recovery
        How they heal; None for brokers that do not.
    links
        Delay, spread and jitter; its loss is not used, as links are connections.
    seed
        The seed of all chance.
    delay_of
        Delay between two brokers in seconds, where `links` leaves it to the topology.
    record
        Called with every step of every broker, before its effects are carried out.
    broker
        Makes a broker of (position, scheme, recovery, incarnation, seed), and `store` when brokers have one; for tests
        with machines of their own.
    stable
        Whether every broker has a store that outlives it.
    rendezvous
        Makes the rendezvous point of (recovery, root view, or view of a hypercube); None for none.
    last_words
        Whether what a broker had sent before it died still arrives, as it does where messages wait in the receiver's
        queue.

    Attributes
    ----------
    now
        Virtual time in seconds.
    steps
        Events that machines have taken in.
    lost
        Messages that died with one of their ends.
    sent
        Messages between brokers by type; a multicast is one.
    failures
        The last error of each broker whose store failed; it died of it.
    watchers
        Who is called when a message of a type is sent.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        scheme: str = "hybrid",
        *,
        recovery: Recovery | None = None,
        links: LinkModel | None = None,
        seed: int = 0,
        delay_of: Callable[[BrokerId, BrokerId], float] | None = None,
        record: Callable[[Step], None] | None = None,
        broker: Callable[..., Any] | None = None,
        rendezvous: Callable[..., Any] | None = rendezvous_of,
        last_words: bool = False,
        stable: bool = False,
    ) -> None:
        self.now = 0.0
        self.steps = self.lost = 0
        self.sent: Counter[type] = Counter()
        self.links = links or LinkModel()
        self.recovery = recovery
        self.failures: dict[BrokerId, StorageFailed] = {}
        self.watchers: dict[type, Watcher] = {}
        self.weather = Weather()
        self._seed = seed
        self.scheme = scheme
        self._dice = random.Random(f"hostile/{seed}")
        self._delay_of = delay_of
        self._record = record
        self._make = broker or make_broker
        self._last_words = last_words
        self._with_stores = stable
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._cuts = Cuts()
        self._connections: dict[tuple[BrokerId, BrokerId, bool], Connection] = {}
        self._groups: dict[BrokerId, list[Connection]] = {}
        self.positions = {place.broker: place for place in scheme_of(scheme).positions(positions)}
        self.members = clusters_of(positions)
        self._carry_out: dict[type, Callable[[Host, Any], None]] = {
            Send: self._send,
            Multicast: self._multicast,
            Regroup: self._regroup,
            Renew: self._renew,
            Deliver: self._deliver,
            Confirm: self._confirm,
            Propose: self._propose,
            Report: self._report,
            Flushed: self._flushed,
            Drain: self._drain,
            Persist: self._persist,
        }
        self.hosts = {place.broker: self._host(place) for place in self.positions.values()}
        self.rendezvous: Host | None = None
        if recovery is not None and rendezvous is not None:
            self.rendezvous = Host(RENDEZVOUS, -1, self._rendezvous_boot(rendezvous))
        for host in [*self.hosts.values(), *([self.rendezvous] if self.rendezvous else [])]:
            self._start_ticking(host)

    def _host(self, place: Position, *, founds: bool = False, before: int = 0) -> Host:
        """Make the process of a broker; `before` is how many lives it counts from before this network's time."""
        store = MemoryStore() if self._with_stores else None

        def boot(life: int) -> Machine:
            how: dict[str, Any] = {"joins": True} if founds and not life else {}
            if store is not None:
                how["store"] = store
            there = self.positions[place.broker]
            made: Machine = self._make(there, self.scheme, self.recovery, life + before, self._seed, **how)
            return made

        return Host(place.broker, place.cluster, boot, store)

    def add_host(self, place: Position, *, founds: bool) -> Host:
        """Make the process of a broker that joins a cluster of the running network, or `founds` a new one."""
        self.positions[place.broker] = place
        # Who joins a cluster starts as one that was started again.
        host = self.hosts[place.broker] = self._host(place, founds=founds, before=0 if founds else 1)
        return host

    def _rendezvous_boot(self, make: Callable[..., Any]) -> Callable[[int], Machine]:
        start = start_of(list(self.positions.values()), self.scheme)

        def boot(life: int) -> Machine:
            machine = make(self.recovery, start)
            if life:
                assert self.rendezvous is not None
                machine.restore(self.rendezvous.machine.state())
            made: Machine = machine
            return made

        return boot

    # The driver.

    def advance(self, seconds: float) -> int:
        """Let that much time pass; return how many steps were made."""
        return self.advance_to(self.now + seconds)

    def advance_to(self, until: float) -> int:
        """Let time pass until then; return how many steps were made."""
        steps = self._drive(until)
        self.now = max(self.now, until)
        return steps

    def run(self) -> int:
        """Let time pass until nothing moves any more; only without `recovery`, else there are always ticks."""
        if self.recovery is not None:
            raise InputError("a network that heals never comes to rest: let some time pass instead")
        return self._drive(math.inf)

    def at(self, when: float, action: Callable[..., None], *values: Any) -> None:
        """Do something at a time to come."""
        heappush(self._heap, (max(when, self.now), next(self._order), action, values))

    def _drive(self, until: float) -> int:
        heap, before = self._heap, self.steps
        while heap and heap[0][0] <= until:
            self.now, _, action, values = heappop(heap)
            action(*values)
            if self.steps - before > STEPS_MAX:
                raise SimulationStepLimit(f"{STEPS_MAX} steps, and it is {self.now:.3f} virtual seconds")
        return self.steps - before

    def _step(self, host: Host, event: Received | Ticked | Drained | Missed) -> None:
        if isinstance(event, Ticked):
            host.told_at = self.now
        elif self.recovery is not None and self.now - host.told_at > self.recovery.heartbeat_seconds:
            life = host.life
            self._step(host, Ticked(self.now))
            if not host.alive or host.life != life:
                return
        self.steps += 1
        effects = host.handle(event)
        if self._record is not None and host.id != RENDEZVOUS:
            self._record(Step(self.now, host.machine, event, effects))
        carry_out = self._carry_out
        for effect in effects:
            if host.fuse is not None:
                if not host.fuse and self.crash(host.id):
                    return
                host.fuse = host.fuse - 1 if host.fuse else None
            carry_out[type(effect)](host, effect)
            if not host.alive:
                return

    # Time at the brokers.

    def _start_ticking(self, host: Host) -> None:
        if self.recovery is not None:
            self._step(host, Ticked(self.now))
            period = self.recovery.heartbeat_seconds / TICKS_PER_HEARTBEAT
            self.at(self.now + period * (1.0 - self._dice.random()), self._tick, host, host.life, period)

    def _tick(self, host: Host, life: int, period: float) -> None:
        if not host.alive or host.life != life:
            return
        self.at(self.now + period, self._tick, host, life, period)
        if not host.paused:
            self._take_in(host, None)

    def _take_in(self, host: Host, given: Received | Drained | Missed | None) -> None:
        """Hand a message, or the time, to a process as soon as it is ready for it."""
        if host.paused or host.serving or host.factor > 1.0:
            if given is None and host.waiting and host.waiting[-1] is None:
                return  # one tick that waits tells as much as two
            host.waiting.append(given)
            if not host.paused and not host.serving:
                self._serve_later(host)
        else:
            self._step(host, Ticked(self.now) if given is None else given)

    def _serve_later(self, host: Host) -> None:
        host.serving = True
        self.at(self.now + SERVICE_SECONDS * host.factor, self._serve, host, host.life)

    def _serve(self, host: Host, life: int) -> None:
        if not host.serving or host.life != life:
            return
        host.serving = False
        if host.waiting:
            given = host.waiting.popleft()
            self._step(host, Ticked(self.now) if given is None else given)
        if host.waiting and not host.serving:
            self._serve_later(host)

    def _persist(self, host: Host, effect: Persist) -> None:
        try:
            host.store.commit(effect.writes)
        except StorageFailed as error:  # it stands still until it is started again
            self.failures[host.id] = error
            if not self.crash(host.id):
                host.die()

    # Links.

    def _send(self, host: Host, effect: Send) -> None:
        to, message = effect.to, effect.message
        kind = type(message)
        self.sent[kind] += 1
        watcher = self.watchers.get(kind)
        if watcher is not None:
            watcher(self.now, host.id, to, message)
        connection = self._connections.get((host.id, to, False)) or self._connect(host, to, False)
        self._transmit(connection, message)

    def _multicast(self, host: Host, effect: Multicast) -> None:
        message = effect.message
        kind = type(message)
        self.sent[kind] += 1
        watcher = self.watchers.get(kind)
        if watcher is not None:
            watcher(self.now, host.id, None, message)
        group = self._groups.get(host.id)
        if group is None:
            others = (other for other in self.positions[host.id].members if other != host.id)
            group = self._groups[host.id] = self._links_to(host, others)
        for connection in group:
            self._transmit(connection, message)

    def _regroup(self, host: Host, effect: Regroup) -> None:
        self._groups[host.id] = self._links_to(host, effect.members)

    def _links_to(self, host: Host, members: Iterable[BrokerId]) -> list[Connection]:
        known = self._connections
        return [known.get((host.id, other, True)) or self._connect(host, other, True) for other in members]

    def _transmit(self, connection: Connection, message: Any) -> None:
        target = connection.target
        if not target.alive or (connection.broken and not is_beat(message)):
            self.lost += 1
            return
        entry = Underway(connection, message, connection.source.life, target.life, connection.breaks)
        heappush(
            self._heap,
            (connection.arrival(self.now, self.weather), next(self._order), self._arrive, (entry,)),
        )

    def _arrive(self, entry: Underway) -> None:
        connection = entry.connection
        if connection.held or connection.pair in self._cuts.reasons:
            connection.held.append(entry)
        else:
            self._hand_over(entry)

    def _hand_over(self, entry: Underway) -> None:
        source, target = entry.connection.source, entry.connection.target
        sent = self._last_words or (source.alive and source.life == entry.sender_life)
        sent = sent and entry.breaks == entry.connection.breaks
        if sent and target.alive and target.life == entry.target_life:
            if type(entry.message) in TIMED and self.recovery is not None:
                self._take_in(target, None)
            self._take_in(target, Received(source.id, entry.message))
        else:
            self.lost += 1

    def break_link(self, source: BrokerId, to: BrokerId, *, over_group: bool, after: float = 0.0) -> None:
        """Lose what one broker sends to another over one way, until it has learned of it, `after` so many seconds."""
        host = self.hosts[source]
        connection = self._connections.get((source, to, over_group)) or self._connect(host, to, over_group)
        if not connection.broken:
            connection.breaks += 1
            connection.broken_life = host.life
            event = Missed(to, over_group, after)
            self.at(self.now + after, self._tell_missed, connection, host.life, event)

    def _tell_missed(self, connection: Connection, life: int, event: Missed) -> None:
        if connection.source.alive and connection.source.life == life:
            self._take_in(connection.source, event)

    def _renew(self, host: Host, effect: Renew) -> None:
        self._connections[host.id, effect.broker, effect.over_group].broken_life = -1

    def _release(self, connection: Connection) -> None:
        if connection.pair in self._cuts.reasons:
            return  # cut again meanwhile
        while connection.held:
            self._hand_over(connection.held.popleft())

    def _connect(self, host: Host, to: BrokerId, group: bool) -> Connection:
        target = self.rendezvous if to == RENDEZVOUS else self.hosts.get(to)
        if target is None:
            raise InputError(f"broker {host.id} sends to {to}, which is not there")
        near = host.cluster == target.cluster
        delay = self.links.group_seconds if near else self.links.delay_seconds
        if delay is None and self._delay_of is not None and RENDEZVOUS not in (to, host.id):
            delay = self._delay_of(host.id, to)
        elif delay is None:
            delay = GROUP_SECONDS if near else LINK_SECONDS
        name = f"{'group' if group else 'unicast'}/{host.id}/{to}"
        connection = Connection(host, target, delay, self.links, name, self._seed)
        self._connections[host.id, to, group] = connection
        return connection

    # What clients would get; :class:`rayvous.simulator.clients.HostileSimulation` has clients.

    def _deliver(self, host: Host, effect: Any) -> None:
        pass

    _confirm = _report = _flushed = _deliver

    def _drain(self, host: Host, effect: Drain) -> None:
        # A client that is there has a message after so long; whoever was delivered something before has it by then.
        self.at(self.now + self.links.client_seconds, self._drained, host, host.life, Drained(effect.number))

    def _drained(self, host: Host, life: int, event: Drained) -> None:
        if host.alive and host.life == life:
            self._take_in(host, event)

    def _propose(self, host: Host, effect: Propose) -> None:
        pass

    # What it is like.

    def living(self) -> list[BrokerId]:
        """Return the brokers whose process runs, in rising order."""
        return [broker for broker, host in self.hosts.items() if host.alive]

    def staying(self) -> list[BrokerId]:
        """Return the living brokers that are not about to leave, in rising order: clients may go there."""
        return [broker for broker, host in self.hosts.items() if host.alive and not host.retiring]

    def dead(self) -> list[BrokerId]:
        """Return the brokers whose process does not run, in rising order, without those that have left for good."""
        return [broker for broker, host in self.hosts.items() if not host.alive and not host.gone]

    def broker(self, broker: BrokerId) -> Broker:
        """Return one broker, to look at."""
        machine: Broker = self.hosts[broker].machine
        return machine

    def _any_host(self, broker: BrokerId) -> Host:
        if broker != RENDEZVOUS:
            return self.hosts[broker]
        if self.rendezvous is None:
            raise InputError("there is no rendezvous point: the network does not heal")
        return self.rendezvous
