"""Nodes of a Ray cluster join, leave, die under load and are gone for good; one cluster, in its own process, for all.

References: docs/decisions/0099-gateways-come-with-nodes.md, 0101-equal-shares.md, 0175-places-on-nodes.md and
0201-what-tests-share.md.
"""

import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_SECONDS

BOUND_SECONDS = 300.0
PART_SECONDS = 3 * PATIENCE_SECONDS
PUBLISHED, MORE = 60, 5  # as in `node_lost`


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """``part(name, *words)``: run a part of `nodes.py` on the cluster, and return what it found."""
    reading, writing = os.pipe()  # as Ray itself prints to standard output
    log = tmp_path_factory.mktemp("nodes") / "log"
    line = [sys.executable, Path(__file__).with_name("nodes.py"), str(writing)]
    with (
        log.open("w") as out,
        os.fdopen(reading) as answers,
        subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True, pass_fds=[writing]
        ) as program,
    ):
        os.close(writing)
        assert program.stdin is not None

        def run(name: str, *words: str) -> dict[str, Any]:
            print(json.dumps([name, *words]), file=program.stdin, flush=True)
            told = select.select([answers], [], [], PART_SECONDS)[0] and answers.readline()
            assert told, log.read_text()[-3000:]
            found: dict[str, Any] = json.loads(told)
            assert "raised" not in found, found["raised"]
            return found

        try:
            yield run
        finally:
            program.stdin.close()
            try:
                assert program.wait(PART_SECONDS) == 0, log.read_text()[-3000:]
            finally:
                program.kill()


def test_a_network_runs_at_its_places_also_after_a_node_is_lost_and_one_without_a_place_is_not_begun(
    part: Callable[..., dict[str, Any]],
) -> None:
    seen = part("places")
    assert seen["nowhere"]["said"].startswith("place: no Ray node has labels pool=none; there are node ")
    assert "labels pool=brokers; CPU 1, GPU 1, broker 9" in seen["nowhere"]["said"]
    assert (
        "3 actors are to have labels edge=yes; CPU 0.5 each, and there is room for 2"
        in seen["too_small"]["said"]
    )
    for refused in (seen["nowhere"], seen["too_small"]):
        assert refused["left"] == [] and refused["seconds"] < BOUND_SECONDS
    assert seen["sink"].startswith("place: no Ray node has labels disk=large; there are node ")
    at = seen["at_first"]
    brokers = [node for name, node in at.items() if name.startswith("broker:")]
    assert sorted(set(brokers)) == ["one", "two"] and len(brokers) == 3, "in turn, and none at the GPU"
    gateways = {node for name, node in at.items() if name.startswith("gateway:")}
    assert gateways == {"edge"}
    assert {at[name] for name in ("rendezvous", "collector", "gateways", "group:workers")} <= {"one", "two"}
    assert at["sink:lake"] in ("one", "two", "edge")
    assert seen["again"] == "one" and seen["elsewhere"] == "two"
    assert seen["added"] in ("two", "gpu"), "a node with a GPU takes what others have no room for"
    assert {seen["at_last"][name] for name in ("rendezvous", "collector", "gateways", "group:workers")} == {
        "two"
    }


def test_gateways_come_and_go_with_nodes_and_outlive_their_supervisor(
    part: Callable[..., dict[str, Any]],
) -> None:
    seen = part("gateways")
    nodes, supervisor = seen["nodes"], seen["supervisor"]
    assert set(nodes["after"]) == {*nodes["before"], nodes["of_the_node"]}
    assert [] not in nodes["states"], "one that starts hides no other"
    assert nodes["answers"] == [202] and nodes["heard"] == [0]
    assert nodes["left"] == nodes["before"] and nodes["urls"]
    assert nodes["shares"] == [True] * 3, "two streams for one gateway, or one for each"
    assert supervisor == {"found": 1, "same": True, "named": 2}
    assert seen["left"], "they end with the network"


def test_a_game_day_ends_a_machine_by_a_command_and_its_brokers_are_started_elsewhere(
    part: Callable[..., dict[str, Any]],
) -> None:
    came = part("game day")
    assert came["verdict"] == "holds" and came["healthy"] and not came["left_dead"], came
    [fault] = came["faults"]
    assert fault["kind"] == "node" and fault["brokers"] == came["there"] == [1, 3] and came["moved"]


@pytest.mark.parametrize("how", ["heals", "numbered"])
def test_brokers_of_a_node_that_is_gone_for_good_go_on_elsewhere(
    part: Callable[..., dict[str, Any]], postgresql: Any, how: str
) -> None:
    """From PostgreSQL. Promises 1, 2, 3 and 7; paper 4, section 3: a recovered broker has all that it had accepted."""
    came = part(how, postgresql.address())
    assert came["was"] and came["moved"]
    published = came.get("published", PUBLISHED)
    assert [number for name, number in came["heard"] if name == "pub"] == list(range(1, published + 1))
    assert [number for name, number in came["heard"] if name == "other"] == list(range(1, MORE + 1))
    assert how == "numbered" or came["broker"] == 1, "where its queue is"


def test_a_node_that_dies_under_load_takes_no_cluster_and_no_event_with_it(
    part: Callable[..., dict[str, Any]],
) -> None:
    """Promises 1, 2, 3 and 6; paper 1, 4.1.1: the remaining members elect."""
    came = part("under load")
    clusters = {int(broker): cluster for broker, cluster in came["clusters"].items()}
    assert Counter(clusters[broker] for broker in came["victims"]) == {0: 2, 1: 1, 2: 1}
    assert Counter(came["left"].values()) == {0: 2, 1: 3, 2: 3}
    assert 3 in came["victims"], "with the root broker, and the rendezvous point"
    for heard in came["heard"].values():
        for name, last in came["published"].items():
            assert last >= 100
            assert [number for publisher, number in heard if publisher == name] == list(range(1, last + 1))
