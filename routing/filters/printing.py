"""A normal form as selector text, such that reading the text gives the same normal form again.

Rules
-----
* One constraint is one term of an AND; where it needs an OR of its own it is put in parentheses, so that it
  is read as one constraint again and not spread over clauses.
* Text is for people: points are ``=`` and ``IN``, closed pairs are ``BETWEEN``, prefixes are ``PREFIX``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ...protocol.values import Timestamp
from .domains import BOTH, Domain
from .intervals import EVERYTHING, Interval, Intervals, complement, prefix_interval, settle_strings
from .likes import LikePattern
from .strings import Strings, implied_intervals

KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "TRUE", "FALSE"))
"""Words that cannot be attribute names unless they stand in double quotes."""

PLAIN_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$.]*\Z")
ESCAPE: Final = "\\"
CHARACTERS_MAX: Final = 128 * 1024
"""How long a filter may be, as a selector: as it is read, and in normal form. So every filter's text can be read."""
_TERM_CHARACTERS: Final = 128
"""More than a term has beside its name and its strings."""

_Literal = Callable[[Any], str]


def name_text(name: str) -> str:
    """Return an attribute name as it stands in a selector: bare, or in double quotes where it must."""
    if PLAIN_NAME.match(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def string_text(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("'", "''") + "'"


def number_text(value: float) -> str:
    """Return a number literal that reads back as the same number."""
    return repr(value)


def timestamp_text(nanoseconds: int) -> str:
    """Return a timestamp literal."""
    return f"TIMESTAMP '{Timestamp(nanoseconds).isoformat()}'"


def clauses_text(clauses: Iterable[tuple[tuple[str, Domain], ...]]) -> str:
    """Return the selector of a disjunction of clauses."""
    parts = [clause_text(clause) for clause in clauses]
    return " OR ".join(parts) if parts else "FALSE"


def text_fits(clauses: Sequence[tuple[tuple[str, Domain], ...]], characters: int) -> bool:
    """Return whether the selector has at most so many characters; one that is surely shorter is not made."""
    at_most = sum(_characters_at_most(name, domain) for clause in clauses for name, domain in clause)
    return at_most <= characters or len(clauses_text(clauses)) <= characters


def _characters_at_most(name: str, domain: Domain) -> int:
    strings = domain.strings
    terms = 8 + sum(map(len, (domain.numbers, domain.timestamps, strings.intervals, strings.likes)))
    bounds = [bound for i in strings.intervals for bound in (i.low, i.high) if isinstance(bound, str)]
    texts = sum(map(len, bounds)) + sum(len(piece) + 1 for like in strings.likes for piece in like.pattern)
    return terms * (_TERM_CHARACTERS + 4 * len(name)) + 4 * texts


def clause_text(constraints: tuple[tuple[str, Domain], ...]) -> str:
    """Return the selector of one clause."""
    return " AND ".join(domain_text(name, domain) for name, domain in constraints) or "TRUE"


def domain_text(name: str, domain: Domain) -> str:
    """Return the condition that an attribute is in a domain, in parentheses where it is an OR."""
    name = name_text(name)
    if domain == Domain.PRESENT:
        return f"{name} IS NOT NULL"
    terms = [f"{name} IS NULL"] if domain.missing else []
    if domain.booleans == BOTH:
        terms.append(f"{name} IN (FALSE, TRUE)")
    else:
        terms += [f"{name} = {str(value).upper()}" for value in domain.booleans]
    terms += _intervals_terms(name, domain.numbers, number_text)
    terms += _strings_terms(name, domain.strings)
    terms += _intervals_terms(name, domain.timestamps, timestamp_text)
    return _any_of(terms)


def _any_of(terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else "(" + " OR ".join(terms) + ")"


def _intervals_terms(name: str, intervals: Intervals, literal: _Literal) -> list[str]:
    """Return the terms of an OR that say that the attribute is in the intervals."""
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
        terms.insert(0, _any_of(_string_intervals_terms(name, intervals)))
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


def _like_text(name: str, like: LikePattern) -> str:
    word = "NOT " if like.negated else ""
    if like.is_suffix or like.is_contains:
        text = "".join(element or "" for element in like.pattern[1])
        return f"{name} {word}{'SUFFIX' if like.is_suffix else 'CONTAINS'} {string_text(text)}"
    text, escaped = pattern_text(like)
    return f"{name} {word}LIKE {string_text(text)}" + (f" ESCAPE {string_text(ESCAPE)}" if escaped else "")


def pattern_text(like: LikePattern) -> tuple[str, bool]:
    """Return a pattern as LIKE text, and whether it uses :data:`ESCAPE`."""
    escaped = any(element in ("%", "_", ESCAPE) for piece in like.pattern for element in piece)
    special = ("%", "_", ESCAPE) if escaped else ()
    pieces = (
        "".join("_" if e is None else ESCAPE + e if e in special else e for e in piece)
        for piece in like.pattern
    )
    return "%".join(pieces), escaped
