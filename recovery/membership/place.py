"""The place of a broker in a tree: its cluster, group, parent, children, and the path to the root.

Rules
-----
* All parts of the layer read the place. `ParentLink` changes the parent, the path, the term and whether this cluster is
  the root; `ChildLinks` changes the children; `Group` changes the group. All of them change at once when this broker
  becomes, or stops being, the designated broker of its cluster.
* Only the designated broker has a place in the tree: a normal broker has neither parent nor children.
* The router is told of every change (`stand`); the neighbours and the group of those that concern them (`changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never, TypeAlias

from ...protocol.configs import Placed, Position
from ...protocol.effects import Multicast, Send
from ...protocol.ids import Ballot, BrokerId, ClusterId, Link
from ...protocol.layers import Out
from ...protocol.messages.recovery import ClusterView, TreeBeat
from ...protocol.messages.rounds import FailureNotice, Forgotten, Marker
from ...routing.schemes.router import TreeRouting
from .probing import Probing
from .starting import Start
from .succession import Succession
from .unanswered import Unanswered

Takes: TypeAlias = Mapping[type, Callable[[Never, Never], list[Out]]]
"""The messages that a part owns, each with its handler, which takes the sender and the message."""


class Place:
    """The place of one broker, and the machines that work there.

    Parameters
    ----------
    start
        The state at the start of this incarnation.

    Attributes
    ----------
    now
        The time of the last tick.
    router
        Routes events and subscriptions.
    succession
        Determines the designated broker of the cluster.
    probing
        The failure detector for the neighbours.
    unanswered
        The children and members that have yet to announce their filters, or to have them installed.
    other_members
        The other members of the group: those of the position, and those heard of since, without those that have left.
        A silent member stays in it; the view says which members are alive.
    path
        The clusters from the root to this one; empty while the root is unreachable.
    """

    def __init__(self, start: Start[TreeRouting]) -> None:
        position, anew = start.position, start.incarnation > 0
        self.home = position
        self.recovery = start.recovery
        self.now = start.identity.alive_at
        self.router = start.router(_as_member(position) if anew else position)
        self.succession = Succession(position, start.recovery, start.incarnation)
        self.succession.restore(start.identity.epoch)
        self.probing = Probing(start.recovery)
        self.unanswered = Unanswered()
        self.other_members = set(position.members) - {position.broker}
        self.parent: ClusterView | None = None
        self.children: dict[ClusterId, ClusterView] = {}
        self.path: tuple[ClusterId, ...] = ()
        self.term = max(1, start.identity.term)
        self.root = False
        self._placed_at: tuple[Position, tuple[BrokerId, ...]] | None = None
        self._placed = Placed(())
        if anew:
            self.router.forget_parent()
            self.router.attached = len(position.members) > 1

    # Queries.

    @property
    def view(self) -> ClusterView:
        """This cluster, as this broker knows it."""
        return self.succession.view

    @property
    def designated(self) -> bool:
        """Whether this broker is the designated one of its cluster."""
        return self.succession.designated

    @property
    def placed(self) -> Placed:
        """Its place in the tree, among the live members of its cluster."""
        here = self.router.position, self.view.members
        if here != self._placed_at:
            self._placed_at = here
            self._placed = here[0].placed(here[1], floods=self.router.floods)
        return self._placed

    def neighbours(self) -> list[ClusterView]:
        """Return the neighbouring clusters in the tree, the parent first."""
        return ([] if self.parent is None else [self.parent]) + list(self.children.values())

    def above(self) -> Link | None:
        """Return the next broker on the path to the root; None if there is none."""
        if not self.designated:
            return self.view.designated
        return None if self.parent is None else self.parent.designated

    def beyond(self, source: Link) -> list[BrokerId]:
        """Return the brokers to which a message from `source` is forwarded over the tree."""
        return [view.designated for view in self.neighbours() if view.designated != source]

    def child_of(self, source: Link) -> ClusterView | None:
        """Return the child whose designated broker `source` is."""
        return next((view for view in self.children.values() if view.designated == source), None)

    def is_parent(self, source: Link) -> bool:
        """Return whether a broker is the designated one of the parent."""
        return self.parent is not None and self.parent.designated == source

    def is_on_tree(self, source: Link, ballot: Ballot | None) -> bool:
        """Return whether a message came over the current tree: from a neighbour, or a member under this ballot."""
        if source in self.other_members:
            return ballot == self.view.ballot
        if not self.designated:
            return False
        if self.parent is not None and self.parent.designated == source:
            return True
        for view in self.children.values():  # noqa: SIM110  # asked for every message with events: no generator
            if view.designated == source:
                return True
        return False

    def is_whole(self) -> bool:
        """Return whether events that are published here can reach every broker, as far as this broker knows."""
        if self.designated:
            return self.root or bool(self.router.attached and self.path)
        return self.home.broker in self.view.members and self.view.designated != self.home.broker

    def spread(self, source: BrokerId, message: FailureNotice | Forgotten | Marker) -> list[Out]:
        """Forward a message for every broker to every link but the one it arrived on."""
        effects: list[Out] = []
        if self.other_members and source not in self.other_members:
            effects.append(Multicast(message))
        if self.designated:
            effects += [Send(broker, message) for broker in self.beyond(source)]
        return effects

    # Changes.

    def stand(self, *, attached: bool) -> None:
        """Tell the router its position, and whether events go up from here."""
        self.router.move(
            replace(
                self.home,
                designated=self.view.designated,
                parent=None if self.parent is None else self.parent.designated,
                children=tuple(view.designated for view in self.children.values()),
            ),
            attached=attached,
        )

    def begin_at(self, position: Position) -> None:
        """Take the position in the tree that the network begins with."""
        for cluster, designated in zip(position.child_clusters, position.children, strict=True):
            self.children[cluster] = ClusterView(cluster, 0, designated, (designated,))
        if position.parent is not None and position.parent_cluster is not None:
            self.parent = ClusterView(position.parent_cluster, 0, position.parent, (position.parent,))
        else:
            self.root = True
            self.path = (position.cluster,)
        self.tell_succession()

    def found(self) -> None:
        """Begin as the designated broker of a new cluster, which searches for a parent from the first tick on."""
        self.stand(attached=False)
        self.router.forget_parent()
        self.tell_succession()

    def take_over(self, view: ClusterView) -> None:
        """Take the place of the cluster as its designated broker last reported it."""
        said = self.succession
        self.parent = said.parent
        self.children = {child.cluster: child for child in said.children}
        self.path, self.term = said.path, max(self.term, said.term)
        self.root = self.parent is None and self.path == (view.cluster,)
        self.stand(attached=self.root)

    def step_down(self) -> None:
        """Leave the tree: this broker is no longer designated."""
        self.parent, self.children, self.path, self.root = None, {}, (), False
        self.stand(attached=True)

    def tell_succession(self) -> None:
        """Pass the place in the tree to the succession machine, whose beats report it."""
        self.succession.set_tree(self.parent, tuple(self.children.values()), self.path, self.term)

    def changed(self) -> list[Out]:
        """Tell the group and the neighbours at once that the place in the tree has changed."""
        self.tell_succession()
        return [*self.beat_now(), *self.tree_beats()]

    def beat_now(self) -> list[Out]:
        """Tell the group the state of the cluster at once."""
        return list(self.succession.beat_now())  # type: ignore[arg-type]  # beats bring no news

    def tree_beats(self) -> list[Out]:
        """Tell the neighbours the state of this cluster."""
        beat = TreeBeat(self.view, self.path, self.term)
        return [Send(view.designated, beat) for view in self.neighbours()]


def _as_member(position: Position) -> Position:
    """Return the position of a restarted broker: a normal one, until it hears otherwise."""
    others = [member for member in position.members if member != position.broker]
    speaks = position.designated if position.designated != position.broker or not others else others[-1]
    return replace(position, designated=speaks, parent=None, children=())
