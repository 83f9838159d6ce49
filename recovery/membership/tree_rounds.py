"""How rounds begin on a tree: requests travel towards the root, which begins a round; all brokers then pass it on.

Rules
-----
* In a round, the whole network retransmits its retained events (`recovery.replay.replay`). So the root begins one per
  heartbeat on average. But one failure makes several brokers ask, each as soon as its own filters are installed, and
  clients that move ask later. So the gap after a round is `GAP_MIN` heartbeats at first and doubles with each round, up
  to one heartbeat; for each heartbeat in which no round is wanted it halves again. Who asks some time after a failure
  then waits for about as long again at most.
* A round is wanted when a link is new, or events may have been lost. It is requested as soon as all filters that it
  has to reach are installed, whatever message says so.
* Every broker is told of a failure, since the brokers that it concerns may not have detected it (`FailureNotice`).
"""

from __future__ import annotations

from typing import Final

from ...protocol.effects import Multicast, Send, TickAt
from ...protocol.ids import GROUP, BrokerId, Link, RoundNumber
from ...protocol.layers import Out, RoundBegan, RoundHeard, RoundWanted
from ...protocol.messages.recovery import Wants
from ...protocol.messages.rounds import AskRound, FailureNotice, Round
from ..replay.rounds import Rounds
from .place import Place, Takes

GAP_MIN: Final = 1 / 32
"""The shortest time between two rounds, in heartbeats; long enough that a round serves several requests."""

QUIET_MAX: Final = 64.0
"""After so many heartbeats without a round all is as at the start."""


class TreeRounds:
    """The rounds of a tree, at one broker.

    Parameters
    ----------
    place
        The place of the broker.
    links
        Which links are open, and since which round; shared with the retransmission layer.
    known
        The highest round of an earlier incarnation.

    Attributes
    ----------
    known
        The highest round known here, or reported by a broker below.
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
        self._gap = 0.0  # between the last round and that moment, in heartbeats
        self._tick_due = 0.0  # when this broker has asked to be told the time
        self._has_reached_root = False  # whether the root has been reachable in this incarnation
        if links.holds_any:
            links.close(GROUP)  # no new event may overtake retained events that may never have been sent
        self.takes: Takes = {
            AskRound: self._on_ask,
            Round: self._on_round,
            FailureNotice: self._on_failure_notice,
        }

    def want(self) -> None:
        """Note that a round is wanted; `ask` requests it as soon as it can."""
        self.wanted = True

    def learn(self, number: RoundNumber) -> None:
        """Record that a round has begun somewhere."""
        self.known = max(self.known, number)

    def tick(self) -> None:
        """Record the time since which the root is unreachable: rounds have to repair from then on."""
        place = self._place
        if place.path if place.designated else place.succession.path:
            self._has_reached_root = True
        elif self._has_reached_root:
            self.links.repair_from(place.now)

    # Failures.

    def _on_failure_notice(self, source: BrokerId, message: FailureNotice) -> list[Out]:
        return self._failed_since(source, self._place.now - message.seconds)

    def suspected(self) -> list[Out]:
        """Tell every broker of a failure, which may have gone undetected for a while."""
        place = self._place
        return self._failed_since(place.home.broker, place.now - place.recovery.unnoticed_seconds)

    def _failed_since(self, source: BrokerId, since: float) -> list[Out]:
        """Record a failure and pass it on; a broker that knows of it does not, so the forwarding ends."""
        if not self.links.learn(since):
            return []
        return self._place.spread(source, FailureNotice(self._place.now - since))

    # Requests.

    def on_wanted(self, event: RoundWanted) -> list[Out]:
        """Handle a layer's request for a round; if it has waited long, announce this broker's filters again."""
        self.wanted = True
        router = self._place.router
        if event.repeated and not self._place.designated and not router.settled():
            return [Multicast(Wants(router.wants()))]
        return []

    def ask(self) -> list[Out]:
        """Request a round, or begin it at the root, if one is wanted and all filters it has to reach are installed."""
        place = self._place
        if not self.wanted or not place.router.settled():
            return []
        if not place.designated:
            self.wanted = False
            return [Send(place.view.designated, AskRound(self.known, self._repair_window()))]
        if place.root:
            return self._begin_next()
        if not place.router.attached or not place.path:
            return []
        self.wanted = False
        assert place.parent is not None
        return [Send(place.parent.designated, AskRound(self.known, self._repair_window()))]

    def ask_after(self, source: Link) -> list[Out]:
        """Request a wanted round after a message: at once after one of a broker, soon after one of a client.

        A client says what it wants in several messages, and others come at the same time: one round serves them all.
        """
        if isinstance(source, int):
            return self.ask()
        return self._tick_at(self._place.now + self._place.recovery.heartbeat_seconds * GAP_MIN)

    def _tick_at(self, at: float) -> list[Out]:
        """Ask to be told the time at `at`, unless this broker will be told it before."""
        if self._place.now < self._tick_due <= at:
            return []
        self._tick_due = at
        return [TickAt(at)]

    def _begin_next(self) -> list[Out]:
        """Begin a round at the root, or ask to be told when the time for it has come."""
        place = self._place
        if place.now < self._next_at:
            return self._tick_at(self._next_at)
        heartbeat = place.recovery.heartbeat_seconds
        quiet = min((place.now - self._next_at) / heartbeat, QUIET_MAX)
        self.wanted = False
        self._gap = min(1.0, max(GAP_MIN, 2 * self._gap / 2**quiet))
        self._next_at = place.now + self._gap * heartbeat
        return self.begin(self._next(), self._repair_window())

    def _repair_window(self) -> float:
        """Return how far back the next round has to repair."""
        return self.links.pending_repair_seconds() + self._place.recovery.unnoticed_seconds

    def _next(self) -> RoundNumber:
        known, term = self.known, self._place.term
        return RoundNumber(term, 1) if term > known.term else RoundNumber(known.term, known.number + 1)

    def _on_ask(self, source: BrokerId, message: AskRound) -> list[Out]:
        place = self._place
        self.learn(message.after)
        self.links.repair_from(
            place.now - max(0.0, message.repair_window_seconds - place.recovery.unnoticed_seconds)
        )
        self.wanted = True
        return self.ask() if place.designated else []

    # Start of a round.

    def _on_round(self, source: BrokerId, message: Round) -> list[Out]:
        if source != self._place.above():
            return []
        return self.begin(message.number, message.repair_window_seconds)

    def on_heard(self, event: RoundHeard) -> list[Out]:
        """Begin a round that another broker is in: one of the two has a wrong number, and numbers only rise."""
        return self.begin(event.number, self._repair_window())

    def begin(self, number: RoundNumber, repair_window_seconds: float) -> list[Out]:
        """Begin a round, unless it has begun, and pass it on."""
        links, place = self.links, self._place
        if number <= links.current:
            return []
        for link in links.complete_links():
            if link in self._place.unanswered:
                continue  # ready once the broker behind it has announced its filters; it requests a round itself
            if place.router.settled() and number > self.known:
                links.make_ready(link, self.known)
            else:
                # It is too early: an announcement is pending, or the round began before.
                self.wanted = True
        links.begin(number, repair_window_seconds)
        self.learn(number)
        self.wanted = self.wanted or links.too_old()
        begins = Round(number, repair_window_seconds)
        effects: list[Out] = []
        if place.designated:
            effects += [Send(child.designated, begins) for child in place.children.values()]
            effects.append(Multicast(begins))
        return [*effects, RoundBegan(number)]
