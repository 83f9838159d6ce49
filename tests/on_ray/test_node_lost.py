"""A node is gone for good with its disk: its broker goes on elsewhere from PostgreSQL; several nodes, so a process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PUBLISHED, MORE = 60, 5  # as in the program


@pytest.mark.slow
def test_brokers_of_a_node_that_is_gone_for_good_go_on_elsewhere(postgresql, tmp_path):
    """Promises 1, 2, 3 and 7; paper 4, section 3: who recovers has all that it had accepted."""
    program, found = Path(__file__).with_name("node_lost.py"), tmp_path / "found.json"
    run = subprocess.run(
        [sys.executable, program, found, postgresql.address(), postgresql.address()],
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    came = json.loads(found.read_text())
    for one in came.values():
        assert one["was"] and one["moved"]
        published = one.get("published", PUBLISHED)
        assert [number for name, number in one["heard"] if name == "pub"] == list(range(1, published + 1))
        assert [number for name, number in one["heard"] if name == "other"] == list(range(1, MORE + 1))
    assert came["heals"]["broker"] == 1, "where its queue is"
