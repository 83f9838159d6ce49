"""Networks of brokers: trees of clusters, regular, random, or explicitly described.

Rules
-----
* Cluster ``c`` has brokers ``c * n .. c * n + n - 1``. The designated broker is the one with the highest id, as in an
  election (paper 1, section 4.1.1).
* The *degree* is the maximum number of children of a designated broker (paper 1, section 2).
* Cluster 0 is the root, and no parent has a higher number than its child.

Source: paper 1, sections 2 (the tree), 3 (figure 1) and 5.1 (the network of the experiment).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ...protocol.checks import instance, one_of, text, texts, whole_number
from ...protocol.configs import Position
from ...protocol.errors import TopologyError
from ...protocol.ids import BrokerId

if (
    TYPE_CHECKING
):  # importing networkx takes half a second in every broker process, so it is imported where a graph is made
    import networkx as nx

    from .transit_stub import JoinedSite

Shape: TypeAlias = Literal["plain", "transit-stub"]

LINK_SECONDS: Final = 0.010
"""The delay of a tree link when no physical network is modelled."""

GROUP_SECONDS: Final = 0.0005
"""The delay between two members of a cluster: a local network."""

BROKERS_MAX: Final = 1_000_000
"""More brokers than this are a typing error, and are rejected before they take all memory."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    """One cluster: its brokers' labels (the designated one last), its parent, and the delay to the parent."""

    labels: tuple[str, ...]
    parent: int | None
    delay_seconds: float


class Topology:
    """A complete tree of clusters; the base class of all ways to describe one."""

    _clusters: Sequence[_Cluster]

    @cached_property
    def _positions(self) -> tuple[Position, ...]:
        groups: list[range] = []
        for cluster in self._clusters:
            start = groups[-1].stop if groups else 0
            groups.append(range(start, start + len(cluster.labels)))
        children: list[list[BrokerId]] = [[] for _ in groups]
        kids: list[list[int]] = [[] for _ in groups]
        for number, (group, cluster) in enumerate(zip(groups, self._clusters, strict=True)):
            if cluster.parent is not None:
                children[cluster.parent].append(group[-1])
                kids[cluster.parent].append(number)
        out = []
        for number, (group, cluster) in enumerate(zip(groups, self._clusters, strict=True)):
            members, below = tuple(group), tuple(children[number])
            above = None if cluster.parent is None else groups[cluster.parent][-1]
            for broker, label in zip(group, cluster.labels, strict=True):
                out.append(
                    Position(
                        broker,
                        number,
                        label,
                        members,
                        group[-1],
                        above,
                        below,
                        cluster.parent,
                        tuple(kids[number]),
                    )
                )
        return tuple(out)

    def positions(self) -> list[Position]:
        """Return the place of every broker, in rising order of the ids.

        The place of a normal broker also names its cluster's parent and children: they become its own when it takes
        over.
        """
        return list(self._positions)

    def broker(self, label: str) -> BrokerId:
        """Return the broker with that label.

        Raises
        ------
        TopologyError
            If there is none.
        """
        text("label", label, TopologyError)
        for position in self._positions:
            if position.label == label:
                return position.broker
        raise TopologyError(f"no broker {label!r} in this network")

    def delay_seconds(self, one: BrokerId, other: BrokerId) -> float:
        """Return the delay of the link between two members of a cluster, or between a parent and a child.

        Raises
        ------
        TopologyError
            If there is no link between the two.
        """
        for broker in (one, other):
            whole_number("broker", broker, error=TopologyError)
        brokers = range(len(self._positions))
        if one in brokers and other in brokers and one != other:
            a, b = self._positions[one], self._positions[other]
            if a.cluster == b.cluster:
                return GROUP_SECONDS
            if a.role != "NEB" and b.role != "NEB":
                if a.parent == other:
                    return self._clusters[a.cluster].delay_seconds
                if b.parent == one:
                    return self._clusters[b.cluster].delay_seconds
        raise TopologyError(f"there is no link between brokers {one} and {other}")

    def path_seconds(self, one: BrokerId, other: BrokerId) -> float:
        """Return the delay of the path between any two brokers over the tree; a direct connection has the same delay.

        Raises
        ------
        TopologyError
            If there is no such broker.
        """
        for broker in (one, other):
            if whole_number("broker", broker, error=TopologyError) not in range(len(self._positions)):
                raise TopologyError(f"no broker {broker!r} in this network")
        a, b = self._positions[one], self._positions[other]
        if a.cluster == b.cluster:
            return GROUP_SECONDS if one != other else 0.0
        seconds = GROUP_SECONDS * ((a.role == "NEB") + (b.role == "NEB"))
        high, low = a.cluster, b.cluster
        while high != low:  # no parent has a higher number than its child
            high, low = max(high, low), min(high, low)
            seconds += self._clusters[high].delay_seconds
            parent = self._clusters[high].parent
            assert parent is not None
            high = parent
        return seconds

    def graph(self) -> nx.Graph:
        """Return the network for drawing and measuring.

        Nodes are broker ids with `role`, `cluster` and `label`. An edge of `kind` "tree" connects two designated
        brokers and has `parent`, `child` and `delay_seconds`; an edge of kind "group" connects a normal broker to
        its designated one (in the group itself all members hear each other).
        """
        import networkx as nx

        graph = nx.Graph()
        for place in self._positions:
            graph.add_node(place.broker, role=place.role, cluster=place.cluster, label=place.label)
        for place in self._positions:
            if place.role == "NEB":
                graph.add_edge(place.broker, place.designated, kind="group", delay_seconds=GROUP_SECONDS)
            elif place.parent is not None:
                delay = self._clusters[place.cluster].delay_seconds
                graph.add_edge(
                    place.parent,
                    place.broker,
                    kind="tree",
                    parent=place.parent,
                    child=place.broker,
                    delay_seconds=delay,
                )
        return graph

    def describe(self) -> dict[str, int | float]:
        """Return the measures of the tree: its brokers, clusters, depth, largest degree, mean link delay."""
        depths: list[int] = []
        children = [0] * len(self._clusters)
        for cluster in self._clusters:
            depths.append(0 if cluster.parent is None else depths[cluster.parent] + 1)
            if cluster.parent is not None:
                children[cluster.parent] += 1
        links = len(self._clusters) - 1
        total = sum(cluster.delay_seconds for cluster in self._clusters)
        return {
            "brokers": len(self._positions),
            "clusters": len(self._clusters),
            "depth": max(depths),
            "degree_max": max(children),
            "tree_links": links,
            "tree_link_seconds_mean": total / links if links else 0.0,
        }


