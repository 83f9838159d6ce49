"""Promise 8 on real actors: brokers receive exactly what the books charge, within their capacity.

Reference: paper 3, 4.3 (a); docs/decisions/0031-schemes-are-charged-for-what-they-send.md and
docs/decisions/0177-demand-is-sampled.md.
"""

import pytest
import rayvous as rv
from rayvous.benchmarks import caution, caution_on_ray

CAPACITY = 60.0
RATES = {number: 4 * (number + 1) for number in range(6)}
WANTED = ((0, "n >= 4"), (1, "n BETWEEN 1 AND 2"), (5, "n < 3"), (3, "n = 5"), (2, "n >= 0"))


def charged(net):
    """Return the rate charged to each broker's CPU, by itself or by the representative of its cluster."""
    most = {}
    for broker, entry in net.inspect.admission().items():
        for name, amounts in entry.items():
            if name == "cpu" or name.startswith("cpu of"):
                whose = broker if name == "cpu" else int(name.removeprefix("cpu of "))
                most[whose] = max(most.get(whose, 0), amounts[0])
    return most


@pytest.mark.parametrize("scheme", ["hybrid", "lbdd"])
def test_what_brokers_take_in_is_what_is_charged(ray_started, scheme):
    """On a tree and without one; under every scheme: `tests/simulator/test_full_guarantee.py`."""
    config = rv.AdmissionConfig(capacity=rv.Capacity(events_per_second=CAPACITY), deadline_seconds=300)
    with rv.Network.launch(rv.ClusterTree(2, 3), scheme=scheme, brokers_per_actor=6, admission=config) as net:
        publishers = {number: net.publisher(f"p{number}", broker=number) for number in RATES}
        for number, publisher in publishers.items():
            publisher.advertise(f"n = {number}", max_rate=RATES[number])
        admitted = []
        for place, (home, wanted) in enumerate(WANTED):
            subscriber = net.subscriber(f"s{place}", broker=home)
            try:
                subscriber.subscribe(wanted)
                admitted.append((subscriber, rv.to_filter(wanted)))
            except rv.SubscriptionRejected as error:
                assert {refusal.resource for refusal in error.refusals} == {"cpu"}
        assert 0 < len(admitted) < len(WANTED)
        for number, publisher in publishers.items():
            publisher.publish_batch([{"n": number}] * RATES[number])  # a second's worth
        net.settle()
        nodes = net.inspect.describe().nodes
        assert {broker: node["events_in"] for broker, node in nodes.items()} == charged(net)
        assert max(charged(net).values()) <= CAPACITY
        assert not any(node["expired_events"] for node in nodes.values())
        for subscriber, wanted in admitted:
            due = sum(rate for number, rate in RATES.items() if wanted.matches({"n": number}))
            assert len(list(subscriber.notifications(0))) == due


def test_what_is_measured_fits_where_peaks_refuse_everybody(ray_started):
    """Six publishers of 60 events a second in all, all of which anybody may want, and brokers that take in 50."""
    config = rv.AdmissionConfig(
        estimator="measured", capacity=rv.Capacity(events_per_second=50.0), deadline_seconds=300
    )
    with rv.Network.launch(
        rv.ClusterTree(2, 3), scheme="hierarchical", brokers_per_actor=6, admission=config
    ) as net:
        publishers = [net.publisher(f"p{broker}", broker=broker) for broker in range(6)]
        for publisher in publishers:
            publisher.advertise("n >= 0", max_rate=10)
        answer = net.would_admit("n BETWEEN 0 AND 1", broker=0)
        assert not answer.admitted  # five times ten events from elsewhere, beside ten of its own
        second = [{"n": number} for number in range(10)]
        for publisher in publishers:
            publisher.publish_batch(second)
        net.settle()
        subscribers = [net.subscriber(f"s{broker}", broker=broker) for broker in (0, 3)]
        for place, subscriber in enumerate(subscribers):
            subscriber.subscribe(f"n BETWEEN {place} AND {place + 1}")
        before = {broker: node["events_in"] for broker, node in net.inspect.describe().nodes.items()}
        for publisher in publishers:
            publisher.publish_batch(second)
        net.settle()
        nodes = net.inspect.describe().nodes
        came = {broker: node["events_in"] - before[broker] for broker, node in nodes.items()}
        assert 20 <= max(came.values()) <= 50 and all(came[who] <= most for who, most in charged(net).items())
        assert not any(node["expired_events"] for node in nodes.values())
        assert [len(list(each.notifications(0))) for each in subscribers] == [12, 12]


def test_the_benchmark_of_the_guarantee_runs_on_actors(ray_started, monkeypatch):
    """`rayvous bench caution --on ray`, small: with control nothing has more than it can take, without it something.

    Both rows have the same network, publishers and subscribers; docs/admission.md has the figures of the whole.
    """
    for module in (caution, caution_on_ray):
        monkeypatch.setattr(module, "BROKERS", 6)
    monkeypatch.setattr(caution, "PUBLISHERS", 12)
    monkeypatch.setattr(caution_on_ray, "ACTORS", 1)
    monkeypatch.setattr(caution_on_ray, "WARM_SECONDS", 26.0)  # 640 events of each publisher at a tenth of it
    monkeypatch.setattr(caution_on_ray, "MEASURED_SECONDS", 1.0)
    result = caution_on_ray.run(caution.ranges(60, 1), 1)
    measured, none = result["results"]
    assert measured["refused"] > 0.0 == none["refused"]
    assert measured["busiest_used"] <= 1.0 < none["busiest_used"]
    assert measured["dropped"] == 0 and measured["worst_5_seconds"] <= 1.0
