"""A figure for notebooks and files, and several figures stacked on one sheet.

Rules
-----
* pyplot and its global state are never touched.
* Drawing functions take a *sheet*: called with a width and a height in inches, it returns what to draw on. The same
  code therefore draws a picture of its own, or a part of a larger one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from ...protocol.errors import InputError
from ...protocol.extras import extra
from .style import DPI

with extra("plots"):
    from matplotlib.figure import Figure

Sheet = Callable[[float, float], Any]
"""Makes the figure, or the part of one, of a width and a height in inches."""


TITLE_POINTS: Final = 11
TITLE_CHARACTERS_AN_INCH: Final = 11
"""At least this many characters of a title at `TITLE_POINTS` fit into an inch."""


class Picture(Figure):
    """A matplotlib figure that notebooks display."""

    @classmethod
    def of(cls, width: float, height: float) -> Picture:
        """Return an empty picture of this size in inches, without automatic layout."""
        return cls(figsize=(width, height), dpi=DPI)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, in the format of its suffix, and return the path.

        Raises
        ------
        InputError
            If it cannot be written there, or the format is unknown.
        """
        try:
            self.savefig(path)
        except (OSError, TypeError, ValueError) as error:
            raise InputError(f"{path}: {error}") from None
        return Path(path)

    def _repr_png_(self) -> bytes:
        data = BytesIO()
        self.savefig(data, format="png")
        return data.getvalue()


def chart(width: float, height: float) -> Picture:
    """Return an empty picture whose axes make room for their labels."""
    return Picture(figsize=(width, height), dpi=DPI, layout="constrained")


def legend_outside(figure: Figure, side: str = "upper", ncols: int = 4) -> None:
    """Add one legend for all panels, above (`upper`) or below (`lower`) them, where it covers nothing."""
    named = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(named.values()),
        list(named),
        loc=f"outside {side} center",
        ncols=min(ncols, len(named)),
        fontsize=9,
        frameon=False,
    )


def stacked(title: str, draws: Sequence[Callable[..., object]]) -> Picture:
    """Draw several pictures below each other, each in its own size, left-aligned.

    Parameters
    ----------
    title
        The title, at the top.
    draws
        Functions that each draw one picture on the given `sheet`.
    """
    whole = chart(1.0, 1.0)
    places = whole.add_gridspec(len(draws), 1)
    sizes: list[tuple[float, float]] = []
    sides = []
    for row, draw in enumerate(draws):
        halves = whole.add_subfigure(places[row]).add_gridspec(1, 2)

        def sheet(width: float, height: float, halves: Any = halves) -> Any:
            sizes.append((width, height))
            return halves.figure.add_subfigure(halves[0])

        draw(sheet=sheet)
        sides.append(halves)
    width = max(wide for wide, _ in sizes)
    for halves, (wide, _) in zip(sides, sizes, strict=True):
        halves.set_width_ratios([wide, max(width - wide, 1e-6)])
    places.set_height_ratios([high for _, high in sizes])
    lines = textwrap.wrap(title, max(20, int(width * TITLE_CHARACTERS_AN_INCH)))
    whole.suptitle("\n".join(lines), fontsize=TITLE_POINTS, x=0.01, ha="left")
    whole.set_size_inches(width, sum(high for _, high in sizes) + 0.1 + len(lines) * TITLE_POINTS / 50)
    return whole
