"""Replays in virtual time: every kind of scheme, brokers that die, and chaos with its judge."""

import math
import pickle
from dataclasses import replace

import pytest
from draws import of_each_kind, seeds, slow
from rayvous.broker.pipeline import Pipeline
from rayvous.clients.past import PastReader
from rayvous.faults.checker.replays import ReplayRecord, replay_violations
from rayvous.faults.plans.replay_cases import WHERE, replays_of
from rayvous.faults.simulated.chaos import draw_sim_case, run_case, run_chaos
from rayvous.faults.simulated.replaying import Replaying
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Persist, Received
from rayvous.protocol.errors import InputError
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.handover import Bequest
from rayvous.protocol.messages.pubsub import Lost
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.traces.trace import Published
from rayvous.recovery.replay.history import FORGOTTEN, HISTORY, History
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

HEAL = [name for name, made in SCHEMES.items() if made.membership.heals]


def network(scheme="hybrid", client_detect_seconds=1.0, **recovery):
    """Three clusters of two in a chain: 0 1, 2 3, 4 5."""
    times = Recovery.for_simulator(**{"history_seconds": 86_400.0, **recovery})
    given = {"recovery": times, "store": in_memory, "client_detect_seconds": client_detect_seconds}
    return Simulation(ClusterTree(3, 2, degree=1), scheme, seed=1, **given)


def publish(net, client, broker, count, every=0.0):
    for _ in range(count):
        net.publish(client, broker, [{"n": 1}])
        net.advance(every)


def numbers(net, client, publisher):
    return [number for name, number in net.notifications(client) if name == publisher]


@pytest.mark.parametrize("scheme", of_each_kind(HEAL))
def test_history_and_the_present_meet_without_a_gap_and_without_a_duplicate(scheme):
    net = network(scheme)
    publish(net, "p", 5, 10, 1.0)
    publish(net, "q", 0, 5, 1.0)
    net.advance(100.0)  # past retransmission
    moment = net.now
    publish(net, "p", 5, 5, 0.01)
    net.subscribe_at("alice", 2, ["n = 1"], "oldest")
    net.subscribe_at("bob", 3, ["n = 1"], moment)
    net.subscribe_at("carol", 4, ["n > 5", "n = 1"], {"p": 7})
    publish(net, "p", 5, 50, 0.004)
    net.crash(2)  # alice reads on at another broker
    publish(net, "p", 5, 20, 0.004)
    net.advance(20.0)
    assert numbers(net, "alice", "p") == list(range(1, 86)) and numbers(net, "alice", "q") == [1, 2, 3, 4, 5]
    assert numbers(net, "bob", "p") == list(range(11, 86)) and numbers(net, "bob", "q") == []
    assert numbers(net, "carol", "p") == list(range(8, 86)) and numbers(net, "carol", "q") == []
    net.rewind("bob", "oldest")
    net.advance(20.0)
    assert numbers(net, "bob", "p") == list(range(1, 86)), "what it was rewound over came again"
    assert not any(net.clients.apart[client].losses for client in ("alice", "bob", "carol"))


def test_a_history_outlives_its_broker_and_is_waited_for():
    net = network()
    publish(net, "p", 5, 10, 1.0)
    net.detach("p")
    net.advance(100.0)
    beginning = net.beginning("oldest")
    assert beginning.marks == {"p": 0}
    net.crash(5)
    net.subscribe_at("alice", 2, ["n = 1"], "oldest")
    net.advance(30.0)
    assert numbers(net, "alice", "p") == []
    net.restart(5)
    net.advance(30.0)
    assert numbers(net, "alice", "p") == list(range(1, 11))


