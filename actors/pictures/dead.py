"""A network's graph with its dead brokers added.

Rules
-----
* Pure: it returns a new graph and leaves the given one unchanged.
* The graph has the current places of live brokers. The places of dead brokers are the positions with which the
  network was launched.
"""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from ...protocol.configs import Position


def with_dead(graph: nx.Graph, positions: Iterable[Position]) -> nx.Graph:
    """Return the graph with every broker of `positions` that it lacks, marked as dead.

    Parameters
    ----------
    graph
        The graph that `Inspection.describe` returns: live brokers only.
    positions
        Every broker's place at the start (`Inspection.positions`).

    Returns
    -------
    networkx.Graph
        An added node has ``label``, ``role``, ``cluster``, ``dead`` (True) and, if it was the designated broker of
        a cluster below the root, ``stood_below`` (the designated broker above it). Its former tree links have the
        kind ``"former"``.
    """
    found = graph.copy()
    lost = [position for position in positions if position.broker not in graph]
    for position in lost:
        found.add_node(
            position.broker, label=position.label, role=position.role, cluster=position.cluster, dead=True
        )
    for position in lost:
        if position.role == "NEB" or position.view is not None:
            continue
        found.nodes[position.broker]["stood_below"] = position.parent
        for other in (*position.children, *(() if position.parent is None else (position.parent,))):
            if other in found:
                found.add_edge(position.broker, other, kind="former")
    return found
