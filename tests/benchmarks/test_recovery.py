"""What the benchmark of recovery reads from brokers, and how it sums up; without Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.benchmarks.recovery import PHASES, figures, look
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of

KNOWN_SECONDS = 0.05


class Watched:
    """A simulated network, asked as the benchmark asks one on Ray; its clock is the wall clock."""

    def __init__(self, victim_of: int) -> None:
        self.net = Simulation(
            ClusterTree(3, 3, degree=1), recovery=Recovery(), dead_after_seconds=KNOWN_SECONDS
        )
        self.net.advance(6.0)
        self.cluster = victim_of
        self.victim = next(
            broker
            for broker, one in survey_of(self.net).items()
            if one["designated"] and one["cluster"] == victim_of
        )
        self.client = SimpleNamespace(broker=self.victim)
        self.found: dict[str, float] = {}

    @property
    def inspect(self) -> "Watched":
        return self

    def survey(self, without: list[int]) -> dict[int, Any]:
        assert without == [self.victim]
        return dict(survey_of(self.net))

    def look(self, killed_at: float) -> None:
        clients: Any = [self.client]
        look(self, self.victim, self.cluster, clients, killed_at, lambda: self.net.now, self.found)  # type: ignore[arg-type]


def test_the_phases_are_noted_as_they_come() -> None:
    watched = Watched(1)
    killed_at = watched.net.now
    watched.net.crash(watched.victim)
    seen: list[set[str]] = []
    for _ in range(100):
        watched.look(killed_at)
        seen.append(set(watched.found))
        watched.net.advance(0.01)
    assert seen[0] == set() and seen[-1] == {"noticed", "elected", "joined"}, "a client is at the dead broker"
    found = dict(watched.found)
    assert found["noticed"] == pytest.approx(KNOWN_SECONDS)
    assert found["noticed"] <= found["elected"] <= found["joined"] < 0.3
    watched.client.broker = 0
    watched.look(killed_at)
    assert watched.found == {**found, "installed": watched.net.now - killed_at}


def test_median_ninetieth_percentile_and_maximum() -> None:
    rows = [dict.fromkeys(PHASES, seconds / 10) for seconds in range(11)]
    assert figures(rows)["publisher_seconds"] == {"median": 0.5, "p90": 0.9, "max": 1.0}
