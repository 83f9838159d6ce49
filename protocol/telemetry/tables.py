"""Telemetry of a network: the tables, their columns and units, and the version of the schema.

Rules
-----
* Brokers' hosts write five tables. Two are always written, with one row per effect, however many events it
  carries: `transfers` (messages over links) and `deliveries` (notifications handed to subscribers). On Ray, which
  has no multicast, `multicasts` records how the multicasts in `transfers` were carried out, one row per load. Two
  are written when a network traces events, with one row per event: `published` and `notified`.
* The collector writes the sixth, `lost`: the rows of the other tables that were dropped, by reason, so that
  incomplete sums can be recognised.
* A full buffer drops new rows and counts them (`dropped_rows`); it never grows and never blocks.
* Times are seconds since 1970 on the host's clock, or virtual seconds in the simulator.
* `SCHEMA_VERSION` grows by one when a column is removed, renamed, or changes its type, unit or meaning. A new table or
  a new column at the end of a table leaves it as it is: readers go by name.
* `SCHEMA_REVISION` grows by one when a column is added, and `ADDED` has the revision that it came with. A part of an
  earlier revision is read with nulls in that column; a part that lacks a column of its own revision is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..checks import path, positive_fields
from ..errors import InputError

SCHEMA_VERSION: Final = 1
"""The version of all tables together; it is in the metadata of every Arrow table and Parquet file."""

SCHEMA_REVISION: Final = 1
"""The revision of the columns within `SCHEMA_VERSION`; in the metadata beside it. Files without one have revision 1."""

ADDED: Final[dict[tuple[str, str], int]] = {}
"""``{(table, column): revision that it came with}``, for columns that were not there from the first revision on."""

LINK_KINDS: Final = ("publish", "up", "down", "multicast", "deliver")
"""The link of a transfer: publisher to broker, child to parent, parent to child, group, broker to subscriber."""

LOSS_REASONS: Final = ("buffer", "memory", "collector")
"""Why rows are missing.

``buffer``: a host's buffer was full (`Limits.telemetry_rows_max`). ``memory``: the collector reached its limit and
dropped its oldest rows (`TelemetryConfig.memory_bytes_max`). ``collector``: the collector died before it had written
the rows to a file.
"""


class ColumnSpec(NamedTuple):
    """One column: its type (a numpy dtype, or str), its unit, and its meaning."""

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

SCHEMAS: Final[dict[str, dict[str, object]]] = {
    name: {column: told.kind for column, told in columns.items()}
    for name, columns in TABLES.items()
    if name != "lost"
}
"""``{table: {column: numpy dtype, or str}}`` for the tables that hosts write."""


class CarriedOut(NamedTuple):
    """How the multicasts of one load were carried out: a row of `multicasts` without time and broker."""

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
    """The destination of a network's telemetry, and how much of it is held in memory.

    Attributes
    ----------
    folder
        The folder for Parquet files, written during the run; None keeps the telemetry in Ray's object store. On
        several machines all of them must see the folder.
    roll_bytes
        A file is written when this many bytes of a table wait.
    roll_seconds
        A file is written when the oldest row has waited this long.
    memory_bytes_max
        The limit on telemetry in memory (with a folder: waiting to be written). Past it the oldest is dropped and
        counted.
    """

    folder: str | Path | None = None
    roll_bytes: int = 32 << 20
    roll_seconds: float = 10.0
    memory_bytes_max: int = 1 << 30

    def validate(self) -> TelemetryConfig:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a setting cannot be used.
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
