"""Calls fail between live brokers: what they carried is retransmitted, once, in order (promises 1 to 3)."""

import time

import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.link_faults import LinkFaultTable
from rayvous.protocol.messages.recovery import Recovery

PATIENT = Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0)
"""Nobody is taken for dead: only the failed call says that something is wrong."""


def state(net: rv.Network, broker: int) -> tuple[int, int]:
    """Return what changes at a broker after a failed call: its number of lost events, or its epoch."""
    return net.inspect.describe().nodes[broker]["lost_events"], net.inspect.survey()[broker]["view"].epoch


def test_what_a_living_neighbour_and_a_living_member_have_missed_comes_again(ray_started: None) -> None:
    with rv.Network.launch(rv.ClusterTree(2, 2), recovery=PATIENT) as net:
        net.await_convergence(PATIENCE_SECONDS)
        below = next(place for place in net.inspect.positions if place.role == "DEB")
        member = next(other for other in below.members if other != below.broker)
        top = next(place for place in net.inspect.positions if place.broker == below.parent)
        home = next(other for other in top.members if other != top.broker)
        subscribers = [
            net.subscriber(f"s{place.broker}", broker=place.broker) for place in net.inspect.positions
        ]
        for subscriber in subscribers:
            subscriber.subscribe("x >= 0")
        publisher = net.publisher("p", broker=home)
        heard: dict[str, list[int]] = {subscriber.name: [] for subscriber in subscribers}
        ways = [(top.broker, below.broker), (below.broker, member), (home, top.broker)]
        for turn, (source, to) in enumerate(ways, 1):
            publisher.publish({"x": 2 * turn - 1})
            net.settle(PATIENCE_SECONDS)
            before = state(net, source)
            net.inject(LinkFaultTable(failing=frozenset({(source, to)})))
            publisher.publish({"x": 2 * turn})
            deadline = time.monotonic() + PATIENCE_SECONDS
            while state(net, source) == before:
                assert time.monotonic() < deadline, "the call has not failed"
            net.inject(LinkFaultTable())
            net.settle(PATIENCE_SECONDS)
        for subscriber in subscribers:
            heard[subscriber.name] += [note.event["x"] for note in subscriber.notifications(0)]
        assert heard == {subscriber.name: [1, 2, 3, 4, 5, 6] for subscriber in subscribers}
        assert len(net.inspect.survey()) == 4 and not net.inspect.problems()
