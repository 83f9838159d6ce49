"""The layer that admits: a subscription comes to the router when it may, and events climb only where they are wanted.

Rules
-----
* A subscription goes inwards when it is admitted; a refused one never does.
* Routing on a tree sends every event towards the root. With admission control it climbs only where somebody admitted
  wants it: without that the root would carry every publisher, whoever subscribes, and no book could hold. What is
  wanted of an advertisement is known when the answer to it has come; until then all of its events climb.
* Where events flood, one goes nowhere unless somebody admitted wants it, and then everywhere.
* While a tree is mended, what somebody wants may be known at the root before it is asked for where it is published. So
  what is sent again always climbs, and for `GRACE_HEARTBEATS` after each round of sending again everything does. So it
  does after a greeting of who stands above: it has been started again, and asks for nothing yet, but what is multicast
  reaches others, too. One of these would have a later event before an earlier one, and take that for old.
* A publisher that moves is advertised from elsewhere while its last events are still on the way from where it was, and
  what asked for them there asks elsewhere. So what is not wanted above any more climbs for as long.
* Control goes over the links that membership tells of (`Placed`): those of a fixed network, of a tree that heals, in
  which a cluster is a star around its designated broker, or of a view. When they change, both ends of a new link begin
  anew.
* A layer inside may bring back subscriptions from a store (`Held`), and let some go by itself (`Released`): the books
  are told.
* An event that none of its publisher's advertisements covers goes no further, and is counted.
* Who advertises here is told to the layers inside, where one wants to know. When an advertisement is known everywhere
  is for the books to say.
* A subscription that asks local publishers first (`Register.local_first`) is judged as any other: all others may have
  to be told of it at any time, and it must not be refused then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...admission.advertisements import LOCAL
from ...admission.books import Advert
from ...admission.controller import Admission
from ...admission.flows import HandOn
from ...protocol.configs import Placed
from ...protocol.effects import Inform, Multicast, Plain, Received, Send, Ticked
from ...protocol.ids import BrokerId, ClientId
from ...protocol.layers import Handler, Held, Inward, Out, Released, RoundBegan
from ...protocol.messages.admission import AdmissionConfig, Advertise, Everywhere, Greeting, Unadvertise
from ...protocol.messages.pubsub import Cancel, Detach, Events, Register
from ...routing.filters.filter import Filter
from ...routing.matching.table import RoutingTable

GRACE_HEARTBEATS: Final = 10


class Admitting:
    """Admission control as a layer.

    Parameters
    ----------
    broker
        Whose it is.
    placed
        Where the broker stands at first.
    config
        What it admits.
    hand_on
        How members hand on what is for their cluster; None where it is multicast.
    anew
        Whether it has been started again: its neighbours know more than it does, and have to be greeted.
    grace_seconds
        For how long after a round has begun everything climbs.
    inside
        What layers inside take.
    """

    def __init__(
        self,
        broker: BrokerId,
        placed: Placed,
        config: AdmissionConfig,
        *,
        hand_on: HandOn | None = None,
        anew: bool = False,
        grace_seconds: float = 0.0,
        inside: Collection[type] = (),
    ) -> None:
        self._stands = placed
        self._grace_seconds = grace_seconds
        self._now = 0.0
        self._grace_until = -math.inf
        self.admission = Admission(broker, config, () if anew else placed.neighbours, placed.ways, hand_on)
        self.unadvertised = 0
        self._advertised_here: dict[ClientId, dict[int, Advert]] | None = None  # None: something has changed
        self._above = RoutingTable()  # what goes up; where events flood, what goes anywhere
        self._gates: tuple[int, ...] = ()  # where that is wanted
        self._lingers: dict[
            tuple[Filter, int], float
        ] = {}  # until when something climbs that is not wanted any more
        self._turn()
        adverts = [kind for kind in (Advertise, Unadvertise) if kind in inside]
        looked_at: dict[type, Handler] = {
            **dict.fromkeys((Register, Cancel, Detach), self._on_message),
            **dict.fromkeys(adverts, self._on_advert),
            Events: self._on_events,
            Ticked: self._on_tick,
        }
        self.takes: Mapping[type, Handler] = dict.fromkeys(
            self.admission.takes - looked_at.keys(), self._on_message
        )
        self.sees: Mapping[type, Handler] = looked_at
        self.alters: Mapping[type, Handler] = {
            Send: self._on_send,
            Multicast: self._on_send,
            Placed: self._on_placed,
            RoundBegan: self._on_round,
            Held: self._on_held,
            Released: self._on_released,
            Inform: self._on_inform,
        }

    # On the way in.

    def _on_message(self, event: Received) -> list[Out]:
        if isinstance(event.message, Greeting) and event.source in self._gates:
            self._climb_for_a_while()  # what it wants on behalf of others it has yet to find out
        out = self.admission.handle(event.source, event.message)
        self._follow()
        return out

    def _on_advert(self, event: Received) -> list[Out]:
        return [*self._on_message(event), Inward(event)]

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        self._expire(self._now)
        return [Inward(event)]

    def _on_events(self, event: Received) -> list[Out]:
        if isinstance(event.source, str):
            message: Any = event.message
            advertised = self._advertised(event.source, message)
            if advertised is None:
                return []
            if advertised is not message:
                event = Received(event.source, advertised)
        return [Inward(event)]

    def advertised_by(self, publisher: ClientId) -> Mapping[int, Advert]:
        """Return what a publisher that is attached here advertises, by number."""
        if self._advertised_here is None:
            self._advertised_here = {}
            for (name, number), advert in self.admission.books.adverts.items():
                if advert.link == LOCAL:
                    self._advertised_here.setdefault(name, {})[number] = advert
        return self._advertised_here.get(publisher, {})

    def _advertised(self, publisher: ClientId, message: Events) -> Events | None:
        """Return what the publisher has advertised of its events; None for none of them."""
        hits = np.zeros(len(message.batch), np.bool_)
        for advert in self.advertised_by(publisher).values():
            hits |= advert.filter.evaluate_batch(message.batch, every=True)
        rows = np.flatnonzero(hits)
        self.unadvertised += len(hits) - len(rows)
        return _part(message, rows)

    # On the way out.

    def _on_send(self, effect: Send | Multicast) -> list[Out]:
        """Cut what climbs down to what is wanted above."""
        message = effect.message
        if not isinstance(message, Events) or message.again or not self._climbs(effect):
            return [effect]
        if self._now < self._grace_until:
            return [effect]
        cut = self._cut(message)
        if cut is None:
            return []
        return [effect if cut is message else _with(effect, cut)]

    def _on_inform(self, effect: Inform) -> list[Out]:
        return [] if isinstance(effect.news, Everywhere) else [effect]

    def _climbs(self, effect: Send | Multicast) -> bool:
        """Return whether an effect takes events towards the root."""
        if isinstance(effect, Multicast):
            return self._stands.over_group
        return self._stands.ways.floods or effect.to == self._stands.way_up

    def _cut(self, message: Events) -> Events | None:
        """Return what of the events somebody wants who is reached over the parent, or may want."""
        hits = np.zeros(len(message.batch), np.bool_)
        for _, rows in self._above.route(message.batch).links:
            hits[slice(None) if rows is None else rows] = True
        for gate in self._gates:
            for item in self.admission.spreading.unanswered(gate):
                hits |= item.evaluate_batch(message.batch)
        return _part(message, np.flatnonzero(hits))

    def _on_round(self, news: RoundBegan) -> list[Out]:
        self._climb_for_a_while()
        return []

    def _climb_for_a_while(self) -> None:
        self._grace_until = self._now + self._grace_seconds

    def _on_held(self, news: Held) -> list[Out]:
        """Take a subscription into the books that has been admitted, and is known inside."""
        out = self.admission.handle(news.client, replace(news.register, admitted=True))
        return self._but(out, news.client)

    def _on_released(self, news: Released) -> list[Out]:
        """Take a subscription, or a client, out of the books that is gone inside."""
        return self._but(self.admission.handle(news.client, news.message), news.client)

    def _but(self, out: list[Out], client: ClientId) -> list[Out]:
        """Return what is to be done, without what says of a client inside what is known there."""
        self._follow()
        return [each for each in out if not (isinstance(each, Inward) and _is_from(each, client))]

    def _on_placed(self, placed: Placed) -> list[Out]:
        """Stand elsewhere from now on."""
        self._stands = placed
        out: list[Out] = []
        now = self.admission.neighbours, self.admission.books.flows.ways
        if (placed.neighbours, placed.ways) != now:
            out = self.admission.relink(placed.neighbours, placed.ways)
        self._turn()
        return out

    def _turn(self) -> None:
        """Find the way up, and what is wanted over it."""
        stands = self._stands
        gates: tuple[int, ...] = () if stands.way_up is None else (stands.way_up,)
        if stands.ways.floods:
            gates = (LOCAL, *stands.neighbours)
        if gates != self._gates:
            self._gates, self._above = gates, RoutingTable()
            self._lingers.clear()
            self.admission.books.changes.clear()
            for gate in gates:
                for item in self.admission.books.held.get(gate, ()):
                    self._above.add(item, 0, gate)
        self._follow()

    def _follow(self) -> None:
        """Keep what is advertised here, and what is wanted over the way up, in step with the books."""
        self._advertised_here = None
        changes = self.admission.books.changes
        for item, link, held in changes:
            if link not in self._gates:
                continue
            if not held:
                self._lingers[item, link] = self._now + self._grace_seconds
            elif self._lingers.pop((item, link), None) is None:
                self._above.add(item, 0, link)
        changes.clear()
        self._expire(self._now)

    def _expire(self, now: float) -> None:
        """Let nothing climb any more that has not been wanted for long enough."""
        for (item, link), until in list(self._lingers.items()):
            if now >= until:
                del self._lingers[item, link]
                if self._above.remove(item, 0, link):
                    self._above.drop(item)

    # To be recorded, where nothing moves.

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change what the layer keeps."""
        return type(event.message) in self.admission.takes

    def snapshot(self) -> Plain:
        """Return all that the layer keeps; of a network that stands still neither time nor place."""
        moment = (self._stands, self._now, self._grace_until) if self._grace_seconds else None
        return {
            "admission": self.admission.snapshot(),
            "unadvertised": self.unadvertised,
            "moment": moment,
        }

    def restore(self, plain: Plain) -> None:
        """Be as the layer at this place was whose snapshot that is; only for one that has not handled anything."""
        self.admission.restore(plain["admission"])
        self.unadvertised = plain["unadvertised"]
        if plain.get("moment") is not None:  # stores of earlier versions have none
            self._stands, self._now, self._grace_until = plain["moment"]
        self._gates = ()
        self._turn()

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of what it keeps, and what it has refused to carry."""
        books = self.admission.books
        return {
            "advertisements": len(books.adverts),
            "wanted": sum(map(len, books.held.values())),
            "degraded": self.admission.standings.count(),
            "unadvertised_events": self.unadvertised,
        }

    def check(self) -> None:
        """Assert that the books balance, and that what climbs is what is wanted above; for tests."""
        self.admission.check()
        held = self.admission.books.held
        wanted = {item for gate in self._gates for item in held.get(gate, ())}
        wanted |= {item for item, _ in self._lingers}
        assert {entry.filter for entry in self._above} == wanted


def _part(message: Events, rows: Any) -> Events | None:
    if len(rows) == len(message.batch):
        return message
    return replace(message, batch=message.batch.take(rows)) if len(rows) else None


def _is_from(inward: Inward, client: ClientId) -> bool:
    return isinstance(inward.event, Received) and inward.event.source == client


def _with(effect: Send | Multicast, message: Events) -> Send | Multicast:
    return Multicast(message) if isinstance(effect, Multicast) else Send(effect.to, message)
