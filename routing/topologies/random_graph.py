"""Random graphs of brokers: the unstructured overlays, with cycles, to which paper 2 compares its hypercube.

Rules
-----
* Each broker after the first is linked to a random earlier one, so that the graph is connected. Random further links
  follow, until there are as many as in a hypercube of as many brokers: ``N * log2 N / 2``, but at least three for each
  two brokers, and no more than there are pairs. So the mean degree is 3 with 8 brokers, 6 with 64, and 8 with 256.
* A graph is a function of the order of its brokers: who has the same order has the same graph.

Source: paper 2, sections 2.3 and 3 (flooding "without limit"), of which it gives no network.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from ...protocol.ids import BrokerId
from ...protocol.messages.views import MembershipView

DEGREE_MIN: Final = 3
"""The mean number of links of a broker, if there are so many others."""


class RandomGraph:
    """A connected graph of brokers.

    Parameters
    ----------
    order
        The brokers.
    seed
        Another seed draws another graph of the same brokers.
    degree
        The mean number of links of a broker; None for that of a hypercube of as many brokers.
    """

    def __init__(self, order: Sequence[BrokerId], seed: object = "", degree: float | None = None) -> None:
        rng = random.Random(f"graph/{seed}/{','.join(map(str, order))}")
        size = len(order)
        self.links: dict[BrokerId, set[BrokerId]] = {broker: set() for broker in order}
        for place in range(1, size):
            self._link(order[place], order[rng.randrange(place)])
        wanted = size * (max(DEGREE_MIN, (size - 1).bit_length()) if degree is None else degree) / 2
        missing = min(round(wanted), size * (size - 1) // 2) - (size - 1)
        while missing > 0:
            one, other = rng.sample(order, 2)
            if other not in self.links[one]:
                self._link(one, other)
                missing -= 1
        self.root = order[0]
        self._trees: dict[BrokerId, dict[BrokerId, tuple[BrokerId, ...]]] = {}

    def _link(self, one: BrokerId, other: BrokerId) -> None:
        self.links[one].add(other)
        self.links[other].add(one)

    def beside(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return the brokers linked to one, in rising order."""
        return tuple(sorted(self.links[broker]))

    def tree(self, root: BrokerId) -> Mapping[BrokerId, tuple[BrokerId, ...]]:
        """Return the children of each broker in a spanning tree with the shortest paths from `root`."""
        if root not in self._trees:
            found: dict[BrokerId, list[BrokerId]] = {root: []}
            todo = deque([root])
            while todo:
                here = todo.popleft()
                for other in self.beside(here):
                    if other not in found:
                        found[other] = []
                        found[here].append(other)
                        todo.append(other)
            self._trees[root] = {broker: tuple(below) for broker, below in found.items()}
        return self._trees[root]

    def tree_links(self, root: BrokerId) -> dict[BrokerId, set[BrokerId]]:
        """Return the links of the spanning tree of `root`, by broker."""
        links: dict[BrokerId, set[BrokerId]] = {broker: set() for broker in self.links}
        for above, below in self.tree(root).items():
            for each in below:
                links[above].add(each)
                links[each].add(above)
        return links


def drawn_order(brokers: Sequence[BrokerId], seed: object) -> list[BrokerId]:
    """Return brokers in an order drawn from a seed, for graphs of them."""
    return random.Random(f"order/{seed}").sample(list(brokers), len(brokers))


@lru_cache(maxsize=64)
def graph_of(view: MembershipView) -> RandomGraph:
    """Return the graph of a view, whose brokers are in the order of their labels; brokers in one process share it."""
    labels = view.labels
    return RandomGraph(sorted(labels, key=labels.__getitem__))
