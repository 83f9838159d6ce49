"""A hypercube on real actors: a broker crashes, another leaves, and nothing is lost, duplicated or reordered.

Reference: promises 1, 2, 3 and 6; paper 2, sections 2.3 and 2.4.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.traces.trace import trace_of

SELECTORS = {"all": "x >= 0", "odd": "odd = TRUE", "few": "x BETWEEN 20 AND 60", "moves": "x < 70"}
HOMES = {"all": 0, "odd": 1, "few": 2, "moves": 3}


def test_a_broker_dies_and_another_leaves_under_traffic(ray_started: None) -> None:
    """The leaving broker asks its subscribers to move; those of the dead broker move by themselves."""
    published: dict[tuple[str, int], dict[str, object]] = {}
    with rv.Network.launch(
        rv.ClusterTree(5, 1), scheme="hypercube", recovery=Recovery.for_tests(), brokers_per_actor=1
    ) as net:
        subscribers = {name: net.subscriber(name, broker=home) for name, home in HOMES.items()}
        for name, subscriber in subscribers.items():
            subscriber.subscribe(SELECTORS[name])
        publishers = [net.publisher("p", broker=1), net.publisher("q", broker=4)]
        stop = Event()

        def feed(publisher: rv.Publisher) -> None:
            x = 0
            while not stop.is_set() or x < 100:
                event = {"x": x % 100, "odd": x % 2 == 1}
                published[publisher.name, publisher.publish(event)] = event
                x += 1
                time.sleep(0.005)

        with ThreadPoolExecutor(2) as pool:
            feeds = [pool.submit(feed, publisher) for publisher in publishers]
            try:
                net.kill_broker(1)
                net.await_convergence(PATIENCE_SECONDS)
                net.remove_broker(3, PATIENCE_SECONDS)
                net.await_convergence(PATIENCE_SECONDS)
            finally:
                stop.set()
            for done in feeds:
                done.result(timeout=PATIENCE_SECONDS)
        net.settle(PATIENCE_SECONDS)
        heard = {
            name: [(note.publisher, note.sequence) for note in subscriber.notifications(0)]
            for name, subscriber in subscribers.items()
        }
        assert subscribers["moves"].broker != 3 and subscribers["odd"].broker != 1
        assert set(net.inspect.survey()) == {0, 2, 4}
        net.inspect.check()
    verdict = judge(trace_of(published, {name: [text] for name, text in SELECTORS.items()}, heard))
    assert verdict.holds, verdict
    assert verdict.notifications_expected > 100
