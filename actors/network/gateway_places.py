"""Placement of gateways: which gateways a network needs, and which to start or give up as Ray nodes come and go.

Rules
-----
* Every node that the network may use has a gateway, or several processes of one. Those are the nodes that have the
  place of gateways; where they have none, the nodes that the network was launched with, if any were named; otherwise
  those that have its place.
* Of these the nodes with CPUs. A head without CPUs gets none, even while no other node is alive. Only if no node ever
  had CPUs does every node get a gateway; when a node with CPUs joins then, the others lose theirs.
* Nodes with GPUs get none, as long as another one is alive.
* A node that Ray has declared dead is gone for good: a node that returns has another id. A node that is missing
  from Ray's list is not known to be gone.
* A gateway that failed to serve is restarted `AGAIN_SECONDS` later, as long as its node is alive: the cause, such
  as a port that is taken, may have been removed by then.

Pure: nodes are the entries of `ray.nodes`, and the caller passes the time. `gateways` carries out the decisions.

Source: docs/decisions/0099-gateways-come-with-nodes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...protocol.node_places import NodePlace
from .placing import Node, fits, rank

AGAIN_SECONDS: Final = 30.0
"""How long a gateway that failed to serve waits for its restart."""


class GatewayPlace(NamedTuple):
    """The place of a gateway: Ray's id of the node, and which of the node's processes it is."""

    node: str
    process: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Gateways to start, and gateways to give up because their node is gone or no longer used."""

    start: tuple[GatewayPlace, ...] = ()
    gone: tuple[GatewayPlace, ...] = ()


class GatewayNodes(NamedTuple):
    """Which nodes may have gateways.

    Attributes
    ----------
    named, network
        The nodes that the network was launched with, if any were named, and the place of its brokers.
    own
        The place of its gateways, which is used instead of both.
    """

    named: tuple[str, ...] = ()
    network: NodePlace | None = None
    own: NodePlace | None = None


class GatewayPlaces:
    """Decides where gateways run.

    Parameters
    ----------
    nodes
        Which nodes may have them.
    processes
        How many gateway processes each node has.
    """

    def __init__(self, nodes: GatewayNodes, processes: int) -> None:
        self._nodes, self._processes = nodes, processes
        self._started: dict[GatewayPlace, None] = {}
        self._failed: dict[GatewayPlace, float] = {}
        self._had_cpus = False

    def look(self, nodes: Sequence[Node], now: float) -> Changes:
        """Take the current nodes, as `ray.nodes` returns them, and return which gateways to start and give up."""
        dead = {node["NodeID"] for node in nodes if not node["Alive"]}
        unwanted = self._unwanted(nodes)
        gone = tuple(place for place in (*self._started, *self._failed) if place.node in dead | unwanted)
        for place in gone:
            self._started.pop(place, None)
            self._failed.pop(place, None)
        start = tuple(place for place in self._wanted(nodes, unwanted) if self._is_due(place, now))
        for place in start:
            self._failed.pop(place, None)
            self._started[place] = None
        return Changes(start, gone)

    def _unwanted(self, nodes: Sequence[Node]) -> set[str]:
        """Return the nodes that get no gateway, whichever nodes are alive."""
        named, network, own = self._nodes
        if named and own is None:
            return {node["NodeID"] for node in nodes} - set(named)
        place = own or network or NodePlace()
        fitting = [node for node in nodes if fits(node, place)]
        with_cpus = [node for node in fitting if rank(node) < 2]
        # Remembered, because Ray reports no resources for dead nodes, and forgets those nodes after a while.
        self._had_cpus = self._had_cpus or bool(with_cpus)
        wanted = with_cpus if self._had_cpus else fitting
        best = min((rank(node) for node in wanted if node["Alive"]), default=0)
        return {node["NodeID"] for node in nodes} - {node["NodeID"] for node in wanted if rank(node) <= best}

    def _wanted(self, nodes: Sequence[Node], unwanted: set[str]) -> list[GatewayPlace]:
        names = sorted(node["NodeID"] for node in nodes if node["Alive"] and node["NodeID"] not in unwanted)
        return [GatewayPlace(name, process) for name in names for process in range(self._processes)]

    def _is_due(self, place: GatewayPlace, now: float) -> bool:
        if place in self._started:
            return False
        return place not in self._failed or now - self._failed[place] >= AGAIN_SECONDS

    def failed(self, place: GatewayPlace, now: float) -> None:
        """Record that a gateway that was started cannot serve."""
        if place in self._started:
            del self._started[place]
            self._failed[place] = now
