"""The picture of self-configuration: how long a fault is felt, and its cost, by the size of the tree."""

from __future__ import annotations

from typing import Final

from ...actors.pictures.picture import chart
from ...protocol.extras import extra
from ..rows import Rows
from .runs import NOBODY, VICTIMS

with extra("plots"):
    from matplotlib.figure import Figure

VALUES: Final = {
    "structure": "seconds until it is one tree",
    "heard": "seconds until the last one receives again",
    "again": "events retransmitted, over links",
}


def draw_healing(rows: Rows) -> Figure:
    """Draw times and retransmitted events by the number of clusters, a curve for each victim."""
    figure = chart(10.2, 7.4)
    places = figure.subplots(2, 2).flat
    least = min(row["members"] for row in rows)
    for axes, (value, label) in zip(places, VALUES.items(), strict=False):
        for number, victim in enumerate(name for name in VICTIMS if name != NOBODY):
            line = sorted(
                (row["clusters"], row[value])
                for row in rows
                if row["victim"] == victim and row["members"] == least
            )
            axes.plot(
                [size for size, _ in line],
                [height for _, height in line],
                marker="os^vDxP"[number],
                label=victim,
            )
        axes.set(xscale="log", xlabel="clusters", ylabel=label)
        if value == "again":
            axes.set_yscale("symlog", linthresh=100)
        axes.set_ylim(0, None)
        axes.grid(alpha=0.25)
    for spare in figure.axes[len(VALUES) :]:  # room for the legend, which covers no curve there
        spare.remove()
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="lower right", bbox_to_anchor=(0.9, 0.2), fontsize=10, title="who fails"
    )
    return figure
