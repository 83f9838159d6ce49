"""The side of a broker that admits: admission control before the router, and a climb for what is wanted only.

Rules
-----
* A subscription reaches the router when it is admitted; a refused one never does.
* Routing on a tree sends every event towards the root. With admission control it climbs only where somebody admitted
  wants it: without that the root would carry every publisher, whoever subscribes, and no book could hold. What is
  wanted of an advertisement is known when the answer to it has come; until then all of its events climb.
* While a tree is mended, what somebody wants may be known at the root before it is asked for where it is published. So
  what is sent again always climbs, and for `GRACE_HEARTBEATS` after each round of sending again everything does.
* Control goes over the links that membership tells of (`Placed`): those of a fixed network, of a tree that heals, in
  which a cluster is a star around its designated broker, or of a view. When they change, both ends of a new link begin
  anew.
* An event that none of its publisher's advertisements covers goes no further, and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np

from ..admission.advertisements import LOCAL
from ..admission.controller import Admission, Pass
from ..faults.rounds import Rounds
from ..protocol.admission import AdmissionConfig
from ..protocol.configs import Placed
from ..protocol.effects import Drained, Effect, Multicast, Received, Send, Ticked
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Events
from ..protocol.recovery import Recovery
from ..routing.table import RoutingTable

GRACE_HEARTBEATS: Final = 10


class HealingSide(Protocol):
    """What is asked of a broker that heals."""

    now: float
    recovery: Recovery
    rounds: Rounds


class Admitting:
    """Admission control put before the rest of a broker.

    Parameters
    ----------
    broker
        Whose it is.
    placed
        Says where the broker stands now.
    config
        What it admits.
    inner
        The rest of the broker.
    healing
        Says which round it is in; None for a broker that does not heal.
    anew
        Whether it has been started again: its neighbours know more than it does, and have to be greeted.
    """

    def __init__(
        self,
        broker: BrokerId,
        placed: Callable[[], Placed],
        config: AdmissionConfig,
        inner: Callable[[Received | Ticked | Drained], list[Effect]],
        *,
        healing: HealingSide | None = None,
        anew: bool = False,
    ) -> None:
        self._placed = placed
        self._healing = healing
        self._inner = inner
        self._stands = placed()
        self._round = None if healing is None else healing.rounds.current
        self._grace_until = -math.inf
        self._anew = anew
        self.admission = Admission(broker, config, () if anew else self._stands.neighbours)
        self.unadvertised = 0
        self._above = RoutingTable()  # what the way to the parent is for
        self._way_up: BrokerId | None = None
        self._turn()

    def handle(self, event: Received | Ticked | Drained) -> list[Effect]:
        """Take in a message or the time, and return what is to be done."""
        if isinstance(event, Received) and self.admission.takes(event.message):
            effects = self._loop(self.admission.handle(event.source, event.message))
        elif isinstance(event, Received) and isinstance(event.message, Events):
            effects = self._on_events(event, event.message)
        else:
            effects = self._rest(event)
        if self._anew or self._placed() != self._stands:
            effects += self._move()
        return effects

    def _rest(self, event: Received | Ticked | Drained) -> list[Effect]:
        """Let the rest of the broker have its turn, and see whether another round has begun."""
        effects = self._inner(event)
        if self._healing is not None and self._healing.rounds.current != self._round:
            self._round = self._healing.rounds.current
            self._grace_until = (
                self._healing.now + GRACE_HEARTBEATS * self._healing.recovery.heartbeat_seconds
            )
        return effects

    def _in_grace(self) -> bool:
        """Return whether a round has begun so lately that everything climbs."""
        return self._healing is not None and self._healing.now < self._grace_until

    def _loop(self, out: list[Any]) -> list[Effect]:
        """Return the effects; what was admitted, or is to be cancelled, goes to the rest of the broker."""
        self._follow()
        effects: list[Effect] = []
        for item in out:
            if isinstance(item, Pass):
                effects += self._rest(Received(item.client, item.message))
            else:
                effects.append(item)
        return effects

    def _on_events(self, event: Received, message: Events) -> list[Effect]:
        if isinstance(event.source, str):
            advertised = self._advertised(event.source, message)
            if advertised is None:
                return []
            if advertised is not message:
                event = Received(event.source, advertised)
        out: list[Effect] = []
        for effect in self._rest(event):
            if isinstance(effect, Send | Multicast) and isinstance(effect.message, Events):
                if not effect.message.again and not self._in_grace() and self._climbs(effect):
                    cut = self._cut(effect.message)
                    if cut is not None:
                        out.append(effect if cut is effect.message else _with(effect, cut))
                    continue
            out.append(effect)
        return out

    def _advertised(self, publisher: ClientId, message: Events) -> Events | None:
        """Return what the publisher has advertised of its events; None for none of them."""
        mine = [
            advert.filter
            for (name, _), advert in self.admission.books.adverts.items()
            if name == publisher and advert.link == LOCAL
        ]
        hits = np.zeros(len(message.batch), np.bool_)
        for item in mine:
            hits |= item.evaluate_batch(message.batch)
        rows = np.flatnonzero(hits)
        self.unadvertised += len(hits) - len(rows)
        return _part(message, rows)

    def _climbs(self, effect: Send | Multicast) -> bool:
        """Return whether an effect takes events towards the root."""
        if isinstance(effect, Multicast):
            return self._stands.over_group
        return effect.to == self._way_up

    def _cut(self, message: Events) -> Events | None:
        """Return what of the events somebody wants who is reached over the parent, or may want."""
        hits = np.zeros(len(message.batch), np.bool_)
        for _, rows in self._above.route(message.batch).links:
            hits[slice(None) if rows is None else rows] = True
        for item in () if self._way_up is None else self.admission.unanswered(self._way_up):
            hits |= item.evaluate_batch(message.batch)
        return _part(message, np.flatnonzero(hits))

    # Where it stands.

    def _move(self) -> list[Effect]:
        self._anew = False
        self._stands = self._placed()
        wanted = self._stands.neighbours
        effects = [] if wanted == self.admission.neighbours else self._loop(self.admission.relink(wanted))
        self._turn()
        return effects

    def _turn(self) -> None:
        """Find the way up, and what is wanted over it."""
        way_up = self._stands.way_up
        if way_up != self._way_up:
            self._way_up, self._above = way_up, RoutingTable()
            self.admission.books.changes.clear()
            for item in () if way_up is None else self.admission.books.held.get(way_up, ()):
                self._above.add(item, 0, 0)
        self._follow()

    def _follow(self) -> None:
        """Keep what is wanted over the way up in step with the books."""
        changes = self.admission.books.changes
        for item, link, held in changes:
            if link != self._way_up:
                continue
            if held:
                self._above.add(item, 0, 0)
            elif self._above.remove(item, 0, 0):
                self._above.drop(item)
        changes.clear()

    def describe(self) -> dict[str, int]:
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
        wanted = set(self.admission.books.held.get(self._way_up, ())) if self._way_up is not None else set()
        assert {entry.filter for entry in self._above} == wanted


def _part(message: Events, rows: Any) -> Events | None:
    if len(rows) == len(message.batch):
        return message
    return replace(message, batch=message.batch.take(rows)) if len(rows) else None


def _with(effect: Send | Multicast, message: Events) -> Effect:
    return Multicast(message) if isinstance(effect, Multicast) else Send(effect.to, message)
