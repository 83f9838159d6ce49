"""Hosts that Ray has given up, and only those, get a new node."""

import pytest
from fakes import Ray
from rayvous.faults.machines import nodes
from rayvous.faults.machines.layout import Layout, Words

LAYOUT = Layout(3)


def test_a_host_that_ray_has_given_up_gets_a_new_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no host would be left for later seeds. Reference: decision 0041."""
    known = [
        {"NodeManagerAddress": LAYOUT.address(host), "NodeID": f"id-{host}", "Alive": host != 1}
        for host in range(3)
    ]
    Ray(monkeypatch, nodes).known_nodes = known

    def done(words: Words) -> None:
        started.append(words)
        known.append({"NodeManagerAddress": LAYOUT.address(1), "NodeID": "id-new", "Alive": True})

    started: list[Words] = []
    monkeypatch.setattr(nodes, "done", done)
    assert nodes.given_up(LAYOUT) == {1}
    nodes.start_given_up(LAYOUT)
    assert nodes.given_up(LAYOUT) == set() and nodes.node_ids(LAYOUT) == ["id-0", "id-new", "id-2"]
    (words,) = started
    assert "host-1" in words and f"--address={LAYOUT.ray_address}" in words
    nodes.start_given_up(LAYOUT)
    assert len(started) == 1
