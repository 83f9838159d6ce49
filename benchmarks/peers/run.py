"""Run the load through a gateway and through its peers, one after the other, and return the figures.

Rules
-----
* Each server shares the machine only with the clients: it is started for one number of alerts, and then
  stopped.
* It is warmed up before it is measured, for a third of the time.
* Rayvous has one broker, as its peers are one server, and a gateway in a separate process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import ray

from ...actors.channels.config import LINKS_DEFAULT, Links
from ...actors.network.gateways import gateways_of
from ...actors.network.launching import joined_ray
from ...actors.network.network import Network
from ...protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal, digest_of
from ...routing.topologies.cluster_trees import ClusterTree
from .load import Load
from .servers import PEERS, Server, free_port, missing
from .swarm import PUBLISHERS, SUBSCRIPTIONS_A_SESSION, WINDOW_EVENTS, Swarm
from .wires import Stomp

WARM_SHARE: Final = 1 / 3
LATENCY_EVENTS: Final = 200
SUBSCRIPTIONS: Final = 200
"""How many subscriptions are made one after the other, after everything else."""
TOKEN: Final = "of all clients of this run"

Progress = Callable[[str, int, int], None]


@contextmanager
def gateway(alerts: int, clients: int, processes: int, links: Links) -> Iterator[Server]:
    """Run a network of one broker with a gateway, whose limits admit all these clients."""
    connections = clients + PUBLISHERS + SUBSCRIPTIONS // SUBSCRIPTIONS_A_SESSION + 1
    principal = Principal(
        (digest_of(TOKEN),), publish="TRUE", subscribe="TRUE", events_per_second=1e9,
        connections_max=connections, streams_max=alerts + SUBSCRIPTIONS,
    )  # fmt: skip
    stomp, limits = f"127.0.0.1:{free_port()}", GatewayLimits(connections_max=connections)
    config = GatewayConfig("127.0.0.1:0", stomp, stomp_processes=processes, limits=limits)
    with (
        joined_ray(),
        Network.launch(
            ClusterTree(1, 1),
            gateway=config,
            access=AccessConfig({"all": principal}),
            links=links,
            progress=False,
        ) as net,
    ):
        port = next(int(url.rpartition(":")[2]) for url in net.gateways() if url.startswith("stomp"))
        pids = [
            net.inspect.pid_of(0),
            *ray.get([each.pid.remote() for each in gateways_of(net.inspect.directory)]),
        ]
        yield Server(version("rayvous"), Stomp(TOKEN), port, tuple(map(psutil.Process, pids)))


def run(
    *,
    alerts: Sequence[int] = (100, 1_000, 10_000),
    clients: int = 200,
    seconds: float = 9.0,
    peers: Sequence[str] = tuple(PEERS),
    gateway_processes: int = 1,
    links: Links = LINKS_DEFAULT,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Measure the gateway and its peers in one run.

    Parameters
    ----------
    alerts
        Numbers of subscriptions, spread over the clients; a row for each and for each server.
    clients
        Connections that subscribe.
    seconds
        The duration of publishing.
    peers
        A subset of `PEERS`; those that are not installed are left out, and named.
    gateway_processes
        The number of processes of the gateway.
    links
        How bytes go between the gateway and the broker.
    """
    show = progress or (lambda name, done, total: None)
    absent = {peer: why for peer in peers if (why := missing(peer))}
    there = ["rayvous", *(peer for peer in peers if peer not in absent)]
    rows: list[dict[str, Any]] = []
    for count in alerts:
        load = Load(count, clients, seed)
        for name in there:
            show(f"{name}, {count:,} subscriptions", len(rows), len(alerts) * len(there))
            with tempfile.TemporaryDirectory(prefix="rayvous-bench-") as folder:
                ours = name == "rayvous"
                serve = (
                    gateway(count, load.clients, gateway_processes, links)
                    if ours
                    else PEERS[name](Path(folder))
                )
                with serve as server:
                    rows.append({"server": name, "subscriptions": count, **_measured(server, load, seconds)})
        first = rows[-len(there)]["events_per_second"]
        for row in rows[-len(there) :]:
            row["rayvous_times_this"] = first / row["events_per_second"]
    return {
        "benchmark": "peers",
        "date": date.today().isoformat(),
        "clients": clients,
        "publishers": PUBLISHERS,
        "gateway_processes": gateway_processes,
        "links": links,
        "window_events": WINDOW_EVENTS,
        "seconds": seconds,
        "left_out": absent,
        "results": rows,
    }


def _measured(server: Server, load: Load, seconds: float) -> dict[str, object]:
    with Swarm(server.wire, load, server.port) as swarm:
        swarm.run(seconds * WARM_SHARE)
        cpu = server.cpu_seconds()
        measured = swarm.run(seconds)
        cpu = server.cpu_seconds() - cpu
        memory = server.memory_bytes()
        latencies = swarm.latencies(LATENCY_EVENTS)
        lost, surplus = swarm.judge()
        subscriptions = swarm.subscription_seconds(SUBSCRIPTIONS)
        return {
            "version": server.version,
            "filtered_by": server.wire.select.value,
            "events": measured.events,
            "notifications": measured.notifications,
            "events_per_second": measured.events / measured.seconds,
            "latency_p50_seconds": float(np.percentile(latencies, 50)),
            "latency_p99_seconds": float(np.percentile(latencies, 99)),
            "memory_bytes": memory,
            "server_cpu_microseconds_per_event": cpu / measured.events * 1e6,
            "client_cpu_microseconds_per_event": measured.client_cpu_seconds / measured.events * 1e6,
            "subscribe_seconds": swarm.subscribe_seconds,
            "subscription_p10_seconds": float(np.percentile(subscriptions, 10)),
            "subscription_p50_seconds": float(np.percentile(subscriptions, 50)),
            "lost": lost,
            "unwanted": surplus,
        }
