"""Brokers, the rendezvous point and the links between them, in virtual time.

Rules
-----
* All future actions are in one heap, ordered by time and then by insertion; time jumps from one to the next. All
  random choices come from the seed; nothing depends on hash order or wall time. The same calls give the same run.
* The broker is the same object as in the Ray host: it takes an event and returns effects, which are carried out
  here in order. A store outlives its broker, which finds it again when it restarts.
* A broker that heals, or has a store, is told the time at its start and then periodically, with an offset of its
  own. Without such brokers there are no ticks, and the network becomes quiescent.
* Messages in flight to or from a process are lost when it dies. A paused process keeps its state, and its inputs
  wait. When it resumes, it learns the time before or after the waiting inputs. A slow process takes its inputs one
  by one, each after a delay.

The parts have modules of their own: :mod:`transport`, :mod:`faults`, :mod:`overload`, :mod:`telemetry`.
:class:`rayvous.simulator.Simulation` adds the clients.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, Never

from ..broker import Broker, rendezvous_of, start_of
from ..protocol import checks
from ..protocol.configs import DEFAULT_SCHEME, Position, clusters_of
from ..protocol.effects import (
    Died,
    Drain,
    Drained,
    Effect,
    Meet,
    Missed,
    Persist,
    Received,
    TickAt,
    Ticked,
)
from ..protocol.errors import ClientError, InputError, SimulationStepLimit, StateDamaged, StorageFailed
from ..protocol.features import Features
from ..protocol.ids import BrokerId
from ..protocol.messages.admission import AdmissionConfig
from ..protocol.messages.handover import Bequest
from ..protocol.messages.pubsub import Events, ReadClock
from ..protocol.messages.recovery import RENDEZVOUS, Recovery
from ..protocol.scenarios.scenario import LinkModel
from ..protocol.stability import Stability
from ..recovery.durability.stores import Store
from ..routing.schemes.registry import scheme as scheme_of
from ..routing.topologies.cluster_trees import Topology, positions_of
from .datagrams import Datagrams
from .faults import Faults
from .hosts import FromClient, Host
from .link_faults import Cuts, LinkFaults
from .overload import Queues
from .parts import Observer, Spectator, Watcher
from .telemetry import SimulatedTelemetry
from .transport import SimulatedTransport, Traffic

TICKS_PER_HEARTBEAT: Final = 4
SERVICE_SECONDS: Final = 0.001
"""The time that a slow broker takes for one message, before it is multiplied by the broker's factor."""

STEPS_MAX: Final = 100_000_000


class Step(NamedTuple):
    """One step of a broker: the time, the broker in its state after the step, the input, and the returned effects."""

    now: float
    broker: Broker
    received: Received | Ticked | Died | Drained | Missed
    effects: list[Effect]


