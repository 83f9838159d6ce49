"""A clause of a normal form: a conjunction, one domain an attribute.

Rule: an attribute that a clause does not name is unconstrained: it may be anything, or missing. No clause
names an attribute whose domain is everything, or nothing.

Source: paper 1, section 2 (sp: a conjunction of constraints); paper 3, definitions 3 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...protocol.batch import EventBatch, Mask
from ...protocol.values import Value
from .domains import Domain
from .masks import domain_mask
from .printing import clause_text
from .samples import UNKNOWN, sample

Event: TypeAlias = Mapping[str, Value]
Test: TypeAlias = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class Clause:
    """A conjunction: (attribute, domain) pairs in rising order of the name, none of them everything."""

    constraints: tuple[tuple[str, Domain], ...]
    _domains: dict[str, Domain] | None = field(default=None, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Clause, (self.constraints,)

    def __str__(self) -> str:
        return clause_text(self.constraints)

    @property
    def domains(self) -> dict[str, Domain]:
        """The constraints by attribute; do not change it."""
        domains = self._domains
        if domains is None:
            domains = dict(self.constraints)
            object.__setattr__(self, "_domains", domains)
        return domains

    def covers(self, other: Clause) -> bool:
        """Return True only if every event that `other` matches is matched by this; exact but for patterns."""
        theirs = other.domains
        for name, domain in self.constraints:
            its = theirs.get(name)
            if its is None or not domain.covers(its):
                return False
        return True

    def intersect(self, other: Clause) -> Clause | None:
        """Return the clause of what both match, or None when that is known to be nothing."""
        domains = dict(self.domains)
        for name, domain in other.constraints:
            mine = domains.get(name)
            if mine is not None:
                domain = mine.intersect(domain)
                if domain.is_empty:
                    return None
            domains[name] = domain
        return clause_of(domains)

    def disjoint(self, other: Clause) -> bool:
        """Return True only if no event matches both; exact but for patterns."""
        theirs = other.domains
        return any(
            name in theirs and domain.intersect(theirs[name]).is_empty for name, domain in self.constraints
        )

    def subtract(self, other: Clause) -> list[Clause]:
        """Return disjoint clauses that together match what this matches and `other` does not."""
        if self.disjoint(other):
            return [self]
        pieces: list[Clause] = []
        inside = dict(self.domains)
        for name, domain in other.constraints:
            mine = inside.get(name, Domain.ANYTHING)
            pieces += [clause_of({**inside, name: outside}) for outside in mine.subtract(domain)]
            inside[name] = mine.intersect(domain)
        return pieces

    def test(self) -> Test:
        """Return a fast function that says whether an event matches."""
        tests = [(name, domain.test()) for name, domain in self.constraints]
        if not tests:
            return lambda event: True
        if len(tests) == 1:
            ((name, holds),) = tests
            return lambda event: holds(event.get(name))
        if len(tests) == 2:
            (name, holds), (name_2, holds_2) = tests
            return lambda event: holds(event.get(name)) and holds_2(event.get(name_2))

        def test(event: Event) -> bool:
            for name, holds in tests:  # noqa: SIM110 - all() with a generator takes twice the time
                if not holds(event.get(name)):
                    return False
            return True

        return test

    def mask(self, batch: EventBatch) -> Mask:
        """Return one boolean an event of the batch: whether it matches."""
        hits = np.ones(len(batch), np.bool_)
        for name, domain in self.constraints:
            hits &= domain_mask(batch, name, domain)
            if not hits.any():
                break
        return hits

    def witness(self) -> dict[str, Value] | None:
        """Return an event that matches, or None when none was found."""
        event: dict[str, Value] = {}
        for name, domain in self.constraints:
            value = sample(domain)
            if value is UNKNOWN:
                return None
            if value is not None:
                event[name] = value  # type: ignore[assignment]  # UNKNOWN has been dealt with
        return event

    def sort_key(self) -> tuple[Any, ...]:
        """Return a key that gives clauses a total order."""
        return tuple((name, domain.sort_key()) for name, domain in self.constraints)


def clause_of(domains: Mapping[str, Domain]) -> Clause:
    """Return the clause of these constraints; those that are no constraint at all are left out."""
    return Clause(tuple(sorted((item for item in domains.items() if not item[1].is_anything), key=_first)))


def _first(item: tuple[str, Domain]) -> str:
    return item[0]
