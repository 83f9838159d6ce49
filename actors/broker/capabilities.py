"""What does not go together: one table, from which every refusal is raised before anything starts.

Rules
-----
* A row says which features, asked for together, which schemes cannot serve, and why. What no row names works.
* docs/schemes.md shows the table; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ...protocol.errors import InputError
from ...routing.schemes.claims import Claims, claims_of
from ...routing.schemes.registry import OPTIONS, SCHEMES

Feature: TypeAlias = Literal["recovery", "store", "admission", "operations", "chaos", "ray"]

FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)

ALL_SCHEMES: Final = (
    *SCHEMES,
    *("+".join((base, *sorted(each, reverse=True))) for base, made in OPTIONS.items() for each in made),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """One row.

    Attributes
    ----------
    features
        Asked for together.
    lacks
        Whether a scheme with these claims cannot serve them.
    cannot
        What it cannot, behind "scheme 'x'".
    reason
        Why not.
    """

    features: frozenset[Feature]
    lacks: Callable[[Claims], bool]
    cannot: str
    reason: str

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes that cannot."""
        return tuple(name for name in ALL_SCHEMES if self.lacks(claims_of(name)))

    @property
    def line(self) -> str:
        """The row as the docs show it."""
        words = " + ".join(f"`{feature}`" for feature in FEATURES if feature in self.features)
        who = ", ".join(f"`{name}`" for name in self.schemes) or "a scheme of your own"
        return f"| {words} | {who} | {self.reason} |"

    def error(self, scheme: str) -> InputError:
        """Return the refusal of a scheme."""
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
    """Check that a scheme can serve all that is asked for together.

    Parameters
    ----------
    scheme
        Its name, with options.
    asked
        By feature, whether it is asked for.

    Raises
    ------
    InputError
        If it cannot; the message says what, why, and which schemes can.
    """
    wanted = {feature for feature, is_wanted in asked.items() if is_wanted}
    for row in MISSING:
        if row.features <= wanted and row.lacks(claims_of(scheme)):
            raise row.error(scheme)
