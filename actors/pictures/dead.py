"""Dead brokers in a picture: a network's graph with the brokers that it has lost.

Rules
-----
* Pure: it returns a new graph and leaves its argument unchanged.
* The graph has the current places of live brokers; the positions at launch have the former places of dead ones.
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
        The result of `Network.describe`: live brokers only.
    positions
        Every broker's place at the start (`Network.positions`).

    Returns
    -------
    networkx.Graph
        An added node has ``label``, ``role``, ``cluster``, ``dead`` (True) and, if it spoke for a cluster below the
        root, ``stood_below`` (the designated broker above it). Its former tree links have the kind ``"former"``.
    """
    found = graph.copy()
    lost = [position for position in positions if position.broker not in graph]
    for position in lost:
        found.add_node(
            position.broker, label=position.label, role=position.role, cluster=position.cluster, dead=True
        )
    for position in lost:
        if position.role == "NEB" or position.cube is not None:
            continue
        found.nodes[position.broker]["stood_below"] = position.parent
        for other in (*position.children, *(() if position.parent is None else (position.parent,))):
            if other in found:
                found.add_edge(position.broker, other, kind="former")
    return found
