"""A trace as a folder of Parquet files: the operations and notifications of clients, event by event.

Rules
-----
* The content of the folder, with one row for each::

      trace.json             {"format": "rayvous trace", "version": 3, "rows": {table: how many},
                             "crc32": {table: checksum of its file; older traces have none}}
      published.parquet      publication: position, time, publisher, sequence, event
      notified.parquet       notification: position, time, client, publisher, sequence
      subscriptions.parquet  subscription: client, number, selector, and when it was registered, cancelled
      terms.parquet          statement about one: position, time, client, number, and the only publishers for which it
                             is in force from there on; null if it is confirmed for all
      notices.parquet        notice of a subscriber: client, number, selector, and when it was registered, cancelled
      advertisements.parquet advertisement: publisher, number, selector, and when it was registered, cancelled
      marks.parquet          quiet moment and named loss: position, time, kind, client, publisher, sequence
      kept.parquet           event that a broker retained: position, time, broker, publisher, sequence, batch, bytes
      limits.parquet         other possible reasons of a loss: position, time, kind, and the fields of that kind

* `position` is the place in the trace: it gives the order, also of operations with equal times.
* An event is JSON: attribute name to value; a timestamp is ``["timestamp", nanoseconds]``. One with
  arrays has its form (`documents`) under the name that no attribute has.
* Only these files are overwritten. ``trace.json`` is written last, so that an incomplete trace is not a trace.
* :mod:`rayvous.pipelines.audit.audit` reads this format; writing and reading it need no Spark.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ...actors.telemetry.reading import check_present, reading
from ...faults.checker.numbers import check_placed, check_trace
from ...faults.checker.predicates import test_of
from ...protocol import checks
from ...protocol.documents import is_form
from ...protocol.errors import InputError, UnreadableFile
from ...protocol.gathering import form_of_ways
from ...protocol.traces.trace import (
    ENDS,
    Adv,
    Advertised,
    Answered,
    Begins,
    Bounded,
    Confirmed,
    Died,
    Kept,
    Life,
    LossTold,
    Notified,
    Operation,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
    lives,
)
from ...protocol.values import NULL, Timestamp, Value, is_null
from ...protocol.ways import NestedEvent

FORMAT: Final = "rayvous trace"
VERSION: Final = 3
ROWS_A_GROUP: Final = 65_536

LIMITS: Final[dict[str, Any]] = {"bounded": Bounded, "died": Died, "shed": Shed}
"""The operations in ``limits.parquet``, by their kind."""

WINDOWS: Final[dict[str, Begins]] = {
    "subscriptions": Registered,
    "notices": Adv,
    "advertisements": Advertised,
}
"""The tables of intervals, and the operation that begins an interval."""

_POSITION = (("position", pa.int64()), ("time_seconds", pa.float64()))
_EVENT = (("publisher", pa.string()), ("sequence", pa.int64()))
_FILTER = (("number", pa.int64()), ("selector", pa.string()))


def _window(*moments: str) -> tuple[tuple[str, Any], ...]:
    return tuple(
        entry for moment in moments for entry in ((moment, pa.int64()), (f"{moment}_seconds", pa.float64()))
    )


TABLES: Final[dict[str, pa.Schema]] = {
    "published": pa.schema([*_POSITION, *_EVENT, ("event", pa.string())]),
    "notified": pa.schema([*_POSITION, ("client", pa.string()), *_EVENT]),
    "subscriptions": pa.schema([("client", pa.string()), *_FILTER, *_window("registered", "cancelled")]),
    "terms": pa.schema(
        [*_POSITION, ("client", pa.string()), ("number", pa.int64()), ("publishers", pa.list_(pa.string()))]
    ),
    "notices": pa.schema([("client", pa.string()), *_FILTER, *_window("registered", "cancelled")]),
    "advertisements": pa.schema([("publisher", pa.string()), *_FILTER, *_window("registered", "cancelled")]),
    "marks": pa.schema([*_POSITION, ("kind", pa.string()), ("client", pa.string()), *_EVENT]),
    "kept": pa.schema(
        [*_POSITION, ("broker", pa.int64()), *_EVENT, ("batch", pa.int64()), ("size_bytes", pa.int64())]
    ),
    "limits": pa.schema(
        [
            *_POSITION,
            ("kind", pa.string()),
            ("broker", pa.int64()),
            ("client", pa.string()),
            *_EVENT,
            ("events_max", pa.int64()),
            ("bytes_max", pa.int64()),
            ("seconds", pa.float64()),
            ("limit", pa.string()),
            ("measured", pa.float64()),
            ("allowed", pa.float64()),
        ]
    ),
}
"""The columns of each table."""


_MAY_BE_NULL: Final[dict[str, set[str]]] = {
    "terms": {"publishers"},
    "marks": {"client", "publisher", "sequence"},
    "limits": set(TABLES["limits"].names) - {"position", "time_seconds", "kind"},
    **{name: {"cancelled", "cancelled_seconds"} for name in WINDOWS},
}
"""The columns that may have no value, by table."""


def save_trace(trace: Trace, folder: str | Path) -> Path:
    """Write a trace; return its folder.

    Raises
    ------
    InputError
        If a publisher's numbers do not rise, or the folder cannot be written.
    """
    check_trace(trace)
    path = Path(folder)
    rows = _rows(trace)
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / "trace.json").unlink(missing_ok=True)
        for name, schema in TABLES.items():
            columns = list(zip(*rows[name], strict=True)) or [()] * len(schema)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            table = pa.table(arrays, schema=schema)
            pa.parquet.write_table(
                table, _file(path, name), row_group_size=ROWS_A_GROUP, write_page_checksum=True
            )
        head = {
            "format": FORMAT,
            "version": VERSION,
            "rows": {name: len(rows[name]) for name in TABLES},
            "crc32": {name: _crc32(_file(path, name)) for name in TABLES},
        }
        (path / "trace.json").write_text(json.dumps(head) + "\n", encoding="utf-8")
    except OSError as error:  # a file in place of the folder, no permission, a full disk
        raise InputError(f"the trace cannot be written to {folder}: {error}") from error
    return path.resolve()


def _rows(trace: Trace) -> dict[str, list[tuple[Any, ...]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    times: list[float] = []
    for position, op in enumerate(trace):
        times.append(op.at_seconds)
        match op:
            case Notified(at, client, publisher, sequence):
                rows["notified"].append((position, at, client, publisher, sequence))
            case Published(at, publisher, sequence, event):
                rows["published"].append((position, at, publisher, sequence, encode_event(event)))
            case Settled(at):
                rows["marks"].append((position, at, "quiet", None, None, None))
            case LossTold(at, client, publisher, sequence):
                rows["marks"].append((position, at, "lost", client, publisher, sequence))
            case Kept():
                rows["kept"].append((position, *op))
            case Bounded() | Died() | Shed():
                rows["limits"].append((position, *_limit(op)))

    def window(life: Life, *moments: int | None) -> tuple[Any, ...]:
        pairs = ((moment, None if moment is None else times[moment]) for moment in moments)
        return (life.client, life.number, life.selector, *(value for pair in pairs for value in pair))

    for name, begins in WINDOWS.items():
        rows[name] = [window(life, life.registered, life.cancelled) for life in lives(trace, begins)]
    for life in lives(trace):
        for position, _ in life.terms:
            said = trace.operations[position]
            of = list(said.publishers) if isinstance(said, Answered) else None
            rows["terms"].append((position, times[position], life.client, life.number, of))
    return rows


def _limit(op: Bounded | Died | Shed) -> list[Any]:
    """Return a row of `limits` without its position; fields that this kind does not have are null."""
    (kind,) = (word for word, each in LIMITS.items() if type(op) is each)
    fields = {"time_seconds": op.at_seconds, "kind": kind, **op._asdict()}
    return [fields.get(name) for name in TABLES["limits"].names[1:]]


_FORM: Final = ""


def encode_event(event: Mapping[str, object]) -> str:
    """Return an event as JSON, which :func:`decode_event` reads back."""
    plain = {} if isinstance(event, NestedEvent) and event.is_whole else _plain(event)
    if isinstance(event, NestedEvent):
        plain[_FORM] = event.form
    return json.dumps(plain)


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in event.items()}


def _plain_value(value: Value) -> Any:
    if isinstance(value, Timestamp):
        return ["timestamp", int(value)]
    return None if is_null(value) else value


def decode_event(text: str) -> dict[str, Value]:
    """Return the event encoded by :func:`encode_event`."""
    event: dict[str, Any] = json.loads(text)
    form = event.pop(_FORM, None)
    read = _read(event)
    if isinstance(form, list):  # older traces have the ways
        form = form_of_ways(map(_read, form))
    if form is None:
        return read
    parsed = json.loads(form)
    if not (is_form(parsed) or all(is_form([way]) for way in parsed)):
        raise ValueError("the event has no form that can be")
    return NestedEvent(read, form, parsed)


def _read(event: dict[str, Any]) -> dict[str, Value]:
    for name, value in event.items():
        if type(value) is list:
            event[name] = Timestamp(value[1])
        elif value is None:
            event[name] = NULL
    return event


def check_folder(folder: str | Path, *, positions: bool = True) -> dict[str, int]:
    """Return the number of rows of each table of a trace folder; without `positions` those are not compared.

    Raises
    ------
    InputError
        If the folder does not exist or is not a trace.
    UnreadableFile
        If its version is unknown, a file is missing, damaged or has other columns, or two rows have one position.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    head = path / "trace.json"
    if not head.is_file():
        raise InputError(f"{folder}: is not a trace: it has no trace.json; write one with --trace-dir")
    try:
        said = json.loads(head.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise UnreadableFile(head, "is not the header of a trace")
    if said.get("version") != VERSION:
        raise UnreadableFile(
            head, f"version {checks.shown(said.get('version'))}, and this program reads version {VERSION}"
        )
    told = said.get("rows")
    if not isinstance(told, dict):
        raise UnreadableFile(head, "does not say how many rows each table has")
    sums = said.get("crc32")
    rows = {}
    for name, schema in TABLES.items():
        file = _file(path, name)
        if isinstance(sums, dict) and _crc32(file) != sums.get(name):
            raise UnreadableFile(file, "is not as it was written: trace.json has another checksum")
        with reading(file):
            found = pa.parquet.read_metadata(file)
            columns = found.schema.to_arrow_schema()
        if not columns.equals(schema):
            raise UnreadableFile(file, f"has the columns {columns.names}, not {schema.names}")
        rows[name] = found.num_rows
        if rows[name] != told.get(name):
            raise UnreadableFile(
                file, f"has {rows[name]} rows, and trace.json says {checks.shown(told.get(name))}"
            )
    if positions:
        check_positions(path)
    return rows


def check_values(folder: Path) -> None:
    """Check that columns that must have values have them, in tables of any size, as a reader that names no row needs.

    Raises
    ------
    UnreadableFile
        If a value misses; with its file and row.
    """
    for name, schema in TABLES.items():
        columns = [column for column in schema.names if column not in _MAY_BE_NULL.get(name, ())]
        file, before = _file(folder, name), 0
        with reading(file):
            for batch in pa.parquet.ParquetFile(file).iter_batches(ROWS_A_GROUP, columns=columns):
                for column, cells in zip(batch.schema.names, batch.columns, strict=True):
                    check_present(file, column, cells, before)
                before += batch.num_rows


def _crc32(file: Path) -> int:
    """Return the checksum of a file."""
    total = 0
    with reading(file), file.open("rb") as content:
        while piece := content.read(1 << 20):
            total = zlib.crc32(piece, total)
    return total


def read_table(folder: str | Path, name: str, filters: object = None) -> list[dict[str, Any]]:
    """Return the rows of one table, or those that pass a pyarrow filter.

    Raises
    ------
    UnreadableFile
        If the file is damaged.
    """
    file = _file(Path(folder), name)
    with reading(file):
        table = pa.parquet.read_table(
            file, schema=TABLES[name], filters=filters, page_checksum_verification=True
        )
        table.validate(full=True)
        rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def check_positions(folder: Path) -> None:
    """Check that every operation has a position of its own, over all tables.

    Raises
    ------
    UnreadableFile
        If a position misses, is negative, or is that of another row.
    """
    taken: list[tuple[str, Any]] = []
    for name, schema in TABLES.items():
        # Not `cancelled`: what replaces a subscription stands where that one ends.
        column = "position" if "position" in schema.names else "registered"
        file = _file(folder, name)
        with reading(file):
            cells = pa.parquet.read_table(file, columns=[column], page_checksum_verification=True)[column]
        check_present(file, column, cells)
        taken.append((name, cells.to_numpy()))
    positions = np.concatenate([places for _, places in taken])
    order = np.argsort(positions, kind="stable")
    again = order[1:][np.diff(positions[order]) == 0]
    wrong = int(again.min()) if len(again) else int(np.argmin(positions)) if len(positions) else -1
    if wrong < 0 or (not len(again) and positions[wrong] >= 0):
        return
    for name, places in taken:
        if wrong < len(places):
            why = "is negative" if places[wrong] < 0 else "is that of another row, too"
            raise UnreadableFile(_file(folder, name), f"position {places[wrong]} {why}", row=wrong + 1)
        wrong -= len(places)


def load_trace(folder: str | Path) -> Trace:
    """Return the trace written by :func:`save_trace`, without operations that had no effect.

    An example is the cancellation of a subscription that does not exist.

    Raises
    ------
    InputError
        As :func:`check_folder` does, or if a publisher's numbers do not rise.
    """
    check_folder(folder)
    tables = {name: read_table(folder, name) for name in TABLES}
    check_rows(Path(folder), tables)
    placed = operations_from(tables)
    check_placed(placed, str(folder))
    return Trace(op for _, op in placed)


def check_rows(folder: Path, tables: Mapping[str, list[dict[str, object]]]) -> None:
    """Check that every row can be an operation.

    Raises
    ------
    UnreadableFile
        If one cannot; with its file and row.
    """
    for name, rows in tables.items():
        for number, row in enumerate(rows, 1):
            try:
                why = _wrong_with(name, row)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
                why = f"cannot be read: {error!r}"[:200]
            if why:
                raise UnreadableFile(_file(folder, name), why, row=number)


@lru_cache(1_000)
def _parsed(selector: str) -> None:
    """Parse a selector; `test_of` raises what is wrong with it."""
    test_of(selector)


def _wrong_with(name: str, row: Mapping[str, Any]) -> str:
    """Return why a row of a table cannot be an operation; "" if it can."""
    empty = [column for column, value in row.items() if value is None]
    for column in empty:
        if column not in _MAY_BE_NULL.get(name, ()):
            return f"column {column!r} has no value"
    if name == "published":
        decode_event(row["event"])
    elif name == "marks":
        if row["kind"] not in ("quiet", "lost"):
            return f"there is no kind {checks.shown(row['kind'])}"
        if row["kind"] == "lost" and empty:
            return f"column {empty[0]!r} has no value"
    elif name == "limits":
        if row["kind"] not in LIMITS:
            return f"there is no kind {checks.shown(row['kind'])}"
        for field in LIMITS[row["kind"]]._fields[1:]:
            if row[field] is None:
                return f"column {field!r} has no value"
    elif name in WINDOWS:
        _parsed(row["selector"])
        if (row["cancelled"] is None) != (row["cancelled_seconds"] is None):
            return "has half an end"
    return ""


def operations_from(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[tuple[int, Operation]]:
    """Return (position, operation) of rows, in order; the rows may be part of a trace, and of its tables."""
    placed: list[tuple[int, Operation]] = []
    for row in tables.get("published", ()):
        event = decode_event(row["event"])
        placed.append(
            (row["position"], Published(row["time_seconds"], row["publisher"], row["sequence"], event))
        )
    for row in tables.get("notified", ()):
        note = Notified(row["time_seconds"], row["client"], row["publisher"], row["sequence"])
        placed.append((row["position"], note))
    for row in tables.get("marks", ()):
        at = row["time_seconds"]
        lost = row["kind"] == "lost"
        mark = LossTold(at, row["client"], row["publisher"], row["sequence"]) if lost else Settled(at)
        placed.append((row["position"], mark))
    for row in tables.get("kept", ()):
        placed.append((row["position"], _operation(Kept, row)))
    for row in tables.get("limits", ()):
        placed.append((row["position"], _operation(LIMITS[row["kind"]], row)))
    for row in tables.get("terms", ()):
        said = row["time_seconds"], row["client"], row["number"]
        of = row["publishers"]
        placed.append((row["position"], Confirmed(*said) if of is None else Answered(*said, tuple(of))))
    for name, begins in WINDOWS.items():
        placed += _windows(tables.get(name, ()), begins)
    return sorted(placed, key=lambda pair: pair[0])


def _operation(kind: Any, row: Mapping[str, Any]) -> Any:
    return kind(row["time_seconds"], *(row[name] for name in kind._fields[1:]))


def _windows(rows: Iterable[Mapping[str, Any]], begin: Begins) -> list[tuple[int, Operation]]:
    placed: list[tuple[int, Operation]] = []
    end = ENDS[begin]
    given = list(rows)
    replaced = {
        row["registered"] for row in given
    }  # an interval that begins here ended the one with its number
    for row in given:
        owner, number = row["client" if "client" in row else "publisher"], row["number"]
        placed.append((row["registered"], begin(row["registered_seconds"], owner, number, row["selector"])))
        if row["cancelled"] is not None and row["cancelled"] not in replaced:
            placed.append((row["cancelled"], end(row["cancelled_seconds"], owner, number)))
    return placed


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.parquet"
