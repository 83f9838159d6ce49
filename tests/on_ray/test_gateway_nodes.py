"""A Ray node that joins later gets a gateway, and a lost node has none; run in its own process.

Reference: docs/decisions/0099-gateways-come-with-nodes.md, 0101-equal-shares.md.
"""

import pytest


@pytest.mark.slow
def test_gateways_come_and_go_with_nodes_and_outlive_their_supervisor(found_by):
    seen = found_by("gateway_nodes.py")
    nodes, supervisor = seen["nodes"], seen["supervisor"]
    assert set(nodes["after"]) == {*nodes["before"], nodes["of_the_node"]}
    assert [] not in nodes["states"], "one that starts hides no other"
    assert nodes["answers"] == [202] and nodes["heard"] == [0]
    assert nodes["left"] == nodes["before"] and nodes["urls"]
    assert nodes["shares"] == [True] * 3, "two streams for one gateway, or one for each"
    assert supervisor == {"found": 1, "same": True, "named": 2}
    assert seen["left"], "they end with the network"
