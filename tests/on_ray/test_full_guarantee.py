"""Promise 8 on real actors: brokers receive exactly what the books charge, within their capacity.

Reference: paper 3, 4.3 (a); docs/decisions/0031-schemes-are-charged-for-what-they-send.md.
"""

import pytest
import rayvous as rv

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
