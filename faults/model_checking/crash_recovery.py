"""All interleavings of two clients and two or three brokers that crash and recover (paper 4, section 3, theorem 1).

Rules
-----
* The brokers are `broker.Broker` with a store, the clients are the machines of `clients`. What is here is only their
  world: links, crashes, and the choice of what happens next.
* **Actions.** A client takes the next step of its script, connects again, or repeats what is not acknowledged. The
  first message of a link arrives, and the receiver carries out all effects or, if it then crashes, the first few:
  before the commit, between commit and sends, between two sends. A broker crashes at rest, recovers, or is told the
  time. A message between brokers is lost, or the connection of a client breaks, with what is under way over it.
* **Links** are first in, first out. A crash loses what is under way to the broker. What the broker had sent is lost,
  too, or still arrives: both are explored. A broker sends a client something over the connection over which it has
  heard the client last, so nothing reaches a client over a new connection before its first message has arrived.
* **Time is not counted.** A tick comes after every timeout has expired, so that a broker sends again at once whatever
  is not acknowledged. Where nothing else is possible, ticks and repetitions are; otherwise each takes one of the
  budget of `early` ones. The first tick of an incarnation may come at any time.
* Crashes, lost messages and early timeouts have a budget each, so the number of states is finite.
* Nothing is left out by doing a step at once: between two effects of a broker others could only take what it has sent
  already, and they may as well take that later.
* **Judged** in every state: the trace of the clients so far (:func:`.reliability.judge`, with the conditions that
  definitions 8 and 9 consist of), and every broker's own invariants. At rest, with all scripts done, the trace has
  settled: what was due must have come, and definition 9 must hold as it is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from ...broker import Broker
from ...clients.link import ClientLinks
from ...clients.publisher import PublisherMachine
from ...clients.subscriber import SubscriberMachine
from ...protocol.batch import batch_of
from ...protocol.checks import whole_number
from ...protocol.configs import DEFAULT_SCHEME, Position
from ...protocol.effects import Acknowledge, Confirm, Deliver, Received, Send, Ticked
from ...protocol.errors import InputError
from ...protocol.stability import Stability
from ...protocol.traces.trace import Operation, Trace, lives
from ...recovery.durability.stores import MemoryStore
from ...routing.language.questions import to_filter
from ...routing.topologies.cluster_trees import ClusterTree
from ..checker.conditions import definition_9
from ..checker.ltl import holds
from ..checker.reliability import judge
from ..checker.verdict import UNDECIDED
from .processes import Numbering, Outcome, Process, Said, replaced, snapshot_of, snapshots_of

Node: TypeAlias = "int | str"
"""A broker or a client."""

Action: TypeAlias = tuple[int | str, ...]
"""What happens next: a verb, whom it concerns, and after how many effects a broker crashes, if it does."""

Step: TypeAlias = tuple[str, Said]
"""What a client does: a verb, and what it is about."""

ROUTERS: Final = (2, 3)
COUNT_MAX: Final = 500
"""The largest number of a setting: far beyond what can be searched, and what a state packs and a publisher keeps."""
SUBSCRIBER, PUBLISHER = "alice", "bob"
WANTED, UNWANTED = {"x": 1}, {"x": 0}
SELECTOR: Final = "x > 0"
STABILITY: Final = Stability(retransmit_seconds=1.0, retransmit_seconds_max=1.0)
APART, CONNECTED, HEARD = range(3)
"""A client has no connection; has one; and its broker has heard it over that one."""
ALWAYS_LATE: Final = Ticked(math.inf)
"""The time after every timeout."""


@dataclass(frozen=True)
class Setting:
    """A small network, and what happens in it.

    Attributes
    ----------
    routers
        2: the publisher is at the root and the subscriber at its child. 3: both are at children of the root.
    crashes, losses, early
        The most crashes, lost messages, and early timeouts in one run.
    events
        How many events are published; each matches the subscription.
    unwanted
        How many further events are published that match nothing.
    cancels
        Whether the subscriber cancels in the end.
    scheme
        The routing scheme.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    routers: int = 2
    crashes: int = 1
    losses: int = 0
    early: int = 0
    events: int = 1
    unwanted: int = 0
    cancels: bool = False
    scheme: str = DEFAULT_SCHEME

    def __post_init__(self) -> None:
        if self.routers not in ROUTERS:
            raise InputError(f"routers is {self.routers}: it must be 2 or 3")
        for name in ("crashes", "losses", "early", "unwanted"):
            whole_number(name, getattr(self, name), 0, COUNT_MAX)
        whole_number("events", self.events, 1, COUNT_MAX)

    def positions(self) -> list[Position]:
        """Return the places of the brokers."""
        return ClusterTree(self.routers, 1, degree=2).positions()

    def scripts(self) -> dict[str, tuple[Step, ...]]:
        """Return what each client does, in order."""
        said: list[Step] = [("subscribe", SELECTOR)]
        if self.cancels:
            said.append(("cancel", None))
        events = [("publish", WANTED)] * self.events + [("publish", UNWANTED)] * self.unwanted
        return {SUBSCRIBER: tuple(said), PUBLISHER: tuple(events)}

    def homes(self) -> dict[str, int]:
        """Return the broker of each client."""
        return {SUBSCRIBER: 1, PUBLISHER: 0 if self.routers == 2 else 2}


