"""Aggregation throughput: telemetry rows per second that Spark turns into figures, compared with reading only.

The telemetry is synthetic, in the proportions of a traced run, and written to Parquet as a long run leaves
it. In one session on this machine, Spark then counts the rows (which reads only the files' footers), reads
every column of every row, and computes all figures of a report. Only the figures come to the driver: they are
a few hundred rows.

`java_bytes_max` is the peak memory of the JVM, `python_bytes_max` that of this process, which only issues the
queries.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from ..actors.telemetry.files import PartKey, write_part
from .report import made_up_graph, made_up_tables

T = TypeVar("T")

ROWS: Final = 10_000_000
PART_ROWS: Final = 1_000_000
"""Rows of all tables that are generated and written at once."""
RUN: Final = "made-up-00000000"
CORES: Final = 2


def run(
    *, rows: int = ROWS, seed: int = 0, progress: Callable[[str, int, int], None] | None = None
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data; times in seconds."""
    from ..pipelines.figures.figures import figures_of
    from ..pipelines.spark.frames import frames_in
    from ..pipelines.spark.local import local_session
    from ..pipelines.spark.session import jobs_of

    show = progress or (lambda name, done, total: None)
    with tempfile.TemporaryDirectory(prefix="rayvous-bench-") as name:
        folder = Path(name)
        written = _write(folder, rows, seed, show)
        with local_session("rayvous-bench", cores=CORES) as spark:
            tables = {
                table: frame for table, frame in frames_in(spark, folder, RUN).items() if written.get(table)
            }
            steps: dict[str, float] = {}

            def timed(step: str, work: Callable[[], T]) -> T:
                show(step, 0, 1)
                began = time.perf_counter()
                found = work()
                steps[step] = time.perf_counter() - began
                show(step, 1, 1)
                return found

            counted = timed("count", lambda: sum(frame.count() for frame in tables.values()))
            timed("read", lambda: _read_all(tables.values()))
            jobs = jobs_of(spark)
            figures = timed("figures", lambda: figures_of(tables, made_up_graph()))
            jobs = jobs_of(spark) - jobs
            java = _java_bytes_max()
        bytes_written = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    assert counted == sum(written.values())
    return {
        "benchmark": "aggregation",
        "rows": counted,
        "parquet_bytes": bytes_written,
        "cores": CORES,
        "spark_jobs": jobs,
        "count_seconds": steps["count"],
        "read_seconds": steps["read"],
        "figures_seconds": steps["figures"],
        "rows_per_second": counted / steps["figures"],
        "read_rows_per_second": counted / steps["read"],
        "figures_over_read": steps["figures"] / steps["read"],
        "figure_rows": sum(len(figure) for figure in figures.values()),
        "java_bytes_max": java,
        "python_bytes_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _write(folder: Path, rows: int, seed: int, show: Callable[[str, int, int], None]) -> dict[str, int]:
    """Write the telemetry part by part; return the number of rows of each table."""
    written: dict[str, int] = {}
    parts = -(-rows // PART_ROWS)
    for part in range(parts):
        show("writing", part, parts)
        for name, table in made_up_tables(min(PART_ROWS, rows - part * PART_ROWS), seed + part).items():
            write_part(folder, name, RUN, PartKey(0, part), table)
            written[name] = written.get(name, 0) + table.num_rows
    show("writing", parts, parts)
    return written


def _read_all(frames: Iterable[Any]) -> None:
    """Read every column of every row, and discard it."""
    for frame in frames:
        frame.write.format("noop").mode("overwrite").save()


def _java_bytes_max() -> int | None:
    """Return the peak memory of this process's JVM so far; None where the system does not report it."""
    most = [
        int(line.split()[1]) * 1024
        for child in psutil.Process().children(recursive=True)
        if child.name() == "java" and (status := Path(f"/proc/{child.pid}/status")).is_file()
        for line in status.read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return max(most, default=None)
