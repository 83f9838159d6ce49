"""Paper 5, sections 4.2 and 4.3: the twelve computers (delay, figures 2 and 3), table 1 (depth), figure 4 (who sends).

Rules
-----
* The paper's addresses are given, so its tree is known, and with links of a bandwidth (`bandwidth`) the time.
* The paper names hardware of 1 Gbit/s, at which 11 copies of 8 GB take 756 s; it measured 7,810 s, for which
  100 Mbit/s are needed. Ours stand at both.
* Figures 2 and 3 have one subscriber more in each step, in the order in which the paper names them. The rate is the
  payload over the delay: its 24 Mbit/s are 8 GB in about 3,020 s.
* Larger networks have addresses drawn from a seed; each size is the mean of several draws.
* The table's numbers are lost in our copy of the paper. What its text says stands beside ours: depth 5 to 9 for 100 to
  500 subscribers, a mean out-degree of 2, a share of the publisher that falls as subscribers come.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ..pipelines.report.plots import DPI, save_png
from ..protocol.extras import extra
from ..routing.topologies.lbdd_plan import Plan, plan
from .bandwidth import transfer

with extra("plots"):
    from matplotlib.figure import Figure

SOURCE: Final = "10.3.17.74"
TARGETS: Final = tuple(f"10.3.17.{last}" for last in (97, 234, 90, 98, 64, 61, 184, 72, 88, 44, 68))
PAYLOAD_BYTES: Final = 8 * 2**30
SLICE_BYTES: Final = 65_536
LINKS_BITS_PER_SECOND: Final = (100e6, 1e9)
PAPER_SECONDS: Final = {"point_to_point_seconds": 7_810, "lbdd_seconds": 3_020}
PAPER_LBDD_MEGABITS_PER_SECOND: Final = 24
PAPER_UTILISATION: Final = {"point_to_point_from_six_subscribers": 1.0, "lbdd_below": 0.7}
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
        Folder for ``lbdd.png`` and ``lbdd_twelve.png``; None draws nothing.
    """
    rows = [_size(size, draws, seed) for size in sizes]
    result: dict[str, Any] = {
        "experiment": "lbdd",
        "seed": seed,
        "draws": draws,
        "twelve": twelve(),
        "results": rows,
        "paper": {
            **PAPER_SECONDS,
            "lbdd_megabits_per_second": PAPER_LBDD_MEGABITS_PER_SECOND,
            "publisher_utilisation": PAPER_UTILISATION,
            "depth_between": list(PAPER_DEPTH),
            "out_degree_mean": 2,
        },
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        result["picture"] = str(save_png(figure(rows), out / "lbdd.png"))
        result["twelve_picture"] = str(save_png(twelve_figure(result["twelve"]), out / "lbdd_twelve.png"))
    return result


def twelve() -> dict[str, Any]:
    """Return what becomes of the paper's payload on its twelve computers, by LBDD and point-to-point.

    The times at the top are those at 100 Mbit/s; `links` has them at each bandwidth, `subscribers` with the first 1 to
    11 of the paper's subscribers (figures 2 and 3).
    """
    made = plan(SOURCE, TARGETS)
    links = [_both(TARGETS, link) for link in LINKS_BITS_PER_SECOND]
    steps = [_both(TARGETS[:count], LINKS_BITS_PER_SECOND[0]) for count in range(1, len(TARGETS) + 1)]
    most = max(map(len, made.children.values()))
    return {
        "buckets": [len(bucket) for bucket in made.buckets.values()],
        "copies": len(made.targets),
        "out_degree_max": most,
        "depth": made.depth,
        "lbdd_share_of_point_to_point": most / len(made.targets),
        "point_to_point_seconds": links[0]["point_to_point"]["seconds"],
        "lbdd_seconds": links[0]["lbdd"]["seconds"],
        "links": links,
        "subscribers": steps,
    }


@cache
def _both(targets: tuple[str, ...], bits_per_second: float) -> dict[str, Any]:
    """Return delay, rate and the publisher's utilisation, by either way."""
    nobody: tuple[str, ...] = ()
    ways = {
        "point_to_point": dict.fromkeys(targets, nobody) | {SOURCE: targets},
        "lbdd": plan(SOURCE, targets).children,
    }
    out: dict[str, Any] = {"subscribers": len(targets), "megabits_per_second": bits_per_second / 1e6}
    for name, children in ways.items():
        done = transfer(
            SOURCE,
            children,
            nbytes=PAYLOAD_BYTES,
            slice_bytes=SLICE_BYTES,
            send_bits_per_second=bits_per_second,
        )
        out[name] = {
            "seconds": done.seconds,
            "megabits_per_second": PAYLOAD_BYTES * 8 / 1e6 / done.seconds,
            "publisher_utilisation": done.utilisation(SOURCE),
        }
    return out


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


def twelve_figure(ours: dict[str, Any]) -> Figure:
    """Draw rate and publisher's load by the number of subscribers (figures 2 and 3)."""
    picture = Figure(figsize=(11, 4.2), dpi=DPI, layout="constrained")
    left, right = picture.subplots(1, 2)
    steps = ours["subscribers"]
    counts = [step["subscribers"] for step in steps]
    for name, colour, label in (("point_to_point", _BLUE, "point-to-point"), ("lbdd", _ORANGE, "LBDD")):
        rates = [step[name]["megabits_per_second"] for step in steps]
        loads = [100 * step[name]["publisher_utilisation"] for step in steps]
        left.plot(counts, rates, color=colour, marker="o", label=label)
        right.plot(counts, loads, color=colour, marker="o", label=label)
    left.axhline(
        PAPER_LBDD_MEGABITS_PER_SECOND, color=_ORANGE, linestyle=":", linewidth=1, label="LBDD in the paper"
    )
    right.axhline(70, color=_ORANGE, linestyle=":", linewidth=1, label="LBDD in the paper: below")
    left.set(title="Figure 2: rate, at 100 Mbit/s", xlabel="subscribers", ylabel="Mbit/s", ylim=(0, None))
    right.set(title="Figure 3: publisher's link", xlabel="subscribers", ylabel="percent", ylim=(0, 105))
    for axes in (left, right):
        axes.legend(loc="best", fontsize=8, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return picture
