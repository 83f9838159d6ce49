"""Packs a batch of events into bytes: its arrays as they are in memory, one after the other, and a description.

Rules
-----
* The description is a tuple of numbers and strings. It defines the arrays, so their bytes need no names.
* The arrays of a large batch are narrow, and its words joined, as between processes (:mod:`...protocol.wire`): a commit
  writes a third of the bytes, and a batch that has just been read is not encoded again.
* An unpacked batch equals the packed one, array by array: types, indices of words, missing values, the bits
  of every number, and the order of the columns.
* Bytes and description may come from a file that someone else wrote. They are rejected unless every length
  and every index of a word is valid.

:mod:`...protocol.arrays` defines the order and the types of the arrays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.arrays import BOOLEAN, DATA, FLOAT64, INT32, INT64, arrays_of
from ...protocol.batch import Column, ColumnKey, EventBatch, check_name
from ...protocol.documents import FORM, is_form
from ...protocol.errors import EventError, StorageFailed
from ...protocol.gathering import FORMS, TTLS
from ...protocol.values import Kind
from ...protocol.wire import narrowed, parted, widened

Description: TypeAlias = tuple[Any, ...]
"""``(events, publishers, ((name, kind, whether some are missing, words), ...))``, and of narrow arrays a fourth item:
``((form, number that was subtracted, bytes), ...)``."""
Content: TypeAlias = "bytes | npt.NDArray[np.generic]"

EVENTS_MAX: Final = 1 << 24
"""The most events of a batch with narrow arrays: a few bytes of a broken file must not ask for all memory."""
_WIDTHS: Final = {"|u1": 1, "<u2": 2, "<u4": 4}


def pack(batch: EventBatch) -> tuple[Description, Sequence[Content]]:
    """Return the description of a batch, and the buffers whose bytes, one after the other, are its content.

    Raises
    ------
    StorageFailed
        If an array does not have the type that `EventBatch` and `Column` require, or has another length.
    """
    narrow = narrowed(batch) if len(batch) <= EVENTS_MAX else None
    if narrow is not None:
        size, publishers, described, written = narrow
        forms = tuple((form, low, len(data)) for form, low, data in written)
        return (size, publishers, tuple(described), forms), [data for _, _, data in written]
    columns, arrays, misfit = arrays_of(batch)
    if misfit is not None:
        array, dtype = misfit
        raise StorageFailed(
            f"a batch of {len(batch)} events with an array of {array.shape} {array.dtype}, where {len(batch)} "
            f"{dtype} are due, cannot be stored: make columns of the types that Column names"
        )
    return (len(batch), batch.publishers, tuple(columns)), arrays


def unpack(description: Description, data: memoryview) -> EventBatch:
    """Return the batch that was packed.

    Raises
    ------
    StorageFailed
        If description and bytes do not form a batch.
    """
    try:
        return _unpack(description, data)
    except (
        TypeError,
        ValueError,
        EventError,
    ) as error:  # not a description: it has another shape, or invalid names
        raise StorageFailed(f"bytes that are not a stored batch ({error})") from None


def _unpack(description: Description, data: memoryview) -> EventBatch:
    size, publishers, described, *narrow = description
    _check(type(size) is int and size >= 0, "events")
    _check_words(publishers, "publishers")
    _check(not narrow or (len(narrow) == 1 and 0 < size <= EVENTS_MAX), "events")
    forms = iter(narrow[0] if narrow else ())
    place = 0

    def take(length: int) -> memoryview:
        nonlocal place
        start, place = place, place + length
        _check(place <= len(data), "length")
        return data[start:place]

    def array(dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
        if not narrow:
            # A view would keep the whole row alive, and be read-only.
            return np.frombuffer(take(size * dtype.itemsize), dtype).copy()
        form, low, length = next(forms)
        _check(type(low) is int and length == _length(form, size, dtype), "form")
        found = widened((form, low, bytes(take(length))), size, dtype)
        return found if found.flags.writeable else found.copy()

    sequence, published_at, publisher = array(INT64), array(FLOAT64), array(INT32)
    _check_places(publisher, len(publishers), "publisher")
    columns: dict[ColumnKey, Column] = {}
    for name, number, some_missing, words in described:
        if (name, number) not in (FORMS, TTLS):
            check_name(name)
        kind = Kind(number)
        values = array(DATA[kind])
        present = array(BOOLEAN) if some_missing else None
        words = parted(words) if narrow and type(words) is str else words
        _check_words(words, "words")
        if name == FORM:
            _check(all(is_form(json.loads(word)) for word in words), "forms")
        if kind is Kind.STRING:
            _check_places(values if present is None else values[present], len(words), "words")
        columns[name, kind] = Column(kind, values, present, words)
    _check(place == len(data) and len(columns) == len(described) and next(forms, None) is None, "length")
    return EventBatch(columns, publishers, publisher, sequence, published_at)


def _length(form: object, size: int, dtype: np.dtype[np.generic]) -> int:
    """Return how many bytes an array of this size and type has in a form."""
    if form == "":
        return size * dtype.itemsize
    if form == "=":
        return dtype.itemsize
    if form == "?" and dtype.kind == "b":
        return (size + 7) // 8
    _check(dtype.kind == "i" and (form == "+" or form in _WIDTHS), "form")
    width = 0 if form == "+" else _WIDTHS[str(form)]
    _check(width < dtype.itemsize, "form")
    return size * width


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")


def _check_words(words: object, what: str) -> None:
    _check(type(words) is tuple and all(type(word) is str for word in words), what)


def _check_places(places: npt.NDArray[np.generic], count: int, what: str) -> None:
    _check(not len(places) or (int(places.min()) >= 0 and int(places.max()) < count), what)
