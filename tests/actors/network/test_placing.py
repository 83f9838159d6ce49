"""Where brokers are placed: members of a cluster on different nodes, and none on a head without CPUs.

Reference: paper 1, 4.1.1 (a cluster lives as long as a member does); promises 5 and 6.
"""

from collections import Counter
from typing import Any

import pytest
from rayvous.actors.network.directory import host_name
from rayvous.actors.network.placing import actors_of, node_for, steady_node, working_nodes
from rayvous.routing.topologies.cluster_trees import ClusterTree


def node(name: str, *, head: bool = False, cpus: float = 0.0, alive: bool = True) -> dict[str, Any]:
    resources = (
        {"memory": 1e9} | ({"CPU": cpus} if cpus else {}) | ({"node:__internal_head__": 1.0} if head else {})
    )
    return {"NodeID": name, "Alive": alive, "Resources": resources if alive else {}}


def test_a_head_without_cpus_gets_no_broker() -> None:
    nodes = [
        node("h", head=True),
        node("b", cpus=2),
        node("a", cpus=1),
        node("x", cpus=1, alive=False),
        node("gpu"),
    ]
    assert working_nodes(nodes) == ("a", "b")


def test_a_head_with_cpus_is_a_node_as_others_and_a_cluster_of_one_node_or_without_cpus_is_left_to_ray() -> (
    None
):
    assert working_nodes([node("a", cpus=1), node("h", head=True, cpus=4)]) == ("h", "a")
    assert working_nodes([node("h", head=True, cpus=4)]) == ()
    assert working_nodes([node("h", head=True), node("a")]) == ()


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("brokers_per_actor", [1, 2, 7, 100])
@pytest.mark.parametrize("members", [1, 2, 3, 10])
def test_no_node_takes_a_cluster_with_it(nodes: int, brokers_per_actor: int, members: int) -> None:
    positions = ClusterTree(7, members).positions()
    names = [f"n{number}" for number in range(nodes)]
    actors = actors_of(positions, names, brokers_per_actor)
    assert sorted(place.broker for hosted in actors for place in hosted) == [p.broker for p in positions]
    assert max(map(len, actors)) <= brokers_per_actor
    stands = {place.broker: number for number, hosted in enumerate(actors) for place in hosted}
    at = {place.broker: node_for(place.broker, place.members, names) for place in positions}
    for hosted in actors:
        assert len({at[place.broker] for place in hosted}) == 1, "an actor is on one node"
        assert list(hosted) == sorted(hosted, key=lambda place: place.broker)
    for place in positions:
        there = Counter(at[member] for member in place.members)
        assert len(there) == min(nodes, members) and max(there.values()) - min(there.values()) <= 1
    assert len(set(stands.values())) == len(actors)
    fewest = -(-len(positions) // brokers_per_actor)
    assert len(actors) < fewest + nodes, "no more actors than it takes, but for one a node"


def test_who_is_left_to_ray_follows_in_order() -> None:
    positions = ClusterTree(2, 3).positions()
    assert [[p.broker for p in hosted] for hosted in actors_of(positions, (), 4)] == [[0, 1, 2, 3], [4, 5]]


def test_who_comes_later_takes_a_node_with_the_fewest_of_its_cluster() -> None:
    names = ["a", "b", "c"]
    assert node_for(9, (0, 1, 9), names) == "c", "9 in turn would be on a, with 0"
    assert node_for(9, (1, 2, 9), names) == "a"


def test_the_rendezvous_point_of_a_network_that_outlives_its_launcher_stands_elsewhere() -> None:
    assert steady_node(("a", "b"), "a", outlives=True) == ("b",)
    assert steady_node(("a", "b"), "a", outlives=False) == ("a",)
    assert steady_node(("a",), "a", outlives=True) == ("a",), "there is no other"
    assert steady_node((), "a", outlives=True) == ()


def test_names_say_which_brokers_an_actor_hosts() -> None:
    assert host_name("net", [3]) == "net:broker:3" and host_name("net", [3, 4, 5]) == "net:brokers:3-5"
    assert host_name("net", [1, 4, 7], 2) == "net:brokers:1-7/3:life:2"
