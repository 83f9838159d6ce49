"""Promise 8 under every scheme: under the full guarantee no broker is asked to carry more than it can.

Reference: paper 3, 4.3 (a); docs/decisions/0031-schemes-are-charged-for-what-they-send.md.
"""

import random

import pytest
from draws import of_each_kind
from rayvous.admission.flows import Flows
from rayvous.admission.sampling import BETWEEN, TOLD_FIRST, TOLD_OF
from rayvous.broker.admission import Admitting
from rayvous.protocol.ids import GROUP
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity, Judgement
from rayvous.routing.schemes.registry import SCHEMES as BUILT_IN
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

SCHEMES = (*BUILT_IN, "hybrid+quench", "hybrid+fanout")
every_scheme = pytest.mark.parametrize("name", of_each_kind(SCHEMES))
PUBLISHERS, SUBSCRIBERS, RATE, SECONDS = 6, 20, 20, 8
ENOUGH = Capacity(1e6, 1e6)


def network(name, capacity, cpu_counts="events", estimator="paper"):
    return Simulation(
        scheme(name).positions(ClusterTree(3, 3).positions()),
        name,
        admission=AdmissionConfig(0.0, estimator, capacity, cpu_counts=cpu_counts),
        queues=Queues(lambda broker: capacity, 5.0, cpu_counts),
        keep_notifications=False,
    )


def charged(net):
    """Return what all books together charge, in events a second: by broker, and by (broker, link)."""
    cpu, links = {}, {}
    for broker in net.brokers():
        here = broker.position.broker
        for (resource, where), amount in broker.layer(Admitting).admission.books.reserved().items():
            if resource == "cpu":
                whose = here if where is None else where
                cpu[whose] = max(cpu.get(whose, 0), amount / MICRO)
            elif resource == "bandwidth" and amount:
                links[where if isinstance(where, tuple) else (here, where)] = amount / MICRO
    return {broker: most for broker, most in cpu.items() if most}, links


def overloaded(net, limits, seconds):
    """Return which brokers and links had more than their limit a second."""
    cpu, links = limits
    measured = [(net.queues.worked, cpu), (net.queues.sent, links)]
    return {
        who: count
        for counts, most in measured
        for who, count in counts.items()
        if count > most.get(who, 0) * seconds
    }


def loaded(name, capacity, seed=0):
    """Return a network under a load part of which does not fit, and how many subscriptions were admitted.

    The publishers' ranges overlap. Each publishes at its advertised rate for `SECONDS`.
    """
    net = network(name, capacity)
    rng = random.Random(f"full guarantee/{seed}")
    homes = {f"p{number}": rng.randrange(9) for number in range(PUBLISHERS)}
    for number, (publisher, home) in enumerate(homes.items()):
        net.advertise(publisher, home, f"x BETWEEN {number} AND {number + 2}", RATE)
    net.run()
    for number in range(SUBSCRIBERS):
        low = rng.uniform(0, PUBLISHERS)
        net.subscribe(f"s{number}", rng.randrange(9), f"x BETWEEN {low} AND {low + rng.uniform(0.2, 2.5)}")
        net.run()
    for _ in range(SECONDS):
        for number, (publisher, home) in enumerate(homes.items()):
            net.publish(publisher, home, [{"x": rng.uniform(number, number + 2)} for _ in range(RATE)])
        net.advance(1.0)
    net.run()
    news = [news for client in net.sessions for news in net.news(client) if isinstance(news, Judgement)]
    return net, sum(each.admitted for each in news)


@every_scheme
def test_nothing_is_dropped_and_nobody_is_given_more_than_is_charged_or_than_it_can_carry(name):
    net, admitted = loaded(name, Capacity(70.0, 70.0))
    assert 0 < admitted < SUBSCRIBERS
    assert not any(net.queues.dropped_events().values()) and net.notified > 0
    assert not overloaded(net, charged(net), SECONDS)
    cpu, links = charged(net)
    assert max(cpu.values()) <= 70 and max(links.values()) <= 70
    for broker in net.brokers():
        broker.check()


@pytest.mark.parametrize("cpu_counts", ["events", "copies"])
@every_scheme
def test_what_is_charged_is_what_is_sent(name, cpu_counts):
    """Each publisher publishes one value, so all events of one advertisement take the same ways.

    Under LBDD the brokers that share the sending may change with each event, so what may come to them is
    charged.
    """
    net = network(name, ENOUGH, cpu_counts)
    for number in range(9):
        net.advertise(f"p{number}", number, f"n = {number}", number + 1)
    net.run()
    for client, home, wanted in (
        ("a", 0, "n >= 4"), ("b", 3, "n BETWEEN 2 AND 6"), ("c", 8, "n < 3"), ("d", 3, "n = 8"), ("e", 7, "n = 7"),
    ):  # fmt: skip
        net.subscribe(client, home, wanted)
        net.run()
    for number in range(9):
        net.publish(f"p{number}", number, [{"n": number}] * (number + 1))
    net.run()
    cpu, links = charged(net)
    if name != "lbdd":
        assert net.queues.worked == cpu and net.queues.sent == links
    elif cpu_counts == "events":
        assert net.queues.taken_in == cpu
    assert not overloaded(net, (cpu, links), 1)


