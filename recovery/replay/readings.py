"""The layer that reads the past: it fills in what a durable subscriber lacks from the histories of all brokers.

Rules
-----
* A subscriber is *reading* when it begins in the past or is rewound, when it comes to this broker from another one or
  out of the store of an earlier incarnation, and when events are reported to it as lost. It is read from behind what it
  was given, and back to where its subscriptions begin.
* Its broker asks the rendezvous point which brokers have a history (its *keepers*), and reads all of them side by side,
  a page at a time. A page is handed on only as far as it follows what was handed on before of each publisher.
  So the events of a publisher that has moved come in order, whichever broker had them.
* While it reads, nothing else is delivered to the subscriber: what arrives is in some history. When all are read, and
  all subscriptions are in force here, what arrives from then on is held back, and every history is asked once more.
  What was accepted before a keeper answers is in its answer, and what is accepted after that arrives by itself. So the
  answers come first, and behind them what was held back, without what the answers had.
* Numbers that no keeper has are a gap. It is reported as lost when all keepers were asked again after it was seen; so
  is what they say they have forgotten. A keeper that does not answer is waited for `retention_seconds`, and left out
  then until it answers.
* Pages are asked for as fast as the subscriber acknowledges.

Source: docs/decisions/0181-replay.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...protocol.batch import EventBatch, concat
from ...protocol.effects import Confirm, Deliver, Inform, Received, Send, TellLost, Ticked
from ...protocol.ids import BrokerId, ClientId
from ...protocol.layers import Handler, Inward, Out, Restored, RoundBegan
from ...protocol.messages.history import Gone, HistoryPage, Keepers, Keeps, ReadHistory, Stretch
from ...protocol.messages.pubsub import Answers, Cancel, Consumed, Detach, Lost, Register, Resume
from ...protocol.messages.recovery import RENDEZVOUS, LeaveNetwork, Recovery
from ...protocol.queries import Answering
from ...protocol.snapshots import Restorable
from .deduplicator import Deduplicator
from .history import History, HistoryAt
from .rounds import Rounds

PAGE_EVENTS_MAX: Final = 4096
HELD_EVENTS_MAX: Final = 65_536
"""How many events are held back for a subscriber while all histories are asked once more; with more it reads on.

