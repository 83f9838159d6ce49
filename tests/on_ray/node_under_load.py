"""A part of `nodes.py`: one of three nodes dies while its brokers carry events."""

import threading
import time
from itertools import count

import rayvous as rv
from patience import PATIENCE_SECONDS

NODES, CLUSTERS, MEMBERS = 3, 3, 4
ROOT = 3
"""The root broker: designated in cluster 0, and on the first node."""
EVENTS, PACE_SECONDS = 100, 0.02
BOUND_SECONDS = PATIENCE_SECONDS
NAME = "under-load"


def nodes_of(net):
    """Return the node of each live broker."""
    return {broker: net.inspect.node_of(broker) for broker in net.inspect.survey()}


def run(nodes):
    """Launch a detached network, and remove the node with the rendezvous point under load."""
    lost = min(nodes.add_all([{"num_cpus": 1}] * NODES), key=lambda node: node.node_id)
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
        nodes.cluster.remove_node(lost, allow_graceful=False)
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
        net.shutdown()
    return {
        "victims": victims,
        "left": left,
        "healed_seconds": healed,
        "published": published,
        "heard": heard,
        "clusters": {place.broker: place.cluster for place in tree.positions()},
    }
