"""A program of its own for `test_node_lost`: a Ray node is gone for good, and its broker goes on elsewhere."""

import json
import sys
import threading
from itertools import islice
from pathlib import Path

import ray
import rayvous as rv
from ray.cluster_utils import Cluster

TREE = rv.ClusterTree(3, 1, degree=1)  # a row: 0 is the root, 1 in the middle, 2 the leaf
LOST = 1
EVENTS, MORE = 60, 5
BOUND_SECONDS = 60.0
ROOM = {"num_cpus": 0, "object_store_memory": 100 << 20}


def take(subscriber, number):
    """Return publisher and number of so many notifications, or of those that came, and of what comes after them."""
    notes = list(islice(subscriber.notifications(timeout_seconds=BOUND_SECONDS), number))
    return [(note.publisher, note.sequence) for note in notes + list(subscriber.notifications(0))]


class Nodes:
    """The nodes of one cluster: the one of this process, and those that may be lost."""

    def __init__(self):
        self.cluster = Cluster(initialize_head=True, head_node_args=ROOM | {"include_dashboard": False})
        ray.init(
            address=self.cluster.address, namespace="rayvous", log_to_driver=False, logging_level="error"
        )
        self.home = ray.get_runtime_context().get_node_id()

    def add(self):
        node = self.cluster.add_node(**ROOM)
        return node, node.node_id

    def end(self):
        ray.shutdown()
        self.cluster.shutdown()


def heals(nodes, address):
    """All that is left of some events is in the store of the lost broker: their publisher and their reader are away."""
    lost, at = nodes.add()
    recovery = rv.Recovery(heartbeat_seconds=0.3)
    with rv.Network.launch(
        TREE, recovery=recovery, stable=rv.Stable(address), nodes=[nodes.home, at], progress=False
    ) as net:
        net.await_convergence(BOUND_SECONDS)
        before = net.node_of(LOST)
        alice = net.subscriber("alice", broker=LOST, durable=True)
        alice.subscribe("x >= 0")
        net.release(alice)
        publisher = net.publisher("pub", broker=LOST)
        for x in range(EVENTS):
            publisher.publish({"x": x})
        publisher.flush()
        net.release(publisher)
        nodes.cluster.remove_node(lost, allow_graceful=False)
        net.await_convergence(BOUND_SECONDS)
        net.restart_broker(LOST)
        net.await_convergence(BOUND_SECONDS)
        alice = net.subscriber("alice", durable=True)
        other = net.publisher("other", broker=2)
        for x in range(MORE):
            other.publish({"x": x})
        other.flush()
        heard = take(alice, EVENTS + MORE)
        return {"was": before == at, "moved": net.node_of(LOST) != at, "broker": alice.broker, "heard": heard}


def numbered(nodes, address):
    """The broker in the middle is lost while events go through it; Ray starts it elsewhere by itself."""
    lost, at = nodes.add()
    with rv.Network.launch(TREE, stable=rv.Stable(address), nodes=[nodes.home, at], progress=False) as net:
        before = net.node_of(LOST)
        alice = net.subscriber("alice", broker=0)
        alice.subscribe("x >= 0")
        publisher, other = net.publisher("pub", broker=LOST), net.publisher("other", broker=2)
        half, gone, published = threading.Event(), threading.Event(), []

        def load():
            while len(published) < EVENTS or not gone.is_set():
                published.append(publisher.publish({"x": len(published)}))
                if len(published) == EVENTS // 2:
                    half.set()

        feed = threading.Thread(target=load)
        feed.start()
        half.wait(BOUND_SECONDS)
        nodes.cluster.remove_node(lost, allow_graceful=False)
        gone.set()
        feed.join(BOUND_SECONDS)
        for x in range(MORE):
            other.publish({"x": x})
        heard = take(alice, len(published) + MORE)
        net.settle(BOUND_SECONDS)
        heard += take(alice, 0)
        return {
            "was": before == at,
            "moved": net.node_of(LOST) != at,
            "published": len(published),
            "heard": heard,
        }


def main():
    found, *addresses = sys.argv[1:]
    nodes = Nodes()
    try:
        results = {
            work.__name__: work(nodes, address)
            for work, address in zip((heals, numbered), addresses, strict=True)
        }
        Path(found).write_text(json.dumps(results), encoding="utf-8")
    finally:
        nodes.end()


if __name__ == "__main__":
    sys.exit(main())
