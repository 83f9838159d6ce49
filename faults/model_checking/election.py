"""All interleavings of three to five brokers of a tree that heals, while one dies (paper 1, section 4).

Rules
-----
* The brokers are `broker.Broker` with `recovery`, the rendezvous point is the machine that ships. There are no clients.
* **Actions.** The first message of a link arrives, and a broker may crash after the first few effects of the step. A
  broker crashes at rest, or restarts without its state. Time passes: by one tick of all processes at once.
* Time passes when nothing is under way. If `late` is left, it also passes before: then everything that is under way
  is late by a tick.
* Crashes and restarts happen before `faults_until`, in ticks. `calm` ticks after the last fault a run ends.
* **Judged** in every state: the brokers' invariants, and that no two brokers were ever designated in one epoch of one
  cluster (`claims`). At the end: every cluster has one designated broker whom all follow, and the clusters are one tree
  without a cycle (`recovery.membership.structure`).
* Links are first in, first out, and a multicast is a message over each of the group's links, which are apart.

Time is counted here, in ticks, since failure detection is about time. So a state is never met again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from ...broker import Broker
from ...broker.healing import rendezvous_of, start_of
from ...protocol.checks import whole_number
from ...protocol.configs import DEFAULT_SCHEME, Position
from ...protocol.effects import Multicast, Received, Regroup, Send, Ticked
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS, TIMED, Recovery
from ...protocol.queries import Survey
from ...recovery.durability.stores import MemoryStore
from ...recovery.membership.structure import structure_problems
from ...routing.topologies.cluster_trees import ClusterTree
from .crash_recovery import COUNT_MAX, Action
from .processes import Numbering, Outcome, Process, Said, Tables, replaced, snapshot_of, snapshots_of

BROKERS: Final = range(3, 6)
TICK_SECONDS: Final = 0.5
RECOVERY: Final = Recovery(
    heartbeat_seconds=1.0,
    detector="fixed",
    suspect_after_seconds=2.0,
    probe_seconds=1.0,
    probe_tries=1,
    answer_seconds=2.0,
    root_wait_seconds=1.0,
)
ONE_DESIGNATED: Final = "epoch {} of cluster {} has two designated brokers, {} and {}"


@dataclass(frozen=True)
class ElectionSetting:
    """A small tree, and what happens to it.

    Attributes
    ----------
    brokers, clusters
        How many; the brokers are spread evenly over the clusters, of which each has the next one as its child.
    crashes, restarts, late
        The most of each in one run; `late` counts ticks before which something is still under way.
    faults_from, faults_until, calm
        The ticks between which crashes, restarts and late ticks happen, and how many ticks after the last fault a run
        ends. By tick 3 everybody has heard its designated broker.
    rivals
        Whether two brokers may be designated in one epoch for a while.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    brokers: int = 3
    clusters: int = 1
    crashes: int = 1
    restarts: int = 0
    late: int = 0
    faults_from: int = 3
    faults_until: int = 5
    calm: int = 16
    rivals: bool = False
    scheme: str = DEFAULT_SCHEME

    def __post_init__(self) -> None:
        for name in ("crashes", "restarts", "late", "faults_from", "faults_until", "calm"):
            whole_number(name, getattr(self, name), 0, COUNT_MAX)
        if self.brokers not in BROKERS:
            raise InputError(f"brokers is {self.brokers}: it must be 3, 4 or 5")
        if self.clusters < 1 or self.brokers % self.clusters:
            raise InputError(f"clusters is {self.clusters}: {self.brokers} brokers must be a multiple of it")

    def positions(self) -> list[Position]:
        """Return the places of the brokers."""
        return ClusterTree(self.clusters, self.brokers // self.clusters, degree=1).positions()


class HealingProcess:
    """A broker of a tree that heals, or the rendezvous point."""

    def __init__(self, machine: Said) -> None:
        self.machine = machine
        self.handle = machine.handle

    def state(self) -> object:
        """Return its state, without what it only counts."""
        if isinstance(self.machine, Broker):
            return snapshots_of(self.machine)
        return snapshot_of(self.machine)


class State(NamedTuple):
    """A state of the network; numbers of what its `Election` has found before.

    Attributes
    ----------
    processes
        The state of each broker and, last, of the rendezvous point; of a dead one -1 less its incarnation.
    links
        What is under way over each link.
    tick, calm
        The time, and the time since the last fault.
    crashes, restarts, late
        What is left of each.
    claims
        Who was designated so far, in which epoch of which cluster.
    """

    processes: tuple[int, ...]
    links: tuple[int, ...]
    tick: int
    calm: int
    crashes: int
    restarts: int
    late: int
    claims: int


Claims: TypeAlias = frozenset[tuple[int, int, BrokerId]]


class Election:
    """The network of a setting, as a system to search.

    Parameters
    ----------
    setting
        The network.
    broker
        Makes a broker: to check another one than ours.
    """

    def __init__(self, setting: ElectionSetting, broker: Callable[..., Broker] = Broker) -> None:
        self.setting = setting
        self._places = places = setting.positions()
        start = start_of(places, setting.scheme)
        self._processes = [Process(partial(_boot, broker, place, setting.scheme)) for place in places]
        self._processes.append(Process(lambda store: HealingProcess(rendezvous_of(RECOVERY, start))))
        self._names = (*(place.broker for place in places), RENDEZVOUS)
        self._queues: Numbering[tuple[int, ...]] = Numbering()
        self._messages: Numbering[Said] = Numbering()
        self._claims: Numbering[Claims] = Numbering()
        self._none = self._queues.number((), ())
        links = [(source, to, False) for source in self._names for to in self._names if source != to]
        links += [(place.broker, to, True) for place in places for to in place.members if to != place.broker]
        self.links = tuple(links)
        self._at = {way: number for number, way in enumerate(links)}
        self._routes: dict[int, tuple[tuple[tuple[int, int], ...], ...]] = {}
        self._surveys: dict[tuple[int, int], Said] = {}
        self._sound: dict[tuple[int, int], tuple[str, ...]] = {}
        self._packed = Struct(f"{len(self._names) + len(links) + 6}i").pack

    # The system.

    def first(self) -> State:
        """Return the state after the first tick of all processes."""
        begun = tuple(each.begin(each.stored(_incarnation(0))) for each in self._processes)
        left = self.setting.crashes, self.setting.restarts, self.setting.late
        empty = State(begun, (self._none,) * len(self.links), 0, 0, *left, self._claims.number(frozenset()))
        return self._timed(empty)

    def key(self, state: State) -> bytes:
        """Return all numbers of a state."""
        return self._packed(*state.processes, *state.links, *state[2:])

    def actions(self, state: State) -> Iterator[tuple[Action, State]]:
        """Return every action that is possible, with the state after it."""
        if state.calm >= self.setting.calm and self._is_empty(state):
            return
        for link, queue in enumerate(state.links):
            if queue != self._none:
                yield from self._arrival(state, link)
        if self._in_trouble(state):
            yield from self._faults(state)
        if self._is_empty(state):
            yield ("time",), self._timed(state._replace(calm=state.calm + 1))
        elif state.late and self._in_trouble(state):
            yield ("late",), self._timed(state._replace(late=state.late - 1, calm=0))

    def ends(self, state: State) -> bool:
        """Return whether the run is over."""
        return state.calm >= self.setting.calm and self._is_empty(state)

    def decides(self, state: State) -> bool:
        """Return True: at every end there must be one tree."""
        return True

    def judge(self, state: State) -> tuple[str, ...]:
        """Return which brokers are not sound, who was designated beside whom and, at the end, what is no tree."""
        wrong = [
            said for place, number in enumerate(state.processes[:-1]) for said in self._check(place, number)
        ]
        if wrong:
            return tuple(wrong)
        held: dict[tuple[int, int], BrokerId] = {}
        for cluster, epoch, broker in sorted(self._claims[state.claims]):
            other = held.setdefault((cluster, epoch), broker)
            if other != broker and not self.setting.rivals:
                wrong.append(ONE_DESIGNATED.format(epoch, cluster, other, broker))
        if self.ends(state):
            alive = enumerate(state.processes[:-1])
            survey = {place: self._survey(place, number) for place, number in alive if number >= 0}
            wrong += structure_problems(survey)
        return tuple(wrong)

    @property
    def local(self) -> tuple[int, int]:
        """The number of states of single processes, and of their steps."""
        found = [each.found for each in self._processes]
        return sum(states for states, _ in found), sum(steps for _, steps in found)

    # Actions.

    def _in_trouble(self, state: State) -> bool:
        """Return whether faults may happen now."""
        return self.setting.faults_from <= state.tick < self.setting.faults_until

    def _is_empty(self, state: State) -> bool:
        return all(queue == self._none for queue in state.links)

    def _arrival(self, state: State, link: int) -> Iterator[tuple[Action, State]]:
        source, target, group = self.links[link]
        number, *rest = self._queues[state.links[link]]
        place, message = self._names.index(target), self._messages[number]
        taken = state._replace(
            links=replaced(state.links, link, self._queues.number(tuple(rest), tuple(rest)))
        )
        if type(message) in TIMED:
            taken = self._told(taken, place)
        verb = "hear" if group else "arrive"
        action = (verb, source, target, type(message).__name__)
        given, name = Received(source, message), (source, number)
        outcome = self._processes[place].after(taken.processes[place], given, name)
        yield action, self._after(taken, place, outcome, len(outcome.effects))
        if state.crashes and target != RENDEZVOUS and self._in_trouble(state):
            for effects in range(1, len(outcome.effects)):
                some = self._after(taken, place, outcome, effects)
                yield from self._crash((*action, "crash", effects), some, place)

    def _faults(self, state: State) -> Iterator[tuple[Action, State]]:
        for place, number in enumerate(state.processes[:-1]):
            if number >= 0 and state.crashes:
                yield from self._crash(("crash", place), state, place)
            elif number < 0 and state.restarts:
                process = self._processes[place]
                begun = process.begin(process.stored(_incarnation(-number)))
                back = state._replace(
                    processes=replaced(state.processes, place, begun), restarts=state.restarts - 1, calm=0
                )
                yield ("restart", place), self._told(back, place)

    def _crash(self, action: Action, state: State, place: int) -> Iterator[tuple[Action, State]]:
        """Return the states after a crash: what the broker had sent still arrives, or is lost, too."""
        links, own = list(state.links), []
        for link, (source, target, _) in enumerate(self.links):
            if target == place:
                links[link] = self._none
            elif source == place and links[link] != self._none:
                own.append(link)
        incarnation = self._processes[place].read(state.processes[place], "incarnation")
        dead = state._replace(
            processes=replaced(state.processes, place, -1 - incarnation),
            links=tuple(links),
            crashes=state.crashes - 1,
            calm=0,
        )
        yield action, dead
        if own:
            for link in own:
                links[link] = self._none
            yield (*action, "with what it sent"), dead._replace(links=tuple(links))

    # Steps.

    def _timed(self, state: State) -> State:
        """Return the state after a tick of all processes."""
        state = state._replace(tick=state.tick + 1)
        for place, number in enumerate(state.processes):
            if number >= 0:
                state = self._told(state, place)
        return state

    def _told(self, state: State, place: int) -> State:
        """Return the state after one process was told the time."""
        now = Ticked(state.tick * TICK_SECONDS)
        outcome = self._processes[place].after(state.processes[place], now, state.tick)
        return self._after(state, place, outcome, len(outcome.effects))

    def _after(self, state: State, place: int, outcome: Outcome, effects: int) -> State:
        """Return the state after a step of which the first few effects were carried out."""
        links = list(state.links)
        for each in self._addressed(place, outcome)[:effects]:
            for link, message in each:
                if state.processes[self._names.index(self.links[link][1])] >= 0:
                    queue = (*self._queues[links[link]], message)
                    links[link] = self._queues.number(queue, queue)
        after = state._replace(processes=replaced(state.processes, place, outcome.state), links=tuple(links))
        if place == len(self._places) or outcome.state in self._processes[place].errors:
            return after
        said = self._survey(place, outcome.state)
        if not said["designated"]:
            return after
        claim = said["cluster"], said["view"].epoch, place
        known = self._claims[state.claims]
        return (
            after
            if claim in known
            else after._replace(claims=self._claims.number(known | {claim}, known | {claim}))
        )

    def _addressed(self, place: int, outcome: Outcome) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return (link, message) for each message of each effect."""
        known = self._routes.get(id(outcome))  # a process keeps its outcomes
        if known is None:
            known = self._routes[id(outcome)] = tuple(
                tuple((link, self._messages.number(each.message)) for link in self._links_of(place, each))
                for each in outcome.effects
            )
        return known

    def _links_of(self, place: int, effect: Said) -> Sequence[int]:
        source = self._names[place]
        if isinstance(effect, Send):
            return [self._at[source, effect.to, False]]
        if isinstance(effect, Multicast):
            return [self._at[source, to, True] for to in self._places[place].members if to != source]
        assert not isinstance(effect, Regroup), "no broker joins or leaves a group here"
        return []

    # Inspection.

    def _survey(self, place: int, number: int) -> Said:
        if (place, number) not in self._surveys:
            machine: Said = self._processes[place].machine(number)
            self._surveys[place, number] = machine.machine.ask(Survey())
        return self._surveys[place, number]

    def _check(self, place: int, number: int) -> tuple[str, ...]:
        if number < 0:
            return ()
        if number in self._processes[place].errors:
            return (f"broker {place} failed: {self._processes[place].errors[number]}",)
        if (place, number) not in self._sound:
            machine: Said = self._processes[place].machine(number)
            try:
                machine.machine.check()
                self._sound[place, number] = ()
            except AssertionError as error:
                self._sound[place, number] = (f"broker {place} is not sound: {error}",)
        return self._sound[place, number]


def _incarnation(number: int) -> Tables:
    return {"incarnation": {("number",): number}} if number else {}


def _boot(make: Callable[..., Broker], place: Position, scheme: str, store: MemoryStore) -> HealingProcess:
    incarnation = dict(store.rows("incarnation")).get(("number",), 0)
    return HealingProcess(make(place, scheme, RECOVERY, incarnation, 0))
