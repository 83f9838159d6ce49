"""Assignment of labels: vacancies are filled, node clusters split, dimensions opened and closed.

Rules
-----
* A broker that joins fills the vacant position that needs it most, near its contact: of the vacant positions within
  `REACH` of the contact (otherwise of all), one in the largest empty part of the cube; of these, the nearest.
* If no position is vacant, the broker joins the smallest node cluster; of these, the nearest to the contact.
* If a cluster would then exceed `cluster_max`, a dimension is opened first: the next bit of the labels becomes
  part of the vertex. This splits every cluster in two, and no broker changes its label.
* If half of the positions suffice, the last dimension is closed: pairs of clusters are merged.
* After each change node clusters are regrouped: while one has two brokers more than another, or than a vacant
  position, a broker of the largest cluster moves there. So a vacancy is covered (`routing.topologies.cube`) only
  when no cluster has two brokers.
* So for ``N`` brokers in a cube of ``d`` dimensions, ``2**(d - 1) < N <= cluster_max * 2**d``; the sizes of clusters
  differ by at most one; and with clusters of one a broadcast takes at most ``ceil(log2 N)`` hops.
* The initial brokers of a cube are placed at even distances. So each dimension splits them evenly, and no broker
  covers much more than another: the cost of vacant positions is spread.
* Inside a cluster the rest of a label counts up with its bits reversed, so that brokers split evenly.

The assignment is deterministic: the lowest number wins ties. Source: paper 2, section 2.4, both of its methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.views import LABEL_BITS

REACH: Final = 2
"""The number of dimensions from its contact within which a broker first looks for a place."""


class LabelChange(NamedTuple):
    """A change of the assignment: `word` is placed, moved, left, opened or closed; vertices are written as bits."""

    word: str
    broker: BrokerId | None = None
    vertex: str = ""
    before: str = ""


class CubeMembers:
    """The brokers of a cube and their labels.

    Parameters
    ----------
    dimensions, labels
        The initial state.
    cluster_max
        How many brokers a cluster may have before a dimension is opened.
    """

    def __init__(
        self, dimensions: int = 0, labels: Mapping[BrokerId, int] | None = None, cluster_max: int = 1
    ) -> None:
        if cluster_max < 1:
            raise InputError(f"cluster_max is {cluster_max}: a node cluster has at least one broker")
        self.dimensions = dimensions
        self.labels = dict(labels or {})
        self.cluster_max = cluster_max

    @classmethod
    def of_clusters(cls, clusters: Sequence[Sequence[BrokerId]]) -> CubeMembers:
        """Return a cube with these node clusters, each at a separate vertex, at even distances."""
        made = cls((len(clusters) - 1).bit_length(), cluster_max=max(map(len, clusters)))
        for place, cluster in enumerate(clusters):
            for broker in cluster:
                made._place(broker, (place << made.dimensions) // len(clusters))
        return made

    # Introspection.

    def vertex(self, broker: BrokerId) -> int:
        """Return the vertex of a broker."""
        return self.labels[broker] >> (LABEL_BITS - self.dimensions)

    def clusters(self) -> dict[int, list[BrokerId]]:
        """Return the brokers at each vertex that is not vacant, in rising order."""
        found: dict[int, list[BrokerId]] = {}
        for broker in sorted(self.labels):
            found.setdefault(self.vertex(broker), []).append(broker)
        return dict(sorted(found.items()))

    def need(self, vertex: int) -> int:
        """Return the size of the empty part of the cube around a vertex; 0 when the vertex is occupied."""
        return _need(vertex, self._held())

    def _held(self) -> list[set[int]]:
        """Return the occupied vertices, then these numbers without their last bit, and so on."""
        bits = LABEL_BITS - self.dimensions
        vertices = {label >> bits for label in self.labels.values()}
        return [{vertex >> shift for vertex in vertices} for shift in range(self.dimensions + 1)]

    def bits(self, vertex: int) -> str:
        """Return a vertex as a string of bits."""
        return f"{vertex:0{self.dimensions}b}" if self.dimensions else "-"

    # Joining.

    def join(self, broker: BrokerId, contact: BrokerId | None = None) -> list[LabelChange]:
        """Add a broker, near a contact; return the changes.

        Raises
        ------
        InputError
            If the broker is already in the cube.
        """
        if broker in self.labels:
            raise InputError(f"broker {broker} is in the cube already")
        if not self.labels:
            return [self._place(broker, 0)]
        done = self._open(len(self.labels) + 1)
        near = self.vertex(contact) if contact in self.labels else 0
        done.append(self._place(broker, self._neediest(near)))
        return done + self._regroup(near)

    def _neediest(self, near: int) -> int:
        """Return the position that needs a broker most: a vacant one, otherwise that of the smallest cluster."""
        vacancy = self._vacancy(near)
        if vacancy is not None:
            return vacancy
        clusters = self.clusters()
        return min(clusters, key=lambda vertex: (len(clusters[vertex]), (vertex ^ near).bit_count(), vertex))

    def _vacancy(self, near: int) -> int | None:
        """Return the vacant position that needs a broker most."""
        held = self._held()
        if len(held[0]) == 1 << self.dimensions:
            return None
        around = [near ^ mask for mask in _masks(self.dimensions)]
        vacant = [vertex for vertex in around if vertex not in held[0]]
        vacant = vacant or [vertex for vertex in range(1 << self.dimensions) if vertex not in held[0]]
        return min(vacant, key=lambda vertex: (-_need(vertex, held), (vertex ^ near).bit_count(), vertex))

    def _open(self, brokers: int) -> list[LabelChange]:
        """Open dimensions until the cube has room for so many brokers."""
        done = []
        while brokers > self.cluster_max << self.dimensions:
            self.dimensions += 1
            done.append(LabelChange("opened", vertex=str(self.dimensions)))
        return done

    def _place(self, broker: BrokerId, vertex: int) -> LabelChange:
        """Give a broker the first free place at a vertex."""
        bits = LABEL_BITS - self.dimensions
        taken = {label for other, label in self.labels.items() if other != broker}
        place = 0
        while (vertex << bits) + _turned(place, bits) in taken:
            place += 1
        self.labels[broker] = (vertex << bits) + _turned(place, bits)
        return LabelChange("placed", broker, self.bits(vertex))

    # Leaving.

    def leave(self, broker: BrokerId) -> list[LabelChange]:
        """Remove a broker, alive or dead; return the changes.

        Raises
        ------
        InputError
            If the broker is not in the cube, or is the last one.
        """
        if broker not in self.labels or len(self.labels) == 1:
            raise InputError(f"broker {broker} is not in the cube, or is the last one in it")
        done = [LabelChange("left", broker, self.bits(self.vertex(broker)))]
        vertex = self.vertex(broker)
        del self.labels[broker]
        while self.dimensions and len(self.labels) <= 1 << (self.dimensions - 1):
            self.dimensions -= 1
            vertex >>= 1
            done.append(LabelChange("closed", vertex=str(self.dimensions)))
        done += self._open(len(self.labels))
        return done + self._regroup(vertex)

    def _regroup(self, near: int) -> list[LabelChange]:
        """Move brokers out of the largest clusters until none has two more than another cluster or a vacancy."""
        done: list[LabelChange] = []
        while True:
            clusters = self.clusters()
            target = self._neediest(near)
            size = max(map(len, clusters.values()))
            if size - len(clusters.get(target, ())) < 2:
                return done
            crowded = [vertex for vertex, members in clusters.items() if len(members) == size]
            source = min(crowded, key=lambda vertex: ((vertex ^ target).bit_count(), vertex))
            mover = clusters[source][-1]
            self._place(mover, target)
            done.append(LabelChange("moved", mover, self.bits(target), self.bits(source)))

    def check(self) -> None:
        """Assert that labels differ, and fit; for tests."""
        assert len(set(self.labels.values())) == len(self.labels)
        assert all(0 <= label < 1 << LABEL_BITS for label in self.labels.values())


def _need(vertex: int, held: list[set[int]]) -> int:
    empty = [shift for shift, taken in enumerate(held) if vertex >> shift not in taken]
    return 1 << empty[-1] if empty else 0


def _masks(dimensions: int) -> list[int]:
    """Return the masks that flip up to `REACH` bits of a vertex."""
    bits = [1 << place for place in range(dimensions)]
    return [sum(chosen) for count in range(REACH + 1) for chosen in combinations(bits, count)]


def _turned(number: int, bits: int) -> int:
    """Return a number of that many bits with its bits reversed."""
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
