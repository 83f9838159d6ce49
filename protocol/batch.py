"""A batch of events in columns: the unit that travels over links.

Rules
-----
* A batch is immutable and may be shared: brokers pass it on by reference, in the simulator and inside one host.
* A single event is a batch of one.
* An attribute with values of several kinds in one batch has one column per kind; each event has a value in at most
  one of them. A missing value is in no column.
* Nested objects and arrays, if any, and events that do not fit into columns, are in the form column (`documents`).
* Strings are dictionary-encoded: a predicate on a string column is evaluated once per word, not once per event.
* An event is identified by (publisher, sequence); publishers count their sequences from 1 without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .documents import document, has_arrays
from .errors import EventError
from .gathering import (
    ATTRIBUTES_MAX,
    EVENT_BYTES_MAX,
    FORMS,
    NAME_CHARACTERS_MAX,
    UNSEEN,
    ColumnKey,
    Gathered,
    check_name,
    event_of,
    flat_columns,
    gather,
    gather_whole,
)
from .quick import quick
from .values import NULL, Kind, Timestamp, Value
from .ways import NestedEvent

__all__ = [
    "ATTRIBUTES_MAX",
    "CELL_BYTES",
    "EVENT_BYTES_MAX",
    "NAME_CHARACTERS_MAX",
    "WORDS_PER_EVENT_MAX",
    "WORK_CHARACTERS",
    "WORK_VALUES",
    "Column",
    "ColumnKey",
    "EventBatch",
    "Mask",
    "Nested",
    "Recent",
    "Rows",
    "accepted_of",
    "batch_from_columns",
    "batch_of",
    "cells_bytes",
    "check_name",
    "concat",
    "event_of",
    "flat_batch",
    "joined_bytes",
]

K = TypeVar("K")
V = TypeVar("V")

Rows: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]

_DTYPES: Final[dict[Kind, type[np.generic]]] = {
    Kind.BOOLEAN: np.bool_,
    Kind.INTEGER: np.int64,
    Kind.FLOAT: np.float64,
    Kind.STRING: np.int32,
    Kind.TIMESTAMP: np.int64,
    Kind.NULL: np.bool_,
}

WORDS_PER_EVENT_MAX: Final = 2
"""With more words per event than this, :meth:`Column.take` drops the words that are not in use."""
COUNTED_WORDS_MIN: Final = 64
COUNTED_CHARACTERS_MAX: Final = 1 << 16
COUNTED_MAX: Final = 4
"""From how many words on a column's characters are remembered, up to how many characters, and of how many columns."""
CELL_BYTES: Final = 9
"""The size of a number and its presence flag."""
WORK_CHARACTERS: Final = 4_096
WORK_VALUES: Final = 16
"""How many characters, and how many values, of a form are as much work as a flat event."""


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The values of one kind of one attribute.

    Attributes
    ----------
    kind
        The kind of every value in it.
    data
        One entry per event: ``bool``, ``int64``, ``float64``, ``int32`` positions in `words` (strings), ``int64``
        nanoseconds (timestamps) or ``bool`` (nulls, all True). Where `present` is False the entry means nothing.
    present
        One boolean per event, or ``None`` when every event has a value here.
    words
        The distinct strings of a string column; empty for the other kinds.
    """

    kind: Kind
    data: npt.NDArray[Any]
    present: Mask | None = None
    words: tuple[str, ...] = ()
    _codes: dict[str, int] = field(init=False, repr=False)  # once it is asked for

    def __reduce__(self) -> tuple[object, ...]:
        return Column, (self.kind, self.data, self.present, self.words)

    def codes(self) -> dict[str, int]:
        """Return the position of each word; computed once, then cached."""
        try:
            return self._codes
        except AttributeError:
            codes = {word: code for code, word in enumerate(self.words)}
            object.__setattr__(self, "_codes", codes)
            return codes

    def take(self, rows: Rows) -> Column:
        """Return the column of these events only.

        The words are shared unless there are many more words than events. So a few events do not carry the words
        of the whole original batch over every link, and do not keep unused words in memory.
        """
        present = None if self.present is None else self.present[rows]
        data = self.data[rows]
        if len(self.words) <= WORDS_PER_EVENT_MAX * len(rows):
            return Column(self.kind, data, present, self.words)
        if present is not None:
            data = np.where(present, data, data[present][:1] if present.any() else 0)
        used, codes = np.unique(data, return_inverse=True)
        words = tuple(self.words[code] for code in used.tolist())
        return Column(self.kind, codes.astype(np.int32), present, words)

    def value(self, row: int) -> Value | None:
        """Return one event's value, or ``None`` when the event has no value in this column."""
        if self.present is not None and not self.present[row]:
            return None
        value: Value = self.data[row].item()
        if self.kind is Kind.STRING:
            value = self.words[int(value)]
        elif self.kind is Kind.TIMESTAMP:
            value = Timestamp(value)
        return NULL if self.kind is Kind.NULL else value  # type: ignore[return-value]


