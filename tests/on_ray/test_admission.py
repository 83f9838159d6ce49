"""Admission control on real actors: what is admitted, how publishers are limited, what the books record."""

import time

import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.burden import Burden
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.pubsub import Events
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

CAPACITY = rv.Capacity(events_per_second=200, link_events_per_second=60)


@pytest.fixture(scope="module")
def net(ray_started):
    topology = rv.ClusterTree(2, 2)
    config = rv.AdmissionConfig(capacity=CAPACITY, default_rate=7.0)
    with rv.Network.launch(topology, brokers_per_actor=2, admission=config) as network:
        yield network
        network.settle()
        network.inspect.check()


def test_who_fits_is_admitted_and_who_does_not_is_told_why(net):
    publisher = net.publisher("p", broker=0)
    number = publisher.advertise("k = 1", max_rate=50)
    alice, bob = net.subscriber("alice", broker=3), net.subscriber("bob", broker=2)
    wanted = alice.subscribe("k = 1 AND x > 5")
    publisher.publish_batch([{"k": 1, "x": 9}, {"k": 1, "x": 1}])
    assert next(alice.notifications(timeout_seconds=PATIENCE_SECONDS)).event == {"k": 1, "x": 9}

    other = net.publisher("q", broker=1)
    second = other.advertise("k = 2", max_rate=55)
    judged = net.would_admit("k = 2 AND x > 3", broker=3)
    assert not judged.admitted and judged.asked > 1
    with pytest.raises(rv.SubscriptionRejected, match="bandwidth: asked 55 events/s, free 10") as caught:
        alice.subscribe("k = 2 AND x > 3")
    refusal = caught.value.refusals[0]
    assert (refusal.resource, refusal.asked, refusal.free) == ("bandwidth", 55.0, 10.0)
    assert {refusal.broker for refusal in caught.value.refusals} <= set(range(4))

    books = net.inspect.admission()
    assert books[3]["cpu"] == (50.0, 200.0) and books[3]["advertisements"] == 2
    with pytest.raises(rv.SubscriptionRejected):
        bob.subscribe_all(["k = 1 AND x > 8", "k = 2 AND x > 3"])  # all of them, or none
    assert not bob.subscriptions
    alice.unsubscribe(wanted)
    net.settle()
    assert net.would_admit("k = 2 AND x > 3", broker=3).admitted
    publisher.unadvertise(number)
    other.unadvertise(second)
    net.settle()
    assert all(entry["cpu"][0] == 0 and entry["filters"] == 0 for entry in net.inspect.admission().values())
    for client in (publisher, other, alice, bob):
        net.release(client)


def test_a_publisher_is_held_to_what_it_advertised(net, fresh):
    publisher = net.publisher(fresh)
    with pytest.raises(rv.NotAdvertised, match="advertised is: nothing"):
        publisher.publish({"x": 1})
    number = publisher.advertise("x > 0", max_rate=10, excess="raise")
    with pytest.raises(rv.NotAdvertised, match="event 1 of 2"):
        publisher.publish_batch([{"x": 1}, {"x": 0}])
    with pytest.raises(rv.RateExceeded, match="10 may pass now"):
        publisher.publish_batch([{"x": 1}] * 11)
    assert publisher.published == 0
    publisher.unadvertise(number)

    publisher.advertise("x > 0", max_rate=10, excess="drop")
    publisher.publish_batch([{"x": 1}] * 25)
    assert publisher.published + publisher.dropped == 25 and publisher.published < 15

    slow = net.publisher(fresh + "-slow")
    slow.advertise("x > 0", max_rate=20)
    started = time.monotonic()
    slow.publish_batch([{"x": 1}] * 30)
    assert slow.published == 30 and time.monotonic() - started > 0.4
    for client in (publisher, slow):
        net.release(client)


def test_a_client_that_ignores_what_it_advertised_is_slowed_by_its_broker(net, fresh):
    """It calls the actor of its broker directly and concurrently; Ray may deliver the calls in any order."""
    publisher, subscriber = net.publisher(fresh, broker=1), net.subscriber(fresh, broker=2)
    publisher.advertise("k = 7", max_rate=20)
    subscriber.subscribe("k = 7")
    host, started = net.inspect.host_of(1), time.monotonic()
    batches = [batch_of([{"k": 7}] * 10, publisher=fresh, first_sequence=1 + 10 * turn) for turn in range(8)]
    calls = [host.request.remote(1, fresh, [Events(batch)]) for batch in batches]
    ray.get(calls)
    assert time.monotonic() - started > 1.5, "80 events at 20 a second, of which 40 may come at once"
    net.settle()
    assert sorted(note.sequence for note in subscriber.notifications(0)) == list(range(1, 81))
    assert net.inspect.describe().nodes[1]["quota_held"] > 0
    for client in (publisher, subscriber):
        net.release(client)


