"""Convert a run of SENDs to a batch of events, in columns; equivalent to `content.event_of` for each frame.

Rules
-----
* Text frames with the same headers are converted to columns one header at a time, with no event in between.
  JSON is parsed body by body, since joined bodies could close each other's objects.
* A run that is not uniform, or not valid, gives no batch here: it is processed frame by frame, which reports
  the error and its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ...protocol.batch import (
    ATTRIBUTES_MAX,
    EVENT_BYTES_MAX,
    Column,
    ColumnKey,
    EventBatch,
    Rows,
    batch_from_columns,
    batch_of,
    check_name,
)
from ...protocol.errors import EventError
from ...protocol.gathering import fits_column
from ...protocol.values import Kind, Value, kind_of
from .content import (
    BODY,
    BODY_KIND,
    CHARSETS,
    DESTINATION,
    EVERYTHING,
    JMS_NAMES,
    JSON,
    NOT_CONTENT,
    TEXT,
    is_text,
    media_type,
    object_of,
    typed,
)
from .runs import FORMS_KEPT, Sends

_TOLD: Final = frozenset((BODY_KIND, BODY, DESTINATION))
"""Attributes that an event takes from parts of its frame other than the headers of that name."""
COLUMNS_BYTES_MAX: Final = 32 << 20
"""Limit for JSON objects that differ in structure; beyond it each frame is processed individually."""
_WHOLE: Final = "-?(?:0|[1-9][0-9]{0,17})"
_WHOLES: Final = re.compile(rf"{_WHOLE}(?:\n{_WHOLE})*+", re.ASCII)
_DECIMALS: Final = re.compile(rf"{_WHOLE}\.[0-9]{{1,17}}(?:\n{_WHOLE}\.[0-9]{{1,17}})*+", re.ASCII)
_MAYBE_TYPED: Final = re.compile(r"^(?:-?[0-9]|true$|false$)", re.ASCII | re.MULTILINE)
_FIRST_WORD: Final = np.zeros(1, np.int32)
"""The column of a string of one event, which is never changed."""
_NUMPY: Final = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.FLOAT: np.float64}


def batch_of_run(run: Sends) -> EventBatch | None:
    """Return the events of a run, or None if its frames must be processed individually."""
    alone = _of_one(run) if len(run) == 1 else None
    return _of_many(run) if alone is None else alone


@dataclass(frozen=True, slots=True)
class _Headers:
    """Where a frame with these headers has what an event is made of; -1 for nowhere."""

    destination: int
    kind: int
    content: tuple[tuple[str, int], ...]


@lru_cache(FORMS_KEPT)
def _headers_of(names: tuple[str, ...]) -> _Headers | None:
    """Return what `_of_many` finds in the names of headers; None if they need its care."""
    content = [
        (JMS_NAMES.get(name, name), place) for place, name in enumerate(names) if name not in NOT_CONTENT
    ]
    attributes = {attribute for attribute, _ in content}
    plain = len(attributes) == len(content) and len(attributes) + len(_TOLD) <= ATTRIBUTES_MAX
    if not plain or "destination" not in names or not _TOLD.isdisjoint(attributes):
        return None
    if not all(map(fits_column, attributes)):
        return None
    kind = names.index(BODY_KIND) if BODY_KIND in names else -1
    return _Headers(names.index("destination"), kind, tuple(content))


def _of_one(run: Sends) -> EventBatch | None:
    """Return the event of a run of one plain text frame, as `_of_many` does; None for any other."""
    headers, texts, body = _headers_of(run.names), run.texts, run.bodies[0]
    if headers is None or not texts[headers.destination]:
        return None
    header = texts[headers.kind].strip() if headers.kind >= 0 else ""
    kind, charset = media_type(header)
    if charset not in CHARSETS or not is_text(kind):
        return None
    said = header or TEXT
    if sum(map(len, texts)) + len(body) + len(said) > EVENT_BYTES_MAX:
        return None
    columns: dict[ColumnKey, Column] = {}
    for name, place in headers.content:
        text = texts[place]
        if _MAYBE_TYPED.search(text) is None:
            columns[name, Kind.STRING] = _word(text)
        else:
            value = typed(text)
            its = kind_of(value)
            columns[name, its] = _column(its, [value])
    if texts[headers.destination] != EVERYTHING:
        columns[DESTINATION, Kind.STRING] = _word(texts[headers.destination])
    columns[BODY_KIND, Kind.STRING] = _word(said)
    if body:
        try:
            columns[BODY, Kind.STRING] = _word(body.decode())
        except UnicodeDecodeError:
            return None
    return batch_from_columns(columns, 1)


def _word(text: str) -> Column:
    return Column(Kind.STRING, _FIRST_WORD, None, (text,))


def _of_many(run: Sends) -> EventBatch | None:
    headers = dict(zip(run.names, run.texts, strict=True))
    destinations, kinds = run.values("destination"), set(run.values(BODY_KIND))
    if len(kinds) > 1 or not destinations or not all(destinations):
        return None
    header = kinds.pop().strip() if kinds else ""
    kind, charset = media_type(header)
    content = {JMS_NAMES.get(name, name): text for name, text in headers.items() if name not in NOT_CONTENT}
    if charset not in CHARSETS or len(content) + len(NOT_CONTENT & headers.keys()) < len(headers):
        return None
    try:
        if kind == JSON:
            return _objects(run.bodies, destinations) if not content else None
        return _texts(run, content, destinations, header or TEXT) if is_text(kind) else None
    except (EventError, UnicodeDecodeError):
        return None


def _objects(bodies: Sequence[bytes], destinations: Sequence[str]) -> EventBatch | None:
    events = [object_of(body) for body in bodies]
    for event, destination in zip(events, destinations, strict=True):
        if destination != EVERYTHING and event.setdefault(DESTINATION, destination) != destination:
            return None
    return batch_of(events, bytes_max=COLUMNS_BYTES_MAX)


def _texts(run: Sends, content: dict[str, str], destinations: Sequence[str], kind: str) -> EventBatch | None:
    if not _TOLD.isdisjoint(content) or len(content) + len(_TOLD) > ATTRIBUTES_MAX:
        return None
    if sum(map(len, run.texts)) + max(map(len, run.bodies)) + len(kind) > EVENT_BYTES_MAX:
        return None
    size, columns = len(run), dict[ColumnKey, Column]()
    for given, text in content.items():
        name = check_name(given)
        columns |= {(name, its): column for its, column in _columns(text)}
    _add(columns, DESTINATION, destinations, without=EVERYTHING)
    columns[BODY_KIND, Kind.STRING] = Column(Kind.STRING, np.zeros(size, np.int32), None, (kind,))
    _add(columns, BODY, b"\0".join(run.bodies).decode().split("\0"), without="")
    return batch_from_columns(columns, size)


def _add(columns: dict[ColumnKey, Column], name: str, values: Sequence[str], *, without: str) -> None:
    """Add a string attribute of each event; the value `without` means that the event does not have it."""
    rows = [row for row, value in enumerate(values) if value != without] if without in values else None
    if rows is None:
        columns[name, Kind.STRING] = _strings(values)
    elif rows:
        columns[name, Kind.STRING] = _spread(
            _strings([values[row] for row in rows]), len(values), np.array(rows, np.intp)
        )


def _columns(text: str) -> list[tuple[Kind, Column]]:
    """Return the columns of one header: one for each kind among its values."""
    values = text.split("\n")
    if _MAYBE_TYPED.search(text) is None:
        return [(Kind.STRING, _strings(values))]
    if _DECIMALS.fullmatch(text) is not None:
        return [(Kind.FLOAT, Column(Kind.FLOAT, np.array(list(map(float, values)))))]
    if _WHOLES.fullmatch(text) is not None:
        return [(Kind.INTEGER, Column(Kind.INTEGER, np.array(list(map(int, values)), np.int64)))]
    there: dict[Kind, tuple[list[int], list[Value]]] = {}
    for row, value in enumerate(map(typed, values)):
        rows, found = there.setdefault(kind_of(value), ([], []))
        rows.append(row)
        found.append(value)
    return [
        (kind, _spread(_column(kind, found), len(values), np.array(rows, np.intp)))
        for kind, (rows, found) in there.items()
    ]


def _column(kind: Kind, values: Sequence[Value]) -> Column:
    if kind is Kind.STRING:
        return _strings([str(value) for value in values])
    return Column(kind, np.array(values, _NUMPY[kind]))


def _strings(values: Sequence[str]) -> Column:
    if len(values) == 1:
        return _word(values[0])
    codes: dict[str, int] = {}
    data = [codes.setdefault(value, len(codes)) for value in values]
    return Column(Kind.STRING, np.array(data, np.int32), None, tuple(codes))


def _spread(column: Column, size: int, rows: Rows) -> Column:
    """Return a column of `size` events of which `rows` have the values."""
    if len(rows) == size:
        return column
    data, present = np.zeros(size, column.data.dtype), np.zeros(size, np.bool_)
    data[rows], present[rows] = column.data, True
    return Column(column.kind, data, present, column.words)
