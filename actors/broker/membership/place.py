"""What a broker that heals knows of its place in the tree; the sides of it that change it build on this.

The broker is one object in several files, each a side of it: its place (here), `events` (subscriptions, events,
rounds), `joining` (parent, children, joining), `cluster` (succession), `operations` (coming and
leaving); `tree` puts them together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ....faults.membership.acceptance import Load
from ....faults.membership.join import Join
from ....faults.membership.probing import Probing
from ....faults.membership.succession import Succession
from ....faults.membership.unanswered import Unanswered
from ....protocol.configs import Placed, Position
from ....protocol.ids import GROUP, Ballot, BrokerId, ClusterId, Link
from ....protocol.layers import Out
from ....protocol.messages.recovery import ClusterView
from ....protocol.snapshots import Restorable
from ....routing.filters.filter import Filter
from ....routing.schemes.hybrid import Hybrid
from .starting import Start


class Place(Restorable):
    """One broker's machines, and where it stands.

    Parameters
    ----------
    start
        What it starts with.

    Attributes
    ----------
    fellows
        The other members of the group: those of the position, those that have been heard of since, and not those that
        have left. A member that is silent stays one; the view says who is alive.
    """

    def __init__(self, start: Start) -> None:
        position, recovery, incarnation = start.position, start.recovery, start.incarnation
        rounds, identity = start.rounds, start.identity
        self.home = position
        self.recovery = recovery
        self.now = identity.alive_at
        self.router: Hybrid = start.router(position if incarnation == 0 else _as_member(position))
        self.succession = Succession(position, recovery, incarnation)
        self.probing = Probing(recovery)
        self.join = Join(recovery, random.Random(f"{start.seed}/{position.broker}/{incarnation}"))
        self.rounds = rounds
        self.identity = identity
        self.load = Load()
        self._placed_at: tuple[Position, tuple[BrokerId, ...]] | None = None
        self._placed = Placed(())
        self.fellows = set(position.members) - {position.broker}
        self.parent: ClusterView | None = None
        self.children: dict[ClusterId, ClusterView] = {}
        self.path: tuple[ClusterId, ...] = ()
        self.term = max(1, identity.term)
        self.root = False
        self._wants_round = False
        self._round_at = 0.0  # when the root may begin the next one
        self._after = identity.after  # the highest round that is known here or was below
        # When the parent, or its new designated broker, must have answered; None when no answer is awaited.
        self._answer_by: float | None = None
        self.refused_joins = 0
        self._offered: dict[Filter, int] = {}  # what the last request to a parent said
        self.unanswered = Unanswered()
        self.going: set[ClusterId] = set()  # children that are about to leave the network
        self._unheard: set[BrokerId] = (
            set()
        )  # members that have not told a new designated broker what they want
        self._restored = False  # whether it holds durable subscribers of an earlier life
        self._has_reached_root = False  # whether there was a way to the root since this life began
        self.succession.restore(identity.epoch)
        if incarnation > 0:
            self.router.forget_parent()
            self.router.attached = len(position.members) > 1
        if rounds.holds_any:
            rounds.close(GROUP)  # nothing new goes ahead of what may never have been sent

    @property
    def view(self) -> ClusterView:
        """This cluster, as it is known here."""
        return self.succession.view

    @property
    def placed(self) -> Placed:
        """Where it stands in the tree, among the members of its cluster that live."""
        here = self.router.position, self.view.members
        if here != self._placed_at:
            self._placed_at = here
            self._placed = here[0].placed(here[1], floods=self.router.floods)
        return self._placed

    @property
    def designated(self) -> bool:
        """Whether this broker speaks for its cluster."""
        return self.succession.designated

    def _neighbours(self) -> list[ClusterView]:
        return ([] if self.parent is None else [self.parent]) + list(self.children.values())

    def _is_neighbour(self, source: Link) -> bool:
        return any(view.designated == source for view in self._neighbours())

    def _beyond(self, source: Link) -> list[BrokerId]:
        """Return whom a message that came from `source` goes on to over the tree."""
        return [view.designated for view in self._neighbours() if view.designated != source]

    def _is_fellow(self, source: Link) -> bool:
        return source in self.fellows

    def _is_on_tree(self, source: Link, ballot: Ballot | None) -> bool:
        """Return whether a message comes over the tree as it is: a neighbour's, or a fellow's under this ballot."""
        if self._is_fellow(source):
            return ballot == self.view.ballot
        return self.designated and self._is_neighbour(source)

    @property
    def leaving(self) -> bool:
        """Whether this broker is about to leave the network."""
        return self.succession.leaving

    def _tell_succession(self) -> None:
        self.succession.set_tree(self.parent, tuple(self.children.values()), self.path, self.term)

    def _place(self, *, attached: bool) -> None:
        """Tell the router where it stands."""
        children = tuple(self.children.values())
        self.router.move(
            replace(
                self.home,
                designated=self.view.designated,
                parent=None if self.parent is None else self.parent.designated,
                children=tuple(view.designated for view in children),
            ),
            attached=attached,
        )

    def _absorb(self, out: Iterable[Any]) -> list[Out]:
        """Turn what a machine returned into effects; the whole broker knows how."""
        raise NotImplementedError


def _as_member(position: Position) -> Position:
    """Return the place of a restarted broker: a normal one, until it hears otherwise."""
    others = [member for member in position.members if member != position.broker]
    speaks = position.designated if position.designated != position.broker or not others else others[-1]
    return replace(position, designated=speaks, parent=None, children=())
