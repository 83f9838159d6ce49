"""Events as lines: incremental parsing of JSON lines, and printing of notifications.

Pure except for the reading of CSV and Parquet files, which is batch by batch: a file may be larger than
memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ..actors.clients.notification import Notification
from ..protocol.batch import EVENT_BYTES_MAX
from ..protocol.documents import of_json
from ..protocol.errors import EventError, InputError
from ..protocol.json_events import cloud_event, iso, moment, parse, plain_value
from .inputs import one_line

Format: TypeAlias = Literal["json", "table", "cloudevents"]
FORMATS: Final = get_args(Format)
COLUMN_WIDTH: Final = 14


class Line(NamedTuple):
    """An event and its line number in the file; for files without lines, the event's number."""

    number: int
    event: dict[str, Any]


class JsonLines:
    """Parses bytes into events: one JSON object per line; empty lines are skipped.

    Parameters
    ----------
    source
        The file, or ``-``, for error messages.
    timestamps
        Attributes that are ISO 8601 timestamps, which JSON has no values for.
    """

    def __init__(self, source: str, timestamps: Iterable[str] = ()) -> None:
        self._source = source
        self._timestamps = tuple(timestamps)
        self._rest = b""
        self._number = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Yield the events of the lines that are complete now; the rest waits for more bytes.

        Raises
        ------
        InputError
            If a line is not a JSON object, or too long; the message has its number. The lines before it were yielded.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._event(line)
        if len(self._rest) > EVENT_BYTES_MAX:
            raise InputError(f"{self._source}:{self._number + 1}: is longer than {EVENT_BYTES_MAX:,} bytes")

    def end(self) -> Iterator[Line]:
        """Yield the event of a last line without a line end, as `feed` does."""
        line, self._rest = self._rest, b""
        yield from self._event(line)

    def _event(self, line: bytes) -> Iterator[Line]:
        self._number += 1
        if not line.strip():
            return
        where = f"{self._source}:{self._number}"
        try:
            event = parse(line, where)
            if not isinstance(event, dict):
                raise EventError(f"{where}: is not a JSON object, as an event must be")
            for name in self._timestamps:
                if event.get(name) is not None:
                    event[name] = moment(event[name], f"{where}: {name}")
        except EventError as error:
            raise InputError(str(error)) from None
        yield Line(self._number, of_json(event))


def table_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV or Parquet file in batches.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        if path.suffix.lower() == ".csv":
            yield from pyarrow.csv.open_csv(path)
        else:
            with pyarrow.parquet.ParquetFile(path) as file:
                yield from file.iter_batches()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {one_line(error)}") from None


# Notifications.


def printer(format: Format, network: str) -> Callable[[Notification], str]:
    """Return a function that formats a notification as a line."""
    if format == "json":
        return _json
    if format == "cloudevents":
        return lambda note: _cloud_event(note, network)
    return TableLines()


def _json(note: Notification) -> str:
    return json.dumps(
        {
            "publisher": note.publisher,
            "sequence": note.sequence,
            "published_at": iso(note.published_at),
            "event": plain_value(note.event),
        }
    )


def _cloud_event(note: Notification, network: str) -> str:
    event = plain_value(note.event)
    return cloud_event(json.dumps(event), event, note.publisher, note.sequence, note.published_at, network)


class TableLines:
    """Formats notifications as rows below a heading, which is repeated when new attributes appear."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def __call__(self, note: Notification) -> str:
        """Return the row, preceded by the heading if needed."""
        head = ""
        if new := [name for name in note.event if name not in self._columns]:
            self._columns += new
            head = _row(["publisher", *self._columns]) + "\n"
        cells = [_cell(note.event.get(name)) for name in self._columns]
        return head + _row([f"{note.publisher} {note.sequence}", *cells])


def _cell(value: Any) -> str:
    return "-" if value is None else str(plain_value(value))


def _row(cells: Iterable[str]) -> str:
    fitted = (cell if len(cell) <= COLUMN_WIDTH else cell[: COLUMN_WIDTH - 1] + "…" for cell in cells)
    return " ".join(f"{cell:<{COLUMN_WIDTH}}" for cell in fitted).rstrip()