def test_without_a_rate_history_or_the_default_decides(net, fresh):
    publisher = net.publisher(fresh)
    first = publisher.advertise("x > 0", excess="drop")
    net.settle()
    home = net.inspect.admission()[publisher.broker]
    assert home["cpu"][0] == 7.0
    publisher.publish_batch([{"x": 1}] * 40)  # a demand of 40 events in one second
    publisher.unadvertise(first)
    publisher.advertise("x > 0")
    net.settle()
    assert net.inspect.admission()[publisher.broker]["cpu"][0] == 40.0
    net.release(publisher)
    net.settle()
    assert not any(entry["advertisements"] for entry in net.inspect.admission().values())


def test_what_no_longer_fits_is_reported_to_its_owner_lowest_priority_first(net, fresh):
    first, second = net.publisher(fresh + "-1", broker=0), net.publisher(fresh + "-2", broker=0)
    low, high = net.subscriber(fresh + "-low", broker=3), net.subscriber(fresh + "-high", broker=3)
    first.advertise("k = 1", max_rate=50)
    low_number = low.subscribe("k = 1")
    high.subscribe("k = 2 AND x > 5", priority=5)
    second.advertise("k = 2", max_rate=50)
    net.settle()
    lacking = low.degraded()
    assert list(lacking) == [low_number] and lacking[low_number][0].resource in ("bandwidth", "cpu")
    assert not high.degraded()
    assert any(entry["degraded"] for entry in net.inspect.admission().values())
    first.close()
    net.settle()
    assert not low.degraded() and not any(entry["degraded"] for entry in net.inspect.admission().values())
    for client in (first, second, low, high):
        net.release(client)


def test_a_network_that_heals_keeps_its_books_when_a_broker_dies(ray_started):
    recovery = rv.Recovery.for_tests()
    config = rv.AdmissionConfig(capacity=CAPACITY)
    with rv.Network.launch(rv.ClusterTree(2, 2), recovery=recovery, admission=config) as net:
        publisher, alice = net.publisher("p", broker=0), net.subscriber("alice", broker=2)
        publisher.advertise("x > 0", max_rate=40)
        alice.subscribe("x > 5")
        publisher.publish({"x": 6})
        assert next(alice.notifications(timeout_seconds=PATIENCE_SECONDS)).event == {"x": 6}
        net.kill_broker(3)  # the designated broker between the two
        net.settle()
        publisher.publish({"x": 7})
        assert next(alice.notifications(timeout_seconds=PATIENCE_SECONDS)).event == {"x": 7}
        books = net.inspect.admission()
        assert 3 not in books and books[2]["cpu"][0] == 40.0
        net.inspect.check()
        publisher.move_to(1)
        publisher.close()
        net.settle()
        assert not any(entry["advertisements"] for entry in net.inspect.admission().values()), (
            "nor where it was before"
        )


def test_both_hosts_drop_what_waits_too_long_at_one_broker(ray_started):
    """Paper 3, 5.1. Nine batches at once, 0.2 s of work each: what waits longer than 1.1 s is dropped."""
    batches, size, deadline_seconds = 9, 10, 1.1
    capacity = rv.Capacity(events_per_second=size / 0.2)
    config = rv.AdmissionConfig(refusing_share_max=None, deadline_seconds=deadline_seconds)
    simulated = Simulation(
        rv.ClusterTree(2, 1).positions(),
        admission=config,
        queues=Queues(lambda broker: capacity if broker == 0 else rv.Capacity(), deadline_seconds),
    )
    simulated.advertise("p", 0, "x > 0", 50)
    simulated.subscribe("s", 1, "x > 0")
    simulated.run()
    for _ in range(batches):
        simulated.publish("p", 0, [{"x": 1}] * size)
    simulated.run()
    with rv.Network.launch(rv.ClusterTree(2, 1), admission=config) as net:
        publisher, subscriber = net.publisher("p", broker=0), net.subscriber("s", broker=1)
        publisher.advertise("x > 0", max_rate=50)
        subscriber.subscribe("x > 0")
        net.inject(Burden({0: 0.001}, 0.05))  # a twentieth of a CPU: 0.02 s an event
        host, now = net.inspect.host_of(0), time.time()
        given = [
            batch_of([{"x": 1}] * size, publisher="p", first_sequence=1 + size * i) for i in range(batches)
        ]
        ray.get([host.request.remote(0, "p", [Events(batch)], "", now) for batch in given])
        net.settle()
        expired = {broker: node["expired_events"] for broker, node in net.inspect.describe().nodes.items()}
        assert simulated.queues.dropped_events() == {"cpu": 30, "bandwidth": 0}
        assert len(simulated.notifications("s")) == 60
        # On a busy machine the calls come later, and the work takes longer.
        assert expired[0] in range(30, batches * size, size) and expired[1] == 0
        assert len(list(subscriber.notifications(0))) == batches * size - expired[0]
