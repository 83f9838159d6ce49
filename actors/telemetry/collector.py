"""The collector: takes the telemetry of the hosts, and stores it in Ray's object store or in files.

Rules
-----
* The collector puts the tables into the object store itself. An object dies with the process that put it, and
  telemetry must outlive the broker that wrote it.
* With a folder, each table is written when enough rows wait, when they have waited long enough, and on every read.
* Memory is bounded. Beyond the bound the oldest rows are dropped and counted.
* The collector is restarted when it dies. What was in files is still there; the rest is counted as lost
  (`accounts`).
* Only readers wait for the collector: hosts send in the background, and continue when it is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import ray

from ...protocol.errors import StorageFailed, UnreadableFile
from ...protocol.telemetry.tables import SCHEMAS, TABLES, Table, TelemetryConfig
from ..logs import Log
from .accounts import Accounts, HandOver
from .arrow import to_arrow
from .files import PartKey, parts, write_network, write_part
from .reading import metadata_of
from .telemetry import Chunk, Holdings

CHUNK_BYTES: Final = 1 << 20
"""Without a folder, a table is put into the object store when it has this many bytes."""

CHUNK_PIECES: Final = 256
"""Or when it has this many flushes, each of which costs memory of its own."""

CHUNK_OVERHEAD_BYTES: Final = 4096
"""The memory cost of an object beside its rows, for tables of many small objects."""

_LOG = Log("rayvous.collector")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one host that wait to be written or put."""

    source: str
    rows: pa.Table
    came_at: float


def _last_readable(found: Mapping[PartKey, Path]) -> dict[str, str]:
    """Return the metadata of the last part that can be read: a crash of the machine may have cut the one after it."""
    for path in reversed(list(found.values())):
        with suppress(UnreadableFile):
            return metadata_of(path)
    return {}


