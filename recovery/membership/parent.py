"""The parent of a cluster: finding one, losing it, moving to a nearer one, being the root (paper 1, 4.1.2 and 4.2).

Rules
-----
* While the root is unreachable, the path is empty, here and below.
* A cluster announces all its filters to a new parent when it joins; changes since the request follow right after.
* A cluster leaves its previous parent only once another has taken it.
* A better parent is one whose round-trip time is at most `NEARER` times that of the present parent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...protocol.effects import Received, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.layers import Out
from ...protocol.messages.pubsub import Announce, Withdraw
from ...protocol.messages.recovery import (
    RENDEZVOUS,
    BecomeRoot,
    Children,
    ClusterView,
    Goodbye,
    JoinAnswer,
    JoinRequest,
    Ping,
    Pong,
    Reconsider,
    Root,
)
from ...routing.filters.filter import Filter
from .carrier import Carrier
from .children import ChildLinks
from .join import Join
from .local import Joined, MadeRoot
from .place import Place, Takes
from .tree_rounds import TreeRounds

if TYPE_CHECKING:
    from random import Random

NEARER: Final = 0.7
"""A parent is worth moving to when its round-trip time is at most this fraction of the present parent's."""

_NONCE: Final = 0
"""Nonce of the ping to the present parent; the nonces of a search begin at 1."""


