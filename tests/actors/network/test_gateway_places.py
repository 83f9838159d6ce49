"""On which nodes gateways are started, and when they are given up.

Reference: docs/decisions/0099-gateways-come-with-nodes.md.
"""

from typing import Any

from rayvous.actors.network.gateway_places import (
    AGAIN_SECONDS,
    Changes,
    GatewayNodes,
    GatewayPlace,
    GatewayPlaces,
)
from rayvous.protocol.node_places import NodePlace


def node(
    name: str, *, cpus: float = 1.0, gpus: float = 0.0, alive: bool = True, **labels: str
) -> dict[str, Any]:
    has = {"CPU": cpus, "GPU": gpus} if alive else {}
    return {
        "NodeID": name,
        "Alive": alive,
        "Resources": {k: v for k, v in has.items() if v},
        "Labels": labels,
    }


def places(*names: str) -> tuple[GatewayPlace, ...]:
    return tuple(GatewayPlace(name, 0) for name in names)


def test_a_node_that_comes_later_gets_a_gateway_and_nobody_gets_two() -> None:
    machine = GatewayPlaces(GatewayNodes(), 1)
    assert machine.look([node("a")], 0.0) == Changes(start=places("a"))
    assert machine.look([node("a")], 1.0) == Changes()
    assert machine.look([node("a"), node("b")], 2.0) == Changes(start=places("b"))


def test_a_node_that_is_gone_loses_its_gateway_once_and_one_that_is_not_listed_keeps_it() -> None:
    machine = GatewayPlaces(GatewayNodes(), 1)
    machine.look([node("a"), node("b")], 0.0)
    assert machine.look([node("a")], 1.0) == Changes()
    assert machine.look([node("a"), node("b", alive=False)], 2.0) == Changes(gone=places("b"))
    assert machine.look([node("a"), node("b", alive=False)], 3.0) == Changes()


def test_each_process_of_a_node_is_a_place_of_its_own() -> None:
    machine = GatewayPlaces(GatewayNodes(), 2)
    assert machine.look([node("a")], 0.0).start == (GatewayPlace("a", 0), GatewayPlace("a", 1))


def test_a_head_without_cpus_gets_none_where_another_node_has_some() -> None:
    assert GatewayPlaces(GatewayNodes(), 1).look([node("h", cpus=0), node("a")], 0.0).start == places("a")
    assert GatewayPlaces(GatewayNodes(), 1).look([node("h", cpus=0), node("x", cpus=0)], 0.0).start == places(
        "h", "x"
    )


def test_a_head_without_cpus_gets_none_either_while_the_others_are_away_for_a_moment() -> None:
    head, machine = node("h", cpus=0), GatewayPlaces(GatewayNodes(), 1)
    machine.look([head, node("a")], 0.0)
    assert machine.look([head, node("a", cpus=0, alive=False)], 1.0) == Changes(gone=places("a"))
    assert machine.look([head], 2.0) == Changes()
    assert machine.look([head, node("b")], 3.0) == Changes(start=places("b"))


def test_what_nodes_without_cpus_got_is_given_up_when_one_with_cpus_comes() -> None:
    head, machine = node("h", cpus=0), GatewayPlaces(GatewayNodes(), 1)
    machine.look([head, node("x", cpus=0)], 0.0)
    machine.failed(places("x")[0], 1.0)
    later = 1.0 + AGAIN_SECONDS
    assert machine.look([head, node("x", cpus=0), node("a")], later) == Changes(places("a"), places("h", "x"))
    assert machine.look([head, node("x", cpus=0), node("a")], 2 * later) == Changes()


def test_where_nodes_were_named_no_other_gets_one() -> None:
    machine = GatewayPlaces(GatewayNodes(("b",)), 1)
    assert machine.look([node("a"), node("b", cpus=0), node("c")], 0.0).start == places("b")


def test_nodes_with_gpus_get_one_only_while_there_is_no_other() -> None:
    machine, gpu = GatewayPlaces(GatewayNodes(), 1), node("g", gpus=1)
    assert machine.look([gpu], 0.0).start == places("g")
    assert machine.look([gpu, node("a")], 1.0) == Changes(places("a"), places("g"))
    assert machine.look([gpu, node("a", alive=False)], 2.0) == Changes(places("g"), places("a"))


def test_they_are_on_nodes_that_have_the_place_of_gateways_or_else_that_of_the_network() -> None:
    nodes = [node("a", pool="brokers"), node("b", pool="edge"), node("c", pool="edge", gpus=1)]
    network, own = NodePlace({"pool": "brokers"}), NodePlace({"pool": "edge"})
    assert GatewayPlaces(GatewayNodes((), network), 1).look(nodes, 0.0).start == places("a")
    assert GatewayPlaces(GatewayNodes((), network, own), 1).look(nodes, 0.0).start == places("b")
    assert GatewayPlaces(GatewayNodes(("a",), None, own), 1).look(nodes, 0.0).start == places("b")


def test_one_that_could_not_serve_is_started_again_when_its_time_has_come_and_its_node_lives() -> None:
    machine = GatewayPlaces(GatewayNodes(), 1)
    machine.look([node("a"), node("b")], 0.0)
    for place in places("a", "b"):
        machine.failed(place, 1.0)
    late = 1.0 + AGAIN_SECONDS
    assert machine.look([node("a"), node("b")], late - 0.1) == Changes()
    there = machine.look([node("a"), node("b", alive=False)], late)
    assert there == Changes(start=places("a"), gone=places("b"))
    machine.failed(places("b")[0], late)  # reported late, for a node that is gone
    assert machine.look([node("a"), node("b", alive=False)], 2 * late) == Changes()
