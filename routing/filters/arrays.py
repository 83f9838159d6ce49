"""Computed values of whole arrays: whether an array has an element, and which list it is.

Rules
-----
* Each element that a filter asks for is a value of its own: so ``CONTAINS ALL ('a')`` covers ``CONTAINS ALL ('a',
  'b')``, and ``CONTAINS NONE ('a')`` is disjoint from both, without a further rule.
* A list is a string that only equal lists have (`list_text`): so two different lists are disjoint. Which
  elements a list has is not derived from it: "covers" then returns False, which is safe.

Source: docs/decisions/0119.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ...protocol.batch import Column
from ...protocol.values import Kind, Value
from ...protocol.ways import array_at
from ..language.lists import has_element, list_text
from .computed import Computed
from .domains import ALL_STRINGS, BOTH, Domain
from .intervals import complement, settle_strings
from .numbers import Chosen
from .printing import any_of, literal_text, name_text

__all__ = ["Element", "Whole", "computed_terms"]

_TRUE: Final = frozenset((True,))
_FALSE: Final = frozenset((False,))
_WORDS: Final = {_TRUE: "ALL", _FALSE: "NONE"}


@dataclass(frozen=True, eq=False)
class OfArray(Computed):
    """A value of one whole array."""

    name: str

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        yield self.name

    def chosen_names(self) -> Iterator[str]:
        """Iterate over the attributes of which it sees one element of an array: none."""
        return iter(())


@dataclass(frozen=True, eq=False)
class Element(OfArray):
    """Whether an array has an element that equals a literal; no value where there is no array."""

    literal: Value
    universe = Domain(missing=True, booleans=BOTH)

    def __reduce__(self) -> tuple[object, ...]:
        return Element, (self.name, self.literal)

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return f"{name_text(self.name)} CONTAINS ALL ({literal_text(self.literal)})"

    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return whether the array of an event has the element; None where there is no array."""
        array = array_at(event, self.name)
        return None if array is None else has_element(array, self.literal)

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return whether the arrays of the chosen events have the element."""
        arrays = chosen.arrays(self.name)
        found = [array is not None and has_element(array, self.literal) for array in arrays]
        present = [array is not None for array in arrays]
        return [Column(Kind.BOOLEAN, np.array(found, np.bool_), np.array(present, np.bool_))]

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the truth is in a domain."""
        terms = [self.text] if True in domain.booleans else []
        terms += [f"NOT {self.text}"] if False in domain.booleans else []
        terms += [f"({self.text}) IS UNKNOWN"] if domain.missing else []
        return any_of(terms)


@dataclass(frozen=True, eq=False)
class Whole(OfArray):
    """An array as one string, its elements in selector syntax; no value where there is no array."""

    universe = Domain(missing=True, strings=ALL_STRINGS)

    def __reduce__(self) -> tuple[object, ...]:
        return Whole, (self.name,)

    @staticmethod
    def domain(literals: Sequence[Value]) -> Domain:
        """Return the domain of exactly this list."""
        return Domain.values((list_text(tuple(literals)),))

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return f"{name_text(self.name)} = ARRAY[]"

    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return the text of an event's array; None where there is none."""
        array = array_at(event, self.name)
        return None if array is None else list_text(array)

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return the texts of the arrays of the chosen events."""
        codes: dict[str, int] = {}
        found = [
            -1 if array is None else codes.setdefault(list_text(array), len(codes))
            for array in chosen.arrays(self.name)
        ]
        data = np.array(found, np.int32)
        return [Column(Kind.STRING, data.clip(0), data >= 0, tuple(codes))]

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the array is in a domain: one of some lists, or none of them."""
        name, intervals = name_text(self.name), domain.strings.intervals
        unknown = f"({self.text}) IS UNKNOWN"
        outside = settle_strings(complement(intervals))
        if all(interval.is_point for interval in intervals):
            terms = [f"{name} = ARRAY[{interval.low}]" for interval in intervals]
        elif not outside:
            terms = [f"({self.text}) IS NOT UNKNOWN"]
        else:
            terms = [" AND ".join(f"{name} <> ARRAY[{interval.low}]" for interval in outside)]
        return any_of(terms + ([unknown] if domain.missing else []))


def computed_terms(computed: Iterable[tuple[Computed, Domain]]) -> Iterator[str]:
    """Yield the terms of constraints on computed values; the elements of one array share a term."""
    shared: dict[tuple[str, str], list[str]] = {}
    for key, domain in computed:
        word = None if domain.missing else _WORDS.get(domain.booleans)
        if isinstance(key, Element) and word is not None:
            shared.setdefault((name_text(key.name), word), []).append(literal_text(key.literal))
        else:
            yield key.condition(domain)
    for (name, word), literals in shared.items():
        yield f"{name} CONTAINS {word} ({', '.join(literals)})"
