"""The trace of a run in which clients may die: a dead process has not received what it had not acknowledged.

Rules
-----
* A durable subscriber that dies has received what it acknowledged. Its other notifications are removed from
  the trace, because the next process must get them.
* A loss that is reported to a subscriber is in the trace, for that subscriber only. The trace also has what
  the judge needs to check such claims: the retention limits, what each broker and publisher has retained and
  its size, what died with each of them, and what was dropped for another limit.
* A publisher that recovers continues after what was accepted, so it may reuse numbers whose events were never
  accepted. All those events, also with higher numbers than it uses at first, then were never published.
* An event of a dead publisher that no living broker has accepted is lost with the publisher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..batch import EventBatch, batch_of
from ..features import NONE, Features
from ..ids import BrokerId, ClientId, EventId
from ..messages.pubsub import Lost
from .trace import ITSELF, Bounded, Died, Kept, Notified, Published, Shed, Trace


class Account(Trace):
    """The trace of what clients did and received, corrected for clients that died.

    Parameters
    ----------
    features
        Those of the network: one that heals retains events, and from its store a broker knows what it has taken
        before.

    Attributes
    ----------
    losses
        The losses that were reported to each subscriber.
    accepted_at
        The brokers that have accepted each event, and when each first did.
    expires
        When each event expires that has a time to live.
    orphans
        Events of publishers that have died since. Only brokers can tell whether they were accepted.
    """

    __slots__ = ("_batches", "_features", "_ttls", "accepted_at", "expires", "losses", "orphans")

    def __init__(self, features: Features = NONE) -> None:
        super().__init__()
        self.losses: dict[ClientId, list[Lost]] = {}
        self.accepted_at: dict[EventId, dict[BrokerId, float]] = {}
        self.expires: dict[EventId, float] = {}
        self._ttls: dict[EventId, float] = {}  # of those that were published since it had settled
        self.orphans: set[EventId] = set()
        self._features = features
        self._batches = 0
        if features.heals:
            most = features.retention
            self.operations.append(Bounded(0.0, "", most.events_max, most.bytes_max, most.seconds))

    def durable(self, now: float, client: ClientId) -> None:
        """Record how much is retained for a durable subscriber until it acknowledges."""
        if self._features.heals:
            times = self._features.times
            bounds = times.durable_events_max, times.durable_bytes_max, times.durable_seconds
            self.operations.append(Bounded(now, client, *bounds))

    def accepted(self, now: float, broker: BrokerId, batch: EventBatch) -> None:
        """Record that a broker has accepted events, and retains those that it has not taken before."""
        events = [batch.identity(row) for row in range(len(batch))]
        known = {event for event in events if broker in self.accepted_at.get(event, ())}
        for event in events:
            self.accepted_at.setdefault(event, {}).setdefault(broker, now)
        fresh = [event for event in events if not (self._features.stores and event in known)]
        self._keep(now, broker, fresh, batch.nbytes * len(fresh) // max(1, len(events)))

    def accepted_up_to(self, now: float, broker: BrokerId, publisher: ClientId, last: int) -> None:
        """Record that a broker has accepted a publisher's events up to a sequence, if no broker is known to have."""
        for (name, sequence), op in self.publications().items():
            if name == publisher and sequence <= last and (name, sequence) not in self.accepted_at:
                batch = batch_of([op.event], publisher=name, first_sequence=sequence)
                self.accepted(now, broker, batch)

    def _keep(self, now: float, broker: BrokerId, events: Sequence[EventId], size_bytes: int) -> None:
        if not self._features.heals:
            return
        self._batches += 1
        each, more = divmod(size_bytes, max(1, len(events)))
        for place, (publisher, sequence) in enumerate(events):
            size = each + (more if place == 0 else 0)
            self.operations.append(Kept(now, broker, publisher, sequence, self._batches, size))

    def shed(
        self, now: float, events: Iterable[EventId], limit: str, measured: float, allowed: float
    ) -> None:
        """Record that events were dropped for a limit, and are therefore lost for all subscribers."""
        for publisher, sequence in events:
            self.operations.append(Shed(now, publisher, sequence, limit, measured, allowed))
            self.lost(now, publisher, sequence)

    def expiring(self, now: float, client: ClientId, first: int, count: int, ttl: float | None) -> None:
        """Record the time to live of publications, None if they have none."""
        for event in ((client, first + place) for place in range(count)):
            self.expires.pop(event, None)
            self._ttls.pop(event, None)
            if ttl is not None:
                self.expires[event], self._ttls[event] = now + ttl, ttl

    def settled(self, now: float) -> None:
        """Record that no message is in flight. What expired before that is owed to nobody."""
        for event, ttl in self._ttls.items():
            if self.expires[event] < now:
                self.shed(now, [event], "ttl", now - self.expires[event] + ttl, ttl)
        self._ttls.clear()
        super().settled(now)

    def published(self, now: float, client: str, first: int, events: Iterable[Mapping[str, object]]) -> None:
        """Record publications. They replace all earlier ones from `first` on that no broker has accepted."""
        given = list(events)
        again = {event for event in self.orphans if event[0] == client and event[1] >= first}
        vain = again - self.accepted_at.keys()
        if vain:
            self.operations = [
                op
                for op in self.operations
                if not (isinstance(op, Published | Kept) and (op.publisher, op.sequence) in vain)
            ]
        self.orphans -= vain
        super().published(now, client, first, given)
        if self._features.heals:
            mine = [(client, first + place) for place in range(len(given))]
            self._keep(now, ITSELF, mine, batch_of(given).nbytes)

    def taken_back(self, now: float, publisher: ClientId, kept: Iterable[tuple[int, int, int]]) -> None:
        """Write down that a restarted publisher keeps again what its broker retained for it.

        Parameters
        ----------
        now, publisher
            When, and which publisher.
        kept
            (first sequence, number of events, bytes) of each batch, the oldest first.
        """
        for first, count, size_bytes in kept:
            self._keep(now, ITSELF, [(publisher, first + place) for place in range(count)], size_bytes)

    def died(self, now: float, publisher: ClientId) -> None:
        """Record that a publisher has died. Now only brokers have its events."""
        self.operations.append(Died(now, ITSELF, publisher))
        self.orphans.update(event for event in self.publications() if event[0] == publisher)

    def crashed(self, now: float, broker: BrokerId) -> None:
        """Record that a broker has died. With a store it still has what it retained."""
        if self._features.heals and not self._features.stores:
            self.operations.append(Died(now, broker, ""))

    def dead_for_good(self, now: float, brokers: Iterable[BrokerId]) -> None:
        """Record that brokers are dead for good. Events of dead publishers that only they had are lost."""
        dead = set(brokers)
        self.operations += [Died(now, broker, "") for broker in sorted(dead)]
        for publisher, sequence in sorted(self.orphans):
            if self.accepted_at.get((publisher, sequence), {}).keys() <= dead:
                self.lost(now, publisher, sequence)

    def never_accepted(self, publisher: ClientId, last: int) -> None:
        """Record that no broker has accepted the events of a recovered publisher with numbers above `last`."""
        self.operations = [
            op
            for op in self.operations
            if not (isinstance(op, Published | Kept) and op.publisher == publisher and op.sequence > last)
        ]

    def died_with_broker(
        self, now: float, publisher: ClientId, last: int, brokers: Iterable[BrokerId]
    ) -> None:
        """Record that a publisher's events above `last` were only with it and with brokers that are dead for good.

        The publisher may have died before it could say which of these brokers had accepted an event. A subscriber may
        have had it from there, so the trace must not say that no broker ever had it.
        """
        dead = sorted(brokers)
        gone = [op for event, op in self.publications().items() if event[0] == publisher and event[1] > last]
        for op in gone if dead else ():
            if (publisher, op.sequence) not in self.accepted_at:
                batch = batch_of([op.event], publisher=publisher, first_sequence=op.sequence)
                self.accepted(now, dead[0], batch)
        self.operations += [Died(now, broker, "") for broker in dead]
        for op in gone:
            self.lost(now, publisher, op.sequence)

    def rolled_back(self, client: ClientId, position: Mapping[ClientId, int]) -> None:
        """Record that a durable subscriber has died: remove the notifications that it had not acknowledged."""
        self.operations = [
            op
            for op in self.operations
            if not (
                type(op) is Notified and op.client == client and op.sequence > position.get(op.publisher, 0)
            )
        ]

    def told(
        self,
        now: float,
        client: ClientId,
        losses: Sequence[Lost],
        published: Iterable[EventId] | None = None,
    ) -> None:
        """Record the losses that were reported to a subscriber, of what was published; None if that is in here."""
        self.losses.setdefault(client, []).extend(losses)
        for publisher, sequence in self.publications() if published is None else published:
            if any(loss.publisher == publisher and loss.first <= sequence <= loss.last for loss in losses):
                self.lost(now, publisher, sequence, client)
