"""The picture of ``bench scale``: the cost of networks of many brokers, by their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..actors.pictures.picture import Picture, chart

PANELS: Final = (
    ("Start, s", (("launch_seconds", "launched"), ("one_tree_seconds", "and one tree"))),
    ("Memory, MB", (("own_megabytes_an_actor", "of an actor"), ("own_megabytes", "of all"))),
    ("Idle, cores", (("idle_cores", "all brokers"),)),
    ("Use, s", (("subscribe_seconds", "a subscription"), ("settle_seconds", "events at all readers"))),
    (
        "A node removed, s",
        (
            ("mended_seconds", "last broker in its place"),
            ("healed_seconds", "seen to be one tree"),
            ("ray_noticed_seconds", "Ray gives it up"),
        ),
    ),
)
"""The content of each panel: (key of a row, label) for each line."""

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73")


def figure(result: Mapping[str, Any]) -> Picture:
    """Draw the result of :func:`rayvous.benchmarks.scale.run`: one panel for each cost, over the number of brokers."""
    rows: Sequence[dict[str, Any]] = [
        row | {"own_megabytes": row["own_megabytes_an_actor"] * row["actors"]} for row in result["results"]
    ]
    picture = chart(3.2 * len(PANELS), 3.6)
    for axes, (title, lines) in zip(picture.subplots(1, len(PANELS)), PANELS, strict=True):
        for (key, label), colour in zip(lines, _COLOURS, strict=False):
            told = [(row["brokers"], row[key]) for row in rows if row.get(key) is not None]
            axes.plot(
                [size for size, _ in told], [value for _, value in told], "o-", color=colour, label=label
            )
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xscale("log")
        axes.set_xlabel("brokers")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2)
        axes.spines[["top", "right"]].set_visible(False)
    return picture
