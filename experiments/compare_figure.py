"""The picture of a comparison: messages, table entries and load balance of each scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..actors.pictures.picture import chart
from ..actors.pictures.style import PAGE_INCHES
from ..protocol.extras import extra
from .rows import Row

with extra("plots"):
    from matplotlib.figure import Figure

_BLUE: Final = "#0072B2"
_ORANGE: Final = "#D55E00"
_GREEN: Final = "#009E73"
_GREY: Final = "#777777"


def figure(result: Row) -> Figure:
    """Draw the result of :func:`rayvous.experiments.compare.run`.

    Links crossed by an event with the lower bound, messages about subscriptions, table entries, the busiest
    broker over the mean, and how long the death of a broker is felt; one bar per scheme, with numbers.
    """
    rows: Sequence[Row] = result["results"]
    picture = chart(PAGE_INCHES, 2.4 + 0.7 * len(rows))
    panels = picture.subplots(2, 3, sharey=True).flat
    panels[5].remove()
    _bars(panels[0], rows, "links crossed by an event", lambda row: row["crossings"], _BLUE, "{:.2f}")
    for name, style in (("bound_links", "-"), ("bound_multicast", ":")):
        panels[0].axvline(result[name], color=_ORANGE, linestyle=style, linewidth=1.2)
    panels[0].set_xlabel(
        f"lower bound {result['bound_links']:.2f}; with multicast {result['bound_multicast']:.2f}"
    )
    panels[0].xaxis.label.set_color(_ORANGE)
    _bars(panels[1], rows, "messages about subscriptions", lambda row: row["control_messages"], _GREY, "{:,}")
    _bars(
        panels[2], rows, "table entries of a broker", lambda row: row["table_entries_mean"], _GREEN, "{:.1f}"
    )
    _bars(
        panels[3],
        rows,
        "busiest broker / mean",
        lambda row: row["load_max_over_mean"],
        _BLUE,
        "{:.1f}",
    )
    _bars(panels[4], rows, "seconds to heal", lambda row: row["recovery_seconds"], _ORANGE, "{:.1f}")
    panels[0].set_yticks(range(len(rows)), [row["scheme"] for row in rows])  # of all: they share the axis
    panels[0].invert_yaxis()
    return picture


def _bars(
    axes: Any, rows: Sequence[Row], title: str, value: Callable[[Row], float | None], colour: str, text: str
) -> None:
    known = [value(row) for row in rows]
    values = [each or 0.0 for each in known]
    bars = axes.barh(range(len(rows)), values, color=colour, alpha=0.75, height=0.62)
    labels = ["-" if each is None else text.format(each) for each in known]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlim(0, max([*values, 1e-9]) * 1.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
