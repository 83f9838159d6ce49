"""The picture of reliability: messages, stable writes and time to consistency, by crashes and damaged brokers."""

from __future__ import annotations

from typing import Final

from ...actors.pictures.picture import chart
from ...protocol.extras import extra
from ..rows import Rows
from .runs import CRASHES, DAMAGE

with extra("plots"):
    from matplotlib.figure import Figure

PANELS: Final = (
    (CRASHES, "messages", "messages for an event", "crashes of each broker in 100 s"),
    (CRASHES, "commits", "stable writes for an event", "crashes of each broker in 100 s"),
    (CRASHES, "consistent", "longest delay of a notification, s", "crashes of each broker in 100 s"),
    (DAMAGE, "consistent", "seconds until all is sound", "brokers damaged at once"),
)


def draw_reliability(rows: Rows) -> Figure:
    """Draw a curve for each size of network."""
    figure = chart(10.2, 7.4)
    for axes, (mode, value, label, below) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        for size in sorted({row["size"] for row in rows}):
            line = sorted(
                (row["rate"], row[value]) for row in rows if (row["mode"], row["size"]) == (mode, size)
            )
            axes.plot(
                [rate for rate, _ in line],
                [height for _, height in line],
                marker="o",
                label=f"{size} brokers",
            )
        axes.set(xlabel=below, ylabel=label, ylim=(0, None))
        axes.grid(alpha=0.25)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), fontsize=9, frameon=False)
    return figure
