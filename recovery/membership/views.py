"""The layer that follows the views of the rendezvous point, with the router inside: membership that heals.

Rules
-----
* The rendezvous point decides which brokers are in the network (`view_registry`). A broker's beat keeps it in the view.
  A broker that is not in the view asks with its beat to be admitted. A broker that learns from its host that the
  process of another is dead (`Died`) tells the rendezvous point with the next tick, once.
* Every view is a round. A broker takes part in a view once it knows the filters of all other brokers of the view. Then
  it retransmits, in order and before anything newer, the recent events of its publishers (`recovery.replay.replay`). A
  message of a later view is held until then. A message of an earlier view is dropped, because it is sent again.
* So under each view the events of a publisher arrive complete and in order, which the scheme ensures (`hypercube`,
  `lbdd`). A subscriber gets no duplicates (`recovery.replay.deduplicator`). A publisher that moves republishes the
  events that it retains: both its streams are complete and in order, and the deduplicator takes from each what is
  new.
* A round that is wanted is requested with the beat, once all filters that it has to reach are installed.
* A broker that has missed a message gets nothing more from that sender under this view. The sender requests another
  view, under which it retransmits everything that the other may lack. The longer that goes on, the more rarely it
  asks.
* A broker that leaves asks its clients to move, waits a while for that, tells the rendezvous point, and is out when a
  view without it arrives. Messages in flight over it are retransmitted under that view.

Source: docs/decisions/0017-hypercube.md; for leaving paper 2, section 2.4.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any, Final, Never

from ...protocol.configs import Placed
from ...protocol.effects import Deliver, Died, Inform, Missed, Propose, Received, Renew, Send, Ticked
from ...protocol.ids import BrokerId, ClientId, Link, RoundNumber
from ...protocol.layers import (
    Event,
    Handler,
    Heard,
    Out,
    Passed,
    Restored,
    RoundBegan,
    RoundHeard,
    RoundWanted,
    Tell,
)
from ...protocol.messages.admission import Advertise, Unadvertise
from ...protocol.messages.pubsub import Cancel, Detach, Directed, Echo, Events, Register, Spread, Unanswered
from ...protocol.messages.recovery import RENDEZVOUS, LeaveNetwork
from ...protocol.messages.rounds import Forgotten
from ...protocol.messages.views import MembershipView, ToAll, ViewBeat, ViewDied, ViewLeave, ViewWants
from ...protocol.queries import Answering, HasLeft, Heals, OtherMembers, Said, Survey, TurnsAway
from ...protocol.snapshots import Restorable
from ...routing.schemes.local_first import answers_by
from ...routing.schemes.router import ViewRouting
from .starting import Start
from .stating import learn, stated

HELD_MAX: Final = 10_000
"""How many messages of later views are held at most; beyond that they are dropped, and a round is requested."""

MEND_WAIT_MAX: Final = 10
"""The longest wait before another view is requested for a broker that misses messages, in suspicion timeouts."""

DEATHS_TOLD: Final = 16
"""For how many deaths that it was told it reports the time."""

OfView = Events | Directed | Spread | Echo | ViewWants | ToAll
"""Messages that belong to one view; a broker that has not reached that view yet holds them."""


class HealingViews(Restorable):
    """One broker of a network that heals by views.

    Parameters
    ----------
    start
        The state at the start of this incarnation; nothing here is random.

    Attributes
    ----------
    placed
        Its place in its view.
    left
        Whether it has left the network for good.
    """

    SHARED = frozenset({"rounds"})

    sees: Mapping[type, Handler] = {}
    alters: Mapping[type, Handler] = {}

    def __init__(self, start: Start[ViewRouting]) -> None:
        position, recovery = start.position, start.recovery
        self.home = position
        self.recovery = recovery
        self.incarnation = start.incarnation
        self.now = start.identity.alive_at
        anew = start.incarnation > 0
        self.router = start.router(replace(position, view=None) if anew else position)
        self.rounds = start.rounds
        self.identity = start.identity
        self.placed = self.router.placed()
        self.left = False
        self._me = position.broker
        self._told_place: Placed | None = None
        self._clients: dict[ClientId, None] = {}
        self._held: list[tuple[Link, OfView]] = []
        self._wants_round = False
        self._asked_in = 0  # the last view in which a round was requested
        self._beat_at = 0.0
        self._leave_by: float | None = None
        self._dead: dict[BrokerId, None] = {}  # brokers whose death the rendezvous point is to be told
        self._learned_dead: deque[tuple[BrokerId, float]] = deque(maxlen=DEATHS_TOLD)
        self._missed: dict[BrokerId, None] = {}  # brokers that get nothing more under this view
        self._born_at: dict[BrokerId, float] = {}  # when each broker of the view came into it, as known here
        self._mend_at = 0.0  # earliest time to request another view for them
        self._mend_wait = recovery.heartbeat_seconds
        self._mends_from = math.inf  # since when the round of the view repairs, once it has begun
        self._handlers = self._table()
        self._events: dict[type, Callable[[Never], list[Out]]] = {
            Ticked: self._on_tick,
            Died: self._on_died,
            Missed: self._on_missed,
            Tell: self._on_tell,
            RoundWanted: self._on_round_wanted,
            RoundHeard: lambda event: [],  # a round is a view, and comes with it
            Restored: self._on_restored,
        }
        self.takes: Mapping[type, Handler] = dict.fromkeys((*self._events, *self._handlers), self.handle)
        self._has_taken_part = self.takes_part
        if self.takes_part:
            self.rounds.current = RoundNumber(0, self.version)

    def _table(self) -> dict[type, Callable[[Never, Never], list[Out]]]:
        return {
            Events: self._on_events,
            Register: self._on_client,
            Cancel: self._on_client,
            Detach: self._on_detach,
            Advertise: self._on_client,
            Unadvertise: self._on_client,
            **{
                kind: self._on_routed for kind in (Spread, Echo, Directed, ToAll) if kind in self.router.takes
            },
            ViewWants: self._on_wants,
            MembershipView: self._on_view,
            LeaveNetwork: self._on_leave,
        }

    @property
    def answers(self) -> Answering:
        """What hosts ask of it; a broker that has left takes nothing in any more."""
        others = tuple(sorted(set(self.home.members) - {self._me}))
        return {
            Heals: lambda query: True,
            Survey: lambda query: self.survey(),
            HasLeft: lambda query: self.left,
            TurnsAway: lambda query: self.left,
            OtherMembers: lambda query: others,
            **answers_by(self.router),
        }

    @property
    def designated(self) -> bool:
        """Return True: every broker acts for itself."""
        return True

    def handle(self, event: Event) -> list[Out]:
        """Handle an event and return the results."""
        if self.left:
            return []
        if isinstance(event, Received):
            learn(self.rounds.high_water, event)
            out = self._handlers[type(event.message)](event.source, event.message)  # type: ignore[arg-type]
        else:
            out = self._events[type(event)](event)  # type: ignore[arg-type]
        out = stated(self.rounds.high_water, out)
        out += self.identity.writes(self.now, 0, 0, self.rounds.current)
        if self.placed != self._told_place:
            self._told_place = self.placed
            out.append(self.placed)
        return out

    @property
    def version(self) -> int:
        """The version of this broker's view; 0 for none."""
        return 0 if self.router.view is None else self.router.view.version

    @property
    def takes_part(self) -> bool:
        """Whether it knows the filters of all other brokers of its view, so that events may pass over it."""
        return self.router.view is not None and not self.router.missing

    # Time.

    def _on_died(self, event: Died) -> list[Out]:
        self._dead[event.broker] = None
        self._learned_dead.append((event.broker, self.now))
        return []

    def _on_tick(self, event: Ticked) -> list[Out]:
        now = self.now = event.now
        if self.takes_part:
            self._has_taken_part = True
        elif self._has_taken_part:
            self.rounds.repair_from(now)
        asks = self._asks_round() or bool(self._missed and now >= self._mend_at)
        effects: list[Out] = []
        if now >= self._beat_at or (asks and self._asked_in != self.version):
            self._beat_at = now + self.recovery.heartbeat_seconds
            self._asked_in = self.version if asks else self._asked_in
            contacts = tuple(other for other in self.home.members if other != self._me)
            window = self.rounds.pending_repair_seconds() + self.recovery.unnoticed_seconds
            effects.append(Send(RENDEZVOUS, ViewBeat(self.incarnation, self.version, contacts, asks, window)))
            effects += self._leaving()
        return effects + self._tell_dead()

    def _tell_dead(self) -> list[Out]:
        """Tell the rendezvous point which brokers of the view have died."""
        dead, self._dead = self._dead, {}
        born = {} if self.router.view is None else self.router.view.born
        return [Send(RENDEZVOUS, ViewDied(other, born[other])) for other in dead if other in born]

    def _on_round_wanted(self, event: RoundWanted) -> list[Out]:
        self._wants_round = True
        return []

    def _asks_round(self) -> bool:
        """Return whether a round is wanted and would be of use: all that it has to reach is installed."""
        if not self._wants_round or not self.takes_part or not self.router.settled():
            return False
        for link in self.rounds.complete_links():
            self.rounds.make_ready(link, self.rounds.current)
        return True

    # Live brokers that have missed messages.

    def _on_missed(self, event: Missed) -> list[Out]:
        view, since = self.router.view, self.now - event.seconds
        known = view is not None and not event.over_group and event.broker in view.born
        if known or not event.anew:
            # Messages sent to a broker before it entered the view were for an earlier incarnation.
            self.rounds.repair_from(max(since, self._born_at.get(event.broker, since)))
        if not known:
            return [Renew(event.broker, event.over_group)]
        self._missed[event.broker] = None
        return []

    def _renewed(self) -> list[BrokerId]:
        """Return the brokers that get messages again from now on, under another view."""
        missed, self._missed = list(self._missed), {}
        longest = self.recovery.suspect_after_seconds * MEND_WAIT_MAX
        self._mend_wait = min(2 * self._mend_wait, longest) if missed else self.recovery.heartbeat_seconds
        self._mend_at = self.now + self._mend_wait
        return missed

    # Clients.

    def _on_client(
        self, source: ClientId, message: Register | Cancel | Detach | Advertise | Unadvertise
    ) -> list[Out]:
        if isinstance(message, Register):
            self._clients[source] = None
        out: list[Out] = [*self.router.handle(Received(source, message))]
        for each in out:
            if isinstance(each, Inform) and isinstance(each.news, Unanswered):
                self._lacks_of_others(each.client)
        return out

    def _lacks_of_others(self, client: ClientId) -> None:
        """Let a subscriber that only publishers here have satisfied so far wait for a round.

        One of these publishers may have moved, and published at another broker before that broker knew the filter.
        """
        self.rounds.close(client)
        self.rounds.repair_from(self.now - self.recovery.unnoticed_seconds)
        self._wants_round = True

    def _on_detach(self, source: ClientId, message: Detach) -> list[Out]:
        self._clients.pop(source, None)
        return self._on_client(source, message)

    def _on_restored(self, event: Restored) -> list[Out]:
        """Register the subscriptions of an earlier incarnation again; other brokers are told when there is a view."""
        return [each for register in event.registers for each in self._on_client(event.client, register)]

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Out]:
        if isinstance(source, str):
            if not message.retransmitted:  # retransmissions include publishers that have moved away
                self._clients[source] = None
            if not self.takes_part:
                return []  # they are retained, and go out when the round begins
            message = replace(message, entry=self._me)
            return self._carried(source, message)
        return self._on_routed(source, message)

    # Other brokers.

    def _on_routed(self, source: Link, message: Events | Directed | Spread | Echo | ToAll) -> list[Out]:
        """Pass messages of the present view to the router; those ordered with events once this broker takes part."""
        if isinstance(message, Events | Directed):
            due = self._is_due(source, message, message.round.number, takes_part=True)
        else:
            due = self._is_due(source, message, message.version, takes_part=isinstance(message, ToAll))
        return self._carried(source, message) if due else []

    def _carried(self, source: Link, message: Any) -> list[Out]:
        """Add to deliveries the message that brought them; report messages for every broker in their turn."""
        out: list[Out] = []
        routed: list[Any] = self.router.handle(Received(source, message))
        for each in routed:
            if isinstance(each, ToAll):
                out.append(Heard(each.origin, each.message))
            elif isinstance(each, Deliver) and each.brought_by is None:
                out.append(Deliver(each.batch, each.clients, each.starts, each.rows, brought_by=message))
            else:
                out.append(each)
        self._wants_round = self._wants_round or self.router.lacking
        return out

    def _on_wants(self, source: BrokerId, message: ViewWants) -> list[Out]:
        newest = max(message.mine, message.yours)
        if newest > self.version:
            self._hold(source, message)
            return []
        if not isinstance(source, int) or self.router.view is None:
            return []
        return [*self.router.adopt(source, message), *self._advance()]

    def _is_due(self, source: Link, message: OfView, version: int, *, takes_part: bool = False) -> bool:
        """Return whether a message is of the present view; hold a message of a later one."""
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

    # Messages for every broker.

    def _on_tell(self, event: Tell) -> list[Out]:
        """Tell all others at once; a message from another broker was already sent to all."""
        if not self.takes_part:
            if isinstance(event.message, Forgotten):  # the next round tells of the loss
                self.rounds.repair_from(self.now - max(age for _, _, age in event.message.entries))
                self._wants_round = True
            return []
        if event.source != self._me:
            return [Passed(event.source, event.message, frozenset())]
        to = frozenset(self.router.view.born) - {self._me}  # type: ignore[union-attr]
        return [*self.router.to_all(event.message), Passed(self._me, event.message, to)]

    # Views.

    def _on_view(self, source: BrokerId, view: MembershipView) -> list[Out]:
        if source != RENDEZVOUS or view.version <= self.version:
            return []
        if self._me not in view.born:
            self.left = self._leave_by is not None
            return []  # a broker that was dropped without leaving asks with its next beat to be taken in
        before = {} if self.router.view is None else self.router.view.born
        came = {broker: self.now for broker, born in view.born.items() if before.get(broker) != born}
        self._born_at = {broker: at for broker, at in self._born_at.items() if broker in view.born} | came
        missed = self._renewed()
        effects: list[Out] = [Renew(broker, False) for broker in missed]
        effects += self.router.install(view, missed)
        if self.rounds.current >= RoundNumber(0, view.version):
            # No view is later than the newest: the number is damaged, or was already in an earlier incarnation.
            self.rounds.current = RoundNumber(0, view.version - 1)
        self._mends_from = min(self._mends_from, self.now - view.repair_window_seconds)
        self.placed = self.router.placed()
        if not set(missed).isdisjoint(self.placed.neighbours):
            # Messages of the layers around to these brokers are lost, too. Report a place without them first, so that
            # those layers start afresh with them.
            stay = tuple(each for each in self.placed.neighbours if each not in missed)
            self._told_place = Placed(stay, *self.placed[1:])
            effects.append(self._told_place)
        return [*effects, *self._advance()]

    def _advance(self) -> list[Out]:
        """Begin the round of the view once this broker takes part in it; then handle the held messages."""
        effects: list[Out] = []
        view = self.router.view
        if view is not None and self.takes_part:
            # This view also repairs what earlier views should have, in which this broker did not take part.
            if self.rounds.begin(RoundNumber(0, view.version), self.now - self._mends_from):
                self._mends_from = math.inf
                self._wants_round = bool(self.rounds.complete_links())
                effects.append(RoundBegan(self.rounds.current))
        held, self._held = self._held, []
        for source, message in held:
            effects += self.handle(Received(source, message))
        return effects

    # Leaving.

    def _on_leave(self, source: Link, message: LeaveNetwork) -> list[Out]:
        """Begin to leave, as the rendezvous point asks: clients should move to a neighbour first.

        The last broker stays until another joins, and a broker that is not in the view yet is admitted first.
        """
        if source != RENDEZVOUS or self._leave_by is not None:
            return []
        self._leave_by = self.now + self.recovery.suspect_after_seconds
        others = self.router.neighbours()
        if not others:
            return []
        return [Propose(client, others[place % len(others)]) for place, client in enumerate(self._clients)]

    def _leaving(self) -> list[Out]:
        if self._leave_by is None or (self._clients and self.now < self._leave_by):
            return []
        return [Send(RENDEZVOUS, ViewLeave())]

    # For comparison with other brokers.

    def agreed(self) -> Mapping[BrokerId, Hashable]:
        """Return what this broker has to agree on with others: the members of the view, with the rendezvous point."""
        return {} if self.router.view is None else {RENDEZVOUS: self.router.view.who}

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return the sequence numbers of events between this broker and others under this view."""
        return self.router.streams()

    def unannounced(self) -> Collection[BrokerId]:
        """Return the brokers of the view that have not announced their filters yet."""
        return self.router.missing

    # Inspection.

    def survey(self) -> Said:
        """Return the broker's place, for checks of a whole network from outside."""
        view = self.router.view
        return {
            "broker": self._me,
            "cluster": self.home.cluster,
            "designated": self.designated,
            "neighbours": tuple(sorted(self.router.neighbours())),
            "version": self.version,
            "view_members": () if view is None else view.members,
            "membership_view": view,
            "settled": self.router.settled() and self.takes_part,
            "closed": self.rounds.closed_links(),
            "missed": tuple(self._missed),
            "left": self.left,
            "learned_dead": tuple(self._learned_dead),
        }

    def describe(self) -> dict[str, int]:
        """Return the sizes of the broker's state."""
        return {
            **self.router.describe(),
            "view": self.version,
            "held": len(self._held),
        }

    def check(self) -> None:
        """Assert that the router and the rounds agree on the view."""
        self.router.check()
        self.rounds.check()
        assert self.rounds.ready_after() <= self.rounds.current, "a link waits for a round of a view to come"
        assert self.router.view is None or self._me in self.router.view.born, (
            "it has a view that it is not in"
        )
        if self.takes_part:
            assert self.rounds.current == RoundNumber(0, self.version), "its round is not that of its view"