@pytest.mark.parametrize("scheme", of_each_kind(HEAL))
@pytest.mark.parametrize(
    "meanwhile", ["nothing", slow("restart"), "crash", slow("leave"), "process", slow("rewind")]
)
def test_what_only_a_broker_had_that_is_gone_comes_when_its_publisher_has_found_another_one(
    scheme, meanwhile
):
    """It is older than the subscriptions by far, and in no history when they begin: the position counts alone."""
    net = network(scheme, client_detect_seconds=46.0)
    operations = SimulatedOperations(net)
    publish(net, "q", 0, 3, 1.0)
    net.publish("p", 5, [{"n": 1}])
    net.publish("p", 5, [{"n": 1}])
    net.advance(2.5 * net.links.client_seconds)
    assert list(net.account.accepted_at["p", 2]) == [5]
    net.crash(5)
    net.clients.removed.add(5)  # the operator knows that it does not come back
    net.advance(40.0)  # longer than a failure may go unnoticed
    if meanwhile == "rewind":  # of one that began in the present
        net.subscribe("alice", 2, "n = 1", durable=True)
    else:
        net.subscribe_at("alice", 2, ["n = 1"], "oldest")
    net.run_until_installed("alice", 1)
    net.advance(1.0)
    net.clients.detect_seconds = 0.5
    if meanwhile in ("restart", "leave", "process"):
        net.stop("alice")
    if meanwhile == "leave":
        assert operations.remove_broker(2)
    elif meanwhile != "nothing":
        net.crash(2)
    if meanwhile == "restart":
        net.restart(2)
    elif meanwhile == "process":
        net.start("alice")
    elif meanwhile == "rewind":
        net.rewind("alice", "oldest")
    assert not numbers(net, "alice", "p")
    net.advance(30.0)
    net.start("alice")
    net.advance(30.0)
    assert numbers(net, "alice", "p") == [1, 2] and numbers(net, "alice", "q") == [1, 2, 3]
    assert not net.clients.account_of("alice").losses.get("alice")


def test_what_is_forgotten_is_counted_and_refused_or_reported():
    net = network(history_seconds=30.0, retention_seconds=5.0)
    publish(net, "p", 5, 10, 1.0)
    first = net.now
    net.advance(21.0)
    publish(net, "p", 5, 10, 1.0)
    with pytest.raises(InputError, match=r"older than what is retained\. Begin at='oldest'"):
        net.beginning(1.0)
    with pytest.raises(InputError, match="are not retained any more"):
        net.beginning({"p": 2})
    marks = net.beginning("oldest").marks["p"]
    assert 2 < marks < 20 and net.beginning(first).marks == {"p": 10}
    small = network(history_bytes_max=500, retention_seconds=5.0)
    publish(small, "p", 5, 50, 1.0)
    assert small.broker(5).layer(History).describe()["history_forgotten"] > 20


def test_a_trustee_has_what_it_takes_over_and_knows_what_was_forgotten():
    history = History(86_400.0, 10_000_000)
    history.append("p", batch_of([{"n": 1}], publisher="p"))
    kept = ("p", 1.0, batch_of([{"n": 4}, {"n": 5}], publisher="p", first_sequence=4))
    for _ in range(2):  # repeated until it is answered
        (inward,) = history.sees[Bequest](Received(3, Bequest(1, (kept,), (("p", 3, 2.0), ("q", 7, 2.0)))))[
            -1:
        ]
        assert isinstance(inward, Inward)
        spans = history.spans()
        assert spans["p"][:2] == (((1, 1), (4, 5)), 5) and spans["q"][:2] == ((), 7)
        history.check()


def test_brokers_do_the_same_with_and_without_a_history_that_nobody_reads(monkeypatch):
    """Every effect of every broker, bit by bit, of cases with crashes, restarts, moves and damage of stores."""
    handle, said = Pipeline._handle, []

    def handled(pipeline, event):
        effects = handle(pipeline, event)
        for effect in effects:
            if isinstance(effect, Persist):
                effect = Persist(
                    tuple(each for each in effect.writes if each.table not in (HISTORY, FORGOTTEN))
                )
                if not effect.writes:
                    continue
            said.append(pickle.dumps(effect))
        return effects

    monkeypatch.setattr(Pipeline, "_handle", handled)
    monkeypatch.setattr(Replaying, "begin", lambda replaying: None)
    for seed, options in ((3, {}), (5, {"damage": True}), (8, {"admission": True})):
        runs = []
        for seconds in (0.0, 8.0):
            case = draw_sim_case(seed, stable=True, brokers_max=4, seconds=4.0, histories=False, **options)
            times = replace(case.features.times, history_seconds=seconds, history_bytes_max=10_000)
            run_case(replace(case, recovery=times))
            runs.append(list(said))
            said.clear()
        assert runs[0] == runs[1] and len(runs[0]) > 200, seed


