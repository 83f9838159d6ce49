"""Stores, durable subscribers, publishers that restart, flush, and reported losses (docs/exactly-once.md)."""

import pytest
from draws import of_each_kind, slow, thorough
from rayvous.broker import Broker
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Deliver, Received, Ticked
from rayvous.protocol.messages.pubsub import Consumed, Events, Register, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.messages.rounds import Round
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.replay.replay import Replay
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

every_scheme = pytest.mark.parametrize(
    "scheme", of_each_kind(["hybrid", "hybrid+quench+merge", "hypercube", "lbdd", "point-to-point"])
)


def network(scheme="hybrid", *, stable=True, record=None, **recovery):
    """Three clusters of two in a chain: 0 1, 2 3, 4 5; the publisher is at 5, alice at 2, bob at 4."""
    settings = Recovery.for_simulator(**recovery)
    net = Simulation(
        ClusterTree(3, 2, degree=1).positions(),
        scheme,
        recovery=settings,
        seed=1,
        store=in_memory if stable else None,
        record=record,
    )
    net.subscribe("alice", 2, "n >= 0", 1, durable=True)
    net.subscribe("bob", 4, "n >= 0", 1)
    net.advance(2.0)
    return net


def publish(net, number=1):
    for _ in range(number):
        net.publish("p", 5, [{"n": 1}])
    net.advance(1.0)


def heard(net, client):
    return [note.sequence for note in net.account.notifications() if note.client == client]


def durable_at(net, broker):
    return net.hosts[broker].machine.layer(DurableClients).entries


@every_scheme
def test_what_comes_while_it_is_away_is_kept_also_while_its_broker_is_dead(scheme):
    net = network(scheme)
    publish(net)
    net.stop("alice")
    publish(net)
    net.crash(2)
    net.advance(10.0)
    publish(net)
    net.restart(2)
    net.advance(10.0)
    assert len(durable_at(net, 2)["alice"]) == 2
    net.start("alice")
    net.advance(2.0)
    assert heard(net, "alice") == heard(net, "bob") == [1, 2, 3]
    assert len(durable_at(net, 2)["alice"]) == 0, "all is acknowledged"


def test_what_was_not_acknowledged_comes_again_to_the_next_process_only():
    net = network()
    publish(net)
    net.publish("p", 5, [{"n": 2}])
    net.advance(0.1)
    assert heard(net, "alice") == [1, 2]
    net.stop("alice")
    assert heard(net, "alice") == [1], "what it had not acknowledged it has not had"
    net.start("alice")
    net.advance(2.0)
    assert heard(net, "alice") == [1, 2]


def test_a_durable_subscriber_that_moves_is_kept_where_it_was_until_that_is_told_and_may_be_back_before():
    net = network()
    publish(net)
    for broker in (3, 2, 3):
        assert net.move("alice", broker)
        net.advance(0.0004)  # it has arrived, and nobody has told the broker that it has left
        assert "alice" in durable_at(net, 2) and "alice" in durable_at(net, 3)
    publish(net)
    assert "alice" not in durable_at(net, 2) and "alice" in durable_at(net, 3)
    assert heard(net, "alice") == [1, 2] and not judge(net.account).violated


@pytest.mark.parametrize("stable", [True, False])
def test_at_another_broker_retention_fills_the_gap_and_the_old_one_lets_go(stable):
    net = network(stable=stable)
    publish(net)
    net.stop("alice")
    publish(net, 3)
    net.crash(2)
    net.advance(5.0)
    net.start("alice")
    net.advance(10.0)
    assert net.sessions["alice"].home.id == 3
    assert heard(net, "alice") == [1, 2, 3, 4]
    net.restart(2)
    net.advance(15.0)
    assert "alice" not in durable_at(net, 2) and "alice" in durable_at(net, 3)


@every_scheme
def test_accepted_is_delivered_though_publisher_and_broker_die_before_it_was_sent(scheme):
    net = network(scheme)
    net.cut([(5, 4), (4, 3), (5, 3), (5, 2), (5, 1), (5, 0)], "alone")
    net.publish("p", 5, [{"n": 1}])
    net.advance(0.01)
    net.stop("p")
    net.crash(5)
    net.mend("alone")
    net.advance(8.0)
    assert not net.start("p"), "it waits for the broker that has accepted its last events"
    net.restart(5)
    assert net.start("p") and net.sessions["p"].machine.published == 1
    net.publish("p", 5, [{"n": 2}])
    net.advance(12.0)
    assert heard(net, "alice") == heard(net, "bob") == [1, 2]


