"""Events with objects and arrays in whole networks: promises 1 and 2 hold for them as for all others.

Reference: docs/decisions/0079-nested-events.md.
"""

import pytest
from rayvous.faults.checker.reliability import judge
from rayvous.routing.language.patterns import eventbridge
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation

EVENTS = [
    {"d": [{"a": 1, "b": 3}, {"a": 3, "b": 2}], "n": {"x": 5}},
    {"d": [{"a": 1, "b": 2}], "tags": ["red", "blue"]},
    {"d": {"a": 1, "b": 2}, "tags": []},
    {"d.a": 1, "d.b": 2},
    {"tags": "red", "n": {"x": [1, 5]}},
]
WANTED = {
    "d.a = 1 AND d.b = 2": [2, 3, 4],
    "d.a = 1 OR n.x = 5": [1, 2, 3, 4, 5],
    "tags IN ('red', 'green')": [2, 5],
    "d.a = 1 AND tags = 'blue'": [2],
    "n.x < 5": [5],
}


@pytest.mark.parametrize("scheme", ["hybrid", "hypercube", "flooding"])
def test_events_with_arrays_are_delivered_by_what_they_say(scheme):
    tree = ClusterTree(8, 1) if scheme == "hypercube" else ClusterTree(4, 2)
    net = Simulation(tree.positions(), scheme)
    for number, selector in enumerate(WANTED):
        net.subscribe(f"s{number}", number, selector)
    net.subscribe("bridge", 5, eventbridge({"d": {"a": [1], "b": [2]}, "tags": [{"anything-but": "red"}]}))
    net.run()
    net.publish("p", 6, EVENTS)
    net.run()
    for number, (selector, expected) in enumerate(WANTED.items()):
        assert net.notifications(f"s{number}") == [("p", sequence) for sequence in expected], selector
    assert net.notifications("bridge") == [("p", 2)]
    net.account.settled(net.now)
    assert judge(net.account).holds
