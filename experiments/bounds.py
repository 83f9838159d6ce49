"""The fewest messages that an event can take: the Steiner tree over its publisher's broker and the interested brokers.

Rules
-----
* On a tree the Steiner tree is the smallest subtree that joins the terminals: it is exact, and any scheme
  that sends to one broker at a time has to cross its links.
* With multicast a cluster is one hop: a message reaches all its members. Then the bound is the links of the
  smallest subtree of clusters, and one multicast in each cluster with an interested broker other than the one
  at which the event enters.
* A message between brokers that are not neighbours crosses all links between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..protocol.configs import Position
from ..protocol.ids import BrokerId, ClusterId
from ..routing.schemes.hierarchical import Hierarchical


class MessageBounds:
    """The bounds of one tree of clusters.

    Parameters
    ----------
    positions
        The positions of the brokers, from a topology.
    """

    def __init__(self, positions: Sequence[Position]) -> None:
        self._places = {place.broker: place for place in positions}
        self._above = {place.broker: place.parent for place in Hierarchical.positions(positions)}
        self._clusters_above = {place.cluster: place.parent_cluster for place in positions}

    def links(self, terminals: Iterable[BrokerId]) -> int:
        """Return the links of the smallest subtree that joins these brokers."""
        return len(_joined(self._above, terminals)) - 1

    def distance(self, one: BrokerId, other: BrokerId) -> int:
        """Return the number of links between two brokers."""
        return self.links((one, other))

    def messages(self, origin: BrokerId, wanting: Iterable[BrokerId]) -> int:
        """Return the fewest messages, with multicast, that deliver an event from its origin to these brokers."""
        home = self._places[origin].cluster
        terminals: dict[ClusterId, set[BrokerId]] = {home: set()}
        for broker in wanting:
            terminals.setdefault(self._places[broker].cluster, set()).add(broker)
        clusters = _joined(self._clusters_above, terminals)
        if len(clusters) > 1:
            terminals[home].add(self._places[origin].designated)
        multicasts = 0
        for cluster, brokers in terminals.items():
            entry = origin if cluster == home else self._places[min(brokers)].designated
            multicasts += bool(brokers - {entry})
        return len(clusters) - 1 + multicasts


def _joined(above: Mapping[int, int | None], terminals: Iterable[int]) -> set[int]:
    """Return the nodes of the smallest subtree that joins the terminals, in a tree given by parents."""
    first, *others = terminals
    ways = [_way_up(above, node) for node in (first, *others)]
    common = set(ways[0]).intersection(*ways[1:])
    meeting = next(node for node in ways[0] if node in common)
    return {meeting}.union(*(way[: way.index(meeting)] for way in ways))


def _way_up(above: Mapping[int, int | None], node: int | None) -> list[int]:
    way = []
    while node is not None:
        way.append(node)
        node = above[node]
    return way
