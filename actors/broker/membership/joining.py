"""The side of a healing broker that keeps its parent and children, and finds another parent (paper 1, 4.1.2 and 4.2).

Rules
-----
* While there is no way to the root, the path is empty, below too; nobody joins under an empty path.
* A neighbour that has missed something is given up, as one that is dead: what was lost need not be known, as all that
  is wanted is told anew when one joins, and all that is kept is sent again in the round after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ....faults.membership.acceptance import judge
from ....protocol.effects import Missed, Multicast, Received, Renew, Send, Ticked
from ....protocol.ids import BrokerId, ClusterId
from ....protocol.layers import Out
from ....protocol.messages.pubsub import Announce, Withdraw
from ....protocol.messages.recovery import (
    AskChildren,
    BecomeRoot,
    Children,
    ClusterView,
    Goodbye,
    JoinAnswer,
    JoinRequest,
    Ping,
    Pong,
    Probe,
    ProbeAnswer,
    Root,
    TableOfChild,
    TreeBeat,
)
from ....routing.filters.filter import Filter
from .events import EventSide


class TreeSide(EventSide):
    """Parent, children, joining."""

    def _tree_beats(self) -> list[Out]:
        beat = TreeBeat(self.view, self.path, self.term)
        return [Send(view.designated, beat) for view in self._neighbours()]

    def _changed(self) -> list[Out]:
        """Tell the group and the neighbours at once that the place in the tree has changed."""
        self._tell_succession()
        return self._absorb(self.succession.beat_now()) + self._tree_beats()

    def _on_tree_beat(self, source: BrokerId, beat: TreeBeat) -> list[Out]:
        if not self.designated:
            return self._tell(source)
        cluster = beat.view.cluster
        if self.parent is not None and cluster == self.parent.cluster:
            effects = self._absorb(self.probing.handle(Received(source, beat)))
            if self.parent is not None and source == self.parent.designated:
                effects += self._follow_path(beat.path, beat.term)
            return effects
        child = self.children.get(cluster)
        if child is not None:
            if child.designated == beat.view.designated and not child.newer_than(beat.view):
                self.children[cluster] = beat.view  # its members, for whoever takes over here
                self._tell_succession()
            return self._absorb(self.probing.handle(Received(source, beat)))
        return [Send(source, Goodbye(self.view.cluster))]

    def _follow_path(self, above: tuple[ClusterId, ...], term: int) -> list[Out]:
        assert self.parent is not None
        if self.view.cluster in above:
            return self._orphaned()
        cluster = self.parent.cluster
        self.parent = next((view for view in self.probing.neighbours if view.cluster == cluster), self.parent)
        path = (*above, self.view.cluster) if above and self._answer_by is None else ()
        self.term = term
        if path == self.path:
            return []
        self.path = path
        return self._changed()

    def _on_probe(self, source: BrokerId, message: Probe) -> list[Out]:
        return self._tell(source)

    def _tell(self, source: BrokerId) -> list[Out]:
        """Say who is designated here; a broker that has only its own past to go by says nothing."""
        if not self.designated and self.view.designated == self.home.broker:
            return []
        return [Send(source, ProbeAnswer(self.view))]

    def _on_probe_answer(self, source: BrokerId, message: ProbeAnswer) -> list[Out]:
        return self._absorb(self.probing.handle(Received(source, message))) if self.designated else []

    def _on_goodbye(self, source: BrokerId, message: Goodbye) -> list[Out]:
        if not self.designated:
            return []
        if self.parent is not None and source == self.parent.designated:
            return self._orphaned()
        child = self.children.get(message.cluster)
        if child is not None and source == child.designated:
            return self._neighbour_lost(message.cluster)
        return []

    def _neighbour_moved(self, view: ClusterView) -> list[Out]:
        self.probing.watch(view, self.now)
        if self.parent is not None and view.cluster == self.parent.cluster:
            self.rounds.forget(self.parent.designated)
            self.parent = view
            return self._reconnect() + self._changed()
        old = self.children.get(view.cluster)
        if old is None:
            return []
        wanted = ((item, 0) for item in self.router.copy(old.designated, old.designated))
        return self._exchange(view, wanted, answer=False) + self._changed()

    def _on_missed(self, event: Missed) -> list[Out]:
        """Take in that a broker has missed something: a neighbour is one no more, and joins anew, a member is noted."""
        since = self.now - event.seconds
        if event.over_group:
            self._missed_by_fellow(event.broker, since)
            return []
        effects: list[Out] = [Renew(event.broker, False)]
        lost = next((view for view in self._neighbours() if view.designated == event.broker), None)
        if lost is None or not self.designated:
            return effects
        self.rounds.doubt_from(since)
        self._wants_round = True
        return effects + self._neighbour_lost(lost.cluster)

    def _missed_by_fellow(self, member: BrokerId, since: float) -> None:
        """Note that a member has missed a multicast of this broker."""
        raise NotImplementedError

    def _exchange(
        self, view: ClusterView, wanted: Iterable[tuple[Filter, int]], *, answer: bool
    ) -> list[Out]:
        """Connect a child, or a child's new designated broker, and let the old connection go."""
        old = self.children.get(view.cluster)
        self.children[view.cluster] = view
        self._place(attached=self.router.attached)
        wanted = list(wanted)
        self.router.meet_child(view.designated)
        self.rounds.close(view.designated)
        if answer:
            self.unanswered.asked(view.designated, view.cluster, wanted)
        else:
            tell_by = self.now + 2 * self.recovery.answer_seconds
            self.unanswered.taken_over(view.designated, view.cluster, tell_by)
        effects: list[Out] = [*self.router.adopt(view.designated, view.designated, wanted, answer=answer)]
        if old is not None and old.designated != view.designated:
            effects += self._let_go(old.designated)
        return self._counted(effects)

    def _remind_children(self) -> list[Out]:
        """Let go the children that were taken over and have not told what they want: they join anew, and tell."""
        effects: list[Out] = []
        for cluster in self.unanswered.overdue(self.now):
            effects += self._neighbour_lost(cluster)
        return effects

    def _let_go(self, link: BrokerId) -> list[Out]:
        self.rounds.forget(link)
        self.unanswered.forget(link)
        return [effect for effect in self.router.drop(link, link) if not _is_for(effect, link)]

    def _no_child(self, cluster: ClusterId) -> list[Out]:
        """Tell the members that a cluster is a child no more."""
        return [Multicast(TableOfChild(cluster, (), self.view.ballot))]

    def _neighbour_lost(self, cluster: ClusterId) -> list[Out]:
        if self.parent is not None and cluster == self.parent.cluster:
            return self._orphaned()
        self.probing.forget(cluster)
        self.unanswered.left(cluster)
        self.going.discard(cluster)
        child = self.children.pop(cluster, None)
        if child is None:
            return []
        self._place(attached=self.router.attached)
        effects = self._counted(self._let_go(child.designated))
        effects.append(Send(child.designated, Goodbye(self.view.cluster)))
        return effects + self._no_child(cluster) + self._changed()

    def _reconnect(self) -> list[Out]:
        """Tell the parent's new designated broker, or the parent as a new one, what the subtree wants."""
        assert self.parent is not None
        effects = self._absorb(self.join.stop())
        self.path = ()
        self._place(attached=False)
        effects += self.router.forget_parent()
        self._offered = dict(self.router.wants())
        self._answer_by = self.now + self.recovery.answer_seconds
        self.rounds.close(self.parent.designated)
        return [*effects, Send(self.parent.designated, JoinRequest(self.view, self.router.wants()))]

    def _orphaned(self) -> list[Out]:
        """Give the parent up and look for another."""
        lost, self.parent = self.parent, None
        self._answer_by = None
        effects: list[Out] = []
        root_died = False
        if lost is not None:
            self.probing.forget(lost.cluster)
            self.rounds.forget(lost.designated)
            effects.append(Send(lost.designated, Goodbye(self.view.cluster)))
            root_died = self.path[:1] == (lost.cluster,) or not self.path
        self.path = ()
        return effects + self._seek_parent(root_died=root_died) + self._changed()

    def _seek_parent(self, *, root_died: bool) -> list[Out]:
        self.root = False
        self.path = ()
        self._place(attached=False)
        effects = self.router.forget_parent()
        started = self.join.start(self.view, self.router.wants(), self.now, root_died=root_died)
        return effects + self._absorb(started)

    def _on_join(self, source: BrokerId, message: Any) -> list[Out]:
        return self._joining(Received(source, message)) if self.designated else []

    def _joining(self, event: Received | Ticked) -> list[Out]:
        if not self.join.active:
            return []
        self.join.update(self.view, self.router.wants())
        return self._absorb(self.join.handle(event))

    def _on_join_answer(self, source: BrokerId, answer: JoinAnswer) -> list[Out]:
        if not self.designated:
            return []
        if self._answer_by is not None and self.parent is not None and source == self.parent.designated:
            self._answer_by = None
            if answer.accepted:
                return self._joined(answer.view, answer.path, answer.term)
            return self._orphaned()
        if self.join.active:
            return self._on_join(source, answer)
        if answer.accepted and not (self.parent is not None and source == self.parent.designated):
            return [Send(source, Goodbye(self.view.cluster))]
        return []

    def _joined(self, parent: ClusterView, path: tuple[ClusterId, ...], term: int) -> list[Out]:
        effects: list[Out] = self._moves_from(parent.cluster)
        former = self.children.pop(parent.cluster, None)
        self.unanswered.left(parent.cluster)
        if former is not None:  # it left without a word, and now it is above
            effects += self._let_go(former.designated) + self._no_child(parent.cluster)
        self.parent = parent
        self.term = max(self.term, term)
        self.path = (*path, self.view.cluster) if path else ()
        if self.view.cluster in path:
            return self._orphaned()
        self._place(attached=True)
        self.probing.watch(parent, self.now)
        self.rounds.close(parent.designated)
        self._wants_round = True
        now_wanted = dict(self.router.wants())
        for item, token in now_wanted.items():
            if self._offered.get(item) != token:
                effects.append(Send(parent.designated, Announce(item, token)))
        for item in self._offered:
            if item not in now_wanted:
                effects.append(Send(parent.designated, Withdraw(item)))
        return effects + self._changed()

    def _moves_from(self, new: ClusterId | None) -> list[Out]:
        """Leave a parent that is alive, now that another one has taken this cluster, or it is the root."""
        old = self.parent
        if old is None or old.cluster == new:
            return []
        self.parent, self._answer_by = None, None
        self.probing.forget(old.cluster)
        self.rounds.forget(old.designated)
        effects = self.router.forget_parent(keep=True)
        return [*effects, Send(old.designated, Goodbye(self.view.cluster))]

    def _made_root(self, term: int) -> list[Out]:
        effects = self._moves_from(None)
        self.root, self.term = True, term
        self.parent, self.path = None, (self.view.cluster,)
        self._place(attached=True)
        effects += self.router.forget_parent(top=True)
        self._wants_round = True
        return self._counted(effects) + self._changed()

    def _on_root(self, source: BrokerId, message: Root) -> list[Out]:
        if self.root and message.term >= self.term and message.root.cluster != self.view.cluster:
            # Another cluster became root while this one was not heard; or this one never was, and its state is damaged.
            self.term = message.term
            return self._seek_parent(root_died=False) + self._changed()
        return self._on_join(source, message)

    def _on_become_root(self, source: BrokerId, message: BecomeRoot) -> list[Out]:
        if not self.root:
            return self._on_join(source, message)
        # Root already, after a succession, say, and the rendezvous point counts another term.
        self.term = max(self.term, message.term)
        self._wants_round = True
        return self._changed()

    def _on_ask_children(self, source: BrokerId, message: AskChildren) -> list[Out]:
        children = tuple(self.children.values()) if self.designated else ()
        return [Send(source, Children(message.nonce, self.view, children))]

    def _on_ping(self, source: BrokerId, message: Ping) -> list[Out]:
        return [Send(source, Pong(message.nonce))]

    def _on_join_request(self, source: BrokerId, request: JoinRequest) -> list[Out]:
        answer = judge(
            request,
            self.view,
            self.path,
            self.term,
            self.children,
            self.recovery,
            designated=self.designated,
            load=self.load.events_per_second,
            leaving=self.leaving and not self.root,
            going=self.going,
        )
        known = self.children.get(request.view.cluster)
        if answer.accepted and known is not None and known.newer_than(request.view):
            # It was designated once, and does not know yet that it is not any more.
            return [Send(source, replace(answer, accepted=False, reason="not designated", path=()))]
        if answer.reason == "no way to the root" and request.view.cluster in self.children:
            # It stays what it is, and waits with us: whoever hangs below has nothing to gain from another parent.
            answer = replace(answer, accepted=True, reason="")
        effects: list[Out] = [Send(source, answer)]
        if not answer.accepted:
            self.refused_joins += 1
            return effects
        view = request.view
        if self.parent is not None and view.cluster == self.parent.cluster:
            return [Send(source, replace(answer, accepted=False, reason="ring"))]
        self.going.discard(view.cluster)
        effects += self._exchange(view, request.filters, answer=True)
        self.probing.watch(view, self.now)
        wanted = tuple(item for item, _ in request.filters)
        effects.append(Multicast(TableOfChild(view.cluster, wanted, self.view.ballot)))
        return effects + self._changed()


def _is_for(effect: Out, link: BrokerId) -> bool:
    return isinstance(effect, Send) and effect.to == link
