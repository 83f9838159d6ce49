"""Conditions on expressions: each becomes the simplest equivalent condition.

Rules
-----
* A condition on one attribute and literals becomes one that the index handles (`Compare`, `Between`, `In`, `Like`); a
  condition on literals only becomes a constant; everything else becomes a `Relation`.
* In *strict* mode a condition that can never be true is rejected: values of two groups, an order of booleans, an
  empty BETWEEN. JMS is not strict: such a condition is false.
* In JMS a comparison of values of two groups is *false*, and only one with a missing value is unknown
  (:func:`two_valued`).

Source: JMS 1.1, sections 3.8.1.1 and 3.8.1.2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

from ...protocol.errors import SelectorError
from ...protocol.values import Value
from .cesql_values import names_in
from .conditions import (
    FALSE,
    MIRRORED,
    TRUE,
    And,
    Between,
    CloudSql,
    Compare,
    Constant,
    HasElement,
    In,
    IsList,
    IsMissing,
    IsNull,
    IsTruth,
    Not,
    Only,
    Or,
    Predicate,
    Relation,
    Undefined,
    check_bounds,
    check_one_group,
)
from .expressions import Arithmetic, Expression, Literal, Ref, Size
from .values import GROUPS

__all__ = [
    "OPERATORS",
    "between",
    "comparison",
    "joined",
    "names_of",
    "no_value",
    "one_of",
    "two_valued",
]

OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparison(op: str, left: Expression, right: Expression, *, strict: bool = True) -> Predicate:
    """Return the condition ``left op right``.

    Raises
    ------
    SelectorError
        If no event can make it true.
    """
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, op, right = right, MIRRORED.get(op, op), left
    if not isinstance(right, Literal):
        return Relation(left, op, right)
    if isinstance(left, Ref):
        return Compare(left.name, op, right.value)
    if isinstance(left, Arithmetic | Size):
        if GROUPS[type(right.value)] == "number":
            return Relation(left, op, right)
        if not strict:
            return Relation(left, "<>", left)  # false, or unknown where it has no value
        word = "SIZE" if isinstance(left, Size) else "an arithmetic expression"
        group = GROUPS[type(right.value)]
        raise SelectorError(f"{word} is a number, and cannot be compared with a {group}")
    if op not in ("=", "<>") and bool in (type(left.value), type(right.value)):
        raise SelectorError(f"booleans have no order: use = or <> instead of {op}")
    if strict:
        check_one_group(op, (left.value, right.value))
    elif GROUPS[type(left.value)] != GROUPS[type(right.value)]:
        return FALSE
    return TRUE if OPERATORS[op](left.value, right.value) else FALSE


def between(value: Expression, low: Expression, high: Expression, *, strict: bool = True) -> Predicate:
    """Return the condition ``value BETWEEN low AND high``; SelectorError, in strict mode, if it is empty."""
    if isinstance(low, Literal) and isinstance(high, Literal):
        try:
            check_bounds(low.value, high.value)
            if isinstance(value, Ref):
                return Between(value.name, low.value, high.value)
        except SelectorError:
            if strict:
                raise
    if not strict and any(
        isinstance(each, Literal) and type(each.value) is bool for each in (value, low, high)
    ):
        return FALSE  # booleans have no order
    bounds = comparison(">=", value, low, strict=strict), comparison("<=", value, high, strict=strict)
    return And(bounds)


def one_of(value: Expression, items: Sequence[Expression], *, strict: bool = True) -> Predicate:
    """Return the condition ``value IN (items)``; SelectorError, in strict mode, for items of several groups."""
    if not items:
        raise SelectorError("IN needs at least one value")
    literals = [item.value for item in items if isinstance(item, Literal)]
    if strict and literals:
        check_one_group("IN", literals)
    terms: list[Predicate] = []
    rest = items
    if isinstance(value, Ref):
        groups: dict[str, list[Value]] = {}
        for literal in literals:
            groups.setdefault(GROUPS[type(literal)], []).append(literal)
        terms = [In(value.name, tuple(group)) for group in groups.values()]
        rest = [item for item in items if not isinstance(item, Literal)]
    terms += [comparison("=", value, item, strict=strict) for item in rest]
    return joined(Or, terms)


def joined(kind: type[And] | type[Or], terms: Sequence[Predicate]) -> Predicate:
    """Return the AND or OR of terms; a single term is returned itself."""
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


def no_value(value: Expression | Predicate) -> Predicate:
    """Return the condition ``value IS NULL``; for a condition, that it is unknown."""
    match value:
        case Predicate():
            return IsTruth(value, None)
        case Ref(name):
            return IsNull(name)
        case Literal():
            return FALSE
    return Undefined(value)


def names_of(predicate: Predicate) -> Iterable[str]:
    """Return the attributes that a condition uses, without duplicates, in order of appearance."""
    match predicate:
        case And(terms) | Or(terms):
            found: Iterable[str] = chain.from_iterable(map(names_of, terms))
        case Not(term) | IsTruth(term, _):
            return names_of(term)
        case Relation(left, _, right):
            found = chain(left.names(), right.names())
        case Undefined(expression):
            found = expression.names()
        case CloudSql(node):
            found = names_in(node)
        case Only(names):
            return names
        case Constant():
            return ()
        case _:
            return (predicate.attribute,)  # type: ignore[attr-defined]  # all other conditions have one attribute
    return tuple(dict.fromkeys(found))


def two_valued(predicate: Predicate, *, positive: bool | None = True) -> Predicate:
    """Return the condition in which a comparison of values of two groups is false, as in JMS, instead of unknown.

    The difference matters only under a NOT (`positive` False) or an IS (None: both matter), so only there the
    condition is expanded.
    """
    match predicate:
        case Not(term):
            return Not(two_valued(term, positive=None if positive is None else not positive))
        case And(terms):
            return And(tuple(two_valued(term, positive=positive) for term in terms))
        case Or(terms):
            return Or(tuple(two_valued(term, positive=positive) for term in terms))
        case IsTruth(term, value):
            return IsTruth(two_valued(term, positive=None), value)
        case (
            Constant() | IsNull() | IsMissing() | Undefined() | CloudSql() | HasElement() | IsList() | Only()
        ):
            return predicate
    if positive:
        return predicate
    missing = joined(Or, [IsNull(name) for name in names_of(predicate)])
    return Or((IsTruth(predicate, True), And((predicate, missing))))