@pytest.mark.parametrize("name", ["hybrid", "flooding", "lbdd", "hybrid+fanout"])
def test_what_is_sent_beside_the_ways_that_are_asked_along_has_to_be_charged(name, monkeypatch):
    """Without that, brokers get more than is charged, and more than they can carry."""
    for part in ("_charge_group", "_charge_relays"):
        monkeypatch.setattr(Flows, part, lambda *args: None)
    monkeypatch.setattr("rayvous.routing.schemes.flooding.Flooding.floods", False)
    nets = [loaded(name, Capacity(70.0, 70.0), seed)[0] for seed in range(2)]
    assert any(overloaded(net, charged(net), SECONDS) for net in nets)


def crowded(name, estimator, seed=0):
    """Return a network in which everything advertised meets everything wanted, and how many were admitted.

    Publishers publish before, while, and after subscribers come; each subscriber wants a tenth of it.
    """
    net = network(name, Capacity(90.0, 90.0), estimator=estimator)
    rng = random.Random(f"crowded/{seed}")
    homes = {f"p{number}": rng.randrange(9) for number in range(PUBLISHERS)}
    for publisher, home in homes.items():
        net.advertise(publisher, home, "x >= 0", RATE)
    net.run()

    def publish(seconds):
        for _ in range(seconds):
            for publisher, home in homes.items():
                net.publish(publisher, home, [{"x": rng.random()} for _ in range(RATE)])
            net.advance(1.0)

    publish(8)
    for number in range(SUBSCRIBERS):
        low = rng.uniform(0, 0.9)
        net.subscribe(f"s{number}", rng.randrange(9), f"x BETWEEN {low} AND {low + 0.1}")
        publish(1)
    news = [news for client in net.sessions for news in net.news(client) if isinstance(news, Judgement)]
    before = net.queues.offered.copy()
    publish(SECONDS)
    net.run()
    return net, sum(each.admitted for each in news), net.queues.offered - before


@every_scheme
def test_what_is_measured_fits_and_most_of_the_capacity_is_used(name):
    """Reservations of peaks refuse everybody: each subscription might want everything."""
    _, by_peaks, _ = crowded(name, "tight")
    net, admitted, offered = crowded(name, "measured")
    assert by_peaks == 0 < admitted
    assert not any(net.queues.dropped_events().values()) and net.notified > 0
    assert 0.5 < max(offered.values()) / SECONDS / 90.0 <= 1.0
    for broker in net.brokers():
        broker.check()


@every_scheme
def test_what_samples_cost_is_reserved_though_nobody_wants_an_event(name):
    """They go to every broker on the ways of their advertisements, and are all that most brokers have to carry here."""
    net, rate, homes = network(name, ENOUGH, estimator="measured"), 50, (0, 4, 8)
    for home in homes:
        net.advertise(f"p{home}", home, f"n = {home}", rate)
    net.run()

    def publish(count):
        for home in homes:
            net.publish(f"p{home}", home, [{"n": home}] * count)
        net.run()
        return net.queues.offered.copy()

    before, after = publish(TOLD_FIRST[-1][0]), publish(BETWEEN)
    (cpu, links), seconds = charged(net), BETWEEN / rate
    offered = {who: count / seconds for who, count in (after - before).items()}
    limits = {who: links.get((who[0], GROUP), 0) for who in offered if isinstance(who, tuple)} | links | cpu
    assert len(offered) > 9
    assert not {who: load for who, load in offered.items() if load > limits[who] + 1e-3}
    for broker in set(range(9)) - set(homes):
        assert offered[broker] == pytest.approx(3 * rate / TOLD_OF)


def test_a_multicast_is_refused_in_the_name_of_the_member_that_cannot_take_it():
    """With a publisher at member 2, the weak member 1 would get each event of the multicast too."""
    strong, weak = Capacity(100.0), Capacity(30.0)
    net = Simulation(
        ClusterTree(1, 3).positions(),
        "hybrid",
        admission=AdmissionConfig(0.0, capacity=strong, capacities={1: weak}),
    )
    net.advertise("p", 2, "x > 0", 40.0)
    net.run()
    net.subscribe("s", 0, "x > 5")
    net.run()
    [judged] = [news for news in net.news("s") if isinstance(news, Judgement)]
    said = [(each.broker, each.resource, each.asked, each.free) for each in judged.refusals]
    assert not judged.admitted and said == [(1, "cpu", 40.0, 30.0)]
