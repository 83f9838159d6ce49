"""A normal form as selector text; parsing the text gives the same normal form.

Rules
-----
* One constraint is one term of an AND. A constraint that needs an OR is put in parentheses, so that it is parsed
  as one constraint and not distributed over clauses.
* The text is meant for people: points are ``=`` and ``IN``, closed pairs are ``BETWEEN``, prefixes are ``PREFIX``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Any, Final

from ...protocol.values import Timestamp, Value
from ..language.expressions import Arithmetic, Expression, Literal, Ref, Size
from ..language.values import CHARACTERS_MAX as CHARACTERS_MAX
from .domains import BOTH, Domain
from .intervals import EVERYTHING, Interval, Intervals, complement, prefix_interval, settle_strings
from .likes import LikePattern
from .networks import Network
from .strings import Strings, TextCondition, implied_intervals

KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "TRUE", "FALSE"))
"""Words that can be attribute names only in double quotes."""

PLAIN_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$.]*\Z")
ESCAPE: Final = "\\"
_TERM_CHARACTERS: Final = 128
"""An upper bound on the length of a term without its name and its strings."""

_ABSENT: Final = {
    (True, True): "{} IS NULL",
    (True, False): "{} IS MISSING",
    (False, True): "{0} IS NULL AND {0} IS NOT MISSING",
}
"""Conditions for an attribute without a value, by (missing, null)."""
_Literal = Callable[[Any], str]


def is_word(text: str, words: Set[str]) -> bool:
    """Return whether a text is one of these words, in any case; only ASCII letters count."""
    return text.isascii() and text.upper() in words


def name_text(name: str) -> str:
    """Return an attribute name in selector syntax: bare, or in double quotes where necessary."""
    if PLAIN_NAME.match(name) and not is_word(name, KEYWORDS):
        return name
    return '"' + name.replace('"', '""') + '"'


def string_text(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("'", "''") + "'"


def number_text(value: float) -> str:
    """Return a number literal that parses as the same number."""
    return repr(value)


def timestamp_text(nanoseconds: int) -> str:
    """Return a timestamp literal."""
    return f"TIMESTAMP '{Timestamp(nanoseconds).isoformat()}'"


def literal_text(value: Value) -> str:
    """Return a value in selector syntax."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return string_text(value)
    return timestamp_text(value) if isinstance(value, Timestamp) else number_text(value)


def expression_text(expression: Expression) -> str:
    """Return an expression in selector syntax, with parentheses only where parsing requires them."""
    match expression:
        case Ref(name):
            return name_text(name)
        case Literal(value):
            return literal_text(value)
        case Size(name):
            return f"SIZE({name_text(name)})"
        case Arithmetic(op, left, right):
            one, other = expression_text(left), expression_text(right)
            if op in "*/" and isinstance(left, Arithmetic) and left.op in "+-":
                one = f"({one})"
            if isinstance(right, Arithmetic) and (op in "*/" or right.op in "+-"):
                other = f"({other})"
            return f"{one} {op} {other}"


def characters_at_most(name: str, domain: Domain) -> int:
    """Return an upper bound on the length of a constraint as selector text, without generating the text."""
    strings, texts = domain.strings, 0
    terms = 8 + len(domain.numbers) + len(domain.timestamps) + len(strings.intervals) + len(strings.likes)
    for interval in strings.intervals:
        for bound in (interval.low, interval.high):
            if type(bound) is str:
                texts += len(bound)
    for like in strings.likes:
        texts += like.characters
    return terms * (_TERM_CHARACTERS + 4 * len(name)) + 4 * texts


def domain_text(name: str, domain: Domain) -> str:
    """Return the condition that an attribute is in a domain, in parentheses if it is an OR."""
    text = name_text(name)
    if domain == Domain.PRESENT:
        return f"{text} IS NOT NULL"
    if domain == Domain.THERE:
        return f"{text} IS NOT MISSING"
    return condition_text(text, domain, _ABSENT.get((domain.missing, domain.null), ""))


def condition_text(name: str, domain: Domain, absent: str = "{} IS NULL") -> str:
    """Return the condition that the operand with this text is in a domain, in parentheses if it is an OR."""
    terms = [absent.format(name)] if domain.missing or domain.null else []
    if domain.booleans == BOTH:
        terms.append(f"{name} IN (FALSE, TRUE)")
    else:
        terms += [f"{name} = {str(value).upper()}" for value in domain.booleans]
    terms += _intervals_terms(name, domain.numbers, number_text)
    terms += _strings_terms(name, domain.strings)
    terms += _intervals_terms(name, domain.timestamps, timestamp_text)
    return any_of(terms)


