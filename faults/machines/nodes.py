"""The Ray nodes of the hosts: their ids, which of them Ray considers alive, and how dead ones are replaced."""

from __future__ import annotations

import sys

import ray

from .init import done
from .layout import Layout
from .links import AT_THE_SWITCH


def node_ids(layout: Layout) -> list[str]:
    """Return Ray's id of each host's node, by the number of the host."""
    found = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
    return [found[layout.address(host)] for host in range(layout.hosts)]


def given_up(layout: Layout) -> set[int]:
    """Return the hosts whose nodes Ray considers dead."""
    living = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    return {host for host in range(layout.hosts) if layout.address(host) not in living}


def start_given_up(layout: Layout) -> None:
    """Start a new Ray node on each host whose node was given up: Ray takes no node back, and such a node ends itself.

    Raises
    ------
    subprocess.SubprocessError
        If a node cannot be started; the message has its output.
    """
    for host in sorted(given_up(layout)):
        done((*AT_THE_SWITCH, *layout.ray_start(host, sys.executable)))
