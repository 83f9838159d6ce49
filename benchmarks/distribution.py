"""A payload to many hosts over links of limited bandwidth: LBDD and point-to-point, both compared with a plain copy.

The set-up of paper 5, section 4.1, on one machine: each host is a network namespace with a Ray node and one
broker, and each link is limited to 100 Mbit/s in both directions (:mod:`rayvous.faults.machines`). Where such
hosts cannot be created, several Ray nodes run side by side, and times are hardly meaningful: no link is the
bottleneck then, and there is no bound.

Rules
-----
* One run measures everything: the floor, then point-to-point, then LBDD, on the same Ray nodes.
* The floor is a plain socket copy of the same bytes over one link, from the publisher's host to another. A
  node that sends the payload k times over its link needs k floors, whatever the sender; so a scheme's bound
  is its largest out-degree.
* Bytes are reported twice: as counted by the brokers, and as counted by the kernel on the publisher's link.
* The publisher's process is on its broker's host, so its upload crosses no link. Subscribers get their
  notification, and read nothing: the measured time ends when every broker has the whole payload, its checksum
  verified.
* Brokers are numbered, and the numbers determine LBDD's tree. The publisher's broker is the one whose tree
  has the largest out-degree nearest to the paper's 4 of 11: chosen by the plan, before anything is measured.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..actors.channels.config import LINKS_DEFAULT, Links
from ..actors.network.launching import init_ray, joined_ray, starting_ray
from ..actors.network.network import Network
from ..faults.machines.layout import STORE_BYTES, Layout
from ..faults.machines.links import crossed, hosts_here
from ..faults.machines.nodes import node_ids
from ..protocol.errors import BrokerUnavailable, InputError
from ..protocol.ids import BrokerId
from ..routing.schemes.registry import scheme as routing_scheme
from ..routing.schemes.router import PayloadRouting
from ..routing.topologies.cluster_trees import ClusterTree

PAPER_OUT_DEGREE: Final = 4
PAPER_TARGETS: Final = 11
PAPER_SECONDS: Final = {"point-to-point": 7_810, "lbdd": 3_020}
SCHEMES: Final = ("point-to-point", "lbdd")
CHUNK_BYTES: Final = 1 << 20
COPY_SECONDS: Final = 600.0

Progress = Callable[[str, int, int], None]


def publisher_of(hosts: int) -> BrokerId:
    """Return the broker whose tree is most similar to that of paper 5, by the largest out-degree."""
    alike = (hosts - 1) * PAPER_OUT_DEGREE / PAPER_TARGETS
    return min(range(hosts), key=lambda broker: abs(out_degree("lbdd", hosts, broker) - alike))


def out_degree(scheme: str, hosts: int, publisher: BrokerId) -> int:
    """Return the number of copies that the busiest sender sends."""
    made = routing_scheme(scheme)
    router = made(made.positions(ClusterTree(hosts, 1).positions())[publisher])
    assert isinstance(router, PayloadRouting)
    others = tuple(broker for broker in range(hosts) if broker != publisher)
    return max(map(len, router.copies(publisher, others).values()))


def run(
    *,
    hosts: int = 12,
    megabytes: int = 64,
    publisher: BrokerId | None = None,
    links: Links = LINKS_DEFAULT,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Distribute one payload by each scheme and return the figures.

    Runs on the hosts that this process is among (:func:`rayvous.faults.machines.fence.run_among_hosts`),
    otherwise on Ray nodes side by side.

    Parameters
    ----------
    hosts
        The number of Ray nodes, each with one broker; one of them is the publisher's.
    megabytes
        Size of the payload, in 2^20 bytes.
    publisher
        The publisher's broker; None takes `publisher_of`.
    links
        How bytes go between processes; those of payloads go by calls of Ray in any case.

    Raises
    ------
    BrokerUnavailable
        If the payload did not reach every broker.
    """
    show = progress or (lambda name, done, total: None)
    publisher = publisher_of(hosts) if publisher is None else publisher
    if not 0 <= publisher < hosts:
        raise InputError(f"publisher {publisher}: brokers are numbered from 0 to {hosts - 1}")
    payload = np.random.default_rng(0).integers(0, 256, megabytes << 20, np.uint8)
    with _nodes(hosts, show) as (layout, nodes):
        head, *others = nodes
        nodes = [*others[:publisher], head, *others[publisher:]]  # this process runs on the head
        floor = _plain_copy(nodes[publisher - 1], payload, show)
        rows = [_distribute(scheme, nodes, publisher, payload, links, layout, show) for scheme in SCHEMES]
    for row in rows if layout is not None else ():
        row["bound_seconds"] = floor * row["out_degree_max"]
        row["times_bound"] = row["seconds"] / row["bound_seconds"]
    slow, quick = rows
    return {
        "benchmark": "distribute",
        "links": links,
        "between_hosts": "Ray nodes side by side, no links"
        if layout is None
        else "network namespaces, veth, tc tbf",
        "hosts": hosts,
        "megabits_per_second": None if layout is None else layout.megabits_per_second,
        "payload_bytes": payload.nbytes,
        "publisher": publisher,
        "floor_seconds": floor,
        "floor_megabits_per_second": payload.nbytes * 8 / 1e6 / floor,
        "lbdd_share_of_point_to_point": quick["seconds"] / slow["seconds"],
        "share_by_out_degree": quick["out_degree_max"] / slow["out_degree_max"],
        "paper_share": PAPER_SECONDS["lbdd"] / PAPER_SECONDS["point-to-point"],
        "results": rows,
    }


