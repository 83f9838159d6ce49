"""Computed values, which a clause can constrain in addition to attributes.

Rules
-----
* A clause treats a *computed* value like an attribute: it has a domain. So the filters of ``price * quantity > 1000``
  and ``price * quantity > 2000`` cover, intersect and merge like filters of one attribute. No other relation between
  computed values is known: "covers" and "disjoint" then return False, which is safe.
* *Missing* means that a computed value has no value; for a condition, such as an order of two attributes, that it is
  unknown.
* A computed value has a unique text, which defines its order and is used to print its domain.
* Computed values are evaluated last, and only for the events that pass the rest of the clause; vectorised, in
  columns.

Source: docs/decisions/0074.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, Mask
from ...protocol.values import Kind, Ordered, Value
from ..language.cesql_values import Node, names_in, node_text, result_of
from ..language.conditions import MIRRORED
from ..language.expressions import Expression, Ref, refs, value_of
from ..language.values import GROUPS
from .domains import BOTH, EVERYTHING, Domain
from .intervals import Interval, point
from .numbers import Chosen, number_columns, numbers_of, signs
from .printing import any_of, condition_text, expression_text, string_text

__all__ = ["Asked", "Calculated", "Computed", "Key", "Order", "key_text", "order_of", "universe"]


class Computed(ABC):
    """A value that is computed from an event; two of one class are equal if their texts are equal."""

    universe: Domain
    """All possible values, including no value."""

    @cached_property
    @abstractmethod
    def text(self) -> str:
        """The unique text: equal computed values have the same text, different ones have different texts."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""

    def chosen_names(self) -> Iterator[str]:
        """Iterate over the attributes of which it sees one element of an array; of the others it sees all."""
        return self.names()

    def implied(self, domain: Domain, name: str) -> Domain | None:
        """Return where an attribute is if the value is in a domain; None if nothing follows."""
        return None

    def implies(self, domain: Domain, other: Computed, its: Domain) -> bool:
        """Return True only if the value of `other` is in `its` wherever this value is in `domain`."""
        return False

    @abstractmethod
    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return the value for an event; None where it has no value."""

    @abstractmethod
    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return the values for the chosen events; each event has a value in at most one column."""

    @abstractmethod
    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the value is in a domain."""


Key: TypeAlias = str | Computed
"""What a domain constrains: an attribute, by name, or a computed value."""


def universe(key: Key) -> Domain:
    """Return the domain of all possible values of an attribute or a computed value."""
    return Domain.ANYTHING if isinstance(key, str) else key.universe


def key_text(key: Key) -> str:
    """Return a text that orders attributes, or computed values, among themselves."""
    return key if isinstance(key, str) else key.text


@dataclass(frozen=True, eq=False)
class Calculated(Computed):
    """The result of arithmetic: a number, or no value."""

    expression: Expression
    universe = Domain(missing=True, numbers=EVERYTHING)

    def __reduce__(self) -> tuple[object, ...]:
        return Calculated, (self.expression,)

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return expression_text(self.expression)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        return self.expression.names()

    def chosen_names(self) -> Iterator[str]:
        """Iterate over the attributes of which it sees one element of an array."""
        return refs(self.expression)

    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return the value for an event; None where it has no value."""
        return value_of(self.expression, event)

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return the values for the chosen events."""
        return number_columns(numbers_of(self.expression, chosen))

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the value is in a domain."""
        return condition_text(self.text, domain)


_BELOW, _EQUAL, _ABOVE = Interval(None, 0, False, True), point(0), Interval(0, None, True, False)
_ORDERS: Final = {
    "=": Domain(numbers=(_EQUAL,), booleans=frozenset((True,))),
    "<>": Domain(numbers=(_BELOW, _ABOVE), booleans=frozenset((False,))),
    "<": Domain(numbers=(_BELOW,)),
    "<=": Domain(numbers=(Interval(None, 0),)),
    ">": Domain(numbers=(_ABOVE,)),
    ">=": Domain(numbers=(Interval(0, None),)),
}


