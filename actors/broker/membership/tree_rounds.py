"""How rounds begin on a tree: requests go towards the root, which begins the round; all others forward it.

Rules
-----
* The root begins at most one round per heartbeat. In a round the whole network retransmits what it retains
  (`faults.replay.replay`).
* A round is wanted when a link is new, or when something may have been lost. It is requested when everything
  that it must reach is installed.
* A failure is told to every broker, because the brokers that it concerns may not have noticed it (`Doubt`).
"""

from __future__ import annotations

from ....faults.replay.rounds import Rounds
from ....protocol.effects import Multicast, Send
from ....protocol.ids import GROUP, BrokerId, RoundNumber
from ....protocol.layers import Out, RoundBegan, RoundHeard, RoundWanted
from ....protocol.messages.recovery import Wants
from ....protocol.messages.rounds import AskRound, Doubt, Round
from .place import Place, Takes


class TreeRounds:
    """The rounds of a tree, at one broker.

    Parameters
    ----------
    place
        The broker's place.
    links
        Which links are open, and since which round: shared with the layer that retransmits.
    known
        The highest round of an earlier life.

    Attributes
    ----------
    known
        The highest round that is known here or was known below.
    wanted
        Whether a round is wanted here.
    """

    SHARED = frozenset({"_place", "links"})

    def __init__(self, place: Place, links: Rounds, known: RoundNumber) -> None:
        self._place = place
        self.links = links
        self.known = known
        self.wanted = False
        self._next_at = 0.0  # when the root may begin the next one
        self._has_reached_root = False  # whether there has been a path to the root in this life
        if links.holds_any:
            links.close(GROUP)  # nothing new precedes what may never have been sent
        self.takes: Takes = {
            AskRound: self._on_ask,
            Round: self._on_round,
            Doubt: self._on_doubt,
        }

    def want(self) -> None:
        """Request a round when it is time."""
        self.wanted = True

    def learn(self, number: RoundNumber) -> None:
        """Record that a round has begun somewhere."""
        self.known = max(self.known, number)

    def tick(self) -> None:
        """Record how long there is no path to the root: rounds must go back to that time."""
        place = self._place
        if place.path if place.designated else place.succession.path:
            self._has_reached_root = True
        elif self._has_reached_root:
            self.links.doubt_from(place.now)

    # Failures.

    def _on_doubt(self, source: BrokerId, message: Doubt) -> list[Out]:
        return self._doubt_since(source, self._place.now - message.seconds)

    def suspected(self) -> list[Out]:
        """Tell every broker of a failure, which may have gone unnoticed for a while."""
        place = self._place
        return self._doubt_since(place.home.broker, place.now - place.recovery.doubt_seconds)

    def _doubt_since(self, source: BrokerId, since: float) -> list[Out]:
        """Remember a failure and forward it. A broker that knows of it already does not, so forwarding ends."""
        if not self.links.learn(since):
            return []
        return self._place.spread(source, Doubt(self._place.now - since))

    # Requests.

    def on_wanted(self, event: RoundWanted) -> list[Out]:
        """Process that a surrounding layer wants a round."""
        self.wanted = True
        router = self._place.router
        if event.again and not self._place.designated and not router.settled():
            return [Multicast(Wants(router.wants()))]
        return []

    def ask(self) -> list[Out]:
        """Request a round if one is wanted and everything that it must reach is installed; at the root, begin it."""
        place = self._place
        if not self.wanted or not place.router.settled():
            return []
        if not place.designated:
            self.wanted = False
            return [Send(place.view.designated, AskRound(self.known, self._doubt()))]
        if place.root:
            if place.now < self._next_at:
                return []
            self.wanted = False
            self._next_at = place.now + place.recovery.heartbeat_seconds
            return self.begin(self._next(), self._doubt())
        if not place.router.attached or not place.path:
            return []
        self.wanted = False
        assert place.parent is not None
        return [Send(place.parent.designated, AskRound(self.known, self._doubt()))]

    def _doubt(self) -> float:
        """Return how far back the next round must go."""
        return self.links.doubted_seconds() + self._place.recovery.doubt_seconds

    def _next(self) -> RoundNumber:
        known, term = self.known, self._place.term
        return RoundNumber(term, 1) if term > known.term else RoundNumber(known.term, known.number + 1)

    def _on_ask(self, source: BrokerId, message: AskRound) -> list[Out]:
        place = self._place
        self.learn(message.after)
        self.links.doubt_from(place.now - max(0.0, message.doubt_seconds - place.recovery.doubt_seconds))
        self.wanted = True
        return self.ask() if place.designated and not place.root else []

    # The start of a round.

    def _on_round(self, source: BrokerId, message: Round) -> list[Out]:
        if source != self._place.above():
            return []
        return self.begin(message.number, message.doubt_seconds)

    def on_heard(self, event: RoundHeard) -> list[Out]:
        """Begin a round of which this broker, or the sender, has a wrong number: numbers only rise."""
        return self.begin(event.number, self._doubt())

    def begin(self, number: RoundNumber, doubt_seconds: float) -> list[Out]:
        """Begin a round, unless it has begun, and forward it."""
        links, place = self.links, self._place
        if number <= links.current:
            return []
        for link in links.closed_links():
            if link in self._place.unanswered:
                continue  # ready when the broker behind it has told what it wants, and has requested a round itself
            if place.router.settled() and number > self.known:
                links.make_ready(link, self.known)
            else:
                # Too early: something was announced meanwhile, or the round began before.
                self.wanted = True
        links.begin(number, doubt_seconds)
        self.learn(number)
        self.wanted = self.wanted or links.too_old()
        begins = Round(number, doubt_seconds)
        effects: list[Out] = []
        if place.designated:
            effects += [Send(child.designated, begins) for child in place.children.values()]
            effects.append(Multicast(begins))
        return [*effects, RoundBegan(number)]
