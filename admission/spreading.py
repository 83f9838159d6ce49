"""Advertisements on their way through one broker, and what is said of them (paper 3, 3.2 and 3.3).

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..protocol.effects import Inform, Plain, Send
from ..protocol.ids import BrokerId, BrokerLink, ClientId
from ..protocol.messages.admission import (
    Advertise,
    Advertised,
    Everywhere,
    Greeting,
    KnownBehind,
    Unadvertise,
    Unadvertised,
)
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books
from .questions import Out, Questions, Shared, Takes

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
class Wave:
    """An advertisement on its way: which, whom to answer, and whose answers are open."""

    key: Key
    link: BrokerLink
    token: int
    client: ClientId | None
    open: set[BrokerId] = field(default_factory=set)


class Spreading:
    """The advertisements that one broker knows of.

    Parameters
    ----------
    books
        What is reserved for them: shared with whoever else changes it.
    questions
        Who the neighbours are, and what they were asked for because of advertisements.

    Attributes
    ----------
    offers
        Each advertisement as it came, by link.
    chosen
        The one of them that counts, and its link.
    """

    def __init__(self, books: Books, questions: Questions) -> None:
        self._books = books
        self._questions = questions
        self._waves: dict[BrokerId, dict[int, list[Wave]]] = {}  # who waits for which answer of a neighbour
        self.offers: dict[Key, dict[BrokerLink, Offer]] = {}
        self.chosen: dict[Key, tuple[BrokerLink, Offer]] = {}
        self.takes: Takes = {
            Advertise: self._on_advertise,
            Unadvertise: self._on_unadvertise,
            Advertised: self.on_advertised,
            KnownBehind: self._on_known_behind,
            Unadvertised: self._on_unadvertised,
        }

    # Neighbours.

    def join(self, link: BrokerId) -> None:
        """Take a broker for a neighbour from now on; it is greeted where it may know something already."""
        self._waves[link] = {}

    def clear(self, link: BrokerId) -> Out:
        """Forget all that came over a link."""
        keys = [key for key, offers in self.offers.items() if link in offers]
        return [out for key in keys for out in self._withdraw(key, link)]

    def part(self, link: BrokerId) -> Out:
        """Wait no longer for a neighbour that is about to be one no more."""
        return self._answered(link, [wave for waves in self._waves.pop(link).values() for wave in waves])

    def greeting(self, link: BrokerId, *, answer: bool) -> Out:
        """Tell a neighbour all advertisements; who waits for its answer to one waits for its answer to this."""
        before: dict[Key, list[Wave]] = {}
        for waves in self._waves[link].values():
            for wave in waves:
                before.setdefault(wave.key, []).append(wave)
        self._waves[link] = {}
        adverts = []
        for key, (source, offer) in self.chosen.items():
            if self._books.passes(source, link):
                waiting = before.pop(key, [Wave(key, LOCAL, 0, None)])
                adverts.append(self._passed_on(key, offer, self._await(link, waiting)))
        gone = [wave for waves in before.values() for wave in waves]
        return [Send(link, Greeting(tuple(adverts), answer)), *self._answered(link, gone)]

    # Publishers here.

    def _on_advertise(self, source: ClientId, message: Advertise) -> Out:
        item = message.filter
        wave = Wave((source, message.number), LOCAL, message.number, source)
        rate = self._books.default_rate(wave.key, message.rate) if message.default else message.rate
        return self._offer(wave.key, LOCAL, Offer(item, rate, (), message.version), wave)

    def on_advertised(self, source: BrokerId, message: Advertised) -> Out:
        """Take in what a publisher elsewhere will publish."""
        key, item = (message.publisher, message.number), message.filter
        wave = Wave(key, source, message.token, None)
        if self._books.broker in message.path:
            return self._withdraw(key, source) + self._answer(wave)
        offer = Offer(item, message.rate, message.path, message.version)
        return self._offer(key, source, offer, wave)

    def _offer(self, key: Key, link: BrokerLink, offer: Offer, wave: Wave) -> Out:
        self.offers.setdefault(key, {})[link] = offer
        return self._choose(key, wave) + self._answer(wave)

    def _withdraw(self, key: Key, link: BrokerLink) -> Out:
        offers = self.offers.get(key, {})
        if offers.pop(link, None) is None:
            return []
        if not offers:
            del self.offers[key]
        return self._choose(key, Wave(key, link, 0, None))

    def _choose(self, key: Key, wave: Wave) -> Out:
        """Take the shortest way to the publisher, and tell the others when it is another than before."""
        offers = self.offers.get(key, {})

        def rank(link: BrokerLink) -> tuple[int, bool, int, BrokerLink]:
            return -offers[link].version, link != LOCAL, len(offers[link].path), link

        link = min(offers, key=rank, default=None)
        before = self.chosen.get(key)
        if link is None:
            return self._strike_out(key)
        if before is not None and before == (link, offers[link]):
            return []
        offer = offers[link]
        self.chosen[key] = link, offer
        books, questions = self._books, self._questions
        books.advertise(key, offer.filter, offer.rate, link)
        out: Out = []
        if before is not None:
            out += questions.let_go_of(before[0], before[1].filter)
            out += [  # to those whom it does not come to from here any more
                Send(other, Unadvertised(*key))
                for other in questions.asked
                if books.passes(before[0], other) and not books.passes(link, other)
            ]
        if link in questions.asked:
            out += questions.demand_known(books.meeting(offer.filter), link)
        for other in questions.asked:
            if books.passes(link, other):
                out.append(Send(other, self._passed_on(key, offer, self._await(other, [wave]))))
        return out

    def _await(self, link: BrokerId, waves: list[Wave]) -> int:
        """Let waves wait for a neighbour's answer, and return the token that it comes with."""
        token = self._questions.token()
        self._waves[link][token] = waves
        for wave in waves:
            wave.open.add(link)
        return token

    def _passed_on(self, key: Key, offer: Offer, token: int) -> Advertised:
        return Advertised(*key, offer.filter, offer.rate, token, self._path_from_here(offer), offer.version)

    def _path_from_here(self, offer: Offer) -> tuple[BrokerId, ...]:
        return *offer.path, self._books.broker

    def _strike_out(self, key: Key) -> Out:
        link, offer = self.chosen.pop(key)
        self._books.unadvertise(key)
        told = (other for other in self._questions.asked if self._books.passes(link, other))
        out: Out = [Send(other, Unadvertised(*key)) for other in told]
        return out + self._questions.let_go_of(link, offer.filter)

    def _answer(self, wave: Wave) -> Out:
        if wave.open:
            return []
        if wave.client is not None:
            return [Inform(wave.client, Everywhere(wave.token))]
        answerable = wave.token and wave.link in self._questions.asked
        return [Send(wave.link, KnownBehind(wave.token))] if answerable else []

    def unanswered(self, link: BrokerId) -> list[Filter]:
        """Return what was advertised to a neighbour that may not have told yet what is wanted of it."""
        keys = dict.fromkeys(wave.key for waves in self._waves.get(link, {}).values() for wave in waves)
        return [self.chosen[key][1].filter for key in keys if key in self.chosen]

    def _on_known_behind(self, source: BrokerId, message: KnownBehind) -> Out:
        return self._answered(source, self._waves[source].pop(message.token, []))

    def _answered(self, link: BrokerId, waves: Iterable[Wave]) -> Out:
        out: Out = []
        for wave in waves:
            wave.open.discard(link)
            out += self._answer(wave)
        return out

    def _on_unadvertise(self, source: ClientId, message: Unadvertise) -> Out:
        key = source, message.number
        offer = self.offers.get(key, {}).get(LOCAL)
        late = offer is not None and message.version is not None and message.version < offer.version
        return [] if late else self._withdraw(key, LOCAL)

    def _on_unadvertised(self, source: BrokerId, message: Unadvertised) -> Out:
        return self._withdraw((message.publisher, message.number), source)

    def detach(self, publisher: ClientId) -> Out:
        """Withdraw all that a publisher here advertises; nothing that is still to be answered is answered to it."""
        keys = [key for key in self._books.adverts if key[0] == publisher]
        out = [each for key in keys for each in self._withdraw(key, LOCAL)]
        for waves in self._waves.values():
            for wave in (wave for each in waves.values() for wave in each if wave.client == publisher):
                wave.client = None
        return out

    # To be compared with what neighbours know.

    def passed_on(self, link: BrokerId) -> Iterator[str]:
        """Iterate over what a neighbour has been told, as it has it."""
        for key, (source, offer) in self.chosen.items():
            path = self._path_from_here(offer)
            if link not in path and self._books.passes(source, link):
                yield _advert(key, replace(offer, path=path))

    def taken_in(self, link: BrokerId) -> Iterator[str]:
        """Iterate over what has come from a neighbour."""
        return (_advert(key, each[link]) for key, each in self.offers.items() if link in each)

    # To be put down and made again.

    def snapshot(self) -> dict[str, Plain]:
        """Return what is known of advertisements and of their ways."""
        waves = Shared[Wave]()
        waiting = [
            (link, [(token, [waves.number(wave) for wave in each]) for token, each in tokens.items()])
            for link, tokens in self._waves.items()
        ]
        return {
            "waiting": waiting,
            "waves": waves.snapshot(),
            "offers": [
                (key, [(link, _fields(offer)) for link, offer in offers.items()])
                for key, offers in self.offers.items()
            ],
            "chosen": [(key, link, _fields(offer)) for key, (link, offer) in self.chosen.items()],
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Know of the advertisements that that snapshot says."""
        waves = [
            Wave(tuple(key), link, token, client, set(opened))
            for key, link, token, client, opened in plain["waves"]
        ]
        self._waves = {
            link: {token: [waves[number] for number in each] for token, each in tokens}
            for link, tokens in plain["waiting"]
        }
        self.offers = {
            tuple(key): {link: Offer(*offer) for link, offer in offers} for key, offers in plain["offers"]
        }
        self.chosen = {tuple(key): (link, Offer(*offer)) for key, link, offer in plain["chosen"]}

    def check(self) -> None:
        """Assert that what counts is what has come, and what the books have; for tests."""
        assert all(offer == self.offers[key][link] for key, (link, offer) in self.chosen.items())
        chosen = {key: (link, offer.filter, offer.rate) for key, (link, offer) in self.chosen.items()}
        assert chosen == {
            key: (each.link, each.filter, each.rate) for key, each in self._books.adverts.items()
        }


def _fields(offer: Offer) -> tuple[Any, ...]:
    return offer.filter, offer.rate, offer.path, offer.version


def _advert(key: Key, offer: Offer) -> str:
    return f"advert {key} {offer.filter} {offer.rate} {offer.path} {offer.version}"
