"""The orderly departure of a broker from the network, step by step.

Rules
-----
* A normal broker that leaves tells its group, and has left when it hears a beat without itself.
* A designated broker with other members resigns: it names its successor, which takes over at once. It is a normal
  broker from then on.
* The last member takes the whole cluster with it. As the root it first yields to a child, and joins below. It tells
  its neighbours: the parent counts its place as free, and the children join elsewhere and only then leave it
  (announce before withdraw). Once it has no children, it leaves its parent, and has left when the parent has said
  goodbye too.
* Each step is repeated every heartbeat until it has happened, so crashes meanwhile only delay it.

No event is lost when a broker leaves. Its clients have moved before it is told to leave, and bring along the events
that they retain (see `clients.subscriber`). Events that a new link has missed come with the next round (see
`recovery.replay.rounds`).

Source: docs/decisions/0012-operations.md.
"""

from __future__ import annotations

from ...protocol.effects import Multicast, Send
from ...protocol.ids import BrokerId
from ...protocol.layers import Out
from ...protocol.messages.recovery import (
    RENDEZVOUS,
    Goodbye,
    LeaveNetwork,
    Leaving,
    MemberGone,
    YieldRoot,
)
from .children import ChildLinks
from .neighbours import Neighbours
from .parent import ParentLink
from .place import Place, Takes


class Departure:
    """The departure of one broker from its network.

    Attributes
    ----------
    left
        Whether the broker has left, and its process may end.
    """

    SHARED = frozenset({"_place", "_children", "_parent", "_neighbours"})

    def __init__(
        self, place: Place, children: ChildLinks, parent: ParentLink, neighbours: Neighbours
    ) -> None:
        self._place = place
        self._children = children
        self._parent = parent
        self._neighbours = neighbours
        self.left = False
        self._said_gone = False
        self._step_at = 0.0  # when the present step is repeated
        self._successors_asked = 0
        self.takes: Takes = {
            LeaveNetwork: self._on_leave,
            Goodbye: self._on_goodbye,
        }

    def _on_leave(self, source: BrokerId, message: LeaveNetwork) -> list[Out]:
        place = self._place
        if source != RENDEZVOUS or place.succession.leaving:
            return []
        place.succession.leaving = True
        self._step_at = place.now
        return self.go_on()

    def go_on(self) -> list[Out]:
        """Take the next step, or repeat the present one when it is due."""
        place = self._place
        if not place.succession.leaving or self.left:
            return []
        me, members = place.home.broker, place.view.members
        alone = members == (me,)
        if not place.designated and self._said_gone and me not in members:
            self.left = True
        elif place.designated and alone and not place.children and not place.root and place.parent is None:
            self.left = True  # nothing depends on it
            return self._parent.stop()
        if self.left or place.now < self._step_at:
            return []
        self._step_at = place.now + place.recovery.heartbeat_seconds
        if not place.designated:
            self._said_gone = True
            return [Multicast(MemberGone(place.view.cluster))]
        return self._leave_as_cluster() if alone else self._resign()

    def _resign(self) -> list[Out]:
        place = self._place
        others = [member for member in reversed(place.view.members) if member != place.home.broker]
        successor = others[self._successors_asked % len(others)]
        self._successors_asked += 1
        return list(place.succession.resign(successor))  # type: ignore[arg-type]  # it brings no news

    def _leave_as_cluster(self) -> list[Out]:
        place, going = self._place, self._children.going
        if place.root:
            successors = sorted(
                place.children.values(), key=lambda child: (child.cluster in going, child.cluster)
            )
            if not successors:
                return []  # other clusters, if there are any, are about to join
            successor = successors[self._successors_asked % len(successors)]
            self._successors_asked += 1
            return [Send(RENDEZVOUS, YieldRoot(successor, place.term))]
        if place.children:
            return [Send(view.designated, Leaving(place.view.cluster)) for view in place.neighbours()]
        assert place.parent is not None
        return [Send(place.parent.designated, Goodbye(place.view.cluster))]

    def _on_goodbye(self, source: BrokerId, message: Goodbye) -> list[Out]:
        """Handle a neighbour's goodbye; the parent's is the last one that is needed to leave."""
        place = self._place
        if place.succession.leaving and place.designated and place.parent and not place.children:
            self.left = self.left or place.is_parent(source)
            return []
        return self._neighbours.goodbye(source, message)
