"""Where a network stands when nobody says so: not on a head that is to do nothing."""

from typing import Any

from rayvous.actors.network.launching import off_the_head


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
    assert off_the_head(nodes) == ("a", "b")


def test_a_head_with_cpus_is_left_to_ray_and_so_is_a_cluster_without_any() -> None:
    assert off_the_head([node("h", head=True, cpus=4), node("a", cpus=1)]) == ()
    assert off_the_head([node("h", head=True), node("a")]) == ()
