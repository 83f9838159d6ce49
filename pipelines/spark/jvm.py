"""Settings of Spark's JVM, on Ray or on this machine alone: light, quiet, and for small tables."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

LIGHT_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Only the quick compiler and one collecting thread: halves the time of a small run, slows one of millions of rows."""

_QUOTED_LINES_MAX: Final = 15


def small_configs(cores: int) -> dict[str, str]:
    """Return settings for tables of up to some million rows, and a session without user interface.

    Time zone UTC, Arrow on, adaptive execution off, as many shuffle partitions as cores.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "rayvous-spark-warehouse"),
    }


@contextmanager
def java_prints_to(log: IO[str]) -> Iterator[None]:
    """Redirect the output of a Java process that starts in the block to a file, and no other output."""
    # PySpark's `launch_gateway` has a parameter `popen_kwargs` for this purpose, but no caller passes it
    # through. Only the Java process is redirected, so other threads of this process may continue to print.
    from pyspark import context

    original = context.launch_gateway
    context.launch_gateway = functools.partial(original, popen_kwargs={"stdout": log, "stderr": log})
    try:
        yield
    finally:
        context.launch_gateway = original


def tail(log: IO[str]) -> str:
    """Return the last lines of Java's output, for an error message; "" if there are none."""
    log.seek(0)
    lines = [line.rstrip() for line in log if line.strip()][-_QUOTED_LINES_MAX:]
    return "\nJava printed:\n  " + "\n  ".join(lines) if lines else ""
