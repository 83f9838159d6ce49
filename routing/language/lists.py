"""Conditions on a whole array: contains all, any or none of some values, and is exactly this list.

Rules
-----
* They are about the array of the *event*, where every other condition is about one of its elements. So they have the
  same truth for all flat events that an event with arrays stands for, and NOT is the plain opposite.
* Where there is no array (:func:`~rayvous.protocol.documents.array_at` returns None) they are unknown.
* An element equals a value of the same group. Nulls, objects and values of other groups equal none.
* *All* is an AND of single elements, *any* an OR, *none* an AND of negations. So covering and intersection know the
  elements.

Source: docs/decisions/0119.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ...protocol.checks import shown
from ...protocol.errors import SelectorError
from ...protocol.values import Value, is_null
from ...protocol.ways import Array, array_at
from ..filters.printing import literal_text
from .conditions import And, HasElement, IsList, Not, Or, Predicate
from .values import GROUPS, check_length, is_integer

__all__ = [
    "QUANTIFIERS",
    "contains_all",
    "contains_any",
    "contains_none",
    "elements_of",
    "has_element",
    "holds_for",
    "list_text",
]


def contains_all(attribute: str, values: Sequence[Value]) -> Predicate:
    """Return the condition that the array has each of the values."""
    return _joined(And, [HasElement(attribute, value) for value in _some("ALL", values)])


def contains_any(attribute: str, values: Sequence[Value]) -> Predicate:
    """Return the condition that the array has one of the values, or more."""
    return _joined(Or, [HasElement(attribute, value) for value in _some("ANY", values)])


def contains_none(attribute: str, values: Sequence[Value]) -> Predicate:
    """Return the condition that the array has none of the values."""
    return _joined(And, [Not(HasElement(attribute, value)) for value in _some("NONE", values)])


QUANTIFIERS: Final[dict[str, Callable[[str, Sequence[Value]], Predicate]]] = {
    "ALL": contains_all,
    "ANY": contains_any,
    "NONE": contains_none,
}


def elements_of(values: object) -> tuple[Any, ...]:
    """Return the values of a list as a tuple; SelectorError for anything else."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SelectorError(f"expected a list of values, found {shown(values)}")
    return tuple(values)


def _some(word: str, values: Sequence[Value]) -> Sequence[Value]:
    check_length(f"CONTAINS {word}", tuple(values))
    if not values:
        raise SelectorError(f"CONTAINS {word} needs at least one value")
    return values


def _joined(kind: type[And] | type[Or], terms: list[Predicate]) -> Predicate:
    terms = list(dict.fromkeys(terms))
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


def has_element(array: Array, literal: Value) -> bool:
    """Return whether an array has an element that equals a literal."""
    group = GROUPS[type(literal)]
    return any(element == literal and GROUPS.get(type(element)) == group for element in array)


def list_text(array: Array) -> str:
    """Return the elements in selector syntax: equal lists have one text; a null and an object have no literal's."""
    return ", ".join(map(_element_text, array))


def _element_text(element: Value | None) -> str:
    if element is None or is_null(element):
        return "OBJECT" if element is None else "NULL"
    return literal_text(int(element) if type(element) is float and is_integer(element) else element)


def holds_for(condition: HasElement | IsList, event: Mapping[str, object]) -> bool | None:
    """Return the truth of a condition for an event."""
    array = array_at(event, condition.attribute)
    if array is None:
        return None
    if isinstance(condition, HasElement):
        return has_element(array, condition.literal)
    pairs = zip(array, condition.literals, strict=False)
    return len(array) == len(condition.literals) and all(
        has_element((one,), literal) for one, literal in pairs
    )
