"""The program run by `test_node_lost`: a Ray node is lost for good, and its broker continues elsewhere."""

import json
import sys
import threading
import time
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

import ray
import rayvous as rv
from ray.cluster_utils import Cluster

TREE = rv.ClusterTree(3, 1, degree=1)  # a chain: 0 is the root, 1 in the middle, 2 the leaf
LOST = 1
EVENTS, MORE = 60, 5
BOUND_SECONDS = 60.0
ROOM = {"num_cpus": 0, "object_store_memory": 100 << 20}
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 6}
"""Ray gives a node up after some three seconds."""
LOOK_SECONDS = 0.1


def take(subscriber, number):
    """Return (publisher, sequence) of up to `number` notifications, and of any that are there after them."""
    notes = list(islice(subscriber.notifications(timeout_seconds=BOUND_SECONDS), number))
    return [(note.publisher, note.sequence) for note in notes + list(subscriber.notifications(0))]


class Nodes:
    """The nodes of one Ray cluster: the node of this process, and nodes that can be lost."""

    def __init__(self):
        head = ROOM | {"include_dashboard": False, "_system_config": QUICK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        ray.init(
            address=self.cluster.address, namespace="rayvous", log_to_driver=False, logging_level="error"
        )
        self.home = ray.get_runtime_context().get_node_id()

    def add(self):
        node = self.cluster.add_node(**ROOM)
        return node, node.node_id

    def lose(self, node, name):
        """Kill a node, and poll until Ray has given it up."""
        self.cluster.remove_node(node, allow_graceful=False)
        while any(each["NodeID"] == name and each["Alive"] for each in ray.nodes()):
            time.sleep(LOOK_SECONDS)

    def end(self):
        ray.shutdown()
        self.cluster.shutdown()


def heals(nodes, address):
    """The lost broker's store has the only copy of some events: their publisher and subscriber are away."""
    lost, at = nodes.add()
    recovery = rv.Recovery(heartbeat_seconds=0.3)
    with rv.Network.launch(
        TREE, recovery=recovery, stable=rv.Stable(address), nodes=[nodes.home, at], progress=False
    ) as net:
        net.await_convergence(BOUND_SECONDS)
        before = net.inspect.node_of(LOST)
        alice = net.subscriber("alice", broker=LOST, durable=True)
        alice.subscribe("x >= 0")
        net.release(alice)
        publisher = net.publisher("pub", broker=LOST)
        for x in range(EVENTS):
            publisher.publish({"x": x})
        publisher.flush()
        net.release(publisher)
        nodes.lose(lost, at)
        net.await_convergence(BOUND_SECONDS)
        net.restart_broker(LOST)
        net.await_convergence(BOUND_SECONDS)
        alice = net.subscriber("alice", durable=True)
        other = net.publisher("other", broker=2)
        for x in range(MORE):
            other.publish({"x": x})
        other.flush()
        heard = take(alice, EVENTS + MORE)
        return {
            "was": before == at,
            "moved": net.inspect.node_of(LOST) != at,
            "broker": alice.broker,
            "heard": heard,
        }


def numbered(nodes, address):
    """The middle broker is lost while events pass through it; Ray restarts it elsewhere by itself."""
    lost, at = nodes.add()
    with rv.Network.launch(TREE, stable=rv.Stable(address), nodes=[nodes.home, at], progress=False) as net:
        before = net.inspect.node_of(LOST)
        alice = net.subscriber("alice", broker=0)
        alice.subscribe("x >= 0")
        publisher, other = net.publisher("pub", broker=LOST), net.publisher("other", broker=2)
        half, gone, numbers = threading.Event(), threading.Event(), []

        def load():
            for x in count():
                with suppress(rv.BrokerUnavailable):  # the publisher keeps the event and sends it first
                    numbers.append(publisher.publish({"x": x}))
                    if gone.is_set() and x >= EVENTS:
                        return
                if x == EVENTS // 2:
                    half.set()

        feed = threading.Thread(target=load)
        feed.start()
        half.wait(BOUND_SECONDS)
        nodes.lose(lost, at)
        gone.set()
        feed.join(BOUND_SECONDS)
        for x in range(MORE):
            other.publish({"x": x})
        heard = take(alice, numbers[-1] + MORE)
        net.settle(BOUND_SECONDS)
        heard += take(alice, 0)
        return {
            "was": before == at,
            "moved": net.inspect.node_of(LOST) != at,
            "published": numbers[-1],
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
