"""Propagates advertisements through one broker, and collects the answers to them (paper 3, 3.2 and 3.3).

Rules
-----
* An advertisement goes to every broker along the paths of events from its publisher's broker: over the tree,
  or without a tree, over the paths of the scheme (`Books.passes`). A broker that receives one tells the
  neighbour from which it came which of the filters wanted elsewhere it meets, before it sends its answer.
  When all answers have arrived, the publisher's broker therefore knows what is wanted, and its events go
  nowhere else.
* The same holds for a new link: an advertisement that is sent over it is answered when what is wanted of it
  is known.
* The sample of an advertisement's events follows it, over the same links, and counts if it came as the copy that
  counts did. Another is kept, and counts once the copy that came with it does.
* While the tree changes, an advertisement may arrive over two links, one of them out of date. All copies are
  stored. The one with the publisher's latest version counts, among these the one with the shortest path, and
  none whose path contains this broker. So no two brokers can sustain a withdrawn advertisement because each
  has it from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..protocol.batch import EventBatch
from ..protocol.effects import Inform, Plain, Send
from ..protocol.ids import BrokerId, BrokerLink, ClientId
from ..protocol.messages.admission import (
    Advertise,
    Advertised,
    Everywhere,
    Greeting,
    KnownBehind,
    Sample,
    Unadvertise,
    Unadvertised,
)
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books
from .questions import Out, Questions, Shared, Takes
from .sampling import Key


@dataclass(frozen=True, slots=True)
class Offer:
    """An advertisement as it came over one link, with the brokers through which it came."""

    filter: Filter
    rate: int
    path: tuple[BrokerId, ...]
    version: int = 0


@dataclass(slots=True, eq=False)
class Wave:
    """An advertisement in propagation: its key, the link or client to answer, and the neighbours yet to answer."""

    key: Key
    link: BrokerLink
    token: int
    client: ClientId | None
    open: set[BrokerId] = field(default_factory=set)


class Spreading:
    """The advertisements that one broker knows.

    Parameters
    ----------
    books
        The reservations, shared with the other parts that change them.
    questions
        The neighbours, and what they were asked for because of advertisements.

    Attributes
    ----------
    offers
        Each advertisement as it came, by link.
    chosen
        The copy of each advertisement that counts, and its link.
    """

    def __init__(self, books: Books, questions: Questions) -> None:
        self._books = books
        self._questions = questions
        self._waves: dict[BrokerId, dict[int, list[Wave]]] = {}  # the waves that wait for each answer
        self.offers: dict[Key, dict[BrokerLink, Offer]] = {}
        self.chosen: dict[Key, tuple[BrokerLink, Offer]] = {}
        self._beside: dict[tuple[Key, BrokerLink], Sample] = {}  # that came with copies that do not count
        self.takes: Takes = {
            Advertise: self._on_advertise,
            Unadvertise: self._on_unadvertise,
            Advertised: self.on_advertised,
            KnownBehind: self._on_known_behind,
            Sample: self._on_sample,
            Unadvertised: self._on_unadvertised,
        }

    # Neighbours.

    def join(self, link: BrokerId) -> None:
        """Add a broker as a neighbour. It is greeted if it may already know something."""
        self._waves[link] = {}

    def clear(self, link: BrokerId) -> Out:
        """Forget everything that came over a link."""
        keys = [key for key, offers in self.offers.items() if link in offers]
        return [out for key in keys for out in self._withdraw(key, link)]

    def part(self, link: BrokerId) -> Out:
        """Stop waiting for a neighbour that is about to be removed."""
        return self._answered(link, [wave for waves in self._waves.pop(link).values() for wave in waves])

    def greeting(self, link: BrokerId, *, answer: bool) -> Out:
        """Send a neighbour all advertisements. Waves that wait for its answer to one wait for its answer to this."""
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
        out: Out = [Send(link, Greeting(tuple(adverts), answer))]
        out += [each for key in self.chosen for each in self._sampled(key, (link,))]
        return out + self._answered(link, gone)

    # Local publishers.

    def _on_advertise(self, source: ClientId, message: Advertise) -> Out:
        item = message.filter
        wave = Wave((source, message.number), LOCAL, message.number, source)
        rate = self._books.default_rate(wave.key, message.rate) if message.default else message.rate
        return self._offer(wave.key, LOCAL, Offer(item, rate, (), message.version), wave)

    def on_advertised(self, source: BrokerId, message: Advertised) -> Out:
        """Process the advertisement of a publisher elsewhere."""
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
        self._beside.pop((key, link), None)
        if offers.pop(link, None) is None:
            return []
        if not offers:
            del self.offers[key]
        return self._choose(key, Wave(key, link, 0, None))

    def _choose(self, key: Key, wave: Wave) -> Out:
        """Choose the shortest path to the publisher, and tell the other neighbours if the choice has changed."""
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
        books.advertise(key, offer.filter, offer.rate, link, len(offer.path))
        beside = self._beside.pop((key, link), None)
        if beside is not None and beside.path == offer.path:
            books.measure(key, beside.events)
        out: Out = []
        if before is not None:
            out += questions.let_go_of(before[0], before[1].filter)
            out += [  # to the neighbours that no longer get it from here
                Send(other, Unadvertised(*key))
                for other in questions.asked
                if books.passes(before[0], other) and not books.passes(link, other)
            ]
        if link in questions.asked:
            out += questions.demand_known(books.meeting(offer.filter), link)
        for other in questions.asked:
            if books.passes(link, other):
                out.append(Send(other, self._passed_on(key, offer, self._await(other, [wave]))))
                out += self._sampled(key, (other,))
        return out

    def measured(self, key: Key, sample: EventBatch) -> Out:
        """Charge an advertisement by a sample of its events, and tell it to all brokers that know the advertisement."""
        self._books.measure(key, sample)
        return self._sampled(key, self._questions.asked)

    def _sampled(self, key: Key, others: Iterable[BrokerId]) -> Out:
        """Tell neighbours the sample of an advertisement, if there is one and they know the advertisement from here."""
        sample, (link, offer) = self._books.sample(key), self.chosen[key]
        if sample is None:
            return []
        message = Sample(*key, sample, self._path_from_here(offer))
        return [
            Send(other, message)
            for other in others
            if other not in message.path and self._books.passes(link, other)
        ]

    def _on_sample(self, source: BrokerId, message: Sample) -> Out:
        key = message.publisher, message.number
        offer = self.offers.get(key, {}).get(source)
        if offer is None or message.path != offer.path:
            return []  # it comes again, with the advertisement
        if self.chosen[key][0] != source:
            self._beside[key, source] = message
            return []
        return self.measured(key, message.events)

    def _await(self, link: BrokerId, waves: list[Wave]) -> int:
        """Let waves wait for a neighbour's answer, and return the token that the answer will carry."""
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
        """Return what was advertised to a neighbour that may not have reported yet what is wanted of it."""
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
        """Withdraw everything that a local publisher advertises. It gets no answers that are still outstanding."""
        keys = [key for key in self._books.adverts if key[0] == publisher]
        out = [each for key in keys for each in self._withdraw(key, LOCAL)]
        for waves in self._waves.values():
            for wave in (wave for each in waves.values() for wave in each if wave.client == publisher):
                wave.client = None
        return out

    # Comparison with neighbours.

    def passed_on(self, link: BrokerId) -> Iterator[str]:
        """Yield the advertisements that a neighbour was sent, in the form in which it stores them."""
        for key, (source, offer) in self.chosen.items():
            path = self._path_from_here(offer)
            if link not in path and self._books.passes(source, link):
                yield _advert(key, replace(offer, path=path))

    def taken_in(self, link: BrokerId) -> Iterator[str]:
        """Return the advertisements that came from a neighbour."""
        return (_advert(key, each[link]) for key, each in self.offers.items() if link in each)

    # Snapshots.

    def snapshot(self) -> dict[str, Plain]:
        """Return the advertisements and their waves."""
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
            "beside": [(link, sample) for (_, link), sample in self._beside.items()],
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the advertisements of a snapshot."""
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
        self._beside = {((each.publisher, each.number), link): each for link, each in plain.get("beside", ())}

    def check(self) -> None:
        """Assert that the chosen copies are among those received, and equal those in the books; for tests."""
        assert all(offer == self.offers[key][link] for key, (link, offer) in self.chosen.items())
        chosen = {key: (link, offer.filter, offer.rate) for key, (link, offer) in self.chosen.items()}
        assert chosen == {
            key: (each.link, each.filter, each.rate) for key, each in self._books.adverts.items()
        }


def _fields(offer: Offer) -> tuple[object, ...]:
    return offer.filter, offer.rate, offer.path, offer.version


def _advert(key: Key, offer: Offer) -> str:
    return f"advert {key} {offer.filter} {offer.rate} {offer.path} {offer.version}"
