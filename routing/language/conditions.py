"""Conditions as written: the syntax tree of selectors, builders and JSON patterns.

Rules
-----
* A meaningless condition is rejected when it is made, in any language: an empty BETWEEN, a NaN or infinite bound,
  an IN of values that are not comparable, an order of booleans.
* Literals are normalised when a condition is made, so that equivalent literals give equal conditions. Conditions with
  0 and with FALSE are not equal, although Python finds these values equal: `group` is the type of a literal.
* Nesting is limited to :data:`DEPTH_MAX`, so that no recursion over a condition exhausts the stack.

Source: JMS 1.1, section 3.8.1 (message selectors). PREFIX, SUFFIX and CONTAINS are our additions; IS TRUE and similar
are from SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...protocol.batch import ATTRIBUTES_MAX, check_name
from ...protocol.checks import shown
from ...protocol.errors import EventError, FilterTooComplex, NoTruthValue, SelectorError
from ...protocol.values import Value
from ..filters.networks import network_of
from .expressions import Expression
from .like_patterns import like_elements
from .values import DEPTH_MAX, GROUPS, check_length, check_literal, is_integer

if TYPE_CHECKING:
    from .cesql_values import Node

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
_set: Final = object.__setattr__
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator of a comparison after its sides are swapped."""


class Predicate:
    """A condition on an event. Combine conditions with ``&``, ``|`` and ``~``."""

    __slots__ = ()
    depth: int = 0

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return And(_terms(And, self) + _terms(And, other))

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return Or(_terms(Or, self) + _terms(Or, other))

    def __invert__(self) -> Predicate:
        return self.term if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise NoTruthValue(
            "a condition has no truth value without an event: combine conditions with & | ~ "
            "instead of and, or, not, and write 1 < x < 2 as attr('x').between(1, 2)"
        )


def _terms(kind: type[And] | type[Or], predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.terms if isinstance(predicate, kind) else (predicate,)


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """A constant condition: TRUE, FALSE, or unknown (None)."""

    value: bool | None


TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """``attribute op literal``, with `op` one of ``= <> < <= > >=``."""

    attribute: str
    op: str
    literal: Value
    group: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _check_op(self.op)
        literal = check_literal(self.literal)
        if isinstance(literal, bool) and self.op not in ("=", "<>"):
            raise SelectorError(f"booleans have no order: use = or <> instead of {self.op}")
        _set(self, "literal", literal)
        _set(self, "group", GROUPS[type(literal)])


@dataclass(frozen=True, slots=True)
class Between(Predicate):
    """``attribute BETWEEN low AND high``, both included."""

    attribute: str
    low: Value
    high: Value

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        low, high = check_literal(self.low), check_literal(self.high)
        check_bounds(low, high)
        _set(self, "low", low)
        _set(self, "high", high)


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """``attribute IN (literals)``."""

    attribute: str
    literals: tuple[Value, ...]
    group: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        check_length("IN", self.literals)
        literals = tuple(map(check_literal, self.literals))
        if not literals:
            raise SelectorError("IN needs at least one value")
        check_one_group("IN", literals)
        _set(self, "literals", literals)
        _set(self, "group", GROUPS[type(literals[0])])


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """``attribute LIKE pattern [ESCAPE escape]``: ``%`` is any text, ``_`` one character."""

    attribute: str
    pattern: str
    escape: str | None = None

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "pattern", _plain_text("LIKE", self.pattern))
        if self.escape is not None and (not isinstance(self.escape, str) or len(self.escape) != 1):
            raise SelectorError(f"ESCAPE needs exactly one character, found {shown(self.escape)}")
        like_elements(self.pattern, self.escape)


@dataclass(frozen=True, slots=True)
class ILike(Predicate):
    """``attribute ILIKE pattern [ESCAPE escape]``: LIKE that ignores case."""

    attribute: str
    pattern: str
    escape: str | None = None

    def __post_init__(self) -> None:
        like = Like(self.attribute, self.pattern, self.escape)
        _set(self, "attribute", like.attribute)
        _set(self, "pattern", like.pattern)


@dataclass(frozen=True, slots=True)
class Cidr(Predicate):
    """``attribute CIDR text``: the string is an address of a block, ``10.0.0.0/8``."""

    attribute: str
    text: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "text", _plain_text("CIDR", self.text))
        network_of(self.text)


@dataclass(frozen=True, slots=True)
class Prefix(Predicate):
    """``attribute PREFIX text``: the string begins with the text."""

    attribute: str
    text: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "text", _plain_text("PREFIX", self.text))


@dataclass(frozen=True, slots=True)
class Suffix(Predicate):
    """``attribute SUFFIX text``: the string ends with the text."""

    attribute: str
    text: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "text", _plain_text("SUFFIX", self.text))


