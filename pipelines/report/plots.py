"""The charts of a report: rates over time, latency, load of the brokers.

Rules
-----
* Each function draws on the given sheet, by default a new picture, and returns it; pyplot and its global
  state are never used.
* A figure's size in inches is its display size: nothing in it is smaller than 8 points at that size.
* Colours are distinguishable by colour-blind readers; numbers are written out where there is room for them.
* No Spark is used here: the input is plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...actors.pictures.picture import Sheet, chart
from ...actors.pictures.style import (
    DEAD_COLOUR,
    OTHER_COLOUR,
    PAGE_INCHES,
    ROLE_COLOURS,
    cut,
    role_handles,
    short,
)  # fmt: skip
from ...protocol.extras import extra

with extra("plots"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

BARS_A_ROW: Final = 60
LABELLED_BARS_MAX: Final = 2 * BARS_A_ROW
NUMBERED_BARS_MAX: Final = 24
MOMENT_CHARACTERS_MAX: Final = 60
"""Longer texts are cut; the tables of a report have the full text."""

LATENCY_SECONDS_MIN: Final = 1e-6
"""Latencies are drawn on a logarithmic axis; shorter ones (due to clock differences) are drawn here."""


def save_png(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, overwriting an existing file; return the path."""
    FigureCanvasAgg(figure).print_png(str(path))
    return path


def seconds(value: float) -> str:
    """Format a time with a fitting unit: ``250 µs``, ``12 ms``, ``1.5 s``."""
    for limit, unit in ((1.0, "s"), (1e-3, "ms")):
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def rate_figure(
    starts_seconds: Sequence[float],
    bin_seconds: float,
    events_per_second: Sequence[float],
    notifications_per_second: Sequence[float],
    marks: Sequence[tuple[float, str]] = (),
    sheet: Sheet = chart,
) -> object:
    """Draw the events published and the notifications made per second, over the time of the run.

    Parameters
    ----------
    starts_seconds
        The start of each bin, in seconds since the run began; ascending by `bin_seconds`, at least one.
    events_per_second, notifications_per_second
        The rate in each bin.
    marks
        ``(seconds, what happened)``, by time: each is a line with a label; the time from the first to the
        last is shaded.
    sheet
        The sheet to draw on.
    """
    figure = sheet(PAGE_INCHES, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True)
    edges = np.append(np.asarray(starts_seconds, dtype=float), starts_seconds[-1] + bin_seconds)
    panels = (
        (upper, events_per_second, "events published\nper second", "#0072B2"),
        (lower, notifications_per_second, "notifications\nper second", "#007A5A"),
    )
    for axes, rates, name, colour in panels:
        axes.stairs(rates, edges, fill=True, color=colour)
        axes.set_ylabel(name, fontsize=10)
        axes.set_ylim(0, max(*rates, 1.0) * 1.08)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.grid(True, axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if len(marks) > 1:
            axes.axvspan(marks[0][0], marks[-1][0], color="#F4D9C6", alpha=0.55, zorder=0, linewidth=0)
        for at, _ in marks:
            axes.axvline(at, color="#B84A00", linestyle="--", linewidth=1.2)
    first, last = min([0.0, edges[0]]), max([edges[-1], *(at for at, _ in marks)])
    lower.set_xlim(first, last + 0.01 * (last - first))
    lower.set_xlabel(f"seconds since publishing began (bins of {seconds(bin_seconds)})")
    rows = len(marks)
    for row, (at, what) in enumerate(marks):  # stacked so that labels never overlap
        left = at < (first + last) / 2
        upper.annotate(
            f"{cut(what, MOMENT_CHARACTERS_MAX)}, {at:.2f} s",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4 if left else -4, 2 + 13 * (rows - 1 - row)),
            textcoords="offset points",
            ha="left" if left else "right",
            va="bottom",
            fontsize=9,
            color="#B84A00",
        )
    upper.set_title("Throughput over time", fontsize=13, loc="left", pad=8 + 13 * rows)
    return figure


