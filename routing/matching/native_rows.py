"""The columns of the match index in the compiled kernel, `kernel.c`: the part that is written in Python.

Rules
-----
* The kernel stores clauses as columns of numbers, not as Python objects. It reads an interval of moderate numbers
  directly from the domain. Every other domain is described to it by :func:`_describe`, and stored as an object.
* Nothing is built before a batch needs it, so many columns can be added at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, ColumnKey, EventBatch
from ...protocol.values import Kind
from ..filters.clauses import Clause
from ..filters.domains import NO_STRINGS, Domain, Interval
from ..filters.intervals import Bound
from ..filters.spans import spans_of
from ..filters.strings import Strings
from .bits import Columns
from .matches import Matches
from .word_rows import is_everything, is_words

if TYPE_CHECKING:
    from types import ModuleType

_MISSING, _FALSE, _TRUE, _NULL = 1, 2, 4, 8
_NO_MATCHES: Final = Matches(np.zeros(0, np.intp), np.zeros(0, np.intp))
"""Those of most events alone at a broker in the middle."""


class NativeRows:
    """Columns of clauses in the compiled kernel; the interface is that of :class:`~.kernels.Rows`.

    Parameters
    ----------
    module
        The compiled module.
    """

    def __init__(self, module: ModuleType) -> None:
        self._kernel: Final = module.Kernel(_describe, _interval, NO_STRINGS)
        self._loose = False
        self._zeros: Columns = np.zeros(0, np.intp)

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes, including those of the clauses."""
        return int(self._kernel.nbytes)

    def reserve(self, columns: int) -> None:
        """Do nothing: the kernel adds a tile when one is full."""

    def add(self, column: int, clause: Clause, *, settled: bool = True) -> None:
        """Add a clause under a column; when not `settled`, :meth:`settle` must follow."""
        if not settled and not self._loose:
            self._kernel.loosen()
            self._loose = True
        self._kernel.add(column, clause.constraints)

    def settle(self) -> None:
        """Mark the unsettled clauses as settled; the next batch builds what it needs."""
        self._loose = False

    def remove(self, column: int) -> None:
        """Remove the clause of a column."""
        self._kernel.remove(column)

    def clause(self, column: int) -> Clause:
        """Return a column's clause with its constraints on attributes only."""
        return Clause(self._kernel.clause(column))

    def match(self, batch: EventBatch, owners: Columns | None) -> Matches:
        """Return the columns that match each event or, given `owners`, their owners without duplicates."""
        events, columns = len(batch.sequence), batch.columns
        plain = columns if type(columns) is dict else dict(columns)
        count = self._kernel.find(plain, events, owners, 0 if owners is None else len(owners))
        if events == 1 and not count:
            return _NO_MATCHES
        slots = np.empty(count, np.intp)
        if events == 1:
            self._kernel.take(None, slots)
            return Matches(self._same_rows(count), slots)
        rows = np.empty(count, np.intp)
        self._kernel.take(rows, slots)
        return Matches(rows, slots)

    def _same_rows(self, count: int) -> Columns:
        """Return the rows of the matches of one event: a view of one shared, read-only array of zeros."""
        if count > len(self._zeros):
            self._zeros = np.zeros(2 * count, np.intp)
            self._zeros.flags.writeable = False
        return self._zeros[:count]

    def match_groups(
        self, batch: EventBatch, groups: npt.NDArray[np.uint64], goal: np.uint64
    ) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the matching columns; `goal` is the OR of all groups."""
        out = np.zeros(len(batch), np.uint64)
        self._kernel.groups(_plain(batch.columns), len(batch), np.ascontiguousarray(groups), int(goal), out)
        return out

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that every row, toggle and posting list is that of these clauses."""
        for column, clause in expected.items():
            assert self.clause(column).constraints == clause.constraints, "a clause is another"
        self._kernel.check()


def _plain(columns: Mapping[ColumnKey, Column]) -> dict[ColumnKey, Column]:
    return columns if type(columns) is dict else dict(columns)


def _describe(
    domain: Domain,
) -> tuple[int, tuple[object, ...], tuple[object, ...], tuple[object, ...], object]:
    """Return a domain in the form that the kernel reads.

    Returns
    -------
    tuple
        Bits for missing, false, true and null; the first and last value of each span over integers, floats and
        timestamps; and for strings ``None`` for all, a tuple of words, or the set itself, whose ``test`` the kernel
        calls.
    """
    flags = _MISSING * domain.missing + _NULL * domain.null
    flags += _FALSE * (False in domain.booleans) + _TRUE * (True in domain.booleans)
    strings: Strings | tuple[str, ...] | None = domain.strings
    if is_everything(domain.strings):
        strings = None
    elif is_words(domain.strings):
        strings = tuple(str(interval.low) for interval in domain.strings.intervals)
    return (
        flags,
        _flat(domain.numbers, Kind.INTEGER),
        _flat(domain.numbers, Kind.FLOAT),
        _flat(domain.timestamps, Kind.TIMESTAMP),
        strings,
    )


def _flat(intervals: tuple[Interval, ...], kind: Kind) -> tuple[object, ...]:
    return tuple(value for span in spans_of(intervals, kind) for value in span) if intervals else ()


def _interval(low: Bound | None, high: Bound | None, low_open: bool, high_open: bool) -> Domain:
    return Domain(numbers=(Interval(low, high, low_open, high_open),))
