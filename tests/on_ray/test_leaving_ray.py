"""A process that forks, or leaves Ray before it closes its network, is not left hanging and is told nothing strange."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ray
from patience import PATIENCE_SECONDS


def test_a_driver_that_forks_leaves_ray_and_ends_a_network(ray_started: None, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    env = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    line = [sys.executable, Path(__file__).with_name("leaving_ray.py"), found]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=env
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "retries remaining" not in said and "Traceback" not in said
    told = json.loads(found.read_text())
    assert set(told["forked"]) == {"publish", "notifications", "attach", "subscriber"}
    for why in told["forked"].values():
        assert "was forked" in why and "'spawn'" in why
    assert not told["joined again"]
