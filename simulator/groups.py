"""Consumer groups in virtual time: a durable subscriber whose process shares its events among simulated workers.

Rules
-----
* The machine is that of the actor on Ray (`clients.group`). What it has stored outlives the process: the position, and
  what is done above it, in one step.
* Workers are drawn: each takes its time, and now and then refuses an event, stands still, dies, or leaves. A worker
  that is gone is replaced by another one. From `calm` on they only do their work.
* While the process of the group is dead, workers keep what they hold. They name it to the next process, if they live.
* Everything is recorded, for the conditions of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

import numpy as np

from ..clients.group import GroupMachine, GroupProgress
from ..clients.subscriber import SubscriberMachine
from ..protocol.batch import EventBatch, Rows
from ..protocol.expiry import deadline
from ..protocol.groups import PUBLISHER_KEY, GroupConfig
from ..protocol.ids import ClientId, EventId
from ..protocol.messages.pubsub import Undeliverable

WORKERS: Final = 3
TURN_SECONDS: Final = 0.1
SILENT_SECONDS: Final = 2.0
ACK_SECONDS: Final = 3.0


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

    def came(self, event: EventId, key: object) -> None: ...  # noqa: D102
    def gave(self, worker: str, event: EventId, deliveries: int, now: float) -> None: ...  # noqa: D102
    def acknowledged(self, worker: str, event: EventId) -> None: ...  # noqa: D102
    def lost(self, worker: str, event: EventId) -> None: ...  # noqa: D102
    def gave_up(self, event: EventId) -> None: ...  # noqa: D102


@dataclass(slots=True)
class _Worker:
    name: str
    held: dict[EventId, float] = field(default_factory=dict)  # and when it settles each
    joined: bool = True
    sleeps_until: float = 0.0


class SimulatedGroup:
    """A consumer group.

    Parameters
    ----------
    network, session
        The time, and the durable subscriber.
    key
        Its `group_key`: the publisher, or None.
    dice
        What its workers do.
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
        dice: Random,
        witness: Witness,
        tell: Callable[[list[object]], None],
        reaches: Callable[[], bool],
    ) -> None:
        self._network, self._session, self._dice, self._witness = network, session, dice, witness
        self._tell, self._reaches = tell, reaches
        self.config = GroupConfig("group", key, ACK_SECONDS, 4, 5, SILENT_SECONDS)
        self._stored = GroupProgress({}, {}, {})
        self._workers = [_Worker(f"{session.name}-{number}") for number in range(WORKERS)]
        self._dead: list[_Worker] = []  # that hold something, as far as the group knows
        self._born = WORKERS
        self._process: object = None
        self.calm = False
        self._begin()
        network.at(network.now + TURN_SECONDS, self._turn)

    # The process of the group.

    def _begin(self) -> None:
        """Begin the machine of a new process, from what the last one has stored."""
        first, self._process = self._process is None, self._session.subscriber
        stored = self._stored
        self._opens_at = float("-inf") if first else self._network.now + SILENT_SECONDS
        self._machine = GroupMachine(self.config, stored.position, stored.done, stored.tries, self._opens_at)
        self._events: dict[EventId, Mapping[str, object]] = {}
        for worker in self._workers:
            worker.joined = False

    @property
    def _alive(self) -> bool:
        """Whether its process runs; a new one begins here."""
        if not self._session.alive:
            return False
        if self._process is not self._session.subscriber:
            self._begin()
        return True

    def come(self, batch: EventBatch, rows: Rows) -> None:
        """Take events that reach the process."""
        if not self._alive:
            return
        for row in rows.tolist():
            event = batch.identity(row)
            key = event[0] if self.config.group_key == PUBLISHER_KEY else None
            self._witness.came(event, key)
            if self._machine.take(*event, key, deadline(batch, row)):
                self._events[event] = batch.take(np.array([row])).events()[0]

    def _store(self) -> None:
        """Store what is done, and let the broker forget what the position has passed."""
        self._stored = self._machine.progress()
        assert self._session.subscriber is not None
        self._tell([*self._session.subscriber.acknowledge(self._stored.position)])

    # Its workers.

    def _turn(self) -> None:
        network = self._network
        network.at(network.now + TURN_SECONDS, self._turn)
        if not self._alive:
            return
        machine = self._machine
        self._note_lost()
        for worker in list(self._workers):
            if worker.sleeps_until > network.now:
                continue
            self._live(worker)
        machine.tick(network.now)
        self._note_lost()
        while machine.given_up and self._reaches():
            letter = machine.given_up.popleft()
            assert self._session.subscriber is not None
            incarnation = self._session.subscriber.incarnation
            said = self._events.pop((letter.publisher, letter.sequence))
            self._tell([Undeliverable(letter.publisher, letter.sequence, said, letter.reason, incarnation)])
            machine.buried((letter.publisher, letter.sequence))
            self._witness.gave_up((letter.publisher, letter.sequence))
            self._store()

    def _live(self, worker: _Worker) -> None:
        """Let a worker do what it does in a turn."""
        machine, now, dice = self._machine, self._network.now, self._dice
        if not worker.joined:
            if worker.held:
                self._drop(worker, machine.claim(worker.name, list(worker.held), now))
            worker.joined = True
        for event, at in list(worker.held.items()):
            if at > now or event not in worker.held:
                continue
            if not self.calm and dice.random() < 0.05:
                self._drop(worker, machine.refuse(worker.name, event, now, dice.choice((0.0, 1.0))) or [])
            elif machine.acknowledge(worker.name, event, now):
                del worker.held[event]
                self._events.pop(event, None)
                self._witness.acknowledged(worker.name, event)
                self._store()
            else:
                self._drop(worker, [event])
        self._expire()
        machine.hear(worker.name, now, asks=not worker.held)
        self._drop(worker, machine.withdraw(worker.name))
        for each in machine.give(worker.name, now):
            event = each.publisher, each.sequence
            worker.held[event] = now + dice.choice((0.0, 0.05, 0.5)) * dice.random()
            self._witness.gave(worker.name, event, each.deliveries, now)
        self._harm(worker)

    def _expire(self) -> None:
        expired = self._machine.expire(self._network.now)
        for event in expired:
            self._events.pop(event)
        if expired:
            self._store()

    def _harm(self, worker: _Worker) -> None:
        """Let a worker die, stand still, or leave, now and then."""
        what = self._dice.random()
        if self.calm or what > 0.02:
            return
        if what < 0.01:
            worker.sleeps_until = self._network.now + self._dice.choice((1.0, 5.0))
            return
        if what < 0.015:
            self._machine.leave(worker.name)
            self._drop(worker, list(worker.held))
        self._workers.remove(worker)
        self._dead.append(worker)
        self._born += 1
        self._workers.append(_Worker(f"{self._session.name}-{self._born}"))

    def _note_lost(self) -> None:
        """Record what workers hold no more, although they may not know, or are dead."""
        for worker in (*self._workers, *self._dead):
            may_claim = not worker.joined and self._network.now < self._opens_at
            for event in () if may_claim else worker.held:
                if not self._machine.holds(worker.name, event):
                    self._witness.lost(worker.name, event)
        self._dead = [
            worker
            for worker in self._dead
            if any(self._machine.holds(worker.name, event) for event in worker.held)
        ]

    def _drop(self, worker: _Worker, events: list[EventId]) -> None:
        for event in events:
            worker.held.pop(event, None)
            self._witness.lost(worker.name, event)
