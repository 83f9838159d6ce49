"""The load of paper 3, section 5.1: the behaviour of publishers and subscribers, from the paper and stated assumptions.

Rules
-----
* Whatever the paper specifies is followed: a fixed set of random events; a publisher takes one of them,
  advertises, sends it 100 times at its rate, unadvertises, and starts over; a subscriber subscribes,
  receives, unsubscribes, and starts over, without pause; clients are at random brokers.
* The rest is filled in without free parameters, and was fixed before anything was run:

  - the tree joins each broker to a random earlier one;
  - an event is a point in the unit square, two attributes;
  - a range lies between two random values: a filter has one in each attribute; an advertisement has one
    around the event, so that advertisements overlap, and the demand of a filter has to be estimated;
  - a subscriber stays as long as a publisher of the mean rate stays with one event;
  - a refused subscriber has nothing to receive: it unsubscribes at once, and starts over with another filter.

* Clients act every `STEP_SECONDS`: "without pause" means at the next step. The same seed gives the same
  brokers, rates and events under every criterion, and each subscriber the same filters in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, Final, Literal, Protocol, TypeAlias

from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.admission import Judgement
from ..routing.filters.filter import Filter
from ..routing.language.builders import attr
from ..routing.language.questions import to_filter

STEP_SECONDS: Final = 0.4
"""The interval at which clients act: a tenth of the time that the paper's publisher stays with one event."""

ATTRIBUTES: Final = ("x", "y")

Advertised: TypeAlias = Literal["range", "event"]


class Network(Protocol):
    """What clients need of a network: `simulator.simulation.Simulation`, or the model of a graph."""

    @property
    def now(self) -> float:
        """The time in seconds."""
        ...

    def advertise(
        self, client: ClientId, home: BrokerId, item: Filter, rate: float, number: int, /
    ) -> object:
        """Let a publisher advertise."""
        ...

    def unadvertise(self, client: ClientId, number: int, /) -> object:
        """Let a publisher withdraw an advertisement."""
        ...

    def publish(self, client: ClientId, home: BrokerId, events: Sequence[Mapping[str, Any]], /) -> object:
        """Let a publisher publish."""
        ...

    def subscribe(self, client: ClientId, home: BrokerId, given: Filter, /) -> int:
        """Let a subscriber subscribe, and return the number of its subscription."""
        ...

    def unsubscribe(self, client: ClientId, number: int, /) -> object:
        """Let a subscriber cancel an admitted subscription."""
        ...

    def news(self, client: ClientId, /) -> Sequence[object]:
        """Return what brokers told a client, with the verdicts on its subscriptions."""
        ...

    def advance(self, seconds: float, /) -> object:
        """Let time pass."""
        ...


@dataclass(slots=True)
class Counts:
    """Judgements so far: subscriptions, refused subscriptions, and the brokers that were asked."""

    asked: int = 0
    refused: int = 0
    brokers: int = 0


@dataclass(slots=True)
class _Client:
    """A publisher or subscriber: its broker, and when it acts next."""

    name: str
    home: BrokerId
    rng: random.Random
    at: float
    rate: float = 0.0
    number: int = 0
    left: int = 0
    owed: float = 0.0
    event: dict[str, float] = field(default_factory=dict)
    waiting: bool = False
    heard: int = 0


