"""What paper 3 says of figures 9 and 10, and whether our figures agree.

Rules
-----
* A statement is judged on the rows of the experiment alone, and is reported with the numbers that it was
  judged on. It is taken literally; if a word needs a number, the number follows from the text, and is given
  here with its reason.
* Rates are those of the mean node, as in the sentences before and after the one about 20 %, and in the title
  of figure 9. The sentence about 20 % says "in the system"; so it is judged both ways.
* What is in an order may violate it by what is "the same" (`statements.SAME`); what is more is so by more than that.
* Above 80 subscribers discards rise faster if they do so in the mean, and in nearly all means of networks drawn again
  from those that were run (`RESAMPLED`): single networks differ by more than the slopes of the mean.
* The percentages are those of all brokers; the same statements are judged for those of the way if there are
  any.
* The preset `calibrated` is the one with a full guarantee of the way. The sentences that chose a parameter there are
  fitted; the others are predictions.

Source: paper 3, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from .rows import Row, Rows
from .statements import Sentences, Statement, grows, is_less, never_falls

Curves = Mapping[str, Sequence[Row]]
Ends = Mapping[str, Row]
"""The row with the most subscribers for each criterion."""
Said = tuple[str, object, bool]
"""The text of a statement, the measurement, and whether it holds."""

OF_THE_WAY: Final = " of the way"
"""The suffix of the name of a criterion whose share is of the brokers on the way."""

NEAR_0: Final = 1.0
"""Events a second "near 0" at the mean node: a hundredth of the weakest broker's capacity (5.1)."""

ABOUT_50: Final = (45.0, 55.0)
"""The range of "about 50": a number given to one digit is anything that rounds to it."""

SOON: Final = 40
"""The number of subscribers within which a curve that rises quickly has risen: two of the paper's five steps."""

_LOAD: Final = (
    "tree, filters and stays are not given (5.1), and the load that was assumed without a parameter to choose "
    "overloads the network from few subscribers on: "
)
_NO_CONTROL: Final = (
    "40 % of all brokers never refuse under this load: it is no control, and discards as none does, give or take what "
    "its own messages load"
)
KNOWN: Final = {
    ("20 %: about 50 discards a second (at the mean node", "of all brokers; calibrated"): (
        "excluded by the fit: 50 a second at each of 50 brokers are 2,500 in the system, where the load was chosen by "
        "the other reading, which has 50; of the two at most one can hold"
    ),
    ("20 %: about 50 discards", "of the way; calibrated"): (
        "the load was chosen by what 20 % of all brokers discard; fewer brokers are on the way, so fewer may refuse"
    ),
    ("40 %: above 80 subscribers", "calibrated"): (
        "discards begin between 40 and 80 subscribers, with the first broker that is overloaded, and rise from there "
        "as evenly as subscribers come; what is steeper above 80 is within what networks differ by"
    ),
    ("full guarantee: from a certain load on", "of the way; calibrated"): (
        "brokers off the way do not refuse, so rejections rise slowly, and not above 40 % with 100 subscribers"
    ),
    ("20 %: about 50 discards", ""): _LOAD
    + "between these two readings of 50 lies what one network discards",
    ("with it clearly fewer are discarded", "of all brokers"): _NO_CONTROL,
    ("discards: full <= 20 %", "of all brokers"): _NO_CONTROL,
    ("discards: full <= 20 %", "of the way"): (
        "of the way 20 % and 40 % discard the same, within what networks differ by"
    ),
    ("40 %: above 80 subscribers", ""): _LOAD + "there is no knee left above 80",
    ("full guarantee: from a certain load on", ""): _LOAD
    + "there is no row with few rejections to rise from",
    ("20 %: rejections still rather low", ""): _LOAD
    + "most filters are more than some fifth of the brokers can carry",
    ("memory utilisation:", ""): (
        "under a percentage a request goes to all brokers (4.3), and each keeps an entry for it; without control only "
        "those on its way do"
    ),
    ("the CPU is used more than the memory", ""): (
        "5.1 gives no memory; here a broker can keep an entry for every client, and under a percentage each does"
    ),
}
"""Why a statement does not hold, by words of it, and of the reading."""

