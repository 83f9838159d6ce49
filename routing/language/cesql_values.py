"""Evaluation of CloudEvents SQL expressions for an event.

Rules
-----
* A value is a Boolean, an Integer of 32 bits, or a String. Other values of an event become Strings: other numbers as
  Python prints them, timestamps in ISO 8601. 5.0 is the Integer 5, as everywhere in this project.
* An *error* (a missing attribute, a failed cast, a division by 0, an overflow, an invalid argument) ends the
  evaluation: the event does not match (1.2, "fail fast mode" of 4.1). AND and OR evaluate their right side only
  if necessary.
* An evaluation that processes more than `TEXT_MAX` characters is an error, so neither an expression nor an event
  can make it slow.
* Values are converted only by the rules of 3.7: the left side of ``=`` is cast to the type of the right side, and the
  items of IN are cast to the type of its left side.

Source: CloudEvents SQL, version 1.0, sections 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.values import Timestamp, Value, comparable
from .like_patterns import like_elements
from .like_tests import like_test, pieces_of
from .values import DEPTH_MAX

__all__ = [
    "FUNCTIONS",
    "INT_MAX",
    "INT_MIN",
    "REQUIRED",
    "Call",
    "Constant",
    "Name",
    "Node",
    "constants_in",
    "names_in",
    "node_text",
    "quoted",
    "result_of",
    "type_of",
    "unquoted",
]

Scalar: TypeAlias = bool | int | str
"""A value of the language."""

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
TEXT_MAX: Final = 16 * 1024 * 1024
"""The maximum total number of characters of all operands and results of an evaluation: 16 times a whole event."""
REQUIRED: Final = frozenset(("id", "source", "specversion", "type"))
"""The attributes that every CloudEvent has; they always exist (3.4.4)."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,32}")
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    + ("\u2028\u2029\u202f\u205f\u3000")
)


class Failed(Exception):
    """The expression has an error for this event."""


class _Work:
    """The number of characters that an evaluation may still process."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = TEXT_MAX

    def take(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise Failed


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value: a bool, an int of 32 bits or a string."""

    value: Scalar
    kind: type = field(init=False, repr=False)  # 0 and FALSE are two literals, though Python finds them equal
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value))

    def __reduce__(self) -> tuple[object, ...]:
        return Constant, (self.value,)


@dataclass(frozen=True, slots=True)
class Name:
    """The value of an attribute."""

    name: str
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        return Name, (self.name,)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function with its operands; LIKE's second operand is the pattern, EXISTS's operand is a name."""

    what: str
    operands: tuple[Node, ...]
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = 1 + max((operand.depth for operand in self.operands), default=0)
        if depth > DEPTH_MAX:
            raise FilterTooComplex(f"an expression is nested more than {DEPTH_MAX} deep")
        object.__setattr__(self, "depth", depth)

    def __reduce__(self) -> tuple[object, ...]:
        return Call, (self.what, self.operands)


Node: TypeAlias = Constant | Name | Call


def names_in(node: Node) -> Iterator[str]:
    """Iterate over the attributes that an expression uses."""
    match node:
        case Name(name):
            yield name
        case Call(_, operands):
            for operand in operands:
                yield from names_in(operand)


_STRING: Final = re.compile(r"""'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*\"""", re.DOTALL)


def unquoted(text: str) -> str:
    """Return the text of a string literal: a backslash is an escape only before the literal's own quote."""
    return re.sub(rf"\\{text[0]}|{text[0]}{text[0]}", text[0], text[1:-1])


def quoted(text: str) -> str:
    """Return a string as a literal; SelectorError if the language has no literal for it."""
    for quote in ("'", '"'):
        literal = quote + text.replace(quote, "\\" + quote) + quote
        if _STRING.fullmatch(literal) and unquoted(literal) == text:
            return literal
    raise SelectorError(
        "CloudEvents SQL cannot express a backslash before a quote where both quotes are used"
    )


def node_text(node: Node) -> str:
    """Return text that parses to the same expression, with parentheses around every inner operation."""
    match node:
        case Constant(value):
            return quoted(value) if isinstance(value, str) else str(value).upper()
        case Name(name):
            return name
        case Call("EXISTS" | "NOT" as what, (operand,)):
            return f"{what} {_inner(operand)}"
        case Call("LIKE", (value, pattern)):
            return f"{_inner(value)} LIKE {node_text(pattern)}"
        case Call("IN", (value, *items)):
            return f"{_inner(value)} IN ({', '.join(map(node_text, items))})"
        case Call(what, operands):
            if what in FUNCTIONS:
                return f"{what}({', '.join(map(node_text, operands))})"
            return f" {what} ".join(map(_inner, operands))


def _inner(node: Node) -> str:
    text = node_text(node)
    return f"({text})" if isinstance(node, Call) and node.what not in FUNCTIONS else text


def constants_in(node: Node) -> Iterator[Scalar]:
    """Iterate over the literal values of an expression."""
    match node:
        case Constant(value):
            yield value
        case Call(_, operands):
            for operand in operands:
                yield from constants_in(operand)


def type_of(node: Node) -> type | None:
    """Return the static type of an expression (bool, int or str), or None if it depends on the event."""
    match node:
        case Constant(value):
            return type(value)
        case Name():
            return None
        case Call(what, _):
            return FUNCTIONS[what].gives if what in FUNCTIONS else int if what in _ARITHMETIC else bool


def result_of(node: Node, event: Mapping[str, object]) -> bool | None:
    """Return whether an expression is true for an event; None for an error, or if the result is no Boolean."""
    try:
        result = _value(node, event, _Work())
    except Failed:
        return None
    return result if type(result) is bool else None


