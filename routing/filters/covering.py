"""Whether a filter matches all that another matches, or some of it; and the filter of what either matches.

Rules
-----
* :func:`covers` never says yes when it is not so. It is exact for everything but patterns (LIKE with an inner
  wildcard, SUFFIX, CONTAINS), where it may say no too often, and past :data:`STEPS_MAX`, where it says no.
* First clause by clause: most filters have one, and then this is the whole answer. Then a clause against the
  union of the other's clauses, by taking one after the other away from it until nothing is left.
* A sample event that `g` matches and `f` does not settles the matter before anything is taken apart.

Source: paper 3, definition 5 (covering); section 2 of paper 1. Unions of clauses are ours.
"""

from __future__ import annotations

from typing import Final

from ...protocol.errors import FilterTooComplex
from .filter import CLAUSES_MAX, Clause, Filter, union_of

__all__ = ["STEPS_MAX", "covers", "intersects", "merge"]

STEPS_MAX: Final = 4096
"""How many subtractions :func:`covers` may make before it gives up and says no: some 0.1 s at worst."""


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
        if witness is not None and not f.matches(witness):
            return False
    steps = 0
    for clause in left:
        steps = _steps_to_cover(clause, mine, steps)
        if steps > STEPS_MAX:
            return False
    return True


def _steps_to_cover(clause: Clause, clauses: tuple[Clause, ...], steps: int) -> int:
    """Return `steps` plus those after which nothing is left; past the limit when something is."""
    pieces = [clause]
    near = [other for other in clauses if not other.disjoint(clause)]
    # A clause about attributes that `clause` does not name cuts it into the most pieces: it comes last.
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
