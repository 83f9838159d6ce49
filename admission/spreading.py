"""The side of admission control that spreads advertisements and says what is wanted of them (paper 3, 3.2 and 3.3).

Rules
-----
* An advertisement goes to every broker the ways that events go from its publisher's broker: over the tree, or where
  there is none, those of the scheme (`Books.passes`). Whoever hears of one tells the
  neighbour that it came from which of the filters wanted elsewhere it meets, before the answer: so when the answers
  are in, the publisher's broker knows what is wanted, and its events go nowhere else.
* So it is over a link that is new: what is told over it is answered when what is wanted of it is known.
* While the tree changes an advertisement may come over two links, one of them out of date. All are kept, what the
  publisher said last counts, of that the shortest path, and none that leads through this broker: so no two brokers
  believe in one that is gone because each has it from the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..protocol import layers
from ..protocol.configs import IN_A_TREE, Ways
from ..protocol.effects import Inform, Plain, Send
from ..protocol.ids import BrokerId, BrokerLink, ClientId
from ..protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    Advertised,
    Ask,
    Everywhere,
    KnownBehind,
    Refusal,
    Release,
    Unadvertise,
    Unadvertised,
)
from ..protocol.messages.pubsub import Register
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books
from .degradation import Degradation
from .flows import HandOn
from .pending import Shared

Out: TypeAlias = list[layers.Out]
Key: TypeAlias = tuple[ClientId, int]
"""An advertisement: whose, and which of his."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An advertisement as it came over one link, with the brokers that it came through."""

    filter: Filter
    rate: int
    path: tuple[BrokerId, ...]
    version: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """A subscription that is being asked for: by whom, and what was said so far."""

    link: BrokerLink
    token: int  # of the neighbour's question, or the client's own number
    filter: Filter
    client: ClientId | None = None
    register: Register | None = None
    dry: bool = False
    open: int = 0
    asked: int = 1
    refusals: list[Refusal] = field(default_factory=list)
    gone: bool = False


@dataclass(slots=True, eq=False)
class Asked:
    """A filter that a neighbour was asked for: who waits for the verdict, or what it was."""

    token: int
    priority: int
    waiting: list[Request] | None
    asked: int = 0
    refusals: tuple[Refusal, ...] = ()


@dataclass(slots=True, eq=False)
class Wave:
    """An advertisement on its way: which, whom to answer, and whose answers are open."""

    key: Key
    link: BrokerLink
    token: int
    client: ClientId | None
    open: set[BrokerId] = field(default_factory=set)


