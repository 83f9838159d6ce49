"""The side of a healing broker that carries subscriptions and events, and sends again what may have been lost.

Rules
-----
* Events from somebody who is no neighbour are ignored: he will send them again, over the tree as it is then. So are
  those of a fellow that follows another designated broker: what he sends to the group, he sends by another table.
* What a publisher here publishes is stamped with the current round and kept; a new round sends all that is kept again.
* The root begins at most one round a heartbeat: it sends again all that is kept, in the whole network.
* Over a closed link no event goes; a subscriber gets nothing that it has had (see `faults.rounds`, `faults.ledger`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..protocol.effects import Deliver, Effect, Multicast, Received, Send
from ..protocol.ids import GROUP, ClientId, Link, RoundNumber
from ..protocol.messages import Announce, Detach, Events, Installed, Register, Resume, Withdraw
from ..protocol.recovery import MemberInstalled, TableEntry
from ..protocol.rounds import AskRound, Doubt, Round
from .gate import admitted
from .healing_place import Place


class EventSide(Place):
    """Subscriptions, events and rounds."""

    def _on_announce(self, source: Link, message: Announce | Withdraw) -> list[Effect]:
        if not self.designated:
            return []
        child = next((view for view in self.children.values() if view.designated == source), None)
        if child is None and source not in self.view.members:
            return []  # a fellow that follows another; when it follows this one, it tells all that it wants
        if isinstance(message, Withdraw) and child is not None:
            waiting = self._unanswered.get(child.designated, {})
            for token in [token for token, item in waiting.items() if item == message.filter]:
                del waiting[token]
        effects = self._counted(self.router.handle(Received(source, message)))
        if child is not None:
            wanted = isinstance(message, Announce)
            effects.append(Multicast(TableEntry(child.cluster, message.filter, wanted)))
        return effects

    def _on_installed(self, source: Link, message: Installed) -> list[Effect]:
        above = (
            self.view.designated if not self.designated else self.parent.designated if self.parent else None
        )
        if source != above:
            return []
        self._after = max(self._after, message.round)
        return self._counted(self.router.handle(Received(source, message)))

    def _counted(self, effects: list[Effect]) -> list[Effect]:
        """Note which links are ready: a child's, when all that it wants is installed up to the root.

        Answers go on with the highest round that is known here.
        """
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Installed):
                waiting = self._unanswered.get(effect.to)
                if waiting is not None:
                    waiting.pop(effect.message.token, None)
        for link, waiting in self._unanswered.items():
            if not waiting:
                self.rounds.make_ready(link, self._after)
        return [self._answer(effect) for effect in effects]

    def _answer(self, effect: Effect) -> Effect:
        if not (isinstance(effect, Send) and isinstance(effect.message, Installed)):
            return effect
        if self._is_fellow(effect.to):
            # As a multicast: a round that began before it must not come after it.
            return Multicast(MemberInstalled(effect.to, effect.message.token, self._after))
        return Send(effect.to, Installed(effect.message.token, self._after))

    def _on_member_installed(self, source: Link, message: MemberInstalled) -> list[Effect]:
        if message.member != self.home.broker:
            return []
        return self._on_installed(source, Installed(message.token, message.round))

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        assert isinstance(source, str)
        self.ledger.begin(source, self.now)
        return self._on_client(source, message)

    def _on_client(self, source: Link, message: Any) -> list[Effect]:
        return self._counted(self.router.handle(Received(source, message)))

    def _on_resume(self, source: Link, message: Resume) -> list[Effect]:
        assert isinstance(source, str)
        self._resume(source, message)
        self.rounds.close(source)
        self.rounds.doubt_from(self.now - message.away_seconds)
        self._wants_round = True
        return []

    def _resume(self, client: ClientId, message: Resume) -> None:
        since = self.now - message.since_seconds - self.recovery.doubt_seconds
        self.ledger.resume(client, message.marks, since)

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        assert isinstance(source, str)
        self.ledger.forget(source)
        self.rounds.forget(source)
        return self._on_client(source, message)

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if isinstance(source, str):
            told = self._keep(source, message)
            message = replace(message, round=self.rounds.current, doubt_seconds=self.rounds.doubt_seconds)
            return told + self._gated(self.router.handle(Received(source, message)), message)
        if not self._is_on_tree(source, message.ballot):
            return []
        effects = self._begin(message.round, message.doubt_seconds)
        return effects + self._gated(self.router.handle(Received(source, message)), message)

    def _keep(self, publisher: ClientId, message: Events) -> list[Effect]:
        """Keep what was published here, to send it again; say what is known to be lost before it."""
        raise NotImplementedError

    def _tell_forgotten(self) -> list[Effect]:
        """Say what a round should mend and is not kept any more."""
        raise NotImplementedError

    def _gated(self, effects: list[Effect], events: Events) -> list[Effect]:
        """Leave out what may not pass: over links that are closed, and to subscribers that have had it."""
        passes, number = self.rounds.passes, events.round
        out: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(to, Events()):
                    if passes(to, number):
                        out.append(effect)
                case Multicast(Events() as message):
                    if passes(GROUP, number):
                        out.append(Multicast(replace(message, ballot=self.view.ballot)))
                case Deliver():
                    delivery = self._admitted(effect, events)
                    if delivery is not None:
                        out.append(delivery)
                case _:
                    out.append(effect)
        return out

    def _admitted(self, deliver: Deliver, events: Events) -> Deliver | None:
        return admitted(deliver, events, self.rounds, self.ledger, self.now)

    def _ask_round(self) -> list[Effect]:
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

    def _on_ask_round(self, source: Link, message: AskRound) -> list[Effect]:
        self._after = max(self._after, message.after)
        self.rounds.doubt_from(self.now - max(0.0, message.doubt_seconds - self.recovery.doubt_seconds))
        self._wants_round = True
        return self._ask_round() if self.designated and not self.root else []

    def _on_doubt(self, source: Link, message: Doubt) -> list[Effect]:
        return self._doubt_since(source, self.now - message.seconds)

    def _suspected(self) -> list[Effect]:
        """Tell every broker that something has failed, which may have gone unnoticed for a while."""
        return self._doubt_since(self.home.broker, self.now - self.recovery.doubt_seconds)

    def _doubt_since(self, source: Link, since: float) -> list[Effect]:
        """Remember a failure, and tell it on; whoever knows of it already tells nobody, so it comes to an end."""
        if not self.rounds.learn(since):
            return []
        return self._spread(source, Doubt(self.now - since))

    def _spread(self, source: Link, message: Any) -> list[Effect]:
        """Pass a message that is for every broker on to every link but that of arrival."""
        effects: list[Effect] = []
        if not self._is_fellow(source):
            effects.append(Multicast(message))
        if self.designated:
            effects += [Send(broker, message) for broker in self._beyond(source)]
        return effects

    def _on_round(self, source: Link, message: Round) -> list[Effect]:
        above = (
            self.view.designated if not self.designated else self.parent.designated if self.parent else None
        )
        return self._begin(message.number, message.doubt_seconds) if source == above else []

    def _begin(self, number: RoundNumber, doubt_seconds: float) -> list[Effect]:
        """Begin a round, unless it has begun: tell it on, then send again all that is kept."""
        if number <= self.rounds.current:
            return []
        for link in self.rounds.closed_links():
            if link in self._unanswered or (link == GROUP and self._unheard):
                continue  # ready when whoever is behind it has told what it wants, and has asked for a round itself
            if self.router.settled() and number > self._after:
                self.rounds.make_ready(link, self._after)
            else:
                # Something was announced meanwhile, or it began before: it is too early.
                self._wants_round = True
        self.rounds.begin(number, doubt_seconds)
        self._after = max(self._after, number)
        effects: list[Effect] = []
        if self.designated:
            begins = Round(number, doubt_seconds)
            effects += [Send(child.designated, begins) for child in self.children.values()]
            effects.append(Multicast(begins))
        effects += self._tell_forgotten()
        for kept in self.rounds.kept():
            # Whole seconds, so that neighbouring batches can travel as one.
            age = float(int(self.now - kept.at))
            events = Events(kept.batch, number, True, age_seconds=age, doubt_seconds=doubt_seconds)
            effects += self._gated(self.router.handle(Received(kept.publisher, events)), events)
        return effects
