"""One broker in its host: the broker, its outgoing links, its subscribers and its records.

Rules
-----
* A hosted broker has no behaviour of its own except to count, and to tell when all effects of its broker have been
  carried out.
* `answers` holds the replies that the broker owes its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...broker import Broker
from ...protocol.effects import Deliver, Died, Drained, Missed, Received, Rested, Ticked
from ...protocol.ids import GROUP, BrokerId, BrokerLink, ClientId, Link
from ...protocol.messages.admission import AdmissionMessage, AdmissionRequest
from ...protocol.messages.pubsub import Message
from ...protocol.messages.recovery import RecoveryMessage
from ...protocol.queries import DurableHere
from ...protocol.telemetry.recorder import TelemetryBuffer
from ..telemetry.latency import RecentLatencies
from ..telemetry.metrics import BrokerMetrics
from .absent import Absent
from .commits import Commits
from .outbox import Outbox, Renewed
from .requests import Answers
from .sessions import ProcessSession, Tally

Given: TypeAlias = Message | RecoveryMessage | AdmissionMessage | AdmissionRequest
"""What a broker is passed of other brokers and of clients."""

Happened: TypeAlias = Received | Ticked | Rested | Died | Drained | Missed
"""What a broker is told."""


@dataclass(slots=True, eq=False)
class HostedBroker:
    """One broker in its host: the broker, its outgoing links, its subscribers and its records."""

    broker: Broker
    telemetry: TelemetryBuffer
    metrics: BrokerMetrics | None
    links: dict[BrokerId, Outbox] = field(default_factory=dict)
    group: Outbox | None = None
    events_in: int = 0
    events_out: int = 0
    notifications: int = 0
    latencies: RecentLatencies = field(default_factory=RecentLatencies)
    expired_events: int = 0  # dropped because they had waited too long for the broker
    past_ttl: int = 0  # notifications that were not handed out because their time to live had passed
    tally: Tally = field(default_factory=Tally)
    owners: dict[ClientId, ProcessSession] = field(default_factory=dict)
    offering: dict[ClientId, ProcessSession] = field(default_factory=dict)  # of publishers that advertise
    answers: Answers = field(default_factory=Answers)
    commits: Commits | None = None  # if the broker has a store
    ticked_at: float = 0.0  # when it was last told the time
    rests_until: float | None = None  # it need not be told the time before this; None if it does not rest
    absent: Absent = field(default_factory=Absent)

    def delivered(self, now: float, deliver: Deliver) -> None:
        """Record notifications handed to subscribers, and their latency."""
        count = len(deliver.rows)
        seconds = max(0.0, self.telemetry.delivered(now, deliver) / max(count, 1))
        self.notifications += count
        self.latencies.add(now, seconds, count)
        if self.metrics is not None:
            self.metrics.delivered(seconds)

    def renew(self, broker: BrokerId, over_group: bool) -> None:
        """Resume sending to a broker that has missed something."""
        if not over_group:
            if (box := self.links.get(broker)) is not None:
                box.renew()
        elif self.group is not None:
            self.group.put(Renewed(broker))

    def clear(self, link: BrokerLink) -> bool:
        """Return whether nothing is under way on a link, or to its group."""
        box = self.group if link == GROUP else self.links.get(link)
        return box is None or box.clear

    def boxes(self) -> list[Outbox]:
        """Return its outboxes: one for each link, and one for its group."""
        return [*self.links.values(), *([] if self.group is None else [self.group])]

    @property
    def durable(self) -> Collection[ClientId]:
        """Its durable subscribers."""
        return self.broker.ask(_DURABLE)

    @property
    def settled(self) -> bool:
        """Whether all effects of the broker so far have been carried out, and it goes on."""
        return self.commits is None or (self.commits.idle and self.commits.error is None)

    async def stable(self) -> None:
        """Wait until all effects of the broker so far have been carried out."""
        if self.commits is not None:
            await self.commits.stable()


_DURABLE: Final = DurableHere()

Handle: TypeAlias = Callable[[HostedBroker, Link, Given], None]
"""Passes a message to a broker."""

Drive: TypeAlias = Callable[[HostedBroker, Happened], None]
"""Passes any event to a broker."""
