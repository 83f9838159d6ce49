"""The layer that serves durable subscribers, whose state outlives their processes and that of their broker.

Rules
-----
* The stable state is: the durable subscribers, their positions, where their subscriptions begin, and the
  notifications that they have not acknowledged (`durable_cursor`). Notifications beyond the bounds are lost; the
  subscriber is told which, and they are kept as dead letters. Those past their time to live are owed to nobody: they
  are dropped, and counted.
* A durable subscriber stays here until it leaves or has returned at another broker. At intervals brokers
  report to the rendezvous point which subscribers they hold, and are told which ones to release.
* A broker that leaves hands its subscribers over to its trustee first, one after the other, with all that they have not
  acknowledged (`SubscriberBequest`). Before that it asks what the trustee's clock reads, as a subscriber does that
  moves. The trustee takes each in as one that has come, and waits for it. One that is connected is asked to go there,
  and finds everything.
* A subscriber may report what it has acknowledged (`HasConsumed`). All acknowledgements that it has sent have
  arrived by then, so its position must be equal, except for what it was told is lost. If it differs, the
  position is damaged, here and in the store. The subscriber is then added again, as one that has been
  elsewhere, and everything that is retained is retransmitted to it.
* A subscriber that comes back names the subscriptions that are in force. The outer layers are told (`CameBack`), since
  one that it does not name may still wait there for its verdict.
* The subscribers found in a store are passed inwards at the start of an incarnation (`Restored`), and reported to the
  outer layers in the first step (`Held`).

Source: docs/decisions/0015-exactly-once.md; paper 4, section 4 (what is stable before it is acknowledged),
and section 2 for damage.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Final

import numpy as np

from ...protocol.durables import Backlog, behind
from ...protocol.effects import Confirm, Deliver, Inform, Propose, Received, Send, TellLost, Ticked, Write
from ...protocol.expiry import living
from ...protocol.ids import BrokerId, ClientId
from ...protocol.layers import CameBack, Handler, Held, Inward, Out, Released, Restored
from ...protocol.messages.handover import HandOver, SubscriberBequest, SubscriberInherited
from ...protocol.messages.pubsub import (
    Answers,
    Cancel,
    ClockReads,
    Consumed,
    Detach,
    HasConsumed,
    ReadClock,
    Register,
    Resend,
    Resume,
    Undeliverable,
    stated_at,
)
from ...protocol.messages.recovery import RENDEZVOUS, Holds, LetGo, Recovery
from ...protocol.queries import Answering, DurableHere, IncarnationOf, Query
from ...protocol.snapshots import Restorable
from ..replay.handover import Handover
from ..replay.rounds import REMEMBERED_RETENTIONS
from .durable_cursor import BEGINS, NOTES, SUBSCRIBERS, Bounds, DeadLetter, DurableCursor, Note
from .stores import Store

LETTERS: Final = "letters"
HOLDS_HEARTBEATS: Final = 10


class Letters(Query[Sequence[DeadLetter]]):
    """The dead letters of the durable subscribers of a broker, oldest first."""

    otherwise = ()


@dataclass(frozen=True, slots=True)
class Backlogs(Query[Sequence[Backlog]]):
    """What durable subscribers of a broker have not acknowledged: each, or at most so many that are furthest behind."""

    most: int | None = None
    otherwise = ()


class DurableClients(Restorable):
    """The durable subscribers of one broker.

    Parameters
    ----------
    recovery
        The bounds and timeouts.
    store
        The stable state of earlier incarnations, read here once; None for a broker without a store.
    now
        The time to assume until the first tick.

    Attributes
    ----------
    entries
        The durable subscribers that this broker holds.
    letters
        The events that could not be delivered, oldest first.
    notes_lost
        The number of notifications that were given up.
    past_ttl
        The number of notifications whose time to live had passed before they were acknowledged.
    mended
        The number of positions that differed from what their subscribers had acknowledged.
    """

    def __init__(self, recovery: Recovery, store: Store | None = None, now: float = 0.0) -> None:
        self.entries: dict[ClientId, DurableCursor] = {}
        self.letters: deque[DeadLetter] = deque(maxlen=recovery.dead_letters_max)
        self.notes_lost = self.mended = self.past_ttl = 0
        self._recovery = recovery
        self._bounds = Bounds(
            recovery.durable_events_max, recovery.durable_bytes_max, recovery.durable_seconds
        )
        self._now, self._behind = now, 0.0
        self._stable = store is not None
        self._letter_number = 0
        self._holds_at = 0.0
        self._tidy_at = 0.0
        self._handover: Handover[SubscriberBequest] = Handover(recovery.answer_seconds)
        self._handing: tuple[ClientId, int] | None = None  # who is being handed over, in which incarnation
        self._reading: tuple[BrokerId, float] | None = None  # a trustee, and what its clock read
        if store is not None:
            self._read(store)
        self._held: list[Out] = [
            Held(name, register) for name, entry in self.entries.items() for register in entry.registers()
        ]
        self.takes: Mapping[type, Handler] = {
            Resend: self._on_resend,
            LetGo: self._on_let_go,
            HasConsumed: self._on_has_consumed,
            Undeliverable: self._on_undeliverable,
            HandOver: self._on_hand_over,
            SubscriberBequest: self._on_bequest,
            SubscriberInherited: self._on_inherited,
            ClockReads: self._on_clock_reads,
        }
        self.sees: Mapping[type, Handler] = {
            Resume: self._on_resume,
            Consumed: self._on_acknowledge,
            Register: self._on_register,
            Cancel: self._on_cancel,
            Detach: self._on_detach,
            Ticked: self._on_tick,
        }
        self.alters: Mapping[type, Handler] = {
            Deliver: self._on_deliver,
            TellLost: self._on_report,
            Confirm: self._on_confirm,
            Inform: self._on_inform,
        }

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {
            DurableHere: lambda query: self.entries,
            IncarnationOf: lambda query: self._incarnation_of(query.client),
            Letters: lambda query: list(self.letters),
            Backlogs: self._backlogs,
        }

    def _backlogs(self, query: Backlogs) -> list[Backlog]:
        """Write only those that are wanted: that makes texts of their filters."""
        entries = list(self.entries.values())
        if query.most is not None and len(entries) > query.most:
            now = self._now
            entries = nsmallest(
                query.most, entries, key=lambda each: behind(each.waited(now), each.outstanding, each.name)
            )
        return [entry.backlog(self._now) for entry in entries]

    def _incarnation_of(self, client: ClientId) -> int:
        entry = self.entries.get(client)
        return 0 if entry is None else entry.incarnation

    def _read(self, store: Store) -> None:
        for (name,), row in store.rows(SUBSCRIBERS):
            self.entries[str(name)] = DurableCursor.restored(str(name), row)
        for (name, number), begins in store.rows(BEGINS):
            if name in self.entries:
                self.entries[str(name)].begins[int(number)] = begins
        for (name, number), (at, batch) in store.rows(NOTES):
            if name in self.entries:
                self.entries[str(name)].restore(Note(int(number), at, batch))
        for (number,), letter in store.rows(LETTERS):
            self.letters.append(letter)
            self._letter_number = int(number)

    def begin(self) -> list[Restored]:
        """Return the subscribers that the inner layers must know at the start, before anything else."""
        return [
            Restored(
                name, entry.had(), entry.since, tuple(entry.registers()), entry.begun(), dict(entry.made)
            )
            for name, entry in self.entries.items()
        ]

    def _written(self, writes: Iterable[Write]) -> list[Out]:
        return list(writes) if self._stable else []

    # Arrival, acknowledgement, departure.

    def _on_resume(self, event: Received[ClientId, Resume]) -> list[Out]:
        client, message = event.source, event.message
        if not message.incarnation:
            return [Inward(event)]
        entry = self.entries.get(client)
        if entry is None:
            return self._take_in(event, client, message)
        if message.incarnation < entry.incarnation:
            return []
        entry.incarnation = message.incarnation
        made = self._made(message)
        writes = [*entry.acknowledge(message.marks), *entry.bring(self._now, message.begins, made)]
        out = self._written([entry.row(), *writes])
        consumed = Consumed(message.marks, message.incarnation, message.begins, made)
        out += [Inward(Received(client, consumed)), self._holds(), CameBack(client, message.numbers)]
        for number in [number for number in entry.subscriptions if number not in message.numbers]:
            out += self._on_cancel(Received(client, Cancel(number)))
        out += self._shed(entry)
        if entry.losses:
            out.append(TellLost(client, tuple(entry.losses)))
        for batch, rows in entry.unacknowledged():
            out.append(Deliver(batch, (client,), np.array([0, len(rows)]), rows))
        return out

    def _take_in(self, event: Received, client: ClientId, message: Resume) -> list[Out]:
        """Add a subscriber that is new here. One that has been elsewhere moves like any other subscriber."""
        since = self._now
        if message.incarnation > 1:
            since = message.stated_at(self._now, self._recovery.unnoticed_seconds) - message.since_seconds
        entry = self.entries[client] = DurableCursor(client, message.incarnation, since, dict(message.marks))
        begun = entry.bring(self._now, message.begins, self._made(message))
        writes = [entry.row(), *begun]
        moved: list[Out] = [Inward(event)] if message.incarnation > 1 else []
        return [*moved, *self._written(writes), self._holds()]

    def _made(self, message: Resume) -> dict[int, float]:
        """Return when the subscriptions were made that a subscriber brings along."""
        stated = message.stated_at(self._now, self._recovery.unnoticed_seconds)
        return {number: stated - age for number, age in message.ages_seconds.items()}

    def _on_resend(self, event: Received[ClientId, Resend]) -> list[Out]:
        client, message = event.source, event.message
        entry = self.entries.get(client)
        out: list[Out] = [] if entry is None else self._shed(entry)
        for batch, rows in () if entry is None else entry.unacknowledged():
            first = np.array([message.first.get(name, np.inf) for name in batch.publishers])
            rows = rows[batch.sequence[rows] >= first[batch.publisher[rows]]]
            if len(rows):
                out.append(Deliver(batch, (client,), np.array([0, len(rows)]), rows))
        return out

    def _on_acknowledge(self, event: Received[ClientId, Consumed]) -> list[Out]:
        message = event.message
        entry = self.entries.get(event.source)
        if entry is None or message.incarnation != entry.incarnation:
            return []
        return [*self._written(entry.acknowledge(message.marks)), Inward(event)]

    def _on_has_consumed(self, event: Received[ClientId, HasConsumed]) -> list[Out]:
        client, message = event.source, event.message
        entry = self.entries.get(client)
        if entry is None or message.incarnation != entry.incarnation or entry.agrees(message.marks):
            return []
        self.mended += 1
        writes = [*entry.forgotten(), *entry.begin_anew(message.marks)]
        # It acknowledges late, so it may lack anything that publishers' brokers still retain.
        kept_seconds = self._recovery.retention_seconds
        moved = Resume(
            dict(message.marks),
            self._now - entry.since,
            kept_seconds,
            entry.incarnation,
            tuple(entry.subscriptions),
            clock=self._now,
        )
        return [*self._written(writes), Inward(Received(client, moved))]

    def _on_undeliverable(self, event: Received[ClientId, Undeliverable]) -> list[Out]:
        message, name = event.message, event.source
        entry = self.entries.get(name)
        identity = message.publisher, message.sequence
        if entry is not None and (message.incarnation < entry.incarnation or entry.has_passed(*identity)):
            return []
        if any((one.subscriber, one.publisher, one.sequence) == (name, *identity) for one in self.letters):
            return []  # it says so again
        letter = DeadLetter(name, *identity, message.event, message.reason, self._now)
        return self._written(self._keep_letters([letter]))

    def _on_register(self, event: Received[ClientId, Register]) -> list[Out]:
        message = event.message
        entry = self.entries.get(event.source)
        if entry is None:
            return [Inward(event)]
        writes = entry.subscribe(
            self._now, message.subscription, message.filter, message.priority, past=message.past
        )
        return [*self._written(writes), Inward(event)]

    def _on_cancel(self, event: Received[ClientId, Cancel]) -> list[Out]:
        message = event.message
        entry = self.entries.get(event.source)
        if entry is None:
            return [Inward(event)]
        return [*self._written(entry.cancel(message.subscription)), Inward(event)]

    def _on_detach(self, event: Received[ClientId, Detach]) -> list[Out]:
        entry = self.entries.pop(event.source, None)
        return [*self._written(() if entry is None else entry.forgotten()), Inward(event)]

    # Which broker holds a subscriber.

    def _holds(self) -> Send:
        self._holds_at = self._now + HOLDS_HEARTBEATS * self._recovery.heartbeat_seconds
        return Send(
            RENDEZVOUS, Holds(tuple((name, entry.incarnation) for name, entry in self.entries.items()))
        )

    def _on_let_go(self, event: Received[BrokerId, LetGo]) -> list[Out]:
        out: list[Out] = []
        for name, incarnation in event.message.clients:
            entry = self.entries.get(name)
            if entry is not None and entry.incarnation < incarnation:
                out += self._release(name)
        return out

    def _release(self, name: ClientId) -> list[Out]:
        return [Released(name, Detach()), *self._on_detach(Received(name, Detach()))]

    # A broker that leaves, and its trustee.

    def _on_hand_over(self, event: Received[BrokerId, HandOver]) -> list[Out]:
        trustee = event.message.trustee
        if trustee == self._handover.trustee and self._handing is not None:
            return []  # it is being done
        return self._hand_over(trustee)

    def _hand_over(self, trustee: BrokerId) -> list[Out]:
        """Hand the next subscriber over, once the trustee has said what its clock reads."""
        self._handing, parts, out = None, list[SubscriberBequest](), list[Out]()
        for entry in islice(self.entries.values(), 1):
            if self._reading is None or self._reading[0] != trustee:
                out.append(Send(trustee, ReadClock()))
            else:
                self._handing = entry.name, entry.incarnation
                parts.append(entry.bequest(self._now, self._reading[1]))
        return [*self._handover.begin(trustee, parts, self._now), *out]

    def _on_clock_reads(self, event: Received[BrokerId, ClockReads]) -> list[Out]:
        if event.source != self._handover.trustee or self._handing is not None:
            return []
        self._reading = event.source, event.message.now
        return self._hand_over(event.source)

    def _on_inherited(self, event: Received[BrokerId, SubscriberInherited]) -> list[Out]:
        self._handover.answered(event.source, event.message.number, self._now)
        if self._handing is None or self._handover:
            return []  # that was another part
        name, incarnation = self._handing
        entry = self.entries.get(name)
        out: list[Out] = []
        if entry is not None and entry.incarnation == incarnation:  # it has not come again meanwhile
            out = [*self._release(name), Propose(name, event.source)]
        return [*out, *self._hand_over(event.source)]

    def _on_bequest(self, event: Received[BrokerId, SubscriberBequest]) -> list[Out]:
        """Hold a subscriber of a leaving broker, unless this one leaves itself: then the operator names another."""
        given = event.message
        if self._handover.trustee is not None:
            return []
        known, done = self.entries.get(given.name), Send(event.source, SubscriberInherited(given.number))
        if known is not None and known.incarnation >= given.incarnation:
            return [done]  # it has come since, or its answer was lost
        out: list[Out] = [] if known is None else self._release(given.name)
        ages = {number: given.ages_seconds.get(number, given.since_seconds) for number in given.subscriptions}
        counted = given.since_seconds, 0.0, given.incarnation, (), ages, given.begins, given.clock
        stated = stated_at(given.clock, self._now, self._recovery.unnoticed_seconds)
        entry = self.entries[given.name] = DurableCursor.inherited(given, self._now, stated)
        comes = Resume(entry.had(), *counted)
        registers = entry.registers()
        out += self._written(entry.rows())
        out += [Inward(Received(given.name, comes))]
        out += [Inward(Received(given.name, each)) for each in registers]
        return [*out, *(Held(given.name, each) for each in registers), self._holds(), done]

    # Time.

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now, self._behind = event.now, event.behind
        out: list[Out] = []
        if (trustee := self._handover.trustee) is not None:
            out += self._handover.due(event.now)
            out += (
                self._hand_over(trustee) if self._handing is None and self.entries else []
            )  # it has come since, or the trustee was asked for the time
        for entry in self.entries.values():
            out += self._shed(entry)
        if event.now >= self._tidy_at:
            self._tidy_at = event.now + self._recovery.retention_seconds
            before = event.now - REMEMBERED_RETENTIONS * self._recovery.retention_seconds
            out += self._written(write for entry in self.entries.values() for write in entry.tidied(before))
        if self.entries and event.now >= self._holds_at:
            out.append(self._holds())
        held, self._held = self._held, []
        return [*out, Inward(event), *held]

    def rests_until(self) -> float:
        """Return infinity (no timer) if there are no durable subscribers; else 0, as every tick may matter."""
        return 0.0 if self.entries or self._held else math.inf

    def _shed(self, entry: DurableCursor) -> list[Out]:
        """Drop the notifications past their time to live, and give up those beyond the bounds."""
        expired, gone = entry.expire(self._now + self._behind)
        self.past_ttl += gone
        writes, losses, letters = entry.shed(self._now, self._bounds)
        if losses:
            self.notes_lost += len(letters)
        return self._written([*expired, *writes, *self._keep_letters(letters)])

    def _keep_letters(self, letters: Iterable[DeadLetter]) -> list[Write]:
        writes = []
        for letter in letters:
            self._letter_number += 1
            self.letters.append(letter)
            writes.append(Write(LETTERS, (self._letter_number,), letter))
            gone = self._letter_number - self._recovery.dead_letters_max
            if gone > 0:
                writes.append(Write(LETTERS, (gone,), None))
        return writes

    # Deliveries.

    def _on_deliver(self, deliver: Deliver) -> list[Out]:
        """Retain a durable subscriber's notifications until it has acknowledged them."""
        out: list[Out] = []
        for place, client in enumerate(deliver.clients if self.entries else ()):
            entry = self.entries.get(client)
            if entry is not None:
                rows = deliver.rows[deliver.starts[place] : deliver.starts[place + 1]]
                rows = living(deliver.batch, rows, self._now + self._behind)
                if len(rows):
                    out += self._written([entry.add(self._now, deliver.batch.take(rows))])
                out += self._shed(entry)
        return [*out, deliver]

    def _on_report(self, report: TellLost) -> list[Out]:
        """Report losses to a durable subscriber until its position has passed them."""
        entry = self.entries.get(report.client)
        if entry is None:
            return [report]
        entry.lose(report.losses)
        return [*self._written([entry.row()]), report]

    # Confirmations.

    def _on_confirm(self, effect: Confirm) -> list[Out]:
        """Make stable where a subscription begins, before the subscriber learns that it has begun."""
        return [*self._began(effect.client, effect.subscription, effect.begins), effect]

    def _on_inform(self, effect: Inform) -> list[Out]:
        news = effect.news
        if not isinstance(news, Answers) or not news.here:
            return [effect]
        return [*self._began(effect.client, news.number, news.begins), effect]

    def _began(self, client: ClientId, number: int, marks: Mapping[ClientId, int]) -> list[Out]:
        entry = self.entries.get(client)
        return [] if entry is None else self._written(entry.begin(self._now, number, marks))

    # Inspection.

    def describe(self) -> Mapping[str, int]:
        """Return the sizes and counters of this layer."""
        return {
            "durable_subscribers": len(self.entries),
            "durable_events": sum(entry.outstanding for entry in self.entries.values()),
            "durable_seconds": int(
                max((each.waited(self._now) for each in self.entries.values()), default=0.0)
            ),
            "notes_kept": sum(map(len, self.entries.values())),
            "notes_lost": self.notes_lost,
            "notes_past_ttl": self.past_ttl,
            "dead_letters": len(self.letters),
            "positions_mended": self.mended,
        }

    def check(self) -> None:
        """Assert that each subscriber is stored under its name, and counts right; for tests."""
        assert all(name == entry.name for name, entry in self.entries.items())
        for entry in self.entries.values():
            entry.check()
