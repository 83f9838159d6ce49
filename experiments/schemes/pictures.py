"""The pictures of routing schemes: bars on one load, and curves as networks grow."""

from __future__ import annotations

from typing import Final

from ...actors.pictures.picture import chart
from ...protocol.extras import extra
from ..compare_figure import figure
from ..rows import Rows
from ..statements import curve
from .runs import BOUNDS, SCHEMES

with extra("plots"):
    from matplotlib.figure import Figure

FELT: Final = "recovery_seconds"
PANELS: Final = {
    "messages": "messages for an event",
    "table_entries_mean": "table entries of a broker",
    FELT: "seconds that a death is felt",
    "events_per_second": "events simulated a second",
}


def draw_compare(rows: Rows) -> Figure:
    """Draw a bar for each scheme, as `rayvous compare` does."""
    by_scheme = {row["scheme"]: {**row, "control_messages": round(row["control_messages"])} for row in rows}
    results = [by_scheme[scheme] for scheme in SCHEMES]
    return figure({"results": results, **{name: results[0][name] for name in BOUNDS}})


def draw_scale(rows: Rows) -> Figure:
    """Draw messages per event, table entries, how long a death is felt, and the simulator's speed, by brokers."""
    picture = chart(10.2, 7.6)
    for axes, (value, label) in zip(picture.subplots(2, 2).flat, PANELS.items(), strict=True):
        for number, scheme in enumerate(SCHEMES):
            line = curve(rows, "brokers", value, scheme=scheme)
            axes.plot(list(line), list(line.values()), marker="os^vDxP*"[number], label=scheme)
        axes.set(xscale="log", yscale="log", xlabel="brokers", ylabel=label)
        if value == FELT:  # hardly differs: visible on an axis from 0
            axes.set(yscale="linear", ylim=(0, 1.1 * axes.get_ylim()[1]))
        axes.grid(alpha=0.25)
    handles, names = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    return picture