class Load:
    """The clients of one network.

    Parameters
    ----------
    net
        The network.
    rng
        Source of random brokers, rates and events.
    brokers, publishers, subscribers
        Their numbers; the brokers of all `subscribers_max` subscribers are drawn.
    rates
        Range of the publishers' events per second.
    repeats
        How often a publisher sends the same event.
    event_count
        Size of the fixed set of events.
    begin_seconds
        The period in which all subscribers begin.
    widths
        Range of the widths of all ranges; None for ranges between two random values.
    advertised
        Whether a publisher advertises a range around its event, or that event alone.

    Attributes
    ----------
    counts
        Judgements since it was last reset.
    """

    def __init__(
        self,
        net: Network,
        rng: random.Random,
        *,
        brokers: int,
        publishers: int,
        subscribers: int,
        subscribers_max: int,
        rates: tuple[float, float],
        repeats: int,
        event_count: int,
        begin_seconds: float,
        widths: tuple[float, float] | None = None,
        advertised: Advertised = "range",
    ) -> None:
        self._net = net
        self._widths, self._advertised = widths, advertised
        self._repeats = repeats
        self._stay_seconds = repeats * 2 / sum(rates)
        self._events = [{name: rng.random() for name in ATTRIBUTES} for _ in range(event_count)]
        seed = rng.random()

        def client(name: str, spread: float) -> _Client:
            own = random.Random(f"{name}/{seed}")
            return _Client(name, rng.randrange(brokers), own, rng.uniform(0.0, spread))

        first = min(self._stay_seconds, begin_seconds)
        self._publishers = [client(f"p{number}", first) for number in range(publishers)]
        for publisher in self._publishers:
            publisher.rate = rng.uniform(*rates)
        everybody = [client(f"s{number}", begin_seconds) for number in range(subscribers_max)]
        self._subscribers = everybody[:subscribers]
        self.counts = Counts()

    def act(self) -> None:
        """Let every client act if due, and advance the time by one step."""
        for publisher in self._publishers:
            self._publish(publisher)
        for subscriber in self._subscribers:
            self._subscribe(subscriber)
        self._net.advance(STEP_SECONDS)

    def _publish(self, client: _Client) -> None:
        if self._net.now < client.at:
            return
        if not client.left:
            if client.number:
                self._net.unadvertise(client.name, client.number)
            client.number += 1
            client.left = self._repeats
            client.event = client.rng.choice(self._events)
            around = {name: self._around(client.rng, value) for name, value in client.event.items()}
            self._net.advertise(client.name, client.home, _rectangle(around), client.rate, client.number)
            return  # demand is known at the next step
        client.owed += client.rate * STEP_SECONDS
        ready = min(int(client.owed), client.left)
        if ready:
            client.owed -= ready
            client.left -= ready
            self._net.publish(client.name, client.home, [client.event] * ready)

    def _subscribe(self, client: _Client) -> None:
        if client.waiting and not self._hear(client):
            return
        if self._net.now < client.at:
            return
        if client.left:
            self._net.unsubscribe(client.name, client.number)
        wanted = {name: self._range(client.rng) for name in ATTRIBUTES}
        client.number = self._net.subscribe(client.name, client.home, _rectangle(wanted))
        client.left, client.waiting = 0, True

    def _range(self, rng: random.Random) -> tuple[float, float]:
        """Return a range of a filter."""
        if self._widths is None:
            low, high = sorted(rng.random() for _ in range(2))
            return low, high
        width = rng.uniform(*self._widths)
        low = rng.uniform(0.0, 1.0 - width)
        return low, low + width

    def _around(self, rng: random.Random, value: float) -> tuple[float, float]:
        """Return a range of an advertisement, around the value of its event."""
        if self._advertised == "event":
            return value, value
        if self._widths is None:
            return rng.uniform(0.0, value), rng.uniform(value, 1.0)
        width = rng.uniform(*self._widths)
        low = rng.uniform(max(0.0, value - width), min(value, 1.0 - width))
        return low, low + width

    def _hear(self, client: _Client) -> bool:
        """Process the judgement of a subscription; return whether there is one."""
        judged = [news for news in self._net.news(client.name) if isinstance(news, Judgement)]
        if len(judged) == client.heard:
            return False
        client.heard, client.waiting = len(judged), False
        self.counts.asked += 1
        self.counts.refused += not judged[-1].admitted
        self.counts.brokers += judged[-1].asked
        client.left = int(judged[-1].admitted)
        client.at = self._net.now + (self._stay_seconds if client.left else 0.0)
        return True


def _rectangle(ranges: Mapping[str, tuple[float, float]]) -> Filter:
    conditions = (attr(name).between(low, high) for name, (low, high) in ranges.items())
    return to_filter(reduce(and_, conditions))
