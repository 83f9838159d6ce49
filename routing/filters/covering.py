"""Covering, intersection and merging of filters.

Rules
-----
* :func:`covers` has no false positives. It is exact for everything except patterns (LIKE with an inner wildcard,
  SUFFIX, CONTAINS), where it may have false negatives, and past :data:`STEPS_MAX`, where it returns False.
* Covering is first decided clause by clause; most filters have one clause, and then this is the complete answer.
  Otherwise each remaining clause is compared with the union of the other filter's clauses, which are subtracted one
  after the other until nothing is left.
* A sample event that `g` matches and `f` does not gives the answer False before any subtraction.

Source: paper 3, definition 5 (covering); section 2 of paper 1. Covering by unions of clauses is our addition.
"""

from __future__ import annotations

from typing import Final

from ...protocol.errors import FilterTooComplex
from .filter import CLAUSES_MAX, Clause, Filter, union_of

__all__ = ["STEPS_MAX", "covers", "intersects", "merge"]

STEPS_MAX: Final = 4096
"""How many subtractions :func:`covers` may make before it returns False: about 0.1 s at worst."""


def covers(f: Filter, g: Filter) -> bool:
    """Return True only if `f` matches every event that `g` matches."""
    if f is g:
        return True
    mine = f.clauses
    if len(mine) == 1:
        only = mine[0]
        for clause in g.clauses:  # noqa: SIM110 - the hot path; all() would cost a generator
            if not only.covers(clause):
                return False
        return True
    left = [clause for clause in g.clauses if not any(own.covers(clause) for own in mine)]
    if not left:
        return True
    if not mine:
        return False
    for witness in g.witnesses():
        if witness is not None and not f.holds(witness):
            return False
    steps = 0
    for clause in left:
        steps = _steps_to_cover(clause, mine, steps)
        if steps > STEPS_MAX:
            return False
    return True


def _steps_to_cover(clause: Clause, clauses: tuple[Clause, ...], steps: int) -> int:
    """Return `steps` plus those needed to subtract everything; more than the limit when something is left."""
    pieces = [clause]
    near = [other for other in clauses if not other.disjoint(clause)]
    # A clause with attributes that `clause` does not name cuts it into the most pieces, so it comes last.
    for other in sorted(near, key=lambda other: len(other.domains.keys() - clause.domains.keys())):
        steps += len(pieces)
        if steps > STEPS_MAX:
            break
        pieces = [rest for piece in pieces for rest in piece.subtract(other)]
        if not pieces:
            return steps
    return STEPS_MAX + 1


def intersects(f: Filter, g: Filter) -> bool:
    """Return False only if no event matches both; True may be wrong only where there are patterns."""
    return any(not mine.disjoint(its) for mine in f.clauses for its in g.clauses)


def merge(f: Filter, g: Filter, clauses_max: int = CLAUSES_MAX) -> Filter | None:
    """Return a filter that matches exactly what either matches, or None past `clauses_max` clauses."""
    try:
        return union_of((*f.clauses, *g.clauses), clauses_max)
    except FilterTooComplex:
        return None
