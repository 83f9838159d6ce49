"""Drawn operations on a network on Ray: which brokers are chosen or kept, and what happens if they crash."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.faults.plans.cases import Operation
from rayvous.faults.real.injector import Breaker
from rayvous.faults.real.operating import Operator
from rayvous.protocol.configs import Position
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(2, 2).positions()
"""Clusters 0 with brokers 0 and 1, and 1 with brokers 2 and 3; 1 and 3 are designated."""


class Net:
    """A fake network that records what it is asked to do, and may fail."""

    scheme = "hybrid"

    def __init__(self) -> None:
        self.positions: list[Position] = list(PLACES)
        self.rendezvous = None
        self.done: list[Any] = []
        self.error: Exception | None = None
        self.meanwhile = lambda: None

    @property
    def inspect(self) -> "Net":
        return self

    def hosts(self) -> list[Position]:
        return self.positions

    def brokers(self) -> list[int]:
        return [place.broker for place in self.positions]

    def host_of(self, broker: int) -> Any:
        return SimpleNamespace(inject=SimpleNamespace(remote=lambda fault: None))

    def pid_of(self, broker: int) -> int:
        return 1 << 30  # no such process

    def survey(self, without: Any = ()) -> dict[int, dict[str, Any]]:
        return {
            place.broker: {
                "designated": place.broker == place.designated,
                "root": place.role == "REB",
            }
            for place in self.positions
            if place.broker not in without
        }

    def add_broker(self, cluster: int) -> int:
        self.done.append(("add", cluster))
        if self.error is not None:
            raise self.error
        self.positions.append(Position(9, cluster, "N9", (0, 1, 9), 1, None, ()))
        return 9

    def remove_broker(self, brokers: list[int], seconds: float) -> None:
        self.done.append(("remove", list(brokers)))
        if self.error is not None:
            error, self.error = self.error, None
            self.meanwhile()
            raise error

    def reoptimise(self) -> list[tuple[int, int, int]]:
        if self.error is not None:
            raise self.error
        return [(2, 0, 1)]


class Run:
    """An operator, and what it reported."""

    def __init__(self) -> None:
        self.net = Net()
        self.breaker = Breaker(self.net, lambda: 0.0)  # type: ignore[arg-type]
        self.went: list[list[int]] = []
        self.said: list[str] = []
        self.found: list[str] = []
        players: Any = SimpleNamespace(go_to=lambda brokers: self.went.append(list(brokers)))
        self.operator = Operator(self.net, self.breaker, players, self.said.append, self.found.append)  # type: ignore[arg-type]

    def do(self, what: str, pick: float = 0.0) -> str:
        self.operator.begin([Operation(0.0, what, pick)], 0.0)
        for thread in self.operator._threads:
            thread.join(10)
        return self.said[-1] if self.said else ""


def test_a_broker_that_comes_can_be_harmed_and_clients_go_there() -> None:
    run = Run()
    assert run.do("add_broker", 0.9) == "operation: add_broker: broker 9 to cluster 1"
    assert run.net.done == [("add", 1)] and run.went == [[9]]
    assert 9 in run.breaker.staying() and run.breaker.members[1] == (2, 3, 9)


@pytest.mark.parametrize(
    ("what", "pick", "leaving"),
    [
        ("remove_broker", 0.9, [2]),
        ("remove_designated", 0.9, [3]),
        ("remove_cluster", 0.9, [2, 3]),
        ("remove_root_cluster", 0.9, [0, 1]),
    ],
)
def test_who_leaves_is_drawn_and_the_designated_one_leaves_last(
    what: str, pick: float, leaving: list[int]
) -> None:
    run = Run()
    run.do(what, pick)
    assert run.net.done == [("remove", leaving)] and not run.found
    assert run.operator.unfinished() == [] and not set(leaving) & set(run.breaker.living())
    assert not run.breaker.restart(leaving[0]) and not run.breaker.crash(leaving[0])
    assert set(run.breaker.dead()) | set(run.breaker.silent()) == set()


def test_the_last_one_that_stays_is_kept() -> None:
    run = Run()
    run.breaker.retire([0, 1, 2])
    assert run.do("remove_designated").endswith("broker 3, which is kept")
    assert run.net.done == [] and run.breaker.staying() == [3]


def test_who_dies_before_it_has_left_is_gone_and_the_others_leave_all_the_same() -> None:
    run = Run()
    run.net.error = InputError("no broker 2 is alive")
    run.net.meanwhile = lambda: run.breaker._dead.add(2)
    run.do("remove_cluster", 0.9)
    assert run.net.done == [("remove", [2, 3]), ("remove", [3])] and not run.found
    assert run.operator.unfinished() == [] and not run.breaker.restart(2) and run.breaker.dead() == []


def test_who_is_not_there_any_more_is_no_finding_and_stays_else() -> None:
    run = Run()
    run.net.error = InputError("the last broker of a network cannot leave it")
    assert "came to nothing: the last broker" in run.do("remove_broker")
    assert run.operator.unfinished() == [] and len(run.breaker.staying()) == 4
    run.net.error = BrokerUnavailable("gone")
    assert run.do("reoptimise") == "operation: reoptimise: cut short: gone" and not run.found


def test_who_did_not_come_is_a_finding_unless_a_host_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gives up the cut-off host, and with it a new broker placed there. Reference: decision 0041."""
    run = Run()
    run.net.error = BrokerUnavailable("the broker's host is gone")
    run.do("add_broker")
    assert "add_broker: BrokerUnavailable" in run.found[0] and not run.said
    monkeypatch.setattr(run.breaker, "_unreached", {1: None})
    assert run.do("add_broker") == "operation: add_broker: came to nothing: the broker's host is gone"
    assert len(run.found) == 1 and len(run.breaker.staying()) == 4
    run.do("remove_broker", 0.9)
    # A cut-off host is no excuse for a broker that does not leave.
    assert "remove_broker: BrokerUnavailable" in run.found[1]


def test_a_broker_that_does_not_leave_is_a_finding() -> None:
    run = Run()
    run.net.error = BrokerUnavailable("broker 2 has not left in time")
    run.do("remove_broker", 0.9)
    assert "remove_broker: BrokerUnavailable: broker 2 has not left in time" in run.found[0]
    assert run.operator.unfinished() == ["broker 2 has not left"]


@pytest.mark.parametrize("what", ["reoptimise", "add_broker"])
def test_what_takes_long_is_waited_for_before_the_network_has_to_converge(what: str) -> None:
    """Ray starts a process when the machine has time for it, however late that is. Reference: decision 0163."""
    run = Run()
    gate = threading.Event()
    done = getattr(run.net, what)
    setattr(run.net, what, lambda *given: (gate.wait(10), done(*given))[1])
    run.operator.begin([Operation(0.0, what, 0.0)], 0.0)
    assert run.operator.unfinished() == [f"{what} is not done"] and run.operator.operating
    gate.set()
    for thread in run.operator._threads:
        thread.join(10)
    assert run.operator.unfinished() == [] and not run.operator.operating
