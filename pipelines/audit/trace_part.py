"""The part of a trace about one event and one subscriber, read without the rest: for traces of any size.

Rules
-----
* A trace of at most :data:`WHOLE_ROWS_MAX` rows is read whole, so that it can be judged. Of a larger one only the rows
  about one event and one subscriber are read; which ones they are is asked for, or taken from the first named loss, or
  from the first notification.
* Times are bounded by the size of the files, not by the number of Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...actors.telemetry.reading import reading
from ...protocol.errors import InputError
from ...protocol.ids import ClientId, EventId
from ...protocol.traces.trace import Trace
from .trace_files import TABLES, check_folder, check_rows, load_trace, operations_from, read_table

WHOLE_ROWS_MAX: Final = 100_000
DEATHS_MAX: Final = 10_000


def load_part(
    folder: str | Path, subscriber: ClientId | None = None, event: EventId | None = None
) -> tuple[Trace, ClientId | None, EventId | None, str]:
    """Return a trace, or a part of it; about whom and what it is; and what was left out, in words.

    Raises
    ------
    InputError
        As :func:`~.trace_files.load_trace` does, or if there is no such event or subscriber in a large trace.
    """
    path = Path(folder)
    rows = check_folder(path, positions=False)
    total = sum(rows.values())
    if total <= WHOLE_ROWS_MAX:
        return load_trace(path), subscriber, event, ""
    if event is None:
        subscriber, event = _first(path, subscriber)
    of_event = (pc.field("publisher") == event[0]) & (pc.field("sequence") == event[1])
    notified = read_table(path, "notified", of_event)
    if subscriber is None:
        subscriber = next((row["client"] for row in notified), None)
    if subscriber is None:
        raise InputError(
            f"{folder}: nobody was notified of {event[0]}:{event[1]}; say whose notification is missing: --subscriber"
        )
    of_client = pc.field("client") == subscriber
    tables: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    tables |= {
        "published": read_table(path, "published", of_event),
        "notified": notified,
        "kept": read_table(path, "kept", of_event),
        "marks": read_table(path, "marks", (pc.field("kind") == "lost") & of_event),
        "subscriptions": read_table(path, "subscriptions", of_client),
        "terms": read_table(path, "terms", of_client),
        "limits": read_table(path, "limits", pc.field("kind") == "died")[:DEATHS_MAX],
    }
    check_rows(path, tables)
    if not tables["subscriptions"]:
        raise InputError(f"{folder}: there is no subscriber {subscriber!r}")
    trace = Trace(op for _, op in operations_from(tables))
    read = sum(map(len, tables.values()))
    return (
        trace,
        subscriber,
        event,
        f"{total - read:,} of {total:,} rows; so large a trace is judged by rayvous audit",
    )


def _first(path: Path, subscriber: ClientId | None) -> tuple[ClientId, EventId]:
    """Return the first named loss, or else the first notification, of a subscriber, or of any."""
    mine = None if subscriber is None else pc.field("client") == subscriber
    lost = (pc.field("kind") == "lost") & (pc.field("client") != "")
    row = _first_row(path, "marks", lost if mine is None else lost & mine) or _first_row(
        path, "notified", mine
    )
    if row is None:
        raise InputError(f"{path}: nothing to explain: {subscriber or 'nobody'} was notified of nothing")
    return str(row["client"]), (str(row["publisher"]), int(str(row["sequence"])))


def _first_row(path: Path, name: str, wanted: pc.Expression | None) -> Mapping[str, object] | None:
    file = path / f"{name}.parquet"
    columns = ["client", "publisher", "sequence", *(["kind"] if name == "marks" else [])]
    with reading(file):
        for batch in pq.ParquetFile(file).iter_batches(65_536, columns=columns):
            table = pa.Table.from_batches([batch])
            found = table if wanted is None else table.filter(wanted)
            if found.num_rows:
                row: dict[str, object] = found.slice(0, 1).to_pylist()[0]
                return row
    return None


__all__ = ["WHOLE_ROWS_MAX", "load_part"]
