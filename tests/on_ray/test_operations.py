"""A network on real actors grows, moves and shrinks under traffic: nothing is lost, doubled or disordered.

Reference: promises 1, 2, 3 and 6; docs/operations.md.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
import rayvous as rv
from rayvous.faults.reliability import judge
from rayvous.faults.trace import trace_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.recovery import Recovery
from rayvous.routing.selectors import parse_selector

BOUND_SECONDS = 40.0
SELECTORS = {"all": "x >= 0", "odd": "odd = TRUE", "few": "x BETWEEN 20 AND 60", "none": "x < 0"}


class Traffic:
    """Clients at chosen brokers, and what went in and came out."""

    def __init__(self, net: rv.Network, subscribers: dict[str, int], publishers: dict[str, int]) -> None:
        self.net = net
        self.subscribers = {name: net.subscriber(name, broker=at) for name, at in subscribers.items()}
        for name, subscriber in self.subscribers.items():
            subscriber.subscribe(SELECTORS[name])
        self.publishers = {name: net.publisher(name, broker=at) for name, at in publishers.items()}
        self.published: dict[tuple[str, int], dict[str, Any]] = {}

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Publish from every publisher while the block runs."""
        stop = Event()

        def feed(name: str) -> None:
            x = 0
            while not stop.is_set() or x < 100:
                event = {"x": x % 100, "odd": x % 2 == 1}
                self.published[name, self.publishers[name].publish(event)] = event
                x += 1
                time.sleep(0.01)

        with ThreadPoolExecutor(len(self.publishers)) as pool:
            feeds = [pool.submit(feed, name) for name in self.publishers]
            try:
                yield
            finally:
                stop.set()
            for done in feeds:
                done.result(timeout=BOUND_SECONDS)

    def verify(self) -> None:
        self.net.settle(BOUND_SECONDS)
        heard = {
            name: [(note.publisher, note.sequence) for note in subscriber.notifications(0)]
            for name, subscriber in self.subscribers.items()
        }
        wanted = {name: [parse_selector(SELECTORS[name])] for name in self.subscribers}
        verdict = judge(trace_of(self.published, wanted, heard))
        assert verdict.holds, verdict
        assert verdict.notifications_expected > 500
        self.net.check()


def designated(net: rv.Network, cluster: int) -> int:
    survey = net.survey()
    return next(b for b, one in survey.items() if one["designated"] and one["cluster"] == cluster)


def test_a_network_grows_moves_and_shrinks_while_events_flow(ray_started: None) -> None:
    recovery = Recovery.for_tests(degree=2)
    with rv.Network.launch(rv.ClusterTree(3, 2, degree=1), recovery=recovery) as net:
        net.await_convergence(BOUND_SECONDS)
        traffic = Traffic(net, {"all": 0, "odd": 3, "few": 4, "none": 5}, {"p": 2, "q": 5})
        with traffic.flowing():
            # It grows.
            new = net.add_broker(1)
            cluster, brokers = net.add_cluster(2)
            assert (new, cluster, brokers) == (6, 3, [7, 8])
            net.await_convergence(BOUND_SECONDS)
            assert traffic.subscribers["odd"].move_to(new) == new
            assert traffic.publishers["q"].move_to(7) == 7
            late = net.subscriber("late", broker=8)
            late.subscribe("x < 0")
            net.reoptimise()
            net.await_convergence(BOUND_SECONDS)

            # A normal broker leaves with a client, then a designated one, then the root's cluster.
            net.remove_broker(new, BOUND_SECONDS)
            assert traffic.subscribers["odd"].broker in (2, 3)
            net.await_convergence(BOUND_SECONDS)
            victim = designated(net, 2)
            net.remove_broker(victim, BOUND_SECONDS)
            net.await_convergence(BOUND_SECONDS)
            assert designated(net, 2) != victim
            root = next(one["cluster"] for one in net.survey().values() if one["root"])
            net.remove_cluster(root, BOUND_SECONDS)
            net.await_convergence(BOUND_SECONDS)
        survey = net.survey()
        assert root not in {one["cluster"] for one in survey.values()} and new not in survey
        assert [position.broker for position in net.positions] == sorted(survey)
        assert len(survey) == 9 - 4
        traffic.verify()


def test_what_cannot_be_operated_says_why(ray_started: None) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 1), recovery=Recovery.for_tests()) as net:
        with pytest.raises(InputError, match="no cluster 7 that lives"):
            net.add_broker(7)
        with pytest.raises(InputError, match="at least one"):
            net.add_cluster(0)
        with pytest.raises(InputError, match="no broker 9 that lives"):
            net.remove_broker(9)
        with pytest.raises(InputError, match="the last broker"):
            net.remove_broker(0)
