"""The pictures of paper 2: loads by originated messages, hops by dimensions, savings, and the effect of a move."""

from __future__ import annotations

from typing import Final

from ...actors.pictures.picture import chart, legend_outside
from ...protocol.extras import extra
from ...routing.topologies.cube import mean_hops
from ..rows import Rows
from .hops import PAIRS
from .migration import PHASES
from .traffic import CUBE, GRAPH, NETS

with extra("plots"):
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw_loads(rows: Rows) -> Figure:
    """Draw mean and largest load, and the balance of loads, by the range of originated messages (figures 6 and 7)."""
    figure = chart(10.2, 4.7)
    left, right = figure.subplots(1, 2)
    mine = [row for row in rows if row["most"]]
    curves = zip(dict.fromkeys(row["curve"] for row in mine), COLOURS, strict=False)
    for number, (curve, colour) in enumerate(curves):
        line = sorted((row for row in mine if row["curve"] == curve), key=lambda row: row["most"])
        axis = [row["most"] for row in line]
        wide = _tapered(1.5 * number)
        left.plot(
            axis, [row["load"] for row in line], color=colour, marker="o", label=f"{curve}, mean", **wide
        )
        most = [row["load"] * row["load_max_over_mean"] for row in line]
        left.plot(axis, most, ":", color=colour, label=f"{curve}, largest")
        right.plot(axis, [row["load_gini"] for row in line], color=colour, marker="o", label=f"{curve}, load")
    cube = sorted((row for row in mine if row["curve"] == CUBE), key=lambda row: row["most"])
    right.plot(
        [row["most"] for row in cube], [row["started_gini"] for row in cube], "k--", label="what they start"
    )
    left.set(xscale="log", yscale="log", xlabel="a broker starts, at most", ylabel="messages of a broker")
    right.set(xscale="log", xlabel="a broker starts, at most", ylabel="Gini coefficient", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.25)
    legend_outside(figure)
    return figure


def draw_hops(rows: Rows) -> Figure:
    """Draw the mean hops of replies by dimensions, and formula (1)."""
    figure = chart(5.6, 3.9)
    axes = figure.subplots()
    cubes = sorted((row["dimensions"], row["hops"]) for row in rows if row["sources"] == PAIRS)
    axis = [many for many, _ in cubes]
    axes.plot(axis, [hops for _, hops in cubes], "o", color=COLOURS[0], label="measured, all pairs")
    axes.plot(axis, [mean_hops(many) for many in axis], color=COLOURS[1], label="formula (1)")
    axes.plot(axis, [many / 2 for many in axis], "k:", label="0.5 log2 N")
    axes.set(xlabel="dimensions", ylabel="hops, mean")
    axes.grid(alpha=0.25)
    legend_outside(figure)
    return figure


def draw_saving(rows: Rows) -> Figure:
    """Draw messages for an event and for a subscription, and the balance, by the share of interested brokers.

    The largest size is drawn.
    """
    figure = chart(10.2, 7.4)
    size = max(row["size"] for row in rows)
    values = {
        "events": "messages for an event",
        "told": "messages for a subscription",
        "busiest": "busiest broker, messages for an event",
        "load_max_over_mean": "largest load over the mean",
    }
    for axes, (value, label) in zip(figure.subplots(2, 2).flat, values.items(), strict=False):
        for number, (curve, colour) in enumerate(
            zip((name for name in NETS if name != "star"), COLOURS, strict=False)
        ):
            line = sorted(
                (row["wanting"], row[value]) for row in rows if (row["curve"], row["size"]) == (curve, size)
            )
            if value == "told" and curve == GRAPH:
                continue  # nobody is told
            axes.plot(
                [part for part, _ in line],
                [height for _, height in line],
                color=colour,
                marker="o",
                label=curve,
                **_tapered(0.9 * number),
            )
        axes.set(xlabel="share of the brokers that want it", ylabel=label)
        axes.set_yscale("log")
        axes.grid(alpha=0.25)
    legend_outside(figure, "lower", 3)
    figure.suptitle(f"{size} brokers", fontsize=10)
    return figure


def draw_migration(rows: Rows) -> Figure:
    """Draw entries elsewhere and messages with events before, during and after the move of a subscriber (figure 5)."""
    figure = chart(10.2, 3.9)
    for axes, (value, label) in zip(
        figure.subplots(1, 2),
        {"entries": "entries of other brokers", "events": "messages with events, for each published"}.items(),
        strict=True,
    ):
        for shift, local_first in ((-0.2, False), (0.2, True)):
            by_phase = {row["phase"]: row[value] for row in rows if row["local_first"] == local_first}
            places = [place + shift for place in range(len(PHASES))]
            words = "local publishers first" if local_first else "every publisher"
            axes.bar(
                places, [by_phase[phase] for phase in PHASES], 0.4, color=COLOURS[local_first], label=words
            )
        axes.set_xticks(range(len(PHASES)), PHASES)
        axes.set_ylabel(label)
    legend_outside(figure)
    return figure


def _tapered(by: float) -> dict[str, float]:
    """Return the width of a curve, thinner than the first one: curves under each other stay visible."""
    return {"linewidth": max(1.0, 4.5 - by), "markersize": max(4.0, 10 - 2 * by)}
