"""What stable storage costs: events a second through one broker's write path, in memory and in SQLite files.

The write path is what an event meets at a broker with a store: the machine of `faults.crash_recover` numbers it, keeps
it for the next broker and asks for the commit; the store commits several steps together, as the host does when they
wait together; the next broker's acknowledgement lets it go. Measured in one process, without Ray, with
publications of several sizes and several of them a commit.

Beside it, in the same run and on the same disk: how many rows of the same bytes SQLite itself commits in transactions
of the same size, put and later deleted, with nothing of ours around it. `of_commit_rate` is events a second through the
write path divided by that; `bare` is the broker's router alone.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..actors.broker import Broker
from ..faults.codec import encode
from ..faults.sqlite_store import SqliteStore
from ..faults.stores import MemoryStore, Store
from ..protocol.batch import EventBatch, batch_of
from ..protocol.effects import Effect, Persist, Received, Ticked, Write
from ..protocol.messages import Ack, Adv, Events
from ..protocol.stability import SYNCHRONOUS, Synchronous
from ..routing.topologies import ClusterTree

STEPS_A_COMMIT: Final = 16
BATCHES_MAX: Final = 4_000


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
        Through each store, but no more than `BATCHES_MAX` publications.
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
            common = {
                "batch_events": size,
                "bytes_an_event": round(len(encode(Events(batches[0]))) / size),
                "bare_events_per_second": round(count / _timed(partial(_bare, batches))),
                "memory_events_per_second": round(
                    count / _timed(partial(_write_path, batches, MemoryStore()))
                ),
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
    name = f"{synchronous}-{len(batches[0])}"
    store = SqliteStore(folder / f"{name}.sqlite", synchronous)
    ours = count / _timed(lambda: _write_path(batches, store))
    store.close()
    values = [encode(Events(batch)) for batch in batches]
    limit = count / _timed(lambda: _bare_commits(values, synchronous, folder / f"{name}.limit"))
    return {
        "synchronous": synchronous,
        "sqlite_events_per_second": round(ours),
        "bare_commits_events_per_second": round(limit),
        "of_commit_rate": round(ours / limit, 2),
    }


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _leaf() -> Any:
    return ClusterTree(2, 1).positions()[1]


def _bare(batches: list[EventBatch]) -> None:
    broker = Broker(_leaf())
    for batch in batches:
        broker.handle(Received("p", Events(batch)))


def _write_path(batches: list[EventBatch], store: Store) -> None:
    """Take events in at a leaf that passes them on to its parent, which acknowledges each commit."""
    position = _leaf()
    broker = Broker(position, store=store)
    _commit(store, broker.handle(Ticked(0.0)))
    for first in range(0, len(batches), STEPS_A_COMMIT):
        effects: list[Effect] = []
        for batch in batches[first : first + STEPS_A_COMMIT]:
            last = int(batch.sequence[-1])
            adv = Adv(last, last - len(batch), Events(batch))
            effects += broker.handle(Received("p", adv))
        _commit(store, effects)
        broker.handle(Received(position.parent or 0, Ack(min(first + STEPS_A_COMMIT, len(batches)))))
    _commit(store, broker.handle(Ticked(1.0)))


def _commit(store: Store, effects: list[Effect]) -> None:
    writes: list[Write] = [
        write for effect in effects if isinstance(effect, Persist) for write in effect.writes
    ]
    store.commit(writes)


def _bare_commits(values: list[bytes], synchronous: Synchronous, path: Path) -> None:
    """Put the same bytes into a table of SQLite, and take them out again, in transactions of the same size."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA locking_mode = exclusive")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE rows (place INTEGER PRIMARY KEY, value BLOB)")
    for first in range(0, len(values), STEPS_A_COMMIT):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO rows (value) VALUES (?)", ((v,) for v in values[first : first + STEPS_A_COMMIT])
        )
        connection.execute("DELETE FROM rows WHERE place <= ?", (first,))
        connection.execute("COMMIT")
    connection.close()
