"""The semantics of conditions: the reference implementation for the optimised parts.

Rules
-----
* The logic is three-valued, as in JMS: a comparison with a missing attribute, or with a value of another group, is
  *unknown* (None). NOT unknown is unknown; AND is False if one side is, OR is True if one side is. Only True matches.
* IS NULL and IS MISSING are never unknown. A comparison with a null is unknown.
* IS TRUE and similar conditions are never unknown either.
* NaN and None in an event are missing.
* :func:`evaluate` defines the semantics; :func:`compile_predicate` does the same faster. Neither shares code with the
  normal form, covering or the match index, so that each can be tested against the other. The only exception is the
  search for a pattern in a text (`like_tests`), which all of them use, and whose time no pattern can make long.

Source: JMS 1.1, section 3.8.1.2.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from ...protocol.values import NULL, Timestamp, Value, is_null, normalize
from ...protocol.ways import Names, NestedEvent, names_at
from .cases import in_lower_case
from .cesql_values import result_of
from .conditions import (
    COMPARISONS,
    FALSE,
    TRUE,
    And,
    Between,
    Cidr,
    CloudSql,
    Compare,
    Constant,
    Contains,
    HasElement,
    ILike,
    In,
    IsList,
    IsMissing,
    IsNull,
    IsTruth,
    Like,
    Not,
    Only,
    Or,
    Predicate,
    Prefix,
    Relation,
    Suffix,
    Undefined,
    check_one_group,
)
from .expressions import Expression, value_of
from .like_patterns import ANY_CHARACTER, ANY_TEXT, like_elements, plain_pattern
from .like_tests import like_test, pieces_of
from .lists import holds_for
from .relations import OPERATORS, names_of
from .values import DEPTH_MAX, GROUPS, check_literal

__all__ = [
    "ANY_CHARACTER",
    "ANY_TEXT",
    "COMPARISONS",
    "DEPTH_MAX",
    "FALSE",
    "GROUPS",
    "TRUE",
    "And",
    "Between",
    "Cidr",
    "CloudSql",
    "Compare",
    "Constant",
    "Contains",
    "HasElement",
    "ILike",
    "In",
    "IsList",
    "IsMissing",
    "IsNull",
    "IsTruth",
    "Like",
    "Not",
    "Only",
    "Or",
    "Predicate",
    "Prefix",
    "Relation",
    "Suffix",
    "Test",
    "Truth",
    "Undefined",
    "check_literal",
    "check_one_group",
    "compile_predicate",
    "evaluate",
    "like_elements",
    "plain_pattern",
]

Truth: TypeAlias = bool | None
Test: TypeAlias = Callable[[Mapping[str, object]], Truth]


def evaluate(predicate: Predicate, event: Mapping[str, object]) -> Truth:
    """Evaluate a condition for an event: True, False, or None for unknown. Only True is a match.

    Parameters
    ----------
    event
        Attribute name to value. ``None`` and NaN are missing. For an event with arrays, the result is the OR over its
        ways.
    """
    value: Any
    if isinstance(event, NestedEvent):
        ways = event.part(Names(names_of(predicate))).ways()
        return _of_ways(evaluate(predicate, way) for way in ways)
    match predicate:
        case Constant(constant):
            return constant
        case Not(term):
            truth = evaluate(term, event)
            return None if truth is None else not truth
        case And(terms):
            truths = [evaluate(term, event) for term in terms]
            return False if False in truths else None if None in truths else True
        case Or(terms):
            truths = [evaluate(term, event) for term in terms]
            return True if True in truths else None if None in truths else False
        case IsTruth(term, wanted):
            return evaluate(term, event) is wanted
        case IsNull(attribute):
            value = _value(event, attribute)
            return value is None or is_null(value)
        case IsMissing(attribute):
            return _value(event, attribute) is None
        case Undefined(expression):
            return value_of(expression, event) is None
        case Relation(left, op, right):
            return _related(left, op, right, event)
        case CloudSql(node):
            return result_of(node, event)
        case HasElement() | IsList():
            return holds_for(predicate, event)
        case Only(names):
            return _has_only(names, event)
        case Compare(attribute, op, literal):
            value = _value(event, attribute)
            return OPERATORS[op](value, literal) if _comparable(value, literal) else None
        case Between(attribute, low, high):
            value = _value(event, attribute)
            return low <= value <= high if _comparable(value, low) else None
        case In(attribute, literals):
            value = _value(event, attribute)
            return value in literals if _comparable(value, literals[0]) else None
    return _evaluate_text(predicate, event)


def _of_ways(truths: Iterable[Truth]) -> Truth:
    found: Truth = False
    for truth in truths:
        if truth is True:
            return True
        found = None if truth is None else found
    return found


def _evaluate_text(predicate: Predicate, event: Mapping[str, object]) -> Truth:
    assert isinstance(predicate, Like | ILike | Prefix | Suffix | Contains | Cidr), predicate
    text = _value(event, predicate.attribute)
    if type(text) is not str:
        return None
    match predicate:
        case Like(_, pattern, escape):
            return like_test(pieces_of(like_elements(pattern, escape)))(text)
        case ILike(_, pattern, escape):
            return like_test(pieces_of(_lower_elements(pattern, escape)))(in_lower_case(text))
        case Prefix(_, wanted):
            return text.startswith(wanted)
        case Suffix(_, wanted):
            return text.endswith(wanted)
        case Contains(_, wanted):
            return wanted in text
        case Cidr(_, network):
            return _is_address_in(text, network)


def _is_address_in(text: str, network: str) -> bool:
    try:
        block = ipaddress.ip_network(network, strict=False)
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return "%" not in text and (mapped or address) in block


def _lower_elements(pattern: str, escape: str | None) -> tuple[str | int, ...]:
    elements = like_elements(pattern, escape)
    return tuple(in_lower_case(element) if isinstance(element, str) else element for element in elements)


def _related(left: Expression, op: str, right: Expression, event: Mapping[str, object]) -> Truth:
    one, other = value_of(left, event), value_of(right, event)
    if other is None or not _comparable(one, other) or (type(one) is bool and op not in ("=", "<>")):
        return None
    return OPERATORS[op](one, other)


def _has_only(names: Collection[str], event: Mapping[str, Any]) -> bool:
    others = [name for name in names_at(event) if name not in names]
    return all(name in event and normalize(event[name]) is None for name in others)


def _value(event: Mapping[str, Any], attribute: str) -> Value | None:
    value = event.get(attribute)
    return value if type(value) in (str, int, bool, Timestamp) else normalize(value)


def _comparable(value: Value | None, literal: Value) -> bool:
    return value is not None and not is_null(value) and GROUPS[type(value)] == GROUPS[type(literal)]


def compile_predicate(predicate: Predicate) -> Test:
    """Return a function that is equivalent to :func:`evaluate`, but several times as fast.

    Its events have normalised values; NaN and None may represent missing values.
    """
    test = _compiled(predicate)
    names = Names(names_of(predicate))

    def of_event(event: Mapping[str, object]) -> Truth:
        return (
            _of_ways(map(test, event.part(names).ways())) if isinstance(event, NestedEvent) else test(event)
        )

    return of_event


def _compiled(predicate: Predicate) -> Test:
    match predicate:
        case Constant(truth):
            return lambda event: truth
        case Not(term):
            return _compile_not(_compiled(term))
        case And(terms):
            return _compile_many([_compiled(term) for term in terms], decisive=False)
        case Or(terms):
            return _compile_many([_compiled(term) for term in terms], decisive=True)
        case IsTruth(term, wanted):
            test = _compiled(term)
            return lambda event: test(event) is wanted
        case Undefined(expression):
            return lambda event: value_of(expression, event) is None
        case Relation(left, op, right):
            return lambda event: _related(left, op, right, event)
        case CloudSql(node):
            return lambda event: result_of(node, event)
        case HasElement() | IsList():
            return lambda event: holds_for(predicate, event)
        case Only(names):
            return lambda event: _has_only(names, event)
        case IsNull(attribute):
            return lambda event: (value := event.get(attribute)) is None or value is NULL or value != value
        case IsMissing(attribute):
            return lambda event: (value := event.get(attribute)) is None or value != value
        case Compare(attribute, op, literal):
            compare = OPERATORS[op]
            return _compile_leaf(attribute, literal, lambda value: compare(value, literal))
        case Between(attribute, low, high):
            lowest, highest = low, high
            return _compile_leaf(attribute, low, lambda value: lowest <= value <= highest)
        case In(attribute, literals):
            return _compile_leaf(attribute, literals[0], frozenset(literals).__contains__)
    return _compile_text(predicate)


def _compile_text(predicate: Predicate) -> Test:
    match predicate:
        case Like(attribute, pattern, escape):
            return _compile_leaf(attribute, "", like_test(pieces_of(like_elements(pattern, escape))))
        case ILike(attribute, pattern, escape):
            holds = like_test(pieces_of(_lower_elements(pattern, escape)))
            return _compile_leaf(attribute, "", lambda text: holds(in_lower_case(text)))
        case Prefix(attribute, wanted):
            return _compile_leaf(attribute, "", lambda text: text.startswith(wanted))
        case Suffix(attribute, wanted):
            return _compile_leaf(attribute, "", lambda text: text.endswith(wanted))
        case Contains(attribute, wanted):
            return _compile_leaf(attribute, "", lambda text: wanted in text)
        case Cidr(attribute, network):
            return _compile_leaf(attribute, "", lambda text: _is_address_in(text, network))
    raise TypeError(f"{predicate!r} is not a condition")


def _compile_leaf(attribute: str, literal: Value, holds: Callable[[Any], bool]) -> Test:
    kind = type(literal)
    if kind is int or kind is float:

        def test_number(event: Mapping[str, object]) -> Truth:
            value = event.get(attribute)
            found = type(value)
            return holds(value) if found is int or (found is float and value == value) else None

        return test_number

    def test(event: Mapping[str, object]) -> Truth:
        value = event.get(attribute)
        return holds(value) if type(value) is kind else None

    return test


def _compile_not(test: Test) -> Test:
    def test_not(event: Mapping[str, object]) -> Truth:
        truth = test(event)
        return None if truth is None else not truth

    return test_not


def _compile_many(tests: list[Test], *, decisive: bool) -> Test:
    """Return the OR (`decisive` True) or the AND (`decisive` False) of tests."""

    def test_many(event: Mapping[str, object]) -> Truth:
        otherwise: Truth = not decisive
        for test in tests:
            truth = test(event)
            if truth is decisive:
                return decisive
            if truth is None:
                otherwise = None
        return otherwise

    return test_many
