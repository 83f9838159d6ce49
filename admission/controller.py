"""Admission control of one broker (paper 3): its two sides put together, and the links that they stand on.

Rules
-----
* `spreading` has advertisements, `asking` subscriptions; both change the same books.
* A filter that no longer fits is reported towards its owners, and reported again when it does.
* Over a link that is new, or leads elsewhere, both ends begin anew; what came over one that is gone is forgotten, and
  so is what was reserved for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..protocol.configs import IN_A_TREE, Ways
from ..protocol.effects import Inform, Plain, Send
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    Advertised,
    Ask,
    AskAnswer,
    CapacityMeasured,
    Degraded,
    Greeting,
    KnownBehind,
    Refusal,
    Release,
    Standing,
    Unadvertise,
    Unadvertised,
    WouldAdmit,
)
from ..protocol.messages.pubsub import Cancel, Detach, Register
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .asking import Asking
from .flows import HandOn
from .pending import Shared
from .spreading import Asked, Key, Offer, Out, Request, Wave


class Admission(Asking):
    """The admission side of one broker.

    Parameters
    ----------
    broker
        Whose it is.
    config
        The criterion, the estimator, the capacities.
    neighbours
        The brokers that it is joined to.
    ways
        How events go here.
    hand_on
        How members hand on what is for their cluster; None where it is multicast.
    """

    def __init__(
        self,
        broker: BrokerId,
        config: AdmissionConfig,
        neighbours: Iterable[BrokerId],
        ways: Ways = IN_A_TREE,
        hand_on: HandOn | None = None,
    ) -> None:
        super().__init__(broker, config, neighbours, ways, hand_on)
        self.strays = 0
        self._handlers: dict[type, Callable[[Any, Any], Out]] = {
            Advertise: self._on_advertise,
            Unadvertise: self._on_unadvertise,
            Advertised: self._on_advertised,
            KnownBehind: self._on_spread,
            Unadvertised: self._on_unadvertised,
            Register: self._on_register,
            Cancel: self._on_cancel,
            Detach: self._on_detach,
            WouldAdmit: self._on_would_admit,
            Ask: self._on_ask,
            AskAnswer: self._on_verdict,
            Release: self._on_release,
            Degraded: self._on_degraded,
            Greeting: self._on_greeting,
            CapacityMeasured: self._on_capacity,
        }

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """The brokers that it is joined to."""
        return tuple(self._asked)

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        return frozenset(self._handlers)

    def handle(self, source: Link, message: Any) -> Out:
        """Take in a message and return what is to be done; `Inward` is for the router now."""
        client_only = isinstance(message, Register | Cancel | Detach | Advertise | Unadvertise | WouldAdmit)
        of_host = isinstance(message, CapacityMeasured) and source == self.broker
        if client_only != isinstance(source, str) or not (client_only or of_host or source in self._asked):
            self.strays += 1
            return []
        return self._handlers[type(message)](source, message) + self._restand()

    # Links that come and go.

    def relink(self, neighbours: Iterable[BrokerId], ways: Ways = IN_A_TREE) -> Out:
        """Stand elsewhere: forget what came over links that are gone, or lead elsewhere, and greet whoever is new.

        When events may go other ways than before among the links that stay, all of them begin anew.
        """
        wanted = list(dict.fromkeys(neighbours))
        stay = [link for link in self._asked if link in wanted]
        before = self._ways_among(stay)
        old = self.books.flows.ways
        self.books.lead(ways)
        moved = self._ways_among(stay) != before
        self.books.lead(old)
        out: Out = []
        gone = [link for link in self._asked if moved or link not in wanted]
        for link in gone:
            out += self._part(link)
        out = [each for each in out if not (isinstance(each, Send) and each.to in gone)]
        self.books.lead(ways)
        for link in wanted:
            if link not in self._asked:
                self._join(link)
                out += self._greet(link, answer=True)
        return out + self._restand()

    def _ways_among(self, links: list[BrokerId]) -> list[bool]:
        passes = self.books.passes
        ends = (LOCAL, *links)
        return [passes(source, to) for source in ends for to in ends]

    def _part(self, link: BrokerId) -> Out:
        out = self._clear(link)
        for token, (other, _, dry) in list(self._tokens.items()):
            if other == link and dry is not None:
                del self._tokens[token]
                out += self._hear(dry, 0, ())
        out += self._answered(link, [wave for waves in self._waves.pop(link).values() for wave in waves])
        del self._asked[link]
        self.books.leave(link)
        return [each for each in out if not (isinstance(each, Send) and each.to == link)]

    def _clear(self, link: BrokerId, *, asked: bool = True) -> Out:
        """Forget all that came over a link, and, with `asked`, all that was asked over it."""
        out: Out = []
        for item in list(self._asked[link]) if asked else ():
            out += self._unask(link, item)
        for item in list(self.books.held[link]):
            out += self._drop(item, link)
        for key in [key for key, offers in self._offers.items() if link in offers]:
            out += self._withdraw(key, link)
        return out

    def _greet(self, link: BrokerId, *, answer: bool) -> Out:
        """Tell a neighbour all advertisements; who waits for its answer to one waits for its answer to this."""
        before: dict[Key, list[Wave]] = {}
        for waves in self._waves[link].values():
            for wave in waves:
                before.setdefault(wave.key, []).append(wave)
        self._waves[link] = {}
        adverts = []
        for key, (source, offer) in self._chosen.items():
            if self.books.passes(source, link):
                waiting = before.pop(key, [Wave(key, LOCAL, 0, None)])
                adverts.append(self._passed_on(key, offer, self._await(link, waiting)))
        gone = [wave for waves in before.values() for wave in waves]
        return [Send(link, Greeting(tuple(adverts), answer)), *self._answered(link, gone)]

    def _on_greeting(self, source: BrokerId, message: Greeting) -> Out:
        """Begin anew with a neighbour.

        When it answers ours it has forgotten what was asked before that, and knows what was asked since: that stays.
        """
        out = self._clear(source, asked=message.answer)
        out = [each for each in out if not (isinstance(each, Send) and each.to == source)]
        if message.answer:
            out += self._greet(source, answer=False)
        for advert in message.advertisements:
            out += self._on_advertised(source, advert)
        if self.asks_all:
            out += self._ask_the_rest(source)
        return out + self._tell_capacity()

    def _ask_the_rest(self, link: BrokerId) -> Out:
        """Ask a neighbour for all that is wanted elsewhere and was not asked for with its advertisements."""
        wanted = dict.fromkeys(item for items in self.books.held.values() for item in items)
        return [
            self._demand(link, item)
            for item in wanted
            if item not in self._asked[link] and self.books.wanted_beside(item, link)
        ]

    # What no longer fits.

    def _on_capacity(self, source: BrokerId, message: CapacityMeasured) -> Out:
        if source != self.broker:
            self.books.member_measured(source, message.events_per_second)
            return []
        self.books.measured(message.events_per_second)
        return self._tell_capacity()

    def _tell_capacity(self) -> Out:
        """Tell the broker that speaks for the cluster what was measured: it has the account of this one too."""
        ways, capacity = self.books.flows.ways, self.books.capacity.events_per_second
        if ways.speaks or capacity == self.config.of(self.broker).events_per_second:
            return []
        return [Send(speaker, CapacityMeasured(capacity)) for speaker in ways.group]

    def _on_degraded(self, source: BrokerId, message: Degraded) -> Out:
        item = message.filter
        if item in self._asked[source]:
            self.standings.heard(item, source, message.broker, message.refusals)
        return []

    def _restand(self) -> Out:
        """Tell the owners of filters what has changed in how they stand; only the full guarantee promises anything."""
        if self.config.refusing_share_max != 0:
            return []
        out: Out = []
        mine: dict[Filter, None] = {}
        for item, link, broker, refusals in self.standings.news(self.books):
            if link == LOCAL:
                mine[item] = None
            else:
                out.append(Send(link, Degraded(item, broker, refusals)))
        for item in mine:
            for client, number in self._wanting.get(item, ()):
                if (client, number) not in self._requests:
                    out.append(Inform(client, Standing(number, self.standings.of_clients(item))))
        return out

    def lacking(self, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what the subscriptions of a client lack, by number; those that lack nothing are not there."""
        found = {
            number: self.standings.of_clients(item)
            for number, item in self._mine.get(client, {}).items()
            if (client, number) not in self._requests
        }
        return {number: refusals for number, refusals in found.items() if refusals}

    # To be compared with what neighbours know.

    def passed_on(self) -> dict[BrokerId, list[str]]:
        """Return for each neighbour the advertisements that went there, and the filters that it was asked for."""
        return {
            link: [*(f"asked {item} {each.priority}" for item, each in asked.items()), *self._offered(link)]
            for link, asked in self._asked.items()
        }

    def _offered(self, link: BrokerId) -> Iterator[str]:
        for key, (source, offer) in self._chosen.items():
            path = *offer.path, self.broker
            if link not in path and self.books.passes(source, link):
                yield _advert(key, replace(offer, path=path))

    def taken_in(self, link: BrokerId) -> list[str]:
        """Return the same as it has come from a neighbour and stands in the books."""
        held = self.books.held.get(link, {}) if link in self._asked else {}
        offers = (_advert(key, each[link]) for key, each in self._offers.items() if link in each)
        return [*(f"asked {item} {each.priority}" for item, each in held.items()), *offers]

    # To be put down and made again.

    def snapshot(self) -> Plain:
        """Return all that this side keeps: books, standings, requests, tokens, waves."""
        requests = Shared[Request]()
        asked = [
            (link, [(item, _asked_plain(each, requests)) for item, each in items.items()])
            for link, items in self._asked.items()
        ]
        tokens = [
            (token, link, item, None if dry is None else requests.number(dry))
            for token, (link, item, dry) in self._tokens.items()
        ]
        return self._spread_snapshot() | {
            "asked": asked,
            "tokens": tokens,
            "mine": {client: dict(items) for client, items in self._mine.items()},
            "wanting": [(item, list(who.items())) for item, who in self._wanting.items()],
            "open": [(key, requests.number(each)) for key, each in self._requests.items()],
            "requests": requests.snapshot(),
            "strays": self.strays,
        }

    def restore(self, plain: Plain) -> None:
        """Be as the side was whose snapshot that is; only for one that has not handled anything."""
        self._restore_spread(plain)
        requests = [_request(*each) for each in plain["requests"]]
        self._asked = {
            link: {item: _asked_again(each, requests) for item, each in items}
            for link, items in plain["asked"]
        }
        self._tokens = {
            token: (link, item, None if dry is None else requests[dry])
            for token, link, item, dry in plain["tokens"]
        }
        self._mine = {client: dict(items) for client, items in plain["mine"].items()}
        self._wanting = {
            item: {tuple(key): priority for key, priority in who} for item, who in plain["wanting"]
        }
        self._requests = {tuple(key): requests[number] for key, number in plain["open"]}
        self.strays = plain["strays"]

    def check(self) -> None:
        """Assert that the books balance and that nothing is asked for that nobody wants; for tests."""
        self.books.check()
        for link, items in self._asked.items():
            assert all(self.books.wanted_beside(item, link) for item in items)
        assert set(self.books.held[LOCAL]) <= set(self._wanting)
        assert all(items for items in self._wanting.values())
        assert all(offer == self._offers[key][link] for key, (link, offer) in self._chosen.items())
        chosen = {key: (link, offer.filter, offer.rate) for key, (link, offer) in self._chosen.items()}
        assert chosen == {
            key: (each.link, each.filter, each.rate) for key, each in self.books.adverts.items()
        }


def _advert(key: Key, offer: Offer) -> str:
    return f"advert {key} {offer.filter} {offer.rate} {offer.path} {offer.version}"


def _asked_plain(asked: Asked, requests: Shared[Request]) -> tuple[Any, ...]:
    waiting = None if asked.waiting is None else [requests.number(each) for each in asked.waiting]
    return asked.token, asked.priority, waiting, asked.asked, asked.refusals


def _asked_again(plain: tuple[Any, ...], requests: list[Request]) -> Asked:
    token, priority, waiting, asked, refusals = plain
    again = None if waiting is None else [requests[number] for number in waiting]
    return Asked(token, priority, again, asked, refusals)


def _request(*plain: Any) -> Request:
    *others, refusals, gone = plain
    request = Request(*others)
    request.refusals, request.gone = list(refusals), gone
    return request