class Collector:
    """Stores all chunks of all tables, or the newest of them.

    Parameters
    ----------
    run
        The name of the run.
    config
        Where its telemetry is stored.
    network
        Brokers and links, as `network_of` describes them.
    put, clock
        Puts a table into the object store; returns the time in seconds since 1970.
    """

    def __init__(
        self,
        run: str,
        config: TelemetryConfig | None = None,
        network: Mapping[str, Any] | None = None,
        put: Callable[[pa.Table], Any] = ray.put,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self._config = (config or TelemetryConfig()).validate()
        self._folder = None if self._config.folder is None else Path(self._config.folder)
        self._network = dict(network or {})
        self._put = put
        self._clock = clock
        self._accounts = Accounts()
        self._waiting: dict[str, list[_Piece]] = {name: [] for name in SCHEMAS}
        self._chunks: deque[tuple[str, Chunk, int]] = deque()
        self._bytes = 0
        self._next = PartKey(int(clock() * 1e9), 0)
        self._rolling: asyncio.Task[None] | None = None
        self._failed = ""
        if self._folder is not None:
            self._go_on(self._folder)

    def _go_on(self, folder: Path) -> None:
        """Restore the accounts from an earlier incarnation of the collector."""
        found = {name: parts(folder, name, self._run) for name in TABLES}
        told = {name: _last_readable(each).get("accounts") for name, each in found.items()}
        self._accounts.restore(
            {name: text for name, text in told.items() if text and name != "lost"}, told.get("lost")
        )
        earlier = [key.incarnation + 1 for each in found.values() for key in each]
        self._next = PartKey(max(self._next.incarnation, *earlier), 0) if earlier else self._next
        write_network(folder, self._run, self._network)

    # Input.

    async def add(self, flush: HandOver) -> None:
        """Take the rows that a host's brokers recorded since its last flush."""
        if self._rolling is None and self._folder is not None:
            self._rolling = asyncio.get_running_loop().create_task(self._roll_in_time())
        self.take(flush)

    def take(self, flush: HandOver) -> None:
        """Take the rows of a flush that are not here yet."""
        now = self._clock()
        rows = {
            name: [to_arrow(name, tables[name]) for tables in flush.tables if name in tables]
            for name in SCHEMAS
        }
        for name in SCHEMAS:
            skip = self._accounts.settle(flush, name)
            fresh = pa.concat_tables(rows[name]).slice(skip) if rows[name] else None
            if fresh is not None and fresh.num_rows:
                self._accounts.take(name, flush.source, fresh.num_rows)
                self._waiting[name].append(_Piece(flush.source, fresh, now))
                self._bytes += fresh.nbytes
                self._pass_on_if_due(name)
        self._keep_bound()

    def _pass_on_if_due(self, name: str) -> None:
        pieces = self._waiting[name]
        waiting = sum(piece.rows.nbytes for piece in pieces)
        if self._folder is not None:
            if waiting >= self._config.roll_bytes:
                self.roll([name])
        elif waiting >= CHUNK_BYTES or len(pieces) >= CHUNK_PIECES:
            self._seal(name)

    def _keep_bound(self) -> None:
        """Drop the oldest rows until the rest fits."""
        while self._bytes > self._config.memory_bytes_max:
            if self._chunks:
                name, chunk, nbytes = self._chunks.popleft()
                self._bytes -= nbytes
                # Their hosts are not known any more. Without a folder this is never read again.
                self._accounts.miss(name, "", chunk.rows, "memory")
                continue
            name = min(
                (name for name in SCHEMAS if self._waiting[name]),
                key=lambda name: self._waiting[name][0].came_at,
            )
            piece = self._waiting[name].pop(0)
            self._bytes -= piece.rows.nbytes
            self._accounts.drop(name, piece.source, piece.rows.num_rows)

    # Into the object store, or into files.

    def _key(self) -> PartKey:
        key = self._next
        self._next = PartKey(key.incarnation, key.number + 1)
        return key

    def _joined(self, name: str) -> pa.Table:
        return pa.concat_tables([piece.rows for piece in self._waiting[name]]).combine_chunks()

    def _seal(self, name: str) -> None:
        table = self._joined(name)
        nbytes = table.nbytes + CHUNK_OVERHEAD_BYTES
        self._bytes += nbytes - sum(piece.rows.nbytes for piece in self._waiting[name])
        self._chunks.append((name, Chunk(self._key(), self._put(table), table.num_rows), nbytes))
        self._waiting[name] = []

    def roll(self, names: list[str]) -> None:
        """Write the waiting rows of these tables, and the lost counts; what cannot be written keeps waiting."""
        assert self._folder is not None
        try:
            if self._accounts.unwritten:
                table, told = self._lost_rows(), self._accounts.of_lost()
                write_part(self._folder, "lost", self._run, self._key(), table, accounts=told)
                self._accounts.unwritten.clear()
            for name in names:
                if self._waiting[name]:
                    table, told = self._joined(name), self._accounts.of_table(name)
                    write_part(self._folder, name, self._run, self._key(), table, accounts=told)
                    self._bytes -= sum(piece.rows.nbytes for piece in self._waiting[name])
                    self._waiting[name] = []
            self._failed = ""
        except OSError as error:
            if not self._failed:
                _LOG.error("telemetry of %s cannot be written to %s: %s", self._run, self._folder, error)
            self._failed = str(error)

    def _lost_rows(self) -> pa.Table:
        found = self._accounts.unwritten
        columns: Table = {
            "time_seconds": [self._clock()] * len(found),
            "table": [name for name, _ in found],
            "reason": [reason for _, reason in found],
            "rows": list(found.values()),
        }
        return to_arrow("lost", columns)

    async def _roll_in_time(self) -> None:
        while True:
            await asyncio.sleep(self._config.roll_seconds / 4)
            self.roll_due()

    def roll_due(self) -> None:
        """Write the tables with a row that would wait too long if it waited until the next call."""
        due = self._clock() - self._config.roll_seconds * 3 / 4
        names = [name for name, pieces in self._waiting.items() if pieces and pieces[0].came_at <= due]
        if names or self._accounts.unwritten:
            self.roll(names)

    # Output.

    def hold(self) -> Holdings:
        """Return what the collector has now; with a folder everything is written first.

        Raises
        ------
        StorageFailed
            If it cannot be written.
        """
        if self._folder is not None:
            self.roll(list(SCHEMAS))
            if self._failed:
                raise StorageFailed(
                    f"the collector cannot write telemetry to {self._folder}: {self._failed}; "
                    "what waits is kept in memory and written when there is room again"
                )
        else:
            for name in SCHEMAS:
                if self._waiting[name]:
                    self._seal(name)
        chunks: dict[str, list[Chunk]] = {name: [] for name in SCHEMAS}
        for name, chunk, _ in self._chunks:
            chunks[name].append(chunk)
        lost = {name: dict(reasons) for name, reasons in self._accounts.lost.items()}
        return Holdings(self._run, self._next, chunks, lost, self._clock(), self._folder, self._network)
