"""Batches in few bytes, for what crosses between processes: how :mod:`pickle` takes the values of the data plane apart.

Rules
-----
* What is read is equal to what was written, array by array: types, the bits of every number, places of words, what is
  missing, the order of the columns. A batch whose arrays are not of the types that it names travels as it is.
* The arrays of a small batch are three runs of bytes: those of eight bytes a value, of four, and of one. So each that
  is read is aligned, as code in C takes it to be. Those of a larger one are made narrow first: a value that all have
  is there once, numbers that rise by one are their first, integers are as wide as their range, booleans are bits.
* Words are one string with a separator, where none of them has it. Batch after batch of one source often has the same:
  the last few are kept, and are one object for all batches that have them.
* Nothing here is checked when it is read: it comes from a process of the same network. Bytes of a store, which may
  come from anywhere, are read by :mod:`...faults.durability.packed`.

:data:`REDUCERS` is a `dispatch_table` of :class:`pickle.Pickler`: what is written with it any unpickler reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import BOOLEAN, DATA, FLOAT64, INT32, INT64, arrays_of
from .batch import Column, EventBatch, batch_of
from .messages.pubsub import Ack, Events, Numbered
from .values import Kind

_Array: TypeAlias = npt.NDArray[Any]
_Narrow: TypeAlias = tuple[str, int, bytes]
"""How an array was made narrow, the number that was taken off it, and bytes."""
Reduced: TypeAlias = tuple[Any, ...] | str

NARROW_EVENTS_MIN: Final = 64
"""With fewer events, looking for what is alike takes longer than it saves."""
SEPARATOR: Final = "\0"
KEPT_TEXTS_MAX: Final = 8
KEPT_CHARACTERS_MAX: Final = 1 << 16
"""In the words of a column that are kept: of all together not more than 16 MB, if each is a single character."""

_KINDS: Final = tuple(Kind)
_WIDTHS: Final = ((1 << 8, np.dtype("u1")), (1 << 16, np.dtype("u2")), (1 << 32, np.dtype("u4")))


def _reduce_batch(batch: EventBatch) -> Reduced:
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


def _small_batch(
    size: int, publishers: tuple[str, ...], columns: list[Any], eights: bytes, fours: bytes, ones: bytes
) -> EventBatch:
    data = {8: eights, 4: fours, 1: ones}
    places = {8: 0, 4: 0, 1: 0}

    def array(dtype: np.dtype[Any]) -> _Array:
        width = dtype.itemsize
        start = places[width]
        places[width] = start + size * width
        return np.frombuffer(data[width], dtype, size, start) if size else np.zeros(0, dtype)

    return _batch(array, publishers, columns)


def _large_batch(
    size: int, publishers: tuple[str, ...], columns: list[Any], arrays: list[_Narrow]
) -> EventBatch:
    following = iter(arrays)
    return _batch(lambda dtype: _widened(next(following), size, dtype), publishers, columns)


def _batch(
    array: Callable[[np.dtype[Any]], _Array], publishers: tuple[str, ...], columns: list[Any]
) -> EventBatch:
    """Return the batch whose arrays come one after the other, as they were written."""
    sequence, published_at, publisher = array(INT64), array(FLOAT64), array(INT32)
    found = {}
    for name, kind, some_missing, words in columns:
        data = array(DATA[kind])
        present = array(BOOLEAN) if some_missing else None
        found[name, _KINDS[kind]] = Column(_KINDS[kind], data, present, _parted(words))
    return EventBatch(found, publishers, publisher, sequence, published_at)


def _joined(words: tuple[str, ...]) -> str | tuple[str, ...]:
    if len(words) < 2:
        return words
    text = SEPARATOR.join(words)
    return text if text.count(SEPARATOR) == len(words) - 1 else words


def _parted(words: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(words, tuple):
        return words
    return _split(words) if len(words) <= KEPT_CHARACTERS_MAX else tuple(words.split(SEPARATOR))


@lru_cache(maxsize=KEPT_TEXTS_MAX)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(SEPARATOR))


def _narrow(array: _Array) -> _Narrow:
    """Return what an array of some size can be made of again, given its size and its type."""
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


def _widened(narrow: _Narrow, size: int, dtype: np.dtype[Any]) -> _Array:
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
    """Take any other array apart: rows and starts of deliveries."""
    if array.ndim != 1 or array.dtype.kind not in "bi" or type(array) is not np.ndarray:
        return array.__reduce_ex__(5)
    if len(array) < NARROW_EVENTS_MIN:
        return _small_array, (array.dtype.str, array.tobytes())
    return _large_array, (array.dtype.str, len(array), _narrow(array))


def _small_array(dtype: str, data: bytes) -> _Array:
    return np.frombuffer(data, dtype) if data else np.zeros(0, dtype)


def _large_array(dtype: str, size: int, narrow: _Narrow) -> _Array:
    return _widened(narrow, size, np.dtype(dtype))


def by_fields(kind: type, *fields: str) -> Callable[[Any], Reduced]:
    """Return how a frozen dataclass of these fields is taken apart: what is made for one looks up each on its own."""
    values = attrgetter(*fields)
    return lambda value: (kind, values(value))


_AS_FIRST: Final = attrgetter(
    "round", "again", "ballot", "age_seconds", "forgot_seconds", "doubt_seconds", "entry"
)
_FIRST: Final = _AS_FIRST(Events(batch_of(())))


def _reduce_events(events: Events) -> Reduced:
    others = _AS_FIRST(events)
    return Events, (events.batch,) if others == _FIRST else (events.batch, *others)


REDUCERS: Final[Mapping[type, Callable[[Any], Reduced]]] = {
    EventBatch: _reduce_batch,
    Events: _reduce_events,
    Numbered: by_fields(Numbered, "number", "before", "message", "group"),
    Ack: by_fields(Ack, "number", "group"),
    np.ndarray: _reduce_array,
}
"""How values are taken apart, by their type: a `dispatch_table`."""
