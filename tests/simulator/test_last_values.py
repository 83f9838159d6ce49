"""The last event per key in virtual time: where it begins, deaths while it is handed on, and chaos with its judge."""

from dataclasses import replace

import pytest
from draws import of_each_kind, seeds
from rayvous.clients.last_values import LastValues
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.faults.checker.last_values import LastRecord, last_value_violations
from rayvous.faults.plans.replay_cases import LAST_PER, last_values_of
from rayvous.faults.simulated.chaos import draw_sim_case, run_case, run_chaos
from rayvous.protocol.messages.pubsub import Lost
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.traces.trace import Published
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree, topology_of
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.sessions import HAND_ON_SECONDS
from rayvous.simulator.simulation import Simulation

HEAL = [name for name, made in SCHEMES.items() if made.membership.heals]


def network(scheme="hybrid", **recovery):
    """Three clusters of two in a chain: 0 1, 2 3, 4 5."""
    times = Recovery.for_simulator(**{"history_seconds": 86_400.0, **recovery})
    return Simulation(ClusterTree(3, 2, degree=1), scheme, recovery=times, store=in_memory, seed=1)


def publish(net, client, broker, *keys, every=0.1):
    for key in keys:
        net.publish(client, broker, [{"k": key, "n": 1}])
        net.advance(every)


@pytest.mark.parametrize("scheme", of_each_kind(HEAL))
def test_the_last_event_of_each_key_comes_before_the_present_once_and_in_order(scheme):
    net = network(scheme)
    publish(net, "p", 5, "a", "b", "a", "c", "b")
    publish(net, "q", 0, "c", "d")
    net.publish("q", 0, [{"n": 1}])  # of no key
    net.advance(100.0)  # past retransmission
    moment = net.now
    publish(net, "p", 5, "d")
    net.subscribe_at("alice", 2, ["n = 1"], "oldest", "k")
    net.subscribe_at("bob", 3, ["n = 1"], moment, "k")
    net.subscribe_at("carol", 4, ["k = 'a'", "k = 'b'"], {"p": 0}, "_publisher")
    net.advance(0.5)
    publish(net, "p", 5, *"aaaa", every=0.1)
    net.crash(2)  # alice, who is given the events of the past one by one, goes on at another broker
    net.advance(20.0)
    present = [("p", number) for number in (7, 8, 9, 10)]
    assert net.notifications("alice") == [("p", 3), ("p", 5), ("q", 1), ("p", 6), *present]
    assert net.notifications("bob") == [("p", 6), *present]
    assert net.notifications("carol") == [("p", 5), *present]
    assert not any(net.clients.apart[client].losses for client in ("alice", "bob", "carol"))


def test_a_process_that_dies_while_they_are_handed_on_is_followed_by_one_that_gets_the_others():
    net = network()
    publish(net, "p", 5, "a", "b", "c", "d")
    publish(net, "q", 0, "d", "e", "a", "f", "g")
    net.subscribe_at("alice", 2, ["n = 1"], "oldest", "k")
    everything = [("p", 2), ("p", 3), ("q", 1), ("q", 2), ("q", 3), ("q", 4), ("q", 5)]
    while len(net.notifications("alice")) < 5:
        net.advance(HAND_ON_SECONDS / 3)
    assert net.stop("alice")
    had = net.notifications("alice")
    assert 0 < len(had) < 5, "what it had not acknowledged is not counted"
    publish(net, "p", 5, "a")
    assert net.start("alice")
    net.advance(20.0)
    assert net.notifications("alice") == [*everything, ("p", 5)]
    machine = net.sessions["alice"].subscriber
    assert machine.past["todo"] == {} and machine.position == {"p": 5, "q": 5}


def test_an_expired_event_is_not_handed_on_and_neither_is_the_one_before_it():
    net = network()
    publish(net, "p", 5, "a", "b")
    net.publish("p", 5, [{"k": "a", "n": 1}], ttl=0.5)
    net.advance(2.0)
    net.subscribe_at("alice", 2, ["n = 1"], "oldest", "k")
    net.advance(10.0)
    assert net.notifications("alice") == [("p", 2)]


def test_a_rewound_subscriber_gets_every_event():
    net = network()
    publish(net, "p", 5, "a", "b", "a")
    net.subscribe_at("alice", 2, ["n = 1"], "oldest", "k")
    net.advance(10.0)
    assert net.notifications("alice") == [("p", 2), ("p", 3)]
    net.rewind("alice", "oldest")
    net.advance(10.0)
    assert net.notifications("alice") == [("p", 1), ("p", 2), ("p", 3)]


