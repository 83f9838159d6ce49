"""The options with which Ray places actors, and the wait for room before a launch.

Reference: docs/decisions/0175-places-on-nodes.md.
"""

from typing import Any

import pytest
from rayvous.actors.network import node_options as module
from rayvous.actors.network.node_options import await_room, near
from rayvous.protocol.errors import InputError
from rayvous.protocol.node_places import NodePlace

X, Y = "a" * 56, "b" * 56
POOL = NodePlace({"pool": "a"}, {"broker": 1}, 0.5)


def test_an_actor_prefers_a_node_must_have_its_place_and_spares_nodes_with_gpus_as_long_as_it_can() -> None:
    assert near(()) == {}
    found = near([X, Y])
    assert found.pop("scheduling_strategy").node_id == X and found == {"memory": 1}
    found = near([X], POOL, ["g1", "g2"])
    strategy = found.pop("scheduling_strategy")
    assert strategy.soft and not strategy._spill_on_unavailable, "it takes nothing, so there is room"
    assert found == {
        "memory": 1,
        "label_selector": {"pool": "a", "ray.io/node-id": "!in(g1, g2)"},
        "fallback_strategy": [{"label_selector": {"pool": "a"}}],
    }
    found = near([X], POOL, takes=True)
    assert found.pop("scheduling_strategy")._spill_on_unavailable, "another node of its place may have room"
    assert found == {
        "memory": 1,
        "label_selector": {"pool": "a"},
        "resources": {"broker": 1},
        "num_cpus": 0.5,
    }
    found = near((), None, ["g"])
    assert found["fallback_strategy"] == [{"label_selector": {"ray.io/node-id": "!none"}}], "any node"
    own = near((), NodePlace({"ray.io/node-id": "g"}), ["g"])
    assert own == {"label_selector": {"ray.io/node-id": "g"}}, "it is asked for"


class Cluster:
    """A node with 4 CPUs, of which so many are free in each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *free: float) -> None:
        self.free, self.now = list(free), 0.0
        monkeypatch.setattr(module.ray, "nodes", lambda: [self.node()])
        monkeypatch.setattr(module, "_free", lambda: {"n": {"CPU": self.free.pop(0)}})
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.time, "sleep", self.sleep)

    def node(self) -> dict[str, Any]:
        at = {"NodeID": "n", "NodeManagerAddress": "10.0.0.1", "Labels": {}, "Alive": True}
        return at | {"Resources": {"CPU": 4.0}}

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_launch_waits_a_while_for_what_others_have_and_not_for_what_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, 1.0, 1.0, 2.0)
    await_room("place", NodePlace(num_cpus=0.5), 4)
    assert cluster.free == [] and cluster.now == pytest.approx(2 * module.LOOK_SECONDS)
    cluster = Cluster(monkeypatch, *[1.0] * 100)
    with pytest.raises(
        InputError, match=r"^place, now: 4 actors are to have CPU 0.5 each, and there is room for 2; "
    ):
        await_room("place", NodePlace(num_cpus=0.5), 4)
    assert module.ROOM_SECONDS <= cluster.now < 2 * module.ROOM_SECONDS
    with pytest.raises(
        InputError, match=r"^place: 9 actors are to have CPU 0.5 each, and there is room for 8; "
    ):
        await_room("place", NodePlace(num_cpus=0.5), 9)
    Cluster(monkeypatch)
    await_room("place", NodePlace(), 1_000)
