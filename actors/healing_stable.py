"""The side of a healing broker that keeps what must outlive it, and its durable subscribers.

Rules
-----
* Stable is what publishers were told is accepted, the durable subscribers with their positions and what they have not
  acknowledged, and the highest epoch, term and round known: none of these ever runs backwards. A step's changes are
  stable before anything of that step leaves. Without a store there is no `Write`, and the rest is the same.
* Who starts anew with its store sends what it kept again, in a round that it asks for; what it holds for durable
  subscribers it wants from its cluster at once, and lets events through to them from that round on.
* A durable subscriber is here until it says that it leaves, or has come back elsewhere: brokers tell the rendezvous
  point now and then whom they hold, and are told whom to let go.
* What a round should mend and is not kept any more is told to every broker ahead of what is (`faults.rounds`); and by
  each broker to those of its subscribers that have not had it.

Source: docs/decisions/0015-exactly-once.md; paper 4, section 4 (what is stable before it is acknowledged).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..faults.durable import NOTES, SUBSCRIBERS, Bounds, DeadLetter, DurableSubscriber, Note
from ..faults.rounds import Kept
from ..faults.stores import Store
from ..protocol.batch import EventBatch
from ..protocol.configs import Position
from ..protocol.effects import Deliver, Effect, Multicast, Received, Report, Send, Write
from ..protocol.ids import GROUP, ClientId, Link, RoundNumber
from ..protocol.layers import Released
from ..protocol.messages import Acknowledge, Again, Cancel, Detach, Events, Register, Resume
from ..protocol.recovery import RENDEZVOUS, Holds, LetGo, Recovery, TableCopy, Wants
from ..protocol.rounds import Forgotten
from .healing_flush import FlushSide

KEPT: Final = "kept"
ACCEPTED: Final = "accepted"
IDENTITY: Final = "identity"
LETTERS: Final = "letters"
HOLDS_HEARTBEATS: Final = 10
TIDY_ROWS: Final = 256
"""Rows that are not needed any more go with the next change, or when there are so many."""


class StableSide(FlushSide):
    """Stable storage, durable subscribers, losses by name."""

    def __init__(
        self, position: Position, recovery: Recovery, incarnation: int, seed: int, store: Store | None
    ) -> None:
        super().__init__(position, recovery, incarnation, seed)
        self.durable: dict[ClientId, DurableSubscriber] = {}
        self.letters: deque[DeadLetter] = deque(maxlen=recovery.dead_letters_max)
        self.notes_lost = self.losses_told = 0
        self._bounds = Bounds(
            recovery.durable_events_max, recovery.durable_bytes_max, recovery.durable_seconds
        )
        self._stable = store is not None
        self._writes: list[Write] = []
        self._accepted: dict[ClientId, int] = {}
        self._identity: tuple[Any, ...] = ()
        self._alive_at = 0.0
        self._letter_number = 0
        self._holds_at = self._remind_at = 0.0
        self._restored = False  # whether it holds durable subscribers of an earlier life
        self._unsent = False  # whether something kept in an earlier life has not been sent in this one
        self._has_reached_root = False  # whether there was a way to the root since this life began
        if store is not None:
            self._restore(store)

    # What was made stable in an earlier life.

    def _restore(self, store: Store) -> None:
        for _, (epoch, term, current, after, alive_at) in store.rows(IDENTITY):
            self.succession.restore(epoch)
            self.term = max(self.term, term)
            self.rounds.current, self._after = RoundNumber(*current), RoundNumber(*after)
            self.now = self._alive_at = alive_at
            self.rounds.expire(self.now)
            self.rounds.doubt_from(alive_at)
        for (publisher,), (sequence, at) in store.rows(ACCEPTED):
            self._accepted[str(publisher)] = sequence
            self.rounds.gone[str(publisher)] = sequence, at
        for (number,), (at, publisher, batch) in store.rows(KEPT):
            self._note_gap(publisher, batch, at)
            self.rounds.restore(Kept(int(number), at, publisher, batch))
            self._accepted[publisher] = max(int(batch.sequence[-1]), self._accepted.get(publisher, 0))
        for (name,), row in store.rows(SUBSCRIBERS):
            self.durable[str(name)] = DurableSubscriber.restored(str(name), row)
        for (name, number), (at, batch) in store.rows(NOTES):
            if name in self.durable:
                self.durable[str(name)].restore(Note(int(number), at, batch))
        for (number,), letter in store.rows(LETTERS):
            self.letters.append(letter)
            self._letter_number = int(number)
        if self._accepted:
            self._unsent = True
            self.rounds.close(GROUP)  # nothing new goes ahead of what may never have been sent
        self._restored = bool(self.durable)
        for name, entry in self.durable.items():
            self.ledger.resume(name, entry.had(), entry.since)
            self.rounds.close(name)
            for register in entry.registers():
                self.router.handle(Received(name, register))  # told when the cluster is heard
            self._unsent = True

    def _on_table_copy(self, source: Link, message: TableCopy) -> list[Effect]:
        effects = super()._on_table_copy(source, message)
        if self.designated or not self._restored or not self._is_fellow(source):
            return effects
        # The designated broker takes it in as a new one, and may have dropped what it had heard of it before.
        self._close_all()
        return [*effects, *self.router.forget_parent(), Multicast(Wants(self.router.wants()))]

    def held(self) -> list[tuple[ClientId, Register]]:
        """Return the subscriptions that are here since an earlier life."""
        return [(name, register) for name, entry in self.durable.items() for register in entry.registers()]

    def accepted(self, publisher: ClientId) -> int:
        """Return the last sequence of a publisher that was accepted here, 0 for none."""
        return self._accepted.get(publisher, 0)

    def kept_of(self, publisher: ClientId) -> list[tuple[float, EventBatch]]:
        """Return what is kept of a publisher, each with how many seconds ago it was accepted."""
        return [
            (self.now - kept.at, kept.batch) for kept in self.rounds.kept() if kept.publisher == publisher
        ]

    def _made_stable(self, effects: list[Any]) -> list[Any]:
        """Put what has to be stable before them in front of the effects."""
        dropped = self.rounds.dropped
        if not self._stable:
            dropped.clear()
            self._writes.clear()
            return effects
        identity = (
            self.succession.epoch_seen,
            self.term,
            tuple(self.rounds.current),
            tuple(max(self._after, self.rounds.current)),
        )
        if identity != self._identity or self.now - self._alive_at > self.recovery.retention_seconds / 10:
            self._identity, self._alive_at = identity, self.now
            self._writes.append(Write(IDENTITY, (0,), (*identity, self.now)))
        if not self._writes and len(dropped) < TIDY_ROWS:
            return effects
        for number, publisher in dropped:
            self._writes.append(Write(KEPT, (number,), None))
            self._writes.append(Write(ACCEPTED, (publisher,), self.rounds.gone[publisher]))
        dropped.clear()
        writes, self._writes = self._writes, []
        return [*writes, *effects]

    # Publishers.

    def _keep(self, publisher: ClientId, message: Events) -> list[Effect]:
        batch = message.batch
        at = self.now - message.age_seconds
        last = self._accepted.get(publisher, 0)
        if message.again and self._stable:
            fresh = np.flatnonzero(batch.sequence > last)
            batch = batch.take(fresh)
        if not len(batch):
            return []
        # When what its publisher does not keep any more was published, at the latest.
        forgot = message.forgot_seconds if message.again else self.recovery.retention_seconds
        lost_at = self.now - forgot
        gap = self._note_gap(publisher, batch, lost_at)
        self._accepted[publisher] = max(last, int(batch.sequence[-1]))
        kept = self.rounds.keep(at, publisher, batch)
        self._writes.append(Write(KEPT, (kept.number,), (at, publisher, batch)))
        # Who is reached at once gets these events ahead of any round, and would take what was before them for old.
        doubtful = gap and self.rounds.doubtful(lost_at, self.recovery.doubt_seconds)
        return self._say_gone([publisher]) if doubtful else []

    def _note_gap(self, publisher: ClientId, batch: EventBatch, at: float) -> bool:
        """Note when a publisher's stream begins in the middle here: what was before it, it does not keep any more."""
        before = int(batch.sequence[0]) - 1
        if before <= self._accepted.get(publisher, 0):
            return False
        self.rounds.gone[publisher] = before, at
        return True

    # Durable subscribers.

    def _on_resume(self, source: Link, message: Resume) -> list[Effect]:
        assert isinstance(source, str)
        if not message.life:
            return super()._on_resume(source, message)
        entry = self.durable.get(source)
        if entry is not None and message.life < entry.life:
            return []
        if entry is None:
            entry = self.durable[source] = DurableSubscriber(
                source, message.life, self.now - message.since_seconds, dict(message.marks)
            )
            if message.life > 1:
                super()._on_resume(source, message)
            entry.since = self.ledger.since(source) if message.life > 1 else self.now
            self._writes.append(entry.row())
            return [self._holds()]
        entry.life = message.life
        self._writes += [entry.row(), *entry.acknowledge(message.marks)]
        self.ledger.advance(source, message.marks)
        effects: list[Any] = [self._holds()]
        for number in [number for number in entry.subscriptions if number not in message.numbers]:
            effects += [Released(source, Cancel(number)), *self._on_client(source, Cancel(number))]
        if entry.losses:
            effects.append(Report(source, tuple(entry.losses)))
        for batch, rows in entry.unacknowledged():
            effects.append(Deliver(batch, (source,), np.array([0, len(rows)]), rows))
        return effects

    def _on_again(self, source: Link, message: Again) -> list[Effect]:
        entry = self.durable.get(source)  # type: ignore[arg-type]
        effects: list[Effect] = []
        for batch, rows in () if entry is None else entry.unacknowledged():
            first = np.array([message.first.get(name, np.inf) for name in batch.publishers])
            rows = rows[batch.sequence[rows] >= first[batch.publisher[rows]]]
            if len(rows):
                effects.append(Deliver(batch, (source,), np.array([0, len(rows)]), rows))  # type: ignore[arg-type]
        return effects

    def _on_acknowledge(self, source: Link, message: Acknowledge) -> list[Effect]:
        entry = self.durable.get(source)  # type: ignore[arg-type]
        if entry is not None and message.life == entry.life:
            self._writes += entry.acknowledge(message.marks)
            self.ledger.advance(entry.name, message.marks)  # it may have had it of another broker
        return []

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        entry = self.durable.get(source)  # type: ignore[arg-type]
        if entry is not None:
            entry.subscriptions[message.subscription] = message.filter
            entry.priorities[message.subscription] = message.priority
            self._writes.append(entry.row())
        return super()._on_register(source, message)

    def _on_client(self, source: Link, message: Any) -> list[Effect]:
        entry = self.durable.get(source)  # type: ignore[arg-type]
        if entry is not None and isinstance(message, Cancel):
            entry.subscriptions.pop(message.subscription, None)
            entry.priorities.pop(message.subscription, None)
            self._writes.append(entry.row())
        return super()._on_client(source, message)

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        entry = self.durable.pop(source, None)  # type: ignore[arg-type]
        if entry is not None:
            self._writes += entry.forgotten()
        return super()._on_detach(source, message)

    def _admitted(self, deliver: Deliver, events: Events) -> Deliver | None:
        delivery = super()._admitted(deliver, events)
        if delivery is not None and self.durable:
            for place, client in enumerate(delivery.clients):
                entry = self.durable.get(client)
                if entry is not None:
                    rows = delivery.rows[delivery.starts[place] : delivery.starts[place + 1]]
                    self._writes.append(entry.add(self.now, delivery.batch.take(rows)))
                    self._shed(entry)
        return delivery

    def _shed(self, entry: DurableSubscriber) -> None:
        writes, losses, letters = entry.shed(self.now, self._bounds)
        self._writes += writes
        if not losses:
            return
        self.notes_lost += len(letters)
        for letter in letters:
            self._letter_number += 1
            self.letters.append(letter)
            self._writes.append(Write(LETTERS, (self._letter_number,), letter))
            gone = self._letter_number - self.recovery.dead_letters_max
            if gone > 0:
                self._writes.append(Write(LETTERS, (gone,), None))

    def _holds(self) -> Send:
        self._holds_at = self.now + HOLDS_HEARTBEATS * self.recovery.heartbeat_seconds
        return Send(RENDEZVOUS, Holds(tuple((name, entry.life) for name, entry in self.durable.items())))

    def _on_let_go(self, source: Link, message: LetGo) -> list[Effect]:
        effects: list[Any] = []
        for name, life in message.clients:
            entry = self.durable.get(name)
            if entry is not None and entry.life < life:
                effects += [Released(name, Detach()), *self._on_detach(name, Detach())]
        return effects

    # Time.

    def _remind(self) -> list[Effect]:
        """Do again what may have been lost on its way; give up what is too old."""
        effects = self._mark_again()
        for entry in self.durable.values():
            self._shed(entry)
        if self.durable and self.now >= self._holds_at:
            effects.append(self._holds())
        if self.path if self.designated else self.succession.path:
            self._has_reached_root = True
        elif self._has_reached_root:
            self.rounds.doubt_from(self.now)
        if self._unsent and self.now >= self._remind_at:
            first = not self._remind_at
            self._remind_at = self.now + self.recovery.answer_seconds
            if first:
                return effects  # its cluster has yet to hear of it
            self._wants_round = True
            if not self.designated and not self.router.settled():
                effects.append(Multicast(Wants(self.router.wants())))
        return effects

    def _begin(self, number: RoundNumber, doubt_seconds: float) -> list[Effect]:
        before = self.rounds.current
        effects = super()._begin(number, doubt_seconds)
        if number > before:
            closed = self.rounds.closed_links()
            self._unsent = self._unsent and any(link == GROUP or link in self.durable for link in closed)
            if self.rounds.too_old():
                self._wants_round = True
        return effects

    # Losses by name.

    def _tell_forgotten(self) -> list[Effect]:
        """Tell every broker what this round should mend and is not kept any more."""
        since = self.now - self.rounds.doubt_seconds
        return self._say_gone([publisher for publisher, (_, at) in self.rounds.gone.items() if at >= since])

    def _say_gone(self, publishers: list[ClientId]) -> list[Effect]:
        """Tell every broker up to where these publishers' events are not kept any more."""
        if not publishers:
            return []
        gone = ((publisher, *self.rounds.gone[publisher]) for publisher in publishers)
        entries = tuple((publisher, sequence, self.now - at) for publisher, sequence, at in gone)
        message = Forgotten(entries, self.rounds.current, self.rounds.doubt_seconds)
        return self._tell_losses(self.home.broker, message)

    def _on_forgotten(self, source: Link, message: Forgotten) -> list[Effect]:
        if not self._is_on_tree(source, message.ballot):
            return []
        return self._begin(message.round, message.doubt_seconds) + self._tell_losses(source, message)

    def _tell_losses(self, source: Link, message: Forgotten) -> list[Effect]:
        """Pass losses on, and tell the subscribers here."""
        effects = self._spread(source, replace(message, ballot=self.view.ballot))
        for client in self.router.subscribers():
            if not self.rounds.passes(client, message.round):
                continue
            found = (
                self.ledger.missed(client, publisher, last, self.now - age)
                for publisher, last, age in message.entries
            )
            losses = tuple(loss for loss in found if loss is not None)
            if not losses:
                continue
            self.losses_told += len(losses)
            if client in self.durable:
                self.durable[client].losses += losses
                self._writes.append(self.durable[client].row())
            effects.append(Report(client, losses))
        return effects
