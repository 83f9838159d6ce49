"""Ray nodes for benchmarks of networks: several nodes on one machine, or a running cluster; and resource use of hosts.

Rule: only what is started here is stopped here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import RayActorError

from ..actors.host.handle import HostHandle, Question
from ..actors.network.launching import init_ray, starting_ray
from ..actors.network.network import Network
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId

STORE_BYTES: Final = 150 << 20
ASK_SECONDS: Final = 120.0


class Nodes:
    """The nodes of a Ray cluster: those started for a run, or those of a running cluster."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._cluster = cluster
        self._started: dict[str, object] = {}

    @property
    def own(self) -> bool:
        """Whether they were started for the run."""
        return self._cluster is not None

    def add(self, count: int) -> None:
        """Start nodes beside the head."""
        assert self._cluster is not None
        share = max(1, (os.cpu_count() or 1))
        started = [
            self._cluster.add_node(wait=False, num_cpus=share, object_store_memory=STORE_BYTES)
            for _ in range(count)
        ]
        self._cluster.wait_for_nodes()
        self._started |= {node.node_id: node for node in started}

    def living(self) -> list[str]:
        """Return the nodes that Ray reports as alive."""
        return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])

    def remove(self, node: str) -> None:
        """Kill the processes of a node that was started for the run."""
        assert self._cluster is not None
        self._cluster.remove_node(self._started.pop(node), allow_graceful=False)


@contextmanager
def ray_nodes(nodes: int, address: str | None = None) -> Iterator[Nodes]:
    """Run the block on that many Ray nodes of this machine, the head included; or on the cluster at an address.

    Raises
    ------
    InputError
        If this process has joined a Ray cluster already.
    RayUnavailable
        If there is no response at the address.
    """
    if ray.is_initialized():
        raise InputError("this process is on a Ray cluster already: run this in one of its own")
    if address is not None:
        init_ray(address)
        try:
            yield Nodes(None)
        finally:
            ray.shutdown()
        return
    head = {"num_cpus": os.cpu_count() or 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    with starting_ray():
        cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        init_ray(cluster.address)
        here = Nodes(cluster)
        here.add(nodes - 1)
        yield here
    finally:
        ray.shutdown()
        cluster.shutdown()


def ask(net: Network, question: Question) -> list[Any]:
    """Return the answers of all living hosts of a network."""
    return list(ask_each(net, question).values())


def ask_each(net: Network, question: Question) -> dict[str, Any]:
    """Return the answers of all living hosts of a network, by their process."""
    asked = [(HostHandle(host).pid(), HostHandle(host).ask(question)) for host in net.inspect.hosts()]
    found = {}
    for pair in asked:
        with suppress(RayActorError):  # the host has died meanwhile
            (node, pid), answer = ray.get(list(pair), timeout=ASK_SECONDS)
            found[f"{node[:8]}:{pid}"] = answer
    return found


def brokers_by_node(net: Network) -> dict[str, list[BrokerId]]:
    """Return the brokers of each node."""
    at = {host: ray.get(HostHandle(host).pid(), timeout=ASK_SECONDS)[0] for host in net.inspect.hosts()}
    found: dict[str, list[BrokerId]] = {}
    for broker, host in net.inspect.directory.hosts.items():
        found.setdefault(at[host], []).append(broker)
    return found
