"""What paper 5 says of its experiments, sentence by sentence.

Rules
-----
* Sentences about the twelve computers are judged at 100 Mbit/s and 8 GiB, under both readings of what a
  computer takes in, with the subscribers in the paper's order; the results of other assumptions are reported
  as measurements.
* "Significantly reduced" is at most half; "almost the same" and "around" are `statements.SAME`; "reasonably
  good efficiency" is that of LBDD, with which the sentence compares.

Source: paper 5, sections 3.5, 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from ..statements import SAME, Curve, Rows, Sentences, Statement, curve, is_flat, is_same, rises, rounded
from .twelve import FAST_MBIT, GB, GIB, LINK_MBIT, TAKEN_MBIT

POINT_TO_POINT_SECONDS: Final = 7_810
LBDD_SECONDS: Final = 3_020
SIX: Final = 6
LOAD_MAX: Final = 0.7
DEPTHS: Final = (5, 9)
BUCKETS: Final = (24, 32)

READINGS: Final = {LINK_MBIT: "links of 100 Mbit/s", TAKEN_MBIT: "links of 100 Mbit/s, 24 taken in"}

KNOWN: Final = {
    ("LBDD takes 3,020 s", "24 taken in"): (
        "8 GB in 3,020 s are 22.8 Mbit/s, and not the 24 that the paper gives for the same transfer"
    ),
    ("LBDD takes 3,020 s", ""): (
        "four copies leave the busiest computer as fast as its link lets them; agents, disks and headers cost nothing"
    ),
    ("LBDD's delay is significantly smaller", "what else"): (
        "with 1 Gbit/s, of which each computer takes in 24 Mbit/s, eleven copies do not fill the publisher's link, so "
        "that nobody has to help it; the paper's delays need slower links"
    ),
    ("LBDD: the rate remains the same", ""): (
        "it is the link over the copies that the busiest computer sends, and these are 1 to 4, as addresses fall into "
        "buckets"
    ),
    (
        "with fewer than six subscribers",
        "24 taken in",
    ): "five streams of 24 Mbit/s are more than a link of 100 carries",
    ("with fewer than six subscribers", ""): (
        "LBDD sends at most three copies of four, and two of five, from one computer, where links alone are the limit"
    ),
    ("from six on it is less so", ""): (
        "it is less so with each number; but not ever less, as LBDD's busiest computer sends 2 to 4 copies, as "
        "addresses fall into buckets"
    ),
    (
        "with fewer than six it is not",
        "24 taken in",
    ): "five streams of 24 Mbit/s fill a link of 100, four do not",
    ("with fewer than six it is not", ""): "where the link is the only limit one copy fills it",
    ("LBDD: the publisher's load rises", ""): (
        "a publisher sends as many copies as there are in the first bucket; with the paper's addresses the first three "
        "subscribers are in one, and the fourth opens a nearer one and takes two of the copies over"
    ),
    ("LBDD: it is always below 70 %", "24 taken in"): (
        "the paper's first three subscribers are in one bucket, so that three copies leave the publisher: 72 %"
    ),
    ("LBDD: it is always below 70 %", ""): (
        "where the link is the only limit it is full whenever nobody sends more copies than the publisher"
    ),
    ("the depth is 5 to 9", ""): (
        "a tree has a level for each bucket with somebody in it: one more for each doubling of subscribers, now and "
        "then an outlying one: 9.1 for 500 in the mean, up to 12. The paper does not say of how many trees it speaks"
    ),
    ("500 subscribers are in buckets 24 to 32", ""): (
        "the nearest of 500 drawn addresses is in a bucket from 20 to 25, 23 in the mean; the paper has one draw"
    ),
    ("what the publisher sends stays almost the same", ""): (
        "it is one to three copies by chance, and shows no trend; means of so few trees differ by more than 5 %"
    ),
}
"""Why a sentence does not hold, by words of it, and of the reading."""


def judge_delay(rows: Rows) -> list[Statement]:
    """Return the statements about the delay; `rows` from `pipelines.figures.experiments.distribution_by_point`."""
    found = []
    for said, taken in _readings("paper 5, 4.2 (1), figure 1"):
        ours = {way: by_subscribers(rows, way, "seconds", taken)[11] for way in ("point-to-point", "LBDD")}
        for way, seconds in (("point-to-point", POINT_TO_POINT_SECONDS), ("LBDD", LBDD_SECONDS)):
            found.append(said(f"{way} takes {seconds:,} s", round(ours[way], 1), is_same(ours[way], seconds)))
        found.append(
            said(
                "LBDD's delay is significantly smaller",
                round(ours["LBDD"] / ours["point-to-point"], 3),
                ours["LBDD"] <= ours["point-to-point"] / 2,
            )
        )
    others = {
        "1 Gbit/s": _part(rows, FAST_MBIT, FAST_MBIT),
        "1 Gbit/s, 24 Mbit/s taken in": _part(rows, TAKEN_MBIT, FAST_MBIT),
        "GB of 10^9": _part(rows, LINK_MBIT, LINK_MBIT, 8 * GB),
    }
    said = Sentences("paper 5, 4.2 (1), figure 1", KNOWN, "what else may be assumed")
    found.append(
        said("LBDD's delay is significantly smaller", others, all(part <= 0.5 for part in others.values()))
    )
    return found


def _part(rows: Rows, taken: float, link: float, payload: int = 8 * GIB) -> float:
    """Return LBDD's delay as a share of point-to-point's, with all eleven subscribers."""
    ours, direct = (
        by_subscribers(rows, way, "seconds", taken, link, payload)[11] for way in ("LBDD", "point-to-point")
    )
    return round(ours / direct, 3)


def judge_rate(rows: Rows) -> list[Statement]:
    """Return the statements about the rate, on the same rows."""
    found = []
    for said, taken in _readings("paper 5, 4.2 (2), figure 2"):
        direct, ours = (by_subscribers(rows, way, "rate_mbit", taken) for way in ("point-to-point", "LBDD"))
        found += [
            said(
                "point-to-point: the rate falls as subscribers come",
                rounded(direct, 2),
                all(later < one for one, later in pairwise(direct.values())),
            ),
            said("LBDD: the rate remains the same", rounded(ours, 2), is_flat(ours, 1)),
            said(
                f"LBDD: the rate is around {TAKEN_MBIT:g} Mbit/s (with eleven)",
                round(ours[11], 2),
                is_same(ours[11], TAKEN_MBIT),
            ),
        ]
    for said, taken in _readings("paper 5, 4.3"):
        direct, ours = (by_subscribers(rows, way, "rate_mbit", taken) for way in ("point-to-point", "LBDD"))
        parts = {at: round(direct[at] / rate, 3) for at, rate in ours.items()}
        found += [
            said(
                "with fewer than six subscribers point-to-point is still as efficient as LBDD",
                parts,
                all(part >= 1 - SAME for at, part in parts.items() if at < SIX),
            ),
            said(
                "from six on it is less so, and ever less",
                parts,
                all(part < 1 - SAME for at, part in parts.items() if at >= SIX)
                and rises([-part for at, part in parts.items() if at >= SIX]),
            ),
        ]
    return found


def judge_load(rows: Rows) -> list[Statement]:
    """Return the statements about the publisher's load, on the same rows."""
    found = []
    for said, taken in _readings("paper 5, 4.2 (3), figure 3"):
        direct, ours = (
            by_subscribers(rows, way, "publisher_load", taken) for way in ("point-to-point", "LBDD")
        )
        drawn = by_subscribers(rows, "LBDD", "publisher_load", taken, order="drawn")
        found += [
            said(
                "point-to-point: with six subscribers the publisher's load is 100 %",
                rounded(direct, 3),
                is_same(direct[SIX], 1.0),
            ),
            said(
                "point-to-point: with fewer than six it is not",
                rounded(direct, 3),
                not any(is_same(load, 1.0) for at, load in direct.items() if at < SIX),
            ),
            said(
                "LBDD: the publisher's load rises with the subscribers",
                rounded(ours, 3),
                rises(list(ours.values())) and ours[11] > ours[1],
            ),
            said("LBDD: it is always below 70 %", rounded(ours, 3), max(ours.values()) < LOAD_MAX),
            said(
                "LBDD: it is always below 70 % (subscribers in any order, mean)",
                rounded(drawn, 3),
                bool(drawn) and max(drawn.values()) < LOAD_MAX,
            ),
        ]
    return found


