"""The search for a parent by a cluster without one: CMTP, the algorithm `Join` (paper 1, 4.2.1, figure 3), by messages.

Figure 3, which this follows line by line
-----------------------------------------
* (2-4) The rendezvous point names the root. The root is the first `parent`, and reports its children.
* (6) `nearest` is the candidate with the shortest round trip, among the parent and its children whose state
  is true. Round trips are measured on this machine's clock; ties go to the lower cluster id. `nearest` is
  known as soon as that round trip has passed for all candidates, because any candidate that is still silent
  is farther away. The search therefore waits for a dead candidate only when no other is left.
* (12-17) If `nearest` is a child, push (parent, children) on the stack and descend to the child: its children
  are asked before the child itself is asked to accept this cluster.
* (19-25) If `nearest` is the parent itself, ask it. If it accepts, the search ends; if not, its state becomes
  false.
* (7-11) If no candidate is left, return to the level above.

Where the figure is silent or wrong
-----------------------------------
* The figure pushes parent, then children, and pops parent first: a stack returns them in the opposite order.
  Here a level is one entry.
* At the bottom the stack returns null, the loop ends, and nothing is returned: all candidates have refused.
  Here the search restarts after a random wait, which doubles up to `GROWTH_MAX` times `root_wait_seconds`,
  until it succeeds. If any candidate has refused for load, the next search is a last resort in which load is
  no reason to refuse: a busy parent is better than none (promise 6).
* A state belongs to a cluster, not to a place in a list. D1, which has refused as `parent`, is therefore
  excluded for its parent D2 too, and D4 proceeds to D5, as the paper's text says.
* A cluster that does not answer a question within `answer_seconds` is excluded (state false) until the next
  attempt.
* The tree changes during the search. Clusters to which the search has already descended, and the searching
  cluster itself, are left out of the children.
* A broker that is asked and is not designated names the designated broker. The search then asks that broker
  instead, again starting with its children.
* Figure 3 begins at the root. A cluster that cannot reach the root, because the link to it is cut, continues
  at the root's children, which the rendezvous point knows from the root's beats.
* A cluster that still has a parent may look for another one, because it was told to leave the present one or
  to reconsider.

Bound: an attempt descends to a cluster at most once, and one broker gets at most one each of `Ping`,
`AskChildren`, `JoinRequest` and `Goodbye`. If b brokers are named to it, an attempt ends after at most 4 b
messages, each waited for at most `answer_seconds`. In addition there is one `AskRoot`, and one more per
`answer_seconds` while there is no answer.

Late answers
------------
Questions other than `JoinRequest` carry a number. `JoinRequest` needs none. When the search stops waiting for
its answer, it sends a `Goodbye`, so a parent that has accepted releases the place. Also, no broker is asked
to accept this cluster before it has answered an `AskChildren` that was sent later than the last request to
it, so its old `JoinAnswer` has arrived by then (links are FIFO).

No ring
-------
`acceptance.judge` refuses any cluster on its own path, and every cluster while there is no path to the root.
That is enough if hosts keep two rules. First, each change of the path is sent to the children at once and in
order, without omission, also when the path becomes empty. Second, a cluster that finds itself on the path
that its parent sends leaves the parent and joins again. If two subtrees are accepted below each other at the
same time, they see it as soon as the first answer has gone around.

Time is the time of the last `Ticked`. A host must hand in a tick before each message; otherwise all round
trips are as coarse as its ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Never, TypeAlias

from ...protocol.effects import Received, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import (
    RENDEZVOUS,
    AskChildren,
    AskRoot,
    BecomeRoot,
    Children,
    ClusterView,
    Goodbye,
    JoinAnswer,
    JoinRequest,
    Ping,
    Pong,
    Recovery,
    Root,
)
from ...routing.filters.filter import Filter
from .local import Joined, MadeRoot, Out

if TYPE_CHECKING:
    import random

GROWTH_MAX: Final = 8
"""The limit of the wait between two attempts, as a multiple of `root_wait_seconds`."""

Wanted: TypeAlias = tuple[tuple[Filter, int], ...]
"""All filters that a subtree wants, each with the token of its announcement."""


class Phase(Enum):
    """What a search is waiting for."""

    IDLE = "nothing"
    WAIT = "the moment to begin"
    ROOT = "the rendezvous point"
    CHILDREN = "the children of the parent"
    TRIPS = "the round trips of the children"
    ANSWER = "the answer to the request"


@dataclass(slots=True)
class _Attempt:
    """The variables of figure 3.

    Attributes
    ----------
    parent, children
        The level that is being searched.
    stack
        The levels above it.
    refused
        The clusters whose state is false.
    views, trips
        The clusters named so far, and the shortest round trip of each in seconds.
    opened
        The clusters to which the search has descended.
    asked, pinged
        The brokers that were sent an `AskChildren`, a `Ping`.
    waiting
        The round trips in progress: number -> (cluster, broker, sent at).
    spare
        The root's children as the rendezvous point knows them, for the case that the root does not answer.
    """

    parent: ClusterId
    children: list[ClusterId] = field(default_factory=list)
    stack: list[tuple[ClusterId, list[ClusterId]]] = field(default_factory=list)
    refused: set[ClusterId] = field(default_factory=set)
    views: dict[ClusterId, ClusterView] = field(default_factory=dict)
    trips: dict[ClusterId, float] = field(default_factory=dict)
    opened: set[ClusterId] = field(default_factory=set)
    asked: set[BrokerId] = field(default_factory=set)
    pinged: set[BrokerId] = field(default_factory=set)
    waiting: dict[int, tuple[ClusterId, BrokerId, float]] = field(default_factory=dict)
    spare: tuple[ClusterView, ...] = ()

    def nearest(self) -> ClusterId | None:
        """Return line 6: the nearest of the parent and its children whose state is true, among those measured."""
        return min(self._measured(), key=lambda cluster: (self.trips[cluster], cluster), default=None)

    def undecided_until(self, now: float, answer_seconds: float) -> float | None:
        """Return the time at which the nearest is known, or None if it is known now.

        Candidates that have been silent for `answer_seconds` are excluded from the search.
        """
        for number, (cluster, _, sent_at) in list(self.waiting.items()):
            if now >= sent_at + answer_seconds:
                self.refused.add(cluster)
                del self.waiting[number]
        best = min((self.trips[cluster] for cluster in self._measured()), default=answer_seconds)
        open_until = [
            sent_at + min(best, answer_seconds)
            for cluster, _, sent_at in self.waiting.values()
            if cluster in self.children and now - sent_at < best and now < sent_at + best
        ]
        return max(open_until, default=None)

    def _measured(self) -> list[ClusterId]:
        level = (self.parent, *self.children)
        return [cluster for cluster in level if cluster in self.trips and cluster not in self.refused]

    def measured(self, number: int, source: BrokerId, now: float) -> bool:
        """Record the round trip that ends with this answer; return False if no such answer is awaited."""
        cluster, broker, sent_at = self.waiting.get(number, (None, None, 0.0))
        if cluster is None or broker != source:
            return False
        del self.waiting[number]
        self.trips[cluster] = min(self.trips.get(cluster, now - sent_at), now - sent_at)
        return True


class Join:
    """The search for a parent by one cluster.

    Parameters
    ----------
    recovery
        `answer_seconds` and `root_wait_seconds`.
    random
        The source of randomness for the waits.
    """

    def __init__(self, recovery: Recovery, random: random.Random) -> None:
        self._recovery = recovery
        self._random = random
        self._now = 0.0
        self._phase = Phase.IDLE
        self._deadline = 0.0
        self._numbers = 0
        self._failures = 0
        self._load_refused = False  # whether a candidate has refused for its load in this search
        self._last_resort = False
        self._me: ClusterView
        self._filters: Wanted = ()
        self._attempt: _Attempt
        self._within: float | None = None
        self._present: ClusterId | None = None

    @property
    def active(self) -> bool:
        """Whether a search is in progress."""
        return self._phase is not Phase.IDLE

    @property
    def phase(self) -> Phase:
        """What the search waits for."""
        return self._phase

    @property
    def deadline(self) -> float | None:
        """The time at which a tick has an effect, if nothing arrives before; None while there is no search."""
        return self._deadline if self.active else None

    def start(
        self,
        me: ClusterView,
        filters: Wanted,
        now: float,
        *,
        root_died: bool = False,
        present: ClusterId | None = None,
        within: float | None = None,
    ) -> list[Out]:
        """Start a search for a parent. A search in progress is abandoned.

        Parameters
        ----------
        me, filters
            The cluster that looks for a parent, and everything that it wants.
        now
            The time, in seconds.
        root_died
            Whether the lost parent was the root. In that case each of its children waits for a random time,
            up to `root_wait_seconds`, before it asks the rendezvous point.
        present, within
            For a cluster that has a parent: `present` is that parent. Without `within` the cluster must find
            another one. With `within` it only looks for a better one: the search ends without result if
            `present` is the nearest, or if no cluster with a round trip of at most `within` seconds accepts
            it.
        """
        out = self.stop()
        self._present, self._within = present, within
        self._now = max(self._now, now)
        self._failures = 0
        self._load_refused = self._last_resort = False
        self.update(me, filters)
        if root_died:
            self._wait(self._random.uniform(0, self._recovery.root_wait_seconds))
            return out
        return out + self._ask_root()

    def update(self, me: ClusterView, filters: Wanted) -> None:
        """Update the cluster's view and filters. The next request carries them."""
        self._me, self._filters = me, filters

    def stop(self) -> list[Out]:
        """End the search. A broker that was asked and has not answered is told."""
        out = self._let_go() if self._phase is Phase.ANSWER else []
        self._phase = Phase.IDLE
        return out

    def handle(self, event: Received | Ticked) -> list[Out]:
        """Process one event. Answers that are not awaited have no effect."""
        if isinstance(event, Ticked):
            self._now = max(self._now, event.now)
            if self.active and self._now >= self._deadline:
                return _TIMEOUTS[self._phase](self)
            return []
        handler = _ANSWERS.get((self._phase, type(event.message)))
        if handler is None or not isinstance(event.source, int):
            return []
        return handler(self, event.source, event.message)  # type: ignore[arg-type]

    # The rendezvous point.

    def _ask_root(self) -> list[Out]:
        return self._question(Phase.ROOT, RENDEZVOUS, AskRoot(self._me))

    def _on_root(self, source: BrokerId, answer: Root) -> list[Out]:
        if source != RENDEZVOUS:
            return []
        if answer.root.cluster == self._me.cluster:
            # An earlier question was answered with BecomeRoot, and that answer was lost.
            return self._made_root(answer.term)
        self._attempt = _Attempt(answer.root.cluster, spare=answer.children)
        if self._present is not None and self._within is None:
            self._attempt.refused.add(self._present)
        return self._open(answer.root)

    def _on_become_root(self, source: BrokerId, answer: BecomeRoot) -> list[Out]:
        return self._made_root(answer.term) if source == RENDEZVOUS else []

    def _made_root(self, term: int) -> list[Out]:
        return [*self.stop(), MadeRoot(term)]

    # Descending: the children of the parent, and their distance.

    def _open(self, view: ClusterView) -> list[Out]:
        attempt = self._attempt
        attempt.parent, attempt.children = view.cluster, []
        attempt.views[view.cluster] = view
        attempt.opened.add(view.cluster)
        attempt.asked.add(view.designated)
        number = self._number(view)
        return self._question(Phase.CHILDREN, view.designated, AskChildren(number))

    def _on_children(self, source: BrokerId, answer: Children) -> list[Out]:
        attempt = self._attempt
        if not attempt.measured(answer.nonce, source, self._now):
            return []
        if answer.view.cluster != attempt.parent:
            return self._refused()
        if answer.view.designated != source:
            return self._turn_to(answer.view)
        attempt.views[attempt.parent] = answer.view
        out: list[Out] = []
        for child in answer.children:
            out += self._consider(child)
        return out + self._go_on()

    def _consider(self, child: ClusterView) -> list[Out]:
        """Add a child of the parent as a candidate, and measure its distance if that is unknown."""
        attempt = self._attempt
        cluster, broker = child.cluster, child.designated
        if cluster == self._me.cluster or cluster in attempt.opened or cluster in attempt.refused:
            return []
        if cluster in attempt.views:
            attempt.children.append(cluster)
            return []
        if broker in attempt.pinged or broker in attempt.asked:
            return []
        attempt.views[cluster] = child
        attempt.children.append(cluster)
        attempt.pinged.add(broker)
        return [Send(broker, Ping(self._number(child)))]

    def _on_pong(self, source: BrokerId, answer: Pong) -> list[Out]:
        known = self._attempt.measured(answer.nonce, source, self._now)
        return self._go_on() if known and self._phase is Phase.TRIPS else []

    # Lines 5 to 27.

    def _go_on(self) -> list[Out]:
        attempt = self._attempt
        out: list[Out] = []
        while True:
            until = attempt.undecided_until(self._now, self._recovery.answer_seconds)
            if until is not None:
                self._phase, self._deadline = Phase.TRIPS, until
                return out
            if (nearest := attempt.nearest()) is not None:
                break
            if attempt.stack:
                attempt.parent, attempt.children = attempt.stack.pop()
            elif attempt.spare:
                spare, attempt.spare = attempt.spare, ()
                for child in spare:
                    out += self._consider(child)
            else:
                return out + self._nobody()
        if nearest == attempt.parent:
            if self._within is not None and (
                nearest == self._present or attempt.trips[nearest] > self._within
            ):
                return out + self.stop()
            request = JoinRequest(self._me, self._filters, self._last_resort)
            return out + self._question(Phase.ANSWER, attempt.views[nearest].designated, request)
        attempt.stack.append((attempt.parent, attempt.children))
        return out + self._open(attempt.views[nearest])

    def _on_answer(self, source: BrokerId, answer: JoinAnswer) -> list[Out]:
        attempt = self._attempt
        if source != attempt.views[attempt.parent].designated:
            return []
        if not answer.accepted:
            self._load_refused = self._load_refused or answer.reason == "overloaded"
            return self._turn_to(answer.view) if answer.reason == "not designated" else self._refused()
        if self._me.cluster in answer.path:
            return [*self._let_go(), *self._refused()]
        self._phase = Phase.IDLE
        return [Joined(answer.view, answer.path, answer.term)]

    def _on_no_answer(self) -> list[Out]:
        return [*self._let_go(), *self._refused()]

    def _turn_to(self, view: ClusterView) -> list[Out]:
        """Start over with the parent, at the broker that is designated now."""
        attempt = self._attempt
        if view.cluster != attempt.parent or view.designated in attempt.asked:
            return self._refused()
        attempt.trips.pop(view.cluster, None)
        return self._open(view)

    def _refused(self) -> list[Out]:
        self._attempt.refused.add(self._attempt.parent)
        return self._go_on()

    def _nobody(self) -> list[Out]:
        if self._within is not None:
            return self.stop()
        self._last_resort, self._load_refused = self._load_refused, False
        longest = self._recovery.root_wait_seconds * min(2**self._failures, GROWTH_MAX)
        self._failures = min(self._failures + 1, GROWTH_MAX)
        self._wait(self._random.uniform(longest / 2, longest))
        return []

    # Questions.

    def _let_go(self) -> list[Out]:
        """Tell the broker that was asked that its answer is no longer awaited."""
        return [Send(self._attempt.views[self._attempt.parent].designated, Goodbye(self._me.cluster))]

    def _number(self, view: ClusterView) -> int:
        self._numbers += 1
        self._attempt.waiting[self._numbers] = (view.cluster, view.designated, self._now)
        return self._numbers

    def _question(
        self, phase: Phase, to: BrokerId, message: AskRoot | AskChildren | JoinRequest
    ) -> list[Out]:
        self._phase, self._deadline = phase, self._now + self._recovery.answer_seconds
        return [Send(to, message)]

    def _wait(self, seconds: float) -> None:
        self._phase, self._deadline = Phase.WAIT, self._now + seconds


# Answers and timeouts that are not in these tables are not awaited, and have no effect.

_ANSWERS: Final[dict[tuple[Phase, type], Callable[[Join, BrokerId, Never], list[Out]]]] = {
    (Phase.ROOT, Root): Join._on_root,
    (Phase.CHILDREN, Children): Join._on_children,
    (Phase.CHILDREN, Pong): Join._on_pong,
    (Phase.TRIPS, Pong): Join._on_pong,
    (Phase.ANSWER, Pong): Join._on_pong,
    (Phase.ANSWER, JoinAnswer): Join._on_answer,
    # A late answer: the rendezvous point takes this cluster for the root, whatever the cluster does
    # meanwhile.
    **{(phase, BecomeRoot): Join._on_become_root for phase in Phase if phase is not Phase.IDLE},
}

_TIMEOUTS: Final[dict[Phase, Callable[[Join], list[Out]]]] = {
    Phase.WAIT: Join._ask_root,
    Phase.ROOT: Join._ask_root,
    Phase.CHILDREN: Join._go_on,
    Phase.TRIPS: Join._go_on,
    Phase.ANSWER: Join._on_no_answer,
}
