"""The neighbouring clusters in the tree: whether they are alive, and what happens when they fail (paper 1, 4.1.2).

Rule: a neighbour that has missed a message is dropped like a dead one. Nobody has to know what was lost: a cluster that
joins announces all its filters again, and the round after it retransmits all retained events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...protocol.effects import Missed, Received, Renew, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.layers import Out
from ...protocol.messages.recovery import ClusterView, Goodbye, Leaving, Probe, ProbeAnswer, TreeBeat
from .children import ChildLinks
from .local import NeighbourLost, NeighbourMoved
from .parent import ParentLink
from .place import Place, Takes
from .tree_rounds import TreeRounds


class Neighbours:
    """The neighbours of one broker's cluster: heard, silent or gone."""

    SHARED = frozenset({"_place", "_rounds", "_children", "_parent"})

    def __init__(self, place: Place, rounds: TreeRounds, children: ChildLinks, parent: ParentLink) -> None:
        self._place = place
        self._rounds = rounds
        self._children = children
        self._parent = parent
        self.takes: Takes = {
            TreeBeat: self._on_tree_beat,
            Probe: self._on_probe,
            ProbeAnswer: self._on_probe_answer,
            Leaving: self._on_leaving,
        }

    def watch(self, now: float) -> None:
        """Watch all neighbours, as if they had been heard at `now`."""
        for view in self._place.neighbours():
            self._place.probing.watch(view, now)

    def tick(self, event: Ticked) -> list[Out]:
        """Detect silent neighbours, and tell every broker of new suspicions."""
        probed = set(self._place.probing.probed)
        effects = self._absorb(self._place.probing.handle(event))
        return effects + (self._rounds.suspected() if set(self._place.probing.probed) - probed else [])

    def remind(self) -> list[Out]:
        """Drop the children that have not announced their filters in time: they join again, and announce them."""
        return [out for cluster in self._children.overdue() for out in self._lost(cluster)]

    def _absorb(self, out: Iterable[Any]) -> list[Out]:
        effects: list[Out] = []
        for item in out:
            match item:
                case NeighbourMoved(view):
                    effects += self._moved(view)
                case NeighbourLost(cluster):
                    effects += self._lost(cluster)
                case _:
                    effects.append(item)
        return effects

    def _is_parent(self, cluster: ClusterId) -> bool:
        parent = self._place.parent
        return parent is not None and cluster == parent.cluster

    def _moved(self, view: ClusterView) -> list[Out]:
        self._place.probing.watch(view, self._place.now)
        return (self._parent if self._is_parent(view.cluster) else self._children).moved(view)

    def _lost(self, cluster: ClusterId) -> list[Out]:
        return self._parent.orphaned() if self._is_parent(cluster) else self._children.lost(cluster)

    # Messages from neighbours.

    def _on_tree_beat(self, source: BrokerId, beat: TreeBeat) -> list[Out]:
        """Record that a neighbour is alive, and its place; tell a sender that is not a neighbour that it is none."""
        place = self._place
        if not place.designated:
            return self._tell(source)
        cluster = beat.view.cluster
        if self._is_parent(cluster):
            effects = self._absorb(place.probing.handle(Received(source, beat)))
            if place.is_parent(source):
                effects += self._parent.follow_path(beat.path, beat.term)
            return effects
        child = place.children.get(cluster)
        if child is not None:
            self._children.heard(child, beat.view)
            return self._absorb(place.probing.handle(Received(source, beat)))
        return [Send(source, Goodbye(place.view.cluster))]

    def _on_probe(self, source: BrokerId, message: Probe) -> list[Out]:
        return self._tell(source)

    def _tell(self, source: BrokerId) -> list[Out]:
        """Answer with the view of this cluster; a broker that knows only its own former role does not answer."""
        place = self._place
        if not place.designated and place.view.designated == place.home.broker:
            return []
        return [Send(source, ProbeAnswer(place.view))]

    def _on_probe_answer(self, source: BrokerId, message: ProbeAnswer) -> list[Out]:
        if not self._place.designated:
            return []
        return self._absorb(self._place.probing.handle(Received(source, message)))

    def goodbye(self, source: BrokerId, message: Goodbye) -> list[Out]:
        """Handle that a broker is no longer a neighbour."""
        place = self._place
        if not place.designated:
            return []
        if place.is_parent(source):
            return self._parent.orphaned()
        child = place.children.get(message.cluster)
        if child is not None and source == child.designated:
            return self._lost(message.cluster)
        return []

    def _on_leaving(self, source: BrokerId, message: Leaving) -> list[Out]:
        """Handle that a neighbour is about to leave the network: clusters below it join elsewhere first."""
        place = self._place
        if not place.designated:
            return []
        child = place.children.get(message.cluster)
        if child is not None and child.designated == source:
            self._children.going.add(message.cluster)
        elif place.is_parent(source) and self._parent.may_search():
            return self._parent.look_elsewhere()
        return []

    def missed(self, event: Missed) -> list[Out]:
        """Handle that a broker has missed a message: a neighbour is dropped, and joins again.

        Besides multicasts, a normal broker sends its designated broker only requests for a round.
        """
        effects: list[Out] = [Renew(event.broker, False)]
        place = self._place
        if not place.designated and event.broker == place.view.designated:
            self._rounds.want()
        lost = next((view for view in place.neighbours() if view.designated == event.broker), None)
        if lost is None or not place.designated:
            return effects
        # Messages to it from before it was a neighbour do not matter.
        since = max(place.now - event.seconds, place.probing.watched_since(lost.cluster))
        self._rounds.links.repair_from(since)
        self._rounds.want()
        return effects + self._lost(lost.cluster)