def test_the_judge_of_replays_names_each_condition():
    events = {("p", number): Published(1.0, "p", number, {"n": number}) for number in range(1, 6)}
    at = {event: {1: 1.5} for event in events}

    def found(
        got,
        losses=(),
        living=(1,),
        retained=at,
        silent=(),
        in_force=2.0,
        ends=2.0,
        explained=(),
        rewound=None,
    ):
        got, record = [("p", number) for number in got], ReplayRecord({"p": 1}, 0.0)
        record.in_force_at, record.past_ends = in_force, ends
        if rewound is not None:
            record.rewound({"p": rewound}, 0.0)
        given = (got, losses, events, at, lambda event: event["n"] != 4, living, retained, silent)
        problems = replay_violations(record, *given, explained=lambda event: event in explained)
        return [each.split(":")[0] for each in problems]

    assert found([2, 3, 5]) == []
    assert found([1, 2, 3, 5]) == ["not older"]
    assert found([2, 3, 3, 5]) == found([3, 2, 5]) == ["in order"]
    assert found([2, 3, 4, 5]) == ["wanted"]
    assert found([2, 5]) == ["complete"]
    assert found([2, 5], [Lost("p", 3, 4)]) == ["complete"], "somebody has it"
    assert found([2, 5], [Lost("p", 3, 4)], retained={}) == []
    assert found([2, 5], [Lost("p", 3, 4)], silent=[(Lost("p", 3, 4), {1})]) == [], (
        "who had it did not answer"
    )
    assert found([2, 5], [Lost("p", 3, 4)], silent=[(Lost("p", 3, 4), {2})]) == ["complete"]
    assert found([2, 5], living=(), retained={}) == [], "nobody may know"
    told = [Lost("p", 3, 4)]
    assert found([2, 5], told, in_force=1.2, ends=1.2, explained=[("p", 3)]) == [], (
        "of the present, by a limit"
    )
    assert found([2, 5], told, in_force=1.2, ends=1.2) == ["complete"], "of the present, by no limit"
    assert found([2, 5], told, in_force=1.2, ends=1.2, rewound=2) == [], "forgotten before it was read again"
    assert found([2, 5], told, in_force=1.2, ends=1.2, rewound=3) == ["complete"], "that is in front of it"
    assert found([2, 5], told, in_force=1.2, ends=math.inf) == [], "who did not answer may have had it"


def test_chaos_draws_replays_of_every_kind_and_finds_one_that_is_wrong(monkeypatch):
    drawn = [each for seed in range(20) for each in replays_of(draw_sim_case(seed, stable=True))]
    assert {each.begins.where for each in drawn} == set(WHERE)
    assert any(each.rewinds for each in drawn) and any(each.deaths for each in drawn)
    assert not any(replays_of(draw_sim_case(seed)) for seed in range(5))
    kept = {draw_sim_case(seed, stable=True).features.keeps_history for seed in range(20)}
    assert kept == {False, True}
    took = PastReader.took
    monkeypatch.setattr(PastReader, "took", lambda *given: took(*given) and None)
    report = run_chaos(0, stable=True, brokers_max=4, faults_max=1)
    assert any("complete" in problem for problem in report.problems)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20, usual=4))
def test_chaos_with_replays_keeps_the_promises(seed):
    report = run_chaos(seed, stable=True, operations=True)
    assert report.verdict.holds and not report.problems, report.replay


@pytest.mark.slow
@pytest.mark.parametrize("seed", [204, 213])
def test_nothing_is_owed_to_a_subscription_that_was_refused(seed):
    """With admission control; in these two cases one of two subscriptions of a subscriber is refused."""
    report = run_chaos(seed, stable=True, admission=True, operations=True, brokers_max=8, seconds=10.0)
    assert report.verdict.holds and not report.problems, report.replay


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "scheme"), [(3379, "lbdd"), (4131, "flooding")])
def test_an_event_that_no_broker_had_when_the_past_began_comes(seed, scheme):
    """A publisher without a broker has it, and waits at the next one until its advertisement is known."""
    case = draw_sim_case(
        seed, stable=True, admission=True, operations=True, scheme=scheme, brokers_max=16, seconds=12.0
    )
    assert run_case(case).problems == []
