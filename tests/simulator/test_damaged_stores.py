"""Recovery from damaged books, positions of durable subscribers, and stores (paper 4, section 2)."""

from dataclasses import replace

import pytest
from rayvous.broker.admission import Admitting
from rayvous.faults.checker.reliability import judge
from rayvous.faults.plans.damage_cases import COMPARE_HEARTBEATS
from rayvous.faults.plans.plans import Crash, Damage
from rayvous.faults.simulated.chaos import draw_sim_case, run_chaos
from rayvous.faults.simulated.judging import books_problems, damage, subscription_problems
from rayvous.protocol.errors import StateDamaged
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.recovery.durability.durable_cursor import DurableCursor
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.durability.summed import SummedStore
from rayvous.recovery.membership.comparing import STRIKES
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory, in_memory_with_sums
from rayvous.simulator.simulation import Simulation

BROKERS = 4
FOUND_HEARTBEATS = (STRIKES + 1) * COMPARE_HEARTBEATS
MENDED_HEARTBEATS = 20.0
"""Half of the recovery time that chaos allows after a crash."""


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


def network(scheme, compare_heartbeats=COMPARE_HEARTBEATS, **parts):
    """Return a network with a publisher and a subscriber at each broker, durable if there are stores."""
    recovery = Recovery.for_simulator(degree=3, compare_heartbeats=compare_heartbeats)
    net = Simulation(ClusterTree(2, 2, degree=3).positions(), scheme, recovery=recovery, seed=1, **parts)
    for place in range(BROKERS):
        if "admission" in parts:
            net.advertise(f"p{place}", place, "x >= 0", 5.0)
        net.subscribe(f"s{place}", place, f"x > {place}", durable="store" in parts)
    net.advance(6.0)
    publish(net)
    return net


def publish(net):
    for place in range(BROKERS):
        net.publish(f"p{place}", place, [{"x": x} for x in range(6)])
    net.advance(3.0)


def problems_of_what_is_published_now(net):
    since = net.now
    publish(net)
    net.advance(6.0)
    net.account.settled(net.now)
    verdict = judge(net.account.since(since))
    assert verdict.notifications_expected > 0
    return verdict.examples


# Books.


@pytest.mark.parametrize("scheme", ["hybrid", slow("hypercube")])
@pytest.mark.parametrize("compares", [True, False])
def test_books_that_are_damaged_balance_again_and_not_without_comparing(scheme, compares):
    """Found within (STRIKES + 1) * compare_heartbeats. Reference: paper 4, definition 8; paper 3, 4.2."""
    net = network(scheme, COMPARE_HEARTBEATS if compares else None, admission=AdmissionConfig())
    assert books_problems(net) == []
    assert sum(damage(net, broker, "books") for broker in range(BROKERS)) > 0
    assert books_problems(net) != []
    net.advance(FOUND_HEARTBEATS + 1)
    assert bool(net.failures) == compares
    assert all(isinstance(error, StateDamaged) for error in net.failures.values())
    net.advance(MENDED_HEARTBEATS)
    assert (books_problems(net) == []) == compares
    if compares:
        assert problems_of_what_is_published_now(net) == [] and subscription_problems(net) == []


@pytest.mark.parametrize("what", ["a filter is gone", "a filter is there", "a rate is another one"])
def test_what_a_neighbour_knows_better_is_found_although_the_books_balance(what):
    net = network("hybrid", admission=AdmissionConfig())
    admitting = net.broker(0).layer(
        Admitting
    )  # a normal broker, so it asks nobody for what is held for this link
    admission, link = admitting.admission, 1
    if what == "a filter is gone":
        admission.books.drop(next(iter(admission.books.held[link])), link)
    elif what == "a filter is there":
        admission.books.hold(to_filter("x > 9"), link, 0)
    else:
        key, offers = next((key, each) for key, each in admission.spreading.offers.items() if link in each)
        offers[link] = replace(offers[link], rate=offers[link].rate + 1)
        admission.spreading.chosen[key] = link, offers[link]
        admission.books.advertise(key, offers[link].filter, offers[link].rate, link)
    admitting._follow()
    admission.check()
    net.advance(FOUND_HEARTBEATS + 1)
    assert "has not in its books what broker" in str(net.failures[0])


# Positions.


@pytest.mark.parametrize("off", [-2, 1000])
def test_a_position_is_what_its_subscriber_has_acknowledged(off, monkeypatch):
    """Found with the subscriber's next message, whether too low or too high; without comparing it stays."""
    for compares in (True, False):
        net = network("hybrid", store=in_memory)
        if not compares:
            monkeypatch.setattr(DurableCursor, "agrees", lambda cursor, marks: True)
        durable = net.broker(2).layer(DurableClients)
        right = dict(durable.entries["s2"].marks)
        assert right["p0"] == 6
        durable.entries["s2"].marks["p0"] += off
        net.advance(COMPARE_HEARTBEATS + 1)
        assert (durable.entries["s2"].marks == right) == compares
        assert durable.describe()["positions_mended"] == compares
        if compares:
            stored = dict(net.host(2).store.rows("subscribers"))["s2",]
            assert stored[2] == right, "in the store, too"


