"""The highest event rate is measured on a core that is really busy, at the default limit.

Reference: paper 3, 4.1: sampled every interval I, at the CPU's limit, from 0 on; then the measurement counts.
"""

import itertools
import math
import threading
import time

import pytest
import rayvous as rv
from rayvous.faults.real.burden import Burden

LIMIT = rv.AdmissionConfig().utilisation_max

BUSY_SECONDS_MAX = 60.0
"""How long it is waited for a sample in which the broker had 0.8 of a core."""

BATCH, SECONDS_AN_EVENT = 256, 0.0005


@pytest.fixture
def net(ray_started):
    config = rv.AdmissionConfig(measure=True, sample_seconds=0.5)
    with rv.Network.launch(rv.ClusterTree(2, 1), admission=config) as network:
        yield network


def saturate(net, broker):
    """Publish at one broker from several threads without a pause until its capacity is known, and return it.

    The broker is always busy, as there is always another call. If the machine gives it less CPU than the
    limit, nothing can be measured, and the test is skipped.
    """
    stop = threading.Event()
    publishers = [net.publisher(f"busy{number}", broker=broker) for number in range(3)]
    columns = {"n": [0] * BATCH}

    def publish(publisher):
        while not stop.is_set():
            publisher.publish_batch(columns)

    for publisher in publishers:
        publisher.advertise("n = 0", max_rate=1e9)
    net.inject(Burden({broker: SECONDS_AN_EVENT}))
    threads = [threading.Thread(target=publish, args=(publisher,)) for publisher in publishers]
    started, used = time.monotonic(), net.inspect.cpu_seconds()
    for thread in threads:
        thread.start()
    try:
        for _ in itertools.count():  # each call waits its turn at the busy actor
            capacity, seconds = net.inspect.admission()[broker]["cpu"][1], time.monotonic() - started
            if capacity < math.inf:
                return capacity
            if seconds > BUSY_SECONDS_MAX:
                share = (net.inspect.cpu_seconds() - used) / seconds
                if share < LIMIT:
                    pytest.skip(f"this machine is so busy that the broker had {share:.2f} of a core")
                return capacity
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for publisher in publishers:
            net.release(publisher)


def test_a_busy_core_says_what_a_broker_can_take_in_and_what_is_more_is_refused(net):
    assert net.inspect.admission()[0]["cpu"][1] == math.inf, "nothing is known before"
    capacity = saturate(net, 0)
    net.settle()
    most = 1 / SECONDS_AN_EVENT
    assert LIMIT * most / 2 < capacity <= most, "a core that works on nothing else takes in that many"

    net.publisher("modest", broker=1).advertise("k = 1", max_rate=capacity / 2)
    net.publisher("flood", broker=1).advertise("k = 2", max_rate=capacity * 50)
    alice = net.subscriber("alice", broker=0)
    alice.subscribe("k = 1")
    with pytest.raises(rv.SubscriptionRejected) as caught:
        alice.subscribe("k = 2")
    assert {(refusal.broker, refusal.resource) for refusal in caught.value.refusals} >= {(0, "cpu")}
