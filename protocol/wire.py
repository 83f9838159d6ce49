"""A compact encoding of batches between processes: how :mod:`pickle` reduces the values of the data plane.

Rules
-----
* Decoding restores exactly what was encoded, array by array: types, the bits of every number, positions of words,
  missing values, the order of the columns. A batch whose arrays do not have the expected types is pickled unchanged.
* The arrays of a small batch are three runs of bytes: those with eight bytes per value, with four, and with one. So
  every decoded array is aligned, as C code expects. The arrays of a larger batch are narrowed first: a constant is
  stored once, numbers that increase by one are stored as the first number, integers are as wide as their range,
  booleans are bits.
* Words are one string with a separator, unless a word contains the separator. Successive batches of one source often
  have the same words: the last few are cached and shared as one object by all batches that have them.
* A batch that was read and is written again soon, as by a broker that passes it on, is not encoded a second time.
* A message with a small batch, alone, is no pickle (`small_of`): what successive messages of one source have in common,
  their *shape*, is bytes that are read once, and behind them are only the runs and the words.
* Decoding does not validate: the bytes come from a process of the same network. Bytes of a store, which may come from
  anywhere, are read by :mod:`rayvous.recovery.durability.packed`.

:data:`REDUCERS` is a `dispatch_table` of :class:`pickle.Pickler`; any unpickler reads what it writes.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import BOOLEAN, DATA, FLOAT64, INT32, INT64, arrays_of
from .batch import Column, ColumnKey, EventBatch, Recent
from .messages.pubsub import DEFAULT_MARKS, Ack, Directed, Events, Numbered, marks_of
from .values import Kind

_Array: TypeAlias = npt.NDArray[Any]
Narrow: TypeAlias = tuple[str, int, bytes]
"""The form of narrowing, the number that was subtracted, and the bytes."""
Narrowed: TypeAlias = tuple[
    int, tuple[str, ...], list[tuple[str, int, bool, "str | tuple[str, ...]"]], list[Narrow]
]
"""A batch: its size, its publishers, its columns with their words (as one text where that is possible), its arrays."""
Reduced: TypeAlias = tuple[Any, ...] | str

NARROW_EVENTS_MIN: Final = 64
"""With fewer events, narrowing takes longer than it saves."""
SEPARATOR: Final = "\0"
KEPT_TEXTS_MAX: Final = 8
KEPT_CHARACTERS_MAX: Final = 1 << 16
"""The most characters of a column's cached words: the cache takes at most 16 MB, if each word is one character."""
KEPT_BATCHES_MAX: Final = 4
KEPT_BATCH_BYTES_MAX: Final = 2 << 20
"""How many of the batches that were read last are remembered with their encodings, and how large each may be."""

SMALL: Final = 1
"""The first byte of a small message of events; any other message is a pickle, which begins with 128."""
SHAPES_MAX: Final = 64
SMALL_COLUMNS_MAX: Final = 64
"""How many shapes are remembered, and of how many columns each may be."""
_SMALL_HEAD: Final = struct.Struct("<BBI")
"""Before a small message: its kind, the number of events, and the bytes of the shape, which follows."""
_TEXT: Final = "surrogatepass"  # as pickle writes texts

_KINDS: Final = tuple(Kind)
_WIDTHS: Final = ((1 << 8, np.dtype("u1")), (1 << 16, np.dtype("u2")), (1 << 32, np.dtype("u4")))

_recent: Recent[EventBatch, Reduced] = Recent(KEPT_BATCHES_MAX)
"""The batches that were read last, with what they were read from."""


def _keep(batch: EventBatch, reduced: Reduced, size: int) -> EventBatch:
    if size <= KEPT_BATCH_BYTES_MAX:
        _recent.keep(batch, reduced)
    return batch


def _reduce_batch(batch: EventBatch) -> Reduced:
    known = _recent.get(batch)
    if known is not None:
        return known
    described, arrays, misfit = arrays_of(batch)
    if misfit is not None:
        return batch.__reduce__()
    size = len(batch)
    columns = [(name, kind, some_missing, _joined(words)) for name, kind, some_missing, words in described]
    if size < NARROW_EVENTS_MIN:
        runs: dict[int, list[bytes]] = {8: [], 4: [], 1: []}
        for array in arrays:
            runs[array.itemsize].append(array.tobytes())
        eights, fours, ones = map(b"".join, runs.values())
        return _small_batch, (size, batch.publishers, columns, eights, fours, ones)
    return _large_batch, (size, batch.publishers, columns, [_narrow(each) for each in arrays])


def narrowed(batch: EventBatch) -> Narrowed | None:
    """Return a batch with narrow arrays, as it came if it was read lately; None for a small one or a misfit."""
    if len(batch) < NARROW_EVENTS_MIN:
        return None
    reduced = _reduce_batch(batch)
    return reduced[1] if reduced[0] is _large_batch else None  # type: ignore[return-value]


