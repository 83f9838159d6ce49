"""Requests to the neighbours for filters, and the requests that wait for their verdicts (paper 3, 3.4 and 4.2).

Rules
-----
* A subscription goes to every neighbour that has sent an advertisement which it meets, and from there only
  over links whose events may come this way (`Books.passes`): along the tree, or the paths of the scheme, to
  the publishers. Where the verdicts of all brokers count (`asks_all`), it goes along these to every broker.
  Each broker judges it and reserves, and the verdicts return on the reverse path.
* Under the full guarantee a broker that refuses reserves nothing and asks no further broker (figure 7).
* Between two brokers a subscription is identified by its filter. A filter that a neighbour has already taken
  in is not asked for again: the verdict also counts for later requests.
* A filter that was already admitted is requested without a question (token 0), and may not be refused. This
  holds also while the same filter is being asked about, or after it was refused. A new link turns a question
  into such a request.
* How long events wait is asked of the brokers that they come through, each time anew, since nothing is reserved for
  it. Each broker takes its part off what is left, and the first that needs more refuses. So does a broker that could
  not keep an earlier promise.
* A neighbour's question is answered here. The outcome of a client's own request is decided by `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Never, TypeAlias, TypeVar

from ..protocol import layers
from ..protocol.effects import Plain, Send
from ..protocol.ids import BrokerId, BrokerLink, ClientId
from ..protocol.messages.admission import AdmissionConfig, Ask, AskAnswer, Degraded, Refusal, Release
from ..protocol.messages.pubsub import Register
from ..routing.filters.filter import Filter
from .books import Books
from .degradation import Degradation

T = TypeVar("T")
Out: TypeAlias = list[layers.Out]
Takes: TypeAlias = Mapping[type, Callable[[Never, Never], Out]]
"""The message types of one part, each with its handler, which takes the source and the message."""


@dataclass(slots=True, eq=False)
class Request:
    """A subscription that is being asked for: its source, and the verdicts so far."""

    link: BrokerLink
    token: int  # the token of the neighbour's question, or the client's own number
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
    """A filter that a neighbour was asked for: the requests that wait for the verdict, or the verdict."""

    token: int
    priority: int
    waiting: list[Request] | None
    asked: int = 0
    refusals: tuple[Refusal, ...] = ()


class Questions:
    """The questions of one broker to its neighbours, and theirs to it.

    Parameters
    ----------
    config
        How many brokers may refuse.
    books, degradation
        The reservations, and what filters lack, shared with the other parts that change them.
    decide
        Decides a client's request whose verdicts have all arrived, and returns the effects.

    Attributes
    ----------
    asked
        What each neighbour was asked for. A broker with an entry here is a neighbour.
    """

    def __init__(
        self,
        config: AdmissionConfig,
        books: Books,
        degradation: Degradation,
        decide: Callable[[Request], Out],
    ) -> None:
        self._config = config
        self._books = books
        self._degradation = degradation
        self._decide = decide
        self.asked: dict[BrokerId, dict[Filter, Asked]] = {}
        self._tokens: dict[int, tuple[BrokerId, Filter | None, Request | None]] = {}
        self._next_token = 1
        self.takes: Takes = {
            Ask: self._on_ask,
            AskAnswer: self._on_verdict,
            Release: self._on_release,
        }

    # Neighbours.

    def join(self, link: BrokerId) -> None:
        """Add a broker as a neighbour."""
        self.asked[link] = {}

    def clear(self, link: BrokerId) -> Out:
        """Forget everything that a neighbour was asked for, and stop waiting for its answers."""
        out = [out for item in list(self.asked[link]) for out in self._unask(link, item)]
        for token, (other, _, dry) in list(self._tokens.items()):
            if other == link and dry is not None:
                del self._tokens[token]
                out += self._hear(dry, 0, ())
        return out

    @property
    def asks_all(self) -> bool:
        """Whether a subscription is asked for at every broker, on the way to a publisher or not.

        This is so where a share of all brokers may refuse (4.3: the request goes on along the spanning tree,
        even past brokers that refuse), and where the subscription is a load for every broker.
        """
        counts_all = bool(self._config.refusing_share_max) and self._config.share_of == "all"
        return counts_all or self._books.flows.ways.concerns_all

    def _asks(self, link: BrokerId, item: Filter) -> bool:
        """Return whether a neighbour has to be asked for a filter."""
        return self.asks_all or self._books.comes_from(link, item)

    def token(self) -> int:
        """Return the next token for something that a neighbour answers."""
        self._next_token += 1
        return self._next_token - 1

    # Asking and judging.

    def _on_ask(self, source: BrokerId, message: Ask) -> Out:
        """Judge a neighbour's question, or record what was already admitted."""
        item = message.filter
        if message.max_delay is not None:
            late = Request(source, message.token, item, dry=True, asked=0)
            return self.ask_delay(late, message.max_delay, dry=message.dry) + self.finish(late)
        self._degradation.dropped(item, source)  # a neighbour that asks again has forgotten what it was told
        if message.token == 0:
            self._books.hold(item, source, message.priority)
            return self.demand_all(item, source)
        request = Request(source, message.token, item, dry=message.dry)
        return self.begin(request, message.priority, message.priority)

    def begin(self, request: Request, priority: int, held_with: int) -> Out:
        """Judge a request here, and ask all neighbours that have to be asked.

        Parameters
        ----------
        request
            The request, with its source and filter.
        priority
            The priority with which the neighbours are asked.
        held_with
            The priority with which the filter is held from now on, unless the request is a dry run.
        """
        item, link, books = request.filter, request.link, self._books
        if self._config.refusing_share_max is not None:
            request.refusals += books.refusals(item, link, self._config.share_for(priority))
            refusing = {refusal.broker for refusal in request.refusals}
            # Brokers for which this one has judged.
            request.asked += len(refusing - {books.broker, *self.asked})
        late = books.late(item, link)
        request.refusals += late
        out: Out = []
        if not (late or (request.refusals and self._config.refusing_share_max == 0)):
            if not request.dry:
                books.hold(item, link, held_with)
            for other in self.asked:
                if books.passes(other, link) and self._asks(other, item):
                    out += self._put(request, other, priority)
        return out + self.finish(request)

    def ask_delay(self, request: Request, max_delay: float, *, dry: bool) -> Out:
        """Judge how long the events of a request wait here, and ask the neighbours that they come from.

        Of the time that is left this broker takes the part of one of the brokers on the way, or what it needs if that
        is more. Unless it is a dry run, it then admits nothing by which events would wait longer here.
        """
        item, link, books = request.filter, request.link, self._books
        wait = books.wait(link, item)
        if wait > max_delay:
            request.refusals.append(books.refused_delay(wait, max_delay, link))
            return []
        part = max(wait, max_delay / books.brokers_to(item, link))
        if not dry:
            books.promise(item, link, part)
        out: Out = []
        for other in self.asked:
            if books.passes(other, link) and books.comes_from(other, item):
                request.open += 1
                token = self.token()
                self._tokens[token] = other, None, request
                out.append(Send(other, Ask(item, 0, token, dry, max_delay - part)))
        return out

    def _put(self, request: Request, link: BrokerId, priority: int) -> Out:
        """Ask a neighbour, wait with earlier requests, or take the verdict that is there."""
        item = request.filter
        asked = self.asked[link].get(item)
        if asked is not None and self._deserves_another(asked, priority):
            asked.priority = priority
            request.open += 1
            token = self.token()
            self._tokens[token] = link, None if request.dry else item, request
            return [Send(link, Ask(item, priority, token, request.dry))]
        if asked is not None and asked.waiting is None:
            request.asked += asked.asked
            request.refusals += asked.refusals
            if request.dry or asked.priority >= priority:
                return []
            asked.priority = priority
            return [Send(link, Ask(item, priority, 0))]
        request.open += 1
        if asked is not None and asked.waiting is not None:
            asked.waiting.append(request)
            return []
        token = self.token()
        if request.dry:
            self._tokens[token] = link, None, request
        else:
            self._tokens[token] = link, item, None
            self.asked[link][item] = Asked(token, priority, [request])
        return [Send(link, Ask(item, priority, token, request.dry))]

    def _deserves_another(self, asked: Asked, priority: int) -> bool:
        """Return whether the verdict on a lower priority, refused or awaited, does not count for a higher one."""
        higher = self._config.share_for(priority) > self._config.share_for(asked.priority)
        return higher and (asked.waiting is not None or bool(asked.refusals))

    def _on_verdict(self, source: BrokerId, message: AskAnswer) -> Out:
        link, item, dry = self._tokens.pop(message.token, (None, None, None))
        if link != source:
            return []
        if dry is not None:
            asked = None if item is None else self.asked[source].get(item)
            if asked is not None and asked.waiting is None and not message.refusals:
                asked.asked, asked.refusals = message.asked, ()
            return self._hear(dry, message.asked, message.refusals)
        assert item is not None and link is not None
        asked = self.asked[link].get(item)
        if asked is None or asked.token != message.token:
            return []
        waiting, asked.waiting = asked.waiting or [], None
        asked.asked, asked.refusals = message.asked, message.refusals
        out: Out = []
        for request in waiting:
            out += self._hear(request, message.asked, message.refusals)
        return out

    def _hear(self, request: Request, asked: int, refusals: tuple[Refusal, ...]) -> Out:
        request.open -= 1
        request.asked += asked
        request.refusals += refusals
        return self.finish(request)

    def finish(self, request: Request) -> Out:
        """Answer a request, or pass it to the decision, when all verdicts have arrived."""
        if request.open or request.gone:
            return []
        if request.client is not None:
            return self._decide(request)
        if request.link not in self.asked:
            return []
        refusals = tuple(dict.fromkeys(request.refusals))
        return [Send(request.link, AskAnswer(request.token, request.asked, refusals))]

    # Filters that are already admitted.

    def demand(self, link: BrokerId, item: Filter) -> Send:
        """Ask a neighbour for a filter that was already admitted."""
        priority = self._priority(item, link)
        self.asked[link][item] = Asked(0, priority, None)
        return Send(link, Ask(item, priority, 0))

    def demand_all(self, item: Filter, link: BrokerLink) -> Out:
        """Ask every neighbour that has to be asked for a filter held for a link, whatever was asked before."""
        out: Out = []
        for other, items in self.asked.items():
            if not self._books.passes(other, link) or not self._asks(other, item):
                continue
            asked = items.get(item)
            if asked is not None and asked.waiting is not None:  # its verdict is still awaited
                asked.priority = self._priority(item, other)
                out.append(Send(other, Ask(item, asked.priority, 0)))
            elif self._stale(other, item) or (asked is not None and asked.refusals):
                out.append(self.demand(other, item))
        return out

    def demand_known(self, items: Iterable[Filter], link: BrokerId) -> Out:
        """Ask a neighbour for those of some filters that are wanted elsewhere and that it was not asked for."""
        return [
            self.demand(link, item)
            for item in items
            if item not in self.asked[link] and self._books.wanted_beside(item, link)
        ]

    def demand_anew(self, item: Filter) -> Out:
        """Tell the neighbours that were asked for a filter its present priority."""
        return [
            self.demand(other, item)
            for other in self.asked
            if item in self.asked[other] and self._stale(other, item)
        ]

    def _stale(self, link: BrokerId, item: Filter) -> bool:
        """Return whether a neighbour was not asked for a filter, or with another priority."""
        asked = self.asked[link].get(item)
        return asked is None or (asked.waiting is None and asked.priority != self._priority(item, link))

    def _priority(self, item: Filter, but: BrokerLink) -> int:
        """Return a filter's highest priority over the links to which events from the given link may pass."""
        held, passes = self._books.held, self._books.passes
        return max(held[link][item].priority for link in self._books.holders(item) if passes(but, link))

    # Releasing.

    def _on_release(self, source: BrokerId, message: Release) -> Out:
        return self.drop(message.filter, source)

    def drop(self, item: Filter, link: BrokerLink) -> Out:
        """Stop holding a filter for a link, and release it at neighbours behind which nobody else wants it."""
        books = self._books
        if not books.drop(item, link):
            return []
        # Reports on it may still be in flight when the neighbour asks for it again. They no longer count
        # then.
        told = self._degradation.dropped(item, link)
        out: Out = []
        if isinstance(link, int) and link in self.asked:
            out += [Send(link, Degraded(item, broker, ())) for broker in told]
        for other in self.asked:
            if books.passes(other, link) and item in self.asked[other]:
                if not books.wanted_beside(item, other):
                    out += self._release(other, item)
                elif self._stale(other, item):
                    out.append(self.demand(other, item))
        return out

    def let_go_of(self, link: BrokerLink, item: Filter) -> Out:
        """Release filters that no advertisement behind a link meets any more, after an advertisement was withdrawn."""
        if not isinstance(link, int) or link not in self.asked:
            return []
        meeting = [wanted for wanted in self._books.meeting(item) if wanted in self.asked[link]]
        return [
            out for wanted in meeting if not self._asks(link, wanted) for out in self._release(link, wanted)
        ]

    def _release(self, link: BrokerId, item: Filter) -> Out:
        return [Send(link, Release(item)), *self._unask(link, item)]

    def _unask(self, link: BrokerId, item: Filter) -> Out:
        """Forget that a neighbour was asked for a filter. Requests that wait for its verdict stop waiting."""
        asked = self.asked[link].pop(item)
        self._tokens.pop(asked.token, None)
        self._degradation.unheard(item, link)
        out: Out = []
        for request in asked.waiting or ():
            out += self._hear(request, 0, ())
        return out

    # Snapshots.

    def snapshot(self, requests: Shared[Request]) -> dict[str, Plain]:
        """Return what was asked. Requests are added to those that other parts share."""
        asked = [
            (link, [(item, _asked_plain(each, requests)) for item, each in items.items()])
            for link, items in self.asked.items()
        ]
        tokens = [
            (token, link, item, None if dry is None else requests.number(dry))
            for token, (link, item, dry) in self._tokens.items()
        ]
        return {"asked": asked, "tokens": tokens, "next_token": self._next_token}

    def restore(self, plain: dict[str, Plain], requests: list[Request]) -> None:
        """Restore the questions of a snapshot."""
        self.asked = {
            link: {item: _asked_again(each, requests) for item, each in items}
            for link, items in plain["asked"]
        }
        self._tokens = {
            token: (link, item, None if dry is None else requests[dry])
            for token, link, item, dry in plain["tokens"]
        }
        self._next_token = plain["next_token"]

    def check(self) -> None:
        """Assert that nothing is asked for that no link wants; for tests."""
        for link, items in self.asked.items():
            assert all(self._books.wanted_beside(item, link) for item in items)


