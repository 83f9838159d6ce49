"""Whether a clause matches an event with arrays: decided on each choice alone, as far as that is possible.

Rules
-----
* A way of an event takes one option of each choice (`protocol.ways`). Choices are independent, so constraints on
  single attributes hold in one way if each choice has an option in which its constraints hold. This takes as many
  tests as the event has values, however many ways there are.
* Computed values relate attributes of several choices. The ways of the attributes that the clause names are tested one
  by one, in the order of the elements, the first `WAYS_MAX` of them. If one clause covers another, its ways
  are projections of the other's and come no later; so covering stays safe beyond the limit.
* Computed values of whole arrays are the same in all ways: they are tested once.
* "In every way" is decided alike; beyond the limit the answer is no.

Source: docs/decisions/0116-named-parts-of-events.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...protocol.values import Value
from ...protocol.ways import WAYS_MAX, Choice, Names, NestedEvent, Part
from .clauses import Clause, Test

Tests: TypeAlias = Mapping[str, Callable[[Any], bool]]
"""A test of the value of each attribute; a missing value is None."""


class ClauseTest:
    """The tests of one clause for events with arrays."""

    def __init__(self, clause: Clause) -> None:
        self.chosen, self.whole = names_of(clause)
        self._tests: Tests = {name: domain.test() for name, domain in clause.constraints}
        once = [pair for pair in clause.computed if not any(pair[0].chosen_names())]
        self._once: Test | None = Clause((), tuple(once)).test() if once else None
        self._each: Test | None = clause.test() if len(once) < len(clause.computed) else None

    def holds(self, part: Part) -> bool:
        """Return whether the clause matches a way of a part that has at least its names."""
        if self._lacks(part) or not _passes(part, self._tests) or not self._passes_once(part):
            return False
        return self._each is None or any(map(self._each, part.only(self.chosen).ways(WAYS_MAX)))

    def _lacks(self, part: Part) -> bool:
        """Return whether no way of a part has a name that the clause needs."""
        return any(name not in part.names and not test(None) for name, test in self._tests.items())

    def _passes_once(self, part: Part) -> bool:
        return self._once is None or self._once(next(part.ways(1)))

    def always_holds(self, part: Part) -> bool:
        """Return True only if the clause matches all ways of a part that has at least its names."""
        if self._lacks(part) or not _always_passes(part, self._tests) or not self._passes_once(part):
            return False
        if self._each is None:
            return True
        narrowed = part.only(self.chosen)
        return narrowed.count() <= WAYS_MAX and all(map(self._each, narrowed.ways()))


class PartTest:
    """Tests many clauses on one part of an event: equal constraints on one choice are tested once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._chosen = frozenset[str]().union(*(choice.names for choice in part.choices))
        self._known: list[dict[object, bool]] = [{} for _ in part.choices]

    def holds(self, clause: Clause) -> bool:
        """Return whether a clause, of whose names the part has all that the event has, matches a way of it."""
        part = self._part
        for name, domain in clause.constraints:
            if name not in self._chosen and not domain.contains(part.fixed.get(name)):
                return False
        for known, choice in zip(self._known, part.choices, strict=True):
            asked = tuple(pair for pair in clause.constraints if pair[0] in choice.names)
            found = known.get(asked)
            if found is None:
                found = known[asked] = _chooses(choice, {name: domain.test() for name, domain in asked})
            if not found:
                return False
        return not clause.computed or ClauseTest(clause).holds(part)


class NestedTest:
    """The tests of a filter for events with arrays."""

    def __init__(self, clauses: Sequence[Clause]) -> None:
        self._clauses = [ClauseTest(clause) for clause in clauses]
        self.names = Names(
            (name for clause in self._clauses for name in clause.chosen),
            (name for clause in self._clauses for name in clause.whole),
        )

    def holds(self, event: NestedEvent) -> bool:
        """Return whether the filter matches a way of the event."""
        part = event.part(self.names)
        return any(clause.holds(part) for clause in self._clauses)

    def always_holds(self, event: NestedEvent, test: Callable[[Mapping[str, Value]], bool]) -> bool:
        """Return True only if the filter, whose test is given, matches all ways of the event."""
        part = event.part(self.names)
        if any(clause.always_holds(part) for clause in self._clauses):
            return True
        if len(self._clauses) < 2 or part.count() > WAYS_MAX:
            return False
        return all(map(test, part.ways()))


def names_of(clause: Clause) -> tuple[frozenset[str], frozenset[str]]:
    """Return the attributes of which a clause sees one element of an array, and all that it names."""
    plain = [name for name, _ in clause.constraints]
    if not clause.computed:
        only = frozenset(plain)
        return only, only
    chosen = (name for key, _ in clause.computed for name in key.chosen_names())
    every = (name for key, _ in clause.computed for name in key.names())
    return frozenset(plain).union(chosen), frozenset(plain).union(every)


def _passes(part: Part, tests: Tests) -> bool:
    """Return whether a way of the part passes the tests of the names that it has."""
    for name, value in part.fixed.items():
        test = tests.get(name)
        if test is not None and not test(value):
            return False
    return all(_chooses(choice, tests) for choice in part.choices)


def _chooses(choice: Choice, tests: Tests) -> bool:
    asked = choice.names & tests.keys()
    return not asked or any(
        all(tests[name](None) for name in asked - option.names) and _passes(option, tests)
        for option in choice.options
    )


def _always_passes(part: Part, tests: Tests) -> bool:
    """Return whether all ways of the part pass the tests of the names that it has."""
    for name, value in part.fixed.items():
        test = tests.get(name)
        if test is not None and not test(value):
            return False
    for choice in part.choices:
        asked = choice.names & tests.keys()
        for option in choice.options if asked else ():
            if not (
                all(tests[name](None) for name in asked - option.names) and _always_passes(option, tests)
            ):
                return False
    return True