@pytest.mark.parametrize("compares", [True, False])
def test_what_a_damaged_position_has_let_go_is_sent_again(compares, monkeypatch):
    """The subscriber has reported its position, and its process dies before it has acknowledged."""
    net = network("hybrid", store=in_memory)
    if not compares:
        monkeypatch.setattr(DurableCursor, "agrees", lambda cursor, marks: True)
    entry = net.broker(2).layer(DurableClients).entries["s2"]
    net.advance_to(9.8)
    net.publish("p0", 0, [{"x": 5}])
    net.advance_to(9.95)
    assert entry.marks["p0"] == 6 and len(entry) == 1
    entry.marks["p0"] = 1000
    net.host(2).store.commit(entry.acknowledge({"p0": 1001}))  # as any acknowledgement does
    assert len(entry) == 0
    net.advance_to(10.2)  # it reported at 10.0, and would acknowledge at 10.5
    net.stop("s2")
    net.advance(6.0)
    net.start("s2")
    net.advance(10.0)
    net.account.settled(net.now)
    assert judge(net.account).holds == compares


def test_what_was_lost_is_not_taken_for_damage():
    """A position that has moved past a loss is no damage: the subscriber was told of the loss."""
    cursor = DurableCursor("s", 1, 0.0, {"p": 3, "q": 5})
    assert cursor.agrees({"p": 3, "q": 5, "new": 0}) and not cursor.agrees({"p": 3, "q": 4})
    assert not cursor.agrees({"p": 3})
    cursor.losses.append(type("Lost", (), {"publisher": "p", "first": 2, "last": 3})())
    assert cursor.agrees({"p": 1, "q": 5}) and not cursor.agrees({"p": 1, "q": 6})


# Stores.


@pytest.mark.parametrize("scheme", ["hybrid", slow("lbdd")])
def test_a_broker_whose_store_is_damaged_starts_clean(scheme):
    """The damage is found when the store is read at the start, and the broker uses none of its content."""
    net = network(scheme, store=in_memory_with_sums)
    for broker in (1, 2):
        assert damage(net, broker, "store") > 0
        net.crash(broker)
    net.advance(1.0)
    for broker in (1, 2):
        net.restart(broker)
        assert net.host(broker).cleared == 1 and net.broker(broker).layer(DurableClients).entries == {}
    net.advance(MENDED_HEARTBEATS)
    assert subscription_problems(net) == [] and len(net.living()) == BROKERS
    assert problems_of_what_is_published_now(net) == []
    net.crash(1)
    net.restart(1)
    assert net.host(1).cleared == 1, "what it has written since is right"


def test_without_sums_a_broker_believes_its_store():
    net = network("hybrid", store=lambda broker: MemoryStore())
    assert damage(net, 1, "store") == 0, "only a store that finds it is damaged by plan"
    store = net.host(1).store
    kept = dict(store.rows("kept"))
    store._tables["kept"].clear()
    net.crash(1)
    net.restart(1)
    assert kept and net.host(1).cleared == 0


def test_an_undamaged_store_with_sums_is_one_like_any_other():
    """The same case takes the same course with and without checksums."""
    reports = []
    for make in (in_memory, in_memory_with_sums):
        net = network("hybrid", store=make)
        net.crash(2)
        net.advance(2.0)
        net.restart(2)
        net.advance(10.0)
        reports.append((net.steps, net.sent, list(net.notifications("s1"))))
    assert reports[0] == reports[1] and isinstance(net.host(0).store, SummedStore)


# Chaos.


def test_chaos_draws_what_there_is_to_damage():
    def drawn(**more):
        case = draw_sim_case(3, damage=True, brokers_max=6, seconds=6.0, **more)
        return {fault.what for fault in case.plan.faults if isinstance(fault, Damage)}, case

    plain, _ = drawn()
    with_all, case = drawn(stable=True, admission=True)
    more = {"positions", "books", "store"}
    assert not plain & more and more <= with_all
    [at] = [
        (each.at_seconds, each.broker) for each in case.plan.faults if getattr(each, "what", "") == "store"
    ]
    assert any(isinstance(each, Crash) and (each.at_seconds, each.broker) == at for each in case.plan.faults)


@pytest.mark.parametrize("scheme", ["hybrid", slow("hypercube")])
@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_chaos_that_damages_stores_and_books_holds(scheme, seed):
    report = run_chaos(
        seed, damage=True, stable=True, admission=True, scheme=scheme, brokers_max=6, seconds=6.0
    )
    assert report.holds and report.verdict.notifications_expected > 0, (
        report.problems,
        report.verdict.examples,
    )
