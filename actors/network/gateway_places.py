"""Which gateways a network is to have, and which of them are to be started and given up as Ray nodes come and go.

Rules
-----
* A node that the network may use has a gateway, or several processes of one: the nodes that it was launched with, where
  somebody named them; else every node with CPUs. A head without CPUs gets none, also while no other node lives; only
  where no node ever had any CPUs, every node has one. When one with CPUs comes then, the others lose theirs.
* A node that Ray has given up is gone for good: one that comes back has another id. A node that is not in Ray's list is
  not known to be gone.
* A gateway that could not serve is started again `AGAIN_SECONDS` later, as long as its node lives: what was in its way,
  a port that is taken, say, goes away by itself or is taken away.

Pure: nodes are what `ray.nodes` says of them, and the time is told. `gateways` does what is decided here.

Source: docs/decisions/0099-gateways-come-with-nodes.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

AGAIN_SECONDS: Final = 30.0
"""How long a gateway that could not serve is let alone."""


class GatewayPlace(NamedTuple):
    """Where a gateway stands: Ray's id of the node, and which of the node's processes it is."""

    node: str
    process: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be done: gateways to start, and those to give up: their node is gone, or not wanted any more."""

    start: tuple[GatewayPlace, ...] = ()
    gone: tuple[GatewayPlace, ...] = ()


class GatewayPlaces:
    """Decides where gateways stand.

    Parameters
    ----------
    named
        The nodes that the network was launched with, where somebody named them.
    processes
        How many a node has.
    """

    def __init__(self, named: Sequence[str], processes: int) -> None:
        self._named, self._processes = tuple(named), processes
        self._started: dict[GatewayPlace, None] = {}
        self._failed: dict[GatewayPlace, float] = {}
        self._had_cpus = False

    def look(self, nodes: Sequence[Mapping[str, Any]], now: float) -> Changes:
        """Take in which nodes there are, as `ray.nodes` has them, and return what is to be done about it."""
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
        """Return the nodes that get none, whoever lives."""
        if self._named:
            return {node["NodeID"] for node in nodes} - set(self._named)
        without = {node["NodeID"] for node in nodes if not node["Resources"].get("CPU")}
        # It is remembered, since Ray says no resources of nodes that are dead, and forgets them after a while.
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
        """Take in that a gateway that was started cannot serve."""
        if place in self._started:
            del self._started[place]
            self._failed[place] = now
