"""The layer that ensures that no event accepted here is lost, and that no subscriber gets an event twice.

Rules
-----
* Events from a local publisher are stamped with the present round and retained, within bounds. When a round
  begins, the broker retransmits all retained events, in order, ahead of anything newer (`rounds`).
* No event passes over a closed link. A subscriber gets no event that it has had before, and no retransmitted one
  from before its subscriptions began (`deduplicator`). A subscription begins at its confirmation, at what this
  broker knows then (`high_water`), and remains so at any other broker.
* Events that a round should mend but that are no longer retained are reported to every broker, ahead of the
  retransmitted ones. Each broker reports them to those of its subscribers that have not had them. If a
  publisher comes from elsewhere without the events before its first one here, that is such a loss, and it is
  reported at once.
* A publisher that has left tells this broker from which event on its next broker retains its events. If this
  broker has forgotten some of those, it is no longer responsible for the publisher: it reports none of its
  losses and retransmits none of its events. Its retransmission would begin in the middle, and would raise the
  marks of subscribers above what the other broker still has for them. When the publisher is back here, what was
  forgotten here and it no longer retains is a loss, and it is reported at once.
* A subscriber that is satisfied by local publishers is owed nothing by others, so their losses are not
  reported to it.
* In networks where nobody notices that two brokers cannot reach each other, the broker asks at intervals
  whether all events have reached every broker (`arrived`). Events that it forgets before it has the answer
  count as lost in the next round, however far back that round mends.
* A broker that leaves first hands over what it retains of the publishers for which it answers: those that have not
  told it of another broker. Its trustee retains that as if they had published it there, and answers for them. Only then
  is the layer inside told to leave (`handover`). What is accepted meanwhile is handed over before it has left.
* The stable state is what publishers were told is accepted: the retained events, and each publisher's last
  number. A broker that recovers from a store retransmits it in a round, which it requests until there is one.

The layer inside decides who is in the network and when a round begins. `layers` defines the messages between
the two.

Source: docs/decisions/0011-recovery.md and 0015-exactly-once.md; paper 4, section 4 (stable before it is
acknowledged).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from ...protocol.batch import EventBatch
from ...protocol.effects import Confirm, Deliver, Inform, Multicast, Received, Send, TellLost, Ticked, Write
from ...protocol.ids import GROUP, BrokerId, ClientId, Link, RoundNumber
from ...protocol.layers import (
    Delivered,
    Handler,
    Heard,
    Inward,
    IsDelivered,
    Out,
    Restored,
    RoundBegan,
    RoundWanted,
    Tell,
)
from ...protocol.messages.handover import Bequest, Inherited
from ...protocol.messages.pubsub import (
    Answers,
    Cancel,
    Consumed,
    Detach,
    Directed,
    Events,
    Register,
    Resume,
    TakenOver,
    Unanswered,
    in_round,
)
from ...protocol.messages.recovery import LeaveNetwork, Recovery
from ...protocol.messages.rounds import Forgotten, Marker
from ...protocol.queries import AcceptedOf, Answering, HasLeft, KeptOf, Publishers
from ...protocol.snapshots import Restorable
from ..durability.stores import Store
from .arrived import Arrived
from .deduplicator import Deduplicator
from .handover import Handover
from .high_water import Marks
from .rounds import REMEMBERED_RETENTIONS, RETRANSMISSION_EVENTS_MAX, Kept, Rounds

KEPT: Final = "kept"
ACCEPTED: Final = "accepted"
ARRIVED: Final = "arrived"
TAKEN_OVER: Final = "taken_over"
TIDY_ROWS: Final = 256
"""Rows that are no longer needed are deleted with the next change, or when there are more than this many."""


class Replay(Restorable):
    """Retention, rounds and deduplication of one broker.

    Parameters
    ----------
    broker
        The broker that this layer belongs to.
    recovery
        The bounds and timeouts.
    rounds
        The rounds as this broker sees them, shared with the layer that knows the links.
    store
        The stable state of earlier incarnations, read here once; None for a broker without a store.
    now
        The time to assume until the first tick.
    confirms
        Whether the layer asks if all events have reached every broker, for networks where nobody would notice
        otherwise.

    Attributes
    ----------
    deduplicator
        What each subscriber has had.
    losses_told
        The number of losses that were reported to subscribers.
    """

    def __init__(
        self,
        broker: BrokerId,
        recovery: Recovery,
        rounds: Rounds,
        store: Store | None = None,
        now: float = 0.0,
        *,
        confirms: bool = False,
    ) -> None:
        self.rounds = rounds
        # Two brokers may lag, and each is told the time once per heartbeat.
        self.deduplicator = Deduplicator(
            2 * recovery.heartbeat_seconds, REMEMBERED_RETENTIONS * recovery.retention_seconds
        )
        self.losses_told = 0
        self._me = broker
        self._recovery = recovery
        self._now = now
        self._stable = store is not None
        self._accepted: dict[ClientId, int] = {}
        # From which event on another broker retains a publisher's events.
        self._taken_over: dict[ClientId, int] = {}
        # For each subscription: the publishers whose events it is owed, or None for all publishers.
        self._wanting: dict[ClientId, dict[int, frozenset[ClientId] | None]] = {}
        self._awaited: set[Link] = set()  # links that have been closed since an earlier incarnation
        self._remind_at: float | None = None
        self._stale: list[Write] = []  # rows that are no longer needed
        self._arrived = Arrived(recovery.retention_seconds) if confirms else None
        self._handover: Handover[Bequest] = Handover(recovery.answer_seconds)
        self._leave: Received[BrokerId, LeaveNetwork] | None = None  # the order that waits for its end
        if store is not None:
            self._read(store)
        self.takes: Mapping[type, Handler] = {
            Resume: self._on_resume,
            Consumed: self._on_acknowledge,
            TakenOver: self._on_taken_over,
            Delivered: self._on_delivered,
            Bequest: self._on_bequest,
            Inherited: self._on_inherited,
        }
        self.sees: Mapping[type, Handler] = {
            Events: self._on_events,
            Directed: self._on_directed,
            Register: self._on_register,
            Cancel: self._on_cancel,
            Detach: self._on_detach,
            Ticked: self._on_tick,
            Restored: self._on_restored,
            Tell: self._on_tell,
            LeaveNetwork: self._on_leave,
        }
        self.alters: Mapping[type, Handler] = {
            Send: self._on_send,
            Multicast: self._on_multicast,
            Deliver: self._on_deliver,
            Confirm: self._on_confirm,
            Inform: self._on_inform,
            RoundBegan: self._on_round_began,
            Heard: self._on_heard,
        }

    def _read(self, store: Store) -> None:
        for (publisher,), (sequence, at) in store.rows(ACCEPTED):
            self._accepted[str(publisher)] = sequence
            self.rounds.gone[str(publisher)] = sequence, at
        for (number,), (at, publisher, batch) in store.rows(KEPT):
            self._note_gap(publisher, batch, at)
            self.rounds.restore(Kept(int(number), at, publisher, batch))
            self._accepted[publisher] = max(int(batch.sequence[-1]), self._accepted.get(publisher, 0))
            if self._arrived is not None:
                self._arrived.kept(int(number), at)
        self.rounds.high_water.taught(self._accepted)
        for (publisher,), (first,) in store.rows(TAKEN_OVER):
            self._taken_over[str(publisher)] = first
        if self._accepted:
            self._awaited.add(GROUP)
        if self._arrived is not None:
            gone = {publisher: at for publisher, (_, at) in self.rounds.gone.items()}
            for _, answer in store.rows(ARRIVED):
                self._arrived.restore(answer, gone)

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {
            Publishers: lambda query: frozenset(self._accepted.keys() | self.rounds.gone.keys()),
            AcceptedOf: lambda query: self.accepted(query.publisher),
            KeptOf: lambda query: self.kept_of(query.publisher),
            HasLeft: lambda query: self._leave is None and not self._handover,
        }

    # Publishers.

    def accepted(self, publisher: ClientId) -> int:
        """Return the last sequence of a publisher that was accepted here, 0 if there is none."""
        gone, _ = self.rounds.gone.get(publisher, (0, 0.0))  # it may come from a broker that has left
        return max(gone, self._accepted.get(publisher, 0))

    def round(self) -> RoundNumber:
        """Return the last round that has begun here."""
        return self.rounds.current

    def marks(self, client: ClientId) -> Mapping[str, int] | None:
        """Return, per publisher, the sequence up to which a subscriber has had all events; None if it is unknown."""
        return self.deduplicator.marks(client)

    def expiring(self, client: ClientId) -> Mapping[str, int]:
        """Return, per publisher, the number of the last event with a time to live that was for a subscriber."""
        return self.deduplicator.expiring(client)

    def kept_of(self, publisher: ClientId) -> list[tuple[float, EventBatch]]:
        """Return the retained batches of a publisher, each with how many seconds ago it was accepted."""
        return [
            (self._now - kept.at, kept.batch) for kept in self.rounds.kept() if kept.publisher == publisher
        ]

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        publisher, message = event.source, event.message
        self.rounds.high_water.saw(message.batch)
        if not isinstance(publisher, str):
            return [Inward(event)]
        told = self._keep(publisher, message)
        stamped = in_round(message, self.rounds.current, self.rounds.repair_window_seconds)
        return [*told, Inward(Received(publisher, stamped))]

    def _on_directed(self, event: Received[BrokerId, Directed]) -> list[Out]:
        self.rounds.high_water.saw(event.message.batch)
        return [Inward(event)]

    def _keep(self, publisher: ClientId, message: Events) -> list[Out]:
        """Retain what was published here, for retransmission; report what is known to be lost before it."""
        batch = message.batch
        last = self._accepted.get(publisher, 0)
        out = self._back_here(publisher, batch) if publisher in self._taken_over else []
        if message.retransmitted and self._stable:
            fresh = np.flatnonzero(batch.sequence > last)
            batch = batch.take(fresh)
        if not len(batch.sequence):
            return out
        # The latest time at which events that the publisher no longer retains may have been published.
        forgot = message.forgot_seconds if message.retransmitted else self._recovery.retention_seconds
        lost_at = self._now - forgot
        gap = self._note_gap(publisher, batch, lost_at)
        out += self._retain(self._now - message.age_seconds, publisher, batch)
        out += self._hand_on(publisher, message.age_seconds, batch)
        # A subscriber reached at once gets these events before any round, and would then drop earlier ones as
        # duplicates.
        if gap and self.rounds.may_lack(lost_at, self._recovery.unnoticed_seconds):
            out += self._say_gone([(publisher, *self.rounds.gone[publisher])])
        return out

    def _retain(self, at: float, publisher: ClientId, batch: EventBatch) -> list[Out]:
        """Retain events that were accepted at this time; return the writes."""
        self._accepted[publisher] = max(self._accepted.get(publisher, 0), int(batch.sequence[-1]))
        kept = self.rounds.keep(at, publisher, batch)
        if self._arrived is not None:
            self._arrived.kept(kept.number, self._now)
        return (
            [Write(KEPT, (kept.number,), (kept.at, publisher, batch)), *self._tidied(0)]
            if self._stable
            else []
        )

    def _back_here(self, publisher: ClientId, batch: EventBatch) -> list[Out]:
        """Answer again for a publisher that is back; report what was forgotten here and it does not bring along.

        The broker that it has left may be gone with these events, or may retransmit them too late.
        """
        if publisher not in self._taken_over or not len(batch):
            return []
        answered = self._answers_for(publisher)
        del self._taken_over[publisher]
        out: list[Out] = [Write(TAKEN_OVER, (publisher,), None)] if self._stable else []
        forgotten, at = self.rounds.gone.get(publisher, (0, 0.0))
        missing = min(forgotten, int(batch.sequence[0]) - 1)
        if missing and not answered and self.rounds.may_lack(at, self._recovery.unnoticed_seconds):
            out += self._say_gone([(publisher, missing, at)])
        return out

    def _on_taken_over(self, event: Received[ClientId, TakenOver]) -> list[Out]:
        publisher, message = event.source, event.message
        if not 0 < self.accepted(publisher) <= message.last:
            return []  # the publisher has been here again since, or never was
        self._taken_over[publisher] = message.first
        return [Write(TAKEN_OVER, (publisher,), (message.first,))] if self._stable else []

    def _answers_for(self, publisher: ClientId) -> bool:
        """Return whether no other broker retains what was forgotten here of a publisher."""
        gone, _ = self.rounds.gone.get(publisher, (0, 0.0))
        return gone < self._taken_over.get(publisher, gone + 1)

    def _note_gap(self, publisher: ClientId, batch: EventBatch, at: float) -> bool:
        """Record if a publisher's stream begins in the middle here: it no longer retains what came before."""
        before = int(batch.sequence[0]) - 1
        if before <= self._accepted.get(publisher, 0):
            return False
        self.rounds.gone[publisher] = before, at
        return True

    def _tidied(self, rows_min: int) -> list[Out]:
        """Process forgotten batches; return their deletions from the store if these are more than `rows_min` rows."""
        for number, publisher in self.rounds.dropped:
            if self._arrived is not None:
                self._arrived.forgotten(number, publisher)
            if self._stable:
                gone = Write(ACCEPTED, (publisher,), self.rounds.gone[publisher])
                self._stale += [Write(KEPT, (number,), None), gone]
        self.rounds.dropped.clear()
        if len(self._stale) <= rows_min:
            return []
        stale, self._stale = self._stale, []
        return [*stale]

    # What a broker that leaves hands over.

    def _on_leave(self, event: Received[BrokerId, LeaveNetwork]) -> list[Out]:
        """Hand over what only this broker retains, and pass the order on when that is done."""
        trustee = event.message.trustee
        if trustee is None or trustee == self._me:
            return [Inward(event)]
        if trustee == self._handover.trustee:
            return [] if self._handover else [Inward(event)]
        self._leave = event
        return [*self._handover.begin(trustee, self._bequests(), self._now), *self._may_leave()]

    def _may_leave(self) -> list[Out]:
        if self._leave is None or self._handover:
            return []
        event, self._leave = self._leave, None
        return [Inward(event)]

    def _hand_on(self, publisher: ClientId, age: float, batch: EventBatch) -> list[Send]:
        """Hand over to the trustee, if there is one, what was accepted since the order to leave."""
        if self._handover.trustee is None:
            return []
        gone = self.rounds.gone.get(publisher)
        forgotten = () if gone is None else ((publisher, gone[0], self._now - gone[1]),)
        return self._handover.add([Bequest(0, ((publisher, age, batch),), forgotten)], self._now)

    def _bequests(self) -> list[Bequest]:
        """Return what is retained of publishers that have not gone to another broker, and what was accepted of them."""
        forgotten = [
            (publisher, last, self._now - at)
            for publisher, (last, at) in self.rounds.gone.items()
            if publisher not in self._taken_over
        ]
        size = step = RETRANSMISSION_EVENTS_MAX
        parts: list[list[tuple[ClientId, float, EventBatch]]] = []
        for kept in self.rounds.kept():
            if kept.publisher in self._taken_over:
                continue
            if size + len(kept.batch) > RETRANSMISSION_EVENTS_MAX:
                parts.append([])
                size = 0
            size += len(kept.batch)
            parts[-1].append((kept.publisher, self._now - kept.at, kept.batch))
        return [
            *(Bequest(0, (), tuple(forgotten[at : at + step])) for at in range(0, len(forgotten), step)),
            *(Bequest(0, tuple(part)) for part in parts),
        ]

    def _on_inherited(self, event: Received[BrokerId, Inherited]) -> list[Out]:
        return [
            *self._handover.answered(event.source, event.message.number, self._now),
            *self._may_leave(),
        ]

    def _on_bequest(self, event: Received[BrokerId, Bequest]) -> list[Out]:
        """Retain what a leaving broker has retained, unless this one leaves itself: then the operator names another."""
        source, message = event.source, event.message
        if self._handover.trustee is not None:
            return []
        out: list[Out] = []
        for publisher, last, age in message.forgotten:
            if last > self.accepted(publisher):
                gone = self.rounds.gone[publisher] = last, self._now - age
                out += [Write(ACCEPTED, (publisher,), gone)] if self._stable else []
            if self._taken_over.pop(publisher, None) is not None and self._stable:
                out.append(Write(TAKEN_OVER, (publisher,), None))
        for publisher, age, batch in message.kept:
            self.rounds.high_water.saw(batch)
            out += self._back_here(publisher, batch)
            if self._stable:
                batch = batch.take(np.flatnonzero(batch.sequence > self._accepted.get(publisher, 0)))
            if len(batch):
                out += self._retain(self._now - age, publisher, batch)
        return [*out, Send(source, Inherited(message.number))]

    # Whether events have reached every broker.

    def _ask(self) -> list[Out]:
        question = None if self._arrived is None else self._arrived.question(self._now)
        return [] if question is None else [IsDelivered(question)]

    def _on_delivered(self, event: Delivered) -> list[Out]:
        assert self._arrived is not None
        answer = self._arrived.answered(event.number)
        return [Write(ARRIVED, (0,), answer)] if self._stable else []

    # Subscribers.

    def _on_register(self, event: Received[ClientId, Register]) -> list[Out]:
        client, message = event.source, event.message
        self._wanting.setdefault(client, {})[message.subscription] = None
        self.deduplicator.begin(client, self._now)
        self.deduplicator.want(client, message.subscription, message.filter, self._now, past=message.past)
        return [*self._registered(client, message.subscription), Inward(event)]

    def _registered(self, client: ClientId, number: int) -> list[Out]:
        """Let a subscriber wait for a round if this was the last subscription that it announced when it came."""
        return [Inward(RoundWanted())] if self.rounds.registered(client, number) else []

    def _on_confirm(self, effect: Confirm) -> list[Out]:
        return [replace(effect, begins=self._begin(effect.client, effect.subscription))]

    def _begin(self, client: ClientId, number: int) -> Marks:
        """Let a subscription begin now, unless it has begun; return where it begins."""
        return self.deduplicator.confirm(client, number, self.rounds.high_water.marks(), self._now)

    def _on_cancel(self, event: Received[ClientId, Cancel]) -> list[Out]:
        mine = self._wanting.get(event.source, {})
        mine.pop(event.message.subscription, None)
        self.deduplicator.want_no_more(event.source, event.message.subscription)
        if not mine:
            self._wanting.pop(event.source, None)
        return [*self._registered(event.source, event.message.subscription), Inward(event)]

    def _on_detach(self, event: Received[ClientId, Detach]) -> list[Out]:
        self._wanting.pop(event.source, None)
        self.deduplicator.forget(event.source)
        self.rounds.forget(event.source)
        return [Inward(event)]

    def _on_resume(self, event: Received[ClientId, Resume]) -> list[Out]:
        """Let a subscriber that moved here wait for a round that begins when all that it wants is installed."""
        message = event.message
        stated_at = message.stated_at(self._now, self._recovery.unnoticed_seconds)
        self.deduplicator.resume(event.source, message.marks, stated_at - message.since_seconds)
        for number, age in message.ages_seconds.items():
            begins = message.begins.get(number)
            self.deduplicator.bring(event.source, number, stated_at - age, begins, self._now)
        self._learn(message.begins)
        self.rounds.close(event.source)
        self.rounds.announce(event.source, message.ages_seconds)
        self.rounds.repair_from(self._now - message.away_seconds)
        return [] if message.ages_seconds else [Inward(RoundWanted())]

    def _on_acknowledge(self, event: Received[ClientId, Consumed]) -> list[Out]:
        """Record what a subscriber has had, perhaps from another broker."""
        message = event.message
        self.deduplicator.advance(event.source, message.marks)
        for number, begins in message.begins.items():
            since = message.since.get(number, -math.inf)
            self.deduplicator.bring(event.source, number, since, begins, self._now)
        self._learn(message.begins)
        return []

    def _on_restored(self, event: Restored) -> list[Out]:
        self.deduplicator.resume(event.client, event.marks, event.since)
        self.rounds.close(event.client)
        self._awaited.add(event.client)
        for register in event.registers:
            number = register.subscription
            begins, since = event.begins.get(number), event.made.get(number, event.since)
            self.deduplicator.bring(event.client, number, since, begins, self._now)
            self.deduplicator.want(event.client, number, register.filter, self._now, past=register.past)
        self._learn(event.begins)
        self._wanting[event.client] = dict.fromkeys(register.subscription for register in event.registers)
        return [Inward(event)]

    def _learn(self, begins: Mapping[int, Marks]) -> None:
        """Learn the numbers from which a subscriber's older subscriptions begin: others here begin no lower."""
        for marks in begins.values():
            self.rounds.high_water.taught(marks)

    # Time.

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        self.rounds.expire(event.now)
        self.deduplicator.expire(event.now)
        out = [*self._tidied(TIDY_ROWS), *self._ask()]
        if self._handover.trustee is not None:
            out += self._handover.due(event.now)
        if self._awaited and (self._remind_at is None or event.now >= self._remind_at):
            if self._remind_at is not None:  # at first, others have yet to learn of this broker
                out.append(Inward(RoundWanted(repeated=True)))
            self._remind_at = event.now + self._recovery.answer_seconds
        return [*out, Inward(event)]

    def rests_until(self) -> float:
        """Return when the oldest retained batch expires; 0 while links are awaited or arrivals are tracked."""
        if self._awaited or self._arrived is not None:
            return 0.0
        return min(self.rounds.expires_at, self._handover.repeat_at)

    # Rounds.

    def _on_round_began(self, news: RoundBegan) -> list[Out]:
        """Report what is lost, then retransmit everything that is retained."""
        rounds = self.rounds
        self._awaited.intersection_update(rounds.closed_links())
        since = self._now - rounds.repair_window_seconds
        in_doubt = () if self._arrived is None else self._arrived.in_doubt
        gone = [(name, *last) for name, last in rounds.gone.items() if self._answers_for(name)]
        out: list[Out] = [
            news,
            *self._say_gone([each for each in gone if each[2] >= since or each[0] in in_doubt]),
        ]
        for publisher, age, batch in rounds.retransmissions(self._answers_for, self._now):
            events = Events(
                batch,
                rounds.current,
                True,
                age_seconds=age,
                repair_window_seconds=rounds.repair_window_seconds,
            )
            out.append(Inward(Received(publisher, events)))
        return out

    # Reports of losses.

    def _say_gone(self, gone: list[tuple[ClientId, int, float]]) -> list[Out]:
        """Tell every broker up to which sequence, accepted when, these publishers' events are no longer retained."""
        if not gone:
            return []
        entries = tuple((publisher, sequence, self._now - at) for publisher, sequence, at in gone)
        message = Forgotten(entries, self.rounds.current, self.rounds.repair_window_seconds)
        return [Inward(Tell(self._me, message)), *self._reports(message)]

    def _on_heard(self, news: Heard) -> list[Out]:
        if not isinstance(news.message, Forgotten):
            return [news]
        return [Inward(Tell(news.source, news.message)), *self._reports(news.message)]

    def _reports(self, message: Forgotten) -> list[Out]:
        """Report the losses to the local subscribers that have not had these events."""
        out: list[Out] = []
        for client, owed in self._wanting.items():
            if not self.rounds.passes(client, message.round):
                continue
            found = (
                self.deduplicator.missed(client, publisher, last, self._now - age)
                for publisher, last, age in message.entries
            )
            losses = tuple(
                loss
                for loss in found
                if loss is not None and any(of is None or loss.publisher in of for of in owed.values())
            )
            if losses:
                self.losses_told += len(losses)
                out.append(TellLost(client, losses))
        return out

    def _on_inform(self, effect: Inform) -> list[Out]:
        """Record whose events a local subscriber is owed, and since when if its subscription is in force now."""
        news, mine = effect.news, self._wanting.get(effect.client, {})
        if isinstance(news, Answers) and news.here and news.number in mine:
            named = frozenset(answer.publisher for answer in news.known)
            mine[news.number] = None if news.more else named
            return [replace(effect, news=replace(news, begins=self._begin(effect.client, news.number)))]
        if isinstance(news, Unanswered) and news.number in mine:
            mine[news.number] = None
        return [effect]

    # What may leave.

    def _on_tell(self, event: Tell) -> list[Out]:
        """Let a marker pass where all events of its round may. A marker of this broker gets the present round."""
        marker = event.message
        if not isinstance(marker, Marker):
            return [Inward(event)]
        if event.source == self._me:
            marker = replace(
                marker, round=self.rounds.current, repair_window_seconds=self.rounds.repair_window_seconds
            )
        return [Inward(replace(event, message=marker))] if self.rounds.all_pass(marker.round) else []

    def _on_send(self, effect: Send) -> list[Out]:
        message = effect.message
        closed = isinstance(message, Events) and not self.rounds.passes(effect.to, message.round)
        return [] if closed else [effect]

    def _on_multicast(self, effect: Multicast) -> list[Out]:
        message = effect.message
        closed = isinstance(message, Events) and not self.rounds.passes(GROUP, message.round)
        return [] if closed else [effect]

    def _on_deliver(self, deliver: Deliver) -> list[Out]:
        """Reduce a delivery to what may be delivered, and record that in the deduplicator."""
        events = deliver.brought_by
        assert events is not None, "a delivery says which message has brought it"
        clients: list[str] = []
        pieces = []
        accepted = self._now - events.age_seconds if events.retransmitted else None
        for place, client in enumerate(deliver.clients):
            if not self.rounds.passes(client, events.round):
                continue
            rows = deliver.rows[deliver.starts[place] : deliver.starts[place + 1]]
            rows = self.deduplicator.admit(client, deliver.batch, rows, accepted=accepted)
            if len(rows):
                clients.append(client)
                pieces.append(rows)
        if not clients:
            return []
        if sum(map(len, pieces)) == len(deliver.rows):
            return [deliver]  # all of it is new
        starts = np.cumsum([0, *map(len, pieces)])
        return [Deliver(deliver.batch, tuple(clients), starts, np.concatenate(pieces), brought_by=events)]

    # Inspection.

    def describe(self) -> Mapping[str, int]:
        """Return the counters of this layer."""
        return {
            "events_forgotten": self.rounds.forgotten,
            "losses_told": self.losses_told,
            "parts_to_hand_over": len(self._handover),
        }

    def check(self) -> None:
        """Assert that every retained batch was accepted."""
        for kept in self.rounds.kept():
            assert int(kept.batch.sequence[-1]) <= self._accepted[kept.publisher]
