"""The pictures of figures 4 and 5 of paper 1: a curve for each scheme, a panel for each number of publishers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..actors.pictures.picture import chart, legend_outside
from ..protocol.extras import extra
from .clusters import SCHEMES, curves
from .rows import Rows

with extra("plots"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LOOKS: Final = {"hrm": ("#0072B2", "o"), "hr": ("#D55E00", "s"), "hr, all nodes": ("#009E73", "^")}
WORDS: Final = {
    "hrm": "hybrid (hrm)",
    "hr": "hierarchical (hr), members as leaves",
    "hr, all nodes": "hierarchical (hr), all nodes",
}


def draw_tct(rows: Rows) -> Figure:
    """Draw the total cost of the tree by subscribers (figure 4)."""
    return _draw(rows, {"tct": "TCT, messages over all links"})


def draw_aed(rows: Rows) -> Figure:
    """Draw the average event delay by subscribers (figure 5); below it, the quotient over all subscribers together."""
    return _draw(
        rows,
        {
            "aed_seconds": "AED of a subscriber, ms an event",
            "seconds_per_notification": "of all together, ms a notification",
        },
    )


def _draw(rows: Rows, values: Mapping[str, str]) -> Figure:
    publishers = sorted({row["publishers"] for row in rows})
    figure = chart(5.1 * len(publishers), 3.9 * len(values))
    panels = figure.subplots(len(values), len(publishers), squeeze=False)
    for line, (value, label) in zip(panels, values.items(), strict=True):
        for axes, many in zip(line, publishers, strict=True):
            _curves(axes, curves(rows, value), many, 1_000 if "seconds" in value else 1)
            axes.set(xscale="log", xlabel="subscribers", ylabel=label, title=f"{many:,} publishers")
            if value != "aed_seconds":
                axes.set_yscale("log")
            axes.grid(alpha=0.25)
    legend_outside(figure)
    return figure


def _curves(
    axes: Axes, figure: Mapping[tuple[str, int], Mapping[float, float]], publishers: int, factor: float
) -> None:
    for size, name in zip((9, 6, 6), SCHEMES, strict=True):  # curves that are the same lie on each other
        curve = figure.get((name, publishers), {})
        colour, marker = LOOKS[name]
        shown = [value * factor for value in curve.values()]
        axes.plot(list(curve), shown, color=colour, marker=marker, markersize=size, label=WORDS[name])