@dataclass(frozen=True)
class ClusterTree(Topology):
    """A tree of clusters of equal size.

    Parameters
    ----------
    clusters
        The number of clusters, each with one designated broker (DEB).
    brokers_per_cluster
        The brokers per cluster, including the designated one.
    degree
        The maximum number of children of a designated broker.
    seed
        The seed of random shapes.
    shape
        ``"plain"``: level by level, as flat as the degree allows and evenly filled. ``"transit-stub"``: grown on
        a random network after GT-ITM, so that links have different delays.
    links
        The number of links of the physical transit-stub network; None makes it random. The paper has 100 DEBs and
        730 links. We interpret them as the undirected links of the network that connects the 100 sites. The tree
        uses paths of that network, so more links shorten delays but do not change how many messages are sent.
        (Links inside the clusters are not included: 1,000 normal brokers alone would need more than 730.)

    Raises
    ------
    TopologyError
        If a value has the wrong type or range, or the clusters cannot form a tree of that degree.
    """

    clusters: int
    brokers_per_cluster: int
    degree: int = 8
    seed: int = 0
    shape: Shape = "plain"
    links: int | None = None

    def __post_init__(self) -> None:
        whole_number("clusters", self.clusters, 1, BROKERS_MAX, TopologyError)
        whole_number("brokers_per_cluster", self.brokers_per_cluster, 1, BROKERS_MAX, TopologyError)
        whole_number("degree", self.degree, 0, error=TopologyError)
        whole_number("seed", self.seed, 0, error=TopologyError)
        one_of("shape", self.shape, get_args(Shape), TopologyError)
        if self.clusters * self.brokers_per_cluster > BROKERS_MAX:
            raise TopologyError(
                f"{self.clusters:,} clusters of {self.brokers_per_cluster:,} brokers: "
                f"a network has at most {BROKERS_MAX:,} brokers"
            )
        if self.degree == 0 and self.clusters > 1:
            raise TopologyError(
                f"degree 0 joins one cluster, not {self.clusters}: give a degree of 1 or more"
            )
        if self.links is not None:
            whole_number("links", self.links, 0, error=TopologyError)
            if self.shape != "transit-stub":
                raise TopologyError(f"links are for the shape transit-stub, not {self.shape}")
            from .transit_stub import check_links

            check_links(self.clusters, self.links)

    def physical_graph(self) -> nx.Graph:
        """Return the transit-stub network under the tree; its site numbers differ from the cluster numbers.

        Raises
        ------
        TopologyError
            If the shape has no physical network, or it cannot have that many links.
        """
        if self.shape != "transit-stub":
            raise TopologyError(f"the shape {self.shape} has no physical network")
        from .transit_stub import transit_stub_graph

        return transit_stub_graph(self.clusters, self.seed, self.links)

    @cached_property
    def _clusters(self) -> list[_Cluster]:  # type: ignore[override]
        if self.shape == "plain":
            parents = [(parent, LINK_SECONDS) for parent in _level_by_level(self.clusters, self.degree)]
        else:
            from .transit_stub import spanning_tree

            parents = _in_order_of_joining(spanning_tree(self.physical_graph(), self.degree))
        out = [_Cluster(self._labels(0), None, 0.0)]
        for number, (parent, delay) in enumerate(parents, start=1):
            out.append(_Cluster(self._labels(number), parent, delay))
        return out

    def _labels(self, cluster: int) -> tuple[str, ...]:
        normal = [f"N{cluster}.{number}" for number in range(1, self.brokers_per_cluster)]
        return (*normal, f"D{cluster}" if cluster else "REB")


