"""Tables at the edge: pandas, Arrow and columns of Python or numpy values, converted to batches and back.

Rules
-----
* A null is a missing value, and so is NaN. Timestamps become nanoseconds UTC; dates are midnight UTC.
* A column of an unknown kind is rejected by name, and a value that no event can have by column and row. Then
  nothing of the table is published.
* Columns of lists, structs and maps make nested events.
* A named index of a DataFrame is a column: it is the key of a group, or the time of a row. One without a name
  numbers rows, and is dropped.
* Every object with the Arrow PyCapsule interface is a table: of Polars, DuckDB, pandas, or a library yet to come.

Source: "The Arrow PyCapsule Interface", Arrow columnar format documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...protocol.batch import (
    ATTRIBUTES_MAX,
    EVENT_BYTES_MAX,
    Column,
    ColumnKey,
    EventBatch,
    accepted_of,
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
        A pandas DataFrame, an Arrow table or record batch, any other object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__`` (a Polars frame, a DuckDB relation, a reader of record batches, which is read to its
        end), a mapping from attribute name to column (a list or a numpy array), a sequence of mappings (one per
        event), or an :class:`EventBatch`.

    Raises
    ------
    EventError
        If a column has an invalid name or no known kind, a value that no event can have, or columns differ in
        length.
    """
    if isinstance(data, EventBatch):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return batch_of(data)
    table = _arrow(data)
    check_columns(table.column_names)
    if table.num_columns > ATTRIBUTES_MAX or any(is_nested(each.type) for each in table.schema):
        return batch_of(_rows(table))
    columns: dict[ColumnKey, Column] = {}
    for name, chunked in zip(table.column_names, table.columns, strict=True):
        column = _column(check_name(name), chunked)
        if column is not None:
            columns[name, column.kind] = column
    return batch_from_columns(columns, table.num_rows)


class ValueRefused(EventError):
    """A value of a table cannot be a value of an event.

    Attributes
    ----------
    column, row
        Its place; the first row is 0.
    why
        What is wrong with it.
    """

    def __init__(self, column: str, row: int, why: str) -> None:
        super().__init__(f"column {column!r}, row {row}: {why}")
        self.column, self.row, self.why = column, row, why

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueRefused, (self.column, self.row, self.why)


def check_columns(names: Sequence[Any]) -> None:
    """Check the names of a table's columns.

    Raises
    ------
    EventError
        If a name is invalid, or occurs twice.
    """
    seen = set()
    for name in map(check_name, names):
        if name in seen:
            raise EventError(f"column {name!r} occurs more than once")
        seen.add(name)


def accepted_from(data: Any) -> tuple[EventBatch, dict[int, EventError]]:
    """Return the valid events of tabular data as a batch, and for each other row, by its place, what is wrong with it.

    Raises
    ------
    EventError
        If the data is no table, or a column has an invalid name.
    """
    if isinstance(data, EventBatch):
        return data, {}
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return accepted_of(data)
    table = _arrow(data)
    check_columns(table.column_names)
    try:
        return batch_from(table), {}
    except EventError:
        return accepted_of(_rows(table))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as events."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    except (
        pa.ArrowException,
        KeyError,
        OverflowError,
        ValueError,
    ) as error:  # a time that Python does not have, say
        raise EventError(f"the table cannot be read row by row: {error}") from None
    return rows


