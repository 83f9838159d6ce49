"""Telemetry as DataFrames: in the user's own session, in a RayDP session, and from the command line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from patience import PATIENCE_SECONDS
from rayvous.actors.telemetry.arrow import to_arrow
from rayvous.actors.telemetry.files import PartKey, write_part
from rayvous.actors.telemetry.telemetry import Chunk, Holdings, Telemetry
from rayvous.pipelines.spark import frames as module
from rayvous.pipelines.spark.frames import is_raydp
from rayvous.protocol.telemetry.tables import TABLES

SCRIPT = Path(__file__).with_name("plain_session_script.py")


@pytest.fixture(scope="module")
def plain(ray_started: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("plain"))]
    here = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_every_row_arrives_in_the_users_own_session(plain):
    assert plain["counts"] == plain["rows"]
    assert plain["rows"]["published"] == 100 and plain["rows"]["notified"] == 90
    assert all(plain["columns"].values())
    assert plain["events"] == 100
    assert plain["sequences"] == list(range(11, 101))
    assert plain["after"] == plain["counts"]


def test_what_is_new_goes_to_the_session_that_is_open(plain):
    assert plain["since"]["published"] == plain["since"]["notified"] == 1


def test_a_report_in_the_users_session_leaves_it_open(plain):
    assert (plain["figures"]["events"], plain["figures"]["notifications"]) == (101, 91)
    assert plain["summary"]["why"] == "a test"
    assert plain["open"] == 3


def test_a_session_of_somebody_else_is_not_replaced(plain):
    assert "already open" in plain["foreign"]


def deliveries(count: int) -> Any:
    columns = {
        "time_seconds": np.arange(count) + 1_000.0, "broker": np.zeros(count, int),
        "notifications": np.ones(count, int), "latency_sum_seconds": np.full(count, 0.25),
    }  # fmt: skip
    return to_arrow("deliveries", columns)


def test_in_a_session_of_raydp_rows_go_by_reference(spark_on_ray, monkeypatch):
    assert is_raydp(spark_on_ray)
    handed = []
    by_reference = module.to_spark
    monkeypatch.setattr(
        module, "to_spark", lambda spark, refs, name: handed.append(name) or by_reference(spark, refs, name)
    )
    monkeypatch.setattr(module.tempfile, "mkdtemp", None)  # no file is written
    table = deliveries(5)
    chunk = Chunk(PartKey(1, 0), ray.put(table), 5)
    lost = {"deliveries": {"memory": 3}}
    telemetry = Telemetry(Holdings("run", PartKey(1, 1), {"deliveries": [chunk]}, lost, 9.0))
    found = module.spark_frames(telemetry, spark_on_ray)
    assert list(found) == list(TABLES)
    assert handed == ["transfers", "deliveries", "multicasts", "published", "notified"]
    assert found["deliveries"].orderBy("time_seconds").toPandas()["time_seconds"].tolist() == [
        1_000.0 + row for row in range(5)
    ]
    assert [tuple(row) for row in found["lost"].collect()] == [(9.0, "deliveries", "memory", 3)]
    assert found["notified"].count() == 0


def test_followed_from_the_command_line_until_interrupted(spark, rayvous, tmp_path):
    write_part(tmp_path / "t", "deliveries", "run-1", PartKey(1, 0), deliveries(5))
    names = {name: np.array([word], object) for name, word in (("table", "deliveries"), ("reason", "memory"))}
    lost = to_arrow("lost", {"time_seconds": np.array([1_000.0]), **names, "rows": np.array([3])})
    write_part(tmp_path / "t", "lost", "run-1", PartKey(1, 0), lost)
    script = Path(sys.executable).with_name("rayvous")
    command = [str(script), "report", str(tmp_path / "t"), "--follow", "--out", str(tmp_path / "o"), "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as running:
        assert running.stdout is not None
        try:
            assert json.loads(running.stdout.readline())["batch"] == -1
            first = json.loads(running.stdout.readline())
            write_part(tmp_path / "t", "deliveries", "run-1", PartKey(1, 1), deliveries(2))
            second = json.loads(running.stdout.readline())
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does, to Java as well
            rest, told = running.communicate(timeout=PATIENCE_SECONDS)
        finally:
            running.kill()
    assert running.returncode == 0, told
    assert (first["aed"]["notifications"], second["aed"]["notifications"]) == (5, 7)
    assert rest == "" and "Traceback" not in told
    assert json.loads((tmp_path / "o" / "live.json").read_text()) == second
    status, out, told = rayvous("report", str(tmp_path / "t"), "--out", str(tmp_path / "r"), "--json")
    assert status == 0, told
    batch = json.loads(out)
    assert batch["lost"] == second["lost"] == {"deliveries": {"memory": 3}}
    for name in ("tct", "throughput", "aed", "latency_percentiles"):
        assert batch[name] == second[name], name
