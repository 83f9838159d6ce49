"""The pictures of chaos runs: their timeline, the messages that they took, and how long faults were felt.

Rule: each function draws on the given sheet, by default a new picture, and returns it; the data to draw is
plain data. For the rest see `plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from ...actors.pictures.picture import Sheet, chart
from ...actors.pictures.style import PAGE_INCHES, cut
from .plots import MOMENT_CHARACTERS_MAX

LANES: Final = {
    "fault": "#B84A00",
    "suspicion": "#E69F00",
    "takeover": "#0072B2",
    "join": "#009E73",
    "round": "#56B4E9",
    "view": "#56B4E9",
    "new root": "#CC79A7",
}
"""The first words of timeline entries, each with its own lane and colour."""

ENDS: Final = ("everything healed", "converged", "healed")
EVENTS: Final = "Events"
"""The message type that carries events; all other types are control messages."""


def timeline_figure(timeline: Sequence[tuple[float, str]], sheet: Sheet = chart) -> object:
    """Draw a timeline: a lane for each kind of entry, and in words the faults and how the run ended.

    Parameters
    ----------
    timeline
        (seconds, what), by time; an entry that begins with one of `LANES` is a point in that lane.
    sheet
        The sheet to draw on.
    """
    found = [(at, what, next((lane for lane in LANES if what.startswith(lane)), "")) for at, what in timeline]
    lanes = [lane for lane in LANES if any(lane == mine for _, _, mine in found)]
    told = [(at, what, lane) for at, what, lane in found if lane == "fault" or what.startswith(ENDS)]
    figure = sheet(PAGE_INCHES, 1.2 + 0.32 * len(lanes) + 0.19 * len(told))
    axes = figure.subplots()
    for height, lane in enumerate(lanes):
        times = [at for at, _, mine in found if mine == lane]
        axes.scatter(times, [height] * len(times), s=36, color=LANES[lane], zorder=3)
    shown = [at for at, _, lane in found if lane] + [at for at, _, _ in told]
    first, last = min([0.0, *shown]), max([1.0, *shown])
    for row, (at, what, lane) in enumerate(told):  # stacked so that labels never overlap
        colour = LANES.get(lane, "#007A5A")
        axes.axvline(at, color=colour, linestyle="--", linewidth=1.0, alpha=0.7)
        left = at < (first + last) / 2
        axes.annotate(
            f"{cut(what.removeprefix('fault: '), MOMENT_CHARACTERS_MAX)}, {at:.2f} s",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4 if left else -4, 2 + 13 * (len(told) - 1 - row)),
            textcoords="offset points",
            ha="left" if left else "right",
            va="bottom",
            fontsize=9,
            color=colour,
        )
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(-0.6, max(len(lanes), 1) - 0.4)
    axes.set_xlim(first, last * 1.01)
    axes.set_xlabel("seconds")
    axes.grid(True, axis="x", alpha=0.3)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("What happened", fontsize=13, loc="left", pad=8 + 13 * len(told))
    return figure


def messages_figure(messages: Mapping[str, int], sheet: Sheet = chart) -> object:
    """Draw the number of messages of each type between brokers; those that carry events are highlighted.

    Parameters
    ----------
    messages
        ``{type: count}``.
    sheet
        The sheet to draw on.
    """
    ordered = sorted(messages.items(), key=lambda pair: (pair[1], pair[0]))
    figure = sheet(PAGE_INCHES, 1.1 + 0.22 * len(ordered))
    axes = figure.subplots()
    colours = ["#0072B2" if name == EVENTS else "#9AA5B1" for name, _ in ordered]
    bars = axes.barh(range(len(ordered)), [count for _, count in ordered], color=colours)
    axes.set_yticks(range(len(ordered)), [name for name, _ in ordered], fontsize=9)
    axes.bar_label(bars, labels=[f"{count:,}" for _, count in ordered], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel("messages between brokers, logarithmic (blue: they carry events)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("What it took", fontsize=13, loc="left")
    return figure


def felt_figure(seconds: Mapping[str, Sequence[float]], sheet: Sheet = chart) -> Any:
    """Draw how long faults were felt, each as a dot, by kind, with a line at the median.

    Parameters
    ----------
    seconds
        The durations for each kind of fault.
    sheet
        The sheet to draw on.
    """
    figure = sheet(PAGE_INCHES, 1.1 + 0.34 * max(len(seconds), 1))
    axes = figure.subplots()
    kinds = sorted(seconds)
    for height, kind in enumerate(kinds):
        values = sorted(seconds[kind])
        axes.scatter(values, [height] * len(values), s=30, color="#0072B2", alpha=0.6, zorder=3)
        axes.plot([median(values)] * 2, [height - 0.3, height + 0.3], color="#B84A00", zorder=4)
    axes.set_yticks(range(len(kinds)), [f"{kind} ({len(seconds[kind])})" for kind in kinds])
    axes.set_ylim(len(kinds) - 0.4, -0.6)
    longest = max([1.0, *(value for values in seconds.values() for value in values)])
    axes.set_xlim(-0.02 * longest, 1.04 * longest)
    axes.set_xlabel("seconds until clusters and tree were sound again (bar: the median)")
    axes.grid(True, axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("How long faults were felt that came alone", fontsize=13, loc="left")
    return figure
