"""Rows of the match index for one attribute's numbers or timestamps: buckets of values, made exact by toggles.

Rules
-----
* The range of values is divided into buckets. A bucket's row has a set bit for every clause that rejects *all* of its
  values.
* A bound inside a bucket, not on its edge, is a *toggle* of the bucket: a first value (the clause rejects the
  values before it) or a last value (the clause rejects the values after it). Both are kept sorted. So the clauses
  that reject a value in addition to the row are one contiguous range of the bucket's toggles: the first values
  after it, then the last values before it. No value is compared with the bounds one by one.
* A clause of several spans (an IN list) has toggles only at the outer ends within a bucket. A gap that lies
  completely inside one bucket is stored separately and compared. Where the bounds are bucket edges there are no
  toggles.
* The buckets are consecutive in one array of first values and one of last values, padded with the bucket's own
  ends. So one binary search finds the bucket and the place in it, for a whole batch at once.
* Edges are quantiles of the bounds (all of them, while they are few). They are chosen again, and all rows
  rebuilt, when the number of toggles added since exceeds a quarter of the bounds; or a 64th of the bounds, if the
  room of the fullest bucket, which all buckets share, is out of proportion. So an insertion has constant
  amortised cost, wherever the new bounds are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.values import Kind
from ..filters.spans import EXTENT, Span, after
from .bits import Columns, Words, bit_of, clear_column, set_column, widened

_TABLE_BYTES: Final = 3_400_000
_BUCKETS_MIN: Final = 128
_BUCKETS_MAX: Final = 1024
_SORTED_FROM: Final = 32
"""With at least this many values per search, sorting them first is faster: neighbours share the cache."""
_ABSENT, _SINGLE, _MULTIPLE, _NEVER = range(4)

Values = npt.NDArray[Any]
Toggles = npt.NDArray[np.int32]


class BucketPlace(NamedTuple):
    """The positions of a batch's values.

    Attributes
    ----------
    rows
        One row of the table per event.
    starts, ends
        The range of `toggles` of each event: columns that reject it in addition to its row; ``None`` for none.
    toggles
        The columns of all ranges.
    gaps
        (event, column) pairs that reject in addition to these.
    """

    rows: Columns
    starts: Columns | None = None
    ends: Columns | None = None
    toggles: Toggles | None = None
    gaps: Sequence[tuple[int, int]] = ()


class NumberRows:
    """The rows of one attribute and one kind of column (integer, float or timestamp).

    Parameters
    ----------
    kind
        The kind of column.
    words
        Words per row.
    """

    def __init__(self, kind: Kind, words: int) -> None:
        self.kind = kind
        self.least, self.greatest = EXTENT[kind]
        self._dtype: type[np.float64] | type[np.int64] = np.float64 if kind is Kind.FLOAT else np.int64
        self._state = np.zeros(words * 64, np.uint8)
        self._first: Values = np.zeros(words * 64, self._dtype)
        self._last: Values = np.zeros(words * 64, self._dtype)
        self._multiple: dict[int, tuple[Span, ...]] = {}
        self._bounds = 0
        self._loose = 0
        self._lay_out(words, [self.least], 0)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        arrays = (self.bits, self._firsts, self._lasts, self._toggles, self._state, self._first, self._last)
        return sum(array.nbytes for array in arrays)

    # changes

    def widen(self, words: int) -> None:
        """Make room for columns up to ``words * 64``."""
        self.bits: Words = widened(self.bits, words)
        self._state, self._first, self._last = (
            widened(array, words * 64) for array in (self._state, self._first, self._last)
        )

    def record(self, column: int, spans: Sequence[Span]) -> None:
        """Record a clause's spans without placing them; :meth:`rebuild` must follow before anything else."""
        if len(spans) == 1:
            self._state[column] = _SINGLE
            self._first[column], self._last[column] = spans[0]
        elif spans:
            self._state[column] = _MULTIPLE
            self._multiple[column] = tuple(spans)
        else:
            self._state[column] = _NEVER
        self._bounds += 2 * len(spans)

    def add(self, column: int, spans: Sequence[Span]) -> None:
        """Add a clause that accepts these values (disjoint spans in rising order) and rejects all others."""
        self.record(column, spans)
        if self._is_due():
            self.rebuild()
        else:
            self._place(column, spans)

    def remove(self, column: int) -> None:
        """Remove a clause."""
        spans = self._spans(column)
        for bucket in sorted({self._bucket(value) for span in spans for value in span}):
            self._drop_toggles(bucket, column)
        clear_column(self.bits, column)
        self._state[column] = _ABSENT
        self._first[column] = self._last[column] = 0
        self._multiple.pop(column, None)
        self._bounds -= 2 * len(spans)

    def _spans(self, column: int) -> Sequence[Span]:
        if self._state[column] == _SINGLE:
            return ((self._first[column].item(), self._last[column].item()),)
        return self._multiple.get(column, ())

    def _bucket(self, value: float) -> int:
        return bisect_right(self._edges, value) - 1

    def _upper(self, bucket: int) -> float:
        """Return the last value of a bucket."""
        return self._uppers[bucket]

    def _place(self, column: int, spans: Sequence[Span]) -> None:
        """Set the bits of one clause and add its toggles."""
        free = 0  # the first bucket that no span has reached so far
        before: float | None = None
        bucket_before = -1
        for first, last in spans:
            bucket, bucket_last = self._bucket(first), self._bucket(last)
            set_column(self.bits, free, bucket, column)
            if before is not None and bucket == bucket_before:
                self._gaps.setdefault(bucket, []).append((before, first, column))
            else:
                if before is not None:
                    self._toggle_last(bucket_before, before, column)
                self._toggle_first(bucket, first, column)
            before, bucket_before, free = last, bucket_last, bucket_last + 1
        if before is not None:
            self._toggle_last(bucket_before, before, column)
        set_column(self.bits, free, len(self._edges), column)

    def _toggle_first(self, bucket: int, value: float, column: int) -> None:
        if value == self._edges[bucket]:
            return
        count = self._first_counts[bucket]
        if count + 1 >= self._room:  # one pad always stays, see locate
            self._make_room(2 * self._room + 2)
        begin = self._room - count
        line, columns = self._firsts[bucket], self._toggles[bucket]
        at = bisect_left(line, value, begin, self._room)
        line[begin - 1 : at - 1] = line[begin:at].copy()
        columns[begin - 1 : at - 1] = columns[begin:at].copy()
        line[at - 1], columns[at - 1] = value, column
        self._first_counts[bucket] += 1
        self._loose += 1

    def _toggle_last(self, bucket: int, value: float, column: int) -> None:
        if value == self._upper(bucket):
            return
        count = self._last_counts[bucket]
        if count + 1 >= self._room:
            self._make_room(2 * self._room + 2)
        line, columns = self._lasts[bucket], self._toggles[bucket, self._room :]
        at = bisect_left(line, value, 0, count)
        line[at + 1 : count + 1] = line[at:count].copy()
        columns[at + 1 : count + 1] = columns[at:count].copy()
        line[at], columns[at] = value, column
        self._last_counts[bucket] += 1
        self._loose += 1

    def _drop_toggles(self, bucket: int, column: int) -> None:
        """Remove all toggles and gaps of a column from one bucket."""
        room, count = self._room, self._first_counts[bucket]
        line, columns = self._firsts[bucket], self._toggles[bucket]
        for at in (np.flatnonzero(columns[room - count : room] == column) + (room - count)).tolist():
            begin = room - self._first_counts[bucket]
            line[begin + 1 : at + 1] = line[begin:at].copy()
            columns[begin + 1 : at + 1] = columns[begin:at].copy()
            line[begin], columns[begin] = self._edges[bucket], 0
            self._first_counts[bucket] -= 1
        line, columns = self._lasts[bucket], columns[room:]
        for at in np.flatnonzero(columns[: self._last_counts[bucket]] == column).tolist():
            end = self._last_counts[bucket] - 1
            line[at:end] = line[at + 1 : end + 1].copy()
            columns[at:end] = columns[at + 1 : end + 1].copy()
            line[end], columns[end] = self._upper(bucket), 0
            self._last_counts[bucket] -= 1
        if bucket in self._gaps:
            kept = [gap for gap in self._gaps[bucket] if gap[2] != column]
            if kept:
                self._gaps[bucket] = kept
            else:
                del self._gaps[bucket]

    # layout

    def _is_due(self) -> bool:
        """Return whether enough was added since the last layout to choose the edges again."""
        skewed = len(self._edges) * self._room > 2 * self._bounds + 4096
        return self._loose > 32 + self._bounds // (64 if skewed else 4)

    def _lay_out(self, words: int, edges: list[Any], room: int) -> None:
        """Reset to these edges, without bits and toggles."""
        buckets = len(edges)
        self._edges = edges
        starts = np.array(edges, self._dtype)
        ends = np.append(self._before(starts[1:]), np.array([self.greatest], self._dtype))
        self._uppers: list[float] = ends.tolist()
        self.bits = np.zeros((buckets, words), np.uint64)
        self._room = room + 1
        self._firsts: Values = np.repeat(starts[:, None], self._room, axis=1)
        self._lasts: Values = np.repeat(ends[:, None], self._room, axis=1)
        self._toggles: Toggles = np.zeros((buckets, 2 * self._room), np.int32)
        self._first_counts = [0] * buckets
        self._last_counts = [0] * buckets
        self._gaps: dict[int, list[tuple[float, float, int]]] = {}
        self._loose = 0

    def _before(self, values: Values) -> Values:
        return np.nextafter(values, -np.inf) if self.kind is Kind.FLOAT else values - 1

    def _make_room(self, room: int) -> None:
        """Give every bucket room for so many toggles of each type."""
        buckets, old = self._firsts.shape
        firsts = np.repeat(self._firsts[:, :1], room, axis=1)
        firsts[:, room - old :] = self._firsts
        lasts = np.repeat(np.array(self._uppers, self._dtype)[:, None], room, axis=1)
        lasts[:, :old] = self._lasts
        toggles = np.zeros((buckets, 2 * room), np.int32)
        toggles[:, room - old : room + old] = self._toggles
        self._firsts, self._lasts, self._toggles, self._room = firsts, lasts, toggles, room

    def rebuild(self) -> None:
        """Choose the edges from the bounds and rebuild every row."""
        words = self.bits.shape[1]
        single = np.flatnonzero(self._state == _SINGLE)
        first, last = self._first[single], self._last[single]
        edges = self._choose_edges(first, last, words)
        starts = np.array(edges, self._dtype)
        low = np.searchsorted(starts, first, "right") - 1
        high = np.searchsorted(starts, last, "right") - 1
        ends = np.append(self._before(starts[1:]), np.array([self.greatest], self._dtype))
        is_first, is_last = first != starts[low], last != ends[high]
        counts_first = np.bincount(low[is_first], minlength=len(edges))
        counts_last = np.bincount(high[is_last], minlength=len(edges))
        fullest = int(max(counts_first.max(), counts_last.max()))
        self._lay_out(words, edges, fullest + fullest // 8)
        self._flip_rows(single, low, high)
        self._fill(self._firsts, 0, single[is_first], first[is_first], low[is_first], counts_first)
        self._fill(self._lasts, self._room, single[is_last], last[is_last], high[is_last], counts_last)
        self._first_counts, self._last_counts = counts_first.tolist(), counts_last.tolist()
        for column in np.flatnonzero(self._state == _NEVER).tolist():
            set_column(self.bits, 0, len(edges), column)
        for column, spans in self._multiple.items():
            self._place(column, spans)
        self._loose = 0

    def _choose_edges(self, first: Values, last: Values, words: int) -> list[object]:
        """Return the buckets' first values: every bound when they are few, otherwise quantiles."""
        spans = [span for spans in self._multiple.values() for span in spans]
        more_first = np.array([span[0] for span in spans], self._dtype)
        more_last = np.array([after(s[1], self.kind) for s in spans if s[1] < self.greatest], self._dtype)
        last = last[last < self.greatest]
        with np.errstate(over="ignore"):  # the next value after the largest finite float is infinity
            follows = np.nextafter(last, np.inf) if self.kind is Kind.FLOAT else last + 1
        bounds = np.concatenate((first, follows, more_first, more_last))
        bounds = np.sort(bounds[bounds > self.least])
        buckets = min(_BUCKETS_MAX, max(_BUCKETS_MIN, _TABLE_BYTES // (words * 8)))
        distinct = np.unique(bounds)
        if len(distinct) >= buckets:
            distinct = np.unique(bounds[np.linspace(0, len(bounds) - 1, buckets - 1).astype(np.intp)])
        return [self.least, *distinct.tolist()]

    def _flip_rows(self, columns: Columns, low: Columns, high: Columns) -> None:
        """Set the bits of single spans: mark where each row differs from the previous one, then accumulate."""
        bytes_a_row = self.bits.shape[1] * 8
        flat = self.bits.view(np.uint8).reshape(-1)
        inner = high + 1 < len(self._edges)
        where, bits = columns >> 3, bit_of(columns)
        np.bitwise_xor.at(flat, where, bits)
        np.bitwise_xor.at(flat, low * bytes_a_row + where, bits)
        np.bitwise_xor.at(flat, (high[inner] + 1) * bytes_a_row + where[inner], bits[inner])
        for row in range(1, len(self._edges)):
            self.bits[row] ^= self.bits[row - 1]

    def _fill(
        self, lines: Values, offset: int, columns: Columns, values: Values, buckets: Columns, counts: Columns
    ) -> None:
        """Put the toggles of single spans into their buckets: first values right-aligned, last values left-aligned."""
        order = np.argsort(values, kind="stable")
        columns, values, buckets = columns[order], values[order], buckets[order]
        place = np.arange(len(order)) - (np.cumsum(counts) - counts)[buckets]
        if lines is self._firsts:
            place += self._room - counts[buckets]
        lines[buckets, place] = values
        self._toggles[buckets, offset + place] = columns

    # use

    def locate(self, values: Values) -> BucketPlace:
        """Return the position of each value; no value may be NaN."""
        # Every bucket's line of first values begins with a pad, its own first value. So the last entry that is not
        # greater than a value is in the value's bucket, whether it is a toggle or the pad.
        room = self._room
        order = np.argsort(values) if len(values) >= _SORTED_FROM else None
        found = _search(self._firsts.reshape(-1), values, order, "right")
        rows = (found - 1) // room
        gaps = self._gap_pairs(values, rows) if self._gaps else ()
        if room == 1:
            return BucketPlace(rows, gaps=gaps)
        base = rows * room
        ends = _search(self._lasts.reshape(-1), values, order, "left") + base + room
        return BucketPlace(rows, found + base, ends, self._toggles.reshape(-1), gaps)

    def _gap_pairs(self, values: Values, rows: Columns) -> list[tuple[int, int]]:
        gaps = self._gaps
        return [
            (event, column)
            for event, (value, row) in enumerate(zip(values.tolist(), rows.tolist(), strict=True))
            if row in gaps
            for before, first, column in gaps[row]
            if before < value < first
        ]

    def check(self, expected: dict[int, list[Span]]) -> None:
        """Assert that the rows and toggles are exactly those of these clauses."""
        found = {int(c): list(self._spans(int(c))) for c in np.flatnonzero(self._state)}
        assert found == expected, "recorded spans differ from the clauses'"
        assert self._edges == sorted(set(self._edges)) and self._edges[0] == self.least
        wanted = NumberRows(self.kind, self.bits.shape[1])
        wanted._lay_out(self.bits.shape[1], self._edges, self._room - 1)
        for column, spans in expected.items():
            wanted._place(column, spans)
        assert np.array_equal(wanted.bits, self.bits), "a row's bits differ from the clauses'"
        assert wanted._first_counts == self._first_counts and wanted._last_counts == self._last_counts
        wanted._make_room(max(self._room, wanted._room))
        self._make_room(wanted._room)
        assert np.array_equal(wanted._firsts, self._firsts) and np.array_equal(wanted._lasts, self._lasts)
        for mine, its in zip(self._toggle_sets(), wanted._toggle_sets(), strict=True):
            assert mine == its, "toggles differ from the clauses'"
        sort = {bucket: sorted(gaps) for bucket, gaps in self._gaps.items()}
        assert sort == {bucket: sorted(gaps) for bucket, gaps in wanted._gaps.items()}, "gaps differ"

    def _toggle_sets(self) -> list[tuple[set[tuple[float, int]], set[tuple[float, int]]]]:
        out = []
        for bucket, (firsts, lasts) in enumerate(zip(self._first_counts, self._last_counts, strict=True)):
            begin, room = self._room - firsts, self._room
            left = zip(
                self._firsts[bucket, begin:].tolist(), self._toggles[bucket, begin:room].tolist(), strict=True
            )
            right = zip(
                self._lasts[bucket, :lasts].tolist(),
                self._toggles[bucket, room : room + lasts].tolist(),
                strict=True,
            )
            out.append((set(left), set(right)))
        return out


def _search(lines: Values, values: Values, order: Columns | None, side: Literal["left", "right"]) -> Columns:
    """Return the insertion points of the values in sorted `lines`; `order` sorts the values first, if given."""
    if order is None:
        return np.searchsorted(lines, values, side)
    out = np.empty(len(values), np.intp)
    out[order] = np.searchsorted(lines, values[order], side)
    return out
