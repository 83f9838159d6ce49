"""What leaves each Ray node when a payload goes along LBDD's tree; several nodes, so a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_bytes_leave_the_nodes_that_the_plan_says(tmp_path):
    """Ray's own count of what each node's object store has sent. Reference: paper 5, 3.3 and 4.3."""
    program = Path(__file__).with_name("several_nodes.py")
    found = tmp_path / "found.json"  # Ray prints what it likes on standard output
    run = subprocess.run(
        [sys.executable, program, found], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    came = json.loads(found.read_text())
    assert sum(came["expected"]) > 0
    assert came["pushed"] == pytest.approx(came["expected"], rel=0.05, abs=1 << 20)
