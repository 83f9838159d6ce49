"""A filter in normal form: a disjunction of clauses, each with one domain per attribute.

Rules
-----
* Two filters that were written differently but have the same normal form are equal, have the same hash, and are one
  node of a routing table.
* An attribute that a clause does not name is unconstrained: it may have any value, or be missing.
* A filter without clauses matches nothing; a filter with an empty clause matches everything.
* Compiled tests stay in the process: only the clauses of a filter are serialised.

Source: paper 1, section 2 (sp: a conjunction of constraints); paper 3, definitions 3 and 4. The disjunction is our
addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from ...protocol.batch import EventBatch, Mask
from ...protocol.checks import flag, instance, whole_number, wrong
from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.gathering import event_of
from ...protocol.values import Value
from ...protocol.ways import NestedEvent
from ..language.patterns import parse_pattern
from ..language.predicates import And, Only, Predicate
from ..language.relations import names_of
from ..language.selectors import Dialect, parse_selector
from .clauses import Clause, Event, Test, clause_of
from .computed import key_text
from .nested import NestedTest
from .normal import CLAUSES_MAX, clauses_of, reduce_clauses
from .printing import CHARACTERS_MAX, characters_at_most

__all__ = [
    "CLAUSES_MAX",
    "EVERYTHING_FILTER",
    "NOTHING_FILTER",
    "Clause",
    "Filter",
    "FilterLike",
    "clause_of",
    "normalize_predicate",
    "to_filter",
    "to_predicate",
    "union_of",
]


@dataclass(frozen=True, slots=True, repr=False)
class Filter:
    """A disjunction of clauses in their canonical order."""

    clauses: tuple[Clause, ...]
    _hash: int | None = field(default=None, init=False, compare=False)
    _test: Test | None = field(default=None, init=False, compare=False)
    _nested: NestedTest | None = field(default=None, init=False, compare=False)
    _witnesses: tuple[dict[str, Value] | None, ...] | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.clauses) is not tuple or not all(type(clause) is Clause for clause in self.clauses):
            raise wrong(
                "clauses", self.clauses, "a tuple of clauses; to_filter makes a filter", SelectorError
            )

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self.clauses)
            object.__setattr__(self, "_hash", known)
        return known

    def __reduce__(self) -> tuple[object, ...]:
        return Filter, (self.clauses,)

    def __str__(self) -> str:
        """Return a selector that parses to an equal filter."""
        return " OR ".join(map(str, self.clauses)) or "FALSE"

    def __repr__(self) -> str:
        return f"Filter({str(self)!r})"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that the filter uses, in order."""
        names = {name for clause in self.clauses for name, _ in clause.constraints}
        names |= {name for clause in self.clauses for key, _ in clause.computed for name in key.names()}
        return tuple(sorted(names))

    def matches(self, event: Mapping[str, object]) -> bool:
        """Return whether an event matches: whether a subscriber with this filter would receive it.

        Parameters
        ----------
        event
            The event as it would be published: attribute name to value. A value may be a mapping or a list;
            numpy's and pandas' values and datetimes are read; None and NaN are missing.

        Raises
        ------
        EventError
            If it could not be published.
        """
        return self.holds(event_of(event))

    def holds(self, event: Event) -> bool:
        """Return whether an event of a batch matches: one that was read by `event_of`, or by `EventBatch.events`."""
        if type(event) is NestedEvent:
            return self._for_nested().holds(event)
        return self._for_flat()(event)

    def _for_nested(self) -> NestedTest:
        test = self._nested
        if test is None:
            test = NestedTest(self.clauses)
            object.__setattr__(self, "_nested", test)
        return test

    def _for_flat(self) -> Test:
        test = self._test
        if test is None:
            test = _any_test([clause.test() for clause in self.clauses])
            object.__setattr__(self, "_test", test)
        return test

    def evaluate_batch(self, batch: EventBatch, *, every: bool = False) -> Mask:
        """Return one boolean per event of the batch: whether it matches.

        An event with arrays matches if one of its ways does; with `every`, if all of them do.
        """
        nested = instance("batch", batch, EventBatch, "an EventBatch").nested()
        if nested is not None:
            found = np.zeros(len(batch), np.bool_)
            found[nested.flat_rows] = self.evaluate_batch(nested.flat)
            test, whole = self._for_nested(), self._for_flat()
            if every:
                found[nested.rows] = [test.always_holds(event, whole) for event in nested.events]
            else:
                found[nested.rows] = [test.holds(event) for event in nested.events]
            return found
        hits = np.zeros(len(batch), np.bool_)
        for clause in self.clauses:
            hits |= clause.mask(batch)
        return hits

    def witnesses(self) -> tuple[dict[str, Value] | None, ...]:
        """Return for each clause an event that it matches, or None where none was found.

        The events are computed once, then cached. A filter that covers this one matches all of them.
        """
        known = self._witnesses
        if known is None:
            known = tuple(clause.witness() for clause in self.clauses)
            object.__setattr__(self, "_witnesses", known)
        return known


