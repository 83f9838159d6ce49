"""Starting Spark: refusals and their messages, and the properties of a session."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from rayvous.pipelines.spark.jvm import LIGHT_JVM
from rayvous.pipelines.spark.session import spark_session

SCRIPT = Path(__file__).with_name("session_script.py")


@pytest.fixture(scope="module")
def found(ray_started: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # A PATH with the few commands that Ray needs, but without Java.
    folder = tmp_path_factory.mktemp("bin")
    for command in ("bash", "sh", "env", "uname", "ps"):
        for place in ("/bin", "/usr/bin"):
            if Path(place, command).exists() and not (folder / command).exists():
                (folder / command).symlink_to(Path(place, command))
    bare = os.pathsep.join([str(folder), str(Path(sys.executable).parent)])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ray.get_runtime_context().gcs_address],
        env={**os.environ, "PATH_WITHOUT_JAVA": bare},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_importing_the_session_module_imports_nothing_heavy(found):
    assert found["early_imports"] == []


def test_ray_must_be_running(found):
    assert found["no_ray"].startswith("Ray is not running: call prepare_java(), then ray.init()")


def test_ray_must_have_a_cpu_more_than_the_executors(found):
    cpus = found["cpus"]
    said = f"Spark needs {cpus} CPU(s) for its executors and 1 for Ray tasks, but this Ray has {cpus}"
    assert said in found["too_few_cpus"]


def test_the_workers_must_find_java(found):
    assert "Ray's workers find no Java" in found["no_java"]
    assert "prepare_java() before" in found["no_java"]


def test_who_asks_within_a_block_gets_the_open_session_and_leaves_it_open(spark_on_ray):
    with spark_session() as inner:
        assert inner is spark_on_ray
    assert spark_on_ray.range(3).count() == 3


def test_on_one_machine_the_jvms_start_light(spark_on_ray):
    assert spark_on_ray.conf.get("spark.executor.extraJavaOptions") == LIGHT_JVM


def test_a_session_computes_and_so_does_a_second_one_of_the_same_process(first_sum, spark_on_ray):
    assert first_sum == 10
    assert spark_on_ray.range(6).agg({"id": "sum"}).toPandas().iloc[0, 0] == 15
