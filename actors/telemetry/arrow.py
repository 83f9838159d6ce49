"""Telemetry tables as Arrow: what the collector stores and what Spark reads.

Rules
-----
* The columns are those of :data:`~rayvous.protocol.telemetry.tables.TABLES`, in that order, whoever wrote the
  chunk.
* The schema version and revision are in the metadata of the table. Unit and meaning are in the metadata of each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...protocol.errors import InputError
from ...protocol.telemetry.tables import SCHEMA_REVISION, SCHEMA_VERSION, TABLES

VERSION_KEY: Final = b"rayvous.schema_version"
"""The key of the version in the metadata of a schema."""

REVISION_KEY: Final = b"rayvous.schema_revision"
"""The key of the revision beside it."""

FEW_ROWS: Final = 5_000
"""So many strings are turned into Arrow here, more by `pa.array`."""

_ARROW_TYPES: Final[dict[Any, Any]] = {
    np.int32: pa.int32(),
    np.int64: pa.int64(),
    np.float64: pa.float64(),
    str: pa.string(),
}


def arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of one telemetry table.

    Raises
    ------
    InputError
        If there is no table of that name.
    """
    if name not in TABLES:
        raise InputError(f"there is no telemetry table {name!r}; there are {', '.join(TABLES)}")
    columns = [
        pa.field(column, _ARROW_TYPES[told.kind], metadata={"unit": told.unit, "meaning": told.meaning})
        for column, told in TABLES[name].items()
    ]
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION), REVISION_KEY: str(SCHEMA_REVISION)})


def to_arrow(name: str, chunk: Mapping[str, Any]) -> pa.Table:
    """Turn one chunk of a telemetry table into an Arrow table.

    Parameters
    ----------
    name
        One of the tables of :data:`~rayvous.protocol.telemetry.tables.TABLES`.
    chunk
        ``{column: array of shape (rows,)}``; a string column is an array of Python strings. The order of the
        columns does not matter.

    Raises
    ------
    InputError
        If there is no such table, or a column is missing, unknown, of another length, or has values of another
        type.
    """
    schema = arrow_schema(name)
    missing = [column for column in schema.names if column not in chunk]
    unknown = [column for column in chunk if column not in schema.names]
    if missing or unknown:
        raise InputError(f"table {name!r}: columns missing: {missing}, unknown: {unknown}")
    lengths = {column: len(chunk[column]) for column in schema.names}
    if len(set(lengths.values())) > 1:
        raise InputError(f"table {name!r}: columns of different lengths: {lengths}")
    return pa.table([_array(name, field, chunk[field.name]) for field in schema], schema=schema)


def _array(name: str, field: pa.Field, values: Any) -> pa.Array:
    """Return a column as Arrow.

    Of what a host writes without `pa.array`: that imports pandas, for which a collector would wait at its first rows.
    For many strings it is the fastest way all the same.
    """
    kind = TABLES[name][field.name].kind
    if isinstance(values, np.ndarray) and kind is not str and values.dtype == kind:
        return _of_buffers(field.type, len(values), np.ascontiguousarray(values))
    if kind is str and len(values) <= FEW_ROWS and all(type(value) is str for value in values):
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        return _of_buffers(field.type, len(texts), ends, b"".join(texts))
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InputError(f"table {name!r}, column {field.name!r} ({field.type}): {error}") from error


def _of_buffers(kind: pa.DataType, rows: int, *buffers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, *map(pa.py_buffer, buffers)])
