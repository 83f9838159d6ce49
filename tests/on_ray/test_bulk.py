"""Payloads of a few megabytes along the tree of LBDD, on real actors."""

import hashlib
import os
import signal

import numpy as np
import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.crash import crash
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.lbdd_plan import plan

MEGABYTES = np.random.default_rng(5).integers(0, 256, 3 * 2**20 + 17, np.uint8).tobytes()


@pytest.fixture(scope="module")
def mesh(ray_started):
    with rv.Network.launch(rv.ClusterTree(6, 1), scheme="lbdd", brokers_per_actor=2) as network:
        yield network


def test_a_payload_reaches_every_subscriber_whole_and_in_n_copies(mesh):
    subscribers = mesh.subscribers([f"s{number}" for number in range(7)])
    for subscriber in subscribers[:6]:
        subscriber.subscribe("topic = 'maps'")
    subscribers[6].subscribe("topic = 'other'")
    publisher = mesh.publisher("atlas")
    done = publisher.distribute(MEGABYTES, topic="maps")
    assert done.slices == 49 and done.nbytes == len(MEGABYTES) and done.rounds == 1
    assert done.md5 == hashlib.md5(MEGABYTES).hexdigest()
    homes = {subscriber.broker for subscriber in subscribers[:6]}
    assert set(done.brokers) == homes - {publisher.broker} and not done.gone
    children = plan(publisher.broker, homes).children
    assert done.sent == {broker: len(to) * len(MEGABYTES) for broker, to in children.items() if to}
    mesh.settle()
    for subscriber in subscribers[:6]:
        (note,) = subscriber.notifications(timeout_seconds=0)
        assert note.event["payload_bytes"] == len(MEGABYTES)
        assert subscriber.payload(note) == MEGABYTES
    assert not list(subscribers[6].notifications(timeout_seconds=0))


def test_point_to_point_sends_every_copy_from_the_publishers_broker(ray_started):
    """Reference: paper 5, section 1."""
    with rv.Network.launch(rv.ClusterTree(3, 1), scheme="point-to-point", brokers_per_actor=3) as net:
        readers = [net.subscriber(f"s{broker}", broker=broker) for broker in range(3)]
        for reader in readers:
            reader.subscribe("topic = 'maps'")
        done = net.publisher("atlas", broker=1).distribute(MEGABYTES, topic="maps")
        assert done.brokers == (0, 2) and done.sent == {1: 2 * len(MEGABYTES)}
        for reader in readers:
            assert reader.payload(next(reader.notifications(timeout_seconds=PATIENCE_SECONDS))) == MEGABYTES


def test_events_and_payloads_have_numbers_of_one_publisher(mesh):
    reader = mesh.subscriber("reader")
    reader.subscribe("topic = 'mixed'")
    publisher = mesh.publisher("writer")
    assert publisher.publish({"topic": "mixed"}) == 1
    publisher.distribute(b"", topic="mixed")
    publisher.distribute(b"abc", topic="mixed", slice_bytes=1)
    assert publisher.publish({"topic": "mixed"}) == 4
    mesh.settle()
    notes = sorted(reader.notifications(timeout_seconds=0), key=lambda note: note.sequence)
    assert [note.sequence for note in notes] == [1, 2, 3, 4]
    assert [reader.payload(note) for note in notes[1:3]] == [b"", b"abc"]
    with pytest.raises(rv.InputError, match="describes no payload"):
        reader.payload(notes[0])


def test_what_is_wrong_is_said(mesh):
    publisher = mesh.publisher("wrong")
    with pytest.raises(rv.InputError, match="a payload must be bytes"):
        publisher.distribute("text", topic="maps")
    with pytest.raises(rv.InputError, match="slice_bytes is 0"):
        publisher.distribute(b"abc", topic="maps", slice_bytes=0)
    with pytest.raises(rv.InputError, match="topic is ''"):
        publisher.distribute(b"abc", topic="")


def test_in_a_network_that_heals_a_payload_is_found_from_wherever_its_subscriber_has_moved_to(ray_started):
    """The event takes the path of all events, so it arrives once and in order.

    Reference: promises 1 to 3; paper 5, 3.4.
    """
    settings = Recovery.for_tests()
    with rv.Network.launch(rv.ClusterTree(5, 1), scheme="lbdd", recovery=settings) as net:
        readers = [net.subscriber(f"s{broker}", broker=broker) for broker in (1, 2, 3)]
        for reader in readers:
            reader.subscribe("topic = 'maps'")
        publisher = net.publisher("atlas", broker=0)
        publisher.publish({"topic": "maps", "n": 0})
        os.kill(net.inspect.pid_of(2), signal.SIGKILL)  # not yet detected, so still in the plan
        done = publisher.distribute(MEGABYTES, topic="maps")
        assert done.gone == (2,) and set(done.brokers) == {1, 3}
        publisher.publish({"topic": "maps", "n": 1})
        assert readers[0].move_to(4) == 4
        net.settle(PATIENCE_SECONDS)
        assert readers[1].broker != 2
        for reader in readers:
            notes = list(reader.notifications(timeout_seconds=0))
            assert [note.sequence for note in notes] == [1, 2, 3]
            assert reader.payload(notes[1]) == MEGABYTES


def test_brokers_that_die_are_left_out_and_all_others_get_everything(ray_started):
    """Paper 5, section 3.4: a failed node is removed from all paths."""
    with rv.Network.launch(rv.ClusterTree(5, 1), scheme="lbdd") as net:
        subscribers = [net.subscriber(f"s{broker}", broker=broker) for broker in range(5)]
        for subscriber in subscribers:
            subscriber.subscribe("topic = 'maps'")
        publisher = net.publisher("atlas", broker=0)
        inner = next(b for b in range(1, 5) if plan(0, range(1, 5)).children[b])
        crash(net, inner)
        done = publisher.distribute(MEGABYTES, topic="maps")
        assert done.gone == (inner,) and done.rounds == 2
        living = [subscriber for subscriber in subscribers if subscriber.broker != inner]
        assert set(done.brokers) == {each.broker for each in living} - {0}
        for number in range(20):
            publisher.publish({"topic": "maps", "n": number})
        for subscriber in living:
            notes = [next(subscriber.notifications(timeout_seconds=PATIENCE_SECONDS)) for _ in range(21)]
            assert subscriber.payload(notes[0]) == MEGABYTES
            assert [note.event["n"] for note in notes[1:]] == list(range(20))