def latency_figure(
    probabilities: Sequence[float],
    latencies_seconds: Sequence[float],
    marks: Mapping[str, float],
    sheet: Sheet = chart,
) -> object:
    """Draw the distribution of the latency: its histogram above its distribution function.

    Parameters
    ----------
    probabilities, latencies_seconds
        Points of the distribution function, both ascending, of the same length (at least 2); from probability 0 to 1.
    marks
        ``{name: latency in seconds}`` to draw as lines, such as p50 and p99.
    sheet
        The sheet to draw on.
    """
    latencies = np.maximum(np.asarray(latencies_seconds, dtype=float), LATENCY_SECONDS_MIN)
    shares = np.asarray(probabilities, dtype=float)
    figure = sheet(PAGE_INCHES, 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    decades = math.log10(latencies[-1] / latencies[0]) if latencies[-1] > latencies[0] else 0.0
    pad = 10 ** max(0.05 * decades, 0.05)
    edges = np.geomspace(latencies[0] / pad, latencies[-1] * pad, 49)
    # The share below each edge; for equal latencies, the last point counts.
    below = shares[np.maximum(np.searchsorted(latencies, edges, side="right") - 1, 0)]
    within = (latencies[0] <= edges) & (edges <= latencies[-1])
    below = np.where(within, np.interp(edges, latencies, shares), below) * (edges >= latencies[0])
    upper.stairs(100 * np.diff(below), edges, fill=True, color="#56B4E9")
    upper.set_ylabel("notifications (%)")
    upper.set_title("Notification latency", fontsize=13, loc="left")
    lower.plot(
        [edges[0], latencies[0], *latencies, edges[-1]],
        [0, 0, *(100 * shares), 100],
        color="#0072B2",
        linewidth=2,
    )
    lower.set_ylabel("at most this late (%)")
    lower.set_xlabel("latency (logarithmic)")
    lower.set_xscale("log")
    lower.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades <= 3 else (1.0,)))
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    lower.xaxis.set_minor_formatter(NullFormatter())  # within one decade it would write powers of ten
    for axes in (upper, lower):
        axes.grid(True, which="major", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    _draw_marks(upper, lower, marks)
    return figure


def _draw_marks(upper: Any, lower: Any, marks: Mapping[str, float]) -> None:
    colours = ("#009E73", "#D55E00", "#CC79A7", "#000000")
    for index, (name, value) in enumerate(marks.items()):
        at, colour = max(value, LATENCY_SECONDS_MIN), colours[index % len(colours)]
        upper.axvline(at, color=colour, linestyle="--", linewidth=1.4, label=f"{name} = {seconds(value)}")
        lower.axvline(at, color=colour, linestyle="--", linewidth=1.4)
    if marks:
        upper.legend(frameon=False)


def load_figure(
    labels: Sequence[str],
    roles: Sequence[str],
    loads: Sequence[int],
    note: str = "",
    dead: Sequence[bool] | None = None,
    sheet: Sheet = chart,
) -> object:
    """Draw the events that each broker handled, the busiest first.

    Up to 120 brokers are named below the bars, in rows of 60; for more, the bars have no names.

    Parameters
    ----------
    labels, roles, loads
        One entry per broker, in any order.
    note
        A line under the title, such as the Gini coefficient.
    dead
        Which brokers are dead; none if not given. Their bars are hatched, and a dagger follows the name.
    sheet
        The sheet to draw on.
    """
    died = list(dead or [False] * len(loads))
    order = sorted(range(len(loads)), key=lambda index: (-loads[index], index))
    labelled = len(order) <= LABELLED_BARS_MAX
    count = max(math.ceil(len(order) / BARS_A_ROW), 1) if labelled else 1
    a_row = math.ceil(len(order) / count)
    width = min(max(6.2, 0.5 * len(order) + 1.2), PAGE_INCHES)
    figure = sheet(width, 0.7 + 3.7 * count)
    rows = list(np.atleast_1d(figure.subplots(count, 1, sharey=True)))
    top = max([*loads, 1])
    for row, axes in enumerate(rows):
        part = order[row * a_row : (row + 1) * a_row]
        colours = [ROLE_COLOURS.get(roles[index], OTHER_COLOUR) for index in part]
        values = [loads[index] for index in part]
        bars = axes.bar(np.arange(len(part)), values, width=0.8 if labelled else 1.0, color=colours)
        for bar, index in zip(bars, part, strict=True):
            if died[index]:
                bar.set(facecolor=DEAD_COLOUR, edgecolor="white", hatch="///")
        axes.set_ylim(0, top * 1.1)
        axes.set_xlim(-0.7, max(a_row, 1) - 0.3)
        axes.set_ylabel("events in + out + notifications")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        if labelled:
            names = [cut(labels[index]) + (" †" if died[index] else "") for index in part]
            _name_bars(axes, names, values)
        else:
            _mark_rare_bars(axes, [roles[index] for index in part], values)
    handles = role_handles([role for role, gone in zip(roles, died, strict=True) if not gone])
    if any(died):
        handles.append(Patch(facecolor=DEAD_COLOUR, edgecolor="white", hatch="///", label="† died"))
    if len(order):
        mean = sum(loads) / len(loads)
        for axes in rows:
            axes.axhline(mean, color="#444444", linestyle=":", linewidth=1.4, zorder=0.9)
        handles.append(Line2D([], [], color="#444444", linestyle=":", label=f"mean {short(mean)}"))
    rows[0].set_title(f"Events per broker{': ' + note if note else ''}", fontsize=13, loc="left")
    rows[0].legend(handles=handles, frameon=False, loc="upper right", fontsize=9)
    return figure


def _name_bars(axes: Any, names: Sequence[str], values: Sequence[int]) -> None:
    upright = len(names) > 12 or max(map(len, names), default=0) > 8
    axes.set_xticks(np.arange(len(names)), names, rotation=90 if upright else 0, fontsize=8 if upright else 9)
    axes.tick_params(axis="x", length=0)
    if len(names) <= NUMBERED_BARS_MAX:
        for place, value in enumerate(values):
            axes.text(place, value, short(value), ha="center", va="bottom", fontsize=8, zorder=4)


def _mark_rare_bars(axes: Any, roles: Sequence[str], values: Sequence[int]) -> None:
    """Mark the root and the designated brokers, whose bars are too thin to be seen."""
    rare = [place for place, role in enumerate(roles) if role != "NEB"]
    colours = [ROLE_COLOURS.get(roles[place], OTHER_COLOUR) for place in rare]
    axes.scatter(rare, [values[place] for place in rare], c=colours, s=22, zorder=3)
    axes.set_xlabel(f"{len(roles):,} brokers, the busiest first")
