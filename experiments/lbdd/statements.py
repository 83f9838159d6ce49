"""What paper 5 says of its experiments, sentence by sentence.

Rules
-----
* Sentences about the twelve computers are judged at 100 Mbit/s and 8 GiB, under each reading of what a
  computer takes in, with the subscribers in the paper's order; the results of other assumptions are reported
  as measurements.
* Under the fitted reading "LBDD takes 3,020 s" is no prediction; all other sentences are. It is judged at even
  numbers of subscribers, and eleven (`FITTED_AT`): with five, no reading can have all that the paper says, since five
  streams of the published rate are more than the published 7,810 s let a link carry.
* "Significantly reduced" is at most half; "around" is `statements.SAME`; "reasonably good efficiency" is that of LBDD,
  with which the sentence compares; "almost the same", of trees drawn by chance, is what chance explains (`CHANCE`).
* Table 1 shows one tree of each size. It is an ordinary draw if one in twenty is like it (`ORDINARY`).

Source: paper 5, sections 3.5, 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod, sqrt
from typing import Any, Final

from ...pipelines.figures.experiments import BUCKETS, DEPTHS
from ..rows import Rows
from ..statements import SAME, Curve, Sentences, Statement, curve, falls, grows, is_flat, is_same, rounded
from .twelve import FAST_MBIT, FITTED_MBIT, GB, GIB, LINK_MBIT, TAKEN_MBIT

POINT_TO_POINT_SECONDS: Final = 7_810
LBDD_SECONDS: Final = 3_020
FITTED_BY: Final = "LBDD takes 3,020 s"
SIX: Final = 6
LOAD_MAX: Final = 0.7
FITTED_AT: Final = (2, 4, 6, 8, 10, 11)
ORDINARY: Final = 0.05
CHANCE: Final = 3.0
"""Means that are this many standard errors apart, or less, differ by chance."""

READINGS: Final = {
    LINK_MBIT: "links of 100 Mbit/s",
    TAKEN_MBIT: "links of 100 Mbit/s, 24 taken in",
    FITTED_MBIT: "links of 100 Mbit/s, 23 taken in (fitted)",
}

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
    ("from six on its efficiency", ""): (
        "LBDD's busiest computer sends 2 to 4 copies, as addresses fall into buckets, so what point-to-point is beside "
        "it goes up and down"
    ),
    ("with six subscribers the publisher's load reaches", "24 taken in"): (
        "five streams of 24 Mbit/s fill a link of 100, and four nearly do"
    ),
    (
        "with six subscribers the publisher's load reaches",
        "",
    ): "where the link is the only limit one copy fills it",
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
}
"""Why a sentence does not hold, by words of it, and of the reading."""


def judge_delay(rows: Rows) -> list[Statement]:
    """Return the statements about the delay; `rows` from `pipelines.figures.experiments.distribution_by_point`."""
    found = []
    for said, taken in _readings("paper 5, 4.2 (1), figure 1"):
        ours = {way: by_subscribers(rows, way, "seconds", taken)[11] for way in ("point-to-point", "LBDD")}
        found += [
            said(
                "point-to-point takes 7,810 s",
                round(ours["point-to-point"], 1),
                is_same(ours["point-to-point"], POINT_TO_POINT_SECONDS),
            ),
            said(FITTED_BY, round(ours["LBDD"], 1), is_same(ours["LBDD"], LBDD_SECONDS)),
            said(
                "LBDD's delay is significantly smaller",
                round(ours["LBDD"] / ours["point-to-point"], 3),
                ours["LBDD"] <= ours["point-to-point"] / 2,
            ),
        ]
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
        direct, ours = _both(rows, "rate_mbit", taken)
        found += [
            said(
                "point-to-point: the rate falls as subscribers come",
                rounded(direct, 2),
                falls(list(direct.values())),
            ),
            said("LBDD: the rate remains the same", rounded(ours, 2), is_flat(ours, 1)),
            said(
                f"LBDD: the rate is around {TAKEN_MBIT:g} Mbit/s (with eleven)",
                round(ours[11], 2),
                is_same(ours[11], TAKEN_MBIT),
            ),
        ]
    for said, taken in _readings("paper 5, 4.3"):
        direct, ours = _both(rows, "rate_mbit", taken)
        parts = {at: round(direct[at] / rate, 3) for at, rate in ours.items()}
        found += [
            said(
                "with fewer than six subscribers point-to-point is still efficient (as LBDD)",
                parts,
                all(part >= 1 - SAME for at, part in parts.items() if at < SIX),
            ),
            said(
                "from six on its efficiency decreases rapidly",
                parts,
                parts[SIX] < 1 - SAME and falls([part for at, part in parts.items() if at >= SIX]),
            ),
        ]
    return found


def judge_load(rows: Rows) -> list[Statement]:
    """Return the statements about the publisher's load, on the same rows."""
    found = []
    for said, taken in _readings("paper 5, 4.2 (3), figure 3"):
        direct, ours = _both(rows, "publisher_load", taken)
        named = by_subscribers(rows, "LBDD", "publisher_load", taken)
        drawn = by_subscribers(rows, "LBDD", "publisher_load", taken, order="drawn")
        found += [
            said(
                "point-to-point: with six subscribers the publisher's load reaches 100 % (and not before)",
                rounded(direct, 3),
                all(is_same(load, 1.0) == (at >= SIX) for at, load in direct.items()),
            ),
            said(
                "LBDD: the publisher's load rises with the subscribers",
                rounded(ours, 3),
                grows(list(ours.values())),
            ),
            said("LBDD: it is always below 70 %", rounded(named, 3), max(named.values()) < LOAD_MAX),
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
    low, high = DEPTHS
    for said, mine in _prefixes(rows, "paper 5, 4.3, table 1"):
        shares = {row["subscribers"]: round(row["depth_as_published"], 3) for row in mine}
        large = next(row for row in mine if row["subscribers"] == 500)
        together = prod(shares.values())
        shown: dict[Any, float] = {**shares, "all five": round(together, 3)}
        found += [
            said(
                f"from 100 to 500 subscribers the depth is {low} to {high} (share of trees, and of five draws)",
                shown,
                together >= ORDINARY,
            ),
            said(
                "500 subscribers are in buckets {} to {} (share of trees)".format(*BUCKETS),
                round(large["buckets_as_published"], 3),
                large["buckets_as_published"] >= ORDINARY,
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
                _alike(mine, "publisher_copies"),
            ),
            said(
                "so it contributes an ever smaller part",
                shares,
                falls(list(shares.values())),
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


def _both(rows: Rows, value: str, taken: float) -> tuple[Curve, Curve]:
    """Return the curves of point-to-point and LBDD, at the numbers of subscribers at which a reading is judged."""
    curves = (by_subscribers(rows, way, value, taken) for way in ("point-to-point", "LBDD"))
    direct, ours = (
        {at: y for at, y in each.items() if taken != FITTED_MBIT or at in FITTED_AT} for each in curves
    )
    return direct, ours


def _alike(rows: Sequence[Mapping[str, float]], value: str) -> bool:
    """Return whether means differ by no more than chance explains."""
    errors = [max(row[f"{value}_stddev"], SAME) / sqrt(row["runs"]) for row in rows]
    weights = [1 / error**2 for error in errors]
    common = sum(row[value] * weight for row, weight in zip(rows, weights, strict=True)) / sum(weights)
    return all(abs(row[value] - common) <= CHANCE * error for row, error in zip(rows, errors, strict=True))


def _readings(source: str) -> Iterator[tuple[Sentences, float]]:
    for taken, words in READINGS.items():
        yield Sentences(source, KNOWN, words, (FITTED_BY,) if taken == FITTED_MBIT else ()), taken


def _prefixes(rows: Rows, source: str) -> Iterator[tuple[Sentences, list[Mapping[str, float]]]]:
    for prefix in sorted({row["prefix"] for row in rows}):
        words = f"addresses of {prefix}0.0/16" if prefix else "any addresses"
        mine = sorted((row for row in rows if row["prefix"] == prefix), key=lambda row: row["subscribers"])
        yield Sentences(source, KNOWN, words), mine
