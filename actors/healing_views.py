"""A broker that heals by views: the router, rounds of sending again, and the views of the rendezvous point.

Rules
-----
* The rendezvous point says who is in the network (`cube_rendezvous`). Its beat keeps a broker in; who is not in asks
  with it.
* Every view is a round. A broker takes part in a view once it knows what all others of the view want: then it sends
  again all that its publishers gave it lately, in order, before anything newer (`faults.rounds`). What comes from a
  later view is held until then; what comes from an earlier one is dropped, as it will come again.
* So under each view the events of a publisher come whole and in order, as the scheme sees to (`healing_cube`,
  `healing_lbdd`); a subscriber gets nothing that it has had (`faults.ledger`). A publisher that moves publishes again
  what it keeps: its two streams are both whole and in order, and the ledger takes from each what is new.
* A subscriber that moved here gets nothing until all that it wants is installed and a view begins after that. The
  broker asks for one with its beat.
* Who leaves asks its clients to go, waits a while for that, tells the rendezvous point, and is out when a view without
  it comes. What was under way over it is sent again under that view.

Source: docs/decisions/0017-hypercube.md; for leaving paper 2, section 2.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from ..faults.ledger import Ledger
from ..faults.rounds import Rounds
from ..protocol.batch import EventBatch, concat
from ..protocol.configs import Position
from ..protocol.cube import CubeBeat, CubeLeave, CubeView, CubeWants
from ..protocol.effects import Deliver, Effect, Propose, Received, Send, Ticked
from ..protocol.ids import ClientId, Link, RoundNumber
from ..protocol.messages import Cancel, Detach, Directed, Echo, Events, Register, Resume, Spread
from ..protocol.recovery import RENDEZVOUS, Recovery
from ..routing.viewed import ViewedRouter
from .gate import admitted

HELD_MAX: Final = 10_000
"""Messages of later views that are held; past it they are dropped, and a round is asked for."""

AGAIN_EVENTS_MAX: Final = 4096
"""Events in one message of those that are sent again."""

OfView = Events | Directed | Spread | Echo | CubeWants
"""What is for brokers that have one view, and is held by those that have not come to it yet."""

R = TypeVar("R", bound=ViewedRouter)


class HealingViews(Generic[R]):
    """One broker of a network that heals by views.

    Parameters
    ----------
    position
        Where it stands at the start of the network.
    recovery
        How quickly failures are noticed.
    incarnation
        0 at the start of the network; a higher one has to join.
    seed
        Not used: nothing here is left to chance.

    Attributes
    ----------
    placed
        Where it stands in its view.
    left
        Whether it has left the network for good.
    """

    router: R

    def __init__(self, position: Position, recovery: Recovery, incarnation: int = 0, seed: int = 0) -> None:
        self.home = position
        self.recovery = recovery
        self.incarnation = incarnation
        self.now = 0.0
        self.router = self.make_router(position if incarnation == 0 else replace(position, cube=None))
        self.rounds = Rounds(recovery.retention_events_max, recovery.retention_seconds)
        self.ledger = Ledger()
        self.placed = self.router.placed()
        self.left = False
        self._me = position.broker
        self._clients: dict[ClientId, None] = {}
        self._held: list[tuple[Link, OfView]] = []
        self._wants_round = False
        self._asked_in = 0  # the view in which a round was asked for last
        self._beat_at = 0.0
        self._leave_by: float | None = None
        self._handlers = self._table()
        self._advance()

    def make_router(self, position: Position) -> R:
        """Return the router of the scheme."""
        raise NotImplementedError

    def _table(self) -> dict[type, Callable[[Link, Any], list[Effect]]]:
        return {
            Events: self._on_events,
            Register: self._on_register,
            Cancel: self._on_client,
            Resume: self._on_resume,
            Detach: self._on_detach,
            Spread: self._on_change,
            Echo: self._on_change,
            CubeWants: self._on_wants,
            CubeView: self._on_view,
            CubeLeave: self._on_leave,
        }

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        return frozenset(self._handlers)

    def held(self) -> list[tuple[ClientId, Register]]:
        """Return nothing: there is no store."""
        return []

    def handle(self, event: Received | Ticked) -> list[Effect]:
        """Take in a message or the time, and return what is to be done."""
        if self.left:
            return []
        if isinstance(event, Ticked):
            return self._on_tick(event.now)
        handler = self._handlers.get(type(event.message))
        return [] if handler is None else handler(event.source, event.message)

    @property
    def version(self) -> int:
        """The view that this broker has; 0 for none."""
        return 0 if self.router.view is None else self.router.view.version

    @property
    def takes_part(self) -> bool:
        """Whether it knows what all others of its view want, so that events may go over it."""
        return self.router.view is not None and not self.router.missing

    # Time.

    def _on_tick(self, now: float) -> list[Effect]:
        self.now = now
        self.rounds.expire(now)
        self.rounds.dropped.clear()  # nothing here is in a store
        asks = self._asks_round()
        effects: list[Effect] = []
        if now >= self._beat_at or (asks and self._asked_in != self.version):
            self._beat_at = now + self.recovery.heartbeat_seconds
            self._asked_in = self.version if asks else self._asked_in
            contacts = tuple(other for other in self.home.members if other != self._me)
            effects.append(Send(RENDEZVOUS, CubeBeat(self.incarnation, self.version, contacts, asks)))
            effects += self._leaving()
        return effects

    def _asks_round(self) -> bool:
        """Return whether a round is wanted and would be of use: all that it has to reach is installed."""
        if not self._wants_round or not self.takes_part or not self.router.settled():
            return False
        for link in self.rounds.closed_links():
            self.rounds.make_ready(link, self.rounds.current)
        return True

    # Clients.

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        assert isinstance(source, str)
        self._clients[source] = None
        self.ledger.begin(source, self.now)
        return self._on_client(source, message)

    def _on_client(self, source: Link, message: Any) -> list[Effect]:
        return self.router.handle(Received(source, message))

    def _on_resume(self, source: Link, message: Resume) -> list[Effect]:
        assert isinstance(source, str)
        self._clients[source] = None
        since = self.now - message.since_seconds - self.recovery.doubt_seconds
        self.ledger.resume(source, message.marks, since)
        self.rounds.close(source)
        self._wants_round = True
        return []

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        assert isinstance(source, str)
        self._clients.pop(source, None)
        self.ledger.forget(source)
        self.rounds.forget(source)
        return self._on_client(source, message)

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if isinstance(source, str):
            self._clients[source] = None
            self.rounds.keep(self.now - message.age_seconds, source, message.batch)
            if not self.takes_part:
                return []  # they are among what is kept, and go out when the round begins
            message = replace(message, round=self.rounds.current, entry=self._me)
        elif not self._is_due(source, message, message.round.number, takes_part=True):
            return []
        return self._gated(self.router.handle(Received(source, message)), message)

    def _gated(self, effects: list[Effect], events: Events) -> list[Effect]:
        """Leave out what a subscriber has had, or may not get yet."""
        out: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Deliver):
                out.append(effect)
                continue
            delivery = admitted(effect, events, self.rounds, self.ledger, self.now)
            if delivery is not None:
                out.append(delivery)
        return out

    # Other brokers.

    def _on_change(self, source: Link, message: Spread | Echo) -> list[Effect]:
        if not self._is_due(source, message, message.version):
            return []
        return self.router.handle(Received(source, message))

    def _on_wants(self, source: Link, message: CubeWants) -> list[Effect]:
        newest = max(message.mine, message.yours)
        if newest > self.version:
            self._hold(source, message)
            return []
        if not isinstance(source, int) or self.router.view is None:
            return []
        return self.router.adopt(source, message) + self._advance()

    def _is_due(self, source: Link, message: OfView, version: int, *, takes_part: bool = False) -> bool:
        """Return whether a message is of the present view; one that comes too early is held."""
        if version < self.version:
            return False
        if version > self.version or (takes_part and not self.takes_part):
            self._hold(source, message)
            return False
        return True

    def _hold(self, source: Link, message: OfView) -> None:
        if len(self._held) < HELD_MAX:
            self._held.append((source, message))
        else:
            self._wants_round = True

    # Views.

    def _on_view(self, source: Link, view: CubeView) -> list[Effect]:
        if source != RENDEZVOUS or view.version <= self.version:
            return []
        if self._me not in view.born:
            self.left = self._leave_by is not None
            return []  # who was dropped without leaving asks to be taken in again with its next beat
        effects = self.router.install(view)
        self.placed = self.router.placed()
        return effects + self._advance()

    def _advance(self) -> list[Effect]:
        """Begin the round of the view as soon as this broker takes part in it; then work off what was held."""
        effects: list[Effect] = []
        if self.takes_part and self.rounds.begin(RoundNumber(0, self.version)):
            self._wants_round = bool(self.rounds.closed_links())
            for age, batch in self._kept():
                events = Events(batch, self.rounds.current, True, age_seconds=age, entry=self._me)
                effects += self._gated(self.router.handle(Received(self._me, events)), events)
        held, self._held = self._held, []
        for source, message in held:
            effects += self.handle(Received(source, message))
        return effects

    def _kept(self) -> Iterator[tuple[float, EventBatch]]:
        """Yield what is kept, in its order, in few batches, each of one age in whole seconds."""
        for age, group in itertools.groupby(self.rounds.kept(), lambda kept: float(int(self.now - kept.at))):
            batches: list[EventBatch] = []
            for kept in group:
                if batches and sum(map(len, batches)) + len(kept.batch) > AGAIN_EVENTS_MAX:
                    yield age, concat(batches)
                    batches = []
                batches.append(kept.batch)
            yield age, concat(batches)

    # Leaving.

    def _on_leave(self, source: Link, message: CubeLeave) -> list[Effect]:
        """Begin to leave, as the host or the rendezvous point asks: clients should go to a neighbour first."""
        others = self.router.neighbours()
        if source not in (self._me, RENDEZVOUS) or self._leave_by is not None or not others:
            return []  # the last one stays
        self._leave_by = self.now + self.recovery.suspect_after_seconds
        return [Propose(client, others[place % len(others)]) for place, client in enumerate(self._clients)]

    def _leaving(self) -> list[Effect]:
        if self._leave_by is None or (self._clients and self.now < self._leave_by):
            return []
        return [Send(RENDEZVOUS, CubeLeave())]

    # To look at.

    def survey(self) -> dict[str, Any]:
        """Return where the broker stands, for whoever checks the whole network from outside."""
        view = self.router.view
        return {
            "broker": self._me,
            "neighbours": tuple(sorted(self.router.neighbours())),
            "version": self.version,
            "seats": () if view is None else view.seats,
            "settled": self.router.settled() and self.takes_part,
            "closed": self.rounds.closed_links(),
            "left": self.left,
        }

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        return {
            **self.router.describe(),
            "view": self.version,
            "held": len(self._held),
            "events_forgotten": self.rounds.forgotten,
        }

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.router.check()
