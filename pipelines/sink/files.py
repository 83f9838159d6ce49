"""Files of a sink: Parquet in one layout that only grows or does not change, or JSON lines."""

from __future__ import annotations

import json
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ...actors.clients.record_batches import Layout
from ...protocol.batch import EventBatch
from ...protocol.json_events import iso, plain_value
from ...protocol.sinks import Columns, Format

COMPRESSION: Final = "zstd"


class Files(Protocol):
    """A format of files."""

    def made(self, batch: EventBatch) -> object:
        """Return the content of a file with these events, which is made once, however often it is written."""
        ...

    def write(self, content: object, out: pa.NativeFile) -> None:
        """Write a file with this content."""
        ...

    def go_on_after(self, file: pa.NativeFile) -> None:
        """Learn the layout of a file: files after it have its columns, too."""
        ...

    @property
    def conflicts(self) -> dict[str, int]:
        """How many values went to a column of their own, by column."""
        ...


class ParquetFiles:
    """Parquet. Timestamps are microseconds, because not everything that reads Parquet knows nanoseconds.

    Parameters
    ----------
    columns
        The columns of attributes of each file; None for those that come.
    lasting
        Whether those that come keep their types (see `Layout`).
    """

    def __init__(self, columns: Columns | None = None, *, lasting: bool = False) -> None:
        self._fixed, self._lasting = columns is not None, lasting
        self._layout = Layout("us", lasting=lasting) if columns is None else Layout.fixed(columns, "us")

    def made(self, batch: EventBatch) -> pa.Table:
        """Return the events as a table; counts conflicts."""
        return pa.Table.from_batches([self._layout.record_batch(batch)])

    def write(self, content: object, out: pa.NativeFile) -> None:
        """Write a file with this table."""
        pq.write_table(content, out, compression=COMPRESSION)

    def go_on_after(self, file: pa.NativeFile) -> None:
        """Learn the layout of a file: files after it have its columns, too."""
        if not self._fixed:
            self._layout = Layout.of_schema(pq.ParquetFile(file).schema_arrow, "us", lasting=self._lasting)

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

    def go_on_after(self, file: pa.NativeFile) -> None:
        """Learn nothing: a line has its types in itself."""


def files_of(format: Format, columns: Columns | None = None) -> Files:
    """Return what writes a format; rows of a table of Delta Lake are in Parquet first."""
    return JsonFiles() if format == "jsonl" else ParquetFiles(columns, lasting=format == "delta")