def primitive(value: Value | None) -> Scalar:
    """Convert the value of an attribute to a type of the language."""
    match value:
        case None:
            raise Failed
        case Timestamp():
            return value.isoformat()
        case bool() | str():
            return value
        case float() if value.is_integer() and INT_MIN <= value <= INT_MAX:
            return int(value)
        case int() if INT_MIN <= value <= INT_MAX:
            return value
    return repr(value)


def cast(value: Scalar, to: type) -> Any:
    """Cast a value to a type (3.7)."""
    if type(value) is to:
        return value
    if to is str:
        return str(value).lower() if type(value) is bool else str(value)
    if to is bool:
        if type(value) is int:
            return value != 0
        if len(str(value)) <= 5 and (word := str(value).lower()) in ("true", "false"):
            return word == "true"
        raise Failed
    if type(value) is str and not _INTEGER.fullmatch(value):
        raise Failed
    return _fitting(int(value))


def _fitting(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise Failed
    return number


def _value(node: Node, event: Mapping[str, object], work: _Work) -> Scalar:
    match node:
        case Constant(value):
            return value
        case Name(name):
            return primitive(comparable(event.get(name)))
        case Call("AND" | "OR" | "XOR" as what, operands):
            return _logic(what, operands, event, work)
        case Call("EXISTS", (Name(name),)):
            return name.lower() in REQUIRED or comparable(event.get(name)) is not None
        case Call("IN", (first, *items)):
            wanted = _value(first, event, work)
            return any(cast(_value(item, event, work), type(wanted)) == wanted for item in items)
        case Call(what, operands):
            values = [_value(operand, event, work) for operand in operands]
            work.take(sum(len(value) for value in values if isinstance(value, str)))
            if what in FUNCTIONS:
                function = FUNCTIONS[what]
                takes = function.takes[: len(values)] + function.takes[-1:] * (
                    len(values) - len(function.takes)
                )
                given = [cast(value, to) for value, to in zip(values, takes, strict=True)]
                if what == "CONCAT_WS":  # the separator is repeated
                    work.take(len(given[0]) * len(given))
                return function.does(*given)
            if what in ("=", "<>"):
                return (cast(values[0], type(values[1])) == values[1]) is (what == "=")
            return _OPERATORS[what](*values)


def _logic(what: str, operands: Sequence[Node], event: Mapping[str, object], work: _Work) -> bool:
    truth: bool = cast(_value(operands[0], event, work), bool)
    for operand in operands[1:]:
        if what != "XOR" and truth is (what == "OR"):
            return truth
        other: bool = cast(_value(operand, event, work), bool)
        truth = truth is not other if what == "XOR" else other
    return truth


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise Failed
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_ARITHMETIC: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": lambda a, b: a - b * _divided(a, b),
}
_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _of_integers(does: Callable[[int, int], int]) -> Callable[[Scalar, Scalar], int]:
    def do(left: Scalar, right: Scalar) -> int:
        result = does(cast(left, int), cast(right, int))
        return result if type(result) is bool else _fitting(result)

    return do


def _like(value: Scalar, pattern: str) -> bool:
    return like_test(pieces_of(pattern_elements(pattern)))(cast(value, str))


def pattern_elements(pattern: str) -> tuple[str | int, ...]:
    """Return the elements of a LIKE pattern: a backslash is an escape before ``%`` and ``_`` only (3.4.3)."""
    escaped = re.sub(r"\\(?![%_])", r"\\\\", pattern)
    return like_elements(escaped, "\\")


_OPERATORS: Final[dict[str, Callable[..., int]]] = {
    **{what: _of_integers(does) for what, does in (_ARITHMETIC | _ORDERS).items()},
    "NOT": lambda value: not cast(value, bool),
    "LIKE": _like,
}


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its parameter types (the last one repeated if `more`) and its result type."""

    does: Callable[..., Scalar]
    takes: tuple[type, ...]
    gives: type
    fewest: int
    more: bool = False

    def accepts(self, operands: int) -> bool:
        """Return whether the function accepts so many operands."""
        return operands >= self.fewest and (self.more or operands <= len(self.takes))


def _left(text: str, length: int) -> str:
    if length < 0:
        raise Failed
    return text[:length]


def _right(text: str, length: int) -> str:
    return _left(text[::-1], length)[::-1]


def _substring(text: str, start: int, length: int = INT_MAX) -> str:
    if abs(start) > len(text) or length < 0:
        raise Failed
    if start == 0:
        return ""
    begin = start - 1 if start > 0 else len(text) + start
    return text[begin : begin + length]


FUNCTIONS: Final[dict[str, Function]] = {
    "ABS": Function(lambda number: _fitting(abs(number)), (int,), int, 1),
    "BOOL": Function(lambda value: value, (bool,), bool, 1),
    "CONCAT": Function(lambda *texts: "".join(texts), (str,), str, 0, more=True),
    "CONCAT_WS": Function(lambda between, *texts: between.join(texts), (str,), str, 1, more=True),
    "INT": Function(lambda value: value, (int,), int, 1),
    "LEFT": Function(_left, (str, int), str, 2),
    "LENGTH": Function(len, (str,), int, 1),
    "LOWER": Function(str.lower, (str,), str, 1),
    "RIGHT": Function(_right, (str, int), str, 2),
    "STRING": Function(lambda value: value, (str,), str, 1),
    "SUBSTRING": Function(_substring, (str, int, int), str, 2),
    "TRIM": Function(lambda text: text.strip(_SPACES), (str,), str, 1),
    "UPPER": Function(str.upper, (str,), str, 1),
}
"""The functions of sections 3.5.1 and 3.5.2, and the casts."""
