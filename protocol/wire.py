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
* Decoding does not validate: the bytes come from a process of the same network. Bytes of a store, which may come from
  anywhere, are read by :mod:`rayvous.recovery.durability.packed`.

:data:`REDUCERS` is a `dispatch_table` of :class:`pickle.Pickler`; any unpickler reads what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import BOOLEAN, DATA, FLOAT64, INT32, INT64, arrays_of
from .batch import Column, EventBatch, Recent
from .messages.pubsub import Ack, Directed, Events, Numbered
from .values import Kind

_Array: TypeAlias = npt.NDArray[Any]
_Narrow: TypeAlias = tuple[str, int, bytes]
"""The form of narrowing, the number that was subtracted, and the bytes."""
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
        found[name, _KINDS[kind]] = Column(_KINDS[kind], data, present, _parted(words) if words else ())
    batch = EventBatch(found, publishers, publisher, sequence, published_at)
    if held <= KEPT_BATCH_BYTES_MAX:
        _recent.keep(batch, (_small_batch, (size, publishers, columns, eights, fours, ones)))
    return batch


def _large_batch(
    size: int, publishers: tuple[str, ...], columns: list[Any], arrays: list[_Narrow]
) -> EventBatch:
    following = iter(arrays)
    batch = _batch(lambda dtype: _widened(next(following), size, dtype), publishers, columns)
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
        found[name, _KINDS[kind]] = Column(_KINDS[kind], data, present, _parted(words))
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


def _parted(words: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(words, tuple):
        return words
    return _split(words) if len(words) <= KEPT_CHARACTERS_MAX else tuple(words.split(SEPARATOR))


@lru_cache(maxsize=KEPT_TEXTS_MAX)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(SEPARATOR))


def _narrow(array: _Array) -> _Narrow:
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


def _widened(narrow: _Narrow, size: int, dtype: np.dtype[np.generic]) -> _Array:
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


def _large_array(dtype: str, size: int, narrow: _Narrow) -> _Array:
    return _widened(narrow, size, np.dtype(dtype))


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