class BrokerProcess:
    """A broker with its store."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.handle = broker.handle

    def state(self) -> object:
        """Return its state, without what it only counts."""
        return snapshots_of(self.broker)


class ClientProcess:
    """A client, which may publish and subscribe: the machines of `clients` that both hosts drive."""

    def __init__(self, name: str) -> None:
        self.link = ClientLinks()
        self.subscriber = SubscriberMachine()
        self.publisher = PublisherMachine(name, 1_000, 1_000.0)
        self._name = name

    def handle(self, given: Step) -> list[Said]:
        """Return messages for the broker, and operations of the trace."""
        verb, what = given
        found: list[Said] = getattr(self, f"_{verb}")(what)
        return found

    def state(self) -> object:
        """Return its state."""
        return [snapshot_of(part) for part in (self.link, self.subscriber, self.publisher)]

    def _subscribe(self, selector: str) -> list[Said]:
        trace, number = Trace(), self.subscriber.last_number + 1
        trace.subscribed(0.0, self._name, number, selector)
        said = self.subscriber.subscribe(number, to_filter(selector), 0.0)
        return [*trace, *map(self.link.send, said)]

    def _cancel(self, what: None) -> list[Said]:
        trace, number = Trace(), self.subscriber.last_number
        trace.cancelled(0.0, self._name, number)
        return [*trace, *map(self.link.send, self.subscriber.cancel(number))]

    def _publish(self, event: Mapping[str, int]) -> list[Said]:
        trace = Trace()
        trace.published(0.0, self._name, self.publisher.published + 1, [event])
        _, said = self.publisher.publish(batch_of([event]), 0.0)
        return [*trace, *map(self.link.send, said)]

    def _connect(self, what: None) -> list[Said]:
        return list(self.link.back())

    def _repeat(self, what: None) -> list[Said]:
        return list(self.link.kept())

    def _hear(self, effect: Said) -> list[Said]:
        if isinstance(effect, Acknowledge):
            self.link.acknowledged(effect.about, effect.number)
            if effect.about == "events":
                self.publisher.accept(effect.number, 0.0)
            return []
        new, answer = self.link.take(effect.number)
        trace = Trace()
        if new and isinstance(effect, Confirm):
            self.subscriber.confirmed(effect.subscription, effect.begins)
            trace.confirmed(0.0, self._name, effect.subscription)
        elif new and isinstance(effect, Deliver):
            place = effect.clients.index(self._name)
            rows = effect.rows[effect.starts[place] : effect.starts[place + 1]]
            self.subscriber.admit(effect.batch, rows)
            for row in rows.tolist():
                trace.notified(0.0, self._name, *effect.batch.identity(row))
        return [answer, *trace]


class State(NamedTuple):
    """A state of the network; numbers of what its `CrashRecovery` has found before.

    Attributes
    ----------
    brokers
        The state of each broker; of a dead one -1 less its store.
    clients, done, connected
        Of each client: its state, how many steps of its script it has done, and its connection: `APART`, `CONNECTED`,
        `HEARD`.
    links
        What is under way over each link.
    crashes, losses, early
        What is left of each budget.
    trace
        What the clients did and heard.
    """

    brokers: tuple[int, ...]
    clients: tuple[int, ...]
    done: tuple[int, ...]
    connected: tuple[int, ...]
    links: tuple[int, ...]
    crashes: int
    losses: int
    early: int
    trace: int


class CrashRecovery:
    """The network of a setting, as a system to search.

    Parameters
    ----------
    setting
        The network.
    broker
        Makes a broker from its position, scheme, store and settings: to check another one than ours.
    """

    def __init__(self, setting: Setting, broker: Callable[..., Broker] = Broker) -> None:
        self.setting = setting
        places = setting.positions()
        self._homes = setting.homes()
        self._scripts = setting.scripts()
        self._names = tuple(self._scripts)
        self._brokers = [Process(partial(_boot, broker, place, setting.scheme)) for place in places]
        self._clients = [Process(partial(_start, name)) for name in self._names]
        links: list[tuple[Node, Node]] = [(place.broker, to) for place in places for to in place.neighbours]
        for name, home in self._homes.items():
            links += [(name, home), (home, name)]
        self.links = tuple(sorted(links, key=repr))
        self._at = {way: number for number, way in enumerate(self.links)}
        self._messages: Numbering[Said] = Numbering()
        self._queues: Numbering[tuple[int, ...]] = Numbering()
        self._traces: Numbering[tuple[Operation, ...]] = Numbering()
        self._none, self._nothing = self._queues.number((), ()), self._traces.number((), ())
        self._judged: dict[tuple[int, bool], tuple[str, ...]] = {}
        self._decided: dict[int, bool] = {}
        self._sound: dict[tuple[int, int], tuple[str, ...]] = {}
        self._done = tuple(len(script) for script in self._scripts.values())
        self._packed = Struct(f"{len(places) + 3 * len(self._names) + len(self.links) + 4}i").pack
        self._routes: dict[int, tuple[tuple[tuple[int, Node, int], ...], ...]] = {}

    # The system.

    def first(self) -> State:
        """Return the state in which all brokers run with empty stores, and no client is connected."""
        brokers, clients = self._brokers, self._clients
        return State(
            tuple(each.begin(each.empty) for each in brokers),
            tuple(each.begin(each.empty) for each in clients),
            (0,) * len(clients),
            (APART,) * len(clients),
            (self._none,) * len(self.links),
            self.setting.crashes,
            self.setting.losses,
            self.setting.early,
            self._nothing,
        )

    def actions(self, state: State) -> Iterator[tuple[Action, State]]:
        """Return every action that is possible, with the state after it."""
        found = [*self._of_clients(state), *self._arrivals(state), *self._of_brokers(state)]
        yield from found
        urgent = any(action[0] not in ("crash", "lose", "break") for action, _ in found)
        if not urgent or state.early:
            left = state._replace(early=state.early - 1) if urgent else state
            yield from self._timeouts(left)

    def ends(self, state: State) -> bool:
        """Return whether all scripts are done, all brokers run, nothing is under way, and time changes nothing."""
        if state.done != self._done or not all(state.connected) or min(state.brokers) < 0:
            return False
        if any(queue != self._none for queue in state.links):
            return False
        calm = state._replace(crashes=0)
        return all(after == calm for _, after in self._timeouts(calm))

    def key(self, state: State) -> bytes:
        """Return all numbers of a state."""
        return self._packed(*state[0], *state[1], *state[2], *state[3], *state[4], *state[5:])

    def judge(self, state: State) -> tuple[str, ...]:
        """Return which conditions the trace of the clients violates, and which brokers are not sound."""
        wrong = [
            sentence for place, broker in enumerate(state.brokers) for sentence in self._check(place, broker)
        ]
        return (*wrong, *self._judge(state.trace, self.ends(state)))

    def under_way(self, state: State, source: Node, target: Node) -> list[Said]:
        """Return the messages under way over a link, the first one first."""
        return [self._messages[each] for each in self._queues[state.links[self._at[source, target]]]]

    @property
    def traces_seen(self) -> int:
        """The number of different traces of the clients."""
        return len(self._traces.values)

    def decides(self, state: State) -> bool:
        """Return whether some event had to come for certain, so that the trace of a network at rest is decided."""
        if state.trace not in self._decided:
            self._decided[state.trace] = judge(self.trace(state, settled=True)).outcome != UNDECIDED
        return self._decided[state.trace]

    def trace(self, state: State, *, settled: bool = False) -> Trace:
        """Return what the clients did and heard."""
        trace = Trace(self._traces[state.trace])
        if settled:
            trace.settled(0.0)
        return trace

    @property
    def local(self) -> tuple[int, int]:
        """The number of states of single processes, and of their steps."""
        found = [each.found for each in (*self._brokers, *self._clients)]
        return sum(states for states, _ in found), sum(steps for _, steps in found)

    # Actions.

    def _of_clients(self, state: State) -> Iterator[tuple[Action, State]]:
        for place, name in enumerate(self._names):
            if not state.connected[place]:
                if state.brokers[self._homes[name]] >= 0:
                    joined = state._replace(connected=replaced(state.connected, place, CONNECTED))
                    yield ("connect", name), self._client(joined, place, ("connect", None))
            elif state.done[place] < self._done[place]:
                step = self._scripts[name][state.done[place]]
                began = state._replace(done=replaced(state.done, place, state.done[place] + 1))
                yield (step[0], name), self._client(began, place, step)
            if state.connected[place] and state.losses:
                yield ("break", name), self._broken(state, place)

    def _arrivals(self, state: State) -> Iterator[tuple[Action, State]]:
        for link, queue in enumerate(state.links):
            if queue == self._none:
                continue
            source, target = self.links[link]
            first, *rest = self._queues[queue]
            taken = state._replace(links=replaced(state.links, link, self._queue(tuple(rest))))
            given = self._messages[first]
            if isinstance(target, str):
                place = self._names.index(target)
                yield ("arrive", source, target), self._client(taken, place, ("hear", given), first)
            else:
                received = Received(source, given)
                if isinstance(source, str):
                    heard = replaced(state.connected, self._names.index(source), HEARD)
                    taken = taken._replace(connected=heard)
                yield from self._broker(("arrive", source, target), taken, target, received, (link, first))
            if state.losses and not isinstance(source, str) and not isinstance(target, str):
                yield ("lose", source, target), taken._replace(losses=state.losses - 1)

    def _of_brokers(self, state: State) -> Iterator[tuple[Action, State]]:
        for place, broker in enumerate(state.brokers):
            if broker < 0:
                begun = self._brokers[place].begin(-1 - broker)
                yield ("recover", place), state._replace(brokers=replaced(state.brokers, place, begun))
                continue
            if ALWAYS_LATE not in self._brokers[place].inputs(broker):
                yield from self._broker(("begin", place), state, place, ALWAYS_LATE, "time")
            if state.crashes:
                yield from self._crash(("crash", place), state, place, self._brokers[place].store(broker))

    def _timeouts(self, state: State) -> Iterator[tuple[Action, State]]:
        for place, broker in enumerate(state.brokers):
            if broker >= 0:
                yield from self._broker(("tick", place), state, place, ALWAYS_LATE, "time")
        for place, name in enumerate(self._names):
            if state.connected[place]:
                yield ("repeat", name), self._client(state, place, ("repeat", None))

    # Steps.

    def _client(self, state: State, place: int, given: Step, message: int | None = None) -> State:
        name = given[0], repr(given[1]) if message is None else message
        outcome = self._clients[place].after(state.clients[place], given, name)
        links = state.links
        if state.connected[place]:  # over a connection that is gone, nothing is sent
            links = self._sent(state, links, self._addressed(self._names[place], outcome))
        said = tuple(each for each in outcome.effects if isinstance(each, Operation))
        trace = self._extended(state.trace, said) if said else state.trace
        return state._replace(clients=replaced(state.clients, place, outcome.state), links=links, trace=trace)

    def _broker(
        self, action: Action, state: State, place: int, given: Said, name: object
    ) -> Iterator[tuple[Action, State]]:
        """Return the state after a broker's step, and those after it has crashed in the midst of it."""
        outcome = self._brokers[place].after(state.brokers[place], given, name)
        addressed = self._addressed(place, outcome)
        brokers = replaced(state.brokers, place, outcome.state)
        yield action, state._replace(brokers=brokers, links=self._sent(state, state.links, addressed))
        if state.crashes:
            for number, (store, effects) in enumerate(outcome.crashes[:-1], 1):
                some = state._replace(links=self._sent(state, state.links, addressed[:effects]))
                yield from self._crash((*action, "crash", number), some, place, store)

    def _broken(self, state: State, place: int) -> State:
        """Return the state after the connection of a client broke, with all that was under way over it."""
        name, links = self._names[place], list(state.links)
        for way in ((name, self._homes[name]), (self._homes[name], name)):
            links[self._at[way]] = self._none
        connected = replaced(state.connected, place, APART)
        return state._replace(connected=connected, links=tuple(links), losses=state.losses - 1)

    def _crash(self, action: Action, state: State, place: int, store: int) -> Iterator[tuple[Action, State]]:
        """Return the states after a crash: what the broker had sent still arrives, or is lost, too."""
        links, own = list(state.links), []
        for link, (source, target) in enumerate(self.links):
            if target == place:
                links[link] = self._none
            elif source == place and links[link] != self._none:
                own.append(link)
        homes = zip(self._names, state.connected, strict=True)
        dead = state._replace(
            brokers=replaced(state.brokers, place, -1 - store),
            connected=tuple(APART if self._homes[name] == place else there for name, there in homes),
            crashes=state.crashes - 1,
            links=tuple(links),
        )
        yield action, dead
        if own:
            for link in own:
                links[link] = self._none
            yield (*action, "with what it sent"), dead._replace(links=tuple(links))

    def _addressed(self, source: Node, outcome: Outcome) -> tuple[tuple[tuple[int, Node, int], ...], ...]:
        """Return (link, target, message) for each message of each effect."""
        known = self._routes.get(id(outcome))  # a process keeps its outcomes
        if known is None:
            found = (self._receivers(source, effect) for effect in outcome.effects)
            known = self._routes[id(outcome)] = tuple(
                tuple((self._at[source, to], to, self._messages.number(message)) for to, message in each)
                for each in found
            )
        return known

    def _receivers(self, source: Node, effect: Said) -> list[tuple[Node, Said]]:
        if isinstance(source, str):
            return [] if isinstance(effect, Operation) else [(self._homes[source], effect)]
        if isinstance(effect, Send):
            return [(effect.to, effect.message)]
        clients = effect.clients if isinstance(effect, Deliver) else (effect.client,)
        return [(client, effect) for client in clients]

    def _sent(
        self, state: State, links: tuple[int, ...], addressed: Sequence[Sequence[tuple[int, Node, int]]]
    ) -> tuple[int, ...]:
        """Return what is under way after messages were sent; who is dead, or not connected, gets none."""
        after = list(links)
        for each in addressed:
            for link, target, message in each:
                if self._reaches(state, target):
                    after[link] = self._queue((*self._queues[after[link]], message))
        return tuple(after)

    def _reaches(self, state: State, target: Node) -> bool:
        if isinstance(target, str):
            return state.connected[self._names.index(target)] == HEARD
        return state.brokers[target] >= 0

    def _queue(self, messages: tuple[int, ...]) -> int:
        return self._queues.number(messages, messages)

    def _extended(self, number: int, said: tuple[Operation, ...]) -> int:
        operations = (*self._traces[number], *said)
        return self._traces.number(operations, repr(operations))

    # Judgement.

    def _check(self, place: int, broker: int) -> tuple[str, ...]:
        if broker < 0:
            return ()
        if broker in self._brokers[place].errors:
            return (f"broker {place} failed: {self._brokers[place].errors[broker]}",)
        if (place, broker) not in self._sound:
            try:
                self._brokers[place].machine(broker).broker.check()  # type: ignore[attr-defined]
                self._sound[place, broker] = ()
            except AssertionError as error:
                self._sound[place, broker] = (f"broker {place} is not sound: {error}",)
        return self._sound[place, broker]

    def _judge(self, number: int, settled: bool) -> tuple[str, ...]:
        if (number, settled) not in self._judged:
            trace = Trace(self._traces[number])
            if settled:
                trace.settled(0.0)
            wrong = [f"{name} is violated" for name in judge(trace).violated]
            if settled and holds(definition_9(), trace) is False:
                wrong.append("definition 9 does not hold")
            if settled:
                wrong += [
                    f"subscription {one.number} of {one.client} was never confirmed"
                    for one in lives(trace)
                    if one.installed is None and one.cancelled is None
                ]
            self._judged[number, settled] = tuple(wrong)
        return self._judged[number, settled]


def _boot(make: Callable[..., Broker], place: Position, scheme: str, store: MemoryStore) -> BrokerProcess:
    return BrokerProcess(make(place, scheme, store=store, stability=STABILITY))


def _start(name: str, store: MemoryStore) -> ClientProcess:
    return ClientProcess(name)  # a client has no store
