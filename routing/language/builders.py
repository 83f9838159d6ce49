"""Conditions written in Python: ``(attr("price") > 2) & attr("origin").isin(["JFK", "LGA"])``.

Rules
-----
* They make the same conditions as selector text, with the same checks.
* Values may be Python, numpy, pandas or ``datetime`` scalars; a naive ``datetime`` is UTC.
* ``&``, ``|`` and ``~`` bind tighter than comparisons in Python: put comparisons in parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from ...protocol.checks import shown, text
from ...protocol.errors import NoTruthValue, SelectorError
from .predicates import Between, Compare, Contains, In, IsNull, Like, Predicate, Prefix, Suffix

__all__ = ["Attribute", "attr"]


class Attribute:
    """An event attribute in a condition; made by :func:`attr`."""

    __slots__ = ("name",)
    __hash__: Final = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, name: str) -> None:
        self.name = text("attribute name", name, SelectorError)

    def __repr__(self) -> str:
        return f"attr({self.name!r})"

    def _compare(self, op: str, value: Any) -> Compare:
        if isinstance(value, Attribute):
            raise SelectorError(
                f"comparing attribute {self.name!r} with attribute {value.name!r} is not supported: "
                "an attribute is compared with a value"
            )
        return Compare(self.name, op, value)

    def __eq__(self, value: Any) -> Predicate:  # type: ignore[override]
        return self._compare("=", value)

    def __ne__(self, value: Any) -> Predicate:  # type: ignore[override]
        return self._compare("<>", value)

    def __lt__(self, value: Any) -> Predicate:
        return self._compare("<", value)

    def __le__(self, value: Any) -> Predicate:
        return self._compare("<=", value)

    def __gt__(self, value: Any) -> Predicate:
        return self._compare(">", value)

    def __ge__(self, value: Any) -> Predicate:
        return self._compare(">=", value)

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(f"{self!r} alone is no condition: for a boolean attribute write {self!r} == True")

    def between(self, low: Any, high: Any) -> Predicate:
        """Return the condition that the value lies between two bounds, both included."""
        return Between(self.name, low, high)

    def isin(self, values: Iterable[Any]) -> Predicate:
        """Return the condition that the value is one of these."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise SelectorError(f"isin needs a list of values, found {shown(values)}")
        return In(self.name, tuple(values))

    def like(self, pattern: str, escape: str | None = None) -> Predicate:
        """Return the condition that the string matches a LIKE pattern (``%`` any text, ``_`` a character)."""
        return Like(self.name, pattern, escape)

    def prefix(self, text: str) -> Predicate:
        """Return the condition that the string begins with `text`."""
        return Prefix(self.name, text)

    def suffix(self, text: str) -> Predicate:
        """Return the condition that the string ends with `text`."""
        return Suffix(self.name, text)

    def contains(self, text: str) -> Predicate:
        """Return the condition that `text` stands somewhere in the string."""
        return Contains(self.name, text)

    def is_null(self) -> Predicate:
        """Return the condition that the event does not have the attribute."""
        return IsNull(self.name)


def attr(name: str) -> Attribute:
    """Return the attribute `name`, to compare it: ``attr("dep_delay") > 60``."""
    return Attribute(name)
