"""Packs a batch of events into bytes: its arrays as they are in memory, one after the other, and a description.

Rules
-----
* The description is a tuple of numbers and strings. It defines the arrays, so their bytes need no names.
* An unpacked batch equals the packed one, array by array: types, indices of words, missing values, the bits
  of every number, and the order of the columns.
* Bytes and description may come from a file that someone else wrote. They are rejected unless every length
  and every index of a word is valid.

:mod:`...protocol.arrays` defines the order and the types of the arrays.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.arrays import BOOLEAN, DATA, FLOAT64, INT32, INT64, arrays_of
from ...protocol.batch import Column, ColumnKey, EventBatch, check_name
from ...protocol.documents import FORM, is_form
from ...protocol.errors import EventError, StorageFailed
from ...protocol.gathering import FORMS, TTLS
from ...protocol.values import Kind

Description: TypeAlias = tuple[Any, ...]
"""``(events, publishers, ((name, kind, whether some are missing, words), ...))``."""


def pack(batch: EventBatch) -> tuple[Description, list[npt.NDArray[np.generic]]]:
    """Return the description of a batch, and the arrays whose bytes, one after the other, are its content.

    Raises
    ------
    StorageFailed
        If an array does not have the type that `EventBatch` and `Column` require, or has another length.
    """
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
    size, publishers, described = description
    _check(type(size) is int and size >= 0, "events")
    _check_words(publishers, "publishers")
    place = 0

    def array(dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
        nonlocal place
        start, place = place, place + size * dtype.itemsize
        _check(place <= len(data), "length")
        return np.frombuffer(
            data[start:place], dtype
        ).copy()  # a view would keep the whole row alive, and be read-only

    sequence, published_at, publisher = array(INT64), array(FLOAT64), array(INT32)
    _check_places(publisher, len(publishers), "publisher")
    columns: dict[ColumnKey, Column] = {}
    for name, number, some_missing, words in described:
        if (name, number) not in (FORMS, TTLS):
            check_name(name)
        kind = Kind(number)
        values = array(DATA[kind])
        present = array(BOOLEAN) if some_missing else None
        _check_words(words, "words")
        if name == FORM:
            _check(all(is_form(json.loads(word)) for word in words), "forms")
        if kind is Kind.STRING:
            _check_places(values if present is None else values[present], len(words), "words")
        columns[name, kind] = Column(kind, values, present, words)
    _check(place == len(data) and len(columns) == len(described), "length")
    return EventBatch(columns, publishers, publisher, sequence, published_at)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")


def _check_words(words: object, what: str) -> None:
    _check(type(words) is tuple and all(type(word) is str for word in words), what)


def _check_places(places: npt.NDArray[np.generic], count: int, what: str) -> None:
    _check(not len(places) or (int(places.min()) >= 0 and int(places.max()) < count), what)
