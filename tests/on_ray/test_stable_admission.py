"""Brokers with stores and admission control, on real actors: killed, they restart with correct books.

Reference: promises 1, 2, 7 and 8; paper 3, section 3.1; paper 4, section 3.
"""

import threading
from pathlib import Path

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.crash import crash

TREE = rv.ClusterTree(3, 1, degree=1)  # a chain: 0 is the root, 1 in the middle, 2 the leaf
TIGHT = rv.AdmissionConfig(capacity=rv.Capacity(link_events_per_second=60))


def reserved(net: rv.Network) -> dict[int, dict[str, object]]:
    """Return the books once nothing is in flight."""
    net.settle(PATIENCE_SECONDS)
    return net.inspect.admission()


def test_a_killed_broker_comes_back_with_its_books_and_nothing_is_reserved_twice(
    ray_started: None, tmp_path: Path
) -> None:
    with rv.Network.launch(TREE, stable=rv.Stable(tmp_path), admission=TIGHT) as net:
        steel, wool = net.publisher("steel", broker=2), net.publisher("wool", broker=2)
        low, high = net.subscriber("low", broker=0), net.subscriber("high", broker=0)
        number = steel.advertise("k = 'steel'", max_rate=50)
        first = low.subscribe("k = 'steel' AND n > 1")
        with pytest.raises(rv.ClientError, match="need different names"):
            net.subscriber("steel", broker=0)
        high.subscribe("k = 'wool'", priority=5)
        wool.advertise("k = 'wool'", max_rate=40)
        before, lacking = reserved(net), low.degraded()
        assert before[0]["cpu"][0] == 90.0 and list(lacking) == [first] and not high.degraded()
        for broker in (2, 1, 0):
            crash(net, broker)
        steel.publish_batch([{"k": "steel", "n": n} for n in range(4)])
        assert [
            note.event["n"] for _, note in zip(range(2), low.notifications(PATIENCE_SECONDS), strict=False)
        ] == [2, 3]
        assert reserved(net) == before and low.degraded() == lacking
        crash(net, 2)
        with pytest.raises(rv.SubscriptionRejected, match="bandwidth"):
            low.subscribe("k = 'steel' OR k = 'wool' OR n = 7")
        steel.unadvertise(number)
        assert reserved(net)[0]["cpu"][0] == 40.0 and not low.degraded()
        net.inspect.check()
    _the_next_process_takes_back_what_the_last_one_left(tmp_path)


def _the_next_process_takes_back_what_the_last_one_left(folder: Path) -> None:
    with rv.Network.launch(TREE, stable=rv.Stable(folder), admission=TIGHT) as net:
        assert reserved(net)[0]["cpu"][0] == 40.0, "wool's process has ended without a word"
        wool = net.publisher("wool", broker=2)
        wool.advertise("k = 'wool'", max_rate=30)
        assert reserved(net)[0]["cpu"][0] == 30.0
        high = net.subscriber("high", broker=0)
        wool.publish({"k": "wool", "n": 1})
        assert next(high.notifications(PATIENCE_SECONDS)).event == {"k": "wool", "n": 1}


def test_advertising_and_subscribing_go_on_while_brokers_are_killed(
    ray_started: None, tmp_path: Path
) -> None:
    with rv.Network.launch(TREE, stable=rv.Stable(tmp_path), admission=TIGHT) as net:
        publisher, subscriber = net.publisher("p", broker=2), net.subscriber("s", broker=0)
        turns = 12
        going = threading.Semaphore(0)
        heard: list[int] = []
        failed: list[Exception] = []

        def come_and_go() -> None:
            try:
                for turn in range(turns):
                    number = publisher.advertise(f"x > {turn}", max_rate=10 + turn)
                    wanted = subscriber.subscribe(f"x > {turn + 1}")
                    going.release()
                    publisher.publish({"x": turn + 5})
                    heard.append(next(subscriber.notifications(PATIENCE_SECONDS)).event["x"])
                    if turn < turns - 1:
                        subscriber.unsubscribe(wanted)
                        publisher.unadvertise(number)
            except Exception as error:
                failed.append(error)
                going.release()

        clients = threading.Thread(target=come_and_go)
        clients.start()
        for broker in (2, 1, 0, 2):
            assert going.acquire(timeout=PATIENCE_SECONDS)
            crash(net, broker)
        clients.join(PATIENCE_SECONDS)
        assert not clients.is_alive() and not failed, failed
        assert heard == [turn + 5 for turn in range(turns)]
        rate = 10.0 + turns - 1
        for broker, books in reserved(net).items():
            assert (books["advertisements"], books["cpu"][0]) == (1, rate), broker
            assert books["filters"] == 1
        net.inspect.check()


def test_in_a_network_that_heals_a_broker_comes_back_with_what_its_durable_subscribers_want(
    ray_started: None, tmp_path: Path
) -> None:
    recovery, config = rv.Recovery.for_tests(), rv.AdmissionConfig(capacity=rv.Capacity(100, 60))
    with rv.Network.launch(
        rv.ClusterTree(2, 2), recovery=recovery, stable=rv.Stable(tmp_path), admission=config
    ) as net:
        publisher, alice = net.publisher("p", broker=0), net.subscriber("alice", broker=3, durable=True)
        publisher.advertise("x > 0", max_rate=40)
        alice.subscribe("x > 5", priority=2)
        alice.close()
        net.kill_broker(3)
        net.restart_broker(3)
        away = reserved(net)
        assert away[3]["filters"] == 1 and away[3]["cpu"][0] == 40.0, "she is not there to say what she wants"
        back = net.subscriber("alice", durable=True)
        publisher.publish({"x": 6})
        assert next(back.notifications(timeout_seconds=PATIENCE_SECONDS)).event == {"x": 6}
        assert reserved(net) == away
        net.inspect.check()
