"""The pictures of paper 5: figures 1 to 4, and table 1 as a curve."""

from __future__ import annotations

from typing import Any, Final

from ...actors.pictures.picture import chart
from ...actors.pictures.style import PAGE_INCHES
from ...pipelines.figures.experiments import DEPTHS
from ...protocol.extras import extra
from ..rows import Rows
from .statements import LBDD_SECONDS, LOAD_MAX, POINT_TO_POINT_SECONDS, READINGS, by_subscribers
from .twelve import TAKEN_MBIT, WAYS

with extra("plots"):
    from matplotlib.figure import Figure

COLOURS: Final = {"point-to-point": "#0072B2", "LBDD": "#D55E00"}
PREFIX_LINES: Final = ("-", "--")


def draw_delay(rows: Rows) -> Figure:
    """Draw the delay by subscribers, with the paper's two numbers as crosses (figure 1)."""
    figure = _twelve(rows, "seconds", "delay, s")
    for axes in figure.axes:
        axes.plot(
            [11],
            [POINT_TO_POINT_SECONDS],
            "x",
            color=COLOURS["point-to-point"],
            label="the paper's point-to-point",
        )
        axes.plot([11], [LBDD_SECONDS], "x", color=COLOURS["LBDD"], label="the paper's LBDD")
    return _finished(figure)


def draw_rate(rows: Rows) -> Figure:
    """Draw the rate by subscribers (figure 2)."""
    return _finished(_twelve(rows, "rate_mbit", "rate, Mbit/s", TAKEN_MBIT))


def draw_load(rows: Rows) -> Figure:
    """Draw the publisher's load by subscribers (figure 3)."""
    return _finished(_twelve(rows, "publisher_load", "publisher's load", LOAD_MAX))


def _finished(figure: Figure) -> Figure:
    """Scale every panel to its content, from 0 on, and add a legend that covers nothing."""
    for axes in figure.axes:
        axes.autoscale()
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
    return figure


def _twelve(rows: Rows, value: str, label: str, paper: float | None = None) -> Figure:
    figure = chart(PAGE_INCHES, 7.6)
    panels = figure.subplots(2, 2).flat
    for empty in panels[len(READINGS) :]:
        empty.remove()
    for axes, (taken, words) in zip(panels, READINGS.items(), strict=False):
        for way in WAYS:
            line = by_subscribers(rows, way, value, taken)
            axes.plot(list(line), list(line.values()), color=COLOURS[way], marker="o", label=way)
        if paper is not None:
            axes.axhline(paper, color=COLOURS["LBDD"], linestyle=":", label="LBDD in the paper")
        axes.set(xlabel="subscribers", ylabel=label, title=words)
        axes.grid(alpha=0.25)
    return figure


def draw_depth(rows: Rows) -> Figure:
    """Draw the mean depth with its range, and the mean out-degree (table 1, theorem 2)."""
    figure, axes = _plans(rows, {"depth": "depth, mean", "out_degree": "out-degree, mean"})
    for number, row in enumerate(rows):
        ends = [row["depth_min"], row["depth_max"]]
        label = "" if number else "depth, least to greatest"
        axes.plot([row["subscribers"]] * 2, ends, color="#777777", alpha=0.5, label=label)
    axes.axhspan(*DEPTHS, color="#0072B2", alpha=0.1, label="depth in the paper")
    axes.set(ylabel="levels, and copies that a node sends")
    return _finished(figure)


def draw_contribution(rows: Rows) -> Figure:
    """Draw the contributions of the publisher and of the busiest subscriber (figure 4)."""
    figure, axes = _plans(
        rows, {"publisher_share": "publisher", "largest_subscriber_share": "busiest subscriber"}
    )
    axes.set(ylabel="share of all copies")
    return _finished(figure)


def _plans(rows: Rows, values: dict[str, str]) -> tuple[Figure, Any]:
    figure = chart(5.6, 4.5)
    axes = figure.subplots()
    for prefix, style in zip(sorted({row["prefix"] for row in rows}), PREFIX_LINES, strict=False):
        mine = sorted((row for row in rows if row["prefix"] == prefix), key=lambda row: row["subscribers"])
        sizes = [row["subscribers"] for row in mine]
        for (value, label), colour in zip(values.items(), COLOURS.values(), strict=False):
            words = f"{label} ({prefix or 'any addresses'})"
            axes.plot(sizes, [row[value] for row in mine], style, color=colour, marker="o", label=words)
    axes.set(xlabel="subscribers")
    axes.grid(alpha=0.25)
    return figure, axes
