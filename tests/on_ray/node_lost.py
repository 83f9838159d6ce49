"""A part of `nodes.py`: a Ray node is lost for good with its disk, and its broker continues elsewhere."""

import threading
from contextlib import suppress
from itertools import count, islice

import rayvous as rv
from patience import PATIENCE_SECONDS

TREE = rv.ClusterTree(3, 1, degree=1)  # a chain: 0 is the root, 1 in the middle, 2 the leaf
LOST = 1
EVENTS, MORE = 60, 5
BOUND_SECONDS = PATIENCE_SECONDS


def take(subscriber, number):
    """Return (publisher, sequence) of up to `number` notifications, and of any that are there after them."""
    notes = list(islice(subscriber.notifications(timeout_seconds=BOUND_SECONDS), number))
    return [(note.publisher, note.sequence) for note in notes + list(subscriber.notifications(0))]


def heals(nodes, address):
    """The lost broker's store has the only copy of some events: their publisher and subscriber are away."""
    lost = nodes.add()
    at = lost.node_id
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
        nodes.lose(lost)
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
    lost = nodes.add()
    at = lost.node_id
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
        nodes.lose(lost)
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
