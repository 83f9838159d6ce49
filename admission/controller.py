"""Admission control of one broker (paper 3): its parts, and the links that it uses.

Rules
-----
* `spreading` manages the advertisements, `questions` the requests to neighbours, `subscriptions` the clients'
  subscriptions. Each part owns its state. They share the books, and what degrades filters.
* A filter that no longer fits is reported towards its owners, and reported again when it fits again.
* Over a link that is new or leads elsewhere, both ends start over. What came over a link that is gone is
  forgotten, together with the reservations for it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Never

from ..protocol.batch import EventBatch
from ..protocol.configs import IN_A_TREE, Ways
from ..protocol.effects import Plain, Received, Send
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.layers import Inward
from ..protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    CapacityMeasured,
    Degraded,
    DelaysMeasured,
    Greeting,
    Unadvertise,
    WouldAdmit,
)
from ..protocol.messages.pubsub import Cancel, Detach, Register
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books
from .degradation import Degradation
from .flows import Flows, HandOn
from .questions import Out, Questions, Request, Shared, requests_again
from .sampling import Key
from .spreading import Spreading
from .subscriptions import Subscriptions

FROM_CLIENTS = Register | Cancel | Detach | Advertise | Unadvertise | WouldAdmit


class Admission:
    """The admission control of one broker.

    Parameters
    ----------
    broker
        The broker.
    config
        The criterion, the estimator, the capacities.
    neighbours
        The brokers to which it is linked.
    ways
        The paths of events at this broker.
    hand_on
        How members forward what is for their cluster; None if it is multicast.
    """

    def __init__(
        self,
        broker: BrokerId,
        config: AdmissionConfig,
        neighbours: Iterable[BrokerId],
        ways: Ways = IN_A_TREE,
        hand_on: HandOn | None = None,
    ) -> None:
        self.config = config
        capacity, estimator = config.of(broker), config.estimator
        self.books = Books(
            broker,
            capacity,
            estimator,
            ways,
            hand_on,
            config.of,
            config.cpu_counts,
            config.books,
            config.delay_window_seconds,
        )
        self.degradation = Degradation()
        self.questions = Questions(
            config, self.books, self.degradation, lambda request: self.subscriptions.decide(request)
        )
        self.subscriptions = Subscriptions(config, self.books, self.degradation, self.questions)
        self.spreading = Spreading(self.books, self.questions)
        self.strays = 0
        for link in neighbours:
            self._join(link)
        self._handlers: dict[type, Callable[[Never, Never], Out]] = {
            **self.spreading.takes,
            **self.questions.takes,
            **self.subscriptions.takes,
            Detach: self._on_detach,
            Degraded: self._on_degraded,
            Greeting: self._on_greeting,
            CapacityMeasured: self._on_capacity,
            DelaysMeasured: self._on_delays,
        }

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """The brokers to which it is linked."""
        return tuple(self.questions.asked)

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it handles."""
        return frozenset(self._handlers)

    def handle(self, source: Link, message: object) -> Out:
        """Process a message and return the effects; an `Inward` goes to the router now."""
        client_only = isinstance(message, FROM_CLIENTS)
        of_host = isinstance(message, CapacityMeasured | DelaysMeasured) and source == self.books.broker
        if client_only != isinstance(source, str) or not (
            client_only or of_host or source in self.questions.asked
        ):
            self.strays += 1
            return []
        return self._handlers[type(message)](source, message) + self._restand()  # type: ignore[arg-type]

    def measured(self, key: Key, sample: EventBatch) -> Out:
        """Charge an advertisement of a publisher here by a sample of its events, and tell all brokers."""
        return self.spreading.measured(key, sample) + self._restand()

    def _on_detach(self, source: ClientId, message: Detach) -> Out:
        out = self.subscriptions.detach(source) + self.spreading.detach(source)
        return [*out, Inward(Received(source, message))]

    def came_back(self, client: ClientId, numbers: Container[int]) -> Out:
        """Cancel the subscriptions of a client that it does not name when it comes back; return the effects."""
        return self.subscriptions.leave_only(client, numbers) + self._restand()

    # Changes of links.

    def relink(self, neighbours: Iterable[BrokerId], ways: Ways = IN_A_TREE) -> Out:
        """Adapt to new links: forget what came over links that are gone or lead elsewhere, and greet new neighbours.

        If the paths of events among the remaining links change, all of these links start over.
        """
        wanted = list(dict.fromkeys(neighbours))
        stay = [link for link in self.neighbours if link in wanted]
        now = self.books.flows
        moved = ways != now.ways and _paths(now.along(ways), stay) != _paths(now, stay)
        out: Out = []
        gone = [link for link in self.neighbours if moved or link not in wanted]
        for link in gone:
            out += self._part(link)
        out = [each for each in out if not (isinstance(each, Send) and each.to in gone)]
        self.books.lead(ways)
        for link in wanted:
            if link not in self.questions.asked:
                self._join(link)
                out += self.spreading.greeting(link, answer=True)
        return out + self._restand()

    def _join(self, link: BrokerId) -> None:
        self.questions.join(link)
        self.spreading.join(link)
        self.books.join(link)

    def _part(self, link: BrokerId) -> Out:
        out = self._clear(link) + self.spreading.part(link)
        del self.questions.asked[link]
        self.books.leave(link)
        return out

    def _clear(self, link: BrokerId, *, asked: bool = True) -> Out:
        """Forget everything that came over a link, and, with `asked`, everything that was asked over it."""
        out = self.questions.clear(link) if asked else []
        for item in list(self.books.held[link]):
            out += self.questions.drop(item, link)
        return out + self.spreading.clear(link)

    def _on_greeting(self, source: BrokerId, message: Greeting) -> Out:
        """Start over with a neighbour.

        If the greeting answers ours, the neighbour has forgotten what was asked before ours and knows what
        was asked since. That stays. It has also forgotten what it was told; anything that was in flight when
        it greeted no longer counts.
        """
        out = self._clear(source, asked=message.answer)
        out = [
            each
            for each in out
            if not isinstance(each, Send) or each.to != source or isinstance(each.message, Degraded)
        ]
        if message.answer:
            out += self.spreading.greeting(source, answer=False)
        for advert in message.advertisements:
            out += self.spreading.on_advertised(source, advert)
        if self.questions.asks_all:  # everything else that is wanted, wherever it is advertised
            wanted = dict.fromkeys(item for items in self.books.held.values() for item in items)
            out += self.questions.demand_known(wanted, source)
        return out + self._tell_capacity()

    # Filters that no longer fit.

    def _on_capacity(self, source: BrokerId, message: CapacityMeasured) -> Out:
        if source != self.books.broker:
            self.books.member_measured(source, message.events_per_second)
            return []
        self.books.measured(message.events_per_second)
        return self._tell_capacity()

    def _on_delays(self, source: BrokerId, message: DelaysMeasured) -> Out:
        if source == self.books.broker and self.books.delays is not None:
            self.books.delays.tell(message, self.books.reserved())
        return []

    def _tell_capacity(self) -> Out:
        """Report the measured capacity to the designated broker, which keeps the account of this broker too."""
        ways, capacity = self.books.flows.ways, self.books.capacity.events_per_second
        if ways.speaks or capacity == self.config.of(self.books.broker).events_per_second:
            return []
        return [Send(speaker, CapacityMeasured(capacity)) for speaker in ways.group]

    def _on_degraded(self, source: BrokerId, message: Degraded) -> Out:
        item = message.filter
        if item in self.questions.asked[source]:
            self.degradation.heard(item, source, message.broker, message.refusals)
        return []

    def _restand(self) -> Out:
        """Report changes of guarantees to the owners of filters. Only the full guarantee makes promises."""
        if self.config.refusing_share_max != 0:
            return []
        out: Out = []
        mine: dict[Filter, None] = {}
        for item, link, broker, refusals in self.degradation.news(self.books):
            if link == LOCAL:
                mine[item] = None
            else:
                out.append(Send(link, Degraded(item, broker, refusals)))
        for item in mine:
            out += self.subscriptions.tell_owners(item)
        return out

    # Comparison with neighbours.

    def passed_on(self) -> dict[BrokerId, list[str]]:
        """Return, for each neighbour, the advertisements sent to it and the filters that it was asked for."""
        return {
            link: [
                *(_wanted(item, each.priority) for item, each in asked.items()),
                *self.spreading.passed_on(link),
            ]
            for link, asked in self.questions.asked.items()
        }

    def taken_in(self, link: BrokerId) -> list[str]:
        """Return the same entries as received from one neighbour and recorded in the books."""
        held = self.books.held.get(link, {}) if link in self.questions.asked else {}
        return [
            *(_wanted(item, each.priority) for item, each in held.items()),
            *self.spreading.taken_in(link),
        ]

    # Snapshots.

    def snapshot(self) -> Plain:
        """Return the complete state."""
        # Each is in several places, and is restored as one object in all of them.
        requests = Shared[Request]()
        return {
            "books": self.books.snapshot(),
            "standings": self.degradation.snapshot(),
            **self.spreading.snapshot(),
            **self.questions.snapshot(requests),
            **self.subscriptions.snapshot(requests),
            "requests": requests.snapshot(),
            "strays": self.strays,
        }

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot. Only for an instance that has not handled anything."""
        requests = requests_again(plain["requests"])
        self.books.restore(plain["books"])
        self.degradation.restore(plain["standings"])
        self.spreading.restore(plain)
        self.questions.restore(plain, requests)
        self.subscriptions.restore(plain, requests)
        self.strays = plain["strays"]

    def check(self) -> None:
        """Assert that the books balance, and the invariants of each part; for tests."""
        self.books.check()
        self.questions.check()
        self.subscriptions.check()
        self.spreading.check()


def _paths(flows: Flows, links: list[BrokerId]) -> list[bool]:
    """Return between which of the links, and of the clients here, events may pass."""
    ends = (LOCAL, *links)
    return [flows.passes(source, to) for source in ends for to in ends]


def _wanted(item: Filter, priority: int) -> str:
    return f"asked {item} {priority}"
