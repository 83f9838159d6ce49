"""Where the actors of a network run, by labels, resources and GPUs of Ray nodes; in its own process.

Reference: docs/decisions/0175-places-on-nodes.md.
"""

import pytest

BOUND_SECONDS = 300.0


@pytest.mark.slow
def test_a_network_runs_at_its_places_also_after_a_node_is_lost_and_one_without_a_place_is_not_begun(
    found_by,
):
    seen = found_by("placed_nodes.py", timeout_seconds=580)
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
