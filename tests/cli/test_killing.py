"""What `rayvous demo --kill` kills."""

import time
from typing import Any

import pytest
from rayvous.broker import Broker
from rayvous.cli.killing import Killing, check_kind, link_to_cut, recovery_for, victims
from rayvous.protocol.errors import InputError
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.topologies.cluster_trees import ClusterTree


def survey(tree: ClusterTree) -> dict[int, dict[str, Any]]:
    found = {}
    for position in tree.positions():
        healing = Broker(position, "hybrid", recovery_for(8, 100)).layer(HealingBroker)
        assert healing is not None
        found[position.broker] = healing.survey()
    return found


@pytest.mark.parametrize(
    ("kind", "chosen"), [("deb", [5]), ("neb", [0]), ("cluster", [3, 4, 5]), ("root", [2])]
)
def test_whom_it_hurts_most(kind: str, chosen: list[int]) -> None:
    """In a tree of four clusters of three, cluster 1 has a child."""
    assert victims(survey(ClusterTree(4, 3, degree=2)), kind) == chosen


def test_the_link_that_is_cut_leaves_the_cluster_somewhere_to_go() -> None:
    """Cluster 3 is a child of cluster 1 and has no children."""
    assert link_to_cut(survey(ClusterTree(4, 3, degree=2))) == (3, 1)


@pytest.mark.parametrize(
    ("kind", "clusters", "each", "said"),
    [
        ("tree", 4, 3, "--kill tree: it must be deb, neb, cluster, root or link"),
        ("link", 2, 3, "--kill link takes at least 3 clusters and degree 2"),
        ("deb", 1, 3, "at least 2 clusters"),
        ("root", 1, 3, "at least 2 clusters"),
        ("neb", 4, 1, "at least 2 brokers in a cluster"),
    ],
)
def test_what_a_network_has_not_cannot_be_killed(kind: str, clusters: int, each: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_kind(kind, clusters, each, 2)


def test_the_timeline_can_be_laid_over_telemetry() -> None:
    """Times of the timeline convert to the wall clock that telemetry uses."""
    killing = Killing("deb", started=time.perf_counter() - 5.0)
    before = time.time()
    killing.say("killed broker 5")
    after = time.time()
    told = killing.to_dict()
    (moment,) = told["timeline"]
    assert moment["seconds"] >= 5.0
    assert before - 0.1 <= told["started_at"] + moment["seconds"] <= after + 0.1
