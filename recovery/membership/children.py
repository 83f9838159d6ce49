"""The children of a cluster: joins, their filters, and when they are dropped (paper 1, 4.2.1 and 4.2.2).

Rules
-----
* No child may join while the path is empty, nor beyond the degree or the load (`acceptance`).
* A child announces all its filters when it joins, and when its designated broker changes. Until they are installed up
  to the root, no events go to it.
* A child that was taken over and has not announced its filters in time is dropped. It then joins again, and announces
  them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...protocol.effects import Multicast, Send
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.layers import Out
from ...protocol.messages.recovery import (
    AskChildren,
    Children,
    ClusterView,
    Goodbye,
    JoinRequest,
    TableOfChild,
)
from ...routing.filters.filter import Filter
from .acceptance import judge
from .carrier import Carrier
from .place import Place, Takes
from .tree_rounds import TreeRounds


class ChildLinks:
    """The children of one broker's cluster.

    Attributes
    ----------
    going
        The children that are about to leave the network.
    refused
        How many join requests were refused.
    """

    SHARED = frozenset({"_place", "_rounds", "_carrier"})

    def __init__(self, place: Place, rounds: TreeRounds, carrier: Carrier) -> None:
        self._place = place
        self._rounds = rounds
        self._carrier = carrier
        self.going: set[ClusterId] = set()
        self.refused = 0
        self.takes: Takes = {
            AskChildren: self._on_ask_children,
            JoinRequest: self._on_join_request,
        }

    def _on_ask_children(self, source: BrokerId, message: AskChildren) -> list[Out]:
        place = self._place
        children = tuple(place.children.values()) if place.designated else ()
        return [Send(source, Children(message.nonce, place.view, children))]

    def _on_join_request(self, source: BrokerId, request: JoinRequest) -> list[Out]:
        place, view = self._place, request.view
        answer = judge(
            request,
            place.view,
            place.path,
            place.term,
            place.children,
            place.recovery,
            designated=place.designated,
            load=self._carrier.load.events_per_second,
            leaving=place.succession.leaving and not place.root,
            going=self.going,
        )
        known = place.children.get(view.cluster)
        if answer.accepted and known is not None and known.newer_than(view):
            # The sender was designated once, and does not know yet that it no longer is; or it does not know who is.
            return [
                Send(source, replace(answer, accepted=False, reason="not designated", path=(), view=known))
            ]
        if answer.reason == "no way to the root" and known is not None:
            # It remains a child, and waits together with this cluster: no other parent would help the clusters below
            # it.
            answer = replace(answer, accepted=True, reason="")
        if not answer.accepted:
            self.refused += 1
            return [Send(source, answer)]
        if place.parent is not None and view.cluster == place.parent.cluster:
            return [Send(source, replace(answer, accepted=False, reason="ring"))]
        self.going.discard(view.cluster)
        effects: list[Out] = [Send(source, answer), *self._exchange(view, request.filters, answer=True)]
        place.probing.watch(view, place.now)
        wanted = tuple(item for item, _ in request.filters)
        effects.append(Multicast(TableOfChild(view.cluster, wanted, place.view.ballot)))
        return effects + place.changed()

    def heard(self, child: ClusterView, view: ClusterView) -> None:
        """Record the members of a child, for a broker that takes over here."""
        if child.designated == view.designated and not child.newer_than(view):
            self._place.children[view.cluster] = view
            self._place.tell_succession()

    def moved(self, view: ClusterView) -> list[Out]:
        """Handle a change of a child's designated broker."""
        place = self._place
        old = place.children.get(view.cluster)
        if old is None:
            return []
        wanted = ((item, 0) for item in place.router.copy(old.designated, old.designated))
        return self._exchange(view, wanted, answer=False) + place.changed()

    def _exchange(
        self, view: ClusterView, wanted: Iterable[tuple[Filter, int]], *, answer: bool
    ) -> list[Out]:
        """Connect a child, or a child's new designated broker, and drop the old connection."""
        place, link = self._place, view.designated
        old = place.children.get(view.cluster)
        place.children[view.cluster] = view
        place.stand(attached=place.router.attached)
        wanted = list(wanted)
        place.router.meet_child(link)
        self._rounds.links.close(link)
        if answer:
            place.unanswered.asked(link, view.cluster, wanted)
        else:
            self._await(view)
        effects: list[Out] = [*place.router.adopt(link, link, wanted, answer=answer)]
        if old is not None and old.designated != link:
            effects += self.disconnect(old.designated)
        return self._carrier.counted(effects)

    def _await(self, view: ClusterView) -> None:
        """Wait for a child that was taken over to announce its filters."""
        tell_by = self._place.now + 2 * self._place.recovery.answer_seconds
        self._place.unanswered.taken_over(view.designated, view.cluster, tell_by)

    def take_over(
        self, before: Mapping[ClusterId, ClusterView], copies: Mapping[ClusterId, Iterable[Filter]]
    ) -> list[Out]:
        """Take over the children as the new designated broker, or under a new epoch.

        Parameters
        ----------
        before
            The children that this broker was connected to before; not empty where it only begins a new epoch.
        copies
            The filters of the other children, as far as this broker knows them.
        """
        router = self._place.router
        effects: list[Out] = []
        for child in self._place.children.values():
            link = child.designated
            wanted = router.copy(link, link) if child.cluster in before else copies.get(child.cluster, ())
            effects += router.adopt(link, link, [(item, 0) for item in wanted], answer=False)
            self._rounds.links.close(link)
            self._await(child)
        return effects

    def overdue(self) -> list[ClusterId]:
        """Return the children that were taken over and have not announced their filters in time."""
        return self._place.unanswered.overdue(self._place.now)

    def lost(self, cluster: ClusterId) -> list[Out]:
        """Drop a cluster, if it is a child."""
        place = self._place
        place.probing.forget(cluster)
        place.unanswered.left(cluster)
        self.going.discard(cluster)
        child = place.children.pop(cluster, None)
        if child is None:
            return []
        place.stand(attached=place.router.attached)
        effects = self._carrier.counted(self.disconnect(child.designated))
        effects.append(Send(child.designated, Goodbye(place.view.cluster)))
        return [*effects, self._is_none(cluster), *place.changed()]

    def is_above(self, cluster: ClusterId) -> list[Out]:
        """Handle that a child is the parent now, having left without a goodbye: drop it as a child."""
        self._place.unanswered.left(cluster)
        former = self._place.children.pop(cluster, None)
        return [] if former is None else [*self.disconnect(former.designated), self._is_none(cluster)]

    def disconnect(self, link: BrokerId) -> list[Out]:
        """Drop the filters of the link to a child."""
        self._rounds.links.forget(link)
        self._place.unanswered.forget(link)
        effects = self._place.router.drop(link, link)
        return [each for each in effects if not (isinstance(each, Send) and each.to == link)]

    def _is_none(self, cluster: ClusterId) -> Multicast:
        """Tell the members that a cluster is no longer a child."""
        return Multicast(TableOfChild(cluster, (), self._place.view.ballot))
