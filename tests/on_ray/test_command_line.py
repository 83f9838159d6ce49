"""The command line as a user runs it: its output and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from patience import PATIENCE_SECONDS

RAYVOUS = Path(sys.executable).with_name("rayvous")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rayvous(*arguments, timeout=PATIENCE_SECONDS, cwd=None, env=None):
    words = [str(RAYVOUS), *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd, env=env
    )


@pytest.fixture
def on_this_ray(ray_started):
    """Return the environment of a process that joins the tests' Ray."""
    return os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}


def test_a_scheme_and_a_layer_of_ones_own_run_on_ray(tmp_path, on_this_ray):
    """Both are found in the current folder. With everything on: tests/broker/test_own.py."""
    scenario = {
        "name": "own",
        "topology": {"clusters": 2, "brokers_per_cluster": 2},
        "scheme": "own_scheme:Row+own_layer:Origins",
        "workload": {"subscribers": 4, "publishers": 2, "publications": 20},
    }
    (tmp_path / "own.json").write_text(json.dumps(scenario))
    done = rayvous("run", tmp_path / "own.json", "--on", "ray", "--json", cwd=EXAMPLES, env=on_this_ray)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "holds" and result["notifications_delivered"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--events", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["chaos", "--on", "moon"], "--on moon"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, arguments, said):
    """The command is run as a process; other mistakes are tested in tests/cli/test_mistakes.py."""
    done = rayvous(*arguments, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_help_is_printed():
    done = rayvous("demo", "--help")
    assert done.returncode == 0
    assert "rayvous" in done.stdout and len(done.stdout) > 300
