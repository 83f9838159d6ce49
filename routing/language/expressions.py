"""Values that are computed from an event: ``price * quantity``, ``bid - 1``.

Rules
-----
* Arithmetic works on numbers, and numbers are one group: 5 and 5.0 give the same result. So ``/`` is the division of
  numbers, not of integers (7 / 2 is 3.5), and a sum, difference or product of integers that exceeds 64 bits is a
  float.
* An expression has *no value* if an operand is missing or is no number, if the divisor is 0, or if the result is
  not a number (NaN). An infinity is a value.
* Expressions of literals only are computed when they are made.

Source: JMS 1.1, section 3.8.1.1 (arithmetic operators); its division is that of Java: docs/decisions/0074.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...protocol.batch import check_name
from ...protocol.errors import EventError, FilterTooComplex, SelectorError
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Value, comparable
from ...protocol.ways import array_at
from .values import DEPTH_MAX, GROUPS, check_literal

__all__ = [
    "Arithmetic",
    "Expression",
    "Literal",
    "Ref",
    "Size",
    "arithmetic",
    "calculate",
    "negative",
    "positive",
    "refs",
    "value_of",
]

Number: TypeAlias = int | float

_CALCULATE: Final[dict[str, Callable[[Number, Number], Number]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of an attribute."""

    name: str
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "name", check_name(self.name))
        except EventError as error:
            raise SelectorError(str(error)) from None

    def __reduce__(self) -> tuple[object, ...]:
        return Ref, (self.name,)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        yield self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value."""

    value: Value
    group: str = field(init=False, repr=False)  # 0 and FALSE are two literals, though Python finds them equal
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_literal(self.value))
        object.__setattr__(self, "group", GROUPS[type(self.value)])

    def __reduce__(self) -> tuple[object, ...]:
        return Literal, (self.value,)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses: none."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Size:
    """``SIZE(name)``: the number of elements of an array; no value where there is none."""

    name: str
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", Ref(self.name).name)

    def __reduce__(self) -> tuple[object, ...]:
        return Size, (self.name,)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        yield self.name


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``, with `op` one of ``+ - * /``; made by :func:`arithmetic`."""

    op: str
    left: Expression
    right: Expression
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.op not in _CALCULATE:
            raise SelectorError(f"no arithmetic is called {self.op!r}: use one of {' '.join(_CALCULATE)}")
        for side in (self.left, self.right):
            if isinstance(side, Literal) and GROUPS[type(side.value)] != "number":
                raise SelectorError(f"{self.op} needs numbers, found a {GROUPS[type(side.value)]}")
        depth = 1 + max(self.left.depth, self.right.depth)
        if depth > DEPTH_MAX:
            raise FilterTooComplex(f"arithmetic is nested more than {DEPTH_MAX} deep")
        object.__setattr__(self, "depth", depth)

    def __reduce__(self) -> tuple[object, ...]:
        return Arithmetic, (self.op, self.left, self.right)

    def names(self) -> Iterator[str]:
        """Iterate over the attributes that it uses."""
        yield from self.left.names()
        yield from self.right.names()


Expression: TypeAlias = Ref | Literal | Size | Arithmetic


def arithmetic(op: str, left: Expression, right: Expression) -> Expression:
    """Return the expression of an operation; an operation on two literals is replaced by its result.

    Raises
    ------
    SelectorError
        If a literal is no number, or an operation on two literals has no value.
    """
    made = Arithmetic(op, left, right)
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return made
    result = calculate(op, left.value, right.value)
    if result is None:
        raise SelectorError(f"{left.value!r} {op} {right.value!r} has no value")
    return Literal(result)


def negative(term: Expression) -> Expression:
    """Return the negation of a term: 0 minus the term; a float literal changes its sign."""
    if isinstance(term, Literal) and type(term.value) is float:
        return Literal(-term.value)
    return arithmetic("-", Literal(0), term)


def positive(term: Expression) -> Expression:
    """Return a term as a number: 0 plus an attribute; other numbers are unchanged."""
    added = arithmetic("+", Literal(0), term)
    return added if isinstance(term, Ref) else term


def calculate(op: str, left: object, right: object) -> int | float | None:
    """Return the result for two values, or None if it has no value."""
    if not (type(left) is int or type(left) is float) or not (type(right) is int or type(right) is float):
        return None
    if op == "/" and right == 0:
        return None
    if op != "/" and type(left) is int and type(right) is int:
        exact = _CALCULATE[op](left, right)
        if INTEGER_MIN <= exact <= INTEGER_MAX:
            return exact
    result = _CALCULATE[op](float(left), float(right))
    return None if result != result else result


def refs(expression: Expression) -> Iterator[str]:
    """Iterate over the attributes of which an expression has a single value; SIZE is about a whole array."""
    match expression:
        case Ref(name):
            yield name
        case Arithmetic(_, left, right):
            yield from refs(left)
            yield from refs(right)


def value_of(expression: Expression, event: Mapping[str, object]) -> Value | None:
    """Return the value of an expression for an event; None where it has no value."""
    match expression:
        case Ref(name):
            return comparable(event.get(name))
        case Literal(value):
            return value
        case Size(name):
            found = array_at(event, name)
            return None if found is None else len(found)
        case Arithmetic(op, left, right):
            return calculate(op, value_of(left, event), value_of(right, event))
