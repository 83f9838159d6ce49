"""Comparison of two filters, for users; internally, `covering` does the same for filters in normal form.

Rule: any description of a filter is accepted (selector text, a condition, a JSON pattern); anything else is named
in the error.
"""

from __future__ import annotations

from ...protocol.checks import whole_number
from ..filters import covering
from ..filters.filter import CLAUSES_MAX, Filter, FilterLike, to_filter

__all__ = ["covers", "intersects", "merge"]


def covers(f: FilterLike, g: FilterLike) -> bool:
    """Return True only if `f` matches every event that `g` matches.

    The result is exact for everything except patterns, where it may be falsely negative.

    Raises
    ------
    SelectorError, FilterTooComplex
        If an argument is no filter, or its normal form is too large.
    """
    return covering.covers(to_filter(f), to_filter(g))


def intersects(f: FilterLike, g: FilterLike) -> bool:
    """Return False only if no event matches both; True may be wrong only where there are patterns.

    Raises
    ------
    SelectorError, FilterTooComplex
        If an argument is no filter, or its normal form is too large.
    """
    return covering.intersects(to_filter(f), to_filter(g))


def merge(f: FilterLike, g: FilterLike, clauses_max: int = CLAUSES_MAX) -> Filter | None:
    """Return a filter that matches exactly what either matches, or None past `clauses_max` clauses.

    Raises
    ------
    SelectorError, FilterTooComplex
        If an argument is no filter, or its normal form is too large.
    InputError
        If `clauses_max` is no whole number above 0.
    """
    return covering.merge(to_filter(f), to_filter(g), whole_number("clauses_max", clauses_max, 1))
