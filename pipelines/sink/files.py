"""Files of a sink: Parquet in one layout that only grows, or JSON lines; and the identities of the events in them."""

from __future__ import annotations

import json
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...actors.clients.record_batches import PUBLISHER, SEQUENCE, Layout
from ...protocol.batch import EventBatch
from ...protocol.ids import ClientId
from ...protocol.json_events import iso, plain_value
from ...protocol.sinks import Format
from .rolling import Sequences

Identities = tuple[list[ClientId], Sequences]
COMPRESSION: Final = "zstd"


class Files(Protocol):
    """A format of files."""

    def made(self, batch: EventBatch) -> object:
        """Return the content of a file with these events, which is made once, however often it is written."""
        ...

    def write(self, content: object, out: pa.NativeFile) -> None:
        """Write a file with this content."""
        ...

    def identities(self, file: pa.NativeFile) -> Identities:
        """Return the publisher and the sequence of each event of a file, and learn its layout."""
        ...

    @property
    def conflicts(self) -> dict[str, int]:
        """How many values went to a column of their own, by column."""
        ...


class ParquetFiles:
    """Parquet. Timestamps are microseconds, because not everything that reads Parquet knows nanoseconds."""

    def __init__(self) -> None:
        self._layout = Layout("us")

    def made(self, batch: EventBatch) -> pa.Table:
        """Return the events as a table; counts conflicts."""
        return pa.Table.from_batches([self._layout.record_batch(batch)])

    def write(self, content: object, out: pa.NativeFile) -> None:
        """Write a file with this table."""
        pq.write_table(content, out, compression=COMPRESSION)

    def identities(self, file: pa.NativeFile) -> Identities:
        """Return the publisher and the sequence of each event of a file; files after it have its columns, too."""
        found = pq.ParquetFile(file)
        self._layout = Layout.of_schema(found.schema_arrow, "us")
        table = found.read([PUBLISHER, SEQUENCE])
        return table.column(PUBLISHER).to_pylist(), table.column(SEQUENCE).to_numpy()

    @property
    def conflicts(self) -> dict[str, int]:
        """How many values went to a column of their own, by column."""
        return self._layout.conflicts


class JsonFiles:
    """One JSON object a line, as `rayvous subscribe` prints notifications."""

    conflicts: dict[str, int] = {}  # noqa: RUF012  # JSON has its types in its values

    def made(self, batch: EventBatch) -> EventBatch:
        """Return the events, which become lines as they are written."""
        return batch

    def write(self, content: object, out: pa.NativeFile) -> None:
        """Write a file with these events."""
        assert isinstance(content, EventBatch)
        batch = content
        for row, event in enumerate(batch.documents()):
            publisher, sequence = batch.identity(row)
            said = {
                "publisher": publisher,
                "sequence": sequence,
                "published_at": iso(float(batch.published_at[row])),
            }
            out.write(json.dumps(said | {"event": plain_value(event)}).encode() + b"\n")

    def identities(self, file: pa.NativeFile) -> Identities:
        """Return the publisher and the sequence of each event of a file."""
        rows = [json.loads(line) for line in file.read().splitlines()]
        return [row["publisher"] for row in rows], np.array([row["sequence"] for row in rows], np.int64)


def files_of(format: Format) -> Files:
    """Return what reads and writes a format."""
    return ParquetFiles() if format == "parquet" else JsonFiles()
