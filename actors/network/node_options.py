"""The Ray nodes at present, and the options with which Ray places actors on them, also when it restarts them.

Rule: an actor prefers a node, and must have its place. So it starts where `placing` says, and when that node has died,
on another one that has the place; of these one without GPUs, as long as there is one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import ray
from ray._private.state import available_resources_per_node
from ray.util.client import ray as client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.node_places import NodePlace
from .directory import Directory
from .placing import NODE_ID, Node, check_place, spared_nodes, steady_node, working_nodes
from .settings import Settings

Options: TypeAlias = dict[str, Any]
"""Of an actor, as Ray takes them."""

ROOM_SECONDS: Final = 10.0
"""How long a launch waits for what other actors have, which may be about to end."""
LOOK_SECONDS: Final = 0.2


class Ground(NamedTuple):
    """Where a network is launched.

    Attributes
    ----------
    nodes
        The nodes of its brokers; if empty, Ray decides.
    spared
        Nodes that nothing is placed on as long as there is another one.
    steady
        The options of what there is one of: the rendezvous point and the collector.
    """

    nodes: tuple[str, ...]
    spared: tuple[str, ...]
    steady: Options


def ground_of(settings: Settings, now: Sequence[Node]) -> Ground:
    """Return where a network is launched, on the nodes `now` as `ray.nodes` returns them."""
    nodes = settings.nodes or working_nodes(now, settings.place)
    spared = () if settings.nodes else spared_nodes(now, settings.place)
    steady = steady_node(nodes, ray.get_runtime_context().get_node_id(), outlives=settings.detached)
    return Ground(nodes, spared, near(steady, settings.place, spared))


def near(
    nodes: Sequence[str], place: NodePlace | None = None, spared: Sequence[str] = (), *, takes: bool = False
) -> Options:
    """Return the options that place an actor.

    The actor requests one byte of memory, because Ray places an actor that requests nothing on any node, whatever
    its preference.

    Parameters
    ----------
    nodes
        It is placed on the first of these while that is alive; if empty, Ray decides.
    place
        What its node must have.
    spared
        Nodes that it is not placed on as long as there is another one.
    takes
        Whether it takes what its place says of resources and CPUs.
    """
    options: Options = {"memory": 1} if nodes else {}
    labels = {} if place is None else dict(place.labels)
    if nodes:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
            nodes[0], soft=True, _spill_on_unavailable=takes
        )
    if spared and NODE_ID not in labels:
        options["fallback_strategy"] = [{"label_selector": dict(labels) or {NODE_ID: "!none"}}]
        labels[NODE_ID] = f"!in({', '.join(spared)})"
    if labels:
        options["label_selector"] = labels
    return options | (taken(place) if takes else {})


def taken(place: NodePlace | None) -> Options:
    """Return the options with which an actor takes what its place says of resources and CPUs."""
    return {} if place is None else {"resources": dict(place.resources), "num_cpus": place.num_cpus}


def near_broker(
    directory: Directory, broker: BrokerId, members: Sequence[BrokerId] = (), dead: Sequence[str] = ()
) -> Options:
    """Return the options of an actor that hosts a broker, and others of its node.

    Parameters
    ----------
    directory, broker, members
        The network, the broker, and the members of its cluster if the directory does not have them yet.
    dead
        Nodes that are not alive.
    """
    nodes = directory.node_of(broker, members, dead)
    return near(nodes, directory.place, directory.spared, takes=directory.place is not None)


def near_network(directory: Directory, name: str, own: NodePlace | None = None) -> Options:
    """Return the options of an actor that serves a network: at its own place, or on one of the network's nodes.

    Actors of different names take different nodes.

    Raises
    ------
    InputError
        If no node has its own place.
    """
    if own is None:
        nodes, start = directory.nodes, crc32(name.encode()) % max(1, len(directory.nodes))
        return near(nodes[start:], directory.place, directory.spared)
    now = ray.nodes()
    check_place("place", own, now)
    return near((), own, spared_nodes(now, own), takes=True)


def dead_nodes(directory: Directory) -> list[str]:
    """Return the nodes of a network that are not alive any more."""
    alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    return [node for node in directory.nodes if node not in alive]


def await_room(name: str, place: NodePlace, actors: int) -> None:
    """Return when there is room for so many actors that are about to be started.

    Raises
    ------
    InputError
        If no node has the place, or there is too little room after `ROOM_SECONDS`.
    """
    check_place(name, place, ray.nodes(), actors)
    until = time.monotonic() + ROOM_SECONDS
    while place.takes:
        free = _free()
        nodes = [node | {"Resources": free.get(node["NodeID"], {})} for node in ray.nodes()]
        try:
            check_place(f"{name}, now", place, nodes, actors)
            return
        except InputError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK_SECONDS)


def _free() -> dict[str, dict[str, float]]:
    """Return what each node has that no actor has taken; a client of Ray outside the cluster asks a task in it."""
    if not client.is_connected():
        return available_resources_per_node()  # type: ignore[no-any-return]
    task: Any = ray.remote(num_cpus=0)(available_resources_per_node)
    return ray.get(task.remote())  # type: ignore[no-any-return]