class SimulatedNetwork:
    """Brokers in virtual time, and the links between them.

    Parameters
    ----------
    positions
        A topology, or the initial places of the brokers, as its `positions()` returns them.
    scheme
        The routing scheme of all brokers.
    recovery
        How they heal; None for brokers that do not.
    store
        Makes the store of a broker, which outlives the broker; None for brokers without stores.
    stability
        Times and limits of brokers with stores that do not heal.
    admission
        The admission configuration, with the brokers' capacities; None admits everything.
    queues
        The capacities of brokers and links, beyond which events wait; None for no limit.
    links
        Delay, spread, jitter and loss.
    datagrams
        The quality of links that are datagrams; None for connections.
    last_words
        Whether what a broker sent before it died still arrives, as where messages wait in the receiver's queue.
    dead_after_seconds
        After how long those that have links to a process know that it is dead, as they do on Ray; None for never, so
        that only silence tells.
    strangers
        Whether a restarted broker is unreachable for another one until that one hears of the restart, as where
        messages go to a process; the loss is reported to the sender when it hears of it.
    seed
        The seed of all random choices.
    delay_of
        The delay between two brokers in seconds, where `links` leaves it to the topology.
    record
        Called with every step of every broker, before its effects are carried out.
    observer
        Is told of every message between processes that leaves, and of every one that is lost.
    telemetry
        Takes the telemetry of the brokers' hosts; True makes one that stores it, None records none.
    broker
        Makes a broker from (position, scheme, recovery, incarnation, seed), and by name `joins`, `store`,
        `stability` and `admission` where they apply; for tests with machines of their own.
    rendezvous
        Makes the rendezvous point from (recovery, root view, or view of a hypercube); None for none.

    Attributes
    ----------
    now
        Virtual time in seconds.
    plain
        Whether a step of a broker consists only of its effects: nothing heals, queues, or is stored or recorded.
    carry_out
        How each kind of effect is carried out.
    numbered
        Whether messages are numbered and retransmitted until acknowledged: with stores, where nothing heals.
    features, heals
        What follows from the features that were asked for; whether it heals.
    steps
        The number of events that machines have taken in.
    lost
        The number of messages lost on links, or with one of their ends.
    past_ttl
        The number of events that brokers and clients dropped because their time to live had passed.
    expiring
        Whether an event with a time to live was published.
    failures
        The last error of each broker whose store failed; the broker died of it.
    hosts, rendezvous
        The processes.
    positions, members
        The place of each broker, and the brokers of each cluster, dead or alive.
    watchers
        The function to call when a message of a type is sent.
    spectator
        Is told of every action, before and after it; None for nobody.
    faults, link_faults, cuts
        The faults. The methods of `faults` are also the network's: `crash`, `restart`, `cut` and so on.
    """

    expiring = False

    def __init__(
        self,
        positions: Topology | Sequence[Position],
        scheme: str = DEFAULT_SCHEME,
        *,
        recovery: Recovery | None = None,
        store: Callable[[BrokerId], Store] | None = None,
        stability: Stability | None = None,
        admission: AdmissionConfig | None = None,
        queues: Queues | None = None,
        links: LinkModel | None = None,
        datagrams: Datagrams | None = None,
        last_words: bool = False,
        dead_after_seconds: float | None = None,
        strangers: bool = False,
        seed: int = 0,
        delay_of: Callable[[BrokerId, BrokerId], float] | None = None,
        record: Callable[[Step], None] | None = None,
        observer: Observer | None = None,
        telemetry: SimulatedTelemetry | bool | None = None,
        broker: Callable[..., Broker] = Broker,
        rendezvous: Callable[..., Any] | None = rendezvous_of,
    ) -> None:
        positions = positions_of(positions)
        functions = {
            "delay_of": delay_of,
            "record": record,
            "store": store,
            "broker": broker,
            "rendezvous": rendezvous,
        }
        for name, given in functions.items():
            checks.callback(name, given)
        checks.optional("recovery", recovery, Recovery, "a Recovery()")
        if checks.optional("admission", admission, AdmissionConfig, "an AdmissionConfig()") is not None:
            admission.validate()  # type: ignore[union-attr]
        self.now = 0.0
        self.steps = self.lost = self.past_ttl = 0
        self.scheme, self.recovery, self.admission = scheme, recovery, admission
        self.features = Features(recovery, store is not None, admission)
        self.heals, self._late_seconds = self.features.heals, self.features.late_seconds
        self.links = checks.optional("links", links, LinkModel, "a LinkModel()") or LinkModel()
        self.stability = stability or Stability()
        telemetry = SimulatedTelemetry() if telemetry is True else None if telemetry is False else telemetry
        checks.optional("telemetry", telemetry, SimulatedTelemetry, "SimulatedTelemetry(), True, False")
        self.observer = observer
        parts = (recovery, store, queues, record, observer, telemetry)
        self.plain = all(part is None for part in parts)
        self._quotas = self.features.quotas_only
        self.failures: dict[BrokerId, StorageFailed] = {}
        self.watchers: dict[type, Watcher] = {}
        self.spectator: Spectator | None = None
        self.seed = checks.whole_number("seed", seed)
        self.link_faults, self.cuts, self.faults = LinkFaults(), Cuts(), Faults(self, dead_after_seconds)
        faults = self.faults
        self.crash, self.crash_after, self.restart = faults.crash, faults.crash_after, faults.restart
        self.pause, self.resume = faults.pause, faults.resume
        self.slow, self.leave = faults.slow, faults.leave
        self.cut, self.mend, self.shake, self.calm = faults.cut, faults.mend, faults.shake, faults.calm
        self.queues, self.telemetry = checks.optional("queues", queues, Queues, "Queues()"), telemetry
        self.take_in: Callable[[Host, Received | Drained | Missed | None], None]
        self.take_in = self.serve if queues is None else self._queue
        self.numbered = self.features.numbers
        self.rng = random.Random(f"hostile/{seed}")
        self._record, self._make, self._make_store = record, broker, store
        self.heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self.order: Iterator[int] = itertools.count()
        self.positions = {place.broker: place for place in scheme_of(scheme).positions(positions)}
        self.members = clusters_of(positions)
        self.transport = SimulatedTransport(self, datagrams, last_words, strangers, delay_of)
        self.carry_out: dict[type, Callable[[Host, Never], None]] = {
            **self.transport.effects,
            **self._client_effects(),
            **self._own_effects(),
        }
        if queues is not None:
            queues.join(self)
        self.hosts = {place.broker: self._host(place) for place in self.positions.values()}
        self.rendezvous: Host | None = None
        if self.heals and rendezvous is not None:
            self.rendezvous = Host(RENDEZVOUS, -1, self._rendezvous_boot(rendezvous))
        for host in [*self.hosts.values(), *([self.rendezvous] if self.rendezvous else [])]:
            self.start_ticking(host)

    def _host(self, place: Position, *, founds: bool = False, before: int = 0) -> Host:
        """Make the process of a broker; `before` is the number of its incarnations before this network's time."""
        store = None if self._make_store is None else self._make_store(place.broker)
        how: dict[str, object] = {"admission": self.admission} if self.features.admits else {}
        if store is not None:
            how |= {"store": store, "stability": self.stability}

        def boot(incarnation: int) -> object:
            first = {"joins": True} if founds and not incarnation else {}
            there = self.positions[place.broker]
            return self._make(
                there, self.scheme, self.recovery, incarnation + before, self.seed, **first, **how
            )

        if self.telemetry is not None:
            self.telemetry.join(place)
        return Host(place.broker, place.cluster, boot, store, place.parent)

    def add_host(self, place: Position, *, founds: bool) -> Host:
        """Make the process of a broker that joins a cluster of the running network, or `founds` a new one."""
        self.positions[place.broker] = place
        # A broker that joins a cluster starts like a restarted one.
        host = self.hosts[place.broker] = self._host(place, founds=founds, before=0 if founds else 1)
        return host

    def _rendezvous_boot(self, make: Callable[..., Any]) -> Callable[[int], object]:
        start = start_of(list(self.positions.values()), self.scheme)

        def boot(incarnation: int) -> object:
            machine = make(self.recovery, start)
            if incarnation:
                assert self.rendezvous is not None
                machine.restore(self.rendezvous.machine.state())
            return machine

        return boot

    # The driver.

    def advance(self, seconds: float) -> int:
        """Let this much time pass; return how many steps were made."""
        return self.advance_to(self.now + checks.seconds("seconds", seconds))

    def advance_to(self, until: float) -> int:
        """Let time pass until `until`; return how many steps were made."""
        steps = self._drive(checks.seconds("until", until))
        self.now = max(self.now, until)
        return steps

    def run(self, steps_max: int = STEPS_MAX) -> int:
        """Let time pass until the network is quiescent; return how many steps that took.

        Raises
        ------
        InputError
            If the network heals, or has stores: then ticks never end.
        SimulationStepLimit
            If it takes more than `steps_max` steps.
        """
        if self._tick_seconds is not None:
            raise InputError("a network that heals, or has stores, never becomes quiescent: use advance()")
        steps = self._drive(math.inf, checks.whole_number("steps_max", steps_max, 0))
        if self.telemetry is not None:
            self.telemetry.flush()
        return steps

    def at(self, when: float, action: Callable[..., object], *values: object) -> None:
        """Schedule an action."""
        checks.seconds("when", when)
        if not callable(action):
            raise InputError(f"action is {checks.shown(action)}: it must be a function")
        heappush(self.heap, (max(when, self.now), next(self.order), _do, (action, values)))

    def _drive(self, until: float, steps_max: int = STEPS_MAX) -> int:
        heap, before, spectator = self.heap, self.steps, self.spectator
        last = before + steps_max
        if spectator is not None:
            spectator.aside()
        while heap and heap[0][0] <= until:
            if self.steps >= last:
                raise SimulationStepLimit(
                    f"{steps_max} steps, and {len(heap)} messages are still under way at "
                    f"{self.now:.6f} virtual seconds; give a higher steps_max if that is not a loop"
                )
            self.now, _, action, value = heappop(heap)
            if spectator is not None:
                spectator.before(action, value)
            action(value)
            if spectator is not None:
                spectator.after()
        return self.steps - before

    def step(self, host: Host, event: Received | Ticked | Died | Drained | Missed) -> None:
        """Let a process handle an event, and carry out the returned effects."""
        if isinstance(event, FromClient):
            comes = host.asked if type(event.message) is ReadClock else host.attached
            comes[event.source] = event.connection
            if self._quotas and type(event.message) is Events:
                self.step(host, Ticked(self.now))  # quotas are per second
        if type(event) is Ticked:
            host.ticked_at = self.now
        elif self.now - host.ticked_at > self._late_seconds:
            incarnation = host.incarnation
            self.step(host, Ticked(self.now))
            if not host.alive or host.incarnation != incarnation:
                return
        self.steps += 1
        try:
            effects = host.handle(event)
        except StateDamaged as error:
            self._start_again(host, error)
            return
        if self._record is not None and host.id != RENDEZVOUS:
            self._record(Step(self.now, host.machine, event, effects))
        if self.telemetry is not None:
            self.telemetry.stepped(self.now, host, event)
        carry_out = self.carry_out
        for effect in effects:
            if host.fuse is not None:
                if not host.fuse and self.faults.crash(host.id):
                    return
                host.fuse = host.fuse - 1 if host.fuse else None
            carry_out[type(effect)](host, effect)  # type: ignore[arg-type]
            if not host.alive:
                return
        if type(event) is FromClient:
            self._taken_in(host, event)
        elif type(event) is Received and type(event.message) is Bequest and effects:
            self._inherited(host, event.message)

    def _own_effects(self) -> Mapping[type, Callable[[Host, Never], None]]:
        """Return how the effects of brokers that address their host are carried out."""
        return {
            Drain: self._drain,
            Persist: self._persist,
            TickAt: self._tick_at,
            Meet: lambda host, effect: None,  # every broker knows the way to every other one
        }

    # Hooks for clients.

    def _client_effects(self) -> Mapping[type, Callable[[Host, Never], None]]:
        """Return how the effects of brokers that address clients are carried out."""
        return {}

    def _taken_in(self, host: Host, event: FromClient) -> None:
        """Note that a broker has taken in a message of a client."""

    def _inherited(self, host: Host, bequest: Bequest) -> None:
        """Note that a trustee retains what a leaving broker has handed over to it."""

    # Time at the brokers.

    @property
    def _tick_seconds(self) -> float | None:
        """How often brokers are told the time; None for never."""
        if self.heals:
            return self.features.times.heartbeat_seconds / TICKS_PER_HEARTBEAT
        return None if self._make_store is None else self.stability.retransmit_seconds / 2

    def tell_time(self, host: Host, after: float) -> None:
        """Tell a process the time once, in `after` seconds, if it is not told periodically."""
        if self._quotas:
            self.at(self.now + after, self._tell_time, host, host.incarnation)

    def _tell_time(self, host: Host, incarnation: int) -> None:
        if host.alive and host.incarnation == incarnation:
            self.take_in(host, None)

    def start_ticking(self, host: Host) -> None:
        """Tell a process the time, now and periodically, if it needs that."""
        host.plain = host.plain and self.plain
        period = self._tick_seconds
        if period is not None:
            self.step(host, Ticked(self.now))
            self.at(self.now + period * (1.0 - self.rng.random()), self._tick, host, host.incarnation, period)

    def _tick_at(self, host: Host, effect: TickAt) -> None:
        """Tell a broker the time when it has asked for that; a paused one is told with its next regular tick."""
        self.at(effect.at, self._tick_once, host, host.incarnation)

    def _tick_once(self, host: Host, incarnation: int) -> None:
        if host.alive and host.incarnation == incarnation and not host.paused:
            self.take_in(host, None)

    def _tick(self, host: Host, incarnation: int, period: float) -> None:
        if not host.alive or host.incarnation != incarnation:
            return
        self.at(self.now + period, self._tick, host, incarnation, period)
        if not host.paused:
            self.take_in(host, None)

    def _queue(self, host: Host, given: Received | Drained | Missed | None) -> None:
        """Hand an input to a process when it is its turn; the time does not queue."""
        assert self.queues is not None
        if given is None or self.queues.pass_on(host, given):
            self.serve(host, given)

    def serve(self, host: Host, given: Received | Drained | Missed | None) -> None:
        """Hand a message, or the time if it is None, to a process as soon as the process is ready."""
        if host.paused or host.serving or host.factor > 1.0:
            if given is None and host.waiting and host.waiting[-1] is None:
                return  # two waiting ticks would say no more than one
            host.waiting.append(given)
            if not host.paused and not host.serving:
                self._serve_later(host)
        else:
            self.step(host, Ticked(self.now) if given is None else given)

    def _serve_later(self, host: Host) -> None:
        host.serving = True
        self.at(self.now + SERVICE_SECONDS * host.factor, self._serve, host, host.incarnation)

    def _serve(self, host: Host, incarnation: int) -> None:
        if not host.serving or host.incarnation != incarnation:
            return
        host.serving = False
        if host.waiting:
            given = host.waiting.popleft()
            self.step(host, Ticked(self.now) if given is None else given)
        if host.waiting and not host.serving:
            self._serve_later(host)

    def _persist(self, host: Host, effect: Persist) -> None:
        try:
            host.store.commit(effect.writes)
        except StorageFailed as error:  # it is dead until it is restarted
            self._die_of(host, error)

    def _die_of(self, host: Host, error: StorageFailed) -> None:
        self.failures[host.id] = error
        self.faults.end(host)

    def _start_again(self, host: Host, error: StateDamaged) -> None:
        """End a process that has detected that its state is damaged, and restart it with empty state."""
        self._die_of(host, error)
        self.at(self.now + self.features.times.heartbeat_seconds, self.faults.restart, host.id)

    def _drain(self, host: Host, effect: Drain) -> None:
        # A connected client receives a message after this delay. By then it has all earlier deliveries.
        self.at(
            self.now + self.links.client_seconds,
            self._drained,
            host,
            host.incarnation,
            Drained(effect.number),
        )

    def _drained(self, host: Host, incarnation: int, event: Drained) -> None:
        if host.alive and host.incarnation == incarnation:
            self.take_in(host, event)

    # Queries.

    @property
    def sent(self) -> Counter[type]:
        """How many messages brokers have sent each other, by type; a multicast counts once."""
        sent = self.transport.sent
        return sent["up"] + sent["down"] + sent["multicast"]

    def traffic(self) -> dict[str, Traffic]:
        """Return the messages over the links of each kind; their sum is TCT (paper 1, section 5.1)."""
        return self.transport.traffic()

    def living(self) -> list[BrokerId]:
        """Return the brokers whose process exists, in ascending order."""
        return [broker for broker, host in self.hosts.items() if host.alive]

    def staying(self) -> list[BrokerId]:
        """Return the living brokers that are not leaving, in ascending order: clients may move there."""
        return [broker for broker, host in self.hosts.items() if host.alive and not host.retiring]

    def dead(self) -> list[BrokerId]:
        """Return the brokers whose process is dead, in ascending order, without those that have left for good."""
        return [broker for broker, host in self.hosts.items() if not host.alive and not host.gone]

    def broker(self, broker: BrokerId) -> Broker:
        """Return one broker, for inspection.

        Raises
        ------
        ClientError
            If there is no such broker.
        """
        machine: Broker = self.host(broker).machine
        return machine

    def host(self, broker: BrokerId) -> Host:
        """Return the process of a broker, or of the rendezvous point.

        Raises
        ------
        ClientError, InputError
            If there is none.
        """
        if broker == RENDEZVOUS:
            if self.rendezvous is None:
                raise InputError("there is no rendezvous point: the network does not heal")
            return self.rendezvous
        checks.whole_number("broker", broker)
        if broker not in self.hosts:
            raise ClientError(f"no broker {broker!r}: there are {len(self.hosts)}, numbered from 0")
        return self.hosts[broker]

    def brokers(self) -> list[Broker]:
        """Return all brokers, for inspection."""
        return [host.machine for host in self.hosts.values()]


def _do(what: tuple[Callable[..., None], tuple[object, ...]]) -> None:
    action, values = what
    action(*values)
