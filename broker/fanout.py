"""The fan-out layer: passes multicasts on from member to member, with LBDD inside each cluster (paper 5).

Rules
-----
* When a layer inside multicasts events, this broker is the origin of an LBDD plan over the other members
  (`lbdd_plan`): each member receives one copy and forwards it as the plan says. The layers inside of that member see
  the event as if the origin had multicast it. Messages that have to stay in order with events (`Marker`, `Forgotten`)
  take the same way; all others are multicast.
* In a network that heals, a plan covers the members of one *ballot*, as listed in the beat that begins it. Under
  fan-out every change of members begins a new ballot (`fanned`). So all members use the same plans, and messages from
  one member to the group reach each other member over one way, in order: all of them, or none after some point.
* A message of a ballot that has not begun here waits for that ballot's beat. A message of an older ballot is dropped,
  because the next round retransmits all that is retained. A member that could not hold all messages of a ballot takes
  none of them, and reports that it has missed something.
* A member that has missed a copy has missed a multicast, too: it gets no more copies until another ballot has begun.
  Other messages to it are not ordered with copies, and resume at once.

This layer is for clusters whose network has no multicast: there, a broker that multicasts sends all n copies itself.
Source: paper 5, section 3; docs/decisions/0022-fan-out-that-heals.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from ..protocol.configs import Position
from ..protocol.effects import Missed, Multicast, Plain, Received, Renew, Send
from ..protocol.ids import Ballot, BrokerId, Link
from ..protocol.layers import Handler, Inward, Out
from ..protocol.messages.pubsub import Events
from ..protocol.messages.recovery import ClusterBeat, ClusterView
from ..protocol.messages.rounds import Forgotten, Handed, Marker
from ..protocol.snapshots import restore_state, state_of
from ..routing.schemes.dissemination import plan_of

HELD_MAX: Final = 10_000
"""How many messages of ballots that have not begun here are held at most."""

BEFORE_ANY: Final[Ballot] = (-1, -1)

Ordered: TypeAlias = Events | Marker | Forgotten
"""Messages that are multicast in order with events."""


class FanOut:
    """Fan-out as a layer.

    Parameters
    ----------
    position
        The cluster and its members.
    heals
        Whether members change, and multicasts have ballots.
    anew
        Whether the broker has been restarted and knows no ballot.
    """

    def __init__(self, position: Position, *, heals: bool = False, anew: bool = False) -> None:
        self._me = position.broker
        self._cluster = position.cluster
        self._members: tuple[BrokerId, ...] = () if anew else tuple(sorted(position.members))
        self._ballot: Ballot | None = None  # None where nothing heals
        self._refused: Ballot = BEFORE_ANY  # the last ballot of which some messages could not be held
        self._held: list[tuple[BrokerId, Events | Handed]] = []
        self._cut: dict[BrokerId, None] = {}  # members that have missed a copy
        self._unheard: dict[BrokerId, None] = {}  # members that have missed a multicast
        self.takes: Mapping[type, Handler] = {Handed: self._on_handed}
        self.sees: Mapping[type, Handler] = {Events: self._on_events}
        self.alters: Mapping[type, Handler] = {Multicast: self._on_multicast}
        if heals:
            self._ballot = BEFORE_ANY if anew else (0, position.designated)
            self.sees = {**self.sees, ClusterBeat: self._on_beat, Missed: self._on_missed}
            self.alters = {**self.alters, Renew: self._on_renew}

    # Messages from this broker to its group.

    def _on_multicast(self, effect: Multicast) -> list[Out]:
        message = effect.message
        if isinstance(message, ClusterBeat):
            return [effect, *self._begin(message.view)]
        if not isinstance(message, Ordered):
            return [effect]
        if message.ballot != self._ballot:
            return []  # restarted and has heard no beat: the others would refuse it
        if isinstance(message, Events):
            return self._copies(self._me, replace(message, entry=self._me))
        return self._copies(self._me, Handed(self._me, message))

    def _copies(self, origin: BrokerId, message: Events | Handed) -> list[Out]:
        """Return the copies that this broker sends of a message from a member to all others."""
        others = tuple(member for member in self._members if member != origin)
        mine = handed_on(origin, others).get(self._me, ())
        return [Send(child, message) for child in mine if child not in self._cut]

    # Messages from other members.

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        message = event.message
        if message.entry is None or not isinstance(event.source, int):
            return [Inward(event)]
        return self._taken(message.entry, message)

    def _on_handed(self, event: Received[BrokerId, Handed]) -> list[Out]:
        message = event.message
        return self._taken(message.entry, message)

    def _taken(self, origin: BrokerId, message: Events | Handed) -> list[Out]:
        ballot = _ballot_of(message)
        if ballot == self._ballot:
            if ballot is not None and ballot == self._refused:
                return []
            inner = message.message if isinstance(message, Handed) else replace(message, entry=None)
            return [*self._copies(origin, message), Inward(Received(origin, inner))]
        if ballot is not None and self._ballot is not None and ballot > max(self._ballot, self._refused):
            if len(self._held) < HELD_MAX:
                self._held.append((origin, message))
            else:
                self._refused = ballot
        return []

    # Ballots.

    def _on_beat(self, event: Received[BrokerId, ClusterBeat]) -> list[Out]:
        beat = event.message
        genuine = beat.view.designated == event.source
        return [Inward(event), *(self._begin(beat.view) if genuine else ())]

    def _begin(self, view: ClusterView) -> list[Out]:
        """Use the plans of a view from now on if it succeeds the present one; then handle the messages held for it."""
        if view.cluster != self._cluster or self._ballot is None or view.ballot <= self._ballot:
            return []
        self._ballot, self._members = view.ballot, view.members
        held, self._held = self._held, []
        if self._ballot == self._refused:
            return [Inward(Missed(view.designated, True, 0.0))]
        out: list[Out] = []
        for origin, message in held:
            out += self._taken(origin, message)
        return out

    # Lost copies.

    def _on_missed(self, event: Missed) -> list[Out]:
        if event.over_group:
            self._unheard[event.broker] = None
        elif event.broker in self._members:
            self._cut[event.broker] = None
            return [Inward(event), Inward(replace(event, over_group=True))]
        return [Inward(event)]

    def _on_renew(self, effect: Renew) -> list[Out]:
        """Resume copies together with multicasts; renew multicasts only where one was missed."""
        if not effect.over_group:
            return [effect]
        self._cut.pop(effect.broker, None)
        return [effect] if self._unheard.pop(effect.broker, 0) is None else []

    # Recorded state.

    def changed_by(self, event: Received) -> bool:
        """Return False: without healing the layer has no state, and with healing it is not recorded."""
        return False

    def snapshot(self) -> Plain:
        """Return the ballot, and the messages that wait for the next; None without healing."""
        return None if self._ballot is None else state_of(self)

    def restore(self, plain: Plain) -> None:
        """Restore the state of a snapshot."""
        restore_state(self, plain or {})

    def describe(self) -> Mapping[str, int]:
        """Return how many messages wait for their ballot."""
        return {"held_for_ballot": len(self._held)}

    def check(self) -> None:
        """Assert that all held messages are of future ballots; for tests."""
        for _, message in self._held:
            ballot = _ballot_of(message)
            assert ballot is not None and self._ballot is not None and ballot > self._ballot


def handed_on(origin: BrokerId, others: tuple[BrokerId, ...]) -> Mapping[BrokerId, tuple[BrokerId, ...]]:
    """Return to which members each member sends a copy of a message from `origin` to all others of its cluster."""
    return plan_of(origin, others).children


def _ballot_of(message: Events | Handed) -> Ballot | None:
    return message.message.ballot if isinstance(message, Handed) else message.ballot
