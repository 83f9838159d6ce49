"""When a network is one settled tree, according to its brokers."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network.convergence import POLL_SECONDS, Convergence, state_of
from rayvous.broker import Broker
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.structure import current_position, problems
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.topologies.cluster_trees import ClusterTree

POSITIONS = ClusterTree(3, 2, degree=1).positions()


def survey() -> dict[int, dict[str, Any]]:
    """Return what the brokers of a chain of three clusters report at its start, once paths are known."""
    found = {}
    for position in POSITIONS:
        healing = Broker(position, "hybrid", Recovery.for_tests()).layer(HealingBroker)
        assert healing is not None
        one = healing.survey()
        if one["designated"]:
            one["path"] = tuple(range(position.cluster + 1))
        found[position.broker] = one
    return found


def speaker(found: dict[int, dict[str, Any]], cluster: int) -> dict[str, Any]:
    return next(one for one in found.values() if one["designated"] and one["cluster"] == cluster)


def test_a_network_as_it_was_built_has_no_problem() -> None:
    found = survey()
    assert problems(found) == []
    assert state_of(found) == state_of(survey())
    for position in POSITIONS:
        assert current_position(position, found) == position or position.role == "NEB"


def test_a_label_follows_the_role_of_its_broker() -> None:
    """A label is a place of the beginning: a member that speaks for its cluster now is not called one."""
    found = survey()
    member, former = POSITIONS[2], POSITIONS[3]
    view = replace(found[member.broker]["view"], designated=member.broker)
    found[member.broker] |= {"view": view, "parent": found[former.broker]["parent"]}
    found[former.broker] |= {"view": view}
    assert (current_position(member, found).role, current_position(member, found).label) == ("DEB", "DEB 2")
    assert (current_position(former, found).role, current_position(former, found).label) == ("NEB", "NEB 3")
    assert current_position(POSITIONS[1], found).label == "REB"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("designated", False, r"cluster 1 has designated brokers \[\]"),
        ("root", True, r"roots: \[0, 1\]"),
        ("settled", False, "waits for subscriptions"),
        ("closed", ["alice"], r"has closed links: \['alice'\]"),
        ("missed", (4,), r"has yet to repair what \[4\] have missed"),
        ("parent", None, "has no living parent"),
        ("children", (), "does not know it"),
        ("path", (), r"says its path is \(\)"),
    ],
)
def test_each_thing_that_is_missing_is_said(key: str, value: Any, said: str) -> None:
    found = survey()
    speaker(found, 1)[key] = value
    assert re.search(said, "; ".join(problems(found)))


def test_the_dead_are_missed() -> None:
    normal = next(broker for broker, one in survey().items() if not one["designated"])
    for cluster in range(3):
        found = survey()
        del found[speaker(found, cluster)["broker"]]
        assert problems(found)
        for broker in [broker for broker, one in found.items() if one["cluster"] == cluster]:
            del found[broker]
        assert problems(found), "its neighbours have it still"
    found = survey()
    del found[normal]
    assert any("sees members" in problem for problem in problems(found))


@pytest.mark.parametrize(
    ("took", "left", "pause"),
    [
        (0.004, 60.0, POLL_SECONDS),
        (0.1, 60.0, 0.3),  # with many brokers, whose time it takes
        (6.0, 60.0, 2.0),  # a host may have been silent
        (6.0, 0.5, 0.5),
    ],
)
def test_who_waits_leaves_the_brokers_most_of_their_time(took: float, left: float, pause: float) -> None:
    hosts: Any = SimpleNamespace(features=SimpleNamespace(times=Recovery(heartbeat_seconds=2.0)))
    attached: Any = None
    assert Convergence(hosts, attached)._pause(took, left) == pytest.approx(pause)
