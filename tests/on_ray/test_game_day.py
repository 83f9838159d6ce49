"""A game day of a named network with its real clients: it is broken, heals, and what is wrong is found."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from rayvous.faults.checker.conditions import Rule
from rayvous.faults.checker.ltl import earlier
from rayvous.faults.checker.predicates import clients, events, notify
from rayvous.faults.game_day import terms
from rayvous.faults.real import canary
from rayvous.protocol.errors import InputError

RAYVOUS = Path(sys.executable).with_name("rayvous")


@pytest.fixture(scope="module")
def flights(ray_started: None) -> Iterator[rv.Network]:
    recovery = rv.Recovery.for_tests()
    with rv.Network.launch(rv.ClusterTree(2, 2), name="game-days", recovery=recovery, chaos=True) as net:
        net.await_convergence(PATIENCE_SECONDS)
        yield net
        net.inspect.check()


def test_it_is_killed_paused_and_reset_under_traffic_and_keeps_its_promises(
    flights: rv.Network, traffic_at: Callable[..., Any]
) -> None:
    traffic = traffic_at(flights, {"all": 0, "odd": 2, "few": 3}, {"p": 1, "q": 2})
    refused, said = list[str](), list[str]()
    enough = threading.Event()

    def progress(now: float, what: str) -> None:
        said.append(what)
        if len(said) == 1:
            with pytest.raises(InputError) as second:
                rv.game_day(flights)
            refused.append(str(second.value))
        if {"kill", "pause", "reset", "cut"} <= {one.split()[2] for one in said if one.startswith("fault ")}:
            enough.set()

    with traffic.flowing():
        report = rv.game_day(
            flights,
            seconds=600,
            per_minute=60,
            kinds="kill,pause,reset,cut",
            stop=enough,
            progress=progress,
            seed=1609,
        )
    assert report.holds and report.reason == "it was interrupted" and not report.left_dead, report.to_dict()
    assert {fault.strike.kind for fault in report.faults} == {"kill", "pause", "reset", "cut"}
    assert all(fault.whole_seconds is not None for fault in report.faults)
    assert "has a game day already" in refused[0]
    assert sum(row.notified for row in report.latencies) == report.verdict.notifications_delivered
    assert sum(row.published for row in report.latencies) == report.verdict.events_published
    traffic.verify(100, PATIENCE_SECONDS)
    status = flights.status()
    assert status.healthy and [note.text for note in status.notes] == said


def test_a_condition_of_the_user_and_a_subscriber_that_drops_are_found(
    flights: rv.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = Rule(
        "twice", "who is notified of an event was so before", (clients, events), when=notify,
        then=lambda client, event: earlier(notify(client, event)) & ~notify(client, event),
    )  # fmt: skip
    report = rv.game_day(flights, seconds=600, conditions=[mutant])
    assert report.outcome == "violated" and report.verdict.violated == ["twice"] and not report.faults
    with pytest.raises(InputError, match="conditions is 5: it must be a Rule"):
        rv.game_day(flights, conditions=[5])
    report = rv.game_day(flights, seconds=600, conditions=[lambda: ["nobody pays"]])
    assert report.outcome == "violated" and report.problems == ["<lambda>: nobody pays"]

    monkeypatch.setattr(terms, "HEAL_SECONDS_MIN", 3.0)
    monkeypatch.setattr(terms, "HEAL_SUSPICIONS", 1)
    heard = canary.arrived
    monkeypatch.setattr(
        canary, "arrived", lambda one: heard(one) if not one.name.endswith("s3") else heard(one)[1:]
    )
    report = rv.game_day(flights, seconds=600)
    assert report.verdict.violated == ["complete"] and report.reason.startswith("complete: ")


def test_what_lasts_ends_by_itself_when_the_process_of_the_game_day_is_killed(flights: rv.Network) -> None:
    address = ray.get_runtime_context().gcs_address
    words = [
        "chaos",
        "--network",
        flights.name,
        "--kinds",
        "slow",
        "--rate",
        "60/min",
        "--yes",
        "--address",
        address,
    ]
    with subprocess.Popen([RAYVOUS, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "  fault 1: slow" in line)
        process.kill()
    assert line
    until(lambda: not any(flights.inject(lambda host: host.transport.passage is not None)))
    from rayvous.actors.host.handle import HostHandle
    from rayvous.faults.real.processes import PauseProcess

    host = HostHandle(flights.inspect.host_of(1))
    (_, pid), begun = ray.get(host.pid()), time.monotonic()
    host.inject(PauseProcess(1.0))
    state = Path(f"/proc/{pid}/stat")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
    ray.get(host.pid())
    assert time.monotonic() - begun >= 0.9
    assert flights.await_convergence(PATIENCE_SECONDS) >= 0


def test_a_network_that_is_closed_meanwhile_ends_it_and_nothing_is_said_of_it(ray_started: None) -> None:
    recovery = rv.Recovery.for_tests()
    net = rv.Network.launch(rv.ClusterTree(1, 2), name="soon-closed", recovery=recovery, chaos=True)
    net.await_convergence(PATIENCE_SECONDS)

    def progress(now: float, what: str) -> None:
        if what.startswith("fault 1:"):
            rv.Network.attach(net.name).shutdown()

    report = rv.game_day(net, seconds=600, per_minute=60, kinds="slow", progress=progress)
    assert report.reason == "the network was closed meanwhile" and not report.problems, report.to_dict()
    assert report.outcome == "undecided" and len(report.faults) == 1
    net.close()
