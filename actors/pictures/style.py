"""The style of pictures: colours, sizes, and the format of numbers and names.

Rules
-----
* Colour-blind readers can tell the colours apart.
* A figure's size in inches is the size at which it is meant to be shown.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ...protocol.extras import extra

with extra("plots"):
    from matplotlib.lines import Line2D

ROLE_COLOURS: Final = {"REB": "#B84A00", "DEB": "#0072B2", "NEB": "#007A5A"}
ROLE_NAMES: Final = {"REB": "root (REB)", "DEB": "designated (DEB)", "NEB": "member (NEB)"}
DEAD_COLOUR: Final = "#7A7A7A"
OTHER_COLOUR: Final = "#555555"
DPI: Final = 144
PAGE_INCHES: Final = 10.2
"""The maximum width of a picture that is not scaled down on the page of a report."""

LABEL_CHARACTERS_MAX: Final = 10
"""Longer labels are cut in a picture."""


def short(number: float) -> str:
    """Format a count in at most five characters: ``950``, ``12.3k``, ``4.6M``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit * 0.9995:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def cut(text: str, characters: int = LABEL_CHARACTERS_MAX) -> str:
    """Return a text cut to this many characters; an ellipsis replaces the rest."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def role_handles(roles: Collection[str], *, dead: bool = False) -> list[Any]:
    """Return the legend entries for the roles of brokers, and for dead brokers.

    If all of several brokers are roots, as in a hypercube, none is above another, and the entry reads "broker".
    """
    names = ROLE_NAMES | {"REB": "broker"} if len(roles) > 1 and set(roles) == {"REB"} else ROLE_NAMES
    handles: list[Any] = [
        Line2D([], [], marker="o", linestyle="none", markersize=8, color=colour, label=names[role])
        for role, colour in ROLE_COLOURS.items()
        if role in roles
    ]
    if dead:
        handles.append(
            Line2D([], [], marker="o", linestyle="none", markersize=8, color=DEAD_COLOUR, label="† died")
        )
    return handles
