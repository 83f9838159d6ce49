"""The command line as a user runs it: what it prints where, and how it exits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RAYVOUS = Path(sys.executable).with_name("rayvous")


def rayvous(*arguments, timeout=240, cwd=None):
    words = [str(RAYVOUS), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd)


def test_the_demo_judges_a_small_run(tmp_path):
    done = rayvous("demo", "--limit", 600, "--clusters", 2, "--brokers-per-cluster", 2, "--brokers-per-actor", 2,
                   "--subscribers", 20, "--no-spark", "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "holds"
    assert result["events_published"] == 600
    assert result["notifications_delivered"] == result["notifications_expected"] > 0
    assert result["missing"] == result["duplicates"] == result["spurious"] == 0
    assert result["latency_p50_seconds"] > 0


def test_the_demo_takes_files_and_spark_writes_the_report(tmp_path):
    (tmp_path / "events.csv").write_text("sym,price\nA,1.5\nB,2.5\nA,3.5\n")
    (tmp_path / "alerts.txt").write_text("# two alerts\nsym = 'A'\n\nprice > 2\n")
    done = rayvous("demo", "--events", tmp_path / "events.csv", "--subscriptions", tmp_path / "alerts.txt",
                   "--clusters", 1, "--brokers-per-cluster", 2, "--out", "report", "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["notifications_delivered"] == 4
    assert result["tct"]["publish"] == 3 and result["tct"]["deliver"] == 4  # as computed by Spark
    assert result["aed_seconds"] > 0
    for name in ("summary.json", "tree.png", "latency.png", "load.png", "aggregates/tct.parquet"):
        assert (tmp_path / "report" / name).stat().st_size > 0


def test_a_scenario_runs_on_the_simulator(tmp_path):
    scenario = {
        "name": "small",
        "topology": {"clusters": 2, "brokers_per_cluster": 2},
        "workload": {"subscribers": 4, "publishers": 2, "publications": 20},
    }
    (tmp_path / "small.json").write_text(json.dumps(scenario))
    done = rayvous("run", tmp_path / "small.json", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "holds"


def test_a_selector_is_explained():
    done = rayvous("selector", "price > 2", "--covers", "price > 3 AND sym = 'X'", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["covers"] is True and result["is_covered"] is False


def test_schemes_are_compared():
    done = rayvous("compare", "--schemes", "hybrid,lbdd", "--events", 20, "--clusters", 4, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "holds"
    assert [row["scheme"] for row in result["results"]] == ["hybrid", "lbdd"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--events", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["demo", "--events", "empty.csv"], "empty.csv: is empty"),
        (["demo", "--events", "events.exe"], ".csv, .jsonl or .parquet"),
        (["demo", "--events", "broken.jsonl"], "broken.jsonl: cannot be read"),
        (["demo", "--events", "broken.parquet"], "broken.parquet: cannot be read"),
        (["demo", "--subscriptions", "wrong.txt"], "wrong.txt:2: line 1, column"),
        (["demo", "--clusters", "100", "--degree", "0"], "degree"),
        (["demo", "--clusters", "0"], "clusters"),
        (["demo", "--limit", "0"], "--limit 0"),
        (["demo", "--scheme", "pigeon"], "no routing scheme 'pigeon'"),
        (["demo", "--out", "wrong.txt"], "is a file"),
        (["run", "nowhere.json"], "nowhere.json"),
        (["run", "broken.jsonl"], "line 2"),
        (["run", "wrong.txt", "--on", "moon"], "--on moon"),
        (["selector", "a >"], "line 1, column"),
        (["bench", "matching", "--filters", "0"], "at least 1"),
        (["demo", "--kill", "moon"], "--kill moon"),
        (["chaos", "--plan", "plan.json"], "there is no broker 999"),
        (["chaos", "--plan", "nowhere.json"], "no such file"),
        (["chaos", "--on", "moon"], "--on moon"),
        (["chaos", "--on", "ray", "--brokers", "3"], "--brokers at least 4 on ray"),
        (["chaos", "--on", "ray", "--plan", "plan.json"], "there is no broker 999"),
        (["chaos", "--trace-dir", "wrong.txt"], "is a file"),
        (["audit", "nowhere"], "no such folder"),
        (["audit", "."], "is not a trace"),
        (["compare", "--schemes", "hybrid,pigeon"], "no routing scheme 'pigeon': there are hybrid"),
        (["compare", "--schemes", "hybrid+turbo"], "hybrid+quench"),
        (["compare", "--matching", "2"], "from 0 to 1"),
        (["compare", "--schemes", "hybrid", "--out", "wrong.txt"], "is a file"),
        (["experiment", "lbdd", "--draws", "0"], "at least 1"),
        (["experiment", "lbdd", "--out", "wrong.txt"], "is a file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, arguments, said):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "events.exe").write_text("x")
    (tmp_path / "broken.jsonl").write_text('{"a": 1}\n{"a": \n')
    (tmp_path / "broken.parquet").write_text("not parquet")
    (tmp_path / "wrong.txt").write_text("a = 1\nb >> 2\n")
    crash = {"fault": "crash", "at_seconds": 1, "broker": 999}
    (tmp_path / "plan.json").write_text(json.dumps({"name": "x", "heal_seconds": 5, "faults": [crash]}))
    done = rayvous(*arguments, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["demo", "--help"], ["run", "--help"], ["bench", "--help"], ["compare", "--help"]],
)
def test_help_teaches(arguments):
    done = rayvous(*arguments)
    assert done.returncode == 0
    assert "rayvous" in done.stdout and len(done.stdout) > 300
