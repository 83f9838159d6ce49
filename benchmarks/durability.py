"""The cost of stable storage: events per second through one broker's write path, in memory, in files and in PostgreSQL.

The write path is what a broker with a store does with an event: the machine of
`recovery.durability.numbered_links` numbers it, retains it for the next broker and asks for the commit. The
store encodes and commits several steps together, as the host does when they are queued together. The next
broker's acknowledgement releases the event. It is measured in one process, without Ray, with publications of
several sizes and several of them per commit. The messages exist when the clock starts.

**What batched commits allow** is measured beside it, in the same run and on the same disk or server: SQLite,
or PostgreSQL, inserts the same bytes, one row per publication, and deletes them later, in the same number of
transactions. Those bytes are encoded before its clock starts, and it has no keys, checksums, numbers or
acknowledgements, and no fence. So the comparison is between everything that we do and the work that a
database alone must do. It runs with the settings of the store: the same journal, pages and `synchronous`, or
the same session.

The two take turns, `ROUNDS` times, each time with a new file or a new broker, and the fastest round of each
counts. `of_commit_rate` is the quotient in wall-clock seconds, `of_commit_cpu` in processor seconds. On a
machine with other load, only the second is meaningful; it leaves out the waiting for the disk, which both
share and which favours the slower one. A server's own work is not included. `bare` is the broker's router
alone.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from ..broker import Broker
from ..protocol.batch import EventBatch, batch_of
from ..protocol.effects import Effect, Persist, Received, Ticked, Write
from ..protocol.extras import extra
from ..protocol.messages.pubsub import Ack, Events, Numbered
from ..protocol.stability import SYNCHRONOUS, Synchronous
from ..recovery.durability.codec import encode
from ..recovery.durability.postgresql_database import Database, database_of
from ..recovery.durability.sqlite_store import SqliteStore
from ..recovery.durability.stores import MemoryStore, Store
from ..routing.topologies.cluster_trees import ClusterTree

STEPS_A_COMMIT: Final = 16
BATCHES_MAX: Final = 4_000
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Seconds:
    """The duration of something."""

    clock: float
    processor: float


def run(
    *,
    events: int = 200_000,
    batch_events: Sequence[int] = (1, 64, 512),
    directory: str | Path | None = None,
    database: str | None = None,
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data.

    Parameters
    ----------
    events
        Events through each store in a round, but no more than `BATCHES_MAX` publications.
    batch_events
        Events in one publication; each size is measured.
    directory
        The folder of the files during the run; the system's temporary folder if None. Its disk is what is
        measured.
    database
        Address of a PostgreSQL database to measure instead of files; a schema is created in it, and dropped
        at the end.
    """
    results = []
    with _files(directory) if database is None else _tables(database_of(database)) as contender:
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
            results += [common | _compare(batches, setting, contender) for setting in SYNCHRONOUS]
    head = {"benchmark": "durability", "store": "sqlite" if database is None else "postgresql"}
    return head | {"events": events, "steps_a_commit": STEPS_A_COMMIT, "results": results}


def _load(events: int, batch_events: int) -> list[EventBatch]:
    return [
        batch_of(
            ({"price": (first + i) % 100, "name": f"n{i % 10}", "ratio": i / 7} for i in range(batch_events)),
            publisher="p",
            first_sequence=first,
        )
        for first in range(1, events + 1, batch_events)
    ]


class Contender(Protocol):
    """A kind of store, and its database alone."""

    name: str

    def store(self, synchronous: Synchronous) -> Store:
        """Open a new store."""
        ...

    def bare(self, synchronous: Synchronous) -> Any:
        """Open the database alone: an object with `close`, and `commit`, a transaction that inserts and deletes."""
        ...