NOTHING_FILTER: Final = Filter(())
EVERYTHING_FILTER: Final = Filter((Clause(()),))

FilterLike: TypeAlias = Filter | Predicate | str | Mapping[str, object]
"""Any description of a filter: a `Filter`, a condition, selector text, or a JSON pattern."""


def to_predicate(given: Predicate | str | Mapping[str, object], *, dialect: Dialect = "rayvous") -> Predicate:
    """Return the condition of a selector text or a JSON pattern; a condition is returned unchanged.

    Parameters
    ----------
    dialect
        The language of selector text; ignored for other input.

    Raises
    ------
    SelectorError
        If the input cannot be parsed; the message says where.
    """
    if isinstance(given, Predicate):
        return given
    if isinstance(given, str):
        return parse_selector(given, dialect)
    if isinstance(given, Mapping):
        return parse_pattern(given)
    raise SelectorError(
        f"a {type(given).__name__} is not a filter: give selector text, attr(...) conditions or a JSON pattern"
    )


def to_filter(
    given: FilterLike, clauses_max: int = CLAUSES_MAX, *, dialect: Dialect = "rayvous", exact: bool = False
) -> Filter:
    """Return the normal form of any description of a filter: `language.doubts.to_filter`, with no look for doubts."""
    whole_number("clauses_max", clauses_max, 1)
    if flag("exact", exact):
        condition = to_predicate(str(given) if isinstance(given, Filter) else given, dialect=dialect)
        return normalize_predicate(And((condition, Only(tuple(names_of(condition))))), clauses_max)
    if isinstance(given, Filter):
        return given
    return normalize_predicate(to_predicate(given, dialect=dialect), clauses_max)


def normalize_predicate(predicate: Predicate, clauses_max: int = CLAUSES_MAX) -> Filter:
    """Return the filter that matches the events for which a condition is true.

    Parameters
    ----------
    clauses_max
        The maximum number of clauses of the result and of intermediate results.

    Raises
    ------
    FilterTooComplex
        If it would have more, or is longer than `CHARACTERS_MAX` as a selector; the message says what to do.
    """
    found = Filter(clauses_of(predicate, clauses_max))
    at_most = sum(
        characters_at_most(key_text(key), domain)
        for clause in found.clauses
        for key, domain in clause.domains.items()
    )
    if at_most > CHARACTERS_MAX and len(str(found)) > CHARACTERS_MAX:
        raise FilterTooComplex(
            f"the filter's normal form has {len(str(found))} characters as a selector, "
            f"the limit is {CHARACTERS_MAX}: split it into several subscriptions"
        )
    return found


def union_of(clauses: Iterable[Clause], clauses_max: int = CLAUSES_MAX) -> Filter:
    """Return the filter that matches the events of any of the clauses; FilterTooComplex past the limit."""
    return Filter(reduce_clauses(clauses, clauses_max))


def _any_test(tests: list[Test]) -> Test:
    if not tests:
        return lambda event: False
    if len(tests) == 1:
        return tests[0]

    def test(event: Event) -> bool:
        for holds in tests:  # noqa: SIM110 - any() with a generator takes twice the time
            if holds(event):
                return True
        return False

    return test
