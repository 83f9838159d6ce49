"""What a network writes down about itself: the tables, their columns and units, and the version of both.

Rules
-----
* Brokers' hosts write five tables. Two are always kept, one row an effect, however many events it carries:
  `transfers` (what went over which link) and `deliveries` (what was handed to subscribers). On Ray, which has no
  multicast, `multicasts` says what became of those of `transfers`, one row a load. Two are kept when a network traces
  events, one row an event: `published` and `notified`.
* The collector writes the sixth, `lost`: rows of the others that were dropped, by reason, so that a sum that is too
  small says so.
* A buffer that is full drops the new rows and counts them (`dropped_rows`); it never grows and never blocks.
* Times are seconds since 1970 on the host's clock, or virtual seconds in the simulator.
* `SCHEMA_VERSION` grows by one when a column is removed, renamed, or changes its type, unit or meaning. A new table or
  a new column at the end of a table leaves it as it is: readers go by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..checks import path, positive_fields
from ..errors import InputError

SCHEMA_VERSION: Final = 1
"""Of all tables together; it stands in the metadata of every Arrow table and Parquet file."""

LINK_KINDS: Final = ("publish", "up", "down", "multicast", "deliver")
"""Over what a transfer went: publisher to broker, child to parent, parent to child, group, broker to subscriber."""

LOSS_REASONS: Final = ("buffer", "memory", "collector")
"""Why rows are missing.

``buffer``: a host's buffer was full (`Limits.telemetry_rows_max`). ``memory``: the collector's bound was reached and
its oldest rows went (`TelemetryConfig.memory_bytes_max`). ``collector``: the collector died with rows that were in no
file yet.
"""


class ColumnSpec(NamedTuple):
    """One column: its type (a numpy dtype, or str), its unit, and what it says."""

    kind: Any
    unit: str
    meaning: str


_TIME: Final = ColumnSpec(np.float64, "s since 1970", "when it happened, on the clock of the host")
_BROKER: Final = ColumnSpec(np.int32, "id", "the broker that wrote the row")
_PUBLISHER: Final = ColumnSpec(str, "name", "who published the event")
_SEQUENCE: Final = ColumnSpec(np.int64, "number", "of the event, from 1 at each publisher")

TABLES: Final[dict[str, dict[str, ColumnSpec]]] = {
    "transfers": {
        "time_seconds": _TIME,
        "broker": ColumnSpec(np.int32, "id", "who sent it; for `publish`, who received it"),
        "cluster": ColumnSpec(np.int32, "id", "the cluster of `broker`"),
        "link_kind": ColumnSpec(str, "word", "publish, up, down, multicast or deliver"),
        "peer": ColumnSpec(np.int32, "id", "the broker at the other end; -1 for a group or a client"),
        "messages": ColumnSpec(np.int64, "messages", "1 for each message, control messages included"),
        "events": ColumnSpec(np.int64, "events", "carried by it; 0 for a control message"),
        "nbytes": ColumnSpec(np.int64, "bytes", "of the events carried; 0 for a control message"),
    },
    "deliveries": {
        "time_seconds": _TIME,
        "broker": _BROKER,
        "notifications": ColumnSpec(np.int64, "notifications", "handed to the subscribers of one batch"),
        "latency_sum_seconds": ColumnSpec(np.float64, "s", "sum over them of (now - time of publication)"),
    },
    "multicasts": {
        "time_seconds": _TIME,
        "broker": _BROKER,
        "messages": ColumnSpec(np.int64, "messages", "multicasts that went together"),
        "events": ColumnSpec(np.int64, "events", "carried by them"),
        "nbytes": ColumnSpec(np.int64, "bytes", "of these events"),
        "members": ColumnSpec(np.int64, "brokers", "that it was handed to"),
        "calls": ColumnSpec(
            np.int64, "calls", "to other processes: one for each member that is not in this one"
        ),
        "nodes": ColumnSpec(np.int64, "Ray nodes", "on which the called members are that have answered"),
        "by_reference": ColumnSpec(
            np.int64, "0 or 1", "1: in the object store, its reference in the calls; 0: inline"
        ),
        "sent_bytes": ColumnSpec(
            np.int64,
            "bytes",
            "of events: a copy in each call, or one in the store of each node, this one included",
        ),
    },
    "published": {
        "time_seconds": _TIME,
        "broker": _BROKER,
        "publisher": _PUBLISHER,
        "sequence": _SEQUENCE,
    },
    "notified": {
        "time_seconds": _TIME,
        "broker": _BROKER,
        "subscriber": ColumnSpec(str, "name", "who was notified"),
        "publisher": _PUBLISHER,
        "sequence": _SEQUENCE,
        "published_at": ColumnSpec(
            np.float64, "s since 1970", "when it was published, on the publisher's clock"
        ),
    },
    "lost": {
        "time_seconds": ColumnSpec(np.float64, "s since 1970", "when the loss was noticed"),
        "table": ColumnSpec(str, "word", "the table whose rows are missing"),
        "reason": ColumnSpec(str, "word", "buffer, memory or collector"),
        "rows": ColumnSpec(np.int64, "rows", "that are missing for this reason"),
    },
}
"""``{table: {column: its type, unit and meaning}}``."""

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    name: {column: told.kind for column, told in columns.items()}
    for name, columns in TABLES.items()
    if name != "lost"
}
"""``{table: {column: numpy dtype, or str}}`` of the tables that hosts write."""


class CarriedOut(NamedTuple):
    """What became of the multicasts of one load: a row of `multicasts`, but for time and broker."""

    messages: int
    events: int
    nbytes: int
    members: int
    calls: int
    nodes: int
    by_reference: int
    sent_bytes: int


Table: TypeAlias = dict[str, Any]
"""One chunk of one table: ``{column: numpy array}``; a string column is an object array."""


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """Where a network's telemetry goes, and how much of it is kept in memory.

    Attributes
    ----------
    folder
        Parquet files are written there as the run goes on; None keeps the telemetry in Ray's object store. On several
        machines it is a folder that all of them see.
    roll_bytes
        A file is written when so many bytes of a table wait for it.
    roll_seconds
        A file is written when the oldest row waits so long for it.
    memory_bytes_max
        Telemetry that is kept in memory (with a folder: that waits to be written); past it the oldest is dropped and
        counted.
    """

    folder: str | Path | None = None
    roll_bytes: int = 32 << 20
    roll_seconds: float = 10.0
    memory_bytes_max: int = 1 << 30

    def validate(self) -> TelemetryConfig:
        """Return the settings themselves.

        Raises
        ------
        InputError
            If one cannot be used.
        """
        positive_fields(self, "telemetry", skip=("folder",))
        if self.folder is not None:
            path("telemetry folder", self.folder)
        if self.folder is not None and self.roll_bytes > self.memory_bytes_max:
            raise InputError(
                f"telemetry: roll_bytes {self.roll_bytes} is more than memory_bytes_max {self.memory_bytes_max}: "
                "rows would be dropped before they are written"
            )
        return self