def judge_depth(rows: Rows) -> list[Statement]:
    """Return the statements about depths; `rows` from `pipelines.figures.experiments.trees_by_point`."""
    found = []
    for said, mine in _prefixes(rows, "paper 5, 4.3, table 1"):
        means = {row["subscribers"]: round(row["depth"], 2) for row in mine}
        spans = {row["subscribers"]: (row["depth_min"], row["depth_max"]) for row in mine}
        large = next(row for row in mine if row["subscribers"] == 500)
        low, high = DEPTHS
        found += [
            said(
                "from 100 to 500 subscribers the depth is 5 to 9 (mean)",
                means,
                all(low <= depth <= high for depth in means.values()),
            ),
            said(
                "from 100 to 500 subscribers the depth is 5 to 9 (every tree)",
                spans,
                all(low <= least and most <= high for least, most in spans.values()),
            ),
            said(
                "500 subscribers are in buckets 24 to 32 (mean of the lowest and of the highest, rounded)",
                (large["lowest_bucket"], large["highest_bucket"]),
                (round(large["lowest_bucket"]), round(large["highest_bucket"])) == BUCKETS,
            ),
        ]
        degrees = {row["subscribers"]: round(row["out_degree"], 3) for row in mine}
        theorem = Sentences("paper 5, theorem 2", KNOWN, said.reading)
        found.append(
            theorem(
                "the average out-degree of a node is 2",
                degrees,
                all(is_same(degree, 2) for degree in degrees.values()),
            )
        )
    return found