@dataclass(frozen=True, eq=False)
class Order(Computed):
    """The comparison of two values: -1, 0 or 1; for booleans, whether they are equal; no value if not comparable."""

    left: Expression
    right: Expression
    universe = Domain(missing=True, booleans=BOTH, numbers=EVERYTHING)

    def __reduce__(self) -> tuple[object, ...]:
        return Order, (self.left, self.right)

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return self._said("=")

    def _said(self, op: str) -> str:
        return f"{expression_text(self.left)} {op} {expression_text(self.right)}"

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        yield from self.left.names()
        yield from self.right.names()

    def chosen_names(self) -> Iterator[str]:
        """Iterate over the attributes of which it sees one element of an array."""
        yield from refs(self.left)
        yield from refs(self.right)

    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return the comparison of the two for an event; None where they are not comparable."""
        one: Ordered | None = value_of(self.left, event)
        other: Ordered | None = value_of(self.right, event)
        if one is None or other is None or GROUPS[type(one)] != GROUPS[type(other)]:
            return None
        return bool(one == other) if type(one) is bool else int(one > other) - int(one < other)

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return the comparison of the two for the chosen events."""
        order, known = signs(numbers_of(self.left, chosen), numbers_of(self.right, chosen))
        out: list[Column] = []
        if isinstance(self.left, Ref) and isinstance(self.right, Ref):
            for kind in (Kind.TIMESTAMP, Kind.STRING, Kind.BOOLEAN):
                one, other = (chosen.column(side.name, kind) for side in (self.left, self.right))
                if one is None or other is None:
                    continue
                both = chosen.present(one) & chosen.present(other)
                if kind is Kind.BOOLEAN:
                    out.append(Column(kind, one.data == other.data, both))
                    continue
                a, b = _ranks(one, other, both) if kind is Kind.STRING else (one.data, other.data)
                order = np.where(both, (a > b).astype(np.int64) - (a < b), order)
                known = known | both
        return [Column(Kind.INTEGER, order, known), *out]

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the comparison is in a domain."""
        below, equal, above = (domain.contains(sign) for sign in (-1, 0, 1))
        same, other = True in domain.booleans, False in domain.booleans
        terms = []
        if equal and same:
            terms.append(self._said("="))
            equal = same = False
        if below and above and other:
            terms.append(self._said("<>"))
            below = above = other = False
        if equal and (below or above):
            terms.append(self._said("<=" if below else ">="))
            below, above, equal = False, above and below, False
        terms += [self._said(op) for op, there in (("<", below), (">", above)) if there]
        if equal:
            terms.append(f"{self._said('<=')} AND {self._said('>=')}")
        unordered = f"({self._said('<=')}) IS UNKNOWN"
        terms += [f"{self._said(op)} AND {unordered}" for op, there in (("=", same), ("<>", other)) if there]
        if domain.missing:
            terms.append(f"({self.text}) IS UNKNOWN")
        return any_of(terms)


@dataclass(frozen=True, eq=False)
class Asked(Computed):
    """Whether an expression of CloudEvents SQL is true; no value where it has an error or is no Boolean.

    It is evaluated once for each combination of attribute values in the events.
    """

    node: Node
    universe = Domain(missing=True, booleans=BOTH)

    def __reduce__(self) -> tuple[object, ...]:
        return Asked, (self.node,)

    @cached_property
    def text(self) -> str:
        """The unique text of the value."""
        return f"CESQL {string_text(node_text(self.node))}"

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        return names_in(self.node)

    def value(self, event: Mapping[str, Value]) -> Value | None:
        """Return whether the expression is true for an event; None where it has an error."""
        return result_of(self.node, event)

    def columns(self, chosen: Chosen) -> Sequence[Column]:
        """Return whether the expression is true for the chosen events."""
        names = tuple(dict.fromkeys(self.names()))
        known: dict[tuple[tuple[type, Value | None], ...], bool | None] = {}
        found: list[bool | None] = []
        for values in zip(*map(chosen.values, names), strict=True) if names else [()] * len(chosen):
            key = tuple((type(value), value) for value in values)
            if key not in known:
                known[key] = result_of(self.node, dict(zip(names, values, strict=True)))
            found.append(known[key])
        present = np.array([truth is not None for truth in found], np.bool_)
        return [Column(Kind.BOOLEAN, np.array([truth is True for truth in found], np.bool_), present)]

    def condition(self, domain: Domain) -> str:
        """Return the selector that states that the result is in a domain."""
        terms = [self.text] if True in domain.booleans else []
        terms += [f"NOT {self.text}"] if False in domain.booleans else []
        terms += [f"({self.text}) IS UNKNOWN"] if domain.missing else []
        return any_of(terms)


def order_of(left: Expression, op: str, right: Expression) -> tuple[Order, Domain]:
    """Return a comparison as an `Order`, with its sides in canonical order, and the domain of it."""
    if expression_text(left) > expression_text(right):
        left, op, right = right, MIRRORED[op], left
    return Order(left, right), _ORDERS[op]


def _ranks(one: Column, other: Column, both: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return numbers that compare like the strings of two columns, where both are present."""
    codes = [np.where(both, column.data, 0) for column in (one, other)]
    used = [np.unique(each[both]).tolist() for each in codes]
    texts = [{code: column.words[code] for code in of} for column, of in zip((one, other), used, strict=True)]
    rank = {text: place for place, text in enumerate(sorted({*texts[0].values(), *texts[1].values()}))}
    out = []
    for each, words in zip(codes, texts, strict=True):
        table = np.zeros(max(words, default=0) + 1, np.int64)
        for code, text in words.items():
            table[code] = rank[text]
        out.append(table[np.where(both, each, 0).clip(0, len(table) - 1)])
    return out[0], out[1]
