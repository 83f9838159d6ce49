"""Selectors that are plain rows of comparisons, ``symbol = 'S17' AND price > 50.25``, read without the parser.

Rules
-----
* What is read here is read as the parser reads it; everything else, and everything that is an error, is left to the
  parser. Most subscribers write such a row, and the parser takes some twenty times as long for it.
* A row has names without quotes that are no keywords, comparisons with a string, an integer or a decimal, and AND.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from ...protocol.errors import FilterTooComplex, SelectorError
from ..filters.printing import is_word
from . import predicates as p

_BLANK: Final = r"[ \t\r\n]"
_TERM: Final = re.compile(
    rf"{_BLANK}*+([A-Za-z_$][A-Za-z0-9_$.]*+){_BLANK}*+(<>|!=|<=|>=|=|<|>){_BLANK}*+"
    rf"(?:'([^']*+)'|(-?(?:0|[1-9][0-9]{{0,17}}+))(\.[0-9]{{1,17}}+)?+)(?:{_BLANK}++|\Z)"
)
_AND: Final = re.compile(r"AND(?=[ \t\r\n])", re.ASCII | re.IGNORECASE)


def row_of(text: str, keywords: Set[str]) -> p.Predicate | None:
    """Return the condition of a row of comparisons, or None if the text may be something else."""
    try:
        return _row_of(text, keywords)
    except (SelectorError, FilterTooComplex):
        return None


def _row_of(text: str, keywords: Set[str]) -> p.Predicate | None:
    terms: list[p.Predicate] = []
    place = 0
    while (found := _TERM.match(text, place)) is not None:
        name, op, string, whole, fraction = found.groups()
        if is_word(name, keywords):
            return None
        value = string if whole is None else int(whole) if fraction is None else float(whole + fraction)
        terms.append(p.Compare(name, "<>" if op == "!=" else op, value))
        place = found.end()
        if place == len(text):
            return terms[0] if len(terms) == 1 else p.And(tuple(terms))
        joined = _AND.match(text, place)
        if joined is None:
            return None
        place = joined.end()
    return None
