"""Views with stores: restarted brokers keep their promises, and losses are reported even if nobody noticed.

Reference: promises 1, 2 and 7; docs/exactly-once.md.
"""

import pytest
from draws import seeds, slow, some_of
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.recovery.membership.view_registry import ViewRendezvous
from rayvous.recovery.replay.replay import Replay
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

VIEWS = ("hypercube", "lbdd", "point-to-point")
SHORT = {"seconds": 60.0, "kinds": ("cut", "partition", "crash", "pause")}


def network(scheme, **recovery):
    """Return six brokers; the publisher is at 5, alice, who is durable, at 2, bob at 4."""
    net = Simulation(
        ClusterTree(6, 1, degree=2).positions(),
        scheme,
        recovery=Recovery.for_simulator(**recovery),
        seed=1,
        store=in_memory,
    )
    net.subscribe("alice", 2, "n >= 0", 1, durable=True)
    net.subscribe("bob", 4, "n >= 0", 1)
    net.advance(2.0)
    return net


def heard(net, client):
    return [note.sequence for note in net.account.notifications() if note.client == client]


def restart_with_what_was_promised(scheme):
    """Crash a broker that alone has some events, and the broker of a durable subscriber that is away."""
    net = network(scheme)
    net.publish("p", 5, [{"n": 1}])
    net.advance(2.0)
    net.stop("alice")
    net.publish("p", 5, [{"n": 2}])
    net.advance(100.0)  # only alice's broker keeps it now
    net.cut([(5, other) for other in range(5)], "alone")
    net.publish("p", 5, [{"n": 3}])
    net.advance(0.1)
    net.stop("p")
    net.crash(5)
    net.crash(2)
    net.mend("alone")
    net.advance(10.0)
    net.restart(5)
    net.restart(2)
    net.advance(10.0)
    net.start("alice")
    net.start("p")
    net.publish("p", 5, [{"n": 4}])
    net.flush("p", 1)
    net.advance(10.0)
    return net


@pytest.mark.parametrize("scheme", VIEWS)
def test_brokers_come_back_with_what_they_had_promised(scheme):
    net = restart_with_what_was_promised(scheme)
    assert heard(net, "alice") == heard(net, "bob") == [1, 2, 3, 4]
    assert [number for _, _, number in net.flushed] == [1] and not any(net.account.losses.values())


@pytest.mark.parametrize("scheme", VIEWS)
@pytest.mark.parametrize("layer", [Replay, DurableClients])
def test_without_its_store_a_broker_loses_some_of_it(layer, scheme, monkeypatch):
    monkeypatch.setattr(layer, "_read", lambda self, store: None)
    net = restart_with_what_was_promised(scheme)
    assert (heard(net, "alice"), heard(net, "bob")) != ([1, 2, 3, 4], [1, 2, 3, 4])


@pytest.mark.parametrize("scheme", VIEWS)
def test_who_was_out_is_told_what_is_not_kept_so_long_and_nobody_else_is(scheme):
    net = network(scheme, retention_seconds=15.0)
    net.publish("p", 5, [{"n": 1}])
    net.advance(10.0)
    net.cut([(2, other) for other in (0, 1, 3, 4, 5, -2)], "out")
    for _ in range(3):
        net.publish("p", 5, [{"n": 2}])
        net.advance(5.0)
    net.advance(40.0)
    net.publish("p", 5, [{"n": 3}])
    net.mend("out")
    net.advance(30.0)
    assert heard(net, "bob") == [1, 2, 3, 4, 5] and not net.account.losses.get("bob")
    assert heard(net, "alice") == [1, 2, 5], "the second was on its way before anybody noticed"
    assert {(loss.publisher, loss.first, loss.last) for loss in net.account.losses["alice"]} == {("p", 3, 4)}


def cut_off_unnoticed(scheme):
    """Let two brokers not reach each other until what was sent meanwhile is forgotten; then begin a view."""
    net = network(scheme, retention_seconds=5.0)
    net.publish("p", 5, [{"n": 1}])
    net.advance(10.0)
    net.cut([(5, 2)], "apart")
    for _ in range(4):
        net.publish("p", 5, [{"n": 2}])
        net.advance(5.0)
    net.advance(60.0)
    net.crash(1)  # so a view begins
    net.advance(10.0)
    net.mend("apart")
    net.advance(30.0)
    net.publish("p", 5, [{"n": 3}])
    net.advance(5.0)
    return net


def test_what_two_brokers_could_not_tell_each_other_is_told_as_lost_though_nobody_noticed():
    net = cut_off_unnoticed("point-to-point")
    assert heard(net, "bob") == [1, 2, 3, 4, 5, 6] and not net.account.losses.get("bob")
    assert heard(net, "alice") == [1, 6]
    assert {(loss.first, loss.last) for loss in net.account.losses["alice"]} == {(2, 5)}


def test_without_asking_whether_all_has_come_nobody_would_know(monkeypatch):
    monkeypatch.setattr(Replay, "_ask", lambda self: [])
    monkeypatch.setattr(Replay, "_tidied", lambda self, rows_min: self.rounds.dropped.clear() or [])
    net = cut_off_unnoticed("point-to-point")
    assert heard(net, "alice") == [1, 6] and not net.account.losses.get("alice")


def test_a_publisher_costs_one_question_to_each_in_half_a_retention():
    net = network("hypercube", retention_seconds=20.0)
    for second in range(60):
        net.at(net.now + second, net.publish, "p", 5, [{"n": second}])
    net.advance(60.0)
    told = {kind.__name__: count for kind, count in net.sent.items()}
    assert 5 * 4 <= told["MarkerDone"] <= 5 * 7 and told["ToAll"] == told["MarkerDone"]


@pytest.mark.parametrize("scheme", some_of(VIEWS, "lbdd"))
@pytest.mark.parametrize("seed", seeds(6))
def test_chaos_with_stores_and_clients_that_die(seed, scheme):
    report = run_chaos(seed, brokers_max=8, scheme=scheme, stable=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


def with_little_retention(scheme):
    settings = Recovery.for_simulator(retention_seconds=5.0)
    return run_chaos(12, brokers_max=10, scheme=scheme, stable=True, recovery=settings, **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["hypercube", "lbdd"])
def test_chaos_in_which_more_is_forgotten_than_anybody_notices(scheme):
    report = with_little_retention(scheme)
    assert report.holds, (report.problems, report.verdict.examples)


@pytest.mark.parametrize("change", [slow("repair_window"), "question"])
def test_that_seed_finds_a_view_that_does_not_say_how_far_back_it_mends_or_a_broker_that_does_not_ask(
    change, monkeypatch
):
    if change == "repair_window":
        monkeypatch.setattr(ViewRendezvous, "_repair_window_seconds", lambda self: 0.0)
    else:
        monkeypatch.setattr(Replay, "_ask", lambda self: [])
        monkeypatch.setattr(Replay, "_tidied", lambda self, rows_min: self.rounds.dropped.clear() or [])
    assert not with_little_retention("hypercube").holds