def requests_again(plain: list[Any]) -> list[Request]:
    """Restore the requests of a snapshot."""
    made = []
    for *others, refusals, gone in plain:
        request = Request(*others)
        request.refusals, request.gone = list(refusals), gone
        made.append(request)
    return made


def _asked_plain(asked: Asked, requests: Shared[Request]) -> tuple[object, ...]:
    waiting = None if asked.waiting is None else [requests.number(each) for each in asked.waiting]
    return asked.token, asked.priority, waiting, asked.asked, asked.refusals


def _asked_again(plain: tuple[Any, ...], requests: list[Request]) -> Asked:
    token, priority, waiting, asked, refusals = plain
    again = None if waiting is None else [requests[number] for number in waiting]
    return Asked(token, priority, again, asked, refusals)


class Shared(Generic[T]):
    """Objects of one dataclass that several places share. As plain data each occurs once, by number."""

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self.objects: list[T] = list(objects)
        self._numbers = {id(each): number for number, each in enumerate(self.objects)}

    def number(self, each: T) -> int:
        """Return the number of an object, and add the object if it is new."""
        if id(each) not in self._numbers:
            self._numbers[id(each)] = len(self.objects)
            self.objects.append(each)
        return self._numbers[id(each)]

    def snapshot(self) -> Plain:
        """Return the objects as tuples of their fields."""
        return [
            tuple(_plain(getattr(each, field.name)) for field in fields(each))  # type: ignore[arg-type]
            for each in self.objects
        ]


def _plain(value: object) -> object:
    """Return the plain form of a field: a set sorted, a list copied."""
    if isinstance(value, set):
        return sorted(value)
    return list(value) if isinstance(value, list) else value
