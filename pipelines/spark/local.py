"""A small Spark session on this machine, without Ray, for reading files.

Rules
-----
* An already open session is used, whoever made it, and is left open. The caller must stop a session that is
  started here.
* Its JVM starts light: it compiles once and collects with one thread. `PYSPARK_SUBMIT_ARGS` is respected.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ...actors.network.java import prepare_java
from ...protocol import checks
from ...protocol.errors import InputError, RayUnavailable, SparkUnavailable
from ...protocol.extras import require
from .jvm import LIGHT_JVM, java_prints_to, small_configs, tail
from .session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_local(app_name: str = "rayvous", cores: int = 2) -> SparkSession:
    """Start Spark in a JVM on this machine; the caller must stop it.

    Parameters
    ----------
    app_name
        Name of the Spark application.
    cores
        Threads that run tasks.

    Raises
    ------
    MissingExtra
        PySpark or Java is not installed.
    SparkUnavailable
        If it did not start.
    """
    require("spark")
    prepare_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
    for key, value in _configs(cores).items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile("w+") as java_output:
        try:
            with java_prints_to(java_output):
                spark = builder.getOrCreate()
        except Exception as error:  # PySpark raises various errors; all of them mean the same to a caller
            raise SparkUnavailable(
                f"Spark did not start on this machine: {error}{tail(java_output)}"
            ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def local_session(app_name: str = "rayvous", cores: int = 2) -> Iterator[SparkSession]:
    """Start Spark in a JVM on this machine; stop it at the end of the block. For the rest see `start_local`."""
    spark = start_local(app_name, cores)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def session_at(address: str | None, app_name: str = "rayvous-report") -> Iterator[SparkSession]:
    """Start Spark on the Ray at an address, or for None on this machine; stop it at the end of the block.

    Without an address, the session that is open in this process is used, and left open.

    Raises
    ------
    InputError
        If there is no Ray at the address.
    SparkUnavailable
        If Spark did not start.
    """
    if address is None:
        opened = open_session()
        with nullcontext(opened) if opened is not None else local_session(app_name) as spark:
            yield spark
        return
    import ray

    from ...actors.network.launching import init_ray

    prepare_java()
    try:
        init_ray(address)
    except RayUnavailable as error:
        raise InputError(f"--address {address}: there is no Ray: {error}") from None
    try:
        with spark_session(app_name) as spark:
            yield spark
    finally:
        ray.shutdown()


def open_session(session: SparkSession | None = None) -> SparkSession | None:
    """Return the given session, or the one that is open in this process, or None.

    Raises
    ------
    InputError
        If what was given is not a Spark session, or one of Spark Connect.
    SparkUnavailable
        If the given session is stopped.
    """
    if session is not None:
        _check_session(session)
        return session
    require("spark")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Not `getActiveSession`, which knows only sessions of the calling thread.
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def _check_session(session: Any) -> None:
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "session: a session of Spark Connect has its driver elsewhere, which knows neither this network's Ray nor "
            "these files: write the telemetry with to_parquet(folder), and read it with session.read.parquet"
        )
    require("spark")
    from pyspark.sql import SparkSession

    checks.instance("session", session, SparkSession, "a Spark session")
    if session.sparkContext._jsc is None:
        raise SparkUnavailable("session: this Spark session is stopped: give one that is open, or none")


def _configs(cores: int) -> dict[str, str]:
    return {
        "spark.driver.extraJavaOptions": LIGHT_JVM,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **small_configs(cores),
    }