def test_the_judge_of_last_values_names_each_condition():
    keys = {
        ("p", 1): "a",
        ("p", 2): "b",
        ("p", 3): "a",
        ("q", 1): "a",
        ("q", 2): "c",
        ("p", 4): "b",
        ("p", 5): None,
    }
    events = {
        event: Published(float(at), *event, {} if key is None else {"k": key})
        for at, (event, key) in enumerate(keys.items())
    }
    at = {event: {1: published.at_seconds} for event, published in events.items()}

    def found(
        got,
        losses=(),
        *,
        present_from=5.0,
        there=events,
        retained=events,
        living=(1,),
        expires=(),
        marks=None,
    ):
        record = LastRecord(marks or {}, 0.0, "k", there)
        record.past_ends = present_from
        given = (got, losses, events, at, lambda event: event.get("k") != "c", living, retained, expires)
        return [each.split(":")[0] for each in last_value_violations(record, *given)]

    p, q = "p", "q"
    right = [(p, 2), (q, 1), (p, 4)]  # the past is to 5.0, so (p, 4) and (p, 5) are present
    assert found([(q, 1), (p, 2), (p, 4), (p, 5)], there=list(events)[:5]) == []
    assert found(right, there=list(events)[:5]) == ["complete"], "(p, 5) is present, and has no key"
    assert found(right, present_from=9.0, there=list(events)[:5]) == []
    assert found([(q, 1), (p, 4)], present_from=9.0) == []
    assert found([(q, 1), (p, 4), (p, 5)], there=()) == ["complete"], (
        "what is present does not replace (p, 2)"
    )
    assert found([(p, 4)], present_from=9.0) == ["complete"] * 3, "of a there is none"
    assert found([(p, 4)], [Lost(q, 1, 1)], present_from=9.0) == [], "the last of a is told"
    assert found([(p, 3), (p, 4)], present_from=9.0) == ["complete"], "it is not the last"
    assert found([(p, 3), (q, 1), (p, 4)], present_from=9.0) == ["only the last"]
    assert found([(p, 3), (q, 1), (p, 4)], present_from=9.0, retained={(p, 3), (p, 2)}) == [], (
        "forgotten since"
    )
    assert found([(q, 1), (p, 4), (p, 5)], present_from=9.0) == ["keyed"]
    assert found([(q, 1), (q, 2), (p, 4)], present_from=9.0) == ["wanted"]
    assert found([(p, 4), (p, 2), (q, 1)], there=(), present_from=9.0) == ["in order"]
    assert found([(p, 1), (q, 1), (p, 4)], there=(), present_from=9.0, marks={p: 1}) == ["not older"]
    assert found([(q, 1)], present_from=9.0, expires={(p, 4)}) == [], "it replaces the one before it"


def test_chaos_draws_last_values_of_every_kind_and_finds_what_is_wrong(monkeypatch):
    drawn = [each for seed in range(30) for each in last_values_of(draw_sim_case(seed, stable=True))]
    assert {each.last_per for each in drawn} == set(LAST_PER) and any(each.deaths for each in drawn)
    assert not any(last_values_of(draw_sim_case(seed)) for seed in range(5))
    case = _one_that_waits()
    assert not run_case(case).problems
    with monkeypatch.context() as patch:
        patch.setattr(LastValues, "chosen", lambda *given: [])
        assert any("complete" in problem for problem in run_case(case).problems)
    with monkeypatch.context() as patch:
        add = LastValues.add

        def keeps_all(values, batch):
            values._key = "price"  # nearly every event has another
            add(values, batch)

        patch.setattr(LastValues, "add", keeps_all)
        assert any("only the last" in problem for problem in run_case(case).problems)
    begin_past = SubscriberMachine.begin_past
    with monkeypatch.context() as patch:
        patch.setattr(SubscriberMachine, "begin_past", lambda *given: begin_past(*given[:-1]))
        assert any("only the last" in problem for problem in run_case(case).problems)


def _one_that_waits():
    """Return a case in which a subscriber comes late and wants a lot."""
    for seed in range(100):
        case = draw_sim_case(seed, stable=True, brokers_max=6, faults_max=1)
        if len(topology_of(case.topology).positions()) > 2 and any(
            "TRUE" in each.selectors and each.begins.where == "oldest" for each in last_values_of(case)
        ):
            large = replace(case.features.times, history_seconds=86_400.0, history_bytes_max=10_000_000)
            return replace(case, recovery=large)
    raise AssertionError("none is drawn")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
def test_chaos_with_last_values_keeps_the_promises(seed):
    report = run_chaos(seed + 5_000, stable=True, operations=True, brokers_max=16, seconds=10.0)
    assert report.verdict.holds and not report.problems, report.replay
