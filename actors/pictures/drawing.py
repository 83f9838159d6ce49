"""A network drawn in its current state: roles, dead brokers, and the events over each link so far.

Rule: the data comes from the network's own telemetry; no Spark is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from ...protocol.configs import Position
from .dead import with_dead
from .picture import Picture
from .tree import tree_figure

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa

K = TypeVar("K")

OVER_LINKS: Final = ("up", "down")
"""Kinds of transfers that go over a link between two brokers; ``multicast`` goes to a cluster."""


def draw(graph: nx.Graph, positions: Iterable[Position], transfers: pa.Table) -> Picture:
    """Draw a network.

    Parameters
    ----------
    graph
        The live brokers (`Inspection.describe`).
    positions
        Every broker's place at the start; a broker that is not in the graph is drawn as dead.
    transfers
        The telemetry table of that name.
    """
    links, groups = events_over(transfers)
    name = graph.name or "Network"
    drawn: Picture = tree_figure(with_dead(graph, positions), links, groups, f"{name}: events over each link")
    return drawn


def events_over(transfers: pa.Table) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """Return the events over each link, ``{(low, high): both ways}``, and over each group, ``{cluster: multicast}``."""
    kind = transfers["link_kind"].to_numpy()
    broker, peer, cluster, events = (
        transfers[name].to_numpy() for name in ("broker", "peer", "cluster", "events")
    )
    over, to_group = np.isin(kind, OVER_LINKS) & (peer >= 0), kind == "multicast"
    links = _sums(zip(*np.sort((broker[over], peer[over]), axis=0).tolist(), strict=True), events[over])
    return links, _sums(cluster[to_group].tolist(), events[to_group])


def _sums(keys: Iterable[K], events: Any) -> dict[K, int]:
    """Return the sum of the events of each key."""
    sums: Counter[K] = Counter()
    for key, many in zip(keys, events.tolist(), strict=True):
        sums[key] += many
    return dict(sums)
