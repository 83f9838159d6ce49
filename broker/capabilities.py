"""Combinations of features and schemes that are not supported: one table, checked before anything starts.

Rules
-----
* A row names features, the schemes that cannot serve them together, and the reason. A combination that no row names
  is supported.
* docs/schemes.md shows the table; a test keeps both in sync.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ..protocol.errors import InputError
from ..routing.schemes.claims import Claims, claims_of
from ..routing.schemes.registry import OPTIONS, SCHEMES

Feature: TypeAlias = Literal["recovery", "store", "admission", "operations", "chaos", "ray"]

FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)

ALL_SCHEMES: Final = (
    *SCHEMES,
    *("+".join((base, *sorted(each, reverse=True))) for base, made in OPTIONS.items() for each in made),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """One row of the table.

    Attributes
    ----------
    features
        The features, when asked for together.
    lacks
        Whether a scheme with these claims cannot serve them.
    cannot
        What the scheme cannot do, as text that follows "scheme 'x'".
    reason
        Why not.
    """

    features: frozenset[Feature]
    lacks: Callable[[Claims], bool]
    cannot: str
    reason: str

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes that cannot serve the features."""
        return tuple(name for name in ALL_SCHEMES if self.lacks(claims_of(name)))

    @property
    def line(self) -> str:
        """The row as the docs show it."""
        words = " + ".join(f"`{feature}`" for feature in FEATURES if feature in self.features)
        who = ", ".join(f"`{name}`" for name in self.schemes) or "a scheme of your own"
        return f"| {words} | {who} | {self.reason} |"

    def error(self, scheme: str) -> InputError:
        """Return the error for a scheme."""
        can = ", ".join(name for name in ALL_SCHEMES if name not in self.schemes)
        return InputError(f"scheme {scheme!r} {self.cannot}: {self.reason}" + (f"; {can} can" if can else ""))


MISSING: Final = (
    Missing(
        frozenset({"recovery"}),
        lambda claims: not claims.heals,
        "cannot heal",
        "its `claims` do not say that it does, so nothing is known that would mend it",
    ),
)


def check(scheme: str, **asked: bool) -> None:
    """Check that a scheme supports all features that are asked for together.

    Parameters
    ----------
    scheme
        Its name, with options.
    asked
        Whether a feature is asked for, by feature.

    Raises
    ------
    InputError
        If the scheme does not support them; the message says what it cannot do, why, and which schemes can.
    """
    wanted = {feature for feature, is_wanted in asked.items() if is_wanted}
    for row in MISSING:
        if row.features <= wanted and row.lacks(claims_of(scheme)):
            raise row.error(scheme)
