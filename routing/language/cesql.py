"""CloudEvents SQL: conversion of text to a condition.

Rules
-----
* Terms of an AND that have an exact equivalent become conditions that the index handles: comparisons of an attribute
  with strings that cannot be the text of a number, truth value or timestamp; tests whether it exists; and ORs of such
  terms about one attribute. Each other term becomes a :class:`~.conditions.CloudSql`, which is evaluated separately.
* An expression that can never be a Boolean, and an unknown function, are rejected at parse time; the error names the
  function.
* Names are attributes as written. In addition to the names of CloudEvents they may have capitals and underscores:
  ``ce_type`` is the type of an event that arrived through a gateway.

Source: CloudEvents SQL, version 1.0, section 2. Operators of equal precedence are evaluated from the left, as in 3.6;
the accompanying grammar (for ANTLR) has AND, OR and XOR from the right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

from ...protocol.errors import FilterTooComplex, SelectorError
from .cesql_values import (
    FUNCTIONS,
    INT_MAX,
    REQUIRED,
    Call,
    Constant,
    Name,
    Node,
    constants_in,
    node_text,
    pattern_elements,
    type_of,
    unquoted,
)
from .conditions import FALSE, TRUE, And, CloudSql, Compare, In, IsNull, IsTruth, Like, Not, Or, Predicate
from .literals import at
from .parsing import check_text, parse, parser_of
from .relations import joined
from .selector_errors import unexpected

if TYPE_CHECKING:
    from lark import Lark, Token

__all__ = ["expression_of", "parse_cesql"]

_KEYWORDS: Final = frozenset(("AND", "OR", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "FALSE"))
_LIKE_OTHERS: Final = frozenset("0123456789+-.:eETZtrufalsin")
"""The characters of numbers, truth values and timestamps: a string with any other character is none of these."""


def parse_cesql(text: str) -> Predicate:
    """Return the condition that an expression of CloudEvents SQL is true.

    Raises
    ------
    SelectorError
        If the text is no expression, or cannot be a Boolean; the message says where.
    """
    whole = expression_of(text)
    gives = type_of(whole)
    if gives not in (bool, None):
        raise SelectorError(f"the expression gives a {_TYPES[gives]}: a filter needs a Boolean")
    if isinstance(whole, Name):
        return Compare(whole.name, "=", True)
    terms = whole.operands if isinstance(whole, Call) and whole.what == "AND" else (whole,)
    return joined(And, list(map(_term, terms)))


def _term(node: Node) -> Predicate:
    """Return the condition that an operand of AND is true, which is cast to a Boolean."""
    known = _known(node)
    if known is not None:
        return known
    return CloudSql(node if type_of(node) is bool else Call("BOOL", (node,)))


_TYPES: Final = {int: "number", str: "string"}


def expression_of(text: str) -> Node:
    """Parse an expression of CloudEvents SQL; SelectorError if the text is none."""
    check_text("an expression", text)
    made: Node = parse(_parser(), text, lambda error: unexpected(error.token))
    node_text(made)  # reject an expression that cannot be printed
    if INT_MAX + 1 in constants_in(made):  # only valid after a minus, as the least integer
        raise SelectorError(f"{INT_MAX + 1} does not fit in 32 bits")
    return made


@cache
def _parser() -> Lark:
    return parser_of("cesql.lark", "WORD", _KEYWORDS, _builder())


def _builder() -> object:
    """Return the transformer that makes the nodes during parsing, with one method per rule of the grammar."""
    from lark import Transformer, v_args

    @v_args(inline=True)
    class Builder(Transformer["Token", Node]):
        def start(self, whole: Node) -> Node:
            return whole

        def chain(self, first: Node, *rest: Any) -> Node:
            return _chained(first, rest[::2], rest[1::2])

        def like(self, value: Node, negation: Token | None, word: Token, pattern: Token) -> Node:
            try:
                pattern_elements(unquoted(str(pattern)))
            except SelectorError as error:
                at(pattern, str(error))
            return _perhaps(negation, _call(word, "LIKE", value, Constant(unquoted(str(pattern)))))

        def one_of(self, value: Node, negation: Token | None, word: Token, *items: Node) -> Node:
            return _perhaps(negation, _call(word, "IN", value, *items))

        def negated(self, word: Token, value: Node) -> Node:
            return _call(word, "NOT", value)

        def signed(self, sign: Token, value: Node) -> Node:
            if isinstance(value, Constant) and type(value.value) is int:
                return Constant(-value.value if sign == "-" else value.value)
            return _call(sign, "-" if sign == "-" else "+", Constant(0), value)

        def exists(self, word: Token, name: Token) -> Node:
            return _call(word, "EXISTS", Name(str(name)))

        def call(self, word: Token, *operands: Node | None) -> Node:
            given = [operand for operand in operands if operand is not None]
            function = FUNCTIONS.get(word.upper())
            if function is None or not function.accepts(len(given)):
                at(
                    word,
                    f"there is no function {word.upper()} of {len(given)}: there are {', '.join(FUNCTIONS)}",
                )
            return _call(word, word.upper(), *given)

        def name(self, token: Token) -> Node:
            return Name(str(token))

        def integer(self, token: Token) -> Node:
            value = int(token) if len(token) <= 10 else INT_MAX + 2
            if value > INT_MAX + 1:
                at(token, f"{token[:30]} does not fit in 32 bits")
            return Constant(value)

        def string(self, token: Token) -> Node:
            return Constant(unquoted(str(token)))

        def boolean(self, token: Token) -> Node:
            return Constant(token.type == "TRUE")

    return Builder()


def _call(token: Token, what: str, *operands: Node) -> Call:
    try:
        return Call(what, operands)
    except FilterTooComplex as error:
        at(token, str(error))


def _chained(first: Node, ops: Sequence[Token], operands: Sequence[Node]) -> Node:
    """Return the operations of a chain, from the left; a run of AND, OR or XOR is one operation, to limit the depth."""
    made = first
    for what, run in groupby(zip(ops, operands, strict=True), key=lambda step: _operator(step[0])):
        steps = list(run)
        if what in ("AND", "OR", "XOR"):
            head = made.operands if isinstance(made, Call) and made.what == what else (made,)
            made = _call(steps[0][0], what, *head, *(operand for _, operand in steps))
            continue
        for op, operand in steps:
            made = _call(op, what, made, operand)
    return made


def _operator(op: Token) -> str:
    return "<>" if op == "!=" else op.type if op.type in _KEYWORDS else str(op)


def _perhaps(negation: Token | None, node: Call) -> Call:
    return node if negation is None else _call(negation, "NOT", node)


def _is_plain(text: object) -> bool:
    """Return whether a text is a string that cannot be a number, truth value or timestamp."""
    return type(text) is str and not _LIKE_OTHERS.issuperset(text)


def _known(node: Node) -> Predicate | None:
    """Return the equivalent condition that the index handles, or None if there is none."""
    match node:
        case Constant(bool() as truth):
            return TRUE if truth else FALSE
        case Call("OR", operands):
            return _known_or(operands)
        case Call("NOT", (Call("EXISTS", (Name(name),)),)):
            return FALSE if name.lower() in REQUIRED else IsNull(name)
        case Call("EXISTS", (Name(name),)):
            return TRUE if name.lower() in REQUIRED else Not(IsNull(name))
        case Call("<>", (Name(name), Constant(str() as text))) if _is_plain(text):
            return And((Not(IsNull(name)), Not(IsTruth(Compare(name, "=", text), True))))
        case Call("IN", (Name(name), *items)):
            values = [item.value for item in items if isinstance(item, Constant)]
            if len(values) == len(items) and all(map(_is_plain, values)):
                return In(name, tuple(values))
    return _known_text(node)


def _known_text(node: Node) -> Predicate | None:
    match node:
        case Call("=", (Name(name), Constant(str() as text))) if _is_plain(text):
            return Compare(name, "=", text)
        case Call("LIKE", (Name(name), Constant(str() as pattern))):
            elements = pattern_elements(pattern)
            if not _LIKE_OTHERS.issuperset(element for element in elements if isinstance(element, str)):
                escaped = re.sub(r"\\(?![%_])", r"\\\\", pattern)
                return Like(name, escaped, "\\")
    return None


def _known_or(operands: Sequence[Node]) -> Predicate | None:
    """Return an OR about one attribute: if one operand has an error (the attribute is missing), all have one."""
    terms = [_known_text(operand) for operand in operands]
    known = [term for term in terms if isinstance(term, Compare | Like)]
    alike = all(one.attribute == other.attribute for one, other in pairwise(known))
    return Or(tuple(known)) if len(known) == len(terms) and alike else None