CALIBRATED: Final = "; calibrated"
FITTED: Final = {
    "": ('20 %: about 50 discards a second ("in the system")', "the CPU is used more than the memory"),
    OF_THE_WAY: ("the CPU is used more than the memory",),
}
"""Words of the sentences by which the preset `calibrated` was chosen, by the kind of percentages."""

RESAMPLED: Final = 1_000
"""How often networks are drawn again, with replacement."""

CONFIDENCE: Final = 0.95
"""The share of the draws in which a difference of slopes has to be seen."""

HIGH: Final = 0.4
"""The share of rejections that the text names; the next sentence contrasts it with "still rather low"."""


def judge_discards(rows: Rows) -> list[Statement]:
    """Return the statements about figure 9; `rows` from `pipelines.figures.experiments.admission_by_point`."""
    return _told(rows, 9, _figure_9)


def judge_utilisation(rows: Rows) -> list[Statement]:
    """Return the statements about figure 10, on the same rows."""
    return _told(rows, 10, _figure_10)


def _told(rows: Rows, figure: int, judge: Callable[[Curves, Ends], list[Said]]) -> list[Statement]:
    """Return the statements for each kind of percentages in the rows."""
    there = {row["criterion"] for row in rows}
    calibrated = "full" + OF_THE_WAY in there
    out = []
    for of in ("", OF_THE_WAY):
        full = "full" + of if calibrated else "full"  # on a tree there is one full guarantee
        names = {"none": "none", "full": full, "20 %": "20 %" + of, "40 %": "40 %" + of}
        if set(names.values()) <= there:
            curves = {name: _curve(rows, ours) for name, ours in names.items()}
            ends = {name: curve[-1] for name, curve in curves.items()}
            reading = f"percentages{of or ' of all brokers'}{CALIBRATED if calibrated else ''}"
            source = f"paper 3, 5.2, figure {figure}"
            fitted = FITTED[of] if calibrated else ()
            sentences = Sentences(source, KNOWN, reading, fitted)
            out += [sentences(*said) for said in judge(curves, ends)]
    return out


def _figure_9(curves: Curves, last: Ends) -> list[Said]:
    return [*_discards(curves, last), *_rejections(curves, last)]


def _figure_10(curves: Curves, last: Ends) -> list[Said]:
    return _utilisation(last)


def _discards(curves: Curves, last: Ends) -> list[Said]:
    none, full, high = (_values(curves[name]) for name in ("none", "full", "40 %"))
    ends = {name: round(row["discarded_per_second"], 2) for name, row in last.items()}
    in_all = round(last["20 %"]["discarded_in_all_per_second"], 1)
    each = {name: row["discarded_in_each_network_per_second"] for name, row in last.items()}
    return [
        _statement(
            "without admission control ever more events are discarded as subscribers come",
            none,
            grows(none),
        ),
        _statement(
            "with it clearly fewer are discarded (in each network, with the most subscribers)",
            each,
            all(
                is_less(ours, others)
                for name in ("full", "20 %", "40 %")
                for ours, others in zip(each[name], each["none"], strict=True)
            ),
        ),
        _statement(
            f"full guarantee: discards near 0 (at most {NEAR_0:g} a second at the mean node)",
            full,
            max(full) <= NEAR_0,
        ),
        _statement(
            "20 %: about 50 discards a second (at the mean node, with the most subscribers)",
            ends["20 %"],
            ABOUT_50[0] <= ends["20 %"] < ABOUT_50[1],
        ),
        _statement(
            '20 %: about 50 discards a second ("in the system")', in_all, ABOUT_50[0] <= in_all < ABOUT_50[1]
        ),
        _statement(
            "40 %: above 80 subscribers discards rise faster than anywhere below",
            high,
            _steep(curves["40 %"]),
        ),
        _statement("discards: full <= 20 % <= 40 % <= none", ends, never_falls(_in_order(ends))),
    ]


