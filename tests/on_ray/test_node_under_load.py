"""A node dies under load: no cluster dies with it, and nothing is lost. Several nodes, so a process of its own."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_node_that_dies_under_load_takes_no_cluster_and_no_event_with_it(tmp_path):
    """Promises 1, 2, 3 and 6; paper 1, 4.1.1: the members that are left elect."""
    program, found = Path(__file__).with_name("node_under_load.py"), tmp_path / "found.json"
    run = subprocess.run(
        [sys.executable, program, found], capture_output=True, text=True, timeout=150, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    came = json.loads(found.read_text())
    clusters = {int(broker): cluster for broker, cluster in came["clusters"].items()}
    assert Counter(clusters[broker] for broker in came["victims"]) == {0: 2, 1: 1, 2: 1}
    assert Counter(came["left"].values()) == {0: 2, 1: 3, 2: 3}
    assert 3 in came["victims"], "with the root broker, and the rendezvous point"
    for heard in came["heard"].values():
        for name, last in came["published"].items():
            assert last >= 100
            assert [number for publisher, number in heard if publisher == name] == list(range(1, last + 1))
