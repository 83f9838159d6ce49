"""Which gateways a network must have, and which to start and give up as Ray nodes join and leave.

Rules
-----
* Each node that the network may use has a gateway, or several processes of one: the nodes named at the launch,
  otherwise every node with CPUs. A head without CPUs gets none, even while no other node lives. If no node ever had
  any CPUs, every node has one. When a node with CPUs joins then, the others lose theirs.
* A node that Ray has given up is gone for good: one that returns has another id. A node that is not in Ray's list
  is not known to be gone.
* A gateway that could not serve is restarted `AGAIN_SECONDS` later, as long as its node lives: the obstacle, such
  as a port in use, may disappear.

Pure: nodes are as `ray.nodes` describes them, and the time is an argument. `gateways` carries out what is decided
here.

Source: docs/decisions/0099-gateways-come-with-nodes.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

AGAIN_SECONDS: Final = 30.0
"""The delay before a gateway that could not serve is restarted."""


class GatewayPlace(NamedTuple):
    """The place of a gateway: Ray's id of the node, and the number of the process on it."""

    node: str
    process: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Gateways to start, and gateways to give up because their node is gone or no longer wanted."""

    start: tuple[GatewayPlace, ...] = ()
    gone: tuple[GatewayPlace, ...] = ()


class GatewayPlaces:
    """Decides the places of gateways.

    Parameters
    ----------
    named
        The nodes that the network was launched with, if named.
    processes
        How many processes a node has.
    """

    def __init__(self, named: Sequence[str], processes: int) -> None:
        self._named, self._processes = tuple(named), processes
        self._started: dict[GatewayPlace, None] = {}
        self._failed: dict[GatewayPlace, float] = {}
        self._had_cpus = False

    def look(self, nodes: Sequence[Mapping[str, Any]], now: float) -> Changes:
        """Process the list of nodes of `ray.nodes`, and return the changes."""
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

    def _unwanted(self, nodes: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the nodes that get none."""
        if self._named:
            return {node["NodeID"] for node in nodes} - set(self._named)
        without = {node["NodeID"] for node in nodes if not node["Resources"].get("CPU")}
        # Remembered, because Ray reports no resources of dead nodes, and forgets them after a while.
        self._had_cpus = self._had_cpus or len(without) < len(nodes)
        return without if self._had_cpus else set()

    def _wanted(self, nodes: Sequence[Mapping[str, Any]], unwanted: set[str]) -> list[GatewayPlace]:
        names = sorted(node["NodeID"] for node in nodes if node["Alive"] and node["NodeID"] not in unwanted)
        return [GatewayPlace(name, process) for name in names for process in range(self._processes)]

    def _is_due(self, place: GatewayPlace, now: float) -> bool:
        if place in self._started:
            return False
        return place not in self._failed or now - self._failed[place] >= AGAIN_SECONDS

    def failed(self, place: GatewayPlace, now: float) -> None:
        """Record that a started gateway cannot serve."""
        if place in self._started:
            del self._started[place]
            self._failed[place] = now
