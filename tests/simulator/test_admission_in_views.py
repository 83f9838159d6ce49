"""Admission in networks with views: reserved is what is sent, and what is released is free everywhere.

Reference: promise 8; paper 3, section 4; docs/decisions/0023-reservations-go-the-ways-of-events.md.
"""

from collections import Counter

import numpy as np
import pytest
from draws import of_each_kind, slow, thorough
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.flows import Flows
from rayvous.broker.admission import Admitting
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.faults.simulated.judging import books_problems
from rayvous.protocol.effects import Send
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.views import HealingViews
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

SCHEMES = ("hypercube", "lbdd", "point-to-point")
every_scheme = pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
BROKERS = 11


def network(scheme, capacity=1000.0, record=None):
    """Return a network in which the publisher at broker b advertises n = b, at b + 1 events a second."""
    net = Simulation(
        ClusterTree(BROKERS, 1).positions(),
        scheme,
        recovery=Recovery.for_simulator(),
        admission=AdmissionConfig(0.0, capacity=Capacity(capacity, capacity)),
        record=record,
    )
    for broker in range(BROKERS):
        net.advertise(f"p{broker}", broker, f"n = {broker}", float(broker + 1))
    for broker in range(BROKERS):
        net.publish(f"p{broker}", broker, [{"n": broker}])
    net.advance(5.0)
    return net


def reserved(net):
    return {
        (broker, resource, link): amount
        for broker in net.living()
        for (resource, link), amount in net.broker(broker).layer(Admitting).admission.books.reserved().items()
        if resource != "memory" and amount
    }


@pytest.mark.parametrize("scheme", (*SCHEMES, "flooding+graph"))
def test_what_is_let_go_is_reserved_nowhere(scheme):
    """There are publishers and subscribers at every broker, so requests could travel around rings."""
    net = network(scheme)
    before = reserved(net)
    for broker in range(BROKERS):
        net.subscribe(f"s{broker}", broker, "n >= 0", 1)
    net.advance(5.0)
    assert books_problems(net) == [] and len(reserved(net)) > len(before)
    for broker in range(BROKERS):
        net.unsubscribe(f"s{broker}", 1)
    net.advance(5.0)
    assert books_problems(net) == [] and reserved(net) == before


@every_scheme
def test_without_that_rule_it_stays_reserved_for_ever(scheme, monkeypatch):
    monkeypatch.setattr(Flows, "passes", lambda self, source, to: source != to)
    monkeypatch.setattr(Flows, "_leads", lambda self, rows, size: ~np.eye(size, dtype=np.bool_))
    with pytest.raises(AssertionError):
        test_what_is_let_go_is_reserved_nowhere(scheme)


@pytest.mark.parametrize("scheme", ["hypercube", "point-to-point"])
def test_what_is_reserved_is_what_is_sent(scheme):
    """A link reserves the rates of the publishers whose events cross it, a broker those of events it gets."""
    sent, taken = Counter(), Counter()

    def record(step):
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Events):
                batch = effect.message.batch
                for row in range(len(batch)):
                    value = int(batch.identity(row)[0][1:])  # p7 publishes n = 7
                    sent[step.broker.position.broker, "bandwidth", effect.to] += (value + 1) * MICRO
                    taken[effect.to, "cpu", None] += (value + 1) * MICRO

    net = network(scheme, record=record)
    for client, home, wanted in (
        ("a", 0, "n >= 4"),
        ("b", 3, "n BETWEEN 2 AND 6"),
        ("c", 10, "n < 3"),
        ("d", 3, "n = 9"),
    ):
        net.subscribe(client, home, wanted, 1)
    net.advance(5.0)
    assert net.clients.refused == 0 and books_problems(net) == []
    sent.clear()
    taken.clear()
    for broker in range(BROKERS):
        net.publish(f"p{broker}", broker, [{"n": broker}])
        taken[broker, "cpu", None] += (broker + 1) * MICRO
    net.advance(2.0)
    assert reserved(net) == dict(sent) | dict(taken)


@every_scheme
def test_who_does_not_fit_is_refused_and_what_was_asked_on_its_way_is_free_again(scheme):
    net = network(scheme, capacity=20.0)
    net.subscribe("fits", 0, "n = 9", 1)
    net.advance(3.0)
    before = reserved(net)
    net.subscribe("greedy", 0, "n >= 0", 1)
    net.advance(3.0)
    assert net.clients.admitted == {("fits", 1)} and net.clients.refused == 1
    assert reserved(net) == before and books_problems(net) == []


@every_scheme
def test_books_follow_when_brokers_die_come_back_and_come_anew(scheme):
    net = network(scheme)
    for broker in range(0, BROKERS, 2):
        net.subscribe(f"s{broker}", broker, f"n >= {broker}", 1)
    net.advance(5.0)
    net.crash(4)
    net.crash(5)
    net.advance(12.0)
    assert books_problems(net) == []
    net.restart(4)
    net.advance(12.0)
    assert books_problems(net) == []
    held = net.broker(4).layer(Admitting).admission.books.held
    assert set(held) - {LOCAL} == set(net.broker(4).layer(HealingViews).placed.neighbours)


@every_scheme
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {"brokers_max": 8}),
        slow(1, {"brokers_max": 8}),
        slow(0, {"brokers_max": 16, "operations": True}),
        *(thorough(seed, {"brokers_max": 16, "operations": seed % 2 == 0}) for seed in range(1, 6)),
    ],
)
def test_books_balance_and_nothing_is_lost_whatever_fails(scheme, seed, options):
    """More seeds: ``rayvous chaos --scheme lbdd --admission --seeds 200``."""
    report = run_chaos(seed, scheme=scheme, admission=True, **options)
    assert report.holds, (report.replay, report.problems)


def test_nobody_is_asked_over_a_link_from_which_no_event_comes():
    """In an incomplete cube some neighbours are one-sided: events go to them but never come from them."""
    report = run_chaos(8, scheme="hypercube", brokers_max=4, admission=True)
    assert report.holds, (report.replay, report.problems)