def judge_contribution(rows: Rows) -> list[Statement]:
    """Return the statements about contributions, on the rows of `judge_depth`."""
    found = []
    for said, mine in _prefixes(rows, "paper 5, 4.3, figure 4"):
        copies = {row["subscribers"]: row["copies"] for row in mine}
        publisher = {row["subscribers"]: round(row["publisher_copies"], 2) for row in mine}
        shares = {row["subscribers"]: round(row["publisher_share"], 4) for row in mine}
        busiest = {row["subscribers"]: round(row["largest_subscriber_share"], 4) for row in mine}
        found += [
            said("exactly n copies are sent", copies, all(sent == n for n, sent in copies.items())),
            said(
                "what the publisher sends stays almost the same as subscribers come",
                publisher,
                is_flat(publisher, 0),
            ),
            said(
                "so it contributes an ever smaller part",
                shares,
                all(later < one for one, later in pairwise(shares.values())),
            ),
            said(
                "subscribers send the rest, and none of them becomes the bottleneck that the publisher was "
                "(the busiest sends less than half of all copies)",
                busiest,
                all(part < 0.5 for part in busiest.values()),
            ),
        ]
    return found


def by_subscribers(
    rows: Rows,
    way: str,
    value: str,
    taken: float,
    link: float = LINK_MBIT,
    payload: int = 8 * GIB,
    order: str = "named",
) -> Curve:
    """Return a value by the number of subscribers."""
    network = {"taken_mbit": taken, "link_mbit": link, "payload_bytes": payload, "order": order}
    return curve(rows, "subscribers", value, way=way, **network)


def _readings(source: str) -> Iterator[tuple[Sentences, float]]:
    for taken, words in READINGS.items():
        yield Sentences(source, KNOWN, words), taken


def _prefixes(rows: Rows, source: str) -> Iterator[tuple[Sentences, list[Mapping[str, float]]]]:
    for prefix in sorted({row["prefix"] for row in rows}):
        words = f"addresses of {prefix}0.0/16" if prefix else "any addresses"
        mine = sorted((row for row in rows if row["prefix"] == prefix), key=lambda row: row["subscribers"])
        yield Sentences(source, KNOWN, words), mine
