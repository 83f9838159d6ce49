"""Hybrid routing (paper 1), and its options: a tree of multicast clusters, as `clusters` has it.

``+quench`` is `quenching`, ``+merge`` announces merged filters (`interest.merging`), ``+all`` announces all of them
(`interest.forwarding`), and with ``+fanout`` the members of a cluster pass a message on to each other, which a layer
outside of the router does (`broker.fanout`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .claims import Claims
from .clusters import ClusterRouter
from .quenching import QuenchedHybrid, QuenchedMergedHybrid
from .router import Router


class MergedHybrid(ClusterRouter):
    """Hybrid routing with perfect merging on the way to the root."""

    merges = True


class ForwardingHybrid(ClusterRouter):
    """Hybrid routing under which every subscription goes up to the root, as in figure 2 of the paper."""

    forwards_all = True


class FannedHybrid(ClusterRouter):
    """Hybrid routing for networks without multicast."""

    claims = Claims(rings=True, fans_out=True)


class Hybrid(ClusterRouter):
    """A broker of a tree of multicast clusters."""

    options: ClassVar[Mapping[str, type[Router]]] = {
        "fanout": FannedHybrid,
        "quench": QuenchedHybrid,
        "merge": MergedHybrid,
        "quench+merge": QuenchedMergedHybrid,
        "all": ForwardingHybrid,
    }
