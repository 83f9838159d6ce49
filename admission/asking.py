"""The side of admission control that asks for subscriptions and judges them (paper 3, 3.4, 4.2 and 4.3).

Rules
-----
* A subscription goes to every neighbour from which an advertisement came that it meets, and from there on only over
  links whose events may come this way (`Books.passes`): so along the tree, or the ways of the scheme, to the
  publishers; or, where the verdicts of all count (`Spreading.asks_all`), along these to every broker. Each judges it
  and reserves; the verdicts come back on the reverse path, and the subscriber's broker decides: of those asked, at
  most a share may refuse (4.3). Else all is released again.
* Under the full guarantee a broker that refuses reserves nothing and asks nobody further (figure 7).
* What a client says again of a subscription that it has is not judged again, and nothing is let go for it.
* Between two brokers a subscription is its filter. One that a neighbour has taken in is not asked for again: its
  verdict counts for whoever comes later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol.configs import IN_A_TREE, Ways
from ..protocol.effects import Inform, Received, Send
from ..protocol.ids import BrokerId, BrokerLink, ClientId
from ..protocol.layers import Inward
from ..protocol.messages.admission import (
    AdmissionConfig,
    Ask,
    AskAnswer,
    Degraded,
    Judgement,
    Refusal,
    Release,
    Standing,
    WouldAdmit,
)
from ..protocol.messages.pubsub import Cancel, Detach, Register
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .flows import HandOn
from .spreading import Asked, Out, Request, Spreading


class Asking(Spreading):
    """Subscriptions of clients and neighbours; parameters as of :class:`~.controller.Admission`."""

    def __init__(
        self,
        broker: BrokerId,
        config: AdmissionConfig,
        neighbours: Iterable[BrokerId],
        ways: Ways = IN_A_TREE,
        hand_on: HandOn | None = None,
    ) -> None:
        super().__init__(broker, config, neighbours, ways, hand_on)
        self._mine: dict[ClientId, dict[int, Filter]] = {}
        self._wanting: dict[Filter, dict[tuple[ClientId, int], int]] = {}  # with the priority
        self._requests: dict[tuple[ClientId, int], Request] = {}

    # Subscriptions of clients.

    def _on_register(self, source: ClientId, message: Register) -> Out:
        item = message.filter
        out: Out = []
        known = self._mine.get(source, {}).get(message.subscription)
        waiting = self._requests.get((source, message.subscription))
        if known == item and waiting is not None:
            waiting.register = message  # said again over another connection; the judgement is on its way
            return []
        if known is not None and known != item:
            out += self._on_cancel(source, Cancel(message.subscription))
        self._mine.setdefault(source, {})[message.subscription] = item
        self._wanting.setdefault(item, {})[source, message.subscription] = message.priority
        request = Request(LOCAL, message.subscription, item, source, message)
        self._requests[source, message.subscription] = request
        if message.admitted or known == item:
            self._hold_mine(item)
            return out + self._demand_all(item, LOCAL) + self._finish(request)
        return out + self._begin(request, message.priority)

    def _hold_mine(self, item: Filter) -> None:
        """Hold a filter of attached clients with the highest priority that one of them gives it."""
        self.books.hold(item, LOCAL, max(self._wanting[item].values()))

    def _on_cancel(self, source: ClientId, message: Cancel) -> Out:
        if message.subscription not in self._mine.get(source, ()):
            return [_pass(source, message)]
        request = self._requests.pop((source, message.subscription), None)
        if request is not None:
            request.gone = True
        return [*self._let_go_mine(source, message.subscription), _pass(source, message)]

    def _let_go_mine(self, client: ClientId, number: int) -> Out:
        item = self._mine[client].pop(number)
        if not self._mine[client]:
            del self._mine[client]
        wanting = self._wanting[item]
        del wanting[client, number]
        if not wanting:
            del self._wanting[item]
            return self._drop(item, LOCAL)
        if item in self.books.held[LOCAL]:
            self._hold_mine(item)
            return [
                self._demand(other, item)
                for other in self._asked
                if item in self._asked[other] and self._stale(other, item)
            ]
        return []

    def _on_detach(self, source: ClientId, message: Detach) -> Out:
        out: Out = []
        for number in list(self._mine.get(source, ())):
            out += self._on_cancel(source, Cancel(number))
        for key in [key for key in self.books.adverts if key[0] == source]:
            out += self._withdraw(key, LOCAL)
        for waves in self._waves.values():
            for wave in (wave for each in waves.values() for wave in each if wave.client == source):
                wave.client = None  # there is nobody to be told any more
        return [each for each in out if not _is_from(source, each)] + [_pass(source, message)]

    def _on_would_admit(self, source: ClientId, message: WouldAdmit) -> Out:
        request = Request(LOCAL, message.number, message.filter, source, dry=True)
        return self._begin(request, message.priority)

    # Asking, and judging.

    def _on_ask(self, source: BrokerId, message: Ask) -> Out:
        item = message.filter
        self.standings.dropped(item, source)  # who asks again has forgotten what it was told
        if message.token == 0:
            self.books.hold(item, source, message.priority)
            return self._demand_all(item, source)
        return self._begin(Request(source, message.token, item, dry=message.dry), message.priority)

    def _demand_all(self, item: Filter, link: BrokerLink) -> Out:
        return [
            self._demand(other, item)
            for other in self._asked
            if self.books.passes(other, link) and self._stale(other, item) and self._asks(other, item)
        ]

    def _stale(self, link: BrokerId, item: Filter) -> bool:
        """Return whether a neighbour was not asked for a filter, or with another priority."""
        asked = self._asked[link].get(item)
        return asked is None or (asked.waiting is None and asked.priority != self._priority(item, link))

    def _begin(self, request: Request, priority: int) -> Out:
        item, link = request.filter, request.link
        if self.config.refusing_share_max is not None:
            request.refusals += self.books.refusals(item, link)
            refusing = {refusal.broker for refusal in request.refusals}
            request.asked += len(refusing - {self.broker, *self._asked})  # in whose name this one has judged
        out: Out = []
        if not (request.refusals and self.config.refusing_share_max == 0):
            if not request.dry and link == LOCAL:
                self._hold_mine(item)
            elif not request.dry:
                self.books.hold(item, link, priority)
            for other in self._asked:
                if self.books.passes(other, link) and self._asks(other, item):
                    out += self._put(request, other, priority)
        return out + self._finish(request)

    def _put(self, request: Request, link: BrokerId, priority: int) -> Out:
        """Ask a neighbour, wait with those who asked before, or take the verdict that is there."""
        item = request.filter
        asked = self._asked[link].get(item)
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
        token = self._token()
        if request.dry:
            self._tokens[token] = link, None, request
        else:
            self._tokens[token] = link, item, None
            self._asked[link][item] = Asked(token, priority, [request])
        return [Send(link, Ask(item, priority, token, request.dry))]

    def _on_verdict(self, source: BrokerId, message: AskAnswer) -> Out:
        link, item, dry = self._tokens.pop(message.token, (None, None, None))
        if link != source:
            return []
        if dry is not None:
            return self._hear(dry, message.asked, message.refusals)
        assert item is not None and link is not None
        asked = self._asked[link].get(item)
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
        return self._finish(request)

    def _finish(self, request: Request) -> Out:
        if request.open or request.gone:
            return []
        refusals = tuple(dict.fromkeys(request.refusals))
        if request.client is None:
            if request.link not in self._asked:
                return []
            return [Send(request.link, AskAnswer(request.token, request.asked, refusals))]
        admitted = self._admits(request.asked, refusals)
        judged = Judgement(request.token, admitted, request.asked, refusals, request.dry)
        out: Out = [Inform(request.client, judged)]
        if request.dry:
            return out
        del self._requests[request.client, request.token]
        assert request.register is not None
        if not admitted:
            return out + self._let_go_mine(request.client, request.token)
        lacking = self.standings.of_clients(request.filter)
        if lacking:
            out.append(Inform(request.client, Standing(request.token, lacking)))
        return [*out, _pass(request.client, request.register)]

    def _admits(self, asked: int, refusals: tuple[Refusal, ...]) -> bool:
        """Return the decision (4.3): a broker that lacks two resources refuses once."""
        share = self.config.refusing_share_max
        return share is None or len({refusal.broker for refusal in refusals}) <= share * asked

    # Releasing.

    def _on_release(self, source: BrokerId, message: Release) -> Out:
        return self._drop(message.filter, source)

    def _drop(self, item: Any, link: BrokerLink) -> Out:
        if not self.books.drop(item, link):
            return []
        # What was told of it may still be under way when the neighbour has asked for it anew: that counts no more.
        told = self.standings.dropped(item, link)
        out: Out = []
        if isinstance(link, int) and link in self._asked:
            out += [Send(link, Degraded(item, broker, ())) for broker in told]
        for other in self._asked:
            if self.books.passes(other, link) and item in self._asked[other]:
                if not self.books.wanted_beside(item, other):
                    out.append(Send(other, Release(item)))
                    out += self._unask(other, item)
                elif self._stale(other, item):
                    out.append(self._demand(other, item))
        return out


def _pass(client: ClientId, message: Register | Cancel | Detach) -> Inward:
    """Return a client's message for the layers inside."""
    return Inward(Received(client, message))


def _is_from(client: ClientId, out: object) -> bool:
    return isinstance(out, Inward) and isinstance(out.event, Received) and out.event.source == client