def any_of(terms: list[str]) -> str:
    """Return the OR of terms, in parentheses unless there is only one."""
    return terms[0] if len(terms) == 1 else "(" + " OR ".join(terms) + ")"


def _intervals_terms(name: str, intervals: Intervals, literal: _Literal) -> list[str]:
    """Return the terms whose OR states that the attribute is in the intervals."""
    if intervals == EVERYTHING:
        zero = literal(0)
        return [f"{name} < {zero}", f"{name} >= {zero}"]
    outside = _points_term(name, complement(intervals), literal, ("<>", "NOT IN"))
    if outside:
        return [outside]
    inside = tuple(interval for interval in intervals if interval.is_point)
    terms = [_interval_text(name, interval, literal) for interval in intervals if not interval.is_point]
    return terms + ([_points_term(name, inside, literal, ("=", "IN"))] if inside else [])


def _points_term(name: str, intervals: Intervals, literal: _Literal, words: tuple[str, str]) -> str:
    """Return ``name = a`` or ``name IN (a, b)``; '' when not all intervals are single values."""
    if not intervals or not all(interval.is_point for interval in intervals):
        return ""
    texts = [literal(interval.low) for interval in intervals]
    return f"{name} {words[0]} {texts[0]}" if len(texts) == 1 else f"{name} {words[1]} ({', '.join(texts)})"


def _interval_text(name: str, interval: Interval, literal: _Literal) -> str:
    low, high = interval.low, interval.high
    if low is not None and high is not None and not (interval.low_open or interval.high_open):
        return f"{name} BETWEEN {literal(low)} AND {literal(high)}"
    terms = []
    if low is not None:
        terms.append(f"{name} {'>' if interval.low_open else '>='} {literal(low)}")
    if high is not None:
        terms.append(f"{name} {'<' if interval.high_open else '<='} {literal(high)}")
    return " AND ".join(terms)


def _strings_terms(name: str, strings: Strings) -> list[str]:
    if not strings.intervals:
        return []
    intervals = strings.intervals
    if not strings.likes:
        return [f"{name} LIKE '%'"] if intervals == EVERYTHING else _string_intervals_terms(name, intervals)
    terms = [_like_text(name, like) for like in strings.likes]
    if intervals != settle_strings(implied_intervals(strings.likes)):
        terms.insert(0, any_of(_string_intervals_terms(name, intervals)))
    return [" AND ".join(terms)]


def _string_intervals_terms(name: str, intervals: Intervals) -> list[str]:
    outside = settle_strings(complement(intervals))
    if len(outside) == 1 and _is_prefix(outside[0]):
        return [f"{name} NOT PREFIX {string_text(str(outside[0].low))}"]
    prefixes = [interval for interval in intervals if _is_prefix(interval)]
    others = tuple(interval for interval in intervals if interval not in prefixes)
    terms = [f"{name} PREFIX {string_text(str(interval.low))}" for interval in prefixes]
    if not others:
        return terms
    return terms + _intervals_terms(name, others, string_text)


def _is_prefix(interval: Interval) -> bool:
    low = interval.low
    return isinstance(low, str) and not interval.is_point and bool(low) and interval == prefix_interval(low)


def _like_text(name: str, like: TextCondition) -> str:
    word = "NOT " if like.negated else ""
    if isinstance(like, Network):
        return f"{name} {word}CIDR {string_text(str(like))}"
    if like.is_suffix or like.is_contains:
        text = "".join(element or "" for element in like.pattern[1])
        return f"{name} {word}{'SUFFIX' if like.is_suffix else 'CONTAINS'} {string_text(text)}"
    text, escaped = pattern_text(like)
    word += "ILIKE" if like.ignores_case else "LIKE"
    return f"{name} {word} {string_text(text)}" + (f" ESCAPE {string_text(ESCAPE)}" if escaped else "")


def pattern_text(like: LikePattern) -> tuple[str, bool]:
    """Return a pattern as LIKE text, and whether it uses :data:`ESCAPE`."""
    escaped = any(element in ("%", "_", ESCAPE) for piece in like.pattern for element in piece)
    special = ("%", "_", ESCAPE) if escaped else ()
    pieces = (
        "".join("_" if e is None else ESCAPE + e if e in special else e[-1] for e in piece)
        for piece in like.pattern
    )
    return "%".join(pieces), escaped
