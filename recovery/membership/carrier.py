"""Traffic over the tree: subscriptions, events, and messages for every broker, through the router inside.

Rules
-----
* Events from a broker that is not a neighbour are ignored. That broker retransmits them over the repaired tree. Events
  from another member that follows another designated broker are ignored too: it multicasts by a different table.
* Messages for every broker follow the current tree, in order after everything sent before.
* Where events go to every broker, no other broker confirms a subscription. The confirmation waits while there is no
  way up, until the next parent has stated which numbers it knows (`stating`).
* The members of the group hold a copy of each child's filters (`copies`), and are told of each change. What another
  member announces they hear themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...protocol.effects import Confirm, Deliver, Effect, Multicast, Received, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.layers import Heard, Out, Passed, Tell
from ...protocol.messages.pubsub import Announce, Events, Installed, Message, Withdraw
from ...protocol.messages.recovery import MemberInstalled, RecoveryMessage, TableEntry
from ...protocol.messages.rounds import Forgotten, Marker
from .acceptance import Load
from .copies import Copies
from .place import Place, Takes
from .tree_rounds import TreeRounds


class Carrier:
    """Forwarding at one broker.

    Attributes
    ----------
    load
        The rate of incoming events.
    """

    SHARED = frozenset({"_place", "_rounds", "_copies"})

    def __init__(self, place: Place, rounds: TreeRounds, copies: Copies) -> None:
        self._place = place
        self._rounds = rounds
        self._copies = copies
        self.load = Load()
        self._confirms: list[Confirm] = []  # held back
        self.takes: Takes = {
            **dict.fromkeys(place.router.takes, self._on_routed),
            Events: self._on_events,
            Announce: self._on_announce,
            Withdraw: self._on_announce,
            Installed: self._on_installed,
            MemberInstalled: self._on_member_installed,
            Forgotten: self._on_told,
            Marker: self._on_told,
        }

    # Subscriptions.

    def _on_announce(self, source: Link, message: Announce | Withdraw) -> list[Out]:
        """Handle an announcement or withdrawal from a child or a member of the group."""
        place = self._place
        if not place.designated:
            if source in place.other_members:
                self._copies.hear(source, message)
            return []
        child = place.child_of(source)
        if child is None and source not in place.view.members:
            return []  # it follows another designated broker; once it follows this one, it announces its filters
        if isinstance(message, Withdraw) and child is not None:
            place.unanswered.withdrawn(child.designated, message.filter)
        effects = self._on_routed(source, message)
        if child is not None:
            wanted = isinstance(message, Announce)
            effects.append(Multicast(TableEntry(child.cluster, message.filter, wanted, place.view.ballot)))
        return effects

    def _on_installed(self, source: BrokerId, message: Installed) -> list[Out]:
        if source != self._place.above():
            return []
        self._rounds.learn(message.round)
        return self._on_routed(source, message)

    def _on_member_installed(self, source: BrokerId, message: MemberInstalled) -> list[Out]:
        """Handle an installation that is addressed to one member of the group, but multicast to all."""
        if message.member != self._place.home.broker:
            return []
        return self._on_installed(source, Installed(message.token, message.round))

    def _on_routed(self, source: Link, message: Message | RecoveryMessage) -> list[Out]:
        """Pass to the router its own messages: subscriptions of clients, and messages between a scheme's brokers."""
        return self.counted(self._place.router.handle(Received(source, message)))

    def counted(self, effects: Sequence[Out]) -> list[Out]:
        """Mark links as ready: a child's link is, once all its filters are installed up to the root.

        Answers carry the highest round that is known here.
        """
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Installed):
                self._place.unanswered.installed(effect.to, effect.message.token)
        for child in self._place.unanswered.ready():
            self._rounds.links.make_ready(child, self._rounds.known)
        return [self._answer(effect) for effect in effects]

    def confirmed(self, out: list[Out]) -> list[Out]:
        """Return what a broker does, without confirmations until there is a way up, and with those held back then."""
        if self._place.router.attached:
            held, self._confirms = self._confirms, []
            return [*out, *held]
        self._confirms += [each for each in out if isinstance(each, Confirm)]
        return [each for each in out if not isinstance(each, Confirm)]

    def _answer(self, effect: Out) -> Out:
        if not (isinstance(effect, Send) and isinstance(effect.message, Installed)):
            return effect
        token, known = effect.message.token, self._rounds.known
        if effect.to in self._place.other_members:
            # As a multicast: a round that began before it must not arrive after it.
            return Multicast(MemberInstalled(effect.to, token, known))
        return Send(effect.to, Installed(token, known))

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Out]:
        self.load.count(len(message.batch.sequence))
        out: list[Out] = []
        if not isinstance(source, str):
            if not self._place.is_on_tree(source, message.ballot):
                return []
            if message.round > self._rounds.links.current:
                out = self._rounds.begin(message.round, message.repair_window_seconds)
        for effect in self._place.router.handle(Received(source, message)):
            out.append(effect if type(effect) is Send else self._stamped(effect, message))
        return out

    def _stamped(self, effect: Effect, message: Events) -> Effect:
        """Add the ballot to events that go to the group, and to a delivery the message that brought it."""
        if isinstance(effect, Deliver):
            return Deliver(effect.batch, effect.clients, effect.starts, effect.rows, brought_by=message)
        if isinstance(effect, Multicast) and isinstance(effect.message, Events):
            return Multicast(replace(effect.message, ballot=self._place.view.ballot))
        return effect

    # Messages for every broker.

    def on_tell(self, event: Tell) -> list[Out]:
        """Pass on to every broker a message from a layer around this one."""
        place = self._place
        if event.whole and not place.is_whole():
            return []
        to = set(place.beyond(event.source)) if place.designated else set()
        if event.source not in place.other_members:
            to.update(place.view.members)
            to.discard(place.home.broker)
        out = place.spread(event.source, replace(event.message, ballot=place.view.ballot))
        return [*out, Passed(event.source, event.message, frozenset(to))]

    def _on_told(self, source: BrokerId, message: Forgotten | Marker) -> list[Out]:
        if not self._place.is_on_tree(source, message.ballot):
            return []
        return [*self._rounds.begin(message.round, message.repair_window_seconds), Heard(source, message)]