class ParentLink:
    """The link of one broker's cluster to its parent.

    Parameters
    ----------
    chance
        Random source for the waits of a search.
    """

    SHARED = frozenset({"_place", "_rounds", "_carrier", "_children"})

    def __init__(
        self,
        place: Place,
        rounds: TreeRounds,
        carrier: Carrier,
        children: ChildLinks,
        chance: Random,
    ) -> None:
        self._place = place
        self._rounds = rounds
        self._carrier = carrier
        self._children = children
        self._join = Join(place.recovery, chance)
        # When the parent, or its new designated broker, must have answered; None when no answer is awaited.
        self._answer_by: float | None = None
        self._offered: dict[Filter, int] = {}  # the filters in the last request to a parent
        self._pinged_at: float | None = None
        self.takes: Takes = {
            JoinAnswer: self._on_join_answer,
            Children: self._on_children,
            Root: self._on_root,
            BecomeRoot: self._on_become_root,
            Reconsider: self._on_reconsider,
            Ping: self._on_ping,
            Pong: self._on_pong,
        }

    @property
    def searching(self) -> bool:
        """Whether this cluster looks for a parent, a first or a better one."""
        return self._join.active or self._pinged_at is not None

    @property
    def awaited(self) -> bool:
        """Whether the parent has yet to answer."""
        return self._answer_by is not None

    def may_search(self) -> bool:
        """Return whether there is a confirmed parent, and no search for another."""
        return self._place.parent is not None and not self.awaited and not self.searching

    def _absorb(self, out: Iterable[Any]) -> list[Out]:
        effects: list[Out] = []
        for item in out:
            match item:
                case Joined(parent, path, term):
                    effects += self._joined(parent, path, term)
                case MadeRoot(term):
                    effects += self._made_root(term)
                case Send(_, JoinRequest() as request):
                    self._offered = dict(request.filters)
                    effects.append(item)
                case _:
                    effects.append(item)
        return effects

    # Time.

    def give_up_ping(self) -> None:
        """Give up a ping that the parent does not answer."""
        place = self._place
        if self._pinged_at is not None and place.now >= self._pinged_at + place.recovery.answer_seconds:
            self._pinged_at = None

    def go_on(self, event: Received | Ticked) -> list[Out]:
        """Continue the search for a parent, if there is one."""
        if not self._join.active:
            return []
        self._join.update(self._place.view, self._place.router.wants())
        return self._absorb(self._join.handle(event))

    def give_up_overdue(self) -> list[Out]:
        """Give up a parent that has not answered in time."""
        overdue = self._answer_by is not None and self._place.now >= self._answer_by
        return self.orphaned() if overdue else []

    # With a parent.

    def follow_path(self, above: tuple[ClusterId, ...], term: int) -> list[Out]:
        """Update the path from the parent's path to the root."""
        place = self._place
        assert place.parent is not None
        if place.view.cluster in above:
            return self.orphaned()
        watched = (view for view in place.probing.neighbours if view.cluster == place.parent.cluster)
        place.parent = next(watched, place.parent)
        path = (*above, place.view.cluster) if above and not self.awaited else ()
        place.term = term
        if path == place.path:
            return []
        place.path = path
        return place.changed()

    def moved(self, view: ClusterView) -> list[Out]:
        """Handle a change of the parent's designated broker."""
        place = self._place
        assert place.parent is not None
        self._rounds.links.forget(place.parent.designated)
        place.parent = view
        return self.reconnect() + place.changed()

    def reconnect(self) -> list[Out]:
        """Join at the parent's new designated broker, or at the parent after a succession here, with all filters."""
        place, router = self._place, self._place.router
        assert place.parent is not None
        effects = self.stop()
        place.path = ()
        place.stand(attached=False)
        effects += router.forget_parent()
        self._offered = dict(router.wants())
        self._answer_by = place.now + place.recovery.answer_seconds
        self._rounds.links.close(place.parent.designated)
        return [*effects, Send(place.parent.designated, JoinRequest(place.view, router.wants()))]

    def orphaned(self) -> list[Out]:
        """Give up the parent and look for another."""
        place = self._place
        lost, place.parent = place.parent, None
        self._answer_by = None
        effects: list[Out] = []
        root_died = False
        if lost is not None:
            root_died = place.path[:1] == (lost.cluster,) or not place.path
            effects.append(self._leave(lost))
        place.path = ()
        return effects + self.search(root_died=root_died) + place.changed()

    def _leave(self, parent: ClusterView) -> Send:
        self._place.probing.forget(parent.cluster)
        self._rounds.links.forget(parent.designated)
        return Send(parent.designated, Goodbye(self._place.view.cluster))

    # Searching.

    def search(self, *, root_died: bool = False) -> list[Out]:
        """Look for a parent, without having one now."""
        place = self._place
        place.root = False
        place.path = ()
        place.stand(attached=False)
        effects = place.router.forget_parent()
        started = self._join.start(place.view, place.router.wants(), place.now, root_died=root_died)
        return effects + self._absorb(started)

    def look_elsewhere(self, within: float | None = None) -> list[Out]:
        """Look for another parent while there is one, possibly a nearer one."""
        place = self._place
        assert place.parent is not None
        present, wants = place.parent.cluster, place.router.wants()
        started = self._join.start(place.view, wants, place.now, present=present, within=within)
        return self._absorb(started)

    def stop(self) -> list[Out]:
        """Stop the search for a parent."""
        return self._absorb(self._join.stop())

    def step_down(self) -> list[Out]:
        """Stop acting for the cluster: its new designated broker has the parent now."""
        self._answer_by = None
        return self.stop()

    def _on_search(self, source: BrokerId, message: Any) -> list[Out]:
        return self.go_on(Received(source, message)) if self._place.designated else []

    def _on_children(self, source: BrokerId, message: Children) -> list[Out]:
        told = [out for child in message.children for out in self._place.succession.meet(child)]
        return told + self._on_search(source, message)

    def _on_join_answer(self, source: BrokerId, answer: JoinAnswer) -> list[Out]:
        return self._place.succession.meet(answer.view) + self._answered(source, answer)

    def _answered(self, source: BrokerId, answer: JoinAnswer) -> list[Out]:
        place = self._place
        if not place.designated:
            return []
        if self.awaited and place.is_parent(source):
            self._answer_by = None
            if answer.accepted:
                return self._joined(answer.view, answer.path, answer.term)
            return self.orphaned()
        if self._join.active:
            return self._on_search(source, answer)
        if answer.accepted and not place.is_parent(source):
            return [Send(source, Goodbye(place.view.cluster))]
        return []

    def _joined(self, parent: ClusterView, path: tuple[ClusterId, ...], term: int) -> list[Out]:
        place = self._place
        effects = self._moves_from(parent.cluster) + self._children.is_above(parent.cluster)
        place.parent = parent
        place.term = max(place.term, term)
        place.path = (*path, place.view.cluster) if path else ()
        if place.view.cluster in path:
            return self.orphaned()
        place.stand(attached=True)
        place.probing.watch(parent, place.now)
        self._rounds.links.close(parent.designated)
        self._rounds.want()
        now_wanted = dict(place.router.wants())
        for item, token in now_wanted.items():
            if self._offered.get(item) != token:
                effects.append(Send(parent.designated, Announce(item, token)))
        for item in self._offered:
            if item not in now_wanted:
                effects.append(Send(parent.designated, Withdraw(item)))
        return effects + place.changed()

    def _moves_from(self, new: ClusterId | None) -> list[Out]:
        """Leave a parent that is alive, as another one has taken this cluster, or this cluster is the root."""
        place = self._place
        old = place.parent
        if old is None or old.cluster == new:
            return []
        place.parent, self._answer_by = None, None
        farewell = self._leave(old)
        return [*place.router.forget_parent(keep=True), farewell]

    # Being the root.

    def _made_root(self, term: int) -> list[Out]:
        place = self._place
        effects = self._moves_from(None)
        place.root, place.term = True, term
        place.parent, place.path = None, (place.view.cluster,)
        place.stand(attached=True)
        effects += place.router.forget_parent(top=True)
        self._rounds.want()
        return self._carrier.counted(effects) + place.changed()

    def _on_root(self, source: BrokerId, message: Root) -> list[Out]:
        place = self._place
        if place.root and message.term >= place.term and message.root.cluster != place.view.cluster:
            # Another cluster became root while this one was unreachable, or this one never was root and its state is
            # damaged.
            place.term = message.term
            return self.search() + place.changed()
        return place.succession.meet(message.root) + self._on_search(source, message)

    def _on_become_root(self, source: BrokerId, message: BecomeRoot) -> list[Out]:
        """Become the root: a search has found none, or the parent was root and leaves."""
        place = self._place
        if place.designated and self.may_search() and message.term > place.term:
            return self._made_root(message.term)
        if not place.root:
            return self._on_search(source, message)
        # Already root, for example after a succession, and the rendezvous point counts another term.
        place.term = max(place.term, message.term)
        self._rounds.want()
        return place.changed()

    # Moving to a nearer parent.

    def _on_reconsider(self, source: BrokerId, message: Reconsider) -> list[Out]:
        """Begin to look for a nearer parent: first measure the round-trip time to the present one."""
        place = self._place
        if source != RENDEZVOUS or not (place.designated and place.path and self.may_search()):
            return []
        assert place.parent is not None
        self._pinged_at = place.now
        return [Send(place.parent.designated, Ping(_NONCE))]

    def _on_pong(self, source: BrokerId, message: Pong) -> list[Out]:
        if message.nonce != _NONCE:
            return self._on_search(source, message)
        sent, self._pinged_at = self._pinged_at, None
        if sent is None or not self._place.is_parent(source) or not self.may_search():
            return []
        return self.look_elsewhere(within=NEARER * (self._place.now - sent))

    def _on_ping(self, source: BrokerId, message: Ping) -> list[Out]:
        return [Send(source, Pong(message.nonce))]
