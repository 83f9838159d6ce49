"""The geometry of a hypercube of brokers: labels, covers of vacancies, broadcast, and the return path.

Rules
-----
* Dimension ``i`` is the ``i``-th bit of a label from the left, from 0. Two brokers are neighbours on the first
  dimension in which their labels differ.
* A vacant position is covered by the broker whose label has the least XOR with it. So, dimension by dimension
  from the left, the brokers of one side stand in for missing brokers of the other side.
* **Broadcast** (2.2): the origin sends on every dimension. A broker that receives on dimension ``i`` forwards on the
  dimensions greater than ``i``, on each to the cover of its own label with that bit flipped. A dimension splits the
  remaining brokers into two disjoint halves, so each broker receives once, whatever positions are vacant: ``N - 1``
  messages, and at most as many hops as dimensions.
* **Return path** (2.3): a broadcast of ``s`` reaches ``p`` by repeatedly flipping the first bit that is still
  wrong. The next step towards ``p`` depends only on the current position. So all paths to ``p`` form one tree,
  and events of a publisher at ``p`` that go back along them reach each broker at most once. They cross dimensions
  in falling order, so waits for backpressure cannot form a cycle.

Source: paper 2, sections 2.1 to 2.3; the covering of vacancies follows HyperCuP, its reference 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from math import factorial, prod

from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.views import LABEL_BITS, MembershipView


class Cube:
    """Brokers at the positions of a hypercube, complete or not.

    Parameters
    ----------
    dimensions
        The number of bits of a vertex; 0 for a single vertex.
    labels
        The label of each broker; labels are unique.

    Raises
    ------
    InputError
        If there are no brokers, or two labels are the same.
    """

    def __init__(self, dimensions: int, labels: Mapping[BrokerId, int]) -> None:
        self.dimensions = dimensions
        self.labels = dict(labels)
        self._at = {label: broker for broker, label in self.labels.items()}
        self._sorted = sorted(self._at)
        self._over: dict[BrokerId, dict[int, BrokerId]] = {}  # both built on demand
        self._beside: dict[BrokerId, tuple[BrokerId, ...]] = {}
        if not self._sorted or len(self._sorted) != len(self.labels):
            raise InputError(f"a cube needs brokers with labels of their own: {self.labels}")

    @classmethod
    def complete(cls, dimensions: int) -> Cube:
        """Return the cube in which broker ``v`` is alone at vertex ``v``, as in the paper's figure 2."""
        shift = LABEL_BITS - dimensions
        return cls(dimensions, {vertex: vertex << shift for vertex in range(1 << dimensions)})

    def __len__(self) -> int:
        """Return the number of brokers."""
        return len(self._sorted)

    # Positions.

    def vertex(self, broker: BrokerId) -> int:
        """Return the vertex of a broker."""
        return self.labels[broker] >> (LABEL_BITS - self.dimensions)

    def cover(self, label: int) -> BrokerId:
        """Return the broker at a position or, if it is vacant, the one that covers it, which has the least XOR."""
        return self._at[self._walk(label)[1]]

    def _walk(self, label: int) -> tuple[list[int], int]:
        """Return the dimensions that split the brokers on the path to a label, and the label that covers it."""
        parting = []
        low, high = 0, len(self._sorted)
        for dimension in range(LABEL_BITS):
            if high - low == 1:
                break
            shift = LABEL_BITS - 1 - dimension
            upper = ((self._sorted[low] >> shift) | 1) << shift
            middle = bisect_left(self._sorted, upper, low, high)
            if low < middle < high:
                parting.append(dimension)
                low, high = (middle, high) if label >> shift & 1 else (low, middle)
        return parting, self._sorted[low]

    # Broadcast.

    def dimension(self, one: BrokerId, other: BrokerId) -> int:
        """Return the dimension on which two brokers are neighbours: the first in which their labels differ."""
        return LABEL_BITS - (self.labels[one] ^ self.labels[other]).bit_length()

    def neighbours(self, broker: BrokerId, after: int = -1) -> list[tuple[int, BrokerId]]:
        """Return (dimension, neighbour) of a broker for each dimension greater than `after`, in rising order.

        Only dimensions with a broker on the other side are included.
        """
        return [pair for pair in self._neighbours(broker).items() if pair[0] > after]

    def _neighbours(self, broker: BrokerId) -> dict[int, BrokerId]:
        if broker not in self._over:
            label = self.labels[broker]
            self._over[broker] = {
                dimension: self.cover(label ^ 1 << (LABEL_BITS - 1 - dimension))
                for dimension in self._walk(label)[0]
            }
        return self._over[broker]

    def beside(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return all brokers that a broker sends to or receives from, in rising order; some links are one-way."""
        if not self._beside:
            both: dict[BrokerId, set[BrokerId]] = {each: set() for each in self.labels}
            for each in both:
                for _, other in self.neighbours(each):
                    both[each].add(other)
                    both[other].add(each)
            self._beside = {each: tuple(sorted(others)) for each, others in both.items()}
        return self._beside[broker]

    def onwards(self, broker: BrokerId, source: BrokerId | None) -> list[BrokerId]:
        """Return the brokers to which a broker forwards a broadcast from `source`; None when it starts one."""
        after = -1 if source is None else self.dimension(source, broker)
        return [neighbour for _, neighbour in self.neighbours(broker, after)]

    # The return path.

    def step(self, here: BrokerId, to: BrokerId) -> BrokerId:
        """Return the next broker on the path of a broadcast from `here` to another broker."""
        return self._neighbours(here)[self.dimension(here, to)]

    def path(self, source: BrokerId, to: BrokerId) -> list[BrokerId]:
        """Return the path of a broadcast from `source` to another broker, both included."""
        path = [source]
        while path[-1] != to:
            path.append(self.step(path[-1], to))
        return path

    def back(self, here: BrokerId, entry: BrokerId) -> dict[BrokerId, BrokerId]:
        """Return the next hop of events published at `entry`, from here back along the broadcasts of each origin.

        Origins are absent when the path from them to `entry` does not include this broker, or begins here.
        """
        ways: dict[BrokerId, BrokerId] = {}
        for way in self._before(here, entry):
            beyond = [way]
            for each in beyond:  # grows as it goes
                beyond += self._before(each, entry)
            ways |= dict.fromkeys(beyond, way)
        return ways

    def _before(self, here: BrokerId, to: BrokerId) -> list[BrokerId]:
        """Return the brokers whose next step towards another broker is this one."""
        return [each for each in self.beside(here) if each != to and self.step(each, to) == here]

    def comes_from(self, here: BrokerId, other: BrokerId) -> bool:
        """Return whether events come from a neighbour; with covering, some links are one-way."""
        return self.step(here, other) == other

    def onward(self, here: BrokerId, source: BrokerId | None) -> tuple[BrokerId, ...]:
        """Return the brokers to which events from a neighbour (None: published here) may go on.

        They go on over dimensions less than that of their arrival, to brokers whose own path includes this broker.
        """
        if source is not None and not self.comes_from(here, source):
            return ()
        before = LABEL_BITS if source is None else self.dimension(here, source)
        return tuple(
            other
            for other in self.beside(here)
            if self.dimension(here, other) < before and self.comes_from(other, here)
        )


def mean_hops(dimensions: int, base: int = 2) -> float:
    """Return the mean number of hops between two brokers of a complete cube with `base` brokers on each line.

    ``L = 1 / (N - 1) * sum over i of (b - 1)^(n - i + 1) / (n - i)! * i * (i + 1) * ... * n`` with ``N = b^n``: there
    are ``C(n, k) (b - 1)^k`` brokers at ``k`` hops. For ``b = 2`` it is 12/7 in three dimensions, and nears ``n / 2``.

    Raises
    ------
    InputError
        If there is less than one dimension, or the base is below 2.

    Notes
    -----
    Source: paper 2, formula (1). It measured 1.709 in three dimensions.
    """
    if dimensions < 1 or base < 2:
        raise InputError(f"mean_hops({dimensions}, {base}): it takes a dimension, and two brokers on a line")
    total: int = 0
    for i in range(1, dimensions + 1):
        product = prod(range(i, dimensions + 1))
        total += (base - 1) ** (dimensions - i + 1) * product // factorial(dimensions - i)
    return float(total / (base**dimensions - 1))


@lru_cache(maxsize=64)
def cube_of(view: MembershipView) -> Cube:
    """Return the cube of a view; brokers in one process share it."""
    return Cube(view.dimensions, view.labels)
