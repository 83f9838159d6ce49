"""Selector text: ``origin = 'JFK' AND dep_delay > 60``.

Rules
-----
* The grammar stands in ``selectors.lark``. Keywords may be in any case of letters; attribute names and
  strings are taken as they are. ``"any name"`` in double quotes is an attribute, ``'it''s'`` in single quotes
  a string.
* Whatever the text is, the answer is a condition or a :class:`SelectorError` that says line, column, what
  stands there and what was expected, in words for people.
* The parser is built once a process, when the first selector is read.

Source: JMS 1.1, section 3.8.1.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Timestamp, Value
from ..filters.printing import CHARACTERS_MAX, KEYWORDS
from . import predicates as p
from .selector_errors import syntax_error, unreadable_character

if TYPE_CHECKING:
    from lark import Lark, Token

__all__ = ["CHARACTERS_MAX", "parse_selector"]

_DIGITS_MAX: Final = 400

_SOFT_KEYWORDS: Final = frozenset(("PREFIX", "SUFFIX", "CONTAINS", "ESCAPE", "TIMESTAMP"))
_RESERVED: Final = KEYWORDS | _SOFT_KEYWORDS


def parse_selector(text: str) -> p.Predicate:
    """Return the condition that a selector says.

    Raises
    ------
    SelectorError
        If the text is no selector, or compares what cannot be compared.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if not isinstance(text, str):
        raise SelectorError(f"a selector is a string, not a {type(text).__name__}")
    if len(text) > CHARACTERS_MAX:
        raise SelectorError(f"the selector has {len(text)} characters, the limit is {CHARACTERS_MAX}")
    parser = _parser()
    try:
        return parser.parse(text)  # type: ignore[return-value]  # the builder makes predicates, not trees
    except UnexpectedCharacters as error:
        raise unreadable_character(text, error.line, error.column, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        raise syntax_error(error.token, error.accepts or error.expected, parser.lex(text)) from None


@cache
def _parser() -> Lark:
    # Imported here because it takes longer than all the rest of routing, and only who reads text needs it.
    from lark import Lark, Token

    def reserve(token: Token) -> Token:
        word = token.upper()
        return Token.new_borrow_pos(word, str(token), token) if word in _RESERVED else token

    grammar = Path(__file__).with_name("selectors.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        propagate_positions=False,
        lexer_callbacks={"NAME": reserve},
        transformer=_builder(),
    )


_Located: TypeAlias = "tuple[Value, Token]"


def _at(token: Token, message: str) -> NoReturn:
    line, column = token.line or 0, token.column or 0
    raise SelectorError(f"line {line}, column {column}: {message}", line=line, column=column)


def _make(token: Token, make: Callable[..., p.Predicate], *arguments: Any) -> p.Predicate:
    """Make a predicate; what it refuses is said with the place of `token`."""
    try:
        return make(*arguments)
    except (SelectorError, FilterTooComplex) as error:
        _at(token, str(error))


_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT_PREDICATES: Final[dict[str, type[p.Prefix] | type[p.Suffix] | type[p.Contains]]] = {
    "PREFIX": p.Prefix,
    "SUFFIX": p.Suffix,
    "CONTAINS": p.Contains,
}


def _builder() -> Any:
    """Return what makes the predicates while the parser runs; a method for each rule of the grammar."""
    from lark import Token, Transformer, v_args

    def negated_if(token: Token | None, predicate: p.Predicate) -> p.Predicate:
        return predicate if token is None else _make(token, p.Not, predicate)

    def words(tokens: Sequence[Any], kind: type[p.And] | type[p.Or]) -> p.Predicate:
        return _make(tokens[1], kind, tuple(tokens[::2]))

    @v_args(inline=True)
    class Builder(Transformer[Any, p.Predicate]):
        def start(self, condition: p.Predicate) -> p.Predicate:
            return condition

        def any_of(self, *tokens: Any) -> p.Predicate:
            return words(tokens, p.Or)

        def all_of(self, *tokens: Any) -> p.Predicate:
            return words(tokens, p.And)

        def negated(self, token: Token, condition: p.Predicate) -> p.Predicate:
            return _make(token, p.Not, condition)

        def constant(self, literal: _Located) -> p.Predicate:
            return p.TRUE if literal[0] else p.FALSE

        def bare(self, name: Token) -> p.Predicate:
            return _make(name, p.Compare, name.value, "=", True)

        def compare(self, left: Any, op: Token, right: Any) -> p.Predicate:
            if isinstance(left, Token):
                if isinstance(right, Token):
                    _at(
                        right,
                        f"comparing attribute {left.value} with attribute {right.value} is not supported: "
                        "compare an attribute with a value; strings stand in single quotes",
                    )
                return _make(op, p.Compare, left.value, op.value, right[0])
            if not isinstance(right, Token):
                _at(left[1], f"a value is compared with a value: one side of {op} must be an attribute")
            return _make(op, p.Compare, right.value, _MIRRORED.get(op.value, op.value), left[0])

        def between(self, name: Token, negation: Token | None, word: Token, *rest: Any) -> p.Predicate:
            low, _, high = rest
            return negated_if(negation, _make(word, p.Between, name.value, low[0], high[0]))

        def one_of(
            self, name: Token, negation: Token | None, word: Token, *literals: _Located
        ) -> p.Predicate:
            values = tuple(value for value, _ in literals)
            return negated_if(negation, _make(word, p.In, name.value, values))

        def like(
            self,
            name: Token,
            negation: Token | None,
            _like: Token,
            pattern: Token,
            _escape: Token | None,
            escape: Token | None,
        ) -> p.Predicate:
            character = None if escape is None else _unquoted(escape)
            return negated_if(
                negation, _make(escape or pattern, p.Like, name.value, _unquoted(pattern), character)
            )

        def text(self, name: Token, negation: Token | None, word: Token, text: Token) -> p.Predicate:
            return negated_if(negation, _make(text, _TEXT_PREDICATES[word.type], name.value, _unquoted(text)))

        def is_null(self, name: Token, _is: Token, negation: Token | None, _null: Token) -> p.Predicate:
            return negated_if(negation, _make(name, p.IsNull, name.value))

        def name(self, token: Token) -> Token:
            return token if token.type != "QUOTED" else token.update(value=_unquoted(token))

        def boolean(self, token: Token) -> _Located:
            return token.type == "TRUE", token

        def number(self, token: Token) -> _Located:
            return _number(token), token

        def string(self, token: Token) -> _Located:
            return _unquoted(token), token

        def timestamp(self, word: Token, token: Token) -> _Located:
            return _timestamp(token), word

    return Builder()


def _unquoted(token: Token) -> str:
    text = str(token)
    return text[1:-1].replace(text[0] * 2, text[0])


def _number(token: Token) -> int | float:
    text = str(token)
    if text.lstrip("+-").isdigit():
        # Longer ones are refused before they are read: reading takes time that grows with the square of the
        # length.
        value = int(text) if len(text) <= _DIGITS_MAX else INTEGER_MAX + 1
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            _at(
                token,
                f"the integer {_shortened(text)} does not fit in 64 bits: write it as a float",
            )
        return value
    number = float(text)
    if number in (float("inf"), float("-inf")):
        _at(token, f"the number {_shortened(text)} is too large for a float")
    return number


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


_ISO: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:Z|([+-])([0-9]{2}):?([0-9]{2}))?)?",
    re.IGNORECASE,
)
_UNIX: Final = datetime.datetime(1970, 1, 1)


def _timestamp(token: Token) -> Timestamp:
    text = _unquoted(token)
    found = _ISO.fullmatch(text.strip())
    if found is None:
        _at(
            token,
            f"{_shortened(text)!r} is no timestamp: "
            "write TIMESTAMP '2013-01-01 05:00:00', with Z or +01:00 at its end where it needs one",
        )
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = found.groups()
    try:
        moment = datetime.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError as error:
        _at(token, f"{_shortened(text)!r} is no timestamp: {error}")
    past = moment - _UNIX
    seconds = past.days * 86_400 + past.seconds
    if sign:
        if int(off_hours) > 23 or int(off_minutes) > 59:
            _at(token, f"{_shortened(text)!r} is no timestamp: its offset from UTC is out of range")
        offset = int(off_hours) * 3600 + int(off_minutes) * 60
        seconds += -offset if sign == "+" else offset
    nanoseconds = seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    if not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
        _at(token, f"the timestamp {_shortened(text)!r} is outside the years 1678 to 2262")
    return Timestamp(nanoseconds)
