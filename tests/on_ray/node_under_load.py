"""The program run by `test_node_under_load`: one of three nodes dies while its brokers carry events."""

import json
import sys
import threading
import time
from itertools import count
from pathlib import Path

import ray
import rayvous as rv
from ray.cluster_utils import Cluster

NODES, CLUSTERS, MEMBERS = 3, 3, 4
ROOT = 3
"""The root broker: designated in cluster 0, and on the first node."""
EVENTS, PACE_SECONDS = 100, 0.02
BOUND_SECONDS = 60.0
ROOM = {"object_store_memory": 100 << 20}
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 6}
NAME = "under-load"


def nodes_of(net):
    """Return the node of each live broker."""
    return {broker: net.inspect.node_of(broker) for broker in net.inspect.survey()}


def run(cluster, lost):
    """Launch a detached network, and remove the node with the rendezvous point under load."""
    tree = rv.ClusterTree(CLUSTERS, MEMBERS, degree=2)
    with rv.Network.launch(
        tree,
        name=NAME,
        recovery=rv.Recovery.for_tests(),
        brokers_per_actor=MEMBERS,
        detached=True,
        progress=False,
    ) as net:
        net.await_convergence(BOUND_SECONDS)
        stood = nodes_of(net)
        victims = sorted(broker for broker, node in stood.items() if node == lost.node_id)
        readers = {at: net.subscriber(f"reader-{at}", broker=at) for at in (victims[0], ROOT, 8)}
        for reader in readers.values():
            reader.subscribe("x >= 0")
        publishers = {f"pub-{at}": net.publisher(f"pub-{at}", broker=at) for at in (victims[-1], 1)}
        going, gone = threading.Barrier(len(publishers) + 1), threading.Event()
        published = {}

        def feed(name):
            for x in count():
                if x == EVENTS // 5:
                    going.wait(BOUND_SECONDS)
                if x >= EVENTS and gone.is_set():
                    break
                published[name] = publishers[name].publish({"x": x})
                time.sleep(PACE_SECONDS)

        feeds = [threading.Thread(target=feed, args=(name,)) for name in publishers]
        for each in feeds:
            each.start()
        going.wait(BOUND_SECONDS)
        cluster.remove_node(lost, allow_graceful=False)
        began = time.monotonic()
        while not set(victims).isdisjoint(net.inspect.survey()) and time.monotonic() - began < BOUND_SECONDS:
            time.sleep(PACE_SECONDS)  # until the brokers are dead
        net.await_convergence(BOUND_SECONDS)
        healed = time.monotonic() - began
        gone.set()
        for each in feeds:
            each.join(BOUND_SECONDS)
        net.settle(BOUND_SECONDS)
        with rv.Network.attach(NAME) as other:
            left = {broker: one["cluster"] for broker, one in other.inspect.survey().items()}
        heard = {
            at: [(note.publisher, note.sequence) for note in reader.notifications(0)]
            for at, reader in readers.items()
        }
        net.inspect.check()
    return {
        "victims": victims,
        "left": left,
        "healed_seconds": healed,
        "published": published,
        "heard": heard,
        "clusters": {place.broker: place.cluster for place in tree.positions()},
    }


def main():
    cluster = Cluster(
        initialize_head=True,
        head_node_args=ROOM | {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK},
    )
    try:
        workers = [cluster.add_node(wait=False, num_cpus=1, **ROOM) for _ in range(NODES)]
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, namespace="rayvous", log_to_driver=False, logging_level="error")
        first = min(workers, key=lambda node: node.node_id)  # the node of the rendezvous point
        Path(sys.argv[1]).write_text(json.dumps(run(cluster, first)), encoding="utf-8")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