@contextmanager
def _nodes(hosts: int, show: Progress) -> Iterator[tuple[Layout | None, list[str]]]:
    """Yield the links, if any, and Ray's ids of that many nodes: first the head, which runs this process."""
    layout = hosts_here()
    if layout is not None:
        with joined_ray():
            yield layout, node_ids(layout)
        return
    room = {"num_cpus": 0, "object_store_memory": STORE_BYTES}
    show("Ray nodes", 0, hosts)
    with starting_ray():
        cluster = Cluster(initialize_head=True, head_node_args=room | {"include_dashboard": False})
    try:
        several = [cluster.head_node, *(cluster.add_node(wait=False, **room) for _ in range(hosts - 1))]
        cluster.wait_for_nodes()
        show("Ray nodes", hosts, hosts)
        init_ray(cluster.address)
        yield None, [node.node_id for node in several]
    finally:
        ray.shutdown()
        cluster.shutdown()


class _Receiver:
    """An actor that receives bytes from a socket and discards them."""

    def __init__(self) -> None:
        self._listening = socket.create_server((ray.util.get_node_ip_address(), 0))

    def address(self) -> tuple[str, int]:
        """Return the address on which it listens."""
        host, port = self._listening.getsockname()
        return host, port

    def take(self) -> int:
        """Receive everything from one connection, confirm it, and return the number of bytes."""
        connection, _ = self._listening.accept()
        had, room = 0, bytearray(CHUNK_BYTES)
        with connection:
            while read := connection.recv_into(room):
                had += read
            connection.sendall(b"!")
        return had


def _plain_copy(node: str, payload: npt.NDArray[np.uint8], show: Progress) -> float:
    """Return the seconds of a socket copy from here to another node, until the node confirms receipt."""
    show("plain copy", 0, 1)
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    receiver = ray.remote(_Receiver).options(num_cpus=0, scheduling_strategy=there).remote()
    address = ray.get(receiver.address.remote())
    taken = receiver.take.remote()
    with socket.create_connection(address, COPY_SECONDS) as connection:
        started = time.perf_counter()
        connection.sendall(payload.data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        seconds = time.perf_counter() - started
    if ray.get(taken) != payload.nbytes:
        raise BrokerUnavailable("the plain copy did not arrive")
    ray.kill(receiver)
    show("plain copy", 1, 1)
    return seconds


def _distribute(
    scheme: str,
    nodes: list[str],
    publisher: BrokerId,
    payload: npt.NDArray[np.uint8],
    links: Links,
    layout: Layout | None,
    show: Progress,
) -> dict[str, Any]:
    """Launch a network with one broker per node, distribute the payload, and return the measurements."""
    show(scheme, 0, 1)
    hosts = len(nodes)
    tree = ClusterTree(hosts, 1)
    with Network.launch(tree, scheme=scheme, nodes=nodes, links=links, progress=False) as net:
        for broker in range(hosts):
            net.subscriber(f"reader-{broker}", broker=broker).subscribe("topic = 'film'")
        studio = net.publisher("studio", broker=publisher)
        before = None if layout is None else crossed(layout)
        done = studio.distribute(payload, topic="film")
        after = None if layout is None else crossed(layout)
    if done.gone or len(done.brokers) != hosts - 1:
        raise BrokerUnavailable(f"{scheme}: the payload reached {len(done.brokers)} of {hosts - 1} brokers")
    show(scheme, 1, 1)
    row = {
        "scheme": scheme,
        "seconds": done.seconds,
        "megabits_per_second": payload.nbytes * 8 / 1e6 / done.seconds,
        "out_degree_max": max(done.sent.values()) // payload.nbytes,
        "copies": sum(done.sent.values()) / payload.nbytes,
        "senders": len(done.sent),
        "publisher_sent_bytes": done.sent.get(publisher, 0),
        "busiest_sent_bytes": max(done.sent.values()),
    }
    if before is None or after is None:
        return row
    sent = [then.sent - now.sent for then, now in zip(after, before, strict=True)]
    capacity = (layout.megabits_per_second or 0) * 1e6 / 8 * done.seconds if layout is not None else 0
    return row | {
        "publisher_link_bytes": sent[0],  # host 0 is the head, and the publisher's host
        "publisher_link_use": sent[0] / capacity if capacity else None,
        "busiest_link_bytes": max(sent),
        "all_links_bytes": sum(sent),
    }
