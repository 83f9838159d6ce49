"""Links of hosts in a run: which brokers are silent behind them, are back, or were given up by Ray."""

from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError
from rayvous.faults.machines.layout import Layout
from rayvous.faults.plans.plans import HostLink, StopReading
from rayvous.faults.real import injector
from rayvous.faults.real.connection_faults import ConnectionHarm
from rayvous.faults.real.injector import Breaker
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(2, 2).positions()
BOUND_SECONDS = 60.0
HOSTS = 2
"""Brokers 1 and 3 stand on host 1."""


class Run:
    """A breaker whose brokers answer as `answers` says; time passes while it sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.links: list[tuple[Any, ...]] = []
        self.answers: dict[int, Any] = {}  # a broker without an entry does not answer
        self.asked = 0
        monkeypatch.setattr(injector, "node_ids", lambda layout: ["a", "b"])
        monkeypatch.setattr(injector.links, "cut", lambda layout, host: self.links.append(("cut", host)))
        monkeypatch.setattr(injector.links, "change", lambda layout, *what: self.links.append(what))
        monkeypatch.setattr(injector.ray, "wait", self.wait)
        monkeypatch.setattr(injector.ray, "get", self.get)
        monkeypatch.setattr(injector.time, "sleep", self.passes)
        self.breaker = Breaker(self, lambda: self.now, layout=Layout(HOSTS))  # type: ignore[arg-type]

    # The part of a network that a breaker uses.

    scheme, rendezvous, positions = "hybrid", None, PLACES
    directory = SimpleNamespace(channels=None)

    @property
    def inspect(self) -> "Run":
        return self

    def hosts(self) -> list[Any]:
        return list(PLACES)

    def brokers(self) -> list[int]:
        return [place.broker for place in PLACES]

    def pid_of(self, broker: int) -> int:
        return 1 << 30

    def node_of(self, broker: int) -> str:
        return "ab"[broker % HOSTS]

    def host_of(self, broker: int) -> Any:
        def ask(*_: Any) -> tuple[int, int]:
            self.asked += 1
            return broker, self.asked

        return SimpleNamespace(
            pid=SimpleNamespace(remote=ask), inject=SimpleNamespace(remote=lambda fault: (broker, fault))
        )

    # Fakes of Ray and of time.

    def wait(self, calls: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return [call for call in calls if call[0] in self.answers], []

    def get(self, call: tuple[int, int]) -> Any:
        answer = self.answers[call[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def passes(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < BOUND_SECONDS, "it asks for ever"
        if self.now > 4.0:
            self.answers = {1: ("b", 1), 3: ActorDiedError()}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_who_is_behind_a_cut_link_is_silent_until_he_answers_or_ray_says_that_he_is_dead(run: Run) -> None:
    breaker = run.breaker
    assert breaker.host_link(HostLink(0.0, 1, 2.0)) and run.links == [("cut", 1)]
    assert breaker.silent() == [1, 3]
    breaker.run()  # the link is mended at 2 s, answers come after 4 s
    assert run.links == [("cut", 1), (1,)] and run.now > 4.0
    assert breaker.silent() == breaker.dead() == [3]


def test_no_link_is_cut_while_brokers_are_asked_that_would_not_answer_any_more(run: Run) -> None:
    cut = Thread(target=run.breaker.host_link, args=[HostLink(0.0, 1, 2.0)])
    with run.breaker.asking:
        cut.start()
        cut.join(0.05)
        assert run.links == [] and run.breaker.silent() == []
    cut.join()
    assert run.links == [("cut", 1)] and run.breaker.silent() == [1, 3]


def test_who_cannot_be_reached_yet_is_asked_again(run: Run) -> None:
    run.answers = {1: ActorUnavailableError("not now", None), 3: ("b", 3)}
    run.breaker.host_link(HostLink(0.0, 1, 1.0))
    run.breaker.run()
    assert run.asked > 10 and 1 not in run.breaker.dead()


def test_behind_a_slow_or_lossy_link_nobody_is_silent(run: Run) -> None:
    run.breaker.host_link(HostLink(0.0, 1, 1.0, megabits_per_second=0.5))
    assert run.links == [(1, 0.5, 0.0)] and run.breaker.silent() == []


def test_when_all_heals_links_are_good_again_once(run: Run) -> None:
    run.answers = {1: ("b", 1), 3: ("b", 3)}
    run.breaker.host_link(HostLink(0.0, 1, 50.0))
    run.breaker.calm()
    assert run.links == [("cut", 1), (1,)] and run.breaker.silent() == []
    run.breaker.run()  # the scheduled end of the cut comes later, and does nothing
    assert run.links == [("cut", 1), (1,)]


def test_without_hosts_nothing_is_done(run: Run) -> None:
    breaker = Breaker(run, lambda: 0.0)  # type: ignore[arg-type]
    assert not breaker.host_link(HostLink(0.0, 1, 2.0)) and not run.links


def test_who_is_behind_a_cut_link_has_not_ended_of_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that ended itself is restarted at once; one behind a cut link only when everything heals."""
    monkeypatch.setattr(run, "hosts", list)  # no host is known to be alive
    monkeypatch.setattr(run.breaker, "restart", lambda broker: True)
    run.breaker.host_link(HostLink(0.0, 1, 2.0))
    assert run.breaker.start_fallen() == [0, 2]


