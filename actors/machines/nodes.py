"""The Ray nodes of the hosts: their ids, and which of them Ray takes to be alive."""

from __future__ import annotations

import ray

from .layout import Layout


def node_ids(layout: Layout) -> list[str]:
    """Return Ray's id of each host's node, by the number of the host."""
    found = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
    return [found[layout.address(host)] for host in range(layout.hosts)]


def given_up(layout: Layout) -> set[int]:
    """Return the hosts whose nodes Ray takes to be dead."""
    living = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    return {host for host in range(layout.hosts) if layout.address(host) not in living}
