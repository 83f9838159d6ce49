"""All rows of the match index for one attribute: for each value of an event, one row has the rejecting clauses.

Rules
-----
* An event has a value in at most one of an attribute's columns; NaN and no value are both *missing*.
* Four rows always exist: missing, false, true and null. Rows for numbers, timestamps and strings are built from all
  clauses that name the attribute when a batch first has a column of that kind, and are maintained from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column
from ...protocol.values import Kind
from ..filters.domains import Domain
from ..filters.spans import Span, spans_of
from .bits import Columns, Words, clear_column, set_column, set_columns, widened
from .number_rows import NumberRows, Toggles
from .word_rows import WordRows

_MISSING, _FALSE, _TRUE, _NULL = range(4)
_NO_ROWS: Final = np.zeros(0, np.intp)


class Choice(NamedTuple):
    """The rows that some events of a block select from one table.

    Attributes
    ----------
    table
        ``uint64[rows, words]``: a set bit for each clause that rejects.
    rows
        One row of the table per event.
    events
        The events of the block, in rising order; ``None`` for all of them.
    starts, ends, toggles
        Ranges of `toggles`, one per event: further columns that reject it. ``None`` when there are none.
    gaps
        (position in `rows`, column) pairs that reject as well.
    """

    table: Words
    rows: Columns
    events: Columns | None
    starts: Columns | None = None
    ends: Columns | None = None
    toggles: Toggles | None = None
    gaps: Sequence[tuple[int, int]] = ()


class AttributeRows:
    """The rows of one attribute.

    Parameters
    ----------
    words
        64-bit words per row.
    """

    def __init__(self, words: int) -> None:
        self.clauses = 0
        """The number of clauses that name the attribute."""
        self._fixed: Words = np.zeros((4, words), np.uint64)
        self._numbers: dict[Kind, NumberRows] = {}
        self._strings: WordRows | None = None

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        strings = 0 if self._strings is None else self._strings.nbytes
        return self._fixed.nbytes + strings + sum(rows.nbytes for rows in self._numbers.values())

    def has(self, kind: Kind) -> bool:
        """Return whether rows for a column of this kind exist."""
        if kind is Kind.STRING:
            return self._strings is not None
        return kind in (Kind.BOOLEAN, Kind.NULL) or kind in self._numbers

    def make(self, kind: Kind) -> None:
        """Create rows for a column of this kind, without any clause; :meth:`fill` must follow."""
        words = self._fixed.shape[1]
        if kind is Kind.STRING:
            self._strings = WordRows(words)
        else:
            self._numbers[kind] = NumberRows(kind, words)

    def fill(self, kind: Kind, column: int, domain: Domain) -> None:
        """Add a clause to the rows of one kind only; :meth:`settle` must follow."""
        if kind is Kind.STRING:
            assert self._strings is not None
            self._strings.add(column, domain.strings)
        else:
            self._numbers[kind].record(column, _spans(domain, kind))

    def widen(self, words: int) -> None:
        """Make room for columns up to ``words * 64``."""
        self._fixed = widened(self._fixed, words)
        for rows in self._numbers.values():
            rows.widen(words)
        if self._strings is not None:
            self._strings.widen(words)

    def add(self, column: int, domain: Domain, *, settled: bool = True) -> None:
        """Add a clause's domain; when not `settled`, :meth:`settle` must follow before the rows are used."""
        self.clauses += 1
        if domain.missing or domain.booleans or domain.null:
            for row, accepts in enumerate(_fixed(domain)):
                set_column(self._fixed, row, row + (not accepts), column)
        else:
            set_column(self._fixed, 0, 4, column)
        for kind, rows in self._numbers.items():
            (rows.add if settled else rows.record)(column, _spans(domain, kind))
        if self._strings is not None:
            self._strings.add(column, domain.strings)

    def settle(self) -> None:
        """Build the rows of clauses that were recorded but not placed."""
        for rows in self._numbers.values():
            rows.rebuild()

    def remove(self, column: int, domain: Domain) -> None:
        """Remove the domain of a clause."""
        self.clauses -= 1
        clear_column(self._fixed, column)
        for rows in self._numbers.values():
            rows.remove(column)
        if self._strings is not None:
            self._strings.remove(column, domain.strings)

    def choose(self, columns: Sequence[Column], begin: int, end: int) -> list[Choice]:
        """Return the rows that the events ``begin:end`` select; each event is in exactly one choice."""
        out = []
        rest: npt.NDArray[np.bool_] | None = (
            None  # the events without a value so far; None while these are all events
        )
        for column in columns:
            data = column.data[begin:end]
            present = None if column.present is None else column.present[begin:end]
            if column.kind is Kind.FLOAT:
                numbers = data == data
                present = numbers if present is None else present & numbers
            if present is None or present.all():
                return [self._choice(column, data, None)]
            events = present.nonzero()[0]
            if len(events):
                out.append(self._choice(column, data[events], events))
                rest = ~present if rest is None else rest & ~present
        absent = None if rest is None else rest.nonzero()[0]
        if absent is None or len(absent):
            size = end - begin if absent is None else len(absent)
            out.append(Choice(self._fixed, np.full(size, _MISSING, np.intp), absent))
        return out

    def _choice(self, column: Column, data: Any, events: Columns | None) -> Choice:
        if column.kind is Kind.BOOLEAN:
            return Choice(self._fixed, np.where(data, _TRUE, _FALSE), events)
        if column.kind is Kind.NULL:
            return Choice(self._fixed, np.full(len(data), _NULL, np.intp), events)
        if column.kind is Kind.STRING:
            assert self._strings is not None
            rows = self._strings.locate(data, column.words)
            return Choice(self._strings.bits, rows, events)
        numbers = self._numbers[column.kind]
        place = numbers.locate(data)
        return Choice(numbers.bits, place.rows, events, place.starts, place.ends, place.toggles, place.gaps)

    def check(self, expected: dict[int, Domain]) -> None:
        """Assert that all rows are exactly those of these clauses."""
        assert self.clauses == len(expected), "the number of clauses is wrong"
        for row in (_MISSING, _FALSE, _TRUE, _NULL):
            rejects = {column for column, domain in expected.items() if not _fixed(domain)[row]}
            assert set_columns(self._fixed[row]) == rejects, "a fixed row differs from the clauses'"
        for kind, rows in self._numbers.items():
            rows.check({column: _spans(domain, kind) for column, domain in expected.items()})
        if self._strings is not None:
            self._strings.check({column: domain.strings for column, domain in expected.items()})


def _fixed(domain: Domain) -> tuple[bool, bool, bool, bool]:
    """Return whether the domain accepts missing, false, true and null."""
    return domain.missing, False in domain.booleans, True in domain.booleans, domain.null


def _spans(domain: Domain, kind: Kind) -> list[Span]:
    return spans_of(domain.timestamps if kind is Kind.TIMESTAMP else domain.numbers, kind)