@dataclass(frozen=True, slots=True)
class Contains(Predicate):
    """``attribute CONTAINS text``: the string contains the text."""

    attribute: str
    text: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "text", _plain_text("CONTAINS", self.text))


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """``attribute IS NULL``: the attribute is missing or null."""

    attribute: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))


@dataclass(frozen=True, slots=True)
class IsMissing(Predicate):
    """``attribute IS MISSING``: the event does not have the attribute; a null attribute is not missing."""

    attribute: str

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))


@dataclass(frozen=True, slots=True)
class HasElement(Predicate):
    """``attribute CONTAINS ALL (literal)``: the array has an element that equals the literal."""

    attribute: str
    literal: Value
    group: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        _set(self, "literal", _element(self.literal))
        _set(self, "group", GROUPS[type(self.literal)])


@dataclass(frozen=True, slots=True)
class IsList(Predicate):
    """``attribute = ARRAY[literals]``: the array has exactly these elements, in this order."""

    attribute: str
    literals: tuple[Value, ...]
    groups: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "attribute", _attribute_name(self.attribute))
        check_length("ARRAY", self.literals)
        literals = tuple(map(_element, self.literals))
        _set(self, "literals", literals)
        _set(self, "groups", tuple(GROUPS[type(literal)] for literal in literals))


@dataclass(frozen=True, slots=True)
class Only(Predicate):
    """``ONLY (names)``: the event has no other attribute; true or false, never unknown.

    An event with arrays has the attributes of all their elements.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        names = tuple(sorted(set(map(_attribute_name, self.names))))
        if len(names) > ATTRIBUTES_MAX:
            raise FilterTooComplex(f"ONLY with {len(names)} attributes, the limit is {ATTRIBUTES_MAX}")
        _set(self, "names", names)


@dataclass(frozen=True, slots=True)
class Relation(Predicate):
    """``left op right`` for anything other than one attribute and one literal; made by `comparison`."""

    left: Expression
    op: str
    right: Expression

    def __post_init__(self) -> None:
        _check_op(self.op)


@dataclass(frozen=True, slots=True)
class Undefined(Predicate):
    """``expression IS NULL``: the expression has no value."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class CloudSql(Predicate):
    """The condition that an expression of CloudEvents SQL is true; unknown where it has an error."""

    expression: Node


@dataclass(frozen=True, slots=True)
class IsTruth(Predicate):
    """``term IS TRUE``, ``IS FALSE`` or ``IS UNKNOWN`` (None); the result is never unknown."""

    term: Predicate
    value: bool | None
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "depth", _depth_over((self.term,)))


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """``NOT term``."""

    term: Predicate
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "depth", _depth_over((self.term,)))


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """The conjunction of the terms; True without terms."""

    terms: tuple[Predicate, ...]
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "depth", _depth_over(self.terms))


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """The disjunction of the terms; False without terms."""

    terms: tuple[Predicate, ...]
    depth: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "depth", _depth_over(self.terms))


def _depth_over(terms: Iterable[Predicate]) -> int:
    depth = 1 + max((term.depth for term in terms), default=0)
    if depth > DEPTH_MAX:
        raise FilterTooComplex(f"AND, OR and NOT are nested more than {DEPTH_MAX} deep")
    return depth


def _element(value: Value) -> Value:
    """Return a literal in its one form: 1.0 is 1."""
    literal = check_literal(value)
    return int(literal) if type(literal) is float and is_integer(literal) else literal


def _check_op(op: str) -> None:
    if not isinstance(op, str) or op not in COMPARISONS:
        raise SelectorError(f"no comparison is called {shown(op)}: use one of {' '.join(COMPARISONS)}")


def check_one_group(word: str, literals: Iterable[Value]) -> str:
    """Return the common group of the values; SelectorError when there is more than one group."""
    groups = list(dict.fromkeys(GROUPS[type(literal)] for literal in literals))
    if len(groups) > 1:
        raise SelectorError(f"{word} needs values that compare with each other, found {' and '.join(groups)}")
    return groups[0]


def check_bounds(low: Value, high: Value) -> None:
    """Check that the range between two bounds is not empty; SelectorError if it is."""
    if check_one_group("BETWEEN", (low, high)) == "boolean":
        raise SelectorError("booleans have no order: BETWEEN needs numbers, strings or timestamps")
    if low > high:  # type: ignore[operator]  # both are of one group
        raise SelectorError(
            f"BETWEEN {low!r} AND {high!r} is empty: its lower bound is above its upper bound"
        )


def _attribute_name(name: str) -> str:
    try:
        return check_name(name)
    except EventError as error:
        raise SelectorError(str(error)) from None


def _plain_text(word: str, text: str) -> str:
    if not isinstance(text, str):
        raise SelectorError(f"{word} needs a string, found a {type(text).__name__}")
    check_length(word, text)
    return str.__str__(text)