@every_scheme
def test_flush_is_answered_when_all_is_delivered_and_waits_for_the_round(scheme):
    net = network(scheme)
    net.publish("p", 5, [{"n": 1}])
    net.flush("p", 1)
    net.advance(0.5)
    assert [number for _, _, number in net.flushed] == [1] and heard(net, "bob") == heard(net, "alice") == [1]
    net.crash(4)  # bob's broker, a normal broker of p's cluster
    net.publish("p", 5, [{"n": 2}])
    net.flush("p", 2)
    net.advance(0.5)
    assert len(net.flushed) == 1, "nobody answers for what hangs above"
    net.advance(60.0)
    when, _, number = net.flushed[-1]
    assert number == 2
    assert all(
        any(
            note.client == c and note.at_seconds <= when and note.sequence == 2
            for note in net.account.notifications()
        )
        for c in ("alice", "bob")
    )


def test_questions_that_come_together_are_answered_together():
    net = network()
    for number in range(1, 6):
        net.flush("p", number) if number > 1 else net.publish("p", 5, [{"n": 1}])
    net.advance(1.0)
    assert [number for _, _, number in net.flushed] == [2, 3, 4, 5]


def test_past_retention_the_loss_is_told_and_nothing_else_is():
    net = network(retention_seconds=15.0)
    publish(net, 2)
    apart = [(one, other) for one in (4, 5) for other in (0, 1, 2, 3)]
    net.cut(apart, "apart")
    publish(net, 3)
    net.advance(40.0)
    publish(net, 1)
    net.mend("apart")
    net.advance(30.0)
    assert heard(net, "bob") == [1, 2, 3, 4, 5, 6] and not net.account.losses.get("bob")
    assert heard(net, "alice") == [1, 2, 6]
    (loss,) = net.account.losses["alice"]
    assert (loss.publisher, loss.first, loss.last) == ("p", 3, 5)


@pytest.mark.parametrize("keeps_some", [True, False])
def test_a_loss_is_told_also_when_only_the_dead_have_had_the_events(keeps_some):
    """The publisher goes on elsewhere, where nobody has heard of the events that it no longer retains."""
    net = network(retention_seconds=15.0)
    publish(net, 2)
    net.cut([(one, other) for one in (2, 3) for other in (0, 1, 4, 5)], "apart")
    publish(net, 3)
    net.advance(20.0)
    if keeps_some:
        publish(net, 1)
    net.crash(4)
    net.crash(5)
    net.advance(3.0 if keeps_some else 20.0)
    publish(net, 1)
    net.mend("apart")
    net.advance(30.0)
    (loss,) = net.account.losses["alice"]
    assert (loss.publisher, loss.first, loss.last) == ("p", 3, 5)
    assert heard(net, "alice") == ([1, 2, 6, 7] if keeps_some else [1, 2, 6])


@pytest.mark.parametrize("seconds", [0.5, 3.0, 20.0])
def test_a_loss_is_told_when_the_publisher_comes_from_a_side_that_was_cut_off(seconds):
    """Also before the cut is noticed: the next events immediately reach brokers that lack earlier ones."""
    net = network(retention_events_max=2)
    publish(net, 2)
    net.cut([(one, other) for one in (4, 5) for other in (0, 1, 2, 3)], "apart")
    publish(net, 5)
    net.advance(seconds)
    assert net.move("p", 1)
    publish(net, 1)
    (loss,) = net.account.losses["alice"]
    assert (loss.publisher, loss.first, loss.last) == ("p", 3, 5)
    assert heard(net, "alice") == [1, 2, 6, 7, 8]


@pytest.mark.parametrize("stable", [True, False])
def test_who_has_had_nothing_for_long_is_told_of_no_losses_when_a_broker_dies(stable):
    """Carol has to move and dave stays where he is: what is past retention was not for them."""
    net = network(stable=stable, retention_seconds=40.0)
    net.subscribe("carol", 3, "n < 0", 1)
    net.subscribe("dave", 0, "n < 0", 1)
    for _ in range(60):
        publish(net)
    net.crash(3)
    net.advance(20.0)
    assert net.sessions["carol"].home.id != 3 and not any(net.account.losses.values())