class Spreading:
    """Advertisements, and what the neighbours were asked for; parameters as of :class:`~.controller.Admission`."""

    def __init__(
        self,
        broker: BrokerId,
        config: AdmissionConfig,
        neighbours: Iterable[BrokerId],
        ways: Ways = IN_A_TREE,
        hand_on: HandOn | None = None,
    ) -> None:
        self.broker = broker
        self.config = config
        capacity, estimator = config.of(broker), config.estimator
        self.books = Books(broker, capacity, estimator, ways, hand_on, config.of, config.cpu_counts)
        self.standings = Degradation()
        self._asked: dict[BrokerId, dict[Filter, Asked]] = {}
        self._tokens: dict[int, tuple[BrokerId, Filter | None, Request | None]] = {}
        self._waves: dict[BrokerId, dict[int, list[Wave]]] = {}  # who waits for which answer of a neighbour
        self._offers: dict[Key, dict[BrokerLink, Offer]] = {}
        self._chosen: dict[Key, tuple[BrokerLink, Offer]] = {}
        self._next_token = 1
        for link in neighbours:
            self._join(link)

    def _join(self, link: BrokerId) -> None:
        self._asked[link] = {}
        self._waves[link] = {}
        self.books.join(link)

    @property
    def asks_all(self) -> bool:
        """Whether a subscription is asked for at every broker, be it on the way to a publisher or not.

        So it is where a share of all may refuse (4.3: it goes on along the spanning tree, whoever refuses), and where
        it is a load for everybody.
        """
        counts_all = bool(self.config.refusing_share_max) and self.config.share_of == "all"
        return counts_all or self.books.flows.ways.concerns_all

    def _asks(self, link: BrokerId, item: Filter) -> bool:
        """Return whether a neighbour has to be asked for a filter."""
        return self.asks_all or self.books.comes_from(link, item)

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token - 1

    def _on_advertise(self, source: ClientId, message: Advertise) -> Out:
        item = message.filter
        wave = Wave((source, message.number), LOCAL, message.number, source)
        rate = self.books.default_rate(wave.key, message.rate) if message.default else message.rate
        return self._offer(wave.key, LOCAL, Offer(item, rate, (), message.version), wave)

    def _on_advertised(self, source: BrokerId, message: Advertised) -> Out:
        key, item = (message.publisher, message.number), message.filter
        wave = Wave(key, source, message.token, None)
        if self.broker in message.path:
            return self._withdraw(key, source) + self._answer(wave)
        offer = Offer(item, message.rate, message.path, message.version)
        return self._offer(key, source, offer, wave)

    def _offer(self, key: Key, link: BrokerLink, offer: Offer, wave: Wave) -> Out:
        self._offers.setdefault(key, {})[link] = offer
        return self._choose(key, wave) + self._answer(wave)

    def _withdraw(self, key: Key, link: BrokerLink) -> Out:
        offers = self._offers.get(key, {})
        if offers.pop(link, None) is None:
            return []
        if not offers:
            del self._offers[key]
        return self._choose(key, Wave(key, link, 0, None))

    def _choose(self, key: Key, wave: Wave) -> Out:
        """Take the shortest way to the publisher, and tell the others when it is another than before."""
        offers = self._offers.get(key, {})

        def rank(link: BrokerLink) -> tuple[int, bool, int, BrokerLink]:
            return -offers[link].version, link != LOCAL, len(offers[link].path), link

        link = min(offers, key=rank, default=None)
        before = self._chosen.get(key)
        if link is None:
            return self._strike_out(key)
        if before is not None and before == (link, offers[link]):
            return []
        offer = offers[link]
        self._chosen[key] = link, offer
        self.books.advertise(key, offer.filter, offer.rate, link)
        out: Out = []
        if before is not None and before[0] in self._asked:
            out += self._let_go_of(before[0], before[1].filter)
        passes = self.books.passes
        if before is not None:  # whom it does not come to from here any more
            left = (other for other in self._asked if passes(before[0], other) and not passes(link, other))
            out += [Send(other, Unadvertised(*key)) for other in left]
        if link in self._asked:
            out += self._tell_wants(link, offer.filter)
        for other in self._asked:
            if passes(link, other):
                out.append(Send(other, self._passed_on(key, offer, self._await(other, [wave]))))
        return out

    def _await(self, link: BrokerId, waves: list[Wave]) -> int:
        """Let waves wait for a neighbour's answer, and return the token that it comes with."""
        token = self._token()
        self._waves[link][token] = waves
        for wave in waves:
            wave.open.add(link)
        return token

    def _passed_on(self, key: Key, offer: Offer, token: int) -> Advertised:
        return Advertised(*key, offer.filter, offer.rate, token, (*offer.path, self.broker), offer.version)

    def _strike_out(self, key: Key) -> Out:
        link, offer = self._chosen.pop(key)
        self.books.unadvertise(key)
        told = (other for other in self._asked if self.books.passes(link, other))
        out: Out = [Send(other, Unadvertised(*key)) for other in told]
        return out + (self._let_go_of(link, offer.filter) if link in self._asked else [])

    def _answer(self, wave: Wave) -> Out:
        if wave.open:
            return []
        if wave.client is not None:
            return [Inform(wave.client, Everywhere(wave.token))]
        answerable = wave.token and wave.link in self._asked
        return [Send(wave.link, KnownBehind(wave.token))] if answerable else []

    def unanswered(self, link: BrokerId) -> list[Filter]:
        """Return what was advertised to a neighbour that may not have told yet what is wanted of it."""
        keys = dict.fromkeys(wave.key for waves in self._waves.get(link, {}).values() for wave in waves)
        return [self._chosen[key][1].filter for key in keys if key in self._chosen]

    def _on_spread(self, source: BrokerId, message: KnownBehind) -> Out:
        return self._answered(source, self._waves[source].pop(message.token, []))

    def _answered(self, link: BrokerId, waves: Iterable[Wave]) -> Out:
        out: Out = []
        for wave in waves:
            wave.open.discard(link)
            out += self._answer(wave)
        return out

    def _tell_wants(self, link: BrokerId, item: Filter) -> Out:
        """Ask the neighbour for every filter wanted elsewhere that meets a new advertisement of its side."""
        out: Out = []
        for wanted in self.books.meeting(item):
            if wanted not in self._asked[link] and self.books.wanted_beside(wanted, link):
                out.append(self._demand(link, wanted))
        return out

    def _demand(self, link: BrokerId, item: Filter) -> Send:
        """Ask for a filter that was admitted already."""
        priority = self._priority(item, link)
        self._asked[link][item] = Asked(0, priority, None)
        return Send(link, Ask(item, priority, 0))

    def _priority(self, item: Filter, but: BrokerLink) -> int:
        """Return the highest priority with which a filter is wanted where events may go that come over a link."""
        held, passes = self.books.held, self.books.passes
        return max(held[link][item].priority for link in self.books.holders(item) if passes(but, link))

    def _on_unadvertise(self, source: ClientId, message: Unadvertise) -> Out:
        key = source, message.number
        offer = self._offers.get(key, {}).get(LOCAL)
        late = offer is not None and message.version is not None and message.version < offer.version
        return [] if late else self._withdraw(key, LOCAL)

    def _on_unadvertised(self, source: BrokerId, message: Unadvertised) -> Out:
        return self._withdraw((message.publisher, message.number), source)

    def _let_go_of(self, link: BrokerId, item: Filter) -> Out:
        """Release what nothing behind a neighbour meets any more, now that an advertisement is gone."""
        out: Out = []
        for wanted in [wanted for wanted in self.books.meeting(item) if wanted in self._asked.get(link, ())]:
            if not self._asks(link, wanted):
                out.append(Send(link, Release(wanted)))
                out += self._unask(link, wanted)
        return out

    def _unask(self, link: BrokerId, item: Filter) -> Out:
        """Forget that a neighbour was asked for a filter; whoever waits for its verdict waits no longer."""
        asked = self._asked[link].pop(item)
        self._tokens.pop(asked.token, None)
        self.standings.unheard(item, link)
        out: Out = []
        for request in asked.waiting or ():
            out += self._hear(request, 0, ())
        return out

    def _spread_snapshot(self) -> dict[str, Plain]:
        """Return what is known of advertisements and of their ways."""
        waves = Shared[Wave]()
        waiting = [
            (link, [(token, [waves.number(wave) for wave in each]) for token, each in tokens.items()])
            for link, tokens in self._waves.items()
        ]
        return {
            "books": self.books.snapshot(),
            "standings": self.standings.snapshot(),
            "waiting": waiting,
            "waves": waves.snapshot(),
            "offers": [
                (key, [(link, _fields(offer)) for link, offer in offers.items()])
                for key, offers in self._offers.items()
            ],
            "chosen": [(key, link, _fields(offer)) for key, (link, offer) in self._chosen.items()],
            "next_token": self._next_token,
        }

    def _restore_spread(self, plain: dict[str, Plain]) -> None:
        self.books.restore(plain["books"])
        self.standings.restore(plain["standings"])
        waves = [
            Wave(tuple(key), link, token, client, set(opened))
            for key, link, token, client, opened in plain["waves"]
        ]
        self._waves = {
            link: {token: [waves[number] for number in each] for token, each in tokens}
            for link, tokens in plain["waiting"]
        }
        self._offers = {
            tuple(key): {link: Offer(*offer) for link, offer in offers} for key, offers in plain["offers"]
        }
        self._chosen = {tuple(key): (link, Offer(*offer)) for key, link, offer in plain["chosen"]}
        self._next_token = plain["next_token"]

    def _hear(self, request: Request, asked: int, refusals: tuple[Refusal, ...]) -> Out:
        """Take in a verdict for a request; the side that asks knows how."""
        raise NotImplementedError


def _fields(offer: Offer) -> tuple[Any, ...]:
    return offer.filter, offer.rate, offer.path, offer.version
