"""Selector text: ``origin = 'JFK' AND dep_delay > 60``.

Rules
-----
* The grammar is in ``selectors.lark``. Keywords may be in any case, but in ASCII letters only: a word with other
  letters that looks like a keyword, or becomes one in upper case, is a name. Attribute names and strings are
  case-sensitive. ``"any name"`` in double quotes is an attribute, ``'it''s'`` in single quotes is a string.
* Comments of SQL are refused: ``a > 10 -- 5`` would otherwise be arithmetic.
* Empty text, or text of spaces only, is the condition that is always true, as in JMS.
* For any text, the result is a condition or a :class:`SelectorError` with line, column, the token found and what was
  expected, in human-readable words.
* The parser of a dialect is built once per process, when its first selector is parsed. Plain rows of comparisons are
  read without it (:mod:`.plain_rows`).
* The conditions of the last short selectors are kept: many subscribers write the same, and what is doubtful about a
  selector is asked right after it was parsed.

Source: JMS 1.1, section 3.8.1.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, Literal

from ...protocol.checks import one_of
from ...protocol.errors import SelectorError
from ..filters.printing import CHARACTERS_MAX, KEYWORDS
from . import predicates as p
from .builder import builder
from .cesql import parse_cesql
from .parsing import check_text, parse, parser_of
from .plain_rows import row_of
from .relations import two_valued
from .selector_errors import refuse_comments, syntax_error

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["CHARACTERS_MAX", "DIALECTS", "Dialect", "dialect_of", "parse_selector"]

Dialect = Literal["rayvous", "jms", "cesql"]
DIALECTS: Final[tuple[Dialect, ...]] = ("rayvous", "jms", "cesql")
"""The dialects of selector text: ours; strict JMS, where a comparison of values of two groups is false; and CloudEvents
SQL (:mod:`.cesql`)."""

KEPT_CHARACTERS_MAX: Final = 256
SELECTORS_KEPT: Final = 1_024
_OPERATORS: Final = ("CIDR", "CONTAINS", "ILIKE", "PREFIX", "SUFFIX")
_SOFT_KEYWORDS: Final = frozenset(
    (
        *_OPERATORS,
        "ALL",
        "ANY",
        "ARRAY",
        "CESQL",
        "ESCAPE",
        "LOWER",
        "MISSING",
        "NONE",
        "ONLY",
        "SIZE",
        "TIMESTAMP",
        "UNKNOWN",
        "UPPER",
    )
)
_RESERVED: Final = KEYWORDS | _SOFT_KEYWORDS


def dialect_of(name: str) -> Dialect:
    """Return the dialect of that name.

    Raises
    ------
    SelectorError
        If there is none.
    """
    return one_of("dialect", name, DIALECTS, SelectorError)  # type: ignore[return-value]  # it is one of them


def parse_selector(text: str, dialect: Dialect = "rayvous") -> p.Predicate:
    """Parse a selector.

    Parameters
    ----------
    dialect
        One of :data:`DIALECTS`.

    Raises
    ------
    SelectorError
        If the text is no selector, or compares values that cannot be compared.
    """
    dialect_of(dialect)
    if dialect == "cesql":
        return parse_cesql(text)
    check_text("a selector", text)
    return _kept(text, dialect) if len(text) <= KEPT_CHARACTERS_MAX else _parsed(text, dialect)


def _parsed(text: str, dialect: Dialect) -> p.Predicate:
    refuse_comments(text)
    condition = row_of(text, _RESERVED)
    if condition is None:
        condition = _grammatical(text, dialect)
    return two_valued(condition) if dialect == "jms" else condition


def _grammatical(text: str, dialect: Dialect) -> p.Predicate:
    parser = _parser(strict=dialect != "jms")
    condition: p.Predicate = parse(
        parser,
        text,
        lambda error: syntax_error(error.token, error.accepts or error.expected, parser.lex(text)),
    )
    return condition


_kept = lru_cache(SELECTORS_KEPT)(_parsed)


@cache
def _parser(*, strict: bool) -> Lark:
    return parser_of("selectors.lark", "NAME", _RESERVED, builder(strict=strict))
