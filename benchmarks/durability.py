"""What stable storage costs: events a second through one broker's write path, in memory and in SQLite files.

The write path is what an event meets at a broker with a store: the machine of `faults.durability.numbered_links`
numbers it, keeps it for the next broker and asks for the commit; the store encodes and commits several steps
together, as the host does when they wait together; the next broker's acknowledgement lets it go. Measured in one
process, without Ray, with publications of several sizes and several of them a commit. The messages are there when the
clock starts.

**What batched commits allow** is measured beside it, in the same run and on the same disk: SQLite puts the same bytes,
one row a publication, and deletes them later, in as many transactions. Those bytes are encoded before its clock
starts, and it knows no keys, checksums, numbers or acknowledgements. So what is compared is all that we do with what
SQLite alone cannot be spared. It runs with the settings of the store: the same journal, pages and `synchronous`.

The two take turns, `ROUNDS` times, each time with a new file, and the fastest round of each counts. `of_commit_rate` is
the quotient in seconds on the clock, `of_commit_cpu` in seconds of the processor: on a machine that does other work
too, only the second means anything, and it leaves out the waiting for the disk, which both share and which flatters
whoever is slower. `bare` is the broker's router alone.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..actors.broker import Broker
from ..faults.durability.codec import encode
from ..faults.durability.sqlite_store import SqliteStore
from ..faults.durability.stores import MemoryStore, Store
from ..protocol.batch import EventBatch, batch_of
from ..protocol.effects import Effect, Persist, Received, Ticked, Write
from ..protocol.messages.pubsub import Ack, Events, Numbered
from ..protocol.stability import SYNCHRONOUS, Synchronous
from ..routing.topologies.cluster_trees import ClusterTree

STEPS_A_COMMIT: Final = 16
BATCHES_MAX: Final = 4_000
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long something took."""

    clock: float
    processor: float


def run(
    *,
    events: int = 200_000,
    batch_events: Sequence[int] = (1, 64, 512),
    directory: str | Path | None = None,
) -> dict[str, Any]:
    """Measure, and return the figures as plain data.

    Parameters
    ----------
    events
        Through each store in a round, but no more than `BATCHES_MAX` publications.
    batch_events
        Events in one publication; each is measured.
    directory
        Where the files go for the time of the run; the system's temporary folder when None. What it is on decides.
    """
    results = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        for size in batch_events:
            batches = _load(min(events, size * BATCHES_MAX), size)
            count = sum(map(len, batches))
            alone = _fastest([_timed(partial(_bare, batches)) for _ in range(ROUNDS)])
            memory = _fastest(
                [_timed(partial(_write_path, _steps(batches), MemoryStore())) for _ in range(ROUNDS)]
            )
            common = {
                "batch_events": size,
                "bytes_an_event": round(len(encode(Events(batches[0]))) / size),
                "bare_events_per_second": round(count / alone.clock),
                "memory_events_per_second": round(count / memory.clock),
            }
            results += [common | _compare(batches, setting, Path(folder)) for setting in SYNCHRONOUS]
    return {"benchmark": "durability", "events": events, "steps_a_commit": STEPS_A_COMMIT, "results": results}


def _load(events: int, batch_events: int) -> list[EventBatch]:
    return [
        batch_of(
            ({"price": (first + i) % 100, "name": f"n{i % 10}", "ratio": i / 7} for i in range(batch_events)),
            publisher="p",
            first_sequence=first,
        )
        for first in range(1, events + 1, batch_events)
    ]


def _compare(batches: list[EventBatch], synchronous: Synchronous, folder: Path) -> dict[str, Any]:
    count = sum(map(len, batches))
    steps = _steps(batches)
    values = [encode(Events(batch)) for batch in batches]
    ours, limit = [], []
    for nth in range(ROUNDS):
        path = folder / f"{synchronous}-{len(batches[0])}-{nth}"
        store = SqliteStore(path.with_suffix(".sqlite"), synchronous)
        ours.append(_timed(partial(_write_path, steps, store)))
        store.close()
        connection = _opened(path.with_suffix(".limit"), synchronous)
        limit.append(_timed(partial(_bare_commits, values, connection)))
        connection.close()
    we, sqlite = _fastest(ours), _fastest(limit)
    return {
        "synchronous": synchronous,
        "sqlite_events_per_second": round(count / we.clock),
        "bare_commits_events_per_second": round(count / sqlite.clock),
        "of_commit_rate": round(sqlite.clock / we.clock, 2),
        "of_commit_cpu": round(sqlite.processor / we.processor, 2),
    }


def _timed(work: Callable[[], None]) -> Seconds:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def _fastest(rounds: Sequence[Seconds]) -> Seconds:
    return Seconds(min(each.clock for each in rounds), min(each.processor for each in rounds))


def _leaf() -> Any:
    return ClusterTree(2, 1).positions()[1]


def _bare(batches: list[EventBatch]) -> None:
    broker = Broker(_leaf())
    for batch in batches:
        broker.handle(Received("p", Events(batch)))


def _steps(batches: list[EventBatch]) -> list[Received]:
    """Return the publications as they come to a broker."""
    return [
        Received("p", Numbered(int(batch.sequence[-1]), int(batch.sequence[0]) - 1, Events(batch)))
        for batch in batches
    ]


def _write_path(steps: list[Received], store: Store) -> None:
    """Take events in at a leaf that passes them on to its parent, which acknowledges each commit."""
    position = _leaf()
    broker = Broker(position, store=store)
    _commit(store, broker.handle(Ticked(0.0)))
    for first in range(0, len(steps), STEPS_A_COMMIT):
        effects: list[Effect] = []
        for step in steps[first : first + STEPS_A_COMMIT]:
            effects += broker.handle(step)
        _commit(store, effects)
        broker.handle(Received(position.parent or 0, Ack(min(first + STEPS_A_COMMIT, len(steps)))))
    _commit(store, broker.handle(Ticked(1.0)))


def _commit(store: Store, effects: list[Effect]) -> None:
    writes: list[Write] = [
        write for effect in effects if isinstance(effect, Persist) for write in effect.writes
    ]
    store.commit(writes)


def _opened(path: Path, synchronous: Synchronous) -> sqlite3.Connection:
    """Open a new file with the settings of a store and a table for bytes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA locking_mode = exclusive")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE rows (place INTEGER PRIMARY KEY, value BLOB)")
    return connection


def _bare_commits(values: list[bytes], connection: sqlite3.Connection) -> None:
    """Put the same bytes into a table of SQLite, and take them out again, in transactions of the same size."""
    for first in range(0, len(values), STEPS_A_COMMIT):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO rows (value) VALUES (?)", ((v,) for v in values[first : first + STEPS_A_COMMIT])
        )
        connection.execute("DELETE FROM rows WHERE place <= ?", (first,))
        connection.execute("COMMIT")
    connection.execute("DELETE FROM rows")
