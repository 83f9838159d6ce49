"""Events as Arrow record batches: which attribute is which column, and the columns themselves.

Rules
-----
* A row is an event. `_publisher`, `_sequence` and `_published_at` come first; then a column for each attribute, under
  its name. Columns are made of columns: no event becomes a mapping on the way.
* A column has one type. Integers and floats of one attribute share a column of floats, as far as a float holds the
  integer exactly. Any other value whose type is not that of its column goes to a column of its own,
  ``price:string``, and is counted.
* A layout only grows: columns are added, and one of integers may become one of floats, unless it has had an integer
  that a float cannot hold: then it stays, and floats go to ``price:float``. So each earlier batch can be cast to the
  schema of a later one.
* A fixed layout does not grow: what has no column in it is in `_more`.
* A lasting layout keeps the types of its columns, as tables need that all readers read: floats of a column of integers
  are in `price:float`. Its names have no spaces, and differ by more than their case.
* A null is a missing value.
* Objects are attributes with dotted names. What does not fit into columns is in `_form`, as JSON
  (:mod:`rayvous.protocol.documents`).
* Attributes, and values of other types, beyond the most columns of a layout are in `_more`, one JSON object a row.

Source: "Parquet Logical Type Definitions" and the Arrow columnar format, for the types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...protocol.batch import Column, ColumnKey, EventBatch, Mask
from ...protocol.gathering import FORMS, UNSEEN
from ...protocol.json_events import plain_value
from ...protocol.published import bounded
from ...protocol.values import Kind

Unit: TypeAlias = Literal["us", "ns"]

PUBLISHER: Final = "_publisher"
SEQUENCE: Final = "_sequence"
PUBLISHED_AT: Final = "_published_at"
FORM_COLUMN: Final = "_form"
MORE: Final = "_more"
DELIVERIES: Final = "_deliveries"
"""Of a worker of a group, and last: how often each event was given, with this time."""
OWN: Final = (PUBLISHER, SEQUENCE, PUBLISHED_AT, FORM_COLUMN, MORE, DELIVERIES)
"""The columns that are no attributes. An attribute of such a name has a column under another one."""
COLUMNS_MAX: Final = 1_024
"""How many columns of attributes a layout has."""
EXACT_MAX: Final = 2**53
"""The largest integer up to which a float holds every integer."""
ATTRIBUTE, KIND, LARGE = b"rayvous.attribute", b"rayvous.kind", b"rayvous.large"
"""What the metadata of a column says of it."""


class Layout:
    """Which attribute is in which column; it grows with the batches that it is given.

    Parameters
    ----------
    unit
        The unit of timestamps: ``"ns"`` is exact; ``"us"`` truncates, and is read by everything that reads Parquet.
    columns_max
        How many columns of attributes there are at most.
    lasting
        Whether columns keep their types, and have names for every reader.

    Attributes
    ----------
    conflicts
        How many values went to a column of their own because of their type, by column.
    """

    def __init__(self, unit: Unit = "ns", columns_max: int = COLUMNS_MAX, *, lasting: bool = False) -> None:
        self._unit, self._columns_max, self._lasting = unit, columns_max, lasting
        self._columns: dict[str, ColumnKey] = {}  # by name of the column
        self._main: dict[str, str] = {}  # the first column of each attribute
        self._apart: dict[ColumnKey, str] = {}  # the columns of values of other types
        self._large: set[str] = set()  # columns of integers that have had one beyond EXACT_MAX
        self.conflicts: dict[str, int] = {}

    @classmethod
    def of_schema(
        cls, schema: pa.Schema, unit: Unit = "ns", columns_max: int = COLUMNS_MAX, *, lasting: bool = False
    ) -> Layout:
        """Return the layout that made a schema, for more of the same; columns of others are left out."""
        made = cls(unit, columns_max, lasting=lasting)
        for field in schema:
            said = field.metadata or {}
            if ATTRIBUTE in said and KIND in said:
                key = said[ATTRIBUTE].decode(), Kind[said[KIND].decode()]
                made._columns[field.name] = key
                if LARGE in said:
                    made._large.add(field.name)
                if key[0] in made._main:
                    made._apart[key] = field.name
                else:
                    made._main[key[0]] = field.name
        return made

    @classmethod
    def fixed(cls, columns: Sequence[tuple[str, str]], unit: Unit = "ns") -> Layout:
        """Return a layout that has these attributes as its columns, by name and kind, and never others."""
        made = cls(unit, len(columns))
        for attribute, kind in columns:
            made._add(attribute, Kind[kind.upper()], attribute)
        made._large |= {
            name for name, (_, kind) in made._columns.items() if kind is Kind.INTEGER
        }  # they stay
        return made

    def record_batch(self, batch: EventBatch) -> pa.RecordBatch:
        """Return the events as a `pyarrow.RecordBatch` in this layout."""
        placed, more = self._place(batch)
        size = len(batch)
        publishers = pa.array(batch.publishers, pa.string())
        own = [
            pa.DictionaryArray.from_arrays(pa.array(batch.publisher), publishers).dictionary_decode(),
            pa.array(batch.sequence),
            self._times(np.rint(bounded(batch.published_at) * 1e6).astype(np.int64) * 1_000, None),
        ]
        fields = [pa.field(PUBLISHER, own[0].type), pa.field(SEQUENCE, own[1].type)]
        fields.append(pa.field(PUBLISHED_AT, own[2].type))
        arrays = own
        for name, (attribute, kind) in self._columns.items():
            arrays.append(self._array(kind, placed.get(name, ()), size))
            said = {ATTRIBUTE: attribute.encode(), KIND: kind.name.encode()}
            if name in self._large:
                said[LARGE] = b"1"
            fields.append(pa.field(name, arrays[-1].type, metadata=said))
        for name, texts in ((FORM_COLUMN, self._forms(batch)), (MORE, _json_rows(more, size))):
            arrays.append(texts)
            fields.append(pa.field(name, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    # Which column.

    def _place(self, batch: EventBatch) -> tuple[dict[str, list[Column]], list[tuple[str, Column]]]:
        """Return the columns of a batch by the name of their column here, and the attributes that have none."""
        placed: dict[str, list[Column]] = {}
        more: list[tuple[str, Column]] = []
        for (attribute, kind), column in batch.columns.items():
            if attribute in UNSEEN or kind is Kind.NULL or not _count(column):
                continue
            main = self._main.get(attribute) or self._add(attribute, kind, attribute)
            if main is None:
                more.append((attribute, column))
                continue
            here = self._columns[main][1]
            if here is Kind.INTEGER and kind is Kind.FLOAT and main not in self._large:
                self._columns[main] = attribute, Kind.FLOAT
                here = Kind.FLOAT
            if here is kind or (here is Kind.FLOAT and kind is Kind.INTEGER):
                placed.setdefault(main, []).append(column)
            elif not self._put_apart(attribute, column, placed):
                more.append((attribute, column))
        self._leave_exact(placed, more)
        return placed, more

    def _leave_exact(self, placed: dict[str, list[Column]], more: list[tuple[str, Column]]) -> None:
        """Leave in columns of floats only integers that a float holds; note which columns of integers had others."""
        for name in list(placed):
            attribute, kind = self._columns[name]
            for i, column in enumerate(placed[name]):
                if column.kind is not Kind.INTEGER or name in self._large:
                    continue
                # Not by abs, which has no value for the smallest integer.
                inside = (column.data >= -EXACT_MAX) & (column.data <= EXACT_MAX)
                here = np.ones(len(column.data), np.bool_) if column.present is None else column.present
                if (inside | ~here).all():
                    continue
                if kind is Kind.INTEGER:
                    self._large.add(name)
                    continue
                placed[name][i] = Column(Kind.INTEGER, column.data, here & inside)
                large = Column(Kind.INTEGER, column.data, here & ~inside)
                if not self._put_apart(attribute, large, placed):
                    more.append((attribute, large))

    def _put_apart(self, attribute: str, column: Column, placed: dict[str, list[Column]]) -> bool:
        """Put values into the column of their own; return whether there is room for one."""
        key = attribute, column.kind
        name = self._apart.get(key) or self._add(*key, f"{attribute}:{column.kind.name.lower()}")
        if name is None:
            return False
        placed.setdefault(name, []).append(column)
        self.conflicts[name] = self.conflicts.get(name, 0) + _count(column)
        return True

    def _add(self, attribute: str, kind: Kind, name: str) -> str | None:
        if len(self._columns) >= self._columns_max:
            return None
        taken = {*OWN, *self._columns}
        if self._lasting:
            name, taken = re.sub(r"[ ,;{}()\n\t=]", "_", name), {each.lower() for each in taken}
        while (name.lower() if self._lasting else name) in taken:
            name += f":{kind.name.lower()}"
        self._columns[name] = attribute, kind
        if self._lasting and kind is Kind.INTEGER:
            self._large.add(name)
        if attribute in self._main:
            self._apart[attribute, kind] = name
        else:
            self._main[attribute] = name
        return name

    # Its values.

    def _array(self, kind: Kind, columns: Sequence[Column], size: int) -> pa.Array:
        if kind is Kind.FLOAT:
            columns = [
                Column(kind, each.data.astype(np.float64), each.present) if each.kind is not kind else each
                for each in columns
            ]
        if not columns:
            return pa.nulls(size, self._type(kind))
        column = columns[0] if len(columns) == 1 else _joined(columns)
        absent = None if column.present is None else ~column.present
        if kind is Kind.STRING:
            codes = pa.array(column.data, mask=absent)
            words = pa.array(column.words, pa.string())
            return pa.DictionaryArray.from_arrays(codes, words).dictionary_decode()
        if kind is Kind.TIMESTAMP:
            return self._times(column.data, absent)
        return pa.array(column.data, self._type(kind), mask=absent)

    def _type(self, kind: Kind) -> pa.DataType:
        if kind is Kind.TIMESTAMP:
            return pa.timestamp(self._unit, "UTC")
        return {Kind.BOOLEAN: pa.bool_(), Kind.INTEGER: pa.int64(), Kind.FLOAT: pa.float64()}.get(
            kind, pa.string()
        )

    def _times(self, nanoseconds: npt.NDArray[np.int64], absent: Mask | None) -> pa.Array:
        counts = nanoseconds if self._unit == "ns" else nanoseconds // 1_000
        return pa.array(counts, pa.int64(), mask=absent).cast(self._type(Kind.TIMESTAMP))

    def _forms(self, batch: EventBatch) -> pa.Array:
        form = batch.columns.get(FORMS)
        return self._array(Kind.STRING, () if form is None else (form,), len(batch))


def _count(column: Column) -> int:
    return len(column.data) if column.present is None else int(column.present.sum())


def _joined(columns: Sequence[Column]) -> Column:
    """Return columns of one kind of which at most one has a value in a row as one column."""
    data = np.zeros_like(columns[0].data)
    there = np.zeros(len(data), np.bool_)
    for each in columns:
        here = np.ones(len(data), np.bool_) if each.present is None else each.present
        data = np.where(here, each.data, data)
        there |= here
    return Column(columns[0].kind, data, there)


def _json_rows(more: Sequence[tuple[str, Column]], size: int) -> pa.Array:
    """Return what has no column, as a JSON object a row; null where there is nothing."""
    if not more:
        return pa.nulls(size, pa.string())
    rows: list[dict[str, object] | None] = [None] * size
    for attribute, column in more:
        for row in range(size):
            value = column.value(row)
            if value is not None:
                rows[row] = (rows[row] or {}) | {attribute: plain_value(value)}
    return pa.array([None if row is None else json.dumps(row) for row in rows], pa.string())
