"""Consumer groups in virtual time: a durable subscriber whose process shares its events among simulated workers.

Rules
-----
* The machines are those of Ray: of the group (`clients.group`) and of a worker (`clients.group_worker`). What the group
  has stored outlives its process: the position, and what is done above it, in one step.
* A worker polls, and its program settles what it was handed. Calls of a worker arrive in order. Each call and each
  answer takes a time that is drawn for it, so answers to a poll and to a settlement may cross.
* Workers are drawn: each takes its time, and now and then refuses an event, stands still, dies, or leaves. A worker
  that is gone is replaced by another one. From `calm` on they only do their work.
* While the process of the group is dead, calls are repeated until the next one answers, and so are calls whose answer
  died with it. Workers keep what they hold. They name it to the next process, if they live. An answer of a process
  that is dead by then may come after that.
* Everything is recorded, for the conditions of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol, TypeVar

from ..clients.group import Given, GroupMachine, GroupProgress, Hold, Settled, Token
from ..clients.group_worker import WorkerMachine
from ..clients.keys import keys_of
from ..clients.subscriber import SubscriberMachine
from ..protocol.batch import EventBatch, Rows
from ..protocol.expiry import deadline
from ..protocol.groups import GroupConfig
from ..protocol.ids import ClientId, EventId
from ..protocol.messages.pubsub import Undeliverable

WORKERS: Final = 3
TURN_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 0.2
"""When a call to a process that is dead is repeated."""
SILENT_SECONDS: Final = 2.0
POLL_SECONDS: Final = SILENT_SECONDS / 3
ACK_SECONDS: Final = 3.0
DELAYS_SECONDS: Final = (0.0, 0.01, 0.2)
"""The longest that a call or an answer is under way; one of these is drawn for each."""
HANDED_MAX: Final = 3
"""The most events that a program takes at a time, and settles together."""

T = TypeVar("T")


class Time(Protocol):
    """Virtual time."""

    @property
    def now(self) -> float: ...  # noqa: D102
    def at(self, when: float, action: Callable[..., object], *values: object) -> None: ...  # noqa: D102


class Member(Protocol):
    """The durable subscriber of a group: its name, whether its process runs, and its state."""

    name: ClientId
    alive: bool
    subscriber: SubscriberMachine | None


class Witness(Protocol):
    """Who records what the workers of a group get and say; see `faults.checker.groups`."""

    def began(self) -> None: ...  # noqa: D102
    def wants(self, begins: Mapping[int, Mapping[ClientId, int]]) -> None: ...  # noqa: D102
    def came(self, event: EventId, key: object, wanted: Iterable[int]) -> None: ...  # noqa: D102
    def claimed(self, worker: str, event: EventId, believed: bool) -> None: ...  # noqa: D102
    def gave(self, worker: str, event: EventId, deliveries: int, now: float) -> None: ...  # noqa: D102
    def acknowledged(self, worker: str, event: EventId) -> None: ...  # noqa: D102
    def lost(self, worker: str, event: EventId) -> None: ...  # noqa: D102
    def gave_up(self, event: EventId) -> None: ...  # noqa: D102
    def forgot(self, worker: str, event: EventId) -> None: ...  # noqa: D102


@dataclass(slots=True, eq=False)
class _Worker:
    name: str
    machine: WorkerMachine[EventId] = field(default_factory=WorkerMachine)
    joined: bool = False
    unclaimed: bool = False  # whether the group has to be told what it holds
    claims: int = 0  # how often it has begun to say so
    works: bool = False  # whether its program has something in hand
    asked: int = 0  # how many calls of its program wait for their answer
    arrives_at: float = 0.0  # its last call
    stalls_until: float = 0.0  # its process does nothing before
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _Portion:
    given: Sequence[Given] = ()
    withdrawn: Sequence[EventId] = ()
    stranger: bool = False


class SimulatedGroup:
    """A consumer group.

    Parameters
    ----------
    network, session
        The time, and the durable subscriber.
    key
        Its `group_key`.
    rng
        What its workers do, and how long calls take.
    witness
        Records it.
    tell
        Sends messages of the subscriber to its broker.
    reaches
        Says whether that broker answers: otherwise no event is made a dead letter.
    """

    def __init__(
        self,
        network: Time,
        session: Member,
        key: str | None,
        rng: Random,
        witness: Witness,
        tell: Callable[[list[object]], None],
        reaches: Callable[[], bool],
    ) -> None:
        self._network, self._session, self._rng, self._witness = network, session, rng, witness
        self._tell, self._reaches = tell, reaches
        self.config = GroupConfig("group", key, ACK_SECONDS, 4, 5, SILENT_SECONDS)
        self._stored = GroupProgress({}, {}, {})
        self._holders: dict[EventId, str] = {}  # as it was recorded
        self._tokens: dict[EventId, Token] = {}  # with which each was given last
        self._claimed: set[str] = set()  # workers that the process of the group has heard
        self._waiting: list[
            tuple[_Worker, Callable[[], object], Callable[..., None]]
        ] = []  # calls without an answer yet
        self._born = 0
        self._process: object = None
        self._processes = 0
        self.calm = False
        self._begin()
        self._workers = [self._new_worker() for _ in range(WORKERS)]
        network.at(network.now + TURN_SECONDS, self._turn)

    # The process of the group.

    def _begin(self) -> None:
        """Begin the machine of a new process, from what the last one has stored."""
        first, self._process = self._process is None, self._session.subscriber
        assert self._session.subscriber is not None
        stored, self._processes = self._stored, self._processes + 1
        self._opens_at = float("-inf") if first else self._network.now + SILENT_SECONDS
        known = stored.position, stored.done, stored.tries
        self._machine = GroupMachine(self.config, *known, self._opens_at, self._processes)
        self._opened = self._machine.opened
        self._events: dict[EventId, Mapping[str, object]] = {}
        self._came = set[EventId]()  # to this process
        self._claimed = set()
        self._witness.began()
        self._witness.wants(self._session.subscriber.record()["begins"])

    @property
    def _alive(self) -> bool:
        """Whether its process runs; a new one begins here."""
        if not self._session.alive:
            return False
        if self._process is not self._session.subscriber:
            self._begin()
        return True

    def __len__(self) -> int:
        """Return how many of the events that have come are neither done nor dead letters."""
        return len(self._machine) + len(self._machine.given_up)

    def come(self, batch: EventBatch, rows: Rows) -> None:
        """Take events that reach the process."""
        if not self._alive:
            return
        assert self._session.subscriber is not None
        filters, taken = self._session.subscriber.subscriptions, batch.take(rows)
        for row, (key, said) in enumerate(
            zip(keys_of(taken, self.config.group_key), taken.events(), strict=True)
        ):
            event = taken.identity(row)
            if event not in self._came:
                self._came.add(event)
                wanted = [number for number, each in filters.items() if each.matches(said)]
                self._witness.came(event, key, wanted)
            if self._machine.take(*event, key, deadline(taken, row)):
                self._events[event] = said
        self._wake()

    def _store(self) -> None:
        """Store what is done, and let the broker forget what the position has passed."""
        self._stored = self._machine.progress()
        assert self._session.subscriber is not None
        self._tell([*self._session.subscriber.acknowledge(self._stored.position)])

    def _turn(self) -> None:
        network = self._network
        network.at(network.now + TURN_SECONDS, self._turn)
        for worker in list(self._workers):
            self._harm(worker)
        if not self._alive:
            return
        machine = self._machine
        machine.tick(network.now)
        if machine.opened > self._opened:
            self._opened = True
            self._store()
        self._note_lost()
        self._wake()
        while machine.given_up and self._reaches():
            letter = machine.given_up.popleft()
            assert self._session.subscriber is not None
            incarnation = self._session.subscriber.incarnation
            said = self._events.pop((letter.publisher, letter.sequence))
            self._tell([Undeliverable(letter.publisher, letter.sequence, said, letter.reason, incarnation)])
            machine.buried((letter.publisher, letter.sequence))
            self._witness.gave_up((letter.publisher, letter.sequence))
            self._store()
            self._wake()

    def _note_lost(self) -> None:
        """Record what workers hold no more, although they may not know, or are dead."""
        opens = self._network.now >= self._opens_at
        for event, name in list(self._holders.items()):
            if (opens or name in self._claimed) and not self._machine.holds(name, event):
                self._witness.lost(name, event)
                del self._holders[event]

    # What workers ask of it.

    def _ask(self, worker: _Worker, call: Callable[[], T | None], answered: Callable[[T], None]) -> None:
        """Call the process of the group; a call that returns None has no answer yet."""
        worker.arrives_at = max(worker.arrives_at, self._network.now + self._delay())
        self._network.at(worker.arrives_at, self._arrive, worker, call, answered)

    def _delay(self) -> float:
        return self._rng.choice(DELAYS_SECONDS) * self._rng.random()

    def _arrive(self, worker: _Worker, call: Callable[[], T | None], answered: Callable[[T], None]) -> None:
        now = self._network.now
        if not self._alive:
            self._network.at(now + AGAIN_SECONDS, self._arrive, worker, call, answered)
            return
        said = call()
        self._note_lost()
        if said is None:
            self._waiting.append((worker, call, answered))
        else:
            self._network.at(now + self._delay(), self._answer, worker, call, answered, self._process, said)

    def _wake(self) -> None:
        """Let calls that wait for something look again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._network.at(self._network.now, self._arrive, *each)

    def _answer(
        self,
        worker: _Worker,
        call: Callable[[], T | None],
        answered: Callable[[T], None],
        process: object,
        said: T,
    ) -> None:
        now = self._network.now
        if worker.gone:
            return
        if worker.stalls_until > now:
            self._network.at(worker.stalls_until, self._answer, worker, call, answered, process, said)
        elif process is not self._session.subscriber and self._rng.random() < 0.5:  # it died with the process
            self._arrive(worker, call, answered)
        else:
            answered(said)

    def _polled(self, name: str, until: float) -> _Portion | None:
        machine, now = self._machine, self._network.now
        if not machine.knows(name):  # it has left, or was taken for dead
            return _Portion()
        self._claimed.add(name)
        self._expire()
        withdrawn = machine.withdraw(name)
        given = machine.give(name, now)
        for each in given:
            event = each.publisher, each.sequence
            self._note_lost()
            self._witness.gave(name, event, each.deliveries, now)
            self._tokens[event] = each.hold.token
            self._holders[event] = name
        return _Portion(given, withdrawn) if given or withdrawn or now >= until else None

    def _expire(self) -> None:
        expired = self._machine.expire(self._network.now)
        for event in expired:
            self._events.pop(event)
        if expired:
            self._store()

    def _settled(
        self, name: str, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]]
    ) -> Settled:
        settled, done = self._machine.settle(name, acknowledged, refused, self._network.now)
        if done or settled.withdrawn:
            self._store()
            self._wake()
        for event in done:
            self._events.pop(event, None)
            self._holders.pop(event, None)
            self._witness.acknowledged(name, event)
        return settled

    def _claims(self, name: str, held: Mapping[EventId, Hold]) -> list[EventId]:
        in_time = self._network.now < self._opens_at and not self._machine.knows(name)
        foreign = self._machine.claim(name, held, self._network.now)
        self._claimed.add(name)
        for event, hold in held.items() if in_time else ():
            if event not in foreign:
                self._holders[event] = name
            elif hold.token != self._tokens[event]:
                continue  # it was given another copy since, which has not reached it
            self._witness.claimed(name, event, event not in foreign)
        return foreign

    # Its workers.

    def _new_worker(self) -> _Worker:
        self._born += 1
        worker = _Worker(f"{self._session.name}-{self._born}")
        self._poll(worker)
        return worker

    def _poll(self, worker: _Worker) -> None:
        """Ask for events, again and again; first say what it holds to a process that does not know it."""
        if worker.gone:
            return
        if worker.unclaimed:
            self._claim(worker, lambda: self._poll(worker))
            return
        asks, name, joined = not worker.works, worker.name, worker.joined
        until = self._network.now + POLL_SECONDS
        had = worker.machine.held if asks and not worker.asked else None
        heard_by = list[object]()

        def call() -> _Portion | None:
            if had is not None and not worker.works and not worker.asked and not worker.gone:
                self._compare(worker, had)
            if self._process not in heard_by:  # it is heard when a call arrives, and not while it waits
                heard_by.append(self._process)
                if joined and not self._machine.knows(name):
                    return _Portion(stranger=True)
                self._machine.hear(name, self._network.now, asks=asks)
            return self._polled(name, until)

        def answered(portion: _Portion) -> None:
            worker.joined, worker.unclaimed = True, worker.unclaimed or portion.stranger
            worker.machine.drop(portion.withdrawn)
            for each in portion.given:
                event = each.publisher, each.sequence
                worker.machine.come(event, event, each.hold)
            self._work(worker)
            self._poll(worker)

        self._ask(worker, call, answered)

    def _compare(self, worker: _Worker, had: Mapping[EventId, int]) -> None:
        """Record what the group believes that a worker holds which has nothing in hand, and no answer under way."""
        for event, name in self._holders.items():
            if name == worker.name and event not in had and self._machine.holds(name, event):
                self._witness.forgot(name, event)

    def _claim(self, worker: _Worker, then: Callable[[], None]) -> None:
        had, holds = worker.machine.held, worker.machine.holds
        worker.unclaimed = True
        worker.claims += 1
        worker.asked += 1

        def answered(foreign: list[EventId]) -> None:
            worker.asked -= 1
            worker.machine.drop(foreign, had)
            worker.unclaimed = False
            then()

        self._ask(worker, lambda: self._claims(worker.name, holds), answered)

    def _work(self, worker: _Worker) -> None:
        """Let the program take some events, and settle them when it is done with them."""
        if worker.works or worker.gone or worker.machine.next is None:
            return
        rng, taken = self._rng, list[EventId]()
        while worker.machine.next is not None and len(taken) < rng.randint(1, HANDED_MAX):
            taken.append(worker.machine.hand_out())
        worker.works = True
        takes = rng.choice((0.0, 0.05, 0.5)) * rng.random()
        self._network.at(self._network.now + takes, self._say, worker, taken)

    def _say(self, worker: _Worker, taken: list[EventId]) -> None:
        if worker.gone:
            return
        if worker.stalls_until > self._network.now:
            self._network.at(worker.stalls_until, self._say, worker, taken)
            return
        rng, refused = self._rng, list[tuple[EventId, float]]()
        if not self.calm and rng.random() < 0.05:
            refused = [(taken.pop(), rng.choice((0.0, 1.0)))]
        self._settle(worker, taken, refused)

    def _settle(
        self, worker: _Worker, acknowledged: list[EventId], refused: list[tuple[EventId, float]]
    ) -> None:
        said, had = worker.claims, worker.machine.held
        worker.asked += 1

        def answered(settled: Settled) -> None:
            worker.asked -= 1
            if settled.stranger:
                self._claim(worker, lambda: self._settle(worker, acknowledged, refused))
                return
            if worker.claims != said:  # a process that has died may have answered
                self._settle(worker, acknowledged, refused)
                return
            over = [*acknowledged, *(event for event, _ in refused), *settled.withdrawn]
            worker.machine.drop(over, had)
            worker.works = False
            self._work(worker)

        self._ask(worker, lambda: self._settled(worker.name, acknowledged, refused), answered)

    def _harm(self, worker: _Worker) -> None:
        """Let a worker die, stand still, or leave, now and then."""
        what = self._rng.random()
        if self.calm or what > 0.02:
            return
        if what < 0.01:
            worker.stalls_until = self._network.now + self._rng.choice((1.0, 5.0))
            return
        if what < 0.015 and self._alive:
            self._machine.leave(worker.name)
            self._note_lost()
        worker.gone = True
        self._workers.remove(worker)
        self._workers.append(self._new_worker())
