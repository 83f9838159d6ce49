"""Bounds on real actors: queues fill, publishers wait, and what is shed is counted (promise 9)."""

from itertools import islice

import rayvous as rv
from patience import PATIENCE_SECONDS


def test_small_queues_slow_the_publisher_and_lose_nothing(ray_started):
    limits = rv.Limits.for_tests()
    with rv.Network.launch(rv.ClusterTree(3, 2, degree=1), limits=limits, brokers_per_actor=2) as net:
        subscriber = net.subscriber("all", broker=1)
        subscriber.subscribe("n >= 0")
        publisher = net.publisher("fast", broker=5)
        seen = []
        size = 1_000
        for start in range(0, 4 * size, size):
            publisher.publish_batch({"n": range(start, start + size)})
            net.settle()
            seen += [note.sequence for note in subscriber.notifications(timeout_seconds=0)]
        assert seen == list(range(1, 4 * size + 1))
        assert not any(lost for _, lost in net.inspect.describe().nodes(data="lost_events"))


def test_a_subscriber_that_does_not_read_loses_its_oldest_and_is_told(ray_started):
    limits = rv.Limits.for_tests(delivery_events_max=100, delivery_wait_seconds=0.05)
    with rv.Network.launch(rv.ClusterTree(1, 1), limits=limits) as net:
        lazy, eager = net.subscribers(["lazy", "eager"])
        lazy.subscribe("n >= 0")
        eager.subscribe("n = 5")
        publisher = net.publisher("fast")
        for start in range(0, 2_000, 100):
            publisher.publish_batch({"n": range(start, start + 100)})
        net.settle()
        broker_shed = sum(shed for _, shed in net.inspect.describe().nodes(data="shed_notifications"))
        read = [note.sequence for note in lazy.notifications(timeout_seconds=0)]
        assert read == sorted(read)
        assert lazy.shed + broker_shed > 0
        assert len(read) + lazy.shed + broker_shed >= 2_000
        assert len(read) <= 300
        assert [note.sequence for note in eager.notifications(timeout_seconds=0)] in ([6], [])


def test_a_process_that_reads_nothing_from_its_connection_delays_nobody_else(ray_started):
    limits = rv.Limits.for_tests(delivery_events_max=100, delivery_wait_seconds=0.05)
    with rv.Network.launch(rv.ClusterTree(1, 1), limits=limits, links="direct", name="deaf") as net:
        elsewhere = rv.Network.attach("deaf")
        deaf, eager = elsewhere.subscriber("deaf"), net.subscriber("eager")
        for each in (deaf, eager):
            each.subscribe("n >= 0")
        process = elsewhere._process
        channels = process._channels.opened()
        assert len(channels) == 1
        process._loop.call_soon_threadsafe(channels[0].rest, "test")
        publisher = net.publisher("fast")
        for start in range(0, 2_000, 100):
            publisher.publish_batch({"n": range(start, start + 100)})
            assert [note.event["n"] for note in islice(eager.notifications(PATIENCE_SECONDS), 100)] == list(
                range(start, start + 100)
            )
        net.settle(PATIENCE_SECONDS, deliveries=False)
        early = len(list(deaf.notifications(timeout_seconds=0)))
        assert early <= 200, "what a poll brought that was under way by Ray before there was a channel"
        shed = sum(shed for _, shed in net.inspect.describe().nodes(data="shed_notifications"))
        assert shed > 1_000, "its queue did not grow"
        process._loop.call_soon_threadsafe(channels[0].go_on, "test")
        net.settle(PATIENCE_SECONDS)
        read = [note.event["n"] for note in deaf.notifications(timeout_seconds=0)]
        assert read == sorted(read) and early + len(read) + deaf.shed + shed >= 2_000
        assert read[-1] == 1_999, "the newest are not shed"
        publisher.publish({"n": 2_000})
        net.settle(PATIENCE_SECONDS)
        assert [note.event["n"] for note in deaf.notifications(timeout_seconds=0)] == [2_000], "it goes on"
        elsewhere.close()
