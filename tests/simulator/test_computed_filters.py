"""Computed filters in whole networks: all schemes, quenching, merging, fan-out, admission and healing."""

import random

import pytest
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Judgement
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

WANTED = [
    "price * quantity > 1000", "price * quantity > 2000 AND sym = 'X'", "bid >= ask", "bid > ask",
    "NOT (bid + 1 > ask)", "sym <> name", "CESQL 'LENGTH(sym) = LENGTH(name)' AND price > 10",
]  # fmt: skip
OPTIONS = ["hybrid+fanout", "hybrid+quench", "hybrid+quench+merge", "hierarchical+nodes"]


def some_events(seed, size):
    rng = random.Random(seed)
    numbers = ("price", "quantity", "bid", "ask")
    events = [{name: rng.randrange(60) for name in numbers if rng.random() < 0.9} for _ in range(size)]
    return [event | {"sym": rng.choice("XY"), "name": rng.choice(("X", "YY"))} for event in events]


@pytest.mark.parametrize(
    ("name", "recovers"),
    [
        *((name, False) for name in (*SCHEMES, *OPTIONS)),
        *((name, True) for name in ("hybrid", "hybrid+quench", "hypercube", "lbdd")),
    ],
)
def test_everybody_gets_what_matches_and_nothing_else(name, recovers):
    positions = scheme(name).positions(ClusterTree(4, 2).positions())
    brokers = [position.broker for position in positions]
    net = Simulation(positions, name, **({"recovery": Recovery.for_simulator()} if recovers else {}))
    for number, wanted in enumerate(WANTED):
        client = f"client {number}"
        assert net.run_until_installed(client, net.subscribe(client, brokers[number % len(brokers)], wanted))
    events = some_events(7, 60)
    net.publish("publisher", brokers[-1], events)
    if recovers:
        net.advance(5.0)
    else:
        net.run()
    for number, wanted in enumerate(WANTED):
        item = to_filter(wanted)
        expected = [("publisher", place) for place, event in enumerate(events, 1) if item.matches(event)]
        assert net.notifications(f"client {number}") == expected
        assert 0 < len(expected) < len(events)


@pytest.mark.parametrize("estimator", ["paper", "tight"])
def test_admission_reserves_for_what_is_calculated(estimator):
    positions = ClusterTree(3, 2).positions()
    first, last = positions[0].broker, positions[-1].broker
    config = AdmissionConfig(0.0, capacity=Capacity(100, 60), estimator=estimator)
    net = Simulation(positions, "hybrid", admission=config)
    net.advertise("bank", last, "price * quantity > 1000", 50.0, 1)
    net.advertise("shop", last, "price * quantity < 500", 30.0, 1)
    net.run()
    for client, wanted in (
        ("alice", "price * quantity > 2000"), ("bob", "price * quantity < 400"), ("carol", "price * quantity = 700"),
    ):  # fmt: skip
        net.subscribe(client, first, wanted)
        net.run()
    verdicts = {
        client: [news.admitted for news in net.news(client) if isinstance(news, Judgement)]
        for client in ("alice", "bob", "carol")
    }
    # The first takes 50 of 60; the second could add 30 more; nobody publishes what the third asks for.
    assert verdicts == {"alice": [True], "bob": [False], "carol": [True]}
    net.publish("bank", last, [{"price": 50, "quantity": 50}, {"price": 50, "quantity": 30}])
    net.publish("shop", last, [{"price": 1, "quantity": 1}])
    net.run()
    assert net.notifications("alice") == [("bank", 1)]
    assert not net.notifications("bob")
    assert not net.notifications("carol")