class Recent(Generic[K, V]):
    """The last few objects, found by themselves and not by what they equal, each with what was found out about it.

    Several threads may read and write.

    Parameters
    ----------
    most
        How many are remembered.
    """

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: tuple[tuple[K, V], ...] = ()

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._kept)

    def get(self, of: K) -> V | None:
        """Return what is known of an object, or None."""
        for known, value in self._kept:
            if known is of:
                return value
        return None

    def keep(self, of: K, value: V) -> None:
        """Remember what was found out about an object; the oldest is forgotten."""
        self._kept = ((of, value), *self._kept[: self._most - 1])


_counted: Recent[tuple[str, ...], int] = Recent(COUNTED_MAX)
"""Words of recent columns with their characters."""


def characters(words: tuple[str, ...]) -> int:
    """Return the number of characters of a column's words; those of the last few long lists are remembered."""
    if len(words) < COUNTED_WORDS_MIN:
        return sum(map(len, words))
    known = _counted.get(words)
    if known is not None:
        return known
    count = sum(map(len, words))
    if count <= COUNTED_CHARACTERS_MAX:
        _counted.keep(words, count)
    return count


@quick
@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events in columns, with the publisher, sequence number and publication time of each.

    Attributes
    ----------
    columns
        ``{(attribute name, kind): column}``.
    publishers
        The distinct publishers in the batch.
    publisher
        ``int32``, one per event: a position in `publishers`.
    sequence
        ``int64``, one per event: its number at its publisher, from 1.
    published_at
        ``float64`` seconds, one per event: the publisher's clock at publication.
    """

    columns: Mapping[ColumnKey, Column]
    publishers: tuple[str, ...]
    publisher: npt.NDArray[np.int32]
    sequence: npt.NDArray[np.int64]
    published_at: npt.NDArray[np.float64]
    # Each is there once it is asked for.
    _events: tuple[dict[str, Value], ...] = field(init=False, repr=False)
    _seen: tuple[dict[str, Value], ...] = field(init=False, repr=False)
    _nested: Nested | None = field(init=False, repr=False)
    _rises: bool = field(init=False, repr=False)

    def __len__(self) -> int:
        return len(self.sequence)

    def __reduce__(self) -> tuple[object, ...]:
        # The cached events stay in the process that made them; they are not pickled.
        return (
            EventBatch,
            (self.columns, self.publishers, self.publisher, self.sequence, self.published_at),
        )

    @property
    def nbytes(self) -> int:
        """The approximate size of the batch on the wire."""
        total = self.publisher.nbytes + self.sequence.nbytes + self.published_at.nbytes
        for column in self.columns.values():
            total += column.data.nbytes
            if column.words:
                total += characters(column.words)
            if column.present is not None:
                total += column.present.nbytes
        return total

    @property
    def rises(self) -> bool:
        """Whether all events are of one publisher, and each has a higher number than the one before; found once."""
        try:
            return self._rises
        except AttributeError:
            sequence = self.sequence
            found = len(self.publishers) == 1 and bool((sequence[1:] > sequence[:-1]).all())
            object.__setattr__(self, "_rises", found)
            return found

    def events(self) -> tuple[dict[str, Value], ...]:
        """Return the events as plain mappings from attribute name to value; computed once, then cached.

        An event with arrays, or one that is all in its form, is a `NestedEvent`: it has the attributes outside of
        arrays.
        """
        try:
            return self._events
        except AttributeError:
            found = self.seen()
            if FORMS in self.columns:
                found = tuple(event.filled() if isinstance(event, NestedEvent) else event for event in found)
            object.__setattr__(self, "_events", found)
            return found

    def seen(self) -> tuple[dict[str, Value], ...]:
        """Return the events as filters see them; computed once, then cached.

        They are those of `events`, but of one that is all in its form the attributes are not read.
        """
        try:
            return self._seen
        except AttributeError:
            found = tuple(self._read())
            object.__setattr__(self, "_seen", found)
            return found

    def _read(self) -> list[dict[str, Value]]:
        out: list[dict[str, Value]] = [{} for _ in range(len(self))]
        for (name, kind), column in self.columns.items():
            if name in UNSEEN:
                continue
            rows = None if column.present is None else np.flatnonzero(column.present)
            values: list[Any] = (column.data if rows is None else column.data[rows]).tolist()
            if kind is Kind.STRING:
                words = column.words
                values = [words[code] for code in values]
            elif kind is Kind.TIMESTAMP:
                values = [Timestamp(value) for value in values]
            elif kind is Kind.NULL:
                values = [NULL] * len(values)
            targets = out if rows is None else [out[row] for row in rows.tolist()]
            for event, value in zip(targets, values, strict=True):
                event[name] = value
        for row, form, text in self._forms():
            if has_arrays(form):
                out[row] = NestedEvent(out[row], text, form)
        return out

    def _forms(self) -> Iterator[tuple[int, object, str]]:
        """Iterate over the nested events: the row, the parsed form, and its text."""
        column = self.columns.get(FORMS)
        if column is None:
            return
        read: dict[int, object] = {}
        rows = range(len(self)) if column.present is None else np.flatnonzero(column.present).tolist()
        for row in rows:
            code = int(column.data[row])
            if code not in read:
                read[code] = json.loads(column.words[code])
            yield row, read[code], column.words[code]

    def documents(self, shown: Callable[[Value], object] = lambda value: value) -> list[dict[str, Any]]:
        """Return the events as they were given, with nested objects and arrays; `shown` converts the values."""
        out = [{name: shown(value) for name, value in event.items()} for event in self.seen()]
        for row, form, _ in self._forms():
            out[row] = document(out[row], form, shown)
        return out

    def nested(self) -> Nested | None:
        """Return the events with arrays and those without, or None when no event has arrays; computed once."""
        if FORMS not in self.columns:
            return None
        try:
            return self._nested
        except AttributeError:
            parted = self._parted()
            object.__setattr__(self, "_nested", parted)
            return parted

    def _parted(self) -> Nested | None:
        events = self.seen()
        rows = [row for row, event in enumerate(events) if isinstance(event, NestedEvent)]
        if not rows:
            return None
        flat = np.setdiff1d(np.arange(len(self)), rows)
        columns = {key: column.take(flat) for key, column in self.columns.items() if key != FORMS}
        found = [events[row] for row in rows]
        return Nested(np.array(rows, np.intp), found, flat, batch_from_columns(columns, len(flat)))  # type: ignore[arg-type]

    @property
    def work(self) -> int:
        """What the events cost, in flat events: one for each, and more for the size of its form."""
        column = self.columns.get(FORMS)
        if column is None:
            return len(self)
        # A comma is a value more, and those in texts are not many.
        sizes = ((len(word), word.count(",")) for word in column.words)
        costs = np.array([long // WORK_CHARACTERS + many // WORK_VALUES for long, many in sizes], np.int64)
        codes = column.data if column.present is None else column.data[column.present]
        return len(self) + int(costs[codes].sum())

    def identity(self, row: int) -> tuple[str, int]:
        """Return (publisher, sequence) of one event."""
        return self.publishers[self.publisher[row]], int(self.sequence[row])

    def take(self, rows: Rows) -> EventBatch:
        """Return a batch of these events, in this order; the batch itself when they are all of its events, in order."""
        if len(rows) == len(self) and (len(rows) <= 1 or bool((rows == np.arange(len(rows))).all())):
            return self
        return EventBatch(
            {key: column.take(rows) for key, column in self.columns.items()},
            self.publishers,
            self.publisher[rows],
            self.sequence[rows],
            self.published_at[rows],
        )


class Nested(NamedTuple):
    """The events of a batch with arrays and their rows, and the rows and the batch of all others."""

    rows: Rows
    events: list[NestedEvent]
    flat_rows: Rows
    flat: EventBatch


def batch_of(
    events: Iterable[Mapping[str, object]],
    *,
    publisher: str = "",
    first_sequence: int = 1,
    published_at: float = 0.0,
    bytes_max: int | None = None,
) -> EventBatch:
    """Make a batch from mappings of attribute name to Python value.

    Parameters
    ----------
    events
        One mapping per event. ``None`` and NaN are missing values. A value may be a mapping, or a list of values and
        mappings: see :mod:`.documents`.
    publisher, first_sequence, published_at
        Their publisher, the sequence number of the first event, and the time of publication (seconds).
    bytes_max
        The maximum size of the columns; None for no limit. Each column has a cell for every event, so events with
        different attributes take much more space than their text. Beyond it each event is all in its form.

    Raises
    ------
    EventError
        If an attribute name or a value is invalid, or an event is too large; the message says which event.
    """
    if type(events) is not tuple and not isinstance(events, Iterable):
        raise EventError(f"events are a sequence of mappings, not a {type(events).__name__}")
    if bytes_max is not None and not isinstance(events, Sequence):
        events = tuple(events)
    size, gathered = _gathered(events, gather)
    if bytes_max is not None and cells_bytes(len(gathered), size) > bytes_max:
        size, gathered = _gathered(events, gather_whole)
    columns = {key: _column(key[1], size, rows, values) for key, (rows, values) in gathered.items()}
    return batch_from_columns(
        columns, size, publisher=publisher, first_sequence=first_sequence, published_at=published_at
    )


def _gathered(
    events: Iterable[Mapping[str, object]], gather_one: Callable[[Gathered, int, Mapping[str, object]], None]
) -> tuple[int, Gathered]:
    gathered: Gathered = {}
    row = -1
    for row, event in enumerate(events):
        try:
            gather_one(gathered, row, event)
        except EventError as error:
            raise EventError(f"event {row}: {error}") from None
    return row + 1, gathered


def flat_batch(events: Iterable[dict[str, Value]]) -> EventBatch:
    """Make a batch of flat events with normalised values, such as the ways of an event; nothing is checked."""
    events = tuple(events)
    gathered = flat_columns(events)
    columns = {key: _column(key[1], len(events), rows, values) for key, (rows, values) in gathered.items()}
    batch = batch_from_columns(columns, len(events))
    object.__setattr__(
        batch, "_seen", events
    )  # the ways of an event know its whole arrays, which columns do not
    return batch


def accepted_of(events: Iterable[Mapping[str, object]]) -> tuple[EventBatch, dict[int, EventError]]:
    """Return a batch of the valid events, and for each of the others, by its place, what is wrong with it."""
    gathered: Gathered = {}
    refused: dict[int, EventError] = {}
    row = 0
    for place, event in enumerate(events):
        try:
            gather(gathered, row, event)
        except EventError as error:
            refused[place] = EventError(f"event {place}: {error}")
        else:
            row += 1
    columns = {key: _column(key[1], row, rows, values) for key, (rows, values) in gathered.items()}
    return batch_from_columns(columns, row), refused


def cells_bytes(columns: int, events: int) -> int:
    """Return an upper bound on the size of so many columns for so many events, without the words of strings."""
    return CELL_BYTES * columns * events


def _column(kind: Kind, size: int, rows: list[int], values: list[Value]) -> Column:
    words: tuple[str, ...] = ()
    raw: list[Any] = values
    if kind is Kind.STRING:
        codes: dict[str, int] = {}
        raw = [codes.setdefault(value, len(codes)) for value in values]  # type: ignore[arg-type]
        words = tuple(codes)
    if len(rows) == size:
        return Column(kind, np.array(raw, _DTYPES[kind]), None, words)
    data = np.zeros(size, _DTYPES[kind])
    present = np.zeros(size, np.bool_)
    data[rows] = raw
    present[rows] = True
    return Column(kind, data, present, words)


def batch_from_columns(
    columns: Mapping[ColumnKey, Column],
    size: int,
    *,
    publisher: str = "",
    first_sequence: int = 1,
    published_at: float = 0.0,
) -> EventBatch:
    """Make a batch of one publisher's events from complete columns of `size` entries each."""
    times = np.empty(size)
    times.fill(published_at)  # `full` is Python, and most batches have one event
    return EventBatch(
        columns,
        (publisher,),
        np.zeros(size, np.int32),
        np.arange(first_sequence, first_sequence + size, dtype=np.int64),
        times,
    )


