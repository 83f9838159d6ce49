"""Human-readable error messages for selectors.

Rule: a message has the position (line and column from 1), what was expected there, and what was found; then a hint if
the mistake is common among users of another language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from ...protocol.errors import SelectorError

if TYPE_CHECKING:
    from lark import Token

_VALUES: Final = frozenset(("NUMBER", "TRUE", "FALSE", "TIMESTAMP", "STRING", "UNKNOWN", "SIGN", "CESQL"))
_OPERATORS: Final = frozenset(
    ("COMPARISON", "BETWEEN", "IN", "LIKE", "ILIKE", "IS", "PREFIX", "SUFFIX", "CONTAINS", "CIDR", "NOT")
)
_ALSO_NAMES: Final = frozenset(
    (
        "ALL",
        "ANY",
        "ARRAY",
        "CIDR",
        "CONTAINS",
        "ESCAPE",
        "ILIKE",
        "LOWER",
        "MISSING",
        "NONE",
        "ONLY",
        "PREFIX",
        "SIZE",
        "SUFFIX",
        "UPPER",
    )
)
_COMES_NEXT: Final = (
    ("AND", "AND"),
    ("OR", "OR"),
    ("NOT", "NOT"),
    ("NULL", "NULL"),
    ("MISSING", "MISSING"),
    ("TRUE", "TRUE"),
    ("FALSE", "FALSE"),
    ("UNKNOWN", "UNKNOWN"),
    ("LPAR", "'('"),
    ("COMMA", "','"),
    ("RPAR", "')'"),
    ("$END", "the end of the selector"),
)
_HINTS: Final = {
    "!": "'not equal' is <> or !=",
    "&": "write AND",
    "|": "write OR",
    "%": "arithmetic is + - * /",
    "@": "for arrays there are CONTAINS ALL, CONTAINS ANY and CONTAINS NONE",
    "~": "patterns are LIKE and ILIKE",
    "{": "a pattern in JSON is given as a mapping, or to rv.eventbridge",
    "?": "there are no parameters: write the value",
    ":": "there are no parameters: write the value",
    "`": "other attribute names stand in double quotes",
    "‘": "strings stand in plain single quotes",
    "’": "strings stand in plain single quotes",
    "“": "strings stand in plain single quotes",
}


_COMMENT: Final = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?|(--|/\*)""")


def refuse_comments(text: str) -> None:
    """Raise SelectorError if there is a comment of SQL outside of strings and quoted names."""
    if "--" not in text and "/*" not in text:
        return
    for found in _COMMENT.finditer(text):
        if (sign := found[1]) is not None:
            before = text[: found.start()]
            line, column = before.count("\n") + 1, found.start() - before.rfind("\n")
            hint = "; a minus before a negative number needs a blank: - -5" if sign == "--" else ""
            raise _error(
                line, column, f"{sign} begins a comment in SQL, and selectors have none: leave it out{hint}"
            )


def _error(line: int, column: int, message: str) -> SelectorError:
    return SelectorError(f"line {line}, column {column}: {message}", line=line, column=column)


def unreadable_character(text: str, line: int, column: int, position: int) -> SelectorError:
    """Return the error for a character that cannot begin a token."""
    character = text[position]
    if character == "'":
        return _error(line, column, "the string that begins here has no closing single quote")
    if character == '"':
        return _error(line, column, "the name that begins here has no closing double quote")
    hint = _HINTS.get(character)
    found = repr(character) if character.isprintable() else f"the character U+{ord(character):04X}"
    return _error(line, column, f"{found} has no meaning in a selector" + (f" ({hint})" if hint else ""))


def unexpected(found: Token) -> SelectorError:
    """Return the error for an unexpected token, in a language without descriptions of the expected tokens."""
    if found.type == "$END":
        return SelectorError("the expression ends too early", line=found.line or 1, column=found.column or 1)
    return _error(found.line or 1, found.column or 1, f"{_shown(found)} cannot stand here")


