"""The text of an attribute in upper or lower case: ``UPPER(origin) = 'JFK'``.

Rules
-----
* A condition on it becomes an `ILike` of the attribute: two texts are equal in upper case exactly if they differ
  only in case (`cases`).
* A literal that is not in that case itself matches nothing. Then the condition is false for every string, and unknown
  for everything else, as for any text that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...protocol.errors import SelectorError
from .cases import in_lower_case, in_upper_case
from .conditions import (
    And,
    Compare,
    Contains,
    ILike,
    In,
    Like,
    Not,
    Or,
    Predicate,
    Prefix,
    Suffix,
)
from .like_patterns import like_elements

__all__ = ["InCase", "escaped"]

_ESCAPE: Final = "\\"


def escaped(text: str) -> str:
    """Return a LIKE pattern that matches exactly this text, with a backslash as the escape."""
    return "".join(_ESCAPE + c if c in ("%", "_", _ESCAPE) else c for c in text)


@dataclass(frozen=True, slots=True)
class InCase:
    """An attribute's text in upper case, or in lower case."""

    name: str
    upper: bool

    def of(self, condition: Predicate) -> Predicate:
        """Convert a condition on the attribute itself to the same condition on the text in upper or lower case.

        Raises
        ------
        SelectorError
            If the condition is not on strings, or compares their order.
        """
        match condition:
            case And(terms):
                return And(tuple(map(self.of, terms)))
            case Or(terms):
                return Or(tuple(map(self.of, terms)))
            case Not(term):
                return Not(self.of(term))
            case Compare(_, "=", str() as text):
                return self._like("", text, "")
            case Compare(_, "<>", str() as text):
                return Not(self._like("", text, ""))
            case In(_, literals) if all(isinstance(text, str) for text in literals):
                return Or(tuple(self._like("", str(text), "") for text in literals))
            case Prefix(_, text):
                return self._like("", text, "%")
            case Suffix(_, text):
                return self._like("%", text, "")
            case Contains(_, text):
                return self._like("%", text, "%")
            case Like(_, pattern, escape):
                text = "".join(each for each in like_elements(pattern, escape) if isinstance(each, str))
                return ILike(self.name, pattern, escape) if self._stays(text) else self._never()
        word = "UPPER" if self.upper else "LOWER"
        raise SelectorError(
            f"{word} goes with =, <>, IN, LIKE, PREFIX, SUFFIX and CONTAINS, and with strings"
        )

    def _like(self, before: str, text: str, after: str) -> Predicate:
        if not self._stays(text):
            return self._never()
        return ILike(self.name, before + escaped(text) + after, _ESCAPE)

    def _stays(self, text: str) -> bool:
        case: Callable[[str], str] = in_upper_case if self.upper else in_lower_case
        return case(text) == text

    def _never(self) -> Predicate:
        return Compare(self.name, "<", "")  # no text is less than the empty one
