"""The pictures of paper 3's figures 9 and 10, from the rows of the experiment.

Rule: each function returns a new matplotlib ``Figure``; pyplot and its global state are never used.
"""

from __future__ import annotations

from typing import Any

from ..actors.pictures.picture import chart, legend_outside
from ..protocol.extras import extra
from .admission_statements import OF_THE_WAY
from .rows import Rows

with extra("plots"):
    from matplotlib.figure import Figure


COLOURS = {"none": "#000000", "40 %": "#D55E00", "20 %": "#E69F00", "full": "#0072B2"}
MARKERS = {"none": "x", "40 %": "^", "20 %": "s", "full": "o"}
"""The markers of the criteria; a percentage of the way is drawn like that of all brokers, dotted."""


def figure_9(rows: Rows) -> Figure:
    """Return discarded events per second at a mean broker, and the share of refused subscriptions."""
    figure = chart(9.5, 4)
    left, right = figure.subplots(1, 2)
    _curves(left, rows, "discarded_per_second", "events discarded per second, mean broker")
    _curves(right, rows, "rejected", "subscriptions rejected", percent=True)
    legend_outside(figure, "lower")
    figure.suptitle("Figure 9: discarded events and rejected subscriptions")
    return figure


def figure_10(rows: Rows) -> Figure:
    """Return the mean utilisation of CPU, memory (named in the text) and links (named in the caption)."""
    figure = chart(10.2, 7.6)
    for axes, key, label in zip(
        figure.subplots(2, 2).flat,
        ("cpu", "memory", "bandwidth"),
        ("CPU, mean broker", "memory, mean broker", "bandwidth, mean link"),
        strict=False,
    ):
        _curves(axes, rows, key, f"utilisation: {label}", percent=True)
    figure.axes[-1].remove()
    legend_outside(figure, "lower")
    figure.suptitle("Figure 10: utilisation of CPU, memory and bandwidth")
    return figure


def _curves(axes: Any, rows: Rows, key: str, label: str, *, percent: bool = False) -> None:
    names = dict.fromkeys(row["criterion"] for row in rows)
    for name in names:
        alike = name.removesuffix(OF_THE_WAY)
        curve = sorted((row["subscribers"], row[key]) for row in rows if row["criterion"] == name)
        values = [value * 100 if percent else value for _, value in curve]
        line = ":" if name != alike else "-"
        places = [place for place, _ in curve]
        axes.plot(places, values, line, color=COLOURS[alike], marker=MARKERS[alike], label=name)
    axes.set_xlabel("subscribers")
    axes.set_ylabel(label + (" (%)" if percent else ""))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
