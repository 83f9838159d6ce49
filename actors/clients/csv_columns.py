"""Columns of CSV text: what kind each has, and its cells as values of that kind.

Rules
-----
* The whole column decides its kind: the first of boolean, integer, float and timestamp that every cell can be, else
  string. A user may name the kind instead.
* An empty cell is a missing value, of every kind. In a column that is not text, so are the usual words for nothing
  (`MISSING_WORDS`); in a column of text they are text, since NA is also Namibia.
* Integers of any size stay integers. A time of day is text. A timestamp without a zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.batch import EVENT_BYTES_MAX
from ...protocol.errors import EventError
from ...protocol.values import Kind
from .columns import castable, first_refused

MISSING_WORDS: Final = (
    "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "-NaN", "-nan", "None",
)  # fmt: skip
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_INTEGER: Final = r"^[+-]?[0-9]+$"
_DIGIT_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
PROBED: Final = 64
"""So many cells are tried before a whole block is: most columns are text, and show it at once."""


class BadCell(NamedTuple):
    """A cell that cannot be a value: its row in the block, and why."""

    row: int
    why: str


class CellError(EventError):
    """A cell of a block cannot be a value of its column's kind."""

    def __init__(self, cell: BadCell) -> None:
        super().__init__(cell.why)
        self.cell = cell


class ColumnKind:
    """Finds the kind of one column, block by block.

    Parameters
    ----------
    kind
        The kind that the user has named, if any.
    """

    def __init__(self, kind: Kind | None = None) -> None:
        self._given = kind
        self._fits: list[Kind] = [] if kind is not None else list(_CASTS)

    @property
    def kind(self) -> Kind:
        """The kind that fits every cell so far."""
        if self._given is not None:
            return self._given
        return self._fits[0] if self._fits else Kind.STRING

    def see(self, cells: pa.Array) -> None:
        """Take the cells of one block, as bytes, into account.

        Raises
        ------
        CellError
            If a cell cannot be text, or is not of the kind that the user has named.
        """
        texts = text(cells)
        if self._given is not None:
            cast(texts, self._given)
            return
        for kind in tuple(self._fits):
            if not (_can_be(texts.slice(0, PROBED), kind) and _can_be(texts, kind)):
                self._fits.remove(kind)


def text(cells: pa.Array) -> pa.Array:
    """Return cells of bytes as strings; an empty cell becomes a null.

    Raises
    ------
    CellError
        If a cell is not UTF-8, or too long.
    """
    try:
        texts = cells.cast(pa.string())
    except pa.ArrowInvalid:
        row = first_refused(cells, lambda part: castable(part, pa.string()))
        raise CellError(BadCell(row, _why_not_text(cells[row].as_py()))) from None
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) > EVENT_BYTES_MAX:
        row = pc.index(pc.greater(sizes, EVENT_BYTES_MAX), True).as_py()
        raise CellError(BadCell(row, f"{sizes[row].as_py():,} bytes, the limit is {EVENT_BYTES_MAX:,}"))
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _why_not_text(cell: bytes) -> str:
    try:
        cell.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"{cell[:40]!r} is not UTF-8 at byte {error.start}: write the file as UTF-8"
    return f"{cell[:40]!r} is not UTF-8"


def cast(texts: pa.Array, kind: Kind) -> pa.Array | list[int | None]:
    """Return strings as values of a kind: an Arrow array, or a list if integers have more than 64 bits.

    Raises
    ------
    CellError
        If a cell is not such a value.
    """
    if kind is Kind.STRING:
        return texts
    plain = _present(texts)
    try:
        return _CASTS[kind](plain)
    except (pa.ArrowInvalid, ValueError):
        pass

    row = first_refused(plain, lambda part: _castable(part, kind))
    cell = plain[row].as_py()
    if kind is Kind.TIMESTAMP and _can_be(plain.slice(row, 1), kind):
        raise CellError(BadCell(row, f"{cell} is outside the years 1678 to 2262"))
    raise CellError(BadCell(row, f"{cell[:40]!r} is not {_ARTICLES[kind]}"))