@pytest.mark.parametrize("seed", range(4))
def test_what_a_broker_takes_in_when_it_goes_on_is_as_young_as_that(seed):
    """Otherwise what it forgets of that would seem older than the failure, and no loss would be reported."""
    settings = Recovery.for_simulator(retention_events_max=2)
    net = Simulation(ClusterTree(3, 1, degree=1).positions(), recovery=settings, seed=seed, store=in_memory)
    net.subscribe("alice", 1, "n >= 0", 1)
    net.advance(2.0)
    net.publish("p", 2, [{"n": 1}])
    net.advance(1.0)
    net.pause(2)
    for _ in range(6):
        net.publish("p", 2, [{"n": 1}])
        net.advance(5.0)
    net.resume(2)
    net.advance(30.0)
    (loss,) = net.account.losses["alice"]
    assert (loss.first, loss.last) == (2, 5) and heard(net, "alice") == [1, 6, 7]


def test_what_no_broker_has_accepted_is_not_forgotten():
    net = network(retention_events_max=2)
    publish(net, 2)
    net.crash(4)
    for _ in range(5):
        net.publish("p", 5, [{"n": 1}])
    net.crash(5)  # before anything has arrived
    net.move("p", 1)
    publish(net, 1)
    assert heard(net, "alice") == [1, 2, 3, 4, 5, 6, 7, 8] and not any(net.account.losses.values())


def test_a_publisher_that_moves_without_a_failure_tells_no_losses():
    net = network(retention_events_max=2)
    publish(net, 9)
    assert net.move("p", 1)
    publish(net, 1)
    assert heard(net, "alice") == list(range(1, 11)) and not any(net.account.losses.values())


def without_the_first(stable):
    """Return a network in which p's broker, 3, had to forget p's first event before carol, who is cut off, got it."""
    net = network(stable=stable, retention_events_max=4)
    net.subscribe("carol", 1, "n >= 0", 1)
    net.advance(2.0)
    net.cut([(one, other) for one in (0, 1) for other in (2, 3, 4, 5)], "apart")
    for publisher in "ppqqq":
        net.publish(publisher, 3, [{"n": 1}])
        net.advance(0.1)
    return net


