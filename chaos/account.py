"""What clients did and heard in a hostile run, and what they had to hear.

Rules
-----
* An event must be delivered to a subscriber when one of its subscriptions matches it, was confirmed before the event
  was published, and was not cancelled before a *quiet point*: a moment at which the network had settled.
* It may be delivered when a subscription that matches it was asked for at any time, unless that one was cancelled
  before a quiet point that comes before the publication.
* What must be delivered and was not, but which somebody said is beyond retention, is a named loss, counted apart.

The judgement itself is :func:`rayvous.faults.reliability.compare`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..faults.reliability import EventId, Verdict, compare
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Lost
from ..routing.language import compile_predicate, to_predicate


@dataclass(slots=True)
class Wish:
    """A subscription through its life; times in seconds, None for not yet."""

    client: ClientId
    number: int
    selector: str
    asked: float
    confirmed: float | None = None
    cancelled: float | None = None


@dataclass(slots=True)
class Account:
    """Everything that clients did and heard.

    Attributes
    ----------
    events
        When each event was published, and what it was.
    wishes
        Every subscription that there was.
    heard
        (time, event) of every notification, by subscriber.
    quiet
        Quiet points, rising.
    losses
        What each subscriber was told that it may have lost.
    accepted_at
        The brokers that have accepted each event.
    orphans
        Events of publishers that died since: whether they were ever accepted is for brokers to say.
    """

    events: dict[EventId, tuple[float, Mapping[str, Any]]] = field(default_factory=dict)
    wishes: dict[tuple[ClientId, int], Wish] = field(default_factory=dict)
    heard: dict[ClientId, list[tuple[float, EventId]]] = field(default_factory=dict)
    quiet: list[float] = field(default_factory=list)
    losses: dict[ClientId, list[Lost]] = field(default_factory=dict)
    accepted_at: dict[EventId, set[BrokerId]] = field(default_factory=dict)
    orphans: set[EventId] = field(default_factory=set)

    def accepted(self, broker: BrokerId, events: Iterable[EventId]) -> None:
        """Write down that a broker has accepted events."""
        for event in events:
            self.accepted_at.setdefault(event, set()).add(broker)

    def died(self, publisher: ClientId) -> None:
        """Write down that a publisher has died: nobody but brokers has its events now."""
        self.orphans.update(event for event in self.events if event[0] == publisher)

    def rolled_back(self, client: ClientId, position: Mapping[ClientId, int]) -> None:
        """Write down that a durable subscriber has died: what it had not acknowledged it has not had."""
        self.heard[client] = [
            (when, event) for when, event in self.heard[client] if event[1] <= position.get(event[0], 0)
        ]

    def lost(self, client: ClientId, losses: Sequence[Lost]) -> None:
        """Write down what a subscriber was told that it may have lost."""
        self.losses.setdefault(client, []).extend(losses)

    def told(self, client: ClientId, event: EventId) -> bool:
        """Return whether a subscriber was told that it may have lost an event."""
        return any(
            loss.publisher == event[0] and loss.first <= event[1] <= loss.last
            for loss in self.losses.get(client, ())
        )

    def published(
        self, now: float, client: ClientId, first: int, events: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write a publication down."""
        for place, event in enumerate(events):
            self.events[client, first + place] = now, event

    def subscribed(self, now: float, client: ClientId, number: int, selector: str) -> None:
        """Write a subscription down; numbers are not used twice."""
        self.wishes[client, number] = Wish(client, number, selector, now)
        self.heard.setdefault(client, [])

    def confirmed(self, now: float, client: ClientId, number: int) -> None:
        """Write the first confirmation of a subscription down."""
        wish = self.wishes[client, number]
        if wish.confirmed is None:
            wish.confirmed = now

    def cancelled(self, now: float, client: ClientId, number: int) -> None:
        """Write a cancellation down."""
        self.wishes[client, number].cancelled = now

    def notified(self, now: float, client: ClientId, publisher: ClientId, sequence: int) -> None:
        """Write a notification down."""
        self.heard[client].append((now, (publisher, sequence)))

    def judge(
        self, named_losses: Container[EventId] = (), *, by_subscriber: bool = False
    ) -> tuple[Verdict, int]:
        """Return the verdict, and how many losses were named.

        Parameters
        ----------
        named_losses
            Events that nobody could deliver any more.
        by_subscriber
            Whether what a subscriber was told that it may have lost is a named loss too.
        """
        must: dict[ClientId, dict[EventId, None]] = {client: {} for client in self.heard}
        may: dict[ClientId, set[EventId]] = {client: set() for client in self.heard}
        for wish in self.wishes.values():
            self._weigh(wish, must[wish.client], may[wish.client])
        lost = 0
        heard = {client: [event for _, event in got] for client, got in self.heard.items()}
        for client, events in must.items():
            got = set(heard[client])
            for identity in [each for each in events if each not in got]:
                if identity not in named_losses and not (by_subscriber and self.told(client, identity)):
                    continue
                del events[identity]
                may[client].add(identity)
                lost += 1
            must[client] = dict.fromkeys(sorted(events))
        return compare(self.events, must, may, heard), lost

    def _weigh(self, wish: Wish, must: dict[EventId, None], may: set[EventId]) -> None:
        test = compile_predicate(to_predicate(wish.selector))
        for identity, (when, event) in self.events.items():
            if test(event) is not True or self._certainly_over(wish, when):
                continue
            if (
                wish.confirmed is not None
                and wish.confirmed <= when
                and not self._cancelled_under_way(wish, when)
            ):
                must[identity] = None
            else:
                may.add(identity)

    def _certainly_over(self, wish: Wish, when: float) -> bool:
        """Return whether there was a quiet point between the cancellation and the publication."""
        if wish.cancelled is None or wish.cancelled > when:
            return False
        place = bisect_right(self.quiet, wish.cancelled)
        return place < len(self.quiet) and self.quiet[place] <= when

    def _cancelled_under_way(self, wish: Wish, when: float) -> bool:
        """Return whether the cancellation came with no quiet point since the publication."""
        if wish.cancelled is None:
            return False
        place = bisect_left(self.quiet, when)
        return not (place < len(self.quiet) and self.quiet[place] <= wish.cancelled)
