"""Events with a time to live, in virtual time: dropped when it has passed, counted, owed to nobody; in every scheme."""

import pytest
from draws import of_each_kind, seeds, slow
from rayvous.faults.checker.expiry import late_notifications
from rayvous.faults.checker.reliability import judge
from rayvous.faults.plans.expiry_cases import with_ttls
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import sessions, transport
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(clusters=3, brokers_per_cluster=2)


@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
def test_what_is_late_reaches_nobody_and_what_is_in_time_everybody(scheme):
    simulation = Simulation(TREE, scheme)
    for client, broker in (("near", 5), ("far", 0)):
        simulation.run_until_installed(client, simulation.subscribe(client, broker, "n > 0"))
    simulation.publish("p", 5, [{"n": 1}, {"n": 2}], ttl=1e-6)
    simulation.publish("p", 5, [{"n": 3}], ttl=60.0)
    simulation.publish("p", 5, [{"n": 4}])
    simulation.run()
    assert simulation.notifications("near") == simulation.notifications("far") == [("p", 3), ("p", 4)]
    assert simulation.past_ttl >= 2
    simulation.account.settled(simulation.now)
    verdict = judge(simulation.account)
    assert verdict.holds and verdict.lost == 4, "what has expired is owed to nobody, and everything else is"


@pytest.mark.parametrize("stores", [False, True])
def test_a_durable_subscriber_that_is_away_for_longer_does_not_get_it(stores):
    recovery = Recovery()
    simulation = Simulation(TREE, recovery=recovery, store=in_memory if stores else None)
    simulation.run_until_installed("s", simulation.subscribe("s", 0, "n > 0", durable=True))
    simulation.publish("p", 5, [{"n": 1}])
    simulation.advance(3.0)
    simulation.stop("s")
    simulation.publish("p", 5, [{"n": 2}, {"n": 3}], ttl=5.0)
    simulation.publish("p", 5, [{"n": 4}], ttl=500.0)
    simulation.advance(3.0)
    held = simulation.broker(0).layer(DurableClients)
    assert len(held.entries["s"]) == held.entries["s"].outstanding == 3
    simulation.advance(5.0)
    assert held.entries["s"].outstanding == 1 and held.past_ttl == 2 and not held.letters
    assert held.describe()["notes_past_ttl"] == 2
    if stores:  # nor does the broker's next process have it
        simulation.crash(0)
        simulation.restart(0)
        simulation.advance(20.0)
        assert simulation.broker(0).layer(DurableClients).entries["s"].outstanding == 1
    simulation.start("s")
    simulation.advance(20.0)
    assert simulation.notifications("s") == [("p", 1), ("p", 4)]


def chaos(seed, **options):
    case = draw_sim_case(
        seed, stable=True, admission=True, operations=True, brokers_max=8, seconds=10.0, **options
    )
    return run_case(case, keep_trace=True)


@pytest.mark.parametrize("seed", [*seeds(20, quick=2), slow(27)])
def test_chaos_with_everything_on_hands_nothing_over_late(seed):
    report = chaos(seed)
    assert report.holds, (report.problems, report.verdict)


def test_half_of_the_cases_have_times_to_live_and_the_rest_of_a_case_is_as_it_was():
    drawn = [draw_sim_case(seed, brokers_max=4, seconds=5.0) for seed in range(20)]
    expiring = [case for case in drawn if any(action.ttl_seconds for action in case.actions)]
    assert 4 < len(expiring) < 16
    plain = draw_sim_case(expiring[0].seed, brokers_max=4, seconds=5.0, expiring=False)
    assert with_ttls(plain) == expiring[0] and plain.closing == expiring[0].closing


def test_the_judge_notices_a_network_that_does_not_look_at_the_time(monkeypatch):
    monkeypatch.setattr(sessions, "timely", lambda deliver, now: (deliver, 0))
    monkeypatch.setattr(sessions, "living", lambda batch, rows, now: rows)
    monkeypatch.setattr(transport, "passable", lambda events, now: (events, 0))
    found = [problem for seed in (0, 2) for problem in chaos(seed).problems]
    assert any(problem.startswith("timely: ") for problem in found), found


def test_the_judge_notices_what_is_dropped_before_its_time(monkeypatch):
    monkeypatch.setattr(
        sessions, "living", lambda batch, rows, now: rows[: 0 if len(batch.columns) > 3 else None]
    )
    simulation = Simulation(TREE)
    simulation.run_until_installed("s", simulation.subscribe("s", 0, "a > 0"))
    simulation.publish("p", 5, [{"a": 1, "b": 1, "c": 1}], ttl=60.0)
    simulation.run()
    simulation.account.settled(simulation.now)
    assert judge(simulation.account).violated == ["complete"]


def test_a_notification_may_be_as_late_as_clocks_differ():
    simulation = Simulation(TREE)
    simulation.run_until_installed("s", simulation.subscribe("s", 0, "a > 0"))
    simulation.publish("p", 5, [{"a": 1}], ttl=60.0)
    simulation.run()
    (note,) = simulation.account.notifications()
    expires = {("p", 1): note.at_seconds - 0.2}
    assert late_notifications([note], expires, 0.3) == [] and len(late_notifications([note], expires)) == 1
