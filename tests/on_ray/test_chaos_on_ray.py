"""Chaos on real actors: brokers are killed, paused, cut off and restarted; every promise holds (1-3, 6)."""

import time
from pathlib import Path

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.actors.network.status import status_of
from rayvous.faults.plans import plans
from rayvous.faults.plans.plans import FaultPlan
from rayvous.faults.real.crash import crash
from rayvous.faults.real.injector import Breaker
from rayvous.faults.real.run import run_ray_chaos
from rayvous.protocol.messages.recovery import Recovery

EVERYTHING_SEED = 5
LOOK_SECONDS = 1.0


def test_everything_at_once(ray_started: None, tmp_path: Path) -> None:
    """Brokers crash, restart from their files, join and leave; clients are killed; all books stay correct.

    Reference: promises 1 to 3 and 6 to 8.
    """
    report = run_ray_chaos(EVERYTHING_SEED, stable=True, admission=True, operations=True, store_dir=tmp_path)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    assert report.verdict.notifications_expected > 0
    said = [what for _, what in report.timeline]
    assert any(what.startswith("fault: restart") for what in said)
    killed = {what.split()[1] for what in said if what.endswith("is killed")}
    back = {what.split()[1] for what in said if what.endswith("is back")}
    assert killed == back and {name[0] for name in killed} == {"s", "p"}
    assert sum(what.startswith("operation: ") for what in said) == len(report.case["operations"]) >= 2
    assert report.admission["admitted"] > 0
    files = list((tmp_path / f"seed-{EVERYTHING_SEED}").glob("broker-*.sqlite"))
    assert len(files) >= report.brokers, "those that came and left have theirs"


def test_brokers_of_a_network_without_a_tree_die_leave_and_come_back(ray_started: None) -> None:
    """Several crash at once, one of which forwards events for others. Other schemes: `test_healing_views.py`.

    Reference: promises 1 to 3 and 6; paper 5, 3.4.
    """
    plan = FaultPlan(
        "views",
        (
            plans.Crash(0.3, 0),
            plans.Crash(0.3, 3),
            plans.Leave(0.8, 1),
            plans.Cut(1.0, 2, 4),
            plans.Restart(2.5, 0),
            plans.Mend(3.0, 2, 4),
        ),
        heal_seconds=3.5,
        stay_dead=(3,),
    )
    report = run_ray_chaos(1, brokers_max=6, plan=plan, scheme="hypercube")
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    assert report.verdict.notifications_expected > 0 and report.moves > 0
    said = [what for _, what in report.timeline]
    assert len([what for what in said if what.startswith("fault: ")]) == len(plan.faults)
    assert any(what.startswith("view") for what in said) and "converged" in said


def test_state_that_is_damaged_is_found_and_mended(ray_started: None, tmp_path: Path) -> None:
    """A broker that detects its damage restarts, a damaged store is cleared, and later events arrive.

    Reference: paper 4, section 2 and definition 8.
    """
    drawn = [  # so many because some damage is repaired by others before it is detected
        fault
        for i in range(6)
        for fault in (
            plans.Damage(0.1 + i / 4, 0, "numbers"),
            plans.Damage(0.2 + i / 4, 1, "membership"),
        )
    ]
    known = [
        plans.Damage(0.4, 2, "store"),
        plans.Crash(0.4, 2),
        plans.Restart(1.5, 2),
        plans.Damage(1.7, 3, "positions"),
    ]
    faults = sorted([*drawn, *known], key=lambda fault: fault.at_seconds)
    plan = FaultPlan("damage", tuple(faults), heal_seconds=3.0)
    report = run_ray_chaos(1, brokers_max=4, plan=plan, stable=True, store_dir=tmp_path)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    assert report.verdict.notifications_expected > 0
    said = [what for _, what in report.timeline]
    harmed = [what.rsplit(": ", 1)[1] for what in said if what.startswith("fault: damage")]
    for kind in ("numbers", "membership", "store"):
        assert any(what.endswith(f"values of its {kind}") and what[0] != "0" for what in harmed), kind
    assert any(what.endswith("has seen that its state is damaged, and starts again") for what in said)
    assert "converged" in said


def test_stopped_slow_shaken_and_cut_off(ray_started: None) -> None:
    """Faults that are not crashes: no broker is lost, and one that comes back rejoins the tree."""
    plan = FaultPlan(
        "not dead",
        (
            plans.CutClusters(0.2, 0, 1),
            plans.Slow(0.3, 0, 20.0),
            plans.Shake(0.5, 2.0, delay_seconds=0.05, drop=0.05, duplicate=0.05),
            plans.Pause(0.6, 3),
            plans.MendClusters(3.0, 0, 1),
            plans.Partition(3.5, (2,), True),
            plans.Resume(4.5, 3),
            plans.Heal(5.5),
        ),
        heal_seconds=6.0,
    )
    report = run_ray_chaos(3, brokers_max=6, plan=plan)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    said = [what for _, what in report.timeline]
    assert len([what for what in said if what.startswith("fault: ")]) == len(plan.faults)
    assert any(what.startswith(("suspicion", "takeover")) for what in said) and "converged" in said


