"""Where brokers are placed: members of a cluster on different nodes, and none on a head without CPUs.

Reference: paper 1, 4.1.1 (a cluster lives as long as a member does); promises 5 and 6.
"""

from collections import Counter
from typing import Any

import pytest
from rayvous.actors.network.directory import host_name
from rayvous.actors.network.placing import (
    actors_of,
    check_place,
    fits,
    node_for,
    spared_nodes,
    steady_node,
    working_nodes,
)
from rayvous.protocol.errors import InputError
from rayvous.protocol.node_places import NodePlace
from rayvous.routing.topologies.cluster_trees import ClusterTree


def node(
    name: str,
    *,
    head: bool = False,
    cpus: float = 0.0,
    gpus: float = 0.0,
    alive: bool = True,
    broker: float = 0.0,
    **labels: str,
) -> dict[str, Any]:
    has = {"CPU": cpus, "GPU": gpus, "broker": broker, "node:__internal_head__": float(head)}
    resources = {"memory": 1e9} | {resource: amount for resource, amount in has.items() if amount}
    at = {
        "NodeID": name,
        "NodeManagerAddress": f"10.0.0.{len(name)}",
        "Labels": {"ray.io/node-id": name} | labels,
    }
    return at | {"Alive": alive, "Resources": resources if alive else {}}


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
    assert working_nodes([node("h", head=True, cpus=4), node("a")]) == ("h",), "Ray would take a, too"


def test_nodes_with_gpus_are_left_alone_where_there_are_others() -> None:
    gpu, cpu, late = node("g", cpus=8, gpus=4), node("c", cpus=1), node("late", cpus=1, alive=False)
    assert working_nodes([gpu, cpu]) == ("c",) and spared_nodes([gpu, cpu]) == ("g",)
    assert working_nodes([gpu, late, node("h", head=True)]) == ("g",) and spared_nodes([gpu, late]) == ()
    labelled = [node("g", cpus=8, gpus=4, pool="a"), node("c", cpus=1, pool="b"), node("n", pool="a")]
    assert working_nodes(labelled, NodePlace({"pool": "a"})) == ("g",), "it is asked for, and has CPUs"
    assert spared_nodes(labelled, NodePlace({"pool": "in(a, b)"})) == ("g",)
    assert working_nodes([node("n", pool="a")], NodePlace({"pool": "a"})) == ("n",), "there is no other"


@pytest.mark.parametrize(
    ("place", "nodes"),
    [
        (NodePlace({"pool": "a"}), "xy"),
        (NodePlace({"pool": "!a"}), "zu"),
        (NodePlace({"pool": "in(b, c)"}), "z"),
        (NodePlace({"pool": "!in(b,a)"}), "u"),
        (NodePlace({"pool": "a", "zone": "w"}), "y"),
        (NodePlace(resources={"broker": 0.7}), "yz"),
        (NodePlace({"pool": "a"}, {"broker": 1}, 2), "y"),
        (NodePlace(num_cpus=3), "u"),
    ],
)
def test_a_node_fits_a_place_as_ray_takes_it(place: NodePlace, nodes: str) -> None:
    there = [
        node("x", cpus=1, pool="a"), node("y", cpus=2, broker=1, pool="a", zone="w"),
        node("z", cpus=1, broker=1, pool="b"), node("u", cpus=3),
    ]  # fmt: skip
    assert place.validate() is place
    assert {each["NodeID"] for each in there if fits(each, place)} == set(nodes)


def test_a_place_that_no_node_has_or_that_is_too_small_is_told_with_the_nodes() -> None:
    there = [
        node("head", head=True),
        node("b", cpus=2, gpus=1, pool="b", zone="w"),
        node("gone", alive=False),
    ]
    with pytest.raises(InputError) as error:
        check_place("place", NodePlace({"pool": "a"}, {"broker": 1}), there)
    assert str(error.value) == (
        "place: no Ray node has labels pool=a; broker 1; there are node head at 10.0.0.4 (head) (no labels; no "
        "resources); node b at 10.0.0.1 (labels pool=b, zone=w; CPU 2, GPU 1)"
    )
    check_place("place", NodePlace({"pool": "b"}, num_cpus=0.5), there, actors=4)
    check_place("place", NodePlace({"pool": "b"}), there, actors=10_000)
    with pytest.raises(
        InputError, match=r"^place: 5 actors .* labels pool=b; CPU 0.5 each, and there is room for 4;"
    ):
        check_place("place", NodePlace({"pool": "b"}, num_cpus=0.5), there, actors=5)
    tenth = NodePlace(resources={"broker": 0.1})
    check_place("place", tenth, [node("a", broker=0.3)], actors=3)  # also where floats would say 2.99
    with pytest.raises(InputError, match=r"; and 90 more$"):
        check_place("place", NodePlace({"pool": "z"}), [node("b")] * 100)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (NodePlace({"-a": "b"}), "place labels is '-a'"),
        (NodePlace({"a": ""}), "place labels a is ''"),
        (NodePlace({"a": "in(b"}), r"place labels a is 'in\(b'"),
        (NodePlace({"a": "b" * 64}), "place labels a is 'b"),
        (NodePlace({"a": 1}), "place labels a is 1"),  # type: ignore[dict-item]
        (NodePlace(labels="pool=a"), "place labels is 'pool=a'"),  # type: ignore[arg-type]
        (NodePlace(resources={"GPU": 1}), "place resources: GPU is no custom resource; use labels"),
        (NodePlace(resources={"CPU": 1}), "place resources: CPU is no custom resource; use num_cpus"),
        (NodePlace(resources={"a": 0}), "place resources a is 0"),
        (NodePlace(resources={"a": 1.5}), "place resources a is 1.5: it must be whole if it is above 1"),
        (NodePlace(num_cpus=-1), "place num_cpus is -1"),
        (NodePlace(num_cpus="2"), "place num_cpus is '2'"),  # type: ignore[arg-type]
        (NodePlace(num_cpus=float("nan")), "place num_cpus is nan"),
    ],
)
def test_a_place_that_ray_would_not_take_is_refused(place: NodePlace, said: str) -> None:
    with pytest.raises(InputError, match=said):
        place.validate()


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


def test_who_returns_keeps_its_node_and_if_that_is_dead_takes_a_living_one_with_the_fewest_of_its_cluster() -> (
    None
):
    names = ["a", "b", "c"]
    assert node_for(1, (0, 1, 3), names, dead=["a"]) == "b"
    assert node_for(1, (0, 1, 3), names, dead=["b"]) == "c", "0 and 3 are on a"


def test_the_rendezvous_point_of_a_network_that_outlives_its_launcher_stands_elsewhere() -> None:
    assert steady_node(("a", "b"), "a", outlives=True) == ("b",)
    assert steady_node(("a", "b"), "a", outlives=False) == ("a",)
    assert steady_node(("a",), "a", outlives=True) == ("a",), "there is no other"
    assert steady_node((), "a", outlives=True) == ()


def test_names_say_which_brokers_an_actor_hosts() -> None:
    assert host_name("net", [3]) == "net:broker:3" and host_name("net", [3, 4, 5]) == "net:brokers:3-5"
    assert host_name("net", [1, 4, 7], 2) == "net:brokers:1-7/3:life:2"
