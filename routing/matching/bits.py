"""Rows of bits, one bit per clause: the words of the match index.

Rules
-----
* A table is ``uint64[rows, words]``. The bit of column ``c`` is bit ``c & 63`` of word ``c >> 6``, and so,
  on the little-endian machines that this runs on, bit ``c & 7`` of byte ``c >> 3``.
* Bits beyond the columns in use are zero, so a table is widened by copying it.
* Bits are converted to columns in passes: each pass takes the lowest set bit of every 32-bit half word that is
  not yet zero. A pass is a few branchless vector operations, and the position of a column in the result follows
  from the counts of bits. With 3 of 100 bits set at random this takes 5 ns per column, where ``nonzero`` of
  unpacked bits takes 15 to 20, nearly all of it mispredicted branches.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]
Columns: TypeAlias = npt.NDArray[np.intp]

Number = TypeVar("Number", bound=np.generic)

WORD_BITS: Final = 64


def words_for(columns: int) -> int:
    """Return the number of words for so many columns."""
    return -(-columns // WORD_BITS)


def bit_of(columns: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Return each column's bit within its byte."""
    return np.left_shift(np.uint8(1), (columns & 7).astype(np.uint8))


def widened(array: npt.NDArray[Number], length: int) -> npt.NDArray[Number]:
    """Return a copy whose last axis has `length` entries, the new ones zero."""
    out = np.zeros((*array.shape[:-1], length), array.dtype)
    out[..., : array.shape[-1]] = array
    return out


def set_column(table: Words, first: int, end: int, column: int) -> None:
    """Set one column's bit in the rows ``first:end``."""
    if first < end:
        table.view(np.uint8)[first:end, column >> 3] |= 1 << (column & 7)


def clear_column(table: Words, column: int) -> None:
    """Clear one column's bit in every row."""
    table.view(np.uint8)[:, column >> 3] &= 0xFF ^ (1 << (column & 7))


def set_columns(row: Words) -> set[int]:
    """Return the columns whose bit is set in one row."""
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def clear_bits(row: Words, columns: Columns) -> None:
    """Clear the bits of these columns in one row."""
    np.bitwise_and.at(row.view(np.uint8), columns >> 3, ~bit_of(columns))


class Pairs(NamedTuple):
    """Pairs of a row and a column."""

    rows: Columns
    columns: npt.NDArray[np.int32]


def clear_pairs(block: Words, pairs: Pairs) -> None:
    """Clear one bit per pair in ``uint64[rows, words]``."""
    flat = block.reshape(-1).view(np.uint8)
    where = pairs.rows * (block.shape[1] * 8)
    where += pairs.columns >> 3
    # Few of the bits are still set; finding these is faster than an unbuffered AND of all.
    bits = bit_of(pairs.columns)
    still = ((flat.take(where) & bits) != 0).nonzero()[0]
    np.bitwise_and.at(flat, where.take(still), ~bits.take(still))


def set_positions(block: Words) -> tuple[Columns, Columns]:
    """Return the bits that are set in ``uint64[rows, words]``.

    Returns
    -------
    counts
        The number of set bits in each row.
    columns
        The columns of the set bits, by row, then by column.
    """
    rows, words = block.shape
    halves = block.reshape(-1).view(np.uint32)
    place = (halves != 0).nonzero()[0]
    rest = halves.take(place)
    starts = np.arange(rows + 1) * (2 * words)
    bounds = np.searchsorted(place, starts)
    place -= np.repeat(starts[:-1], np.diff(bounds))
    place <<= 5
    sizes = np.bitwise_count(rest)
    target = np.zeros(len(rest) + 1, np.intp)
    np.cumsum(sizes, out=target[1:])
    counts = np.diff(target[bounds])
    out = np.empty(target[-1], np.intp)
    target = target[:-1]
    while len(rest):
        cleared = rest & (rest - np.uint32(1))
        out[target] = place + np.bitwise_count((rest ^ cleared) - np.uint32(1))
        more = (cleared != 0).nonzero()[0]
        rest, place, target = cleared.take(more), place.take(more), target.take(more) + 1
    return counts, out
