"""The command line as a user runs it: what it prints where, and how it exits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray

RAYVOUS = Path(sys.executable).with_name("rayvous")
BOUND_SECONDS = 40.0
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rayvous(*arguments, timeout=240, cwd=None, env=None):
    words = [str(RAYVOUS), *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd, env=env
    )


@pytest.fixture
def on_this_ray(ray_started):
    """The environment of a process that joins the Ray of the tests."""
    return os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}


def test_the_demo_takes_files_kills_and_spark_writes_the_report(tmp_path):
    rows = [f"{'AB'[place % 2]},{place % 7}.5" for place in range(3_000)]
    (tmp_path / "events.csv").write_text("\n".join(["sym,price", *rows]))
    (tmp_path / "alerts.txt").write_text("# two alerts\nsym = 'A'\n\nprice > 2\n")
    done = rayvous("demo", "--events", tmp_path / "events.csv", "--subscriptions", tmp_path / "alerts.txt",
                   "--clusters", 3, "--brokers-per-cluster", 2, "--degree", 1, "--kill", "deb", "--out", "report",
                   "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gcs_client" not in done.stderr and "Setting default log level" not in done.stderr
    result = json.loads(done.stdout)
    wanted = 1_500 + sum(place % 7 >= 2 for place in range(3_000))
    assert result["verdict"] == "holds" and result["events_published"] == 3_000
    assert result["notifications_delivered"] == result["notifications_expected"] == wanted
    assert result["missing"] == result["duplicates"] == result["spurious"] == 0
    assert len(result["killed"]) == 1 and 0.5 < result["recovery_seconds"] < BOUND_SECONDS
    said = [moment["what"] for moment in result["timeline"]]
    assert said[0] == f"killed broker {result['killed'][0]}"
    assert said[-1] == "everything published was delivered"
    assert any("speaks for cluster" in what for what in said)
    # As computed by Spark, of the rows that did not die with the broker.
    assert 0 < result["tct"]["publish"] <= 3_000 and result["tct"]["deliver"] > 0
    assert result["aed_seconds"] > 0 and result["latency_p50_seconds"] > 0
    assert result["seconds_per_notification"] > 0
    carried_out = result["multicasts"]["all"]
    assert 0 < carried_out["events"] <= result["tct"]["multicast"] and carried_out["calls"] > 0
    for name in ("summary.json", "tree.png", "latency.png", "load.png", "aggregates/tct.parquet"):
        assert (tmp_path / "report" / name).stat().st_size > 0


def test_a_scheme_and_a_layer_of_ones_own_run_on_ray(tmp_path, on_this_ray):
    """They are found in the folder where the command is called. With everything on: tests/actors/broker/test_own.py."""
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
    """As a process; what else may be wrong is in tests/cli/test_mistakes.py."""
    done = rayvous(*arguments, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_help_is_printed():
    done = rayvous("demo", "--help")
    assert done.returncode == 0
    assert "rayvous" in done.stdout and len(done.stdout) > 300
