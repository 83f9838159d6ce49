"""Shared code of the text parsers: construction of a parser from a grammar, and conversion of its errors.

Rules
-----
* A grammar has names only; names that are keywords, in any case of ASCII letters, become the declared tokens.
* For any text, the result is the parser's output or a :class:`SelectorError`.
* Lark is imported when a parser is made: its import takes longer than all the rest of routing, and only parsing needs
  it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SelectorError
from ..filters.printing import is_word
from .selector_errors import unreadable_character
from .values import CHARACTERS_MAX

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedToken

__all__ = ["check_text", "parse", "parser_of"]


def check_text(word: str, text: object) -> None:
    """Raise SelectorError if the argument is no string, or longer than any filter; `word` is an article and a noun."""
    if not isinstance(text, str):
        raise SelectorError(f"{word} is a string, not a {type(text).__name__}")
    if len(text) > CHARACTERS_MAX:
        what = word.partition(" ")[2]
        raise SelectorError(f"the {what} has {len(text)} characters, the limit is {CHARACTERS_MAX}")


def parser_of(grammar: str, names: str, keywords: Set[str], transformer: object) -> Lark:
    """Return the parser of a grammar.

    Parameters
    ----------
    grammar
        The name of its file, in the folder of this module.
    names, keywords
        The terminal of names, and the names that are keywords.
    transformer
        Converts each rule to its result.
    """
    from lark import Lark, Token

    def reserve(token: Token) -> Token:
        if not is_word(token, keywords):
            return token
        return Token.new_borrow_pos(token.upper(), str(token), token)

    return Lark(
        Path(__file__).with_name(grammar).read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        propagate_positions=False,
        lexer_callbacks={names: reserve},
        transformer=transformer,
    )


def parse(parser: Lark, text: str, refusal: Callable[[UnexpectedToken], SelectorError]) -> Any:
    """Parse a text; `refusal` makes the error for an unexpected token."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        return parser.parse(text)
    except UnexpectedCharacters as error:
        raise unreadable_character(text, error.line, error.column, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        raise refusal(error) from None
