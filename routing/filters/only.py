"""Whether an event has no attributes but some: paper 3's definition 4, where each attribute has to be spoken of.

Rules
-----
* An *exact* filter is one whose clauses say so of the names that it uses (`to_filter(..., exact=True)`). The same
  conditions without it cover it. It covers only filters that say so of some of its names, and merges into one clause
  only with a filter that is exact in the same names.
* It is a computed value: a filter without it costs nothing, and one with it is tested for the events that its other
  constraints accept.
* It is about the event as a whole. An event with arrays has the attributes of all their elements in each of its ways.

Source: paper 3, definition 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ...protocol.batch import Column
from ...protocol.values import Kind, Value
from ...protocol.ways import names_at
from .computed import Computed
from .domains import BOTH, Domain
from .numbers import Chosen
from .printing import any_of, name_text

__all__ = ["OnlyNames"]

_YES: Final = Domain(booleans=frozenset((True,)))


@dataclass(frozen=True, eq=False)
class OnlyNames(Computed):
    """Whether an event has no attribute other than these, which are in order."""

    attributes: tuple[str, ...]
    universe = Domain(booleans=BOTH)

    def __reduce__(self) -> tuple[object, ...]:
        return OnlyNames, (self.attributes,)

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return f"ONLY ({', '.join(map(name_text, self.attributes))})"

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.attributes)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        return iter(self.attributes)

    def chosen_names(self) -> Iterator[str]:
        """Iterate over the attributes of which it sees one element of an array: none."""
        return iter(())

    def implied(self, domain: Domain, name: str) -> Domain | None:
        """Return that another attribute is missing, if there are no others."""
        return Domain.MISSING if domain == _YES and name not in self._names else None

    def implies(self, domain: Domain, other: Computed, its: Domain) -> bool:
        """Return whether fewer names are within more, or some beyond more are beyond fewer."""
        if not isinstance(other, OnlyNames):
            return False
        more, fewer = (other, self) if domain == _YES else (self, other)
        return domain == its and fewer._names <= more._names

    def value(self, event: Mapping[str, Value]) -> bool:
        """Return whether an event has no other attribute."""
        return self._names.issuperset(names_at(event))

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return whether the chosen events have no other attribute."""
        found = np.array([self.value(event) for event in chosen.events()], np.bool_)
        return [Column(Kind.BOOLEAN, found, np.ones(len(found), np.bool_))]

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the truth is in a domain."""
        terms = [self.text] if True in domain.booleans else []
        return any_of(terms + ([f"NOT {self.text}"] if False in domain.booleans else []))
