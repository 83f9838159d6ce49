"""Conditions written in Python: ``(attr("price") > 2) & attr("origin").isin(["JFK", "LGA"])``.

Rules
-----
* Builders make the same conditions as selector text, with the same checks.
* Values may be Python, numpy, pandas or ``datetime`` scalars; a naive ``datetime`` is UTC.
* ``+ - * /`` of attributes, numbers and other terms are terms that can be compared: ``attr("bid") * 2 >
  attr("ask")``.
* ``&``, ``|`` and ``~`` bind tighter than comparisons in Python: put comparisons in parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from ...protocol.checks import shown, text
from ...protocol.errors import NoTruthValue, SelectorError
from ..filters.printing import expression_text
from .expressions import Expression, Literal, Ref, Size, arithmetic, negative, positive
from .in_case import InCase
from .lists import contains_all, contains_any, contains_none, elements_of
from .predicates import Cidr, Contains, ILike, IsList, IsMissing, Like, Not, Predicate, Prefix, Suffix
from .relations import between, comparison, no_value, one_of

__all__ = ["Attribute", "Term", "attr"]


class Term:
    """A value in a condition: an attribute, or a calculated value."""

    __slots__ = ("expression",)
    __array_ufunc__ = None  # a numpy number on the left defers to this class
    __hash__: Final = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"<{expression_text(self.expression)}>"

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return comparison("=", self.expression, _expression(value))

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return comparison("<>", self.expression, _expression(value))

    def __lt__(self, value: object) -> Predicate:
        return comparison("<", self.expression, _expression(value))

    def __le__(self, value: object) -> Predicate:
        return comparison("<=", self.expression, _expression(value))

    def __gt__(self, value: object) -> Predicate:
        return comparison(">", self.expression, _expression(value))

    def __ge__(self, value: object) -> Predicate:
        return comparison(">=", self.expression, _expression(value))

    def __add__(self, value: object) -> Term:
        return Term(arithmetic("+", self.expression, _expression(value)))

    def __radd__(self, value: object) -> Term:
        return Term(arithmetic("+", _expression(value), self.expression))

    def __sub__(self, value: object) -> Term:
        return Term(arithmetic("-", self.expression, _expression(value)))

    def __rsub__(self, value: object) -> Term:
        return Term(arithmetic("-", _expression(value), self.expression))

    def __mul__(self, value: object) -> Term:
        return Term(arithmetic("*", self.expression, _expression(value)))

    def __rmul__(self, value: object) -> Term:
        return Term(arithmetic("*", _expression(value), self.expression))

    def __truediv__(self, value: object) -> Term:
        return Term(arithmetic("/", self.expression, _expression(value)))

    def __rtruediv__(self, value: object) -> Term:
        return Term(arithmetic("/", _expression(value), self.expression))

    def __neg__(self) -> Term:
        return Term(negative(self.expression))

    def __pos__(self) -> Term:
        return Term(positive(self.expression))

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(
            f"{self!r} alone is not a condition: for a boolean attribute write {self!r} == True"
        )

    def between(self, low: object, high: object) -> Predicate:
        """Return the condition that the value is between two bounds, both included."""
        return between(self.expression, _expression(low), _expression(high))

    def isin(self, values: Iterable[object]) -> Predicate:
        """Return the condition that the value is one of these."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise SelectorError(f"isin needs a list of values, found {shown(values)}")
        return one_of(self.expression, [_expression(value) for value in values])

    def is_null(self) -> Predicate:
        """Return the condition that the value is missing or null."""
        return no_value(self.expression)


class Attribute(Term):
    """An event attribute in a condition; made by :func:`attr`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = text("attribute name", name, SelectorError)
        super().__init__(Ref(self.name))

    def __repr__(self) -> str:
        return f"attr({self.name!r})"

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return IsList(self.name, tuple(value)) if isinstance(value, list | tuple) else super().__eq__(value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return Not(self == value) if isinstance(value, list | tuple) else super().__ne__(value)

    def like(self, pattern: str, escape: str | None = None) -> Predicate:
        """Return the condition that the string matches a LIKE pattern (``%`` any text, ``_`` a character)."""
        return Like(self.name, pattern, escape)

    def ilike(self, pattern: str, escape: str | None = None) -> Predicate:
        """Return the condition that the string matches a LIKE pattern, ignoring case."""
        return ILike(self.name, pattern, escape)

    def prefix(self, text: str) -> Predicate:
        """Return the condition that the string begins with `text`."""
        return Prefix(self.name, text)

    def suffix(self, text: str) -> Predicate:
        """Return the condition that the string ends with `text`."""
        return Suffix(self.name, text)

    def contains(self, text: str) -> Predicate:
        """Return the condition that the string contains `text`."""
        return Contains(self.name, text)

    def cidr(self, network: str) -> Predicate:
        """Return the condition that the string is an address of a network, ``10.0.0.0/8`` or ``2001:db8::/32``."""
        return Cidr(self.name, network)

    def upper(self) -> CasedText:
        """Return the text in upper case, for comparison with texts in upper case."""
        return CasedText(InCase(self.name, upper=True))

    def lower(self) -> CasedText:
        """Return the text in lower case, for comparison with texts in lower case."""
        return CasedText(InCase(self.name, upper=False))

    def contains_all(self, values: Iterable[object]) -> Predicate:
        """Return the condition that the array has each of the values, possibly among others."""
        return contains_all(self.name, elements_of(values))

    def contains_any(self, values: Iterable[object]) -> Predicate:
        """Return the condition that the array has at least one of the values."""
        return contains_any(self.name, elements_of(values))

    def contains_none(self, values: Iterable[object]) -> Predicate:
        """Return the condition that the array has none of the values."""
        return contains_none(self.name, elements_of(values))

    def size(self) -> Term:
        """Return the number of elements of the array, for comparison with a number; a single value is one element."""
        return Term(Size(self.name))

    def is_missing(self) -> Predicate:
        """Return the condition that the event does not have the attribute; a null attribute is not missing."""
        return IsMissing(self.name)


class CasedText:
    """The text of an attribute in upper or lower case; made by :meth:`Attribute.upper` and :meth:`Attribute.lower`."""

    __slots__ = ("_text",)
    __hash__: Final = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, text: InCase) -> None:
        self._text = text

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._text.of(Attribute(self._text.name) == value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._text.of(Attribute(self._text.name) != value)

    def isin(self, values: Iterable[object]) -> Predicate:
        """Return the condition that the text is one of these."""
        return self._text.of(Attribute(self._text.name).isin(values))

    def like(self, pattern: str, escape: str | None = None) -> Predicate:
        """Return the condition that the text matches a LIKE pattern."""
        return self._text.of(Like(self._text.name, pattern, escape))

    def prefix(self, text: str) -> Predicate:
        """Return the condition that the text begins with `text`."""
        return self._text.of(Prefix(self._text.name, text))

    def suffix(self, text: str) -> Predicate:
        """Return the condition that the text ends with `text`."""
        return self._text.of(Suffix(self._text.name, text))

    def contains(self, text: str) -> Predicate:
        """Return the condition that the text contains `text`."""
        return self._text.of(Contains(self._text.name, text))


def attr(name: str) -> Attribute:
    """Return the attribute `name`, for use in a comparison: ``attr("dep_delay") > 60``."""
    return Attribute(name)


def _expression(value: Any) -> Expression:
    return value.expression if isinstance(value, Term) else Literal(value)
