"""The program run by `test_leaving_ray`: a driver that forks, leaves Ray before it closes, and ends a network."""

import json
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path

import ray
import rayvous as rv
from rayvous.protocol.messages.recovery import Recovery


def refused(call):
    """Return the error of a call, by name and text."""
    try:
        call()
    except rv.RayvousError as error:
        return f"{type(error).__name__}: {error}"
    return "it was not refused"


def in_fork(net, publisher, subscriber, queue):
    calls = {
        "publish": lambda: publisher.publish({"x": 1}),
        "notifications": lambda: next(subscriber.notifications(20)),
        "attach": lambda: rv.Network.attach(net.name),
        "subscriber": lambda: net.subscriber("another"),
    }
    queue.put({name: refused(call) for name, call in calls.items()})


def close_slowly(point, seconds):
    """Let the rendezvous point take so long to end; what brokers tell it meanwhile is in flight when it exits."""
    close = point._store.close
    point._store.close = lambda: (time.sleep(seconds), close())


def main(out):
    recovery = Recovery.for_tests()
    net = rv.Network.launch(rv.ClusterTree(1, 1), recovery=recovery)
    subscriber, publisher = net.subscriber("s"), net.publisher("p")
    subscriber.subscribe("x > 0")
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=in_fork, args=(net, publisher, subscriber, queue))
    child.start()
    found = {"forked": queue.get()}
    child.join()
    slow = partial(close_slowly, seconds=10 * recovery.heartbeat_seconds)
    ray.get(net.inspect.rendezvous.__ray_call__.remote(slow))
    net.shutdown()
    with rv.Network.launch(rv.ClusterTree(1, 1)) as left:
        left.publisher("p").publish({"x": 1})
        left.subscriber("s").subscribe("x > 0")
        ray.shutdown()
    found["joined again"] = ray.is_initialized()
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
