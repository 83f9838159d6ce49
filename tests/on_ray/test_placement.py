"""Clients are placed by measured round trips, on real actors, and placed again when their broker dies.

Reference: paper 1, section 2 (a client attaches to the nearest broker); promise 2.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import psutil
import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.actors.clients import nearness
from rayvous.faults.real.link_faults import LinkFaultTable
from rayvous.protocol.messages.recovery import Recovery

NEAR, NEXT = 2, 4
"""The brokers that are quick; NEXT is less so, and neither is the highest id of its cluster."""
FAR_FACTOR, NEXT_FACTOR = 300.0, 50.0
"""With a heartbeat of a second: 300 and 50 milliseconds for each call."""


def slow_but_for_two() -> LinkFaultTable:
    return LinkFaultTable(
        factors={0: FAR_FACTOR, 1: FAR_FACTOR, 3: FAR_FACTOR, 5: FAR_FACTOR, NEXT: NEXT_FACTOR}
    )


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_clients_attach_at_the_nearest_broker_and_go_to_the_next_nearest_when_it_dies(
    ray_started: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearness, "TIE_FACTOR", 1.0)  # on a busy machine 50 milliseconds may look like 150
    with rv.Network.launch(rv.ClusterTree(3, 2, degree=1), recovery=Recovery()) as net:
        net.await_convergence(PATIENCE_SECONDS)
        net.inject(slow_but_for_two())
        alice = net.subscriber("alice", place="nearest")
        ann, bob = net.publishers(["ann", "bob"], place="nearest")
        dora = net.subscriber("dora", place="nearest", durable=True)
        member = net.subscriber("member", broker=NEAR)
        assert [client.broker for client in (alice, ann, bob, dora)] == [NEAR] * 4
        loaded = {client.broker for client in net.subscribers(["i", "j", "k", "l", "m"])}
        assert NEAR not in loaded and len(loaded) == 5, "without a word it is the fewest clients that count"
        for subscriber in (alice, dora):
            subscriber.subscribe("n >= 0")
        assert ann.publish({"n": 1}) == 1
        process = psutil.Process(net.inspect.pid_of(NEAR))
        net.kill_broker(NEAR)
        process.wait(PATIENCE_SECONDS)  # until then it takes events, and delivers them
        assert ann.publish({"n": 2}) == 2 and bob.publish({"n": 3}) == 1
        for subscriber in (alice, dora):
            got = [
                (note.publisher, note.sequence)
                for note in islice(subscriber.notifications(PATIENCE_SECONDS), 3)
            ]
            assert sorted(got) == [("ann", 1), ("ann", 2), ("bob", 1)]
        assert [client.broker for client in (alice, ann, bob, dora)] == [NEXT] * 4
        net.inject(LinkFaultTable())
        net.settle(PATIENCE_SECONDS)
        assert member.broker == NEAR + 1, "whoever said nothing stays in its cluster"
        assert not [note for subscriber in (alice, dora) for note in subscriber.notifications(0)]
        net.inspect.check()


def test_a_broker_that_does_not_answer_is_not_near(ray_started: None) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 2)) as net:
        quick, stopped = (position.broker for position in net.inspect.positions)
        with standing_still(net.inspect.pid_of(stopped)):
            clients = net.publishers(["a", "b", "c"], place="nearest")
            assert [client.broker for client in clients] == [quick] * 3
            (other,) = net.publishers(["d"], place="least-loaded")
            assert other.broker == stopped
        assert clients[0].publish({"n": 1}) == other.publish({"n": 1}) == 1


def test_a_wrong_place_is_named_before_anything_is_asked(net: rv.Network) -> None:
    for attach in (net.publisher, net.subscriber):
        with pytest.raises(rv.InputError, match="place is 'near': it must be one of nearest, least-loaded"):
            attach("somebody", place="near")  # type: ignore[arg-type]
        net.release(attach("somebody"))  # the name is still free