@pytest.mark.parametrize("knows", [True, False], ids=["knows-that-it-left", "does-not-heed-it"])
@pytest.mark.parametrize("stable", [True, False])
def test_what_a_publisher_takes_along_is_not_lost_by_the_word_of_the_broker_that_it_has_left(
    stable, knows, monkeypatch
):
    """The old broker had to forget it and is nearer: in the round its stream comes first, starting midway."""
    if not knows:
        monkeypatch.setattr(Replay, "_answers_for", lambda replay, publisher: True)
    net = without_the_first(stable)
    net.move("p", 5)
    net.advance(10.0)
    net.mend("apart")
    net.advance(20.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    if not knows:
        assert verdict.violated == ["complete"] and verdict.unexplained == 1
        return
    assert verdict.holds
    assert [note[2:] for note in net.account.notifications() if note[1:3] == ("carol", "p")] == [
        ("p", 1),
        ("p", 2),
    ]
    assert not net.account.losses.get("carol")


@pytest.mark.parametrize("stable", [True, False])
def test_a_broker_that_does_not_know_yet_that_a_publisher_has_left_reports_what_it_had_to_forget(stable):
    """It is slow: the round begins there before it takes in the publisher's last event, and then the news."""
    net = without_the_first(stable)
    net.slow(3, 50.0)
    net.move("carol", 3)
    net.advance(10.0)
    net.mend("apart")
    while not any(given is not None and isinstance(given.message, Round) for given in net.hosts[3].waiting):
        assert net.now < 60.0, "no round"
        net.advance(0.01)
    net.publish("p", 3, [{"n": 1}])
    net.move("p", 5)
    net.advance(5.0)
    net.slow(3, 1.0)
    net.advance(10.0)
    net.account.settled(net.now)
    assert [note[2:] for note in net.account.notifications() if note[1:3] == ("carol", "p")] == [
        ("p", 2),
        ("p", 3),
    ]
    (loss,) = net.account.losses["carol"]
    assert (loss.publisher, loss.first, loss.last) == ("p", 1, 1)
    verdict = judge(net.account)
    assert verdict.holds and verdict.losses == {"retention": 1}, verdict.examples


def test_a_restart_within_retention_tells_no_losses():
    net = network(retention_seconds=120.0)
    for _ in range(20):
        publish(net)
        net.advance(10.0)
    net.crash(3)
    net.advance(20.0)
    net.restart(3)
    net.advance(20.0)
    publish(net)
    assert not any(net.account.losses.values()) and heard(net, "alice")[-1] == 21


def test_past_its_bounds_a_durable_subscriber_loses_by_name_and_the_letters_are_kept():
    net = network(durable_events_max=3, dead_letters_max=2)
    publish(net)
    net.stop("alice")
    publish(net, 6)
    net.start("alice")
    net.advance(2.0)
    assert heard(net, "alice") == [1, 5, 6, 7]
    (loss,) = net.account.losses["alice"]
    assert (loss.publisher, loss.first, loss.last) == ("p", 2, 4)
    durable = net.hosts[2].machine.layer(DurableClients)
    assert [(letter.sequence, letter.reason) for letter in durable.letters] == [(3, "count"), (4, "count")]
    assert durable.describe()["notes_lost"] == 3
    net.crash(2)
    net.advance(1.0)
    net.restart(2)
    assert [letter.sequence for letter in net.hosts[2].machine.layer(DurableClients).letters] == [3, 4], (
        "they are stable too"
    )


def test_epoch_term_and_round_never_run_backwards():
    net = network()
    net.crash(3)
    net.advance(10.0)
    before = net.hosts[2].machine.layer(HealingBroker)
    known = before.place.succession.epoch_seen, before.place.term, before.rounds.current
    assert known[0] > 0 and known[2] > (0, 0)
    net.crash(2)
    net.restart(2)
    after = net.hosts[2].machine.layer(HealingBroker)
    assert (after.place.succession.epoch_seen, after.place.term, after.rounds.current) == known


def test_without_a_store_nothing_is_persisted():
    kinds = set()
    net = network(
        stable=False, record=lambda step: kinds.update(type(effect).__name__ for effect in step.effects)
    )
    publish(net, 3)
    net.crash(4)
    net.advance(20.0)
    assert "Deliver" in kinds and "Persist" not in kinds


@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [
        (0, 8),
        *(slow(*each) for each in ((1, 8), (0, 12))),
        *(thorough(*each) for each in ((2, 8), (3, 8), *((seed, 12) for seed in range(1, 6)))),
    ],
)
def test_chaos_with_stores_and_clients_that_die(seed, brokers_max):
    report = run_chaos(seed, brokers_max=brokers_max, stable=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [
        slow(15, 20),
        slow(13, 30),
        *(thorough(seed, 20) for seed in (45, 47, 51, 114, 129, 233)),
        *(thorough(seed, 60) for seed in (60, 270, 451)),
    ],
)
def test_what_once_failed_with_stores_holds(seed, brokers_max):
    report = run_chaos(seed, brokers_max=brokers_max, stable=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


def test_what_is_acknowledged_is_not_kept_when_it_comes_again():
    """A moved subscriber may acknowledge events of its last broker before the round that retransmits them."""
    broker = Broker(ClusterTree(1, 1).positions()[0], recovery=Recovery.for_simulator())
    broker.handle(Ticked(0.0))
    broker.handle(Received("alice", Resume({}, incarnation=1)))
    broker.handle(Received("alice", Register(1, to_filter("n >= 0"))))
    broker.handle(Received("alice", Consumed({"p": 3}, 1)))
    batch = batch_of([{"n": 1}] * 4, publisher="p", first_sequence=1)
    effects = broker.handle(Received("p", Events(batch, retransmitted=True)))
    (deliver,) = [effect for effect in effects if isinstance(effect, Deliver)]
    assert deliver.batch.sequence[deliver.rows].tolist() == [4]
    assert len(broker.layer(DurableClients).entries["alice"]) == 1
    broker.handle(Received("alice", Consumed({"p": 4}, 1)))
    assert len(broker.layer(DurableClients).entries["alice"]) == 0
