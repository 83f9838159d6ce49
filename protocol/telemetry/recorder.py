"""Records the actions of a broker's host in the tables of `telemetry`, for the collector to fetch.

Rules
-----
* The simulator and the Ray host call the recorder in the same way: `effect` for each effect that they carry out,
  `published` for each batch of a publisher. So both produce the same tables. Only Ray calls `carried_out`.
* Recording an effect takes a few appends to lists; arrays are made at `flush`.
* A table holds at most `telemetry_rows_max` rows between two flushes; further rows are dropped and counted.
* The size of a filter on the wire is not known before it is sent, so the `nbytes` of a control message is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..batch import EventBatch
from ..configs import Limits, Position
from ..effects import Confirm, Deliver, Effect, Multicast, Send
from ..messages.admission import AdmissionMessage
from ..messages.pubsub import Directed, Events, Message, Numbered
from ..messages.recovery import RecoveryMessage
from .tables import SCHEMAS, CarriedOut, Table

_Array: TypeAlias = npt.NDArray[np.generic]
_CARRIERS: Final = (Events, Directed)


class _Notified:
    """The parts of one `Deliver` that the table `notified` needs, in the order of its rows."""

    __slots__ = ("clients", "counts", "now", "published_at", "publisher", "publishers", "sequence")

    def __init__(self, now: float, effect: Deliver) -> None:
        batch, rows = effect.batch, effect.rows
        self.now = now
        self.clients = effect.clients
        self.counts = np.diff(effect.starts)
        self.publishers = batch.publishers
        self.publisher = batch.publisher[rows]
        self.sequence = batch.sequence[rows]
        self.published_at = batch.published_at[rows]


TARGET_BYTES: Final = 16
"""The size of one destination in a message that lists its destinations: a broker and a number."""


class TelemetryBuffer:
    """The tables of one broker, between two flushes.

    Parameters
    ----------
    position
        The broker's place, which determines the links that go up.
    limits
        Only `telemetry_rows_max` is used.
    trace_events
        Whether to fill `published` and `notified`, with one row per event.

    Attributes
    ----------
    dropped_rows
        ``{table: number of dropped rows}`` since the buffer was created.
    rows
        The number of rows, in all tables together, that wait for the next flush.
    """

    __slots__ = (
        "_batch",
        "_broker",
        "_cluster",
        "_deliveries",
        "_multicasts",
        "_nbytes",
        "_notified",
        "_notified_rows",
        "_parent",
        "_published",
        "_published_rows",
        "_rows_max",
        "_trace_events",
        "_transfers",
        "dropped_rows",
        "rows",
    )

    def __init__(self, position: Position, limits: Limits, *, trace_events: bool = False) -> None:
        self._broker = position.broker
        self._cluster = position.cluster
        self._parent = position.parent
        self._rows_max = limits.telemetry_rows_max
        self._trace_events = trace_events
        self.dropped_rows = dict.fromkeys(SCHEMAS, 0)
        self._batch: EventBatch | None = None
        self._nbytes = 0
        self._clear()

    def _clear(self) -> None:
        # time, link_kind, peer, messages, events, nbytes
        self._transfers: list[tuple[float, str, int, int, int, int]] = []
        self._deliveries: list[tuple[float, int, float]] = []  # time, notifications, latency_sum_seconds
        self._multicasts: list[tuple[float | int, ...]] = []
        # Only the arrays that the tables need are stored, so that a chunk does not reference whole batches.
        self._published: list[tuple[float, tuple[str, ...], _Array, _Array]] = []
        self._published_rows = 0
        self._notified: list[_Notified] = []
        self._notified_rows = 0
        self.rows = 0

    def effect(self, now: float, effect: Effect) -> None:
        """Record an effect that is carried out at `now`, in seconds."""
        if isinstance(effect, Send):
            self._transfer(now, "up" if effect.to == self._parent else "down", effect.to, effect.message)
        elif isinstance(effect, Multicast):
            self._transfer(now, "multicast", -1, effect.message)
        elif isinstance(effect, Deliver):
            self.delivered(now, effect)
        elif isinstance(effect, Confirm):
            self._row(now, "deliver", -1, 1, 0, 0)

    def published(self, now: float, batch: EventBatch) -> None:
        """Record events that a publisher sent at `now`, in seconds."""
        self._row(now, "publish", -1, 1, len(batch), self._size(batch))
        if self._trace_events:
            if self._published_rows + len(batch) > self._rows_max:
                self.dropped_rows["published"] += len(batch)
            else:
                self._published_rows += len(batch)
                self.rows += len(batch)
                self._published.append((now, batch.publishers, batch.publisher, batch.sequence))

    def carried_out(self, now: float, multicasts: CarriedOut) -> None:
        """Record how multicasts were carried out on a host without native multicast, at `now`, in seconds."""
        if len(self._multicasts) < self._rows_max:
            self.rows += 1
            self._multicasts.append((now, *multicasts))
        else:
            self.dropped_rows["multicasts"] += 1

    def _transfer(
        self, now: float, kind: str, peer: int, message: Message | RecoveryMessage | AdmissionMessage
    ) -> None:
        if isinstance(message, Numbered):
            message = message.message
        if isinstance(message, _CARRIERS):
            batch = message.batch
            named = sum(map(len, message.targets)) if isinstance(message, Directed) else 0
            self._row(now, kind, peer, 1, len(batch.sequence), self._size(batch) + TARGET_BYTES * named)
        else:
            self._row(now, kind, peer, 1, 0, 0)

    def delivered(self, now: float, effect: Deliver) -> float:
        """Record a delivery that is carried out at `now`; return the sum of the latencies, in seconds."""
        batch, rows = effect.batch, effect.rows
        count, size = len(rows), len(batch.sequence)
        self._row(now, "deliver", -1, len(effect.clients), count, self._size(batch) * count // size)
        if size == 1:
            latency = count * (now - batch.published_at.item())
        else:
            latency = count * now - float(np.add.reduce(batch.published_at[rows]))
        if len(self._deliveries) < self._rows_max:
            self.rows += 1
            self._deliveries.append((now, count, latency))
        else:
            self.dropped_rows["deliveries"] += 1
        if self._trace_events:
            if self._notified_rows + count > self._rows_max:
                self.dropped_rows["notified"] += count
            else:
                self._notified_rows += count
                self.rows += count
                self._notified.append(_Notified(now, effect))
        return latency

    def _row(self, now: float, kind: str, peer: int, messages: int, events: int, nbytes: int) -> None:
        if len(self._transfers) < self._rows_max:
            self.rows += 1
            self._transfers.append((now, kind, peer, messages, events, nbytes))
        else:
            self.dropped_rows["transfers"] += 1

    def _size(self, batch: EventBatch) -> int:
        """Return the size of a batch in bytes; the last size is cached, since a batch goes over many links in a row."""
        if batch is not self._batch:
            self._batch, self._nbytes = batch, batch.nbytes
        return self._nbytes

    def flush(self) -> dict[str, Table]:
        """Return and clear the rows recorded since the last flush, by table; empty tables are left out."""
        tables = {}
        if self._transfers:
            tables["transfers"] = self._table_of("transfers", self._transfers)
        if self._deliveries:
            tables["deliveries"] = self._table_of("deliveries", self._deliveries)
        if self._multicasts:
            tables["multicasts"] = self._table_of("multicasts", self._multicasts)
        if self._published_rows:
            tables["published"] = self._published_table()
        if self._notified_rows:
            tables["notified"] = self._notified_table()
        self._clear()
        self._batch = None
        return tables

    def _table_of(self, name: str, rows: list[Any]) -> Table:
        """Return tuples as a table: broker and cluster are added here, the other values are in the schema's order."""
        given = iter(zip(*rows, strict=True))
        table: Table = {}
        for column, kind in SCHEMAS[name].items():
            if column == "broker":
                table[column] = np.full(len(rows), self._broker, kind)
            elif column == "cluster":
                table[column] = np.full(len(rows), self._cluster, kind)
            else:
                table[column] = _array(next(given), kind)
        return table

    def _published_table(self) -> Table:
        parts = self._published
        return {
            "time_seconds": np.repeat([part[0] for part in parts], [len(part[3]) for part in parts]),
            "broker": np.full(self._published_rows, self._broker, np.int32),
            "publisher": np.concatenate([_names(names)[codes] for _, names, codes, _ in parts]),
            "sequence": np.concatenate([part[3] for part in parts]),
        }

    def _notified_table(self) -> Table:
        parts = self._notified
        sizes = [len(part.sequence) for part in parts]
        return {
            "time_seconds": np.repeat([part.now for part in parts], sizes),
            "broker": np.full(self._notified_rows, self._broker, np.int32),
            "subscriber": np.concatenate([np.repeat(_names(part.clients), part.counts) for part in parts]),
            "publisher": np.concatenate([_names(part.publishers)[part.publisher] for part in parts]),
            "sequence": np.concatenate([part.sequence for part in parts]),
            "published_at": np.concatenate([part.published_at for part in parts]),
        }


def merge_tables(chunks: Iterable[dict[str, Table]]) -> dict[str, Table]:
    """Return one table per name with the rows of all chunks, in the given order."""
    found: dict[str, list[Table]] = {}
    for chunk in chunks:
        for name, table in chunk.items():
            found.setdefault(name, []).append(table)
    return {
        name: {column: np.concatenate([table[column] for table in found[name]]) for column in columns}
        for name, columns in SCHEMAS.items()
        if name in found
    }


def empty_table(name: str) -> Table:
    """Return a table of that name without rows."""
    return {column: _array((), kind) for column, kind in SCHEMAS[name].items()}


def _array(values: Iterable[Any], kind: Any) -> _Array:
    return np.array(list(values), object if kind is str else kind)


def _names(names: tuple[str, ...]) -> npt.NDArray[np.object_]:
    return np.array(names, object)