def _compare(batches: list[EventBatch], synchronous: Synchronous, contender: Contender) -> dict[str, object]:
    total = sum(map(len, batches))
    steps = _steps(batches)
    values = [encode(Events(batch)) for batch in batches]
    ours, limit = [], []
    for _ in range(ROUNDS):
        store = contender.store(synchronous)
        ours.append(_timed(partial(_write_path, steps, store)))
        store.close()
        bare = contender.bare(synchronous)
        limit.append(_timed(partial(_bare_commits, values, bare.commit)))
        bare.close()
    we, alone = _fastest(ours), _fastest(limit)
    return {
        "synchronous": synchronous,
        f"{contender.name}_events_per_second": round(total / we.clock),
        "bare_commits_events_per_second": round(total / alone.clock),
        "of_commit_rate": round(alone.clock / we.clock, 2),
        "of_commit_cpu": round(alone.processor / we.processor, 2),
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
    """Return the publications as they arrive at a broker."""
    return [
        Received("p", Numbered(int(batch.sequence[-1]), int(batch.sequence[0]) - 1, Events(batch)))
        for batch in batches
    ]


def _write_path(steps: list[Received], store: Store) -> None:
    """Accept events at a leaf that forwards them to its parent, which acknowledges each commit."""
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


def _bare_commits(values: list[bytes], commit: Callable[[Sequence[bytes], int], None]) -> None:
    """Insert the same bytes into a table, and delete them again, in transactions of the same size."""
    for first in range(0, len(values), STEPS_A_COMMIT):
        commit(values[first : first + STEPS_A_COMMIT], first)
    commit([], len(values))


@contextmanager
def _files(directory: str | Path | None) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        yield _Files(Path(folder))


class _Files:
    """SQLite files in a folder."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def store(self, synchronous: Synchronous) -> Store:
        return SqliteStore(self._folder / f"{next(self._numbers)}.sqlite", synchronous)

    def bare(self, synchronous: Synchronous) -> Any:
        return _BareSqlite(self._folder / f"{next(self._numbers)}.limit", synchronous)


class _BareSqlite:
    """A new file with the settings of a store and a table for bytes."""

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self._connection = connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA locking_mode = exclusive")
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE rows (place INTEGER PRIMARY KEY, value BLOB)")
        self.close = connection.close

    def commit(self, values: Sequence[bytes], gone: int) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO rows (value) VALUES (?)", ((value,) for value in values))
        execute("DELETE FROM rows WHERE place <= ?", (gone,))
        execute("COMMIT")


@contextmanager
def _tables(database: Database) -> Iterator[Contender]:
    tables = _Tables(replace(database, schema=f"bench_{uuid4().hex}"))
    try:
        yield tables
    finally:
        tables.drop()


class _Tables:
    """PostgreSQL tables in a schema that is created for the run."""

    name = "postgresql"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers = count()

    def store(self, synchronous: Synchronous) -> Store:
        from ..recovery.durability.postgresql_store import PostgresqlStores

        stores = PostgresqlStores(self._database, synchronous)
        store = stores.store_of(next(self._numbers))
        store.close = stores.close  # type: ignore[method-assign]  # with the connections, which it owns
        return store

    def bare(self, synchronous: Synchronous) -> Any:
        return _BarePostgresql(self._database, synchronous, next(self._numbers))

    def drop(self) -> None:
        with extra("postgresql"):
            import psycopg
            from psycopg import sql
        with psycopg.connect(self._database.conninfo) as connection:
            connection.execute(
                sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self._database.schema))
            )


class _BarePostgresql:
    """A connection with the settings of a store and a new table for bytes; one statement inserts several rows."""

    def __init__(self, database: Database, synchronous: Synchronous, number: int) -> None:
        with extra("postgresql"):
            import psycopg
            from psycopg import sql

        from ..recovery.durability.postgresql_store import settings_of

        self._connection = connection = psycopg.connect(database.conninfo, autocommit=True)
        for name, value in settings_of(database, synchronous).items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        table = sql.Identifier(f"bare_{number}")
        connection.execute(
            sql.SQL("CREATE TABLE {} (place bigserial PRIMARY KEY, value bytea)").format(table)
        )
        self._put = sql.SQL("INSERT INTO {} (value) SELECT unnest(%b::bytea[])").format(table)
        self._delete = sql.SQL("DELETE FROM {} WHERE place <= %s").format(table)
        self.close = connection.close

    def commit(self, values: Sequence[bytes], gone: int) -> None:
        with self._connection.pipeline(), self._connection.transaction():
            self._connection.execute(self._put, (list(values),))
            self._connection.execute(self._delete, (gone,))
