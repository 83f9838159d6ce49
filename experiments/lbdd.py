"""Paper 5, sections 4.2 and 4.3: the twelve computers, table 1 (depth), figure 4 (who sends how much).

Rules
-----
* The paper's addresses are given, so its tree is known, and with it the time: whoever sends most is the last to end.
* Larger networks have addresses drawn from a seed; each size is the mean of several draws.
* The table's numbers are lost in our copy of the paper. What its text says stands beside ours: depth 5 to 9 for 100 to
  500 subscribers, a mean out-degree of 2, a share of the publisher that falls as subscribers come.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ..pipelines.report.plots import DPI, save_png
from ..protocol.extras import extra
from ..routing.topologies.lbdd_plan import Plan, plan

with extra("plots"):
    from matplotlib.figure import Figure

SOURCE: Final = "10.3.17.74"
TARGETS: Final = tuple(f"10.3.17.{last}" for last in (97, 234, 90, 98, 64, 61, 184, 72, 88, 44, 68))
PAYLOAD_BYTES: Final = 8 * 2**30
LINK_BITS_PER_SECOND: Final = 100e6
PAPER_SECONDS: Final = {"point_to_point_seconds": 7_810, "lbdd_seconds": 3_020}
PAPER_DEPTH: Final = (5, 9)
SIZES: Final = (100, 200, 300, 400, 500)

_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def run(
    *, sizes: Sequence[int] = SIZES, draws: int = 20, seed: int = 0, out: Path | None = None
) -> dict[str, Any]:
    """Plan, measure, draw, and return the figures as plain data.

    Parameters
    ----------
    sizes
        Numbers of subscribers.
    draws
        How many sets of addresses are drawn for each.
    seed
        Of the addresses.
    out
        Folder for ``lbdd.png``; None draws nothing.
    """
    rows = [_size(size, draws, seed) for size in sizes]
    result: dict[str, Any] = {
        "experiment": "lbdd",
        "seed": seed,
        "draws": draws,
        "twelve": twelve(),
        "results": rows,
        "paper": {**PAPER_SECONDS, "depth_between": list(PAPER_DEPTH), "out_degree_mean": 2},
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        result["picture"] = str(save_png(figure(rows), out / "lbdd.png"))
    return result


def twelve() -> dict[str, Any]:
    """Return what the plan for the paper's twelve computers says, and the times that follow from it.

    A node sends its copies one after the other over its link; slices of 64 KB are passed on as they come, so the
    node that sends most is the one that all wait for, and the depth costs a few slices only.
    """
    made = plan(SOURCE, TARGETS)
    copy_seconds = PAYLOAD_BYTES * 8 / LINK_BITS_PER_SECOND
    most = max(map(len, made.children.values()))
    return {
        "buckets": [len(bucket) for bucket in made.buckets.values()],
        "copies": len(made.targets),
        "out_degree_max": most,
        "depth": made.depth,
        "lbdd_share_of_point_to_point": most / len(made.targets),
        "point_to_point_seconds": len(made.targets) * copy_seconds,
        "lbdd_seconds": most * copy_seconds,
    }


def draw_plan(size: int, dice: random.Random) -> Plan[str]:
    """Return the plan for a publisher and that many subscribers with drawn addresses."""
    addresses: dict[str, None] = {}
    while len(addresses) <= size:
        addresses[".".join(str(dice.randrange(1, 255)) for _ in range(4))] = None
    source, *targets = addresses
    return plan(source, targets)


def _size(size: int, draws: int, seed: int) -> dict[str, Any]:
    dice = random.Random(f"lbdd/{seed}/{size}")
    plans = [draw_plan(size, dice) for _ in range(draws)]
    depths = [made.depth for made in plans]
    inner = [[len(below) for below in made.children.values() if below] for made in plans]
    shares = [made.contributions() for made in plans]
    return {
        "subscribers": size,
        "copies": size,
        "depth_mean": fmean(depths),
        "depth_min": min(depths),
        "depth_max": max(depths),
        "inner_out_degree_mean": fmean(fmean(degrees) for degrees in inner),
        "out_degree_max_mean": fmean(max(degrees) for degrees in inner),
        "publisher_copies_mean": fmean(len(made.children[made.source]) for made in plans),
        "publisher_share": fmean(share[made.source] for share, made in zip(shares, plans, strict=True)),
        "largest_subscriber_share": fmean(
            max(part for node, part in share.items() if node != made.source)
            for share, made in zip(shares, plans, strict=True)
        ),
        "sending_subscribers_share": fmean(
            sum(bool(made.children[node]) for node in made.targets) / size for made in plans
        ),
    }


def figure(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw depth and out-degree (table 1, theorem 2), and who sends how much (figure 4)."""
    picture = Figure(figsize=(11, 4.2), dpi=DPI, layout="constrained")
    left, right = picture.subplots(1, 2)
    sizes = [row["subscribers"] for row in rows]
    means = [row["depth_mean"] for row in rows]
    low = [row["depth_mean"] - row["depth_min"] for row in rows]
    high = [row["depth_max"] - row["depth_mean"] for row in rows]
    left.axhspan(*PAPER_DEPTH, color=_BLUE, alpha=0.1, label="depth in the paper: 5 to 9")
    left.errorbar(sizes, means, (low, high), color=_BLUE, marker="o", capsize=3, label="depth: mean, range")
    degrees = [row["inner_out_degree_mean"] for row in rows]
    left.plot(sizes, degrees, color=_ORANGE, marker="s", label="mean out-degree of inner nodes")
    left.axhline(2, color=_ORANGE, linestyle=":", linewidth=1, label="out-degree by theorem 2")
    highest = max(row["depth_max"] for row in rows)
    left.set(
        title="Table 1: the tree stays flat",
        xlabel="subscribers",
        ylim=(0, highest + 3),
    )
    left.legend(loc="upper left", fontsize=8, ncols=2, frameon=False)
    for name, colour, label in (
        ("publisher_share", _ORANGE, "publisher"),
        ("largest_subscriber_share", _GREEN, "busiest subscriber"),
    ):
        right.plot(sizes, [100 * row[name] for row in rows], color=colour, marker="o", label=label)
    right.axhline(100, color="#777777", linestyle=":", linewidth=1, label="publisher, point-to-point")
    right.set(
        title="Figure 4: share of all copies", xlabel="subscribers", ylabel="percent (log)", yscale="log"
    )
    right.legend(loc="center right", fontsize=8, frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return picture
