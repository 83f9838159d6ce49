"""Rows of the match index for one attribute's strings: one row per word, built when an event first has it.

Rules
-----
* A word's row has a set bit for every clause that rejects the word. The base row, number 0, has a set bit for every
  clause that rejects most words: all clauses that name the attribute, except those that accept every string.
* A clause that accepts certain words only (``=``, IN) is on the posting list of each: a word's row is the base row
  without its posting list. Each other set of strings (intervals, patterns, everything but a word) is tested once per
  word, even if several clauses share it.
* A word without a posting list, with no other sets to test, needs no row: it uses the base row.
* Rows are cached for the most recently used words, as many as fit in :data:`ROW_BYTES_MAX`, and at least
  :data:`WORDS_MIN`. Insertion and removal update the cached rows; only this limit evicts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..filters.intervals import Interval
from ..filters.strings import Strings
from .bits import Columns, Words, clear_bits, clear_column, set_column, set_columns, widened

_ALL: Final = Interval()
WORDS_MIN: Final = 1024
"""Minimum number of cached rows, at any row length; no block of events may have more distinct words than this."""
ROW_BYTES_MAX: Final = 32 << 20
"""The maximum size of the cached rows of one attribute, in bytes."""


class WordRows:
    """The rows of one attribute's string column.

    Parameters
    ----------
    words
        64-bit words per row.
    """

    def __init__(self, words: int) -> None:
        self.bits: Words = np.zeros((1, words), np.uint64)
        self._postings: dict[str, set[int]] = {}
        self._sets: dict[Strings, tuple[Callable[[str], bool], set[int]]] = {}
        self._rows: dict[str, int] = {}  # the least recently used word is first
        self._free: list[int] = []

    @property
    def nbytes(self) -> int:
        """The size of the rows in bytes, without the posting lists, which are Python objects."""
        return self.bits.nbytes

    def widen(self, words: int) -> None:
        """Make room for columns up to ``words * 64``; with longer rows, fewer are cached."""
        kept = list(self._rows.items())[-_words_max(words) :]
        if len(kept) < len(self._rows):
            self.bits = self.bits[[0, *(row for _, row in kept)]]
            self._rows = {word: row for row, (word, _) in enumerate(kept, 1)}
            self._free = []
        self.bits = widened(self.bits, words)

    def add(self, column: int, strings: Strings) -> None:
        """Add a clause that accepts these strings and rejects all others."""
        if is_everything(strings):
            return
        set_column(self.bits, 0, len(self.bits), column)
        accepted: list[str] = []
        if is_words(strings):
            for interval in strings.intervals:
                word = str(interval.low)
                self._postings.setdefault(word, set()).add(column)
                accepted.append(word)
        else:
            if strings not in self._sets:
                self._sets[strings] = (strings.test(), set())
            test, columns = self._sets[strings]
            columns.add(column)
            accepted.extend(word for word in self._rows if test(word))
        for word in accepted:
            if word in self._rows:
                clear_column(self.bits[self._rows[word]][None, :], column)

    def remove(self, column: int, strings: Strings) -> None:
        """Remove a clause."""
        clear_column(self.bits, column)
        if is_everything(strings):
            return
        if not is_words(strings):
            columns = self._sets[strings][1]
            columns.discard(column)
            if not columns:
                del self._sets[strings]
            return
        for interval in strings.intervals:
            word = str(interval.low)
            posting = self._postings[word]
            posting.discard(column)
            if not posting:
                del self._postings[word]

    def locate(self, codes: Columns, words: Sequence[str]) -> Columns:
        """Return each event's row; `codes` are positions in `words`, at most `WORDS_MIN` distinct ones."""
        if len(codes) == 1:
            return np.array([self._row(words[int(codes[0])])], np.intp)
        used, inverse = np.unique(codes, return_inverse=True)
        texts = [words[code] for code in used.tolist()]
        for text in texts:  # mark as recently used, so that a row of this block does not evict another one
            if text in self._rows:
                self._rows[text] = self._rows.pop(text)
        return np.array([self._row(text) for text in texts], np.intp)[inverse]

    def _row(self, word: str) -> int:
        row = self._rows.get(word)
        if row is not None:
            return row
        posting = self._postings.get(word)
        if posting is None and not self._sets:
            return 0
        row = self._take_row()
        self._rows[word] = row
        line = self.bits[row]
        line[:] = self.bits[0]
        if posting:
            clear_bits(line, np.fromiter(posting, np.intp, len(posting)))
        for test, columns in self._sets.values():
            if test(word):
                clear_bits(line, np.fromiter(columns, np.intp, len(columns)))
        return row

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        limit = _words_max(self.bits.shape[1])
        if len(self._rows) >= limit:
            return self._rows.pop(next(iter(self._rows)))
        size = len(self.bits)
        larger = np.zeros((min(2 * size + 7, limit + 1), self.bits.shape[1]), np.uint64)
        larger[:size] = self.bits
        self.bits = larger
        self._free = list(range(len(larger) - 1, size, -1))
        return size

    def check(self, expected: dict[int, Strings]) -> None:
        """Assert that the rows and posting lists are exactly those of these clauses."""
        base = {column for column, strings in expected.items() if not is_everything(strings)}
        assert set_columns(self.bits[0]) == base, "the base row differs from the clauses'"
        postings: dict[str, set[int]] = {}
        sets: dict[Strings, set[int]] = {}
        for column in base:
            strings = expected[column]
            if is_words(strings):
                for interval in strings.intervals:
                    postings.setdefault(str(interval.low), set()).add(column)
            else:
                sets.setdefault(strings, set()).add(column)
        assert postings == self._postings, "posting lists differ from the clauses'"
        assert sets == {key: columns for key, (_, columns) in self._sets.items()}, "sets of strings differ"
        for word, row in self._rows.items():
            rejects = {column for column in base if not expected[column].contains(word)}
            assert set_columns(self.bits[row]) == rejects, f"the row of {word!r} differs from the clauses'"
        assert sorted([*self._rows.values(), *self._free]) == list(range(1, len(self.bits)))


def _words_max(words: int) -> int:
    """Return how many rows of so many words are cached."""
    return max(WORDS_MIN, ROW_BYTES_MAX // (8 * words))


def is_everything(strings: Strings) -> bool:
    """Return whether the set is all strings."""
    return not strings.likes and len(strings.intervals) == 1 and strings.intervals[0] == _ALL


def is_words(strings: Strings) -> bool:
    """Return whether the set is a list of words, possibly empty."""
    return not strings.likes and all(interval.is_point for interval in strings.intervals)