As many of a keeper may wait for what another one has.
"""
PENDING_MAX: Final = 4096
"""How many batches of a keeper may wait for what another one has."""


@dataclass(slots=True, eq=False)
class _Keeper:
    """A broker with a history, as one reading sees it.

    Attributes
    ----------
    after
        The last batch that was read.
    pending
        What was read and not handed on.
    gone
        What it has forgotten.
    whole
        Whether nothing was behind the last page.
    turn, asked_at, since
        The number of the question that is not answered, when it was last asked, and when first; None if there is none.
    read_at
        When it answered last.
    left_out
        Whether it has not answered for too long.
    """

    after: int = 0
    pending: list[Stretch] = field(default_factory=list)
    gone: dict[ClientId, Gone] = field(default_factory=dict)
    whole: bool = False
    turn: int | None = None
    asked_at: float = 0.0
    since: float = 0.0
    read_at: float = 0.0
    left_out: bool = False

    @property
    def full(self) -> bool:
        """Whether so much waits for what others have that it is not asked for more."""
        return len(self.pending) >= PENDING_MAX or sum(map(_size, self.pending)) >= HELD_EVENTS_MAX

    @property
    def exhausted(self) -> bool:
        """Whether no more comes from it now."""
        return self.whole or self.left_out or self.full

    def begin_again(self) -> None:
        """Ask it once more for what is behind the last page."""
        self.whole, self.turn = False, None


@dataclass(slots=True, eq=False)
class _Reading:
    """One subscriber that is reading.

    Attributes
    ----------
    had
        Per publisher, the number up to which everything was handed on or reported as lost.
    keepers
        The brokers that it reads.
    listed, listed_at
        Whether the rendezvous point has answered who they are; when it was asked.
    awaited, unconfirmed
        The subscriptions that are about to be made here, and those that are not in force here yet.
    gaps_seen
        The waiting stretches, by publisher and first number, since which all histories were asked again.
    closing
        Whether all histories are asked once more.
    held
        What arrived since then, and `held_events` how much that is.
    expected
        Per publisher, the highest number that was known then.
    """

    had: dict[ClientId, int]
    keepers: dict[BrokerId, _Keeper]
    awaited: set[int] = field(default_factory=set)
    listed: bool = False
    listed_at: float = -math.inf
    unconfirmed: set[int] = field(default_factory=set)
    gaps_seen: set[tuple[ClientId, int]] = field(default_factory=set)
    closing: bool = False
    held: list[EventBatch] = field(default_factory=list)
    held_events: int = 0
    expected: Mapping[ClientId, int] = field(default_factory=dict)

    def read_on(self) -> None:
        """Hold nothing back any more, and read everything to its end again."""
        self.closing, self.held, self.held_events = False, [], 0
        self.ask_again()

    def ask_again(self) -> None:
        """Ask every keeper for what is behind the last page."""
        for keeper in self.keepers.values():
            keeper.begin_again()

    def close(self, expected: Mapping[ClientId, int]) -> None:
        """Hold back what arrives from now on, and ask all histories once more."""
        self.read_on()
        self.closing, self.listed, self.listed_at, self.expected = True, False, -math.inf, expected

    @property
    def all_read(self) -> bool:
        """Whether there is nothing more to be had of any keeper now."""
        return self.exhausted and not any(keeper.pending for keeper in self.keepers.values())

    @property
    def exhausted(self) -> bool:
        """Whether no more comes of any keeper: what waits for something waits in vain."""
        return self.listed and all(keeper.exhausted for keeper in self.keepers.values())


def _size(stretch: Stretch) -> int:
    return 0 if stretch.wanted is None else len(stretch.wanted)


class Readings(Restorable):
    """The subscribers of one broker that read the past, and its own history.

    Parameters
    ----------
    broker
        The broker.
    recovery
        The bounds and timeouts.
    history
        Its history.
    deduplicator, rounds
        Those of the layer that retransmits: what subscribers are owed and have had, and which links are open.
    may_read
        Says whether a subscriber acknowledges fast enough to be given more.
    holds
        Says whether a client is a durable subscriber of the broker.
    """

    SHARED = frozenset({"history", "_deduplicator", "_rounds"})

    def __init__(
        self,
        broker: BrokerId,
        recovery: Recovery,
        history: History,
        deduplicator: Deduplicator,
        rounds: Rounds,
        may_read: Callable[[ClientId], bool],
        holds: Callable[[ClientId], bool],
    ) -> None:
        self.history = history
        self._me, self._recovery = broker, recovery
        self._deduplicator, self._rounds = deduplicator, rounds
        self._may_read, self._holds = may_read, holds
        self._page_events = max(1, min(PAGE_EVENTS_MAX, recovery.durable_events_max // 4))
        self._now = 0.0
        self._turn = 0
        self._known = False  # whether the rendezvous point knows of this history
        self._said_at = -math.inf
        self._readings: dict[ClientId, _Reading] = {}
        self.read_events = self.gaps_told = 0
        self.takes: Mapping[type, Handler] = {
            ReadHistory: self._on_read,
            HistoryPage: self._on_page,
            Keepers: self._on_keepers,
        }
        self.sees: Mapping[type, Handler] = {
            Resume: self._on_resume,
            Restored: self._on_restored,
            Register: self._on_register,
            Cancel: self._on_cancel,
            Consumed: self._on_consumed,
            Detach: self._on_detach,
            LeaveNetwork: self._on_leave,
            Ticked: self._on_tick,
        }
        self.alters: Mapping[type, Handler] = {
            Deliver: self._on_deliver,
            Confirm: self._on_confirm,
            Inform: self._on_inform,
            TellLost: self._on_lost,
            RoundBegan: self._on_round,
        }

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {HistoryAt: lambda query: self.history.spans(query.moment)}

    # This broker's own history.

    def _on_read(self, event: Received[BrokerId, ReadHistory]) -> list[Out]:
        return [Send(event.source, self.history.page(event.message, self._now))]

    def _on_leave(self, event: Received[BrokerId, LeaveNetwork]) -> list[Out]:
        return [Send(RENDEZVOUS, Keeps(leaves=True)), Inward(event)]

    # Who reads.

    def _begin(
        self, client: ClientId, marks: Mapping[ClientId, int], awaited: Iterable[int] = ()
    ) -> _Reading:
        reading = self._readings[client] = _Reading(dict(marks), {self._me: _Keeper()}, set(awaited))
        return reading

    def _on_resume(self, event: Received[ClientId, Resume]) -> list[Out]:
        message = event.message
        if message.incarnation:
            self._begin(event.source, message.marks, message.numbers)
        return [Inward(event)]

    def _on_restored(self, event: Restored) -> list[Out]:
        self._begin(
            event.client, event.marks
        )  # it reads from the first tick on, as nothing is written before
        return [Inward(event)]

    def _on_register(self, event: Received[ClientId, Register]) -> list[Out]:
        """Ask again with what is wanted now, once everything that is about to be made here is made."""
        return self._changed(event, event.message.subscription, made=True)

    def _on_cancel(self, event: Received[ClientId, Cancel]) -> list[Out]:
        return self._changed(event, event.message.subscription, made=False)

    def _changed(self, event: Received[ClientId, Register | Cancel], number: int, *, made: bool) -> list[Out]:
        reading = self._readings.get(event.source)
        if reading is None:
            return [Inward(event)]
        (reading.unconfirmed.add if made else reading.unconfirmed.discard)(number)
        reading.awaited.discard(number)
        reading.read_on()
        return [Inward(event)]  # it goes on when that is confirmed, or with the next tick

    def _on_detach(self, event: Received[ClientId, Detach]) -> list[Out]:
        self._readings.pop(event.source, None)
        return [Inward(event)]

    def _on_consumed(self, event: Received[ClientId, Consumed]) -> list[Out]:
        return [Inward(event), *self._go_on(event.source)]

    # When its subscriptions are in force.

    def _on_confirm(self, effect: Confirm) -> list[Out]:
        return [effect, *self._in_force(effect.client, effect.subscription)]

    def _on_inform(self, effect: Inform) -> list[Out]:
        news = effect.news
        if not isinstance(news, Answers) or not news.here:
            return [effect]
        return [effect, *self._in_force(effect.client, news.number)]

    def _in_force(self, client: ClientId, number: int) -> list[Out]:
        reading = self._readings.get(client)
        if reading is None:
            return []
        reading.unconfirmed.discard(number)
        return self._go_on(client)

    def _may_close(self, client: ClientId, reading: _Reading) -> bool:
        """Return whether everything that is accepted from now on arrives by itself."""
        return not reading.unconfirmed and self._rounds.passes(client, self._rounds.current)

    # What arrives meanwhile.

    def _on_deliver(self, deliver: Deliver) -> list[Out]:
        """Hold back what is for subscribers that are reading."""
        if not self._readings or self._readings.keys().isdisjoint(deliver.clients):
            return [deliver]
        clients: list[ClientId] = []
        pieces = []
        for place, client in enumerate(deliver.clients):
            rows = deliver.rows[deliver.starts[place] : deliver.starts[place + 1]]
            reading = self._readings.get(client)
            if reading is None:
                clients.append(client)
                pieces.append(rows)
            elif reading.closing:
                reading.held.append(deliver.batch.take(rows))
                reading.held_events += len(rows)
                if reading.held_events > HELD_EVENTS_MAX:
                    reading.read_on()
        if not clients:
            return []
        starts = np.cumsum([0, *map(len, pieces)])
        rows = np.concatenate(pieces)
        return [Deliver(deliver.batch, tuple(clients), starts, rows, brought_by=deliver.brought_by)]

    def _on_lost(self, report: TellLost) -> list[Out]:
        """Read what is reported as lost: some history may have it."""
        client = report.client
        reading = self._readings.get(client)
        if reading is None:
            if not self._holds(client):
                return [report]
            reading = self._begin(client, self._deduplicator.marks(client) or {})
        reading.read_on()
        return self._go_on(client)

    # Reading.

    def _on_keepers(self, event: Received[BrokerId, Keepers]) -> list[Out]:
        self._known = True
        out: list[Out] = []
        for client, reading in list(self._readings.items()):
            reading.listed = True
            brokers = {self._me, *event.message.brokers}
            for broker in sorted(brokers - reading.keepers.keys()):
                reading.keepers[broker] = _Keeper()
            for broker in reading.keepers.keys() - brokers:
                if not reading.keepers[broker].pending:
                    del reading.keepers[broker]
            out += self._go_on(client)
        return out

    def _on_round(self, news: RoundBegan) -> list[Out]:
        """Ask who has a history now: brokers may have joined."""
        out: list[Out] = [news]
        for client, reading in list(self._readings.items()):
            reading.listed, reading.listed_at = False, -math.inf
            out += self._go_on(client)
        return out

    def _on_page(self, event: Received[BrokerId, HistoryPage]) -> list[Out]:
        return self._took(event.source, event.message) or []

    def _took(self, source: BrokerId, page: HistoryPage) -> list[Out] | None:
        reading = self._readings.get(page.client)
        keeper = None if reading is None else reading.keepers.get(source)
        if keeper is None or keeper.turn != page.turn:
            return None
        keeper.turn, keeper.left_out, keeper.read_at = None, False, self._now
        keeper.after, keeper.whole = page.after, page.whole
        keeper.pending.extend(page.stretches)
        keeper.gone |= {
            gone.publisher: gone._replace(age_seconds=self._now - gone.age_seconds) for gone in page.gone
        }
        return self._go_on(page.client)

    def _go_on(self, client: ClientId) -> list[Out]:
        """Hand on what follows, ask for more, and end the reading when there is nothing more."""
        reading = self._readings.get(client)
        if reading is None or reading.awaited:
            return []
        if not self._deduplicator.filters(client):
            del self._readings[client]
            return []
        out = [*self._handed_on(client, reading)]
        if reading.all_read and self._may_close(client, reading):
            if reading.closing:
                return [*out, *self._end(client, reading)]
            reading.close(self._rounds.high_water.marks())
        return [*out, *self._ask(client, reading)]

    def _handed_on(self, client: ClientId, reading: _Reading) -> Iterator[Out]:
        found: list[EventBatch] = []
        waited = -1
        while True:
            for keeper in reading.keepers.values():
                keeper.pending = self._passed(client, reading, keeper.pending, found)
            waiting = [each for keeper in reading.keepers.values() for each in keeper.pending]
            if waiting and len(waiting) != waited:
                waited = len(waiting)
                continue
            yield from self._deliver(client, found)
            found = []
            if not waiting or not reading.exhausted:
                return
            places = {(each.publisher, each.first): each for each in waiting}
            sure = min(places.keys() & reading.gaps_seen, default=None)
            if sure is None:  # what is missing may have been accepted after its keeper was read
                reading.gaps_seen = set(places)
                reading.ask_again()
                return
            lost = self._gap(client, reading, places[sure])
            assert lost is not None, "else it would follow"
            yield self._tell(client, reading, lost)

    def _passed(
        self, client: ClientId, reading: _Reading, pending: list[Stretch], found: list[EventBatch]
    ) -> list[Stretch]:
        """Add the events of those stretches that follow what was handed on to `found`, and return the others."""
        left: list[Stretch] = []
        waits: set[ClientId] = set()
        for stretch in pending:
            if stretch.publisher in waits or not self._follows(client, reading, stretch):
                waits.add(stretch.publisher)
                left.append(stretch)
            else:
                found += self._owed(client, reading, stretch)
        return left

    def _follows(self, client: ClientId, reading: _Reading, stretch: Stretch) -> bool:
        """Return whether nothing is missing before these events that the subscriber may be owed."""
        return stretch.first <= reading.had.get(stretch.publisher, 0) + 1 or not self._gap(
            client, reading, stretch
        )

    def _gap(self, client: ClientId, reading: _Reading, stretch: Stretch) -> Lost | None:
        name, last = stretch.publisher, stretch.first - 1
        forgotten = (keeper.gone[name] for keeper in reading.keepers.values() if name in keeper.gone)
        accepted = min((gone.age_seconds for gone in forgotten if gone.last >= last), default=math.inf)
        return self._deduplicator.lacks(client, name, reading.had.get(name, 0), last, accepted)

    def _owed(self, client: ClientId, reading: _Reading, stretch: Stretch) -> list[EventBatch]:
        """Return those events of a stretch that the subscriber is owed, and note that it had them all."""
        had, batch = reading.had.get(stretch.publisher, 0), stretch.wanted
        reading.had[stretch.publisher] = max(had, stretch.last)
        if batch is None:
            return []
        rows = np.flatnonzero(batch.sequence > had)
        rows = self._deduplicator.owed(client, batch, rows, self._now - stretch.age_seconds)
        return [batch.take(rows)] if len(rows) else []

    def _deliver(self, client: ClientId, found: list[EventBatch]) -> list[Out]:
        if not found:
            return []
        batch = found[0] if len(found) == 1 else concat(found)
        self.read_events += len(batch)
        return [Deliver(batch, (client,), np.array([0, len(batch)]), np.arange(len(batch)))]

    def _tell(self, client: ClientId, reading: _Reading, lost: Lost) -> TellLost:
        self.gaps_told += 1
        reading.had[lost.publisher] = lost.last
        return TellLost(client, (lost,))

    def _end(self, client: ClientId, reading: _Reading) -> Iterator[Out]:
        """Report what no history has any more, and hand on what was held back."""
        del self._readings[client]
        left_out = any(keeper.left_out for keeper in reading.keepers.values())
        ends = [(name, last, math.inf) for name, last in reading.expected.items() if left_out]
        for keeper in reading.keepers.values():
            ends += [(gone.publisher, gone.last, gone.age_seconds) for gone in keeper.gone.values()]
        for name, last, accepted in ends:
            lost = self._deduplicator.lacks(client, name, reading.had.get(name, 0), last, accepted)
            if lost is not None:
                yield self._tell(client, reading, lost)
        self._deduplicator.advance(client, reading.had)
        found = []
        for batch in reading.held:
            had = np.array([reading.had.get(name, 0) for name in batch.publishers], np.int64)
            rows = np.flatnonzero(batch.sequence > had[batch.publisher])
            if len(rows):
                found.append(batch.take(rows))
        yield from self._deliver(client, found)

    # Asking.

    def _ask(self, client: ClientId, reading: _Reading) -> list[Out]:
        out: list[Out] = []
        again = self._now - self._recovery.answer_seconds
        silent = any(
            keeper.turn is not None and keeper.asked_at <= again for keeper in reading.keepers.values()
        )
        if (silent or not reading.listed) and reading.listed_at <= again:
            reading.listed_at = self._now
            out.append(Send(RENDEZVOUS, Keeps()))
        for broker, keeper in list(reading.keepers.items()):
            if keeper.whole or keeper.full or not self._may_read(client):
                continue
            if keeper.turn is None:
                self._turn += 1
                keeper.turn = self._turn
                keeper.since = keeper.since if keeper.left_out else self._now
            elif keeper.asked_at > again:
                continue
            keeper.asked_at = self._now
            if not keeper.after:
                for name, number in self._deduplicator.begins(client).items():
                    reading.had[name] = max(number, reading.had.get(name, 0))
            marks = {} if keeper.after else dict(reading.had)
            wanted = tuple(self._deduplicator.filters(client))
            question = ReadHistory(client, keeper.turn, keeper.after, wanted, marks, self._page_events)
            if broker == self._me:
                return [*out, *(self._took(broker, self.history.page(question, self._now)) or [])]
            out.append(Send(broker, question))
        return out

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        out: list[Out] = [Inward(event)]
        if not self._known and event.now >= self._said_at + self._recovery.answer_seconds:
            self._said_at = event.now
            out.append(Send(RENDEZVOUS, Keeps()))
        for client, reading in list(self._readings.items()):
            for keeper in reading.keepers.values():
                if keeper.turn is not None and event.now - keeper.since > self._recovery.retention_seconds:
                    keeper.left_out = True
                elif keeper.whole and not reading.closing:
                    if event.now - keeper.read_at >= self._recovery.heartbeat_seconds:
                        keeper.begin_again()
            out += self._go_on(client)
        return out

    def rests_until(self) -> float:
        """Return infinity (no timer) if nobody reads; else 0, as every tick may matter."""
        return 0.0 if self._readings or not self._known else math.inf

    # Inspection.

    def describe(self) -> Mapping[str, int]:
        """Return the sizes and counters of this layer."""
        return {
            "history_events": self.history.events,
            "history_bytes": self.history.bytes,
            "history_forgotten": self.history.events_forgotten,
            "history_expired": self.history.events_expired,
            "history_read": self.read_events,
            "history_gaps": self.gaps_told,
            "readers": len(self._readings),
        }

    def check(self) -> None:
        """Assert that what is held back is counted, and the invariants of the history; for tests."""
        self.history.check()
        for reading in self._readings.values():
            assert reading.held_events == sum(map(len, reading.held)) and (
                reading.closing or not reading.held
            )
