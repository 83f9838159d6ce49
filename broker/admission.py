"""The admission layer: passes admitted subscriptions to the router, and limits which events go up the tree.

Rules
-----
* A subscription passes inwards once it is admitted. A refused subscription never does.
* Routing on a tree sends every event towards the root. With admission control an event goes up only where an admitted
  subscription wants it. Otherwise the root would carry the events of every publisher, whatever is subscribed to, and
  no broker's books could hold. The demand for an advertisement is known once its answer has arrived; until then all
  of its events go up.
* Under flooding, an event goes nowhere unless an admitted subscription wants it, and then everywhere.
* While a tree is repaired, the root may know of a subscription before the publisher's broker is asked for its events.
  So retransmitted events always go up, and for `GRACE_HEARTBEATS` after the start of each round of retransmission all
  events go up.
* The same holds after a greeting from the broker above: it has restarted and asks for nothing yet, but a multicast
  reaches other brokers too. One of those would receive a later event before an earlier one, and discard the earlier
  one as old.
* A publisher that moves is advertised from its new broker while its last events are still in flight from the old one,
  and the brokers that asked for them there now ask elsewhere. So events that are no longer wanted above keep going up
  for the same time.
* Control messages use the links that membership reports (`Placed`): those of a fixed network, of a tree that heals,
  in which a cluster is a star around its designated broker, or of a view. When the links change, both ends of a new
  link start from scratch.
* A layer inside may restore subscriptions from a store (`Held`), may release a client by itself (`Released`), and says
  which subscriptions of a durable subscriber are left when it comes back (`CameBack`): one that still waits for its
  verdict is not, unless it is asked for again. The books are updated in all cases.
* An event that no advertisement of its publisher covers goes no further, and is counted.
* Where demand is measured, the events that publishers here publish are sampled by advertisement, and the books here
  and elsewhere are told the samples.
* Layers inside that ask for it are told which publishers advertise here. The books decide when an advertisement is
  known everywhere.
* A subscription that asks local publishers first (`Register.local_first`) is judged like any other: all other brokers
  may have to be told of it at any time, and it must not be refused then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from ..admission.advertisements import LOCAL
from ..admission.books import Advert
from ..admission.controller import Admission
from ..admission.flows import HandOn
from ..admission.sampling import Key, Sampler
from ..protocol.batch import Rows
from ..protocol.configs import Placed
from ..protocol.effects import Inform, Multicast, Plain, Received, Send, Ticked
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.layers import CameBack, Handler, Held, Inward, Out, Released, RoundBegan
from ..protocol.messages.admission import AdmissionConfig, Advertise, Everywhere, Greeting, Unadvertise
from ..protocol.messages.pubsub import Cancel, Detach, Events, Register
from ..protocol.queries import Answering, BookSizes, LacksOf, Query
from ..recovery.membership.stating import learn, stated
from ..recovery.replay.high_water import HighWater
from ..routing.filters.filter import Filter
from ..routing.matching.table import RoutingTable

GRACE_HEARTBEATS: Final = 10


class Controller(Query[Admission | None]):
    """The machine of admission control with its books, for inspection; None without admission control."""

    otherwise = None


class Admitting:
    """Admission control as a layer.

    Parameters
    ----------
    broker
        The broker that the layer belongs to.
    placed
        The initial place of the broker in the network.
    config
        Admission policy and capacity.
    hand_on
        How members of the cluster pass events on among themselves; None where events are multicast.
    anew
        Whether the broker has been restarted: its neighbours know more than it does, and it has to greet them.
    grace_seconds
        How long all events go up after a round has begun.
    inside
        The message types that layers inside take.
    high_water
        The numbers of publishers that this broker knows; None in a network that does not heal.
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
        high_water: HighWater | None = None,
    ) -> None:
        self._high_water = high_water
        self._place = placed
        self._grace_seconds = grace_seconds
        self._now = 0.0
        self._grace_until = -math.inf
        self.admission = Admission(broker, config, () if anew else placed.neighbours, placed.ways, hand_on)
        self.unadvertised = 0
        self._samplers: dict[Key, Sampler] | None = {} if config.estimator == "measured" else None
        self._advertised_here: dict[ClientId, dict[int, Advert]] | None = None  # None: has to be rebuilt
        self._above = RoutingTable()  # filters of events that go up; under flooding, that go anywhere
        self._upward_links: tuple[int, ...] = ()  # the links over which those filters are wanted
        self._expiring: dict[
            tuple[Filter, int], float
        ] = {}  # until when a filter still lets events go up after it is no longer wanted
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
            CameBack: self._on_came_back,
            Inform: self._on_inform,
        }

    # Inbound.

    def _on_message(self, event: Received) -> list[Out]:
        if isinstance(event.message, Greeting) and event.source in self._upward_links:
            self._send_all_up_for_a_while()  # the restarted broker has yet to find out what others want through it
        if self._high_water is not None:
            learn(self._high_water, event)
        out = self._say(self.admission.handle(event.source, event.message))
        self._follow()
        return out

    def _say(self, out: list[Out]) -> list[Out]:
        """Return what the books send, with the numbers of publishers that this broker knows.

        Events that nobody asks for go up nowhere, so a confirmation from above may know nothing of their numbers.
        """
        return out if self._high_water is None else stated(self._high_water, out)

    def _on_advert(self, event: Received) -> list[Out]:
        return [*self._on_message(event), Inward(event)]

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        self._expire(self._now)
        return [Inward(event)]

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        if isinstance(event.source, str):
            message = event.message
            advertised = self._advertised(event.source, message)
            if advertised is None:
                return []
            sampled = self._sample(event.source, advertised)
            if advertised is not message:
                event = Received(event.source, advertised)
            return [*sampled, Inward(event)]
        return [Inward(event)]

    def _sample(self, publisher: ClientId, message: Events) -> list[Out]:
        """Sample what a publisher here publishes; return what the brokers are told of it."""
        if self._samplers is None or message.retransmitted:
            return []
        out: list[Out] = []
        for number, advert in self.advertised_by(publisher).items():
            hits = np.flatnonzero(advert.filter.evaluate_batch(message.batch, every=True))
            key = publisher, number
            sampler = self._samplers.get(key)
            if sampler is None:
                sampler = self._samplers[key] = Sampler(advert.filter, self.admission.books.sample(key))
            if len(hits) and sampler.saw(message.batch.take(hits)):
                out += self.admission.measured(key, sampler.sample)
        return self._say(out)

    def advertised_by(self, publisher: ClientId) -> Mapping[int, Advert]:
        """Return the advertisements of a publisher that is attached here, by number."""
        if self._advertised_here is None:
            self._advertised_here = {}
            for (name, number), advert in self.admission.books.adverts.items():
                if advert.link == LOCAL:
                    self._advertised_here.setdefault(name, {})[number] = advert
        return self._advertised_here.get(publisher, {})

    def _advertised(self, publisher: ClientId, message: Events) -> Events | None:
        """Return the events that the publisher has advertised; None if there are none."""
        hits = np.zeros(len(message.batch), np.bool_)
        for advert in self.advertised_by(publisher).values():
            hits |= advert.filter.evaluate_batch(message.batch, every=True)
        rows = np.flatnonzero(hits)
        self.unadvertised += len(hits) - len(rows)
        return _part(message, rows)

    # Outbound.

    def _on_send(self, effect: Send | Multicast) -> list[Out]:
        """Reduce events that go up to those that are wanted above."""
        message = effect.message
        if not isinstance(message, Events) or message.retransmitted or not self._goes_up(effect):
            return [effect]
        if self._now < self._grace_until:
            return [effect]
        cut = self._cut(message)
        if cut is None:
            return []
        return [effect if cut is message else _with(effect, cut)]

    def _on_inform(self, effect: Inform) -> list[Out]:
        return [] if isinstance(effect.news, Everywhere) else [effect]

    def _goes_up(self, effect: Send | Multicast) -> bool:
        """Return whether an effect sends events towards the root."""
        if isinstance(effect, Multicast):
            return self._place.over_group
        return self._place.ways.floods or effect.to == self._place.way_up

    def _cut(self, message: Events) -> Events | None:
        """Return the events that are, or may be (while an answer is missing), wanted over the way up; None if none."""
        hits = np.zeros(len(message.batch), np.bool_)
        for _, rows in self._above.route(message.batch).links:
            hits[slice(None) if rows is None else rows] = True
        for link in self._upward_links:
            for item in self.admission.spreading.unanswered(link):
                hits |= item.evaluate_batch(message.batch)
        return _part(message, np.flatnonzero(hits))

    def _on_round(self, news: RoundBegan) -> list[Out]:
        self._send_all_up_for_a_while()
        return []

    def _send_all_up_for_a_while(self) -> None:
        self._grace_until = self._now + self._grace_seconds

    def _on_held(self, news: Held) -> list[Out]:
        """Enter into the books a subscription that was admitted earlier and that a layer inside already has."""
        out = self.admission.handle(news.client, replace(news.register, admitted=True))
        return self._but(out, news.client)

    def _on_released(self, news: Released) -> list[Out]:
        """Remove from the books a client that a layer inside has released."""
        return self._but(self.admission.handle(news.client, news.message), news.client)

    def _on_came_back(self, news: CameBack) -> list[Out]:
        """Remove from the books what a durable subscriber no longer wants, judged or not."""
        return self._but(self.admission.came_back(news.client, news.numbers), news.client)

    def _but(self, out: list[Out], client: ClientId) -> list[Out]:
        """Return the results without messages of this client to layers inside, which know of them already."""
        self._follow()
        return self._say([each for each in out if not (isinstance(each, Inward) and _is_from(each, client))])

    def _on_placed(self, placed: Placed) -> list[Out]:
        """Take a new place in the network."""
        self._place = placed
        out: list[Out] = []
        now = self.admission.neighbours, self.admission.books.flows.ways
        if (placed.neighbours, placed.ways) != now:
            out = self._say(self.admission.relink(placed.neighbours, placed.ways))
        self._turn()
        return out

    def _turn(self) -> None:
        """Determine the way up, and the filters that are wanted over it."""
        place = self._place
        upward_links: tuple[int, ...] = () if place.way_up is None else (place.way_up,)
        if place.ways.floods:
            upward_links = (LOCAL, *place.neighbours)
        if upward_links != self._upward_links:
            self._upward_links, self._above = upward_links, RoutingTable()
            self._expiring.clear()
            self.admission.books.changes.clear()
            for link in upward_links:
                for item in self.admission.books.held.get(link, ()):
                    self._above.add(item, 0, link)
        self._follow()

    def _follow(self) -> None:
        """Update the local advertisements, and the filters that are wanted over the way up, from the books."""
        self._advertised_here = None
        if self._samplers:
            adverts = self.admission.books.adverts
            self._samplers = {
                key: each
                for key, each in self._samplers.items()
                if key in adverts and adverts[key].link == LOCAL and adverts[key].filter == each.filter
            }
        changes = self.admission.books.changes
        for item, link, held in changes:
            if link not in self._upward_links:
                continue
            if not held:
                self._expiring[item, link] = self._now + self._grace_seconds
            elif self._expiring.pop((item, link), None) is None:
                self._above.add(item, 0, link)
        changes.clear()
        self._expire(self._now)

    def _expire(self, now: float) -> None:
        """Remove filters whose grace period after they were last wanted is over."""
        for (item, link), until in list(self._expiring.items()):
            if now >= until:
                del self._expiring[item, link]
                if self._above.remove(item, 0, link):
                    self._above.drop(item)

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {
            Controller: lambda query: self.admission,
            LacksOf: lambda query: self.admission.subscriptions.lacking(query.client),
            BookSizes: lambda query: {
                **self.admission.books.describe(),
                "degraded": self.admission.degradation.count(),
            },
        }

    # Recorded state, in a network that does not heal.

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change the state of the layer."""
        samples = self._samplers is not None and type(event.message) is Events
        return type(event.message) in self.admission.takes or (samples and isinstance(event.source, str))

    def snapshot(self) -> Plain:
        """Return the state of the layer; in a fixed network without what changes with time and place."""
        moment = None
        if self._grace_seconds:
            expiring = list(self._expiring.items())
            moment = self._place, self._now, self._grace_until, expiring, self._above.snapshot()
        return {
            "admission": self.admission.snapshot(),
            "unadvertised": self.unadvertised,
            "moment": moment,
            "samplers": [(key, each.filter, each.snapshot()) for key, each in (self._samplers or {}).items()],
        }

    def restore(self, plain: Plain) -> None:
        """Restore the state of a snapshot; only for a layer that has not handled anything."""
        self.admission.restore(plain["admission"])
        self.unadvertised = plain["unadvertised"]
        if self._samplers is not None:
            for key, item, each in plain["samplers"]:
                self._samplers.setdefault(tuple(key), Sampler(item)).restore(each)
        moment = plain.get("moment")  # stores of earlier versions have none
        if moment is not None:
            self._place, self._now, self._grace_until, expiring, above = moment
        self._upward_links = ()
        self._turn()
        if moment is not None:
            self._expiring, self._above = dict(expiring), RoutingTable()
            self._above.restore(above)

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of the layer's state, and how many events had no advertisement."""
        books = self.admission.books
        return {
            "advertisements": len(books.adverts),
            "wanted": sum(map(len, books.held.values())),
            "degraded": self.admission.degradation.count(),
            "unadvertised_events": self.unadvertised,
        }

    def check(self) -> None:
        """Assert that the books balance, and that exactly the filters wanted above let events go up; for tests."""
        self.admission.check()
        held = self.admission.books.held
        wanted = {item for link in self._upward_links for item in held.get(link, ())}
        wanted |= {item for item, _ in self._expiring}
        assert {entry.filter for entry in self._above} == wanted


def _part(message: Events, rows: Rows) -> Events | None:
    if len(rows) == len(message.batch):
        return message
    return replace(message, batch=message.batch.take(rows)) if len(rows) else None


def _is_from(inward: Inward, client: ClientId) -> bool:
    return isinstance(inward.event, Received) and inward.event.source == client


def _with(effect: Send | Multicast, message: Events) -> Send | Multicast:
    return Multicast(message) if isinstance(effect, Multicast) else Send(effect.to, message)