_ARTICLES: Final = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "an integer",
    Kind.FLOAT: "a number",
    Kind.TIMESTAMP: "a time in ISO 8601",
}


@cache
def _missing() -> pa.Array:
    """Return the words as Arrow has them; made when needed, since the first array of a process imports pandas."""
    return pa.array(MISSING_WORDS)


def _present(texts: pa.Array) -> pa.Array:
    """Return strings without blanks around them; the words for nothing become nulls."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(trimmed, _missing()), None, trimmed)


def _can_be(texts: pa.Array, kind: Kind) -> bool:
    """Return whether all strings are of a kind; a timestamp may be outside the years that fit."""
    plain = _present(texts)
    if kind is Kind.TIMESTAMP:
        return _moments(plain, "us") is not None or _moments(plain, "ns") is not None
    return _castable(plain, kind)


def _castable(plain: pa.Array, kind: Kind) -> bool:
    try:
        _CASTS[kind](plain)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _booleans(texts: pa.Array) -> pa.Array:
    true = pc.is_in(texts, pa.array(_TRUE))
    if not _all(pc.or_(true, pc.is_in(texts, pa.array(_FALSE))), texts):
        raise ValueError("not all are booleans")
    return pc.if_else(pc.is_valid(texts), true, None)


def _integers(texts: pa.Array) -> pa.Array | list[int | None]:
    if not _all(pc.match_substring_regex(texts, _INTEGER), texts):
        raise ValueError("not all are integers")
    try:
        return pc.utf8_ltrim(texts, "+").cast(pa.int64())
    except pa.ArrowInvalid:  # more than 64 bits
        return [None if each is None else int(each) for each in texts.to_pylist()]


def _floats(texts: pa.Array) -> pa.Array:
    values = texts.cast(pa.float64())
    infinite = pc.is_inf(values)
    if pc.any(infinite).as_py() and not _all(
        pc.match_substring(texts, "inf", ignore_case=True), pc.if_else(infinite, texts, None)
    ):
        raise ValueError("a number is too large")
    return values


def _timestamps(texts: pa.Array) -> pa.Array:
    moments = _moments(texts, "ns")
    if moments is None:
        raise ValueError("not all are timestamps that fit")
    return moments


def _moments(texts: pa.Array, unit: str) -> pa.Array | None:
    """Return strings as timestamps of a unit, whether all or none have a zone; None if they are not."""
    if not _all(pc.match_substring_regex(texts, _DIGIT_TIME), texts):
        return None
    zoned = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    zoned = pc.and_(zoned, pc.greater(pc.utf8_length(texts), 10))
    try:
        local = pc.if_else(zoned, None, texts).cast(pa.timestamp(unit))
        placed = pc.if_else(zoned, texts, None).cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    except pa.ArrowInvalid:
        return None
    return pc.coalesce(local, placed)


def _all(hits: pa.Array, texts: pa.Array) -> bool:
    return bool(pc.all(pc.or_kleene(hits, pc.is_null(texts))).as_py() is not False)


_CASTS: Final[dict[Kind, Callable[[pa.Array], Any]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.INTEGER: _integers,
    Kind.FLOAT: _floats,
    Kind.TIMESTAMP: _timestamps,
}
"""The kinds in the order in which they are tried."""


def kinds_of(types: Any, where: str = "types") -> dict[str, Kind]:
    """Return column types that a user has named, as kinds.

    Parameters
    ----------
    types
        ``{column: "boolean", "integer", "float", "string" or "timestamp"}``, or None.
    where
        The argument or option, for the error message.

    Raises
    ------
    EventError
        If it is not such a mapping.
    """
    out: dict[str, Kind] = {}
    try:
        pairs: Iterable[tuple[Any, Any]] = (types or {}).items()
    except AttributeError:
        raise EventError(f"{where} must be a mapping from column to type, not {types!r}") from None
    for name, word in pairs:
        kind = Kind.__members__.get(str(word).upper())
        if kind is None or kind is Kind.NULL:
            raise EventError(
                f"{where}: {name}={word}: a type is boolean, integer, float, string or timestamp"
            )
        out[str(name)] = kind
    return out
