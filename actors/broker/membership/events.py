"""The side of a healing broker that carries subscriptions and events over the tree, and begins rounds.

Rules
-----
* Events from somebody who is no neighbour are ignored: he will send them again, over the tree as it is then. So are
  those of a fellow that follows another designated broker: what he sends to the group, he sends by another table.
* The root begins at most one round a heartbeat: what is kept is sent again, in the whole network
  (`faults.replay.replay`).
* What is told to every broker goes over the tree as it is, behind what was sent before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....protocol.effects import Deliver, Multicast, Received, Send
from ....protocol.ids import GROUP, BrokerId, Link, RoundNumber
from ....protocol.layers import Heard, Out, Passed, Restored, RoundBegan, RoundHeard, RoundWanted, Tell
from ....protocol.messages.pubsub import Announce, Events, Installed, Withdraw
from ....protocol.messages.recovery import MemberInstalled, TableEntry, Wants
from ....protocol.messages.rounds import AskRound, Doubt, Forgotten, Marker, Round
from .place import Place


class EventSide(Place):
    """Subscriptions, events and rounds."""

    def _on_announce(self, source: Link, message: Announce | Withdraw) -> list[Out]:
        if not self.designated:
            return []
        child = next((view for view in self.children.values() if view.designated == source), None)
        if child is None and source not in self.view.members:
            return []  # a fellow that follows another; when it follows this one, it tells all that it wants
        if isinstance(message, Withdraw) and child is not None:
            self.unanswered.withdrawn(child.designated, message.filter)
        effects = self._counted(self.router.handle(Received(source, message)))
        if child is not None:
            wanted = isinstance(message, Announce)
            effects.append(Multicast(TableEntry(child.cluster, message.filter, wanted, self.view.ballot)))
        return effects

    def _above(self) -> Link | None:
        """Return who is next on the way to the root."""
        if not self.designated:
            return self.view.designated
        return None if self.parent is None else self.parent.designated

    def _on_installed(self, source: BrokerId, message: Installed) -> list[Out]:
        if source != self._above():
            return []
        self._after = max(self._after, message.round)
        return self._counted(self.router.handle(Received(source, message)))

    def _counted(self, effects: list[Any]) -> list[Out]:
        """Note which links are ready: a child's, when all that it wants is installed up to the root.

        Answers go on with the highest round that is known here.
        """
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Installed):
                self.unanswered.installed(effect.to, effect.message.token)
        for child in self.unanswered.ready():
            self.rounds.make_ready(child, self._after)
        return [self._answer(effect) for effect in effects]

    def _answer(self, effect: Any) -> Any:
        if not (isinstance(effect, Send) and isinstance(effect.message, Installed)):
            return effect
        if self._is_fellow(effect.to):
            # As a multicast: a round that began before it must not come after it.
            return Multicast(MemberInstalled(effect.to, effect.message.token, self._after))
        return Send(effect.to, Installed(effect.message.token, self._after))

    def _on_member_installed(self, source: BrokerId, message: MemberInstalled) -> list[Out]:
        if message.member != self.home.broker:
            return []
        return self._on_installed(source, Installed(message.token, message.round))

    def _on_routed(self, source: Link, message: Any) -> list[Out]:
        """Give the router what is its own: what clients want, and what a scheme's brokers tell each other."""
        return self._counted(self.router.handle(Received(source, message)))

    def _on_restored(self, event: Restored) -> list[Out]:
        """Want again what somebody wanted in an earlier life; the cluster is told when it is heard."""
        self._restored = True
        for register in event.registers:
            self.router.handle(Received(event.client, register))
        return []

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Out]:
        begun: list[Out] = []
        if not isinstance(source, str):
            if not self._is_on_tree(source, message.ballot):
                return []
            begun = self._begin(message.round, message.doubt_seconds)
        return begun + [
            self._stamped(effect, message) for effect in self.router.handle(Received(source, message))
        ]

    def _stamped(self, effect: Any, message: Events) -> Any:
        """Say under which ballot events go over the group, and what has brought a delivery."""
        if isinstance(effect, Deliver):
            return Deliver(effect.batch, effect.clients, effect.starts, effect.rows, brought_by=message)
        if isinstance(effect, Multicast) and isinstance(effect.message, Events):
            return Multicast(replace(effect.message, ballot=self.view.ballot))
        return effect

    # What is told to every broker.

    def _on_tell(self, event: Tell) -> list[Out]:
        if event.whole and not self._is_whole():
            return []
        to = set(self._beyond(event.source)) if self.designated else set()
        if not self._is_fellow(event.source):
            to.update(self.view.members)
            to.discard(self.home.broker)
        out = self._spread(event.source, replace(event.message, ballot=self.view.ballot))
        return [*out, Passed(event.source, event.message, frozenset(to))]

    def _is_whole(self) -> bool:
        """Return whether events that are published here can go everywhere, as far as that is known."""
        if self.designated:
            return self.root or bool(self.router.attached and self.path)
        return self.home.broker in self.view.members and self.view.designated != self.home.broker

    def _on_told(self, source: BrokerId, message: Forgotten | Marker) -> list[Out]:
        if not self._is_on_tree(source, message.ballot):
            return []
        return [*self._begin(message.round, message.doubt_seconds), Heard(source, message)]

    def _spread(self, source: BrokerId, message: Any) -> list[Out]:
        """Pass a message that is for every broker on to every link but that of arrival."""
        effects: list[Out] = []
        if self.fellows and not self._is_fellow(source):
            effects.append(Multicast(message))
        if self.designated:
            effects += [Send(broker, message) for broker in self._beyond(source)]
        return effects

    # Failures.

    def _on_doubt(self, source: BrokerId, message: Doubt) -> list[Out]:
        return self._doubt_since(source, self.now - message.seconds)

    def _suspected(self) -> list[Out]:
        """Tell every broker that something has failed, which may have gone unnoticed for a while."""
        return self._doubt_since(self.home.broker, self.now - self.recovery.doubt_seconds)

    def _doubt_since(self, source: BrokerId, since: float) -> list[Out]:
        """Remember a failure, and tell it on; whoever knows of it already tells nobody, so it comes to an end."""
        if not self.rounds.learn(since):
            return []
        return self._spread(source, Doubt(self.now - since))

    # Rounds.

    def _on_round_wanted(self, event: RoundWanted) -> list[Out]:
        self._wants_round = True
        if event.again and not self.designated and not self.router.settled():
            return [Multicast(Wants(self.router.wants()))]
        return []

    def _ask_round(self) -> list[Out]:
        """Ask for a round when one is wanted and everything that it has to reach is installed; begin it at the root."""
        if not self._wants_round or not self.router.settled():
            return []
        if self.designated and not self.root and (not self.router.attached or not self.path):
            return []
        if self.root and self.designated and self.now < self._round_at:
            return []
        self._wants_round = False
        if not self.designated:
            return [Send(self.view.designated, AskRound(self._after, self._doubt()))]
        if self.root:
            self._round_at = self.now + self.recovery.heartbeat_seconds
            return self._begin(self._next_round(), self._doubt())
        assert self.parent is not None
        return [Send(self.parent.designated, AskRound(self._after, self._doubt()))]

    def _doubt(self) -> float:
        """Return how far back the next round has to mend."""
        return self.rounds.doubted_seconds() + self.recovery.doubt_seconds

    def _next_round(self) -> RoundNumber:
        after = self._after
        return (
            RoundNumber(self.term, 1) if self.term > after.term else RoundNumber(after.term, after.number + 1)
        )

    def _on_ask_round(self, source: BrokerId, message: AskRound) -> list[Out]:
        self._after = max(self._after, message.after)
        self.rounds.doubt_from(self.now - max(0.0, message.doubt_seconds - self.recovery.doubt_seconds))
        self._wants_round = True
        return self._ask_round() if self.designated and not self.root else []

    def _on_round(self, source: BrokerId, message: Round) -> list[Out]:
        return self._begin(message.number, message.doubt_seconds) if source == self._above() else []

    def _on_round_heard(self, event: RoundHeard) -> list[Out]:
        """Begin a round of which this broker, or the one that tells it, has a wrong number: numbers only rise."""
        return self._begin(event.number, self._doubt())

    def _begin(self, number: RoundNumber, doubt_seconds: float) -> list[Out]:
        """Begin a round, unless it has begun, and tell it on."""
        if number <= self.rounds.current:
            return []
        for link in self.rounds.closed_links():
            if link in self.unanswered or (link == GROUP and self._unheard):
                continue  # ready when whoever is behind it has told what it wants, and has asked for a round itself
            if self.router.settled() and number > self._after:
                self.rounds.make_ready(link, self._after)
            else:
                # Something was announced meanwhile, or it began before: it is too early.
                self._wants_round = True
        self.rounds.begin(number, doubt_seconds)
        self._after = max(self._after, number)
        self._wants_round = self._wants_round or self.rounds.too_old()
        begins = Round(number, doubt_seconds)
        effects: list[Out] = []
        if self.designated:
            effects += [Send(child.designated, begins) for child in self.children.values()]
            effects.append(Multicast(begins))
        return [*effects, RoundBegan(number)]
