"""The path of a sink from delivered events to renamed files, beside pyarrow writing the same tables.

Both write the same rows into the same number of Parquet files of the same compression, in turns in one process. The
sink gets batches as they are delivered, decides, makes Arrow tables of them, synchronises each file with the disk and
renames it. Pyarrow gets finished tables. Neither Ray nor a network takes part.

Times are seconds of CPU of this process; the bytes are those of the tables in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..actors.clients.columns import batch_from
from ..actors.clients.record_batches import Layout
from ..pipelines.sink.files import COMPRESSION
from ..pipelines.sink.folder import SinkFolder
from ..pipelines.sink.rolling import NOTHING, Bounds, Rolling
from ..protocol.batch import EventBatch

EVENTS: Final = 1_000_000
BATCH_EVENTS: Final = 8_192
ROLL_EVENTS: Final = 131_072
ROUNDS: Final = 5
AIRPORTS: Final = ("ATL", "BOS", "CLT", "EWR", "FLL", "IAH", "JFK", "LAX", "LGA", "MCO", "MIA", "ORD", "SFO")


def run(
    *,
    events: int = EVENTS,
    batch_events: int = BATCH_EVENTS,
    roll_events: int = ROLL_EVENTS,
    rounds: int = ROUNDS,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data; medians of all rounds."""
    show = progress or (lambda name, done, total: None)
    batches = flights(events, batch_events, seed)
    tables = _tables(batches, roll_events)
    size = sum(table.nbytes for table in tables)
    ours, theirs, files = list[float](), list[float](), 0
    for done in range(rounds):
        show("writing", done, rounds)
        with tempfile.TemporaryDirectory(prefix="rayvous-bench-") as name:
            ours.append(_timed(lambda name=name: _sink(batches, roll_events, Path(name, "sink"))))  # type: ignore[misc]
            theirs.append(_timed(lambda name=name: _pyarrow(tables, Path(name, "bare"))))  # type: ignore[misc]
            files = len([*Path(name, "sink").rglob("*.parquet")])
            assert files == len(tables)
    show("writing", rounds, rounds)
    return {
        "benchmark": "sink",
        "events": events,
        "batch_events": batch_events,
        "files": files,
        "table_bytes": size,
        "sink_seconds": median(ours),
        "pyarrow_seconds": median(theirs),
        "sink_megabytes_per_second": size / 1e6 / median(ours),
        "pyarrow_megabytes_per_second": size / 1e6 / median(theirs),
        "sink_over_pyarrow": median(mine / other for mine, other in zip(ours, theirs, strict=True)),
    }


def flights(events: int, batch_events: int, seed: int) -> list[EventBatch]:
    """Return made-up flights in batches as a subscriber gets them, all published in one hour."""
    generator = np.random.default_rng(seed)
    made = []
    for first in range(0, events, batch_events):
        size = min(batch_events, events - first)
        delays = np.round(generator.gamma(1.5, 20.0, size) - 10.0)
        columns = {
            "origin": generator.choice(AIRPORTS, size).tolist(),
            "dest": generator.choice(AIRPORTS, size).tolist(),
            "carrier": generator.choice(["AA", "B6", "DL", "UA", "WN"], size).tolist(),
            "flight": generator.integers(1, 9_000, size),
            "distance": generator.integers(80, 5_000, size),
            "dep_delay": np.where(generator.random(size) < 0.02, np.nan, delays),
            "arr_delay": delays + generator.normal(0.0, 15.0, size),
            "air_time": generator.normal(150.0, 60.0, size),
            "at": generator.integers(1_357_000_000, 1_388_500_000, size).astype("datetime64[s]"),
        }
        batch = batch_from(columns)
        sequence = np.arange(first + 1, first + size + 1)
        made.append(
            EventBatch(batch.columns, ("faa",), batch.publisher, sequence, np.full(size, 1_388_500_000.0))
        )
    return made


def _tables(batches: Sequence[EventBatch], roll_events: int) -> list[pa.Table]:
    """Return the tables that a sink writes."""
    layout, rolling, tables = Layout("us"), _rolling(roll_events), list[pa.Table]()
    for batch in batches:
        rolling.take(batch, 0.0)
        if rolling.due_in(0.0) == 0:
            tables += [
                pa.Table.from_batches([layout.record_batch(each)]) for each in rolling.roll().parts.values()
            ]
    tables += [pa.Table.from_batches([layout.record_batch(each)]) for each in rolling.roll().parts.values()]
    return tables


def _rolling(roll_events: int) -> Rolling:
    return Rolling("hour", Bounds(roll_events, 1 << 40, 1e9))


def _sink(batches: Sequence[EventBatch], roll_events: int, folder: Path) -> None:
    rolling, files = _rolling(roll_events), SinkFolder(str(folder), "lake-bench", "parquet")
    files.find(NOTHING)

    def write() -> None:
        roll = rolling.roll()
        for place, batch in roll.parts.items():
            files.write(roll.number, place, batch)
        files.name()

    for batch in batches:
        rolling.take(batch, 0.0)
        if rolling.due_in(0.0) == 0:
            write()
    write()


def _pyarrow(tables: Sequence[pa.Table], folder: Path) -> None:
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", compression=COMPRESSION)


def _timed(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
