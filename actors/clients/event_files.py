"""Events in CSV, JSON lines and Parquet files: the one reader of the command line, the demo and notebooks.

Rules
-----
* A table is checked as a whole before its first event is returned; what is wrong has the file, the column, and the
  line or row. So nothing of such a file is published.
* A file may be larger than memory: it is read block by block, more than once.
* Times of Parquet are read with microseconds where the file has INT96, whose years go beyond ours; nanoseconds would
  wrap around to another century.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ...protocol import checks
from ...protocol.batch import EventBatch, batch_of, concat
from ...protocol.errors import EventError, InputError, ScenarioError
from ...protocol.values import Kind
from .columns import ValueRefused, batch_from, check_columns, check_type, is_nested
from .csv_columns import BadCell, CellError, ColumnKind, cast, kinds_of, text
from .json_lines import JsonLines, Line

LINES: Final = (".jsonl", ".ndjson", ".json")
TABLES: Final = (".csv", ".parquet")
_READ_BYTES: Final = 1 << 20


def read_events(
    path: str | Path,
    *,
    types: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> EventBatch:
    """Return the events of a file, as ``rayvous publish`` publishes them.

    The result can be given to :meth:`Publisher.publish_batch` and :meth:`Filter.evaluate_batch`;
    ``result.events()`` are the events as mappings.

    Parameters
    ----------
    path
        A .csv, .jsonl or .parquet file.
    types
        The type of columns, ``"boolean"``, ``"integer"``, ``"float"``, ``"string"`` or ``"timestamp"``, by name. The
        others have the type of their file; in CSV, the first that all their cells can be.
    limit
        The maximum number of events.

    Raises
    ------
    ScenarioError
        If the file is missing, has no events, is of another type, or has a value that no event can have; the message
        has the column, and the line or the row.
    """
    place = checks.path("path", path)
    check_file(place)
    if place.suffix.lower() in TABLES:
        table = EventTable(place, types)
        blocks, rows = [], 0
        for block in table.blocks():
            blocks.append(block)
            rows += len(block)
            if limit is not None and rows >= limit:
                break
        batch = concat(blocks) if blocks else batch_of(())
    else:
        batch = _batch_of_lines(place, _lines(place, types), limit)
    if not len(batch):
        raise ScenarioError(f"{place}: it has no events")
    return batch if limit is None else batch.take(np.arange(min(limit, len(batch))))


def check_file(path: Path) -> None:
    """Check that a file exists, is not empty, and is of a type that events are read from.

    Raises
    ------
    ScenarioError
        If not.
    """
    if path.suffix.lower() not in (*LINES, *TABLES):
        raise ScenarioError(f"{path}: events are read from .csv, .jsonl or .parquet files")
    check_content(path)


def check_content(path: Path) -> None:
    """Check that a file exists and is not empty.

    Raises
    ------
    ScenarioError
        If not.
    """
    if not path.exists():
        raise ScenarioError(f"{path}: there is no such file")
    if not path.is_file():
        raise ScenarioError(f"{path}: is not a file")
    if not path.stat().st_size:
        raise ScenarioError(f"{path}: is empty")


def _lines(path: Path, types: Mapping[str, str] | None) -> Iterator[Line]:
    reader = JsonLines(str(path), kinds=kinds_of(types))
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            yield from reader.feed(data)
    yield from reader.end()


def _batch_of_lines(path: Path, lines: Iterator[Line], limit: int | None) -> EventBatch:
    try:
        taken = list(islice(lines, limit))
    except (OSError, EventError, InputError) as error:
        raise ScenarioError(str(error)) from None
    try:
        return batch_of([line.event for line in taken])
    except EventError:
        for line in taken:
            try:
                batch_of([line.event])
            except EventError as error:
                raise ScenarioError(f"{path}:{line.number}: {str(error).removeprefix('event 0: ')}") from None
        raise


class EventTable:
    """A CSV or Parquet file whose values were all checked.

    Parameters
    ----------
    path
        The file.
    types
        The types of columns, by name; see `read_events`.

    Raises
    ------
    ScenarioError
        If it cannot be read, or has a value that no event can have.
    """

    def __init__(self, path: Path, types: Mapping[str, str] | None = None) -> None:
        kinds = kinds_of(types)
        self._path = path
        self._file: _Csv | _Parquet
        try:
            self._file = _Csv(path, kinds) if path.suffix.lower() == ".csv" else _Parquet(path, kinds)
        except (pa.ArrowException, OSError, EventError) as error:
            raise ScenarioError(_said(path, error)) from None

    def blocks(self) -> Iterator[EventBatch]:
        """Yield the events, block by block."""
        try:
            yield from self._file.blocks()
        except (pa.ArrowException, OSError, EventError) as error:
            raise ScenarioError(_said(self._path, error)) from None


def _said(path: Path, error: Exception) -> str:
    told = " ".join(str(error).split())[:300]
    if isinstance(error, EventError):
        return f"{path}: {told}"
    return f"{path}: cannot be read: {told}"


def _check_named(kinds: Mapping[str, Kind], names: list[str]) -> None:
    unknown = [name for name in kinds if name not in names]
    if unknown:
        raise EventError(f"types: there is no column {unknown[0]!r}; there are {', '.join(names)[:200]}")


# CSV.


_CHECKED: Final = frozenset({Kind.TIMESTAMP, Kind.INTEGER})
"""The kinds of which some values cannot be those of an event; other files need not be read for that."""
_OTHER_WIDTH: Final = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


class _Csv:
    def __init__(self, path: Path, kinds: Mapping[str, Kind]) -> None:
        self._path = path
        self._names = self._header()
        _check_named(kinds, self._names)
        found = {name: ColumnKind(kinds.get(name)) for name in self._names}
        self._kinds: dict[str, Kind] = {}
        self._each(lambda name, cells: found[name].see(cells))
        self._kinds = {name: column.kind for name, column in found.items()}
        if not _CHECKED.isdisjoint(self._kinds.values()):
            self._each(self._check)

    def _header(self) -> list[str]:
        """Return the names of the columns."""
        with self._path.open(encoding="utf-8-sig", newline="") as file:
            try:
                names = next((row for row in csv.reader(file) if row), [])
            except UnicodeDecodeError:
                # The error may be far behind the header, since text is decoded in pieces.
                names = self._header_of_bytes()
            except csv.Error as error:
                raise EventError(f"line 1: {error}") from None
        check_columns(names)
        return names

    def _header_of_bytes(self) -> list[str]:
        with self._path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            names = next((row for row in csv.reader(file) if row), [])
        for name in names:
            if not name.isprintable() and any("\udc80" <= letter <= "\udcff" for letter in name):
                shown = name.encode("utf-8", "surrogateescape")
                raise EventError(f"line 1: the column name {shown!r} is not UTF-8: write the file as UTF-8")
        return names

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from pyarrow.csv.open_csv(
                self._path,
                read_options=pyarrow.csv.ReadOptions(use_threads=False),  # only then rows have numbers
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.binary())
                ),
            )
        except pa.ArrowInvalid as error:
            found = _OTHER_WIDTH.search(str(error))
            if found is None:
                raise
            row, wanted, had = map(int, found.groups())
            line = _line_of(self._path, row - 1)
            raise EventError(f"line {line}: {had} cells, and there are {wanted} columns") from error

    def _each(self, do: Callable[[str, pa.Array], None]) -> None:
        """Call `do` with every column of every block; what it raises gets column and line."""
        before = 0
        for block in self._read():
            for name, cells in zip(self._names, block.columns, strict=True):
                try:
                    do(name, cells)
                except CellError as error:
                    line = _line_of(self._path, 1 + before + error.cell.row)
                    raise EventError(f"column {name!r}, line {line}: {error}{self._advice(name)}") from None
            before += block.num_rows

    def _advice(self, name: str) -> str:
        return "" if self._kinds.get(name) in (None, Kind.STRING) else f"; or read it as text: {name}=string"

    def _check(self, name: str, cells: pa.Array) -> None:
        """Check values that the kind alone does not rule out."""
        kind = self._kinds[name]
        if kind is Kind.TIMESTAMP:
            cast(text(cells), kind)
        elif kind is Kind.INTEGER and isinstance(values := cast(text(cells), kind), list):
            for row, value in enumerate(values):
                _check_integer(name, row, value)

    def blocks(self) -> Iterator[EventBatch]:
        for block in self._read():
            columns = {
                name: cast(text(cells), self._kinds[name])
                for name, cells in zip(self._names, block.columns, strict=True)
            }
            big = {name: values for name, values in columns.items() if isinstance(values, list)}
            rest = batch_from(pa.table({name: one for name, one in columns.items() if name not in big}))
            if not big:
                yield rest
                continue
            events = rest.events() if len(rest) else tuple({} for _ in range(block.num_rows))
            yield batch_of(
                [
                    {**event, **{name: values[row] for name, values in big.items()}}
                    for row, event in enumerate(events)
                ]
            )


def _check_integer(name: str, row: int, value: int | None) -> None:
    """Check that an event can have an integer of this size."""
    try:
        batch_of([{name: value}])
    except EventError:
        raise CellError(BadCell(row, f"{value} has more than 64 bits")) from None


def _line_of(path: Path, record: int) -> int:
    """Return the line at which a record of a CSV file begins; record 0 is the heading."""
    begun, quotes = 0, 0
    with path.open("rb") as file:
        number = 0
        for number, line in enumerate(file, 1):
            if not begun:
                if not line.strip(b"\r\n"):
                    continue  # not a record
                begun, quotes = number, 0
            quotes += line.count(b'"')
            if quotes % 2 == 0:
                if record == 0:
                    return begun
                record -= 1
                begun = 0
    return begun or number


# Parquet.


class _Parquet:
    def __init__(self, path: Path, kinds: Mapping[str, Kind]) -> None:
        self._path = path
        self._kinds = kinds
        with self._open() as file:
            schema = file.schema_arrow
            check_columns(schema.names)
            _check_named(kinds, schema.names)
            for field in schema:
                if field.name not in kinds:
                    check_type(field.name, field.type)
            nested = any(is_nested(field.type) for field in schema)
            # Only these have values that an event cannot have; a nested event may be too large as a whole.
            some = [
                field.name
                for field in schema
                if nested
                or field.name in kinds
                or pa.types.is_temporal(field.type)
                or pa.types.is_unsigned_integer(field.type)
            ]
            before = 0
            for block in file.iter_batches(columns=some) if some else ():
                self._batch(block, before)
                before += block.num_rows

    def _open(self) -> pyarrow.parquet.ParquetFile:
        return pyarrow.parquet.ParquetFile(self._path, coerce_int96_timestamp_unit="us")

    def _batch(self, block: pa.RecordBatch, before: int = 0) -> EventBatch:
        try:
            columns = {
                name: _typed(name, cells, self._kinds.get(name))
                for name, cells in zip(block.schema.names, block.columns, strict=True)
            }
            table = pa.table(columns)
            return (
                _nested(table, before)
                if any(is_nested(each.type) for each in table.schema)
                else batch_from(table)
            )
        except ValueRefused as error:
            raise EventError(f"column {error.column!r}, row {before + error.row + 1}: {error.why}") from None

    def blocks(self) -> Iterator[EventBatch]:
        with self._open() as file:
            before = 0
            for block in file.iter_batches():
                yield self._batch(block, before)
                before += block.num_rows


def _nested(table: pa.Table, before: int) -> EventBatch:
    try:
        return batch_from(table)
    except EventError:
        for row in range(table.num_rows):
            try:
                batch_from(table.slice(row, 1))
            except EventError as error:
                why = str(error).removeprefix("event 0: ")
                raise EventError(f"row {before + row + 1}: {why}") from None
        raise


_TYPES: Final = {Kind.BOOLEAN: pa.bool_(), Kind.INTEGER: pa.int64(), Kind.FLOAT: pa.float64()}


def _typed(name: str, cells: pa.Array, kind: Kind | None) -> pa.Array:
    """Return a column of a file as one of the kind that the user has named."""
    if kind is None:
        return cells
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    found = cells.type
    moments = pa.types.is_timestamp(found) or pa.types.is_date(found)
    try:
        if kind is Kind.STRING:
            return cells.cast(pa.string())
        if pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found):
            return _parsed(name, cells.cast(pa.string()), kind)
        if kind is Kind.TIMESTAMP and moments:
            return cells
        if kind is not Kind.TIMESTAMP and not moments:
            return cells.cast(_TYPES[kind], safe=kind is not Kind.FLOAT)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EventError(f"column {name!r} cannot be read as {kind.name.lower()}: {error}") from None
    raise EventError(f"column {name!r} is of type {found}: it cannot be read as {kind.name.lower()}")


def _parsed(name: str, texts: pa.Array, kind: Kind) -> pa.Array:
    try:
        values = cast(texts, kind)
    except CellError as error:
        raise ValueRefused(name, error.cell.row, error.cell.why) from None
    if isinstance(values, list):
        row = next(row for row, value in enumerate(values) if value is not None and abs(value) > 2**63 - 1)
        raise ValueRefused(name, row, f"{values[row]} has more than 64 bits")
    return values