def _level_by_level(clusters: int, degree: int) -> list[int]:
    """Return the parents of clusters 1.. of a tree whose last level is distributed evenly over the one above."""
    parents: list[int] = []
    level = range(1)
    while level.stop < clusters:
        below = range(level.stop, min(clusters, level.stop + len(level) * degree))
        parents += [level[place * len(level) // len(below)] for place in range(len(below))]
        level = below
    return parents


def _in_order_of_joining(tree: list[JoinedSite]) -> list[tuple[int, float]]:
    """Return parent and delay of clusters 1.., numbered in the order in which the sites joined."""
    number = {joined.site: place for place, joined in enumerate(tree)}
    return [(number[joined.parent], joined.delay_seconds) for joined in tree if joined.parent is not None]


@dataclass(frozen=True)
class FixedTree(Topology):
    """An explicitly described tree of clusters; see :func:`fixed`.

    Parameters
    ----------
    parents
        ``{designated broker: its parent}``, parents before children; the root's parent is None.
    members
        ``{designated broker: its normal brokers}``; a cluster that is not listed has none.

    Raises
    ------
    TopologyError
        If there is not exactly one root, a parent is missing or comes later, or a label occurs twice.
    """

    parents: Mapping[str, str | None]
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        instance(
            "parents", self.parents, Mapping, "a mapping from label to the parent's label", TopologyError
        )
        instance("members", self.members, Mapping, "a mapping from label to labels", TopologyError)
        roots = [name for name, parent in self.parents.items() if parent is None]
        if len(roots) != 1:
            raise TopologyError(f"a tree has one root, a broker whose parent is null; here: {roots}")
        seen: set[str] = set()
        for name, parent in self.parents.items():
            if parent is not None and parent not in seen:
                raise TopologyError(f"the parent of {name!r}, {parent!r}, is not described before it")
            seen.add(name)
        for name, labels in self.members.items():
            if name not in self.parents:
                raise TopologyError(f"members of {name!r}: there is no such designated broker")
            for label in texts(f"members of {name!r}", labels, TopologyError):
                if label in seen:
                    raise TopologyError(f"label {label!r} occurs twice")
                seen.add(label)
        for label in seen:
            if not isinstance(label, str) or not label:
                raise TopologyError(f"label {label!r} is not a string of at least one character")

    @cached_property
    def _clusters(self) -> list[_Cluster]:  # type: ignore[override]
        number = {name: place for place, name in enumerate(self.parents)}
        return [
            _Cluster(
                (*self.members.get(name, ()), name),
                None if parent is None else number[parent],
                0.0 if parent is None else LINK_SECONDS,
            )
            for name, parent in self.parents.items()
        ]


def fixed(parents: Mapping[str, str | None], members: Mapping[str, Sequence[str]] | None = None) -> FixedTree:
    """Return an explicitly described tree.

    Examples
    --------
    >>> tree = fixed({"REB": None, "D1": "REB"}, {"D1": ["N1", "N2"]})
    >>> [place.label for place in tree.positions()]
    ['REB', 'N1', 'N2', 'D1']
    """
    return FixedTree(parents, members or {})


def figure_1() -> FixedTree:
    """Return the network of paper 1, figure 1, as described in sections 3 and 4 (the figure itself is lost)."""
    return fixed(
        {"REB": None, "D2": "REB", "D3": "REB", "D1": "D2", "D5": "D2", "D4": "D3"},
        {"D1": ["N1", "N2"]},
    )


def positions_of(given: Topology | Sequence[Position]) -> Sequence[Position]:
    """Return the places of a topology, or the given places.

    Raises
    ------
    InputError
        If the argument is neither.
    """
    if isinstance(given, Topology):
        return given.positions()
    for position in instance("positions", given, Sequence, "a topology, or what positions() of one returns"):
        instance("a position", position, Position, "one of what a topology's positions() returns")
    return given


def topology_of(description: Mapping[str, object]) -> Topology:
    """Return the topology that a mapping describes, for example the one of a scenario.

    The mapping has either the parameters of :class:`ClusterTree` (``clusters``, ``brokers_per_cluster``, ...) or
    those of :class:`FixedTree` (``parents``, ``members``).

    Raises
    ------
    TopologyError
        If a parameter is unknown, missing or invalid.
    """
    kind: type[Topology] = FixedTree if "parents" in description else ClusterTree
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for key in description:
        if key not in known:
            raise TopologyError(f"topology has no parameter {key!r}: there are {', '.join(known)}")
    needed = ("parents",) if kind is FixedTree else ("clusters", "brokers_per_cluster")
    for key in needed:
        if key not in description:
            raise TopologyError(f"topology needs {key!r}")
    for key in ("parents", "members"):
        if key in description and not isinstance(description[key], Mapping):
            raise TopologyError(f"topology: {key} is {description[key]!r}: it must be a mapping by label")
    return kind(**description)
