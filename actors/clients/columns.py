"""Tables at the edge: pandas, Arrow and columns of Python or numpy values, converted to batches and back.

Rule: a null is a missing value, and so is NaN. Timestamps become nanoseconds UTC; dates are midnight UTC. A
column of an unknown kind is rejected by name, and nothing of its table is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...protocol.batch import (
    ATTRIBUTES_MAX,
    EVENT_BYTES_MAX,
    Column,
    ColumnKey,
    EventBatch,
    batch_from_columns,
    batch_of,
    check_name,
)
from ...protocol.errors import EventError
from ...protocol.values import Kind


def batch_from(data: Any) -> EventBatch:
    """Return tabular data as a batch that has no publisher yet.

    Parameters
    ----------
    data
        A pandas DataFrame, an Arrow table or record batch, a mapping from attribute name to column (a list or a
        numpy array), a sequence of mappings (one per event), or an :class:`EventBatch`.

    Raises
    ------
    EventError
        If a column has an invalid name or no known kind, or columns differ in length.
    """
    if isinstance(data, EventBatch):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return batch_of(data)
    table = _arrow(data)
    if table.num_columns > ATTRIBUTES_MAX:
        raise EventError(f"{table.num_columns} columns, the limit is {ATTRIBUTES_MAX} attributes")
    columns: dict[ColumnKey, Column] = {}
    for given_name, chunked in zip(table.column_names, table.columns, strict=True):
        name = check_name(given_name)
        if table.column_names.count(name) > 1:
            raise EventError(f"column {name!r} occurs more than once")
        column = _column(name, chunked)
        if column is not None:
            columns[name, column.kind] = column
    return batch_from_columns(columns, table.num_rows)


def _arrow(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            plain = [(check_name(name), values) for name, values in data.items()]
            return pa.table({name: _array(name, values) for name, values in plain})
        if type(data).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
    except EventError:
        raise
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        raise EventError(f"the columns cannot be read as a table: {error}") from None
    raise EventError(
        f"a {type(data).__name__} is not a table: give a DataFrame, an Arrow table, a mapping of columns, "
        "or a list of mappings"
    )


def _array(name: str, values: Any) -> Any:
    """Return a column of Python or numpy values as an Arrow array."""
    if isinstance(values, str | bytes):
        raise EventError(f"column {name!r} is one {type(values).__name__}: a column has one value per event")
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise EventError(f"column {name!r}: {error}") from None


def _column(name: str, chunked: pa.ChunkedArray) -> Column | None:
    """Return an Arrow column as a column of a batch, or None if every value is missing."""
    array = chunked.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no chunks
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], chunked.type)
    kind = array.type
    if pa.types.is_dictionary(kind) and not _is_string(kind.value_type):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind) or array.null_count == len(array):
        return None
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    present = None if missing is None else ~missing
    if pa.types.is_boolean(kind):
        return Column(Kind.BOOLEAN, _numpy(array, False, np.bool_), present)
    if pa.types.is_integer(kind):
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise EventError(f"column {name!r}: {error}") from None
        return Column(Kind.INTEGER, _numpy(array, 0, np.int64), present)
    if pa.types.is_floating(kind):
        return _floats(_numpy(array.cast(pa.float64()), float("nan"), np.float64))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            array = array.cast(pa.timestamp("ns")).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise EventError(f"column {name!r}: outside the years 1678 to 2262: {error}") from None
        return Column(Kind.TIMESTAMP, _numpy(array, 0, np.int64), present)
    if pa.types.is_dictionary(kind):
        return _strings(name, array, present)
    if _is_string(kind):
        return _strings(name, array.dictionary_encode(), present)
    raise EventError(
        f"column {name!r} is of type {kind}: use booleans, integers, floats, strings or timestamps"
    )


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _numpy(array: pa.Array, fill: Any, dtype: Any) -> Any:
    if array.null_count:
        array = array.fill_null(fill)
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), dtype)


def _floats(data: Any) -> Column | None:
    missing = np.isnan(data)
    if not missing.any():
        return Column(Kind.FLOAT, data)
    return None if missing.all() else Column(Kind.FLOAT, data, ~missing)


def _strings(name: str, array: pa.DictionaryArray, present: Any) -> Column:
    words = tuple(array.dictionary.to_pylist())
    if any(word is not None and len(word) > EVENT_BYTES_MAX for word in words):
        raise EventError(f"column {name!r} has a string of more than {EVENT_BYTES_MAX} characters")
    codes = _numpy(array.indices, 0, np.int32)
    if None in words:  # a null inside the dictionary is a missing value too
        null = codes == words.index(None)
        present = ~null if present is None else present & ~null
        words = tuple("" if word is None else word for word in words)
    if len(set(words)) != len(words):
        codes, words = _distinct(codes, words)
    return Column(Kind.STRING, codes, present, words)


def _distinct(codes: Any, words: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    places: dict[str, int] = {}
    mapping = np.array([places.setdefault(word, len(places)) for word in words], np.int32)
    return mapping[codes], tuple(places)
