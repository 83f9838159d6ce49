"""Selector text: ``origin = 'JFK' AND dep_delay > 60``.

Rules
-----
* The grammar stands in ``selectors.lark``. Keywords may be in any case of letters, but only of ASCII letters: what
  looks like one, or becomes one in upper case, is a name. Attribute names and strings are taken as they are.
  ``"any name"`` in double quotes is an attribute, ``'it''s'`` in single quotes a string.
* Text of nothing but spaces is the condition that is always true, as in JMS.
* Whatever the text is, the answer is a condition or a :class:`SelectorError` that says line, column, what
  stands there and what was expected, in words for people.
* The parser of a dialect is built once a process, when the first selector of it is read.

Source: JMS 1.1, section 3.8.1.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ...protocol.checks import one_of
from ...protocol.errors import SelectorError
from ..filters.printing import CHARACTERS_MAX, KEYWORDS, is_word
from . import predicates as p
from .builder import builder
from .cesql import parse_cesql
from .relations import two_valued
from .selector_errors import syntax_error, unreadable_character

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["CHARACTERS_MAX", "DIALECTS", "Dialect", "dialect_of", "parse_selector"]

Dialect = Literal["rayvous", "jms", "cesql"]
DIALECTS: Final[tuple[Dialect, ...]] = ("rayvous", "jms", "cesql")
"""The languages that text may be in: ours; JMS to the letter, where a comparison of values of two groups is false;
CloudEvents SQL (:mod:`.cesql`)."""

_OPERATORS: Final = ("CIDR", "CONTAINS", "ILIKE", "PREFIX", "SUFFIX")
_SOFT_KEYWORDS: Final = frozenset(
    (*_OPERATORS, "CESQL", "ESCAPE", "LOWER", "MISSING", "TIMESTAMP", "UNKNOWN", "UPPER")
)
_RESERVED: Final = KEYWORDS | _SOFT_KEYWORDS


def dialect_of(name: str) -> Dialect:
    """Return the dialect that is called so.

    Raises
    ------
    SelectorError
        If there is none.
    """
    return one_of("dialect", name, DIALECTS, SelectorError)  # type: ignore[return-value]  # it is one of them


def parse_selector(text: str, dialect: Dialect = "rayvous") -> p.Predicate:
    """Return the condition that a selector says.

    Parameters
    ----------
    dialect
        One of :data:`DIALECTS`.

    Raises
    ------
    SelectorError
        If the text is no selector, or compares what cannot be compared.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    dialect_of(dialect)
    if dialect == "cesql":
        return parse_cesql(text)
    if not isinstance(text, str):
        raise SelectorError(f"a selector is a string, not a {type(text).__name__}")
    if len(text) > CHARACTERS_MAX:
        raise SelectorError(f"the selector has {len(text)} characters, the limit is {CHARACTERS_MAX}")
    parser = _parser(strict=dialect != "jms")
    try:
        condition: p.Predicate = parser.parse(text)  # type: ignore[assignment]  # the builder makes no trees
    except UnexpectedCharacters as error:
        raise unreadable_character(text, error.line, error.column, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        raise syntax_error(error.token, error.accepts or error.expected, parser.lex(text)) from None
    return two_valued(condition) if dialect == "jms" else condition


@cache
def _parser(*, strict: bool) -> Lark:
    # Imported here because it takes longer than all the rest of routing, and only who reads text needs it.
    from lark import Lark, Token

    def reserve(token: Token) -> Token:
        word = token.upper()
        return Token.new_borrow_pos(word, str(token), token) if is_word(token, _RESERVED) else token

    grammar = Path(__file__).with_name("selectors.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        propagate_positions=False,
        lexer_callbacks={"NAME": reserve},
        transformer=builder(strict=strict),
    )