def joined_bytes(batches: Collection[EventBatch]) -> int:
    """Return an upper bound on the columns' size of the concatenated batches: every attribute has a cell per event."""
    columns = {key for batch in batches for key in batch.columns}
    return cells_bytes(len(columns), sum(map(len, batches)))


def concat(batches: Sequence[EventBatch]) -> EventBatch:
    """Return one batch with the events of all batches, in order."""
    if len(batches) == 1:
        return batches[0]
    sizes = [len(batch) for batch in batches]
    keys = dict.fromkeys(key for batch in batches for key in batch.columns)
    publishers: dict[str, int] = {}
    codes = []
    for batch in batches:
        mapping = [publishers.setdefault(name, len(publishers)) for name in batch.publishers]
        codes.append(np.array(mapping, np.int32)[batch.publisher])
    return EventBatch(
        {key: _concat_columns(key[1], [batch.columns.get(key) for batch in batches], sizes) for key in keys},
        tuple(publishers),
        np.concatenate(codes),
        np.concatenate([batch.sequence for batch in batches]),
        np.concatenate([batch.published_at for batch in batches]),
    )


def _concat_columns(kind: Kind, columns: Sequence[Column | None], sizes: Sequence[int]) -> Column:
    there = [column for column in columns if column is not None]
    # Batches of one source often have the same words; then the words need no lookup.
    shared = all(column.words == there[0].words for column in there)
    words: dict[str, int] = {}
    parts: list[npt.NDArray[np.generic]] = []
    masks: list[Mask] = []
    for column, size in zip(columns, sizes, strict=True):
        if column is None:
            parts.append(np.zeros(size, _DTYPES[kind]))
            masks.append(np.zeros(size, np.bool_))
            continue
        data = column.data
        if not shared and column.words:
            mapping = [words.setdefault(word, len(words)) for word in column.words]
            data = np.array(mapping, np.int32)[data]
        parts.append(data)
        masks.append(np.ones(size, np.bool_) if column.present is None else column.present)
    present = np.concatenate(masks)
    found = there[0].words if shared else tuple(words)
    return Column(kind, np.concatenate(parts), None if present.all() else present, found)