def test_connections_that_are_reset_not_read_and_refused(ray_started: None) -> None:
    """No process dies, so no broker is declared dead, and every promise holds."""
    plan = FaultPlan(
        "connections",
        (
            plans.ResetConnections(0.3, 1),
            plans.ResetConnections(0.8, 0),
            plans.StopReading(1.2, 3, 1.5),
            plans.RefuseConnections(3.0, 1, 1.5),
            plans.ResetConnections(3.5, 2),
            plans.StopReading(4.5, 0, 60.0),  # it ends with everything
        ),
        heal_seconds=5.0,
    )
    report = run_ray_chaos(1, brokers_max=4, plan=plan, links="direct")
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    said = [what for _, what in report.timeline]
    harmed = [what for what in said if what.startswith("fault: ")]
    assert len(harmed) == len(plan.faults) and not any(
        " has " in what or "calls of Ray" in what for what in harmed
    )
    refused = next(at for at, what in report.timeline if "refuse connections" in what)
    after = [what for at, what in report.timeline if refused < at < refused + 0.5]
    assert not [what for what in after if what.startswith("takeover: broker 0 ")], "broker 1 lives"


def test_a_broker_stands_still_and_then_a_whole_cluster_dies_and_is_started_again(ray_started: None) -> None:
    with rv.Network.launch(rv.ClusterTree(2, 2), recovery=Recovery.for_tests()) as net:
        net.await_convergence(PATIENCE_SECONDS)
        clients_leave_a_broker_that_stands_still_and_it_does_not_deliver_to_them_later(net)
        net.await_convergence(PATIENCE_SECONDS)
        a_whole_cluster_dies_and_is_started_again(net)


def clients_leave_a_broker_that_stands_still_and_it_does_not_deliver_to_them_later(net: rv.Network) -> None:
    victim = max(place.broker for place in net.inspect.positions)
    pid, host = net.inspect.pid_of(victim), net.inspect.host_of(victim)
    subscriber = net.subscriber("s", broker=victim)
    publisher = net.publisher("p", broker=victim)
    subscriber.subscribe("x >= 0")
    publisher.publish({"x": 0})
    breaker = Breaker(net, time.monotonic)
    assert breaker.pause(victim) and not breaker.pause(victim)
    try:
        began = time.monotonic()
        seen = status_of(net._hosts, net._convergence, LOOK_SECONDS)
        assert time.monotonic() - began < PATIENCE_SECONDS, "who does not answer is not waited for"
        assert [one.state for one in seen.brokers] == ["alive"] * victim + ["silent"]
        assert [bool(one.sizes) for one in seen.brokers] == [True] * victim + [False]
        assert not seen.healthy
        assert publisher.publish({"x": 1}) == 2, "at another broker"
        assert victim not in (subscriber.broker, publisher.broker)
    finally:
        assert breaker.resume(victim)
    for x in range(2, 20):
        publisher.publish({"x": x})
    net.settle(PATIENCE_SECONDS)
    assert [note.event["x"] for note in subscriber.notifications(0)] == list(range(20))
    assert net.inspect.pid_of(victim) == pid and net.inspect.host_of(victim) == host
    net.await_convergence(PATIENCE_SECONDS)  # it may have been suspected, and then has to rejoin
    assert net.inspect.describe().nodes[victim]["subscribers"] == 0
    assert publisher.move_to(victim) == victim == subscriber.move_to(victim)
    publisher.publish({"x": 20})
    net.settle(PATIENCE_SECONDS)
    assert [note.event["x"] for note in subscriber.notifications(0)] == [20]


def a_whole_cluster_dies_and_is_started_again(net: rv.Network) -> None:
    victims = [
        place.broker for place in net.inspect.positions if place.role != "REB" and place.parent is not None
    ]
    victims = list(next(place.members for place in net.inspect.positions if place.broker == victims[0]))
    elsewhere = rv.Network.attach(net.name)
    subscriber = elsewhere.subscriber("t", broker=victims[0])
    publisher = net.publisher("q", broker=victims[1])
    subscriber.subscribe("x >= 0")
    publisher.publish({"x": 0})
    with pytest.raises(rv.InputError, match=f"broker {victims[0]} is alive"):
        net.restart_broker(victims[0])
    for victim in victims:
        crash(net, victim)
    publisher.publish({"x": 1})
    net.await_convergence(PATIENCE_SECONDS)
    for victim in victims:
        net.restart_broker(victim)
    net.await_convergence(PATIENCE_SECONDS)
    assert set(net.inspect.survey()) == {place.broker for place in net.inspect.positions}
    assert set(elsewhere.inspect.survey()) == set(net.inspect.survey()), (
        "another process finds the new actors"
    )
    assert publisher.move_to(victims[0]) == victims[0]
    publisher.publish({"x": 2})
    assert subscriber.move_to(victims[1]) == victims[1]
    publisher.publish({"x": 3})
    elsewhere.settle(PATIENCE_SECONDS)
    assert [note.event["x"] for note in subscriber.notifications(0)] == [0, 1, 2, 3]
    elsewhere.close()