def _small_batch(
    size: int, publishers: tuple[str, ...], columns: list[Any], eights: bytes, fours: bytes, ones: bytes
) -> EventBatch:
    if not size:
        return _batch(lambda dtype: np.zeros(0, dtype), publishers, columns)
    read = np.frombuffer
    sequence, published_at = read(eights, INT64, size), read(eights, FLOAT64, size, 8 * size)
    publisher = read(fours, INT32, size)
    eight, four, one = 16 * size, 4 * size, 0
    held = len(eights) + len(fours) + len(ones)
    found = {}
    for name, kind, some_missing, words in columns:
        held += len(words)
        dtype = DATA[kind]
        if dtype is INT32:
            data = read(fours, dtype, size, four)
            four += 4 * size
        elif dtype is BOOLEAN:
            data = read(ones, dtype, size, one)
            one += size
        else:
            data = read(eights, dtype, size, eight)
            eight += 8 * size
        present = None
        if some_missing:
            present = read(ones, BOOLEAN, size, one)
            one += size
        found[name, _KINDS[kind]] = Column(_KINDS[kind], data, present, parted(words) if words else ())
    batch = EventBatch(found, publishers, publisher, sequence, published_at)
    if held <= KEPT_BATCH_BYTES_MAX:
        _recent.keep(batch, (_small_batch, (size, publishers, columns, eights, fours, ones)))
    return batch


class _Place(NamedTuple):
    """Where a column of a small message is: after how many arrays of its run its data, and after how many its mask.

    Its words are those from `first` to `last` of all words.
    """

    key: ColumnKey
    kind: Kind
    dtype: np.dtype[np.generic]
    data: int
    mask: int | None
    first: int
    last: int


class _Shape(NamedTuple):
    """What a small message is beside its numbers and words: how many arrays there are in each run, and which."""

    marks: tuple[object, ...]
    publishers: tuple[str, ...]
    places: tuple[_Place, ...]
    eights: int
    fours: int
    ones: int
    words: int


@lru_cache(maxsize=SHAPES_MAX)
def _shape_written(*shape: object) -> bytes:
    return pickle.dumps(shape, protocol=5)


@lru_cache(maxsize=SHAPES_MAX)
def _shape_read(written: bytes) -> _Shape:
    marks, publishers, columns = pickle.loads(written)
    held, words = {8: 2, 4: 1, 1: 0}, 0
    places = []
    for name, kind, some_missing, its in columns:
        dtype = DATA[kind]
        data = held[dtype.itemsize]
        held[dtype.itemsize] += 1
        mask = held[1] if some_missing else None
        held[1] += some_missing
        places.append(_Place((name, _KINDS[kind]), _KINDS[kind], dtype, data, mask, words, words + its))
        words += its
    return _Shape(marks, publishers, tuple(places), held[8], held[4], held[1], words)


def small_of(message: Events) -> bytes | None:
    """Return a small message of events as bytes, which `read_small` reads; None if it is not small, or unusual."""
    batch = message.batch
    size = len(batch.sequence)
    if not 0 < size < NARROW_EVENTS_MIN or len(batch.columns) > SMALL_COLUMNS_MAX:
        return None
    described, arrays, misfit = arrays_of(batch)
    if misfit is not None:
        return None
    words: list[str] = []
    columns = []
    for name, kind, some_missing, its in described:
        columns.append((name, kind, some_missing, len(its)))
        words += its
    text = SEPARATOR.join(words)
    if words and text.count(SEPARATOR) != len(words) - 1:
        return None
    marks = marks_of(message)
    shape = _shape_written(marks if marks != DEFAULT_MARKS else (), batch.publishers, tuple(columns))
    runs: dict[int, list[bytes]] = {8: [], 4: [], 1: []}
    for array in arrays:
        runs[array.itemsize].append(array.tobytes())
    head = _SMALL_HEAD.pack(SMALL, size, len(shape))
    return b"".join((head, shape, *runs[8], *runs[4], *runs[1], text.encode(errors=_TEXT)))


def read_small(content: bytes, start: int = 0) -> Events:
    """Return the message that `small_of` has written, from where it begins to the end."""
    _, size, length = _SMALL_HEAD.unpack_from(content, start)
    begin = start + _SMALL_HEAD.size
    marks, publishers, places, eight, four, one, words = _shape_read(content[begin : begin + length])
    begin += length
    # Copies are aligned, whatever is before them.
    eights = content[begin : begin + 8 * size * eight]
    begin += 8 * size * eight
    fours = content[begin : begin + 4 * size * four]
    ones = content[begin + 4 * size * four :]
    read = np.frombuffer
    texts = ones[size * one :].decode(errors=_TEXT).split(SEPARATOR) if words else []
    found = {}
    for key, kind, dtype, data, mask, first, last in places:
        if dtype is BOOLEAN:
            values = read(ones, dtype, size, size * data)
        elif dtype is INT32:
            values = read(fours, dtype, size, 4 * size * data)
        else:
            values = read(eights, dtype, size, 8 * size * data)
        present = None if mask is None else read(ones, BOOLEAN, size, size * mask)
        found[key] = Column(kind, values, present, tuple(texts[first:last]) if last > first else ())
    sequence, published_at = read(eights, INT64, size), read(eights, FLOAT64, size, 8 * size)
    batch = EventBatch(found, publishers, read(fours, INT32, size), sequence, published_at)
    return Events(batch, *marks)  # type: ignore[arg-type]


