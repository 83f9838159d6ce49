"""The gateways of a network: an actor on each Ray node, or several, that clients outside Ray talk to.

Rule: they are started when the network is, on the nodes that there are then, and end with it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..host.errors import broker_errors
from .directory import NAMESPACE, Directory
from .launching import actor


def start_gateways(directory: Directory) -> list[Any]:
    """Start gateways on each node, and return the actors once all of them serve, or leave none behind.

    Raises
    ------
    InputError
        If one cannot serve: its port is taken, say.
    MissingExtra
        If a node has not what it needs.
    """
    from ...gateway.on_nodes import GatewayActor

    nodes = directory.nodes or sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
    assert directory.gateway is not None
    processes, started = directory.gateway.stomp_processes, list[Any]()
    try:
        for number, (node, process) in enumerate(product(dict.fromkeys(nodes), range(processes))):
            here = NodeAffinitySchedulingStrategy(node, soft=False)
            title = f"{_prefix(directory.name)}{number}"
            options = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
            made = actor(GatewayActor, title, directory.detached, **options)
            started.append(made.remote(directory.name, http=process == 0))
        with broker_errors("starting gateways", "a gateway"):
            ray.get([each.urls.remote() for each in started], timeout=directory.limits.call_seconds)
    except BaseException:
        for each in started:
            ray.kill(each)
        raise
    return started


def gateways_of(directory: Directory) -> list[Any]:
    """Return the gateways of a network that runs."""
    if directory.gateway is None:
        return []
    prefix = _prefix(directory.name)
    found = ray.util.list_named_actors(all_namespaces=True)
    names = sorted(each["name"] for each in found if each["namespace"] == NAMESPACE)
    return [ray.get_actor(name, namespace=NAMESPACE) for name in names if name.startswith(prefix)]


def _prefix(network: str) -> str:
    return f"{network}:gateway:"
