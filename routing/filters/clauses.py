"""A clause of a normal form: a conjunction with one domain per attribute.

Rules
-----
* An attribute that a clause does not name is unconstrained: it may have any value, or be missing. No clause names an
  attribute whose domain is everything, or nothing.
* Computed values (`computed`) are constrained in the same way but stored separately: the index handles attributes
  only, and the events that pass it are then tested against the computed values.

Source: paper 1, section 2 (sp: a conjunction of constraints); paper 3, definitions 3 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ...protocol.batch import EventBatch, Mask, Rows
from ...protocol.values import Value
from .arrays import computed_terms
from .computed import Computed, Key, key_text, universe
from .domains import Domain
from .masks import domain_mask, mask_of
from .numbers import Chosen
from .printing import domain_text
from .samples import UNKNOWN, sample, variations

Event: TypeAlias = Mapping[str, Value]
Test: TypeAlias = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class Clause:
    """A conjunction: (attribute, domain) pairs in rising order of the name, none of them everything.

    Attributes
    ----------
    constraints
        The constraints on attributes.
    computed
        The constraints on computed values, in rising order of their text.
    """

    constraints: tuple[tuple[str, Domain], ...]
    computed: tuple[tuple[Computed, Domain], ...] = ()
    _domains: dict[Key, Domain] | None = field(default=None, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        return Clause, (self.constraints, self.computed) if self.computed else (self.constraints,)

    def __str__(self) -> str:
        terms = [domain_text(name, domain) for name, domain in self.constraints]
        terms += computed_terms(self.computed)
        return " AND ".join(terms) or "TRUE"

    @property
    def domains(self) -> dict[Key, Domain]:
        """All constraints, by attribute or computed value; callers must not change the mapping."""
        domains = self._domains
        if domains is None:
            domains = {**dict(self.constraints), **dict(self.computed)}
            object.__setattr__(self, "_domains", domains)
        return domains

    def without(self, key: Key) -> Clause:
        """Return the clause without the constraint on `key`."""
        return Clause(
            tuple(item for item in self.constraints if item[0] != key),
            tuple(item for item in self.computed if item[0] != key),
        )

    def covers(self, other: Clause) -> bool:
        """Return True only if this clause matches every event that `other` matches; exact except for patterns."""
        theirs = other.domains
        for name, domain in self.constraints:
            its = theirs.get(name)
            if its is None and other.computed:
                its = other.implied(name)
            if its is None or not domain.covers(its):
                return False
        for key, domain in self.computed:
            its = theirs.get(key)
            if its is None:
                if not any(known.implies(held, key, domain) for known, held in other.computed):
                    return False
            elif not domain.covers(its):
                return False
        return True

    def implied(self, name: str) -> Domain | None:
        """Return where its computed values leave an attribute; None if they say nothing about it."""
        found = (key.implied(domain, name) for key, domain in self.computed)
        return next((domain for domain in found if domain is not None), None)

    def intersect(self, other: Clause) -> Clause | None:
        """Return the clause that matches what both match, or None when that is known to be nothing."""
        domains = dict(self.domains)
        for name, domain in other.domains.items():
            mine = domains.get(name)
            if mine is not None:
                domain = mine.intersect(domain)
                if domain.is_empty:
                    return None
            domains[name] = domain
        both = clause_of(domains)
        return None if both.computed and both._excludes(both) else both

    def disjoint(self, other: Clause) -> bool:
        """Return True only if no event matches both; exact except for patterns."""
        theirs = other.domains
        if any(
            name in theirs and domain.intersect(theirs[name]).is_empty
            for name, domain in self.domains.items()
        ):
            return True
        return bool(self.computed or other.computed) and (self._excludes(other) or other._excludes(self))

    def _excludes(self, other: Clause) -> bool:
        """Return True only if computed values leave an attribute where another clause does not want it."""
        left = ((self.implied(name), domain) for name, domain in other.constraints)
        return any(implied is not None and implied.intersect(domain).is_empty for implied, domain in left)

    def subtract(self, other: Clause) -> list[Clause]:
        """Return disjoint clauses that together match what this clause matches and `other` does not."""
        if self.disjoint(other):
            return [self]
        pieces: list[Clause] = []
        inside = dict(self.domains)
        for name, domain in other.domains.items():
            mine = inside.get(name) or universe(name)
            pieces += [clause_of({**inside, name: outside}) for outside in mine.subtract(domain)]
            inside[name] = mine.intersect(domain)
        return pieces

    def test(self) -> Test:
        """Return a fast function that tells whether an event matches."""
        if self.computed:
            return self._test_computed()
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

    def _test_computed(self) -> Test:
        first = Clause(self.constraints).test()
        tests = [(key.value, domain.test()) for key, domain in self.computed]
        return lambda event: first(event) and all(holds(value(event)) for value, holds in tests)

    def mask(self, batch: EventBatch) -> Mask:
        """Return one boolean per event of the batch: whether it matches."""
        hits = np.ones(len(batch), np.bool_)
        for name, domain in self.constraints:
            hits &= domain_mask(batch, name, domain)
            if not hits.any():
                return hits
        if self.computed:
            rows = hits.nonzero()[0]
            hits[rows] = self.mask_computed(batch, rows)
        return hits

    def mask_computed(self, batch: EventBatch, rows: Rows) -> Mask:
        """Return, for each of these events, whether all computed values are in their domains."""
        hits, chosen = np.ones(len(rows), np.bool_), Chosen(batch, rows)
        for key, domain in self.computed:
            hits &= mask_of(key.columns(chosen), len(rows), domain)
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
        return self._witness_of_computed(event) if self.computed else event

    def _witness_of_computed(self, event: dict[str, Value]) -> dict[str, Value] | None:
        matches = self.test()
        names = dict.fromkeys(name for key, _ in self.computed for name in key.names())
        domains = {name: self.domains.get(name, Domain.ANYTHING) for name in names}
        return next(filter(matches, variations(event, domains)), None)

    def sort_key(self) -> tuple[object, ...]:
        """Return a key that gives clauses a total order."""
        return (
            tuple((name, domain.sort_key()) for name, domain in self.constraints),
            tuple((key.text, domain.sort_key()) for key, domain in self.computed),
        )


def clause_of(domains: Mapping[Key, Domain]) -> Clause:
    """Return the clause of these constraints, without domains that constrain nothing."""
    constraints: list[tuple[str, Domain]] = []
    computed: list[tuple[Computed, Domain]] = []
    for key, domain in domains.items():
        if isinstance(key, str):
            if not domain.is_anything:
                constraints.append((key, domain))
        elif domain != key.universe:
            computed.append((key, domain))
    return Clause(tuple(sorted(constraints, key=_text)), tuple(sorted(computed, key=_text)))


def _text(item: tuple[Key, Domain]) -> str:
    return key_text(item[0])
