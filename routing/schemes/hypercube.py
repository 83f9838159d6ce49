"""Routing on a hypercube of brokers (paper 2).

Rules, beside those of views
----------------------------
* A change of what a broker wants travels as a broadcast (`routing.topologies.cube`), and its echo returns along the
  same path.
* The publisher's broker matches an event against all recorded filters. The event travels back along the broadcast
  paths of the brokers that want it, as one tree, and reaches each broker at most once. Each broker on the path
  matches again.

Without advertisements no broker knows what a publisher will publish. Then the reply says that a subscription is
installed, but not which publishers match it.

Source: paper 2, section 2.3; docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from ...protocol.batch import Rows
from ...protocol.configs import Placed, Position, Ways
from ...protocol.effects import Deliver, Effect, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Events
from ...protocol.messages.views import MembershipView, ViewMember
from ..interest.nearing import Nearing
from ..topologies.cube import Cube, cube_of
from ..topologies.cube_members import CubeMembers
from .claims import Claims
from .router import LayerOf
from .viewed import ViewedRouter

NEXT_HOPS_MAX: Final = 100_000
"""How many next hops on return paths a broker caches; past this limit the cache is cleared."""


class Hypercube(ViewedRouter):
    """A broker of a hypercube.

    Parameters
    ----------
    position
        As returned by `positions`; without a cube when the broker must join first.

    Attributes
    ----------
    cube
        The geometry of the current view; None before the first.
    """

    claims = Claims(wanted_only=True)
    layers: ClassVar[tuple[LayerOf, ...]] = (Nearing,)

    def __init__(self, position: Position) -> None:
        self.cube: Cube | None = None
        self._next_hops: dict[BrokerId, dict[BrokerId, BrokerId]] = {}
        self._origins = 0
        super().__init__(position)

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the same brokers at the vertices of a cube: each cluster is a node cluster at a separate vertex."""
        clusters = {position.cluster: position.members for position in positions}
        labelled = CubeMembers.of_clusters([clusters[cluster] for cluster in sorted(clusters)])
        members = tuple(ViewMember(broker, labelled.labels[broker], 1) for broker in sorted(labelled.labels))
        view = MembershipView(1, labelled.dimensions, labelled.cluster_max, members)
        cube = cube_of(view)
        return [
            replace(
                position,
                designated=position.broker,
                parent=None,
                parent_cluster=None,
                children=tuple(
                    other for other in cube.beside(position.broker) if other not in position.members
                ),
                child_clusters=(),
                view=view,
            )
            for position in positions
        ]

    @staticmethod
    def joined(
        view: MembershipView,
    ) -> tuple[dict[BrokerId, set[BrokerId]], Callable[[BrokerId, BrokerId], list[BrokerId]]]:
        """Return the links of a view, and a function that returns the path of an event from one broker to another."""
        cube = cube_of(view)
        links: dict[BrokerId, set[BrokerId]] = {here: set() for here in view.born}
        for here in links:
            for _, other in cube.neighbours(here):
                links[here].add(other)
                links[other].add(here)
        return links, lambda source, to: cube.path(to, source)[::-1]

    @staticmethod
    def beside(position: Position) -> Collection[BrokerId]:
        """Return the neighbours of a broker in its view."""
        return position.children if position.view is None else cube_of(position.view).beside(position.broker)

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one, with its routes."""
        super().enter(view)
        self.cube = cube_of(view)
        self._forget_next_hops()

    def onwards(self, source: BrokerId | None) -> Sequence[BrokerId]:
        """Return the brokers to which this one passes on a broadcast."""
        return [] if self.cube is None else self.cube.onwards(self.me, source)

    def neighbours(self) -> list[BrokerId]:
        """Return its neighbours, in the order of their dimensions."""
        return [] if self.cube is None else [other for _, other in self.cube.neighbours(self.me)]

    def behind(self, origin: BrokerId) -> list[BrokerId]:
        """Return the next hops of the events of `origin` to all others."""
        if self.cube is None or origin not in self.cube.labels:
            return []
        return list(dict.fromkeys(self._next_hops_of(origin).values()))

    def placed(self) -> Placed:
        """Return the brokers that it sends to or receives from, and where their events go from here."""
        if self.cube is None:
            return Placed(())
        beside = self.cube.beside(self.me)
        sources = (None, *(other for other in beside if self.cube.comes_from(self.me, other)))
        return Placed(beside, ways=Ways(tuple((each, self.cube.onward(self.me, each)) for each in sources)))

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        batch = message.batch
        entry = self.me if isinstance(source, str) else message.entry
        if entry is None or self.cube is None or entry not in self.cube.labels:
            return self._stray()
        here = self.table.route(batch)
        effects: list[Effect] = []
        if here.clients:
            effects.append(Deliver(batch, here.clients, here.starts, here.rows))
        wanted: dict[BrokerId, list[Rows | None]] = {}
        next_hops = self._next_hops_of(entry)
        for origin, rows in self.others.route(batch).links if next_hops else ():
            if origin in next_hops:
                wanted.setdefault(next_hops[origin], []).append(rows)
        for way, parts in wanted.items():
            rows = _union(parts, len(batch))
            part = batch if rows is None else batch.take(rows)
            effects.append(Send(way, replace(message, batch=part, ballot=None, entry=entry)))
        return effects

    def _next_hops_of(self, entry: BrokerId) -> dict[BrokerId, BrokerId]:
        assert self.cube is not None
        if entry not in self._next_hops:
            next_hops = self.cube.back(self.me, entry)
            if len(self._next_hops) + self._origins + len(next_hops) >= NEXT_HOPS_MAX:
                self._forget_next_hops()
            self._next_hops[entry] = next_hops
            self._origins += len(next_hops)
        return self._next_hops[entry]

    def _forget_next_hops(self) -> None:
        self._next_hops.clear()
        self._origins = 0


def _union(parts: list[Rows | None], size: int) -> Rows | None:
    """Return the rows that are in any of the parts, in rising order; None stands for all."""
    if len(parts) == 1 or any(rows is None for rows in parts):
        return None if any(rows is None for rows in parts) else parts[0]
    wanted = np.zeros(size, np.bool_)
    for rows in parts:
        wanted[rows] = True
    return None if wanted.all() else np.flatnonzero(wanted)