def _rejections(curves: Curves, last: Ends) -> list[Said]:
    rejected = {name: round(row["rejected"], 3) for name, row in last.items()}
    full, low = (
        {row["subscribers"]: round(row["rejected"], 3) for row in curves[name]} for name in ("full", "20 %")
    )
    return [
        _statement(
            f"full guarantee: from a certain load on, rejections soon rise above {HIGH:.0%} (from a row below "
            f"{HIGH / 2:.0%} within {SOON} more subscribers, and they stay there)",
            full,
            _soon_above(curves["full"]),
        ),
        _statement(
            f"20 %: rejections still rather low (never above {HIGH:.0%})", low, max(low.values()) <= HIGH
        ),
        _statement(
            "rejections: full > 20 % > 40 %",
            rejected,
            is_less(rejected["40 %"], rejected["20 %"]) and is_less(rejected["20 %"], rejected["full"]),
        ),
    ]


def _utilisation(last: Ends) -> list[Said]:
    ordered = []
    for resource in ("cpu", "memory", "bandwidth"):
        used = {name: round(row[resource], 3) for name, row in last.items()}
        ordered.append(
            _statement(
                f"{resource} utilisation: full <= 20 % <= 40 % <= none", used, never_falls(_in_order(used))
            )
        )
    for other, where in (("memory", "the text"), ("bandwidth", "the caption")):
        both = {name: (round(row["cpu"], 3), round(row[other], 3)) for name, row in last.items()}
        ordered.append(
            _statement(
                f"the CPU is used more than the {other} ({where})",
                both,
                all(is_less(less, cpu) for cpu, less in both.values()),
            )
        )
    return ordered


def _values(curve: Sequence[Row]) -> list[float]:
    return [round(row["discarded_per_second"], 2) for row in curve]


def _in_order(values: Mapping[str, float]) -> list[float]:
    return [values[name] for name in ("full", "20 %", "40 %", "none")]


def _curve(rows: Sequence[Row], criterion: str) -> list[Row]:
    return sorted((row for row in rows if row["criterion"] == criterion), key=lambda row: row["subscribers"])


def _statement(text: str, ours: object, holds: bool) -> Said:
    return text, ours, bool(holds)


def _steep(curve: Sequence[Row]) -> bool:
    """Return whether the curve rises faster above 80 subscribers than in every step below, not by chance."""
    counts = [row["subscribers"] for row in curve]
    networks = np.array([row["discarded_in_each_network_per_second"] for row in curve], float)
    drawn = np.random.default_rng(0).integers(networks.shape[1], size=(RESAMPLED, networks.shape[1]))
    seen = [_rises_above_80(counts, networks[:, each].mean(axis=1).tolist()) for each in drawn]
    return _rises_above_80(counts, networks.mean(axis=1).tolist()) and sum(seen) >= CONFIDENCE * RESAMPLED


def _rises_above_80(counts: Sequence[int], discarded: Sequence[float]) -> bool:
    points = list(zip(counts, discarded, strict=True))
    below = [_slope(*step) for step in pairwise(point for point in points if point[0] <= 80)]
    above = [_slope(*step) for step in pairwise(point for point in points if point[0] >= 80)]
    return bool(below and above) and is_less(max(0.0, *below), min(above))


def _slope(first: tuple[int, float], last: tuple[int, float]) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])


def _soon_above(curve: Sequence[Row]) -> bool:
    """Return whether the rejections end above `HIGH`, permanently, soon after a row with less than half of it."""
    below = [row["subscribers"] for row in curve if row["rejected"] <= HIGH]
    low = [row["subscribers"] for row in curve if row["rejected"] < HIGH / 2]
    above = [row["subscribers"] for row in curve if not below or row["subscribers"] > below[-1]]
    return bool(above and low) and above[0] - low[-1] <= SOON