def syntax_error(found: Token, expected: Collection[str], tokens: Iterable[Token]) -> SelectorError:
    """Return the error for an unexpected token.

    Parameters
    ----------
    found
        The token; of type ``$END`` when the text ends too early.
    expected
        The types of the tokens that are possible at this position.
    tokens
        The tokens of the whole text, to find the previous one.
    """
    ended = found.type == "$END"
    before: Token | None = None
    for token in tokens:
        if not ended and (token.start_pos or 0) >= (found.start_pos or 0):
            break
        before = token
    line, column = found.line or 1, found.column or 1
    if ended:
        line, column = (1, 1) if before is None else (before.end_line or 1, before.end_column or 1)
    after = "" if before is None else f" after {_shown(before)}"
    wanted = _in_words(expected)
    return _error(line, column, f"expected {wanted}{after}, found {_shown(found)}{_hint(found, before)}")


def _shown(token: Token) -> str:
    if token.type == "$END":
        return "end of selector"
    text = str(token)
    if token.type in ("STRING", "QUOTED"):
        return text if len(text) <= 30 else f"{text[:27]}...{text[0]}"
    return f"'{text}'" if len(text) <= 30 else f"'{text[:27]}...'"


def _in_words(expected: Collection[str]) -> str:
    kinds = set(expected) - {"FACTOR"}
    words: list[str] = []
    if kinds & {"RPAR", "$END"} and kinds.isdisjoint(("COMMA", "NAME")):
        kinds |= {
            "AND",
            "OR",
        }  # the parser had already reduced the condition when it found the unexpected token
    if "NAME" in kinds:
        # Where a name is possible, so are the words that are reserved only elsewhere; NOT begins conditions only.
        words.append(
            "a condition" if "NOT" in kinds else "a value" if "STRING" in kinds else "an attribute's name"
        )
        kinds -= _VALUES | _ALSO_NAMES | {"NAME", "QUOTED", "LPAR", "NOT"}
    kinds.discard("SIGN")
    if "COMPARISON" in kinds and "BETWEEN" in kinds:
        words.append("an operator (= <> < <= > >= BETWEEN IN LIKE ILIKE PREFIX SUFFIX CONTAINS CIDR IS)")
        kinds -= _OPERATORS
    elif "BETWEEN" in kinds:
        words.append("BETWEEN, IN, LIKE, ILIKE, PREFIX, SUFFIX, CONTAINS or CIDR")
        kinds -= _OPERATORS
    if "STRING" in kinds:
        words.append("a string in single quotes")
    if "ESCAPE" in kinds:
        words.append("ESCAPE")
    words += [word for kind, word in _COMES_NEXT if kind in kinds]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _hint(found: Token, before: Token | None) -> str:
    if found.type == "QUOTED":
        return " (strings stand in single quotes, attribute names in double quotes)"
    if found.type == "COMPARISON" and before is not None and before.type == "COMPARISON":
        return " ('equal' is =)" if before == "=" else ""
    word = "" if before is None else before.upper()
    if found.type == "NULL" and before is not None:
        if before.type == "COMPARISON":
            return " (write IS NULL or IS NOT NULL)"
        return " (a list has no NULL: write OR a IS NULL)" if before.type in ("LPAR", "COMMA") else ""
    if found.type == "LSQB":
        if before is not None and before.type == "COMPARISON":
            return " (a list is ARRAY['a', 'b'])"
        return ' (other attribute names stand in double quotes: "My-Prop")' if word != "ARRAY" else ""
    if found.type == "LPAR" and before is not None:
        return _hint_of_call(word) if before.type in ("NAME", "ANY", "ALL", "ARRAY", "CONTAINS") else ""
    if before is not None and before.type == "IN":
        return " (IN takes a list in parentheses; for an array: tags CONTAINS ALL ('a'))"
    return ""


def _hint_of_call(word: str) -> str:
    """Return the hint for a name before a parenthesis: a function of another language."""
    if word == "EXISTS":
        return " (write a IS NOT NULL)"
    if word in ("NOW", "CURRENT_TIMESTAMP", "GETDATE", "SYSDATE"):
        return " (there is no clock: write TIMESTAMP '2013-01-01 05:00:00')"
    if word in ("ANY", "ALL", "ARRAY", "CONTAINS") or word.startswith("ARRAY_"):
        return " (for arrays: tags CONTAINS ALL ('a', 'b'), tags = ARRAY['a', 'b'], SIZE(tags) > 2)"
    return " (the functions are UPPER, LOWER and SIZE; CESQL 'LENGTH(a) < 9' has more)"