def _arrow(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            plain = [(check_name(name), values) for name, values in data.items()]
            return pa.table({name: _array(name, values) for name, values in plain})
        if _is_of(data, "pandas", "DataFrame"):
            return _with_index(data)
        if _is_of(data, "pandas", "Series"):
            raise EventError("a pandas Series is one column without a name: give series.to_frame(name)")
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except EventError:
        raise
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        raise EventError(f"the columns cannot be read as a table: {error}") from None
    raise EventError(
        f"a {type(data).__name__} is not a table: give a DataFrame (pandas, Polars), an Arrow table or another "
        "object with __arrow_c_stream__, a mapping of columns, or a list of mappings"
    )


def _is_of(data: Any, package: str, name: str) -> bool:
    """Return whether an object is of a class of a package, or of a class derived from it, without importing it."""
    return any(
        each.__name__ == name and each.__module__.partition(".")[0] == package for each in type(data).__mro__
    )


def _with_index(frame: Any) -> pa.Table:
    """Return a DataFrame of pandas as a table; the named levels of its index are the first columns."""
    levels = {}
    for level, name in enumerate(frame.index.names):
        if name is None:
            continue
        if name in levels or name in frame.columns:
            raise EventError(
                f"index {name!r} has the name of a column: rename one, or drop the index with reset_index(drop=True)"
            )
        levels[check_name(name)] = frame.index.get_level_values(level)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for place, (name, values) in enumerate(levels.items()):
        table = table.add_column(place, name, pa.chunked_array([_array(name, values)]))
    return table


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
    wanted = kind_of_type(name, kind)
    if wanted is Kind.INTEGER:
        array = _cast(name, array, pa.int64(), "has more than 64 bits")
        return Column(Kind.INTEGER, _numpy(array, 0, np.int64), present)
    if wanted is Kind.FLOAT:
        return _floats(_numpy(array.cast(pa.float64()), float("nan"), np.float64))
    if wanted is Kind.TIMESTAMP:
        array = _cast(name, array, pa.timestamp("ns"), "is outside the years 1678 to 2262").cast(pa.int64())
        return Column(Kind.TIMESTAMP, _numpy(array, 0, np.int64), present)
    return _strings(name, array if pa.types.is_dictionary(kind) else array.dictionary_encode(), present)


def kind_of_type(name: str, kind: pa.DataType) -> Kind:
    """Return the kind of the values of a column of an Arrow type.

    Raises
    ------
    EventError
        If no event can have such values.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return Kind.BOOLEAN
    if pa.types.is_integer(kind):
        return Kind.INTEGER
    if pa.types.is_floating(kind):
        return Kind.FLOAT
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Kind.TIMESTAMP
    if _is_string(kind):
        return Kind.STRING
    if pa.types.is_null(kind):
        return Kind.NULL
    raise EventError(
        f"column {name!r} is of type {kind}: use booleans, integers, floats, strings or timestamps"
    )


def check_type(name: str, kind: pa.DataType) -> None:
    """Check that events can have the values of a column of an Arrow type, which may be nested.

    Raises
    ------
    EventError
        If not.
    """
    if pa.types.is_map(kind):
        if not _is_string(kind.key_type):
            raise EventError(f"column {name!r} is of type {kind}: use strings as keys")
        check_type(name, kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            check_type(f"{name}.{field.name}", field.type)
    elif _is_list(kind):
        check_type(name, kind.value_type)
    else:
        kind_of_type(name, kind)


def is_nested(kind: pa.DataType) -> bool:
    """Return whether the values of an Arrow type are nested."""
    return bool(pa.types.is_nested(kind))


def _is_list(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(test(kind) for test in tests)


def _cast(name: str, array: pa.Array, kind: pa.DataType, why: str) -> pa.Array:
    """Cast without loss; what cannot be cast is refused by its row."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        row = first_refused(array, lambda part: castable(part, kind))
        raise ValueRefused(name, row, f"{array[row].cast(pa.string()).as_py()} {why}") from None


def first_refused(array: pa.Array, accepted: Callable[[pa.Array], bool]) -> int:
    """Return the first row that is not accepted, of an array that is not accepted as a whole; by halving."""
    row = 0
    while len(array) > 1:
        half = len(array) // 2
        left = array.slice(0, half)
        if accepted(left):
            row += half
            left = array.slice(half)
        array = left
    return row


def castable(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether all values can be cast to a type without loss."""
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


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
    try:
        words = tuple(array.dictionary.to_pylist())
    except UnicodeDecodeError:  # Arrow does not check strings that others made
        cells = array.dictionary_decode().cast(pa.binary())
        row = first_refused(cells, lambda part: castable(part, pa.string()))
        raise ValueRefused(name, row, f"{cells[row].as_py()[:40]!r} is not UTF-8") from None
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
