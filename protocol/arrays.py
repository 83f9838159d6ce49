"""The arrays of a batch in a fixed order, for code that serialises batches for other processes or for stores.

The order is: sequences, times and publishers, then for each column its data and, if some values are missing, its
presence mask. Numbers are little-endian, the byte order of the machines that brokers run on.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .batch import EventBatch

INT32: Final = np.dtype("<i4")
INT64: Final = np.dtype("<i8")
FLOAT64: Final = np.dtype("<f8")
BOOLEAN: Final = np.dtype("?")
DATA: Final = (BOOLEAN, INT64, FLOAT64, INT32, INT64, BOOLEAN)
"""The type of each `Kind`, indexed by kind: hashing an enumeration's member is slow."""

Described: TypeAlias = tuple[str, int, bool, tuple[str, ...]]
"""A column: its name, its kind, whether some values are missing, its words."""
Misfit: TypeAlias = tuple[npt.NDArray[np.generic], np.dtype[np.generic]]
"""An array, and the type that it should have."""


def arrays_of(batch: EventBatch) -> tuple[list[Described], list[npt.NDArray[np.generic]], Misfit | None]:
    """Return the columns of a batch, its arrays, and the first array that has the wrong type or length."""
    sequence = batch.sequence
    shape = (len(sequence),)
    arrays: list[npt.NDArray[np.generic]] = [sequence, batch.published_at, batch.publisher]
    types: list[np.dtype[np.generic]] = [INT64, FLOAT64, INT32]
    columns = []
    for (name, kind), column in batch.columns.items():
        arrays.append(column.data)
        types.append(DATA[kind])
        present = column.present
        if present is not None:
            arrays.append(present)
            types.append(BOOLEAN)
        columns.append((name, int(kind), present is not None, column.words))
    for array, dtype in zip(arrays, types, strict=True):
        if array.dtype != dtype or array.shape != shape:
            return columns, arrays, (array, dtype)
    return columns, arrays, None
