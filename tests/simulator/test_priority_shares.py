"""Priorities decide admission where a network keeps some of its capacity for the higher ones.

Reference: paper 3, section 6 (service differentiation, further work); decision 0183.
"""

import random

import pytest
from draws import seeds
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, GuaranteeStatus, Judgement
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

SHARES = {0: 0.4, 3: 0.7, 9: 1.0}


def network(shares: dict[int, float], narrow: int, name: str = "hybrid") -> Simulation:
    """Return two brokers, of which one has a narrow capacity: the CPU of broker 1, or the link from broker 0."""
    capacities = {0: Capacity(link_events_per_second=100)} if narrow == 0 else {1: Capacity(100)}
    config = AdmissionConfig(0.0, capacities=capacities, estimator="tight", priority_shares=shares)
    positions = scheme(name).positions(ClusterTree(2, 1).positions())
    return Simulation(positions, name, admission=config.validate())


def admitted(net: Simulation, client: str) -> bool:
    return [news.admitted for news in net.news(client) if isinstance(news, Judgement)][-1]


@pytest.mark.parametrize(
    "name", ["hybrid", *(pytest.param(each, marks=pytest.mark.slow) for each in SCHEMES)]
)
@pytest.mark.parametrize("seed", seeds(6, quick=2, usual=2))
def test_who_is_admitted_is_who_a_list_of_rates_admits(name: str, seed: int) -> None:
    rng = random.Random(seed)
    shares = rng.choice([SHARES, SHARES, {}])
    net, rates = network(shares, 1, name), {number: rng.randint(5, 30) for number in range(12)}
    for number, rate in rates.items():
        net.advertise(f"p{number}", 0, f"k = {number}", rate)
    net.run()
    wanted: dict[str, int] = {}
    found = set()
    for step in range(40):
        client, number, priority = f"s{step}", rng.randrange(12), rng.choice([-1, 0, 2, 3, 8, 9, 10])
        load = sum(rates[each] for each in {*wanted.values()})
        named = [each for each in shares if each <= priority]
        share = shares[max(named, default=0)] if shares else 1.0
        fits = number in wanted.values() or load + rates[number] <= share * 100
        net.subscribe(client, 1, f"k = {number}", priority=priority)
        net.run()
        assert admitted(net, client) is fits, (step, load, rates[number], priority)
        found.add((fits, priority))
        if fits:
            wanted[client] = number
        if wanted and rng.random() < 0.4:
            gone = rng.choice([*wanted])
            del wanted[gone]
            net.unsubscribe(gone, 1)
            net.run()
        books = net.broker(1)
        books.check()
        assert sum(rates[each] for each in {*wanted.values()}) <= 100
    assert {fits for fits, _ in found} == {True, False}


def test_a_higher_priority_is_judged_by_itself_while_a_lower_one_is_asked_about() -> None:
    net = network(SHARES, 0)
    net.advertise("p", 0, "k = 1", 80)
    net.run()
    net.subscribe("low", 1, "k = 1", priority=0)
    net.subscribe("high", 1, "k = 1", priority=9)
    net.run()
    assert not admitted(net, "low") and admitted(net, "high")
    (refusal,) = net.news("low")[-1].refusals
    assert str(refusal) == "broker 0 to broker 1: bandwidth: asked 80 events/s, free 40"
    net.subscribe("low", 1, "k = 1", priority=0)  # it comes already
    net.run()
    assert admitted(net, "low")
    net.publish("p", 0, [{"k": 1}])
    net.run()
    assert net.notifications("high") == net.notifications("low") == [("p", 1)]
    for client, number in (("high", 1), ("low", 2)):
        net.unsubscribe(client, number)
    net.run()
    for broker in (0, 1):
        net.broker(broker).check()
    net.subscribe("low", 1, "k = 1", priority=0)
    net.run()
    assert not admitted(net, "low")


def test_what_a_higher_priority_leaves_to_a_lower_one_stays_and_bars_only_those_who_come() -> None:
    net = network(SHARES, 0)
    for number, rate in ((1, 80), (2, 20), (3, 1)):
        net.advertise("p", 0, f"k = {number}", rate, number)
    net.run()
    high = net.subscribe("high", 1, "k = 1", priority=9)
    net.run()
    low = net.subscribe("low", 1, "k = 1", priority=0)
    net.run()
    assert admitted(net, "high") and admitted(net, "low")
    net.unsubscribe("high", high)
    net.run()
    net.subscribe("next", 1, "k = 3", priority=0)
    net.subscribe("high", 1, "k = 2", priority=9)
    net.run()
    assert not admitted(net, "next") and admitted(net, "high")
    net.publish("p", 0, [{"k": 1}])
    net.run()
    assert net.notifications("low") == [("p", 1)]
    assert not any(isinstance(news, GuaranteeStatus) for news in net.news("low"))
    net.unsubscribe("low", low)
    net.run()
    net.subscribe("next", 1, "k = 3", priority=0)
    net.run()
    assert admitted(net, "next")


@pytest.mark.parametrize(
    "wrong", [{0: 0.5, 1: 0.4}, {0: 0}, {0: 1.1}, {0: float("nan")}, {"0": 0.5}, {0.5: 0.5}, [0.5], 0.5]
)
def test_shares_that_are_none_are_errors(wrong: object) -> None:
    with pytest.raises(InputError, match="priority"):
        AdmissionConfig(priority_shares=wrong).validate()  # type: ignore[arg-type]