def test_who_dies_behind_a_cut_link_is_dead_and_not_silent_when_the_link_is_back(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be left out of every query for the rest of the run, which would hide its faults."""
    monkeypatch.setattr(run.breaker, "_signal", lambda broker, number: True)
    run.answers = {1: ("b", 1)}
    run.breaker.host_link(HostLink(0.0, 1, 2.0))
    assert run.breaker.crash(3) and run.breaker.silent() == [1, 3]
    run.breaker.run()
    assert run.breaker.silent() == run.breaker.dead() == [3] and not run.breaker.cut_off


@pytest.mark.parametrize("back", ["restarted", "left"])
def test_who_was_behind_a_cut_link_and_has_started_afresh_or_left_is_not_waited_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, back: str
) -> None:
    monkeypatch.setattr(run.breaker, "_signal", lambda broker, number: True)
    monkeypatch.setattr(run, "kill_broker", lambda broker: None, raising=False)
    monkeypatch.setattr(run, "restart_broker", lambda broker: None, raising=False)
    monkeypatch.setattr(injector.ray, "kill", lambda host, no_restart: None)
    monkeypatch.setattr(injector.ray, "get", lambda call: None)
    run.breaker.host_link(HostLink(0.0, 1, 2.0))
    for broker in (1, 3):
        assert run.breaker.cut_off and run.breaker.crash(broker)
        if back == "left":
            run.breaker.left([broker])
        else:
            assert run.breaker.restart(broker)
    assert run.breaker.silent() == [] and not run.breaker.cut_off


def test_connections_are_harmed_where_there_are_any_and_all_that_lasts_ends_when_everything_heals(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, Any]] = []
    monkeypatch.setattr(injector.ray, "get", lambda call, timeout: told.append((call[0], call[1].fault)))
    fault = StopReading(0.0, 2, 9.0)
    assert run.breaker.harm_connections(fault) == "the links are calls of Ray" and not told
    run.directory = SimpleNamespace(channels=object())
    assert run.breaker.harm_connections(fault) == "" and told == [(2, fault)]
    monkeypatch.setattr(run.breaker, "_signal", lambda broker, number: True)
    assert run.breaker.pause(0)
    assert "paused" in run.breaker.harm_connections(StopReading(0.0, 0, 9.0)) and len(told) == 1
    monkeypatch.setattr(run, "brokers", lambda: [0, 2])
    assert run.breaker.harm_connections(StopReading(0.0, 3, 9.0)) == "it has left" and len(told) == 1
    ended: list[Any] = []
    monkeypatch.setattr(injector.ray, "wait", lambda calls, num_returns, timeout: (ended.extend(calls), []))
    run.breaker.calm()
    assert [(broker, harm.fault) for broker, harm in ended if isinstance(harm, ConnectionHarm)] == [(2, None)]