def _large_batch(
    size: int, publishers: tuple[str, ...], columns: list[Any], arrays: list[Narrow]
) -> EventBatch:
    following = iter(arrays)
    batch = _batch(lambda dtype: widened(next(following), size, dtype), publishers, columns)
    reduced = _large_batch, (size, publishers, columns, arrays)
    return _keep(batch, reduced, batch.nbytes)


def _batch(
    array: Callable[[np.dtype[np.generic]], _Array], publishers: tuple[str, ...], columns: list[Any]
) -> EventBatch:
    """Return the batch from its arrays, which follow each other in the order in which they were written."""
    sequence, published_at, publisher = array(INT64), array(FLOAT64), array(INT32)
    found = {}
    for name, kind, some_missing, words in columns:
        data = array(DATA[kind])
        present = array(BOOLEAN) if some_missing else None
        found[name, _KINDS[kind]] = Column(_KINDS[kind], data, present, parted(words))
    return EventBatch(found, publishers, publisher, sequence, published_at)


_texts: Recent[tuple[str, ...], str] = Recent(KEPT_TEXTS_MAX)
"""Words that were joined last or read, with their text."""


def _joined(words: tuple[str, ...]) -> str | tuple[str, ...]:
    if len(words) < 2:
        return words
    known = _texts.get(words)
    if known is not None:
        return known
    text = SEPARATOR.join(words)
    if text.count(SEPARATOR) != len(words) - 1:
        return words
    if len(words) >= NARROW_EVENTS_MIN and len(text) <= KEPT_CHARACTERS_MAX:
        _texts.keep(words, text)
    return text


def parted(words: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return words that were joined, if they were."""
    if isinstance(words, tuple):
        return words
    return _split(words) if len(words) <= KEPT_CHARACTERS_MAX else tuple(words.split(SEPARATOR))


@lru_cache(maxsize=KEPT_TEXTS_MAX)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(SEPARATOR))


def _narrow(array: _Array) -> Narrow:
    """Return an encoding from which a non-empty array can be restored, given its size and its type."""
    kind = array.dtype.kind
    bits = array if kind != "f" else np.ascontiguousarray(array).view(np.int64)
    first, last = bits[0], bits[-1]
    if first == last and bool((bits == first).all()):
        return "=", 0, array[:1].tobytes()
    if kind == "b":
        return "?", 0, np.packbits(array).tobytes()
    if kind == "f":
        return "", 0, array.tobytes()
    if int(last) - int(first) == len(array) - 1 and bool((np.diff(array) == 1).all()):
        return "+", int(first), b""
    low = int(array.min())
    span = int(array.max()) - low
    for values, narrower in _WIDTHS:
        if span < values and narrower.itemsize < array.itemsize:
            return narrower.str, low, (array - low).astype(narrower).tobytes()
    return "", 0, array.tobytes()


def widened(narrow: Narrow, size: int, dtype: np.dtype[np.generic]) -> _Array:
    """Return the array of this size and type that was narrowed."""
    form, low, data = narrow
    if form == "":
        return np.frombuffer(data, dtype)
    if form == "=":
        return np.frombuffer(data, dtype).repeat(size)
    if form == "?":
        return np.unpackbits(np.frombuffer(data, np.uint8), count=size).view(BOOLEAN)
    if form == "+":
        return np.arange(low, low + size, dtype=dtype)
    wide = np.frombuffer(data, form).astype(dtype)
    wide += low
    return wide


def _reduce_array(array: _Array) -> Reduced:
    """Reduce any other array: rows and starts of deliveries."""
    if array.ndim != 1 or array.dtype.kind not in "bi" or type(array) is not np.ndarray:
        return array.__reduce_ex__(5)
    if len(array) < NARROW_EVENTS_MIN:
        return _small_array, (array.dtype.str, array.tobytes())
    return _large_array, (array.dtype.str, len(array), _narrow(array))


def _small_array(dtype: str, data: bytes) -> _Array:
    return np.frombuffer(data, dtype) if data else np.zeros(0, dtype)


def _large_array(dtype: str, size: int, narrow: Narrow) -> _Array:
    return widened(narrow, size, np.dtype(dtype))


def by_fields(kind: type, *fields: str) -> Callable[[Any], Reduced]:
    """Return a reducer for a frozen dataclass with these fields; the default one looks up each field separately."""
    values = attrgetter(*fields)
    return lambda value: (kind, values(value))


REDUCERS: Final[Mapping[type, Callable[[Any], Reduced]]] = {
    EventBatch: _reduce_batch,
    Events: Events.__reduce__,
    Directed: by_fields(Directed, "events", "origin", "targets", "numbers"),
    Numbered: by_fields(Numbered, "number", "before", "message", "group"),
    Ack: by_fields(Ack, "number", "group"),
    np.ndarray: _reduce_array,
}
"""The reducers by type: a `dispatch_table`."""
