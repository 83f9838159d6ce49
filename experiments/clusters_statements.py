"""What paper 1 says of figures 4 and 5, sentence by sentence, judged for each reading that it leaves open.

Rules
-----
* `hr` has two readings, and so has AED: per subscriber, and over all subscribers together. Each sentence is
  judged under each reading, and names it.
* "The critical point" of TCT is 1,000 subscribers, as in the text. A knee is the last point up to which two
  curves are the same (`statements.knee`); how much it depends on the runs stands beside it (`knee_spread`). Knees are
  compared with each other on the same networks: those of the runs that were made with all numbers of publishers.
* "Constant" is judged where a curve goes on beyond the critical point. An event costs the same whoever publishes it, so
  the calibrated preset does so with 100 publishers only.
* The figures' axis of subscribers is logarithmic: it runs from 1 to 10,000. TCT runs over three decades of its own, so
  "nearly linearly" is judged with both axes logarithmic; delays do not, so "ever steeper" is judged from one power of
  ten to the next. What linear axes show stands beside it.
* Under the preset `calibrated` the sentences that chose a parameter are `fitted`: the place of subscribers was chosen
  by the critical point, the axes of figure 4 by its lines, and the time of a copy by one knee.

Source: paper 1, section 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .clusters import FITTED_SEND_SECONDS, FORWARDING, curves, main_send_seconds
from .knee_spread import Samples, Spread, means, spread
from .rows import Rows
from .statements import LINEAR as LINEAR_MIN
from .statements import (
    Curve,
    Sentences,
    Statement,
    by_decades,
    correlation,
    differences,
    grows,
    is_flat,
    is_less,
    peaks,
    rounded,
    slopes,
    steepens,
)

CRITICAL: Final = 1_000
HYBRID: Final = "hrm"
BASELINES: Final = ("hr", "hr, all nodes")
KNEES: Final = {100: 100, 1_000: 50}
"""Subscribers at the knee of figure 5, by publishers."""

CALIBRATED: Final = "; calibrated"
CONSTANT: Final = "with more than 1,000 subscribers TCT tends to a constant"
LINES: Final = "below the critical point TCT grows nearly linearly"
FITTED_TCT: Final = (f"{CONSTANT}: hr", LINES)
FITTED_AED: Final = (f"with 100 publishers the knee is at {KNEES[100]} subscribers",)


_WHERE: Final = (
    "where it is depends on the time of a copy and on how fast events come, and the paper gives neither"
)
KNOWN: Final = {
    (f"{CONSTANT}: hr", ""): (
        "a subscriber comes to any of the 1,100 brokers alike; 1,000 of them leave some 440 brokers without, so hr "
        "costs more until every broker has one. The paper does not say how it placed them"
    ),
    (f"{LINES}: hybrid", ""): (
        "hybrid costs one message for each cluster with a subscriber, so its cost is flat long before 1,000"
    ),
    ("the knee is at", ""): _WHERE,
    ("the more publishers, the earlier the knee", "figure 5"): _WHERE,
    ("hr's delay grows with subscribers, ever steeper", ""): (
        "what waits at a broker grows with the copies that it sends, and these end at one for each broker, so hr's "
        "delay flattens when every broker has a subscriber"
    ),
    ("and the difference grows with subscribers", "every broker a node"): (
        "where every broker is a node the two differ by little, now one and now the other is the smaller one"
    ),
    ("as figure 2 is printed, TCT tends to a constant", ""): (
        "each subscriber costs a message on each link up to the root, and nothing ends that: a figure that is constant "
        "does not have these messages in it"
    ),
}
"""Why a sentence does not hold, by words of it, and of its figure and the reading if it depends on them."""

IMPOSSIBLE: Final = {
    ("the more publishers, the earlier the knee", "figure 4"): (
        "an event costs what it costs whoever publishes it, and each publisher publishes one: both costs are "
        "multiplied by the publishers, and what part they differ by does not depend on how many there are"
    ),
    ("there is a knee up to which the cost of both is nearly the same", "every broker a node"): (
        "a broker has at most eight brokers below it, so even the flattest tree of 1,100 nodes is 3.39 deep in the "
        "mean, and that of 100 clusters 3.08 with the multicast: hr's way to the root, which each event goes, is 10 % "
        "longer before the first subscriber"
    ),
    ("hybrid's delay grows up to a critical point, and then falls", "of a subscriber"): (
        "a broker sends in the order of arrival, and all events take the same copies there: a further subscriber adds "
        "copies, and makes nothing earlier"
    ),
    ("hybrid's delay grows up to a critical point, and then falls", "of all together"): (
        "the time of the run is divided by all notifications, which each subscriber multiplies: the quotient falls "
        "from the first subscriber on, under hr as well"
    ),
    ("hr's delay grows with subscribers, ever steeper", "of all together"): (
        "the time of the run is divided by all notifications: ten times the subscribers would have to make the run "
        "more than ten times as long, but its copies grow by less than ten times"
    ),
    ("and the difference grows with subscribers", "of all together"): (
        "what the two runs differ by is at most what hr's further copies take, which end at one for each broker, and "
        "is divided by all notifications, which do not end"
    ),
    ("beyond the knee hybrid's delay is the smaller one", "every broker a node"): (
        "in every network hybrid's busiest designated broker sends one copy more than any broker there, the multicast. "
        "With 100 publishers the two differ only if a copy takes more than 0.55 ms (18 copies in 10 ms); with 1,000 "
        "nine copies are then more than can be sent, so that hybrid is not the faster one"
    ),
    ("hr's delay grows with subscribers, ever steeper", "every broker a node; AED of a subscriber"): (
        "with 100 publishers it rises only if a copy takes more than 0.55 ms; with 1,000 the delay is that of the "
        "copies then, which are at most eight and nearly that with 100 subscribers, so that they grow by less to 1,000"
    ),
}
"""Why a sentence can hold under no reading, in the same way."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Hybrid's curve and that of a baseline, with the same number of publishers."""

    hybrid: Curve
    other: Curve
    samples: tuple[Samples, Samples]
    spread: Spread

    def knee_of(self, runs: int) -> float | None:
        """Return the knee of the first runs."""
        return spread(*({at: values[:runs] for at, values in each.items()} for each in self.samples)).knee

    def gap(self, beyond: float) -> dict[float, float]:
        """Return by how much the baseline exceeds hybrid, at the points beyond one."""
        return {at: value for at, value in differences(self.hybrid, self.other).items() if at > beyond}

    def beyond_knee(self) -> dict[float, float]:
        return self.gap(self.spread.knee or 0)

    def is_less(self, points: Mapping[float, float]) -> bool:
        """Return whether hybrid's value is the smaller one at these points; not without a point."""
        return bool(points) and all(is_less(self.hybrid[at], self.other[at]) for at in points)


def judge_tct(rows: Rows) -> list[Statement]:
    """Return the sentences about figure 4.

    Parameters
    ----------
    rows
        The rows of `pipelines.figures.experiments.tct_by_point`.
    """
    found: list[Statement] = []
    for baseline in BASELINES:
        pairs = _pairs(rows, "tct", baseline)
        said = _sentences(rows, "paper 1, 5.2 (1), figure 4", f"hr: {_words(baseline)}", FITTED_TCT)
        found += [*_of_costs(said, pairs), *_of_knees(said, pairs, "cost")]
    return [*found, *_forwarded(rows)]


def _of_costs(said: Sentences, pairs: Mapping[int, _Pair]) -> Iterator[Statement]:
    for name in ("hybrid", "hr"):
        mine = _curves_of(pairs, name)
        ends = {publishers: _from_critical(curve) for publishers, curve in mine.items()}
        yield said(
            f"{CONSTANT}: {name}",
            ends,
            bool(_judged(ends)) and all(is_flat(curve, CRITICAL) for curve in _judged(ends)),
        )
    beyond = {publishers: pair.gap(CRITICAL - 1) for publishers, pair in pairs.items()}
    few, many = beyond[min(beyond)], beyond[max(beyond)]
    yield said(
        "beyond the critical point hybrid's TCT is smaller than hr's",
        beyond,
        all(pair.is_less(beyond[publishers]) for publishers, pair in pairs.items()),
    )
    both = few.keys() & many.keys()
    yield said(
        "and the more publishers, the larger the difference",
        beyond,
        bool(both) and all(is_less(few[at], many[at]) for at in both),
    )
    for name in ("hybrid", "hr"):
        lines = {publishers: _lines(curve) for publishers, curve in _curves_of(pairs, name).items()}
        yield said(
            f"{LINES}: {name} (correlation at least {LINEAR_MIN}, both axes logarithmic)",
            lines,
            all(line["both axes logarithmic"] >= LINEAR_MIN for line in lines.values()),
        )


def _lines(curve: Curve) -> dict[str, float]:
    """Return the correlation of a curve below the critical point on each kind of axes."""
    return {
        "both axes logarithmic": round(
            correlation(curve, CRITICAL, across="logarithmic", up="logarithmic"), 4
        ),
        "that of subscribers": round(correlation(curve, CRITICAL, across="logarithmic"), 4),
        "none": round(correlation(curve, CRITICAL), 4),
    }


def _forwarded(rows: Rows) -> Iterator[Statement]:
    """Yield what becomes of figure 4 if each subscription goes up to the root, covered or not; judged if it was run."""
    tct, events = curves(rows, "tct"), curves(rows, "events")
    for name in FORWARDING:
        for publishers in sorted({many for curve, many in tct if curve == name}):
            mine = tct[name, publishers]
            yield Sentences("for comparison", KNOWN, f"{name.split(',')[0]}, {publishers} publishers")(
                "with every subscription forwarded, as figure 2 is printed, TCT tends to a constant "
                "(all messages; events alone)",
                {at: (round(mine[at]), round(events[name, publishers][at])) for at in mine},
                is_flat(mine, CRITICAL),
            )


def judge_aed(rows: Rows) -> list[Statement]:
    """Return the sentences about figure 5.

    Parameters
    ----------
    rows
        The rows of `pipelines.figures.experiments.aed_by_point`.
    """
    found: list[Statement] = []
    for value, reading in (
        ("aed_seconds", "of a subscriber"),
        ("seconds_per_notification", "of all together"),
    ):
        for baseline in BASELINES:
            pairs = _pairs(rows, value, baseline)
            plain = value == "aed_seconds" and baseline == "hr"
            said = _sentences(
                rows,
                "paper 1, 5.2 (2), figure 5",
                f"hr: {_words(baseline)}; AED {reading}",
                FITTED_AED if plain else (),
            )
            found += [*_of_knees(said, pairs, "delay"), *_of_delays(said, pairs)]
    return found


def _of_delays(said: Sentences, pairs: Mapping[int, _Pair]) -> Iterator[Statement]:
    for publishers, pair in pairs.items():
        if publishers in KNEES:
            yield said(
                f"with {publishers} publishers the knee is at {KNEES[publishers]} subscribers",
                pair.spread.shown(),
                pair.spread.knee == KNEES[publishers],
            )
    others = _curves_of(pairs, "hr")
    yield said(
        "hr's delay grows with subscribers, ever steeper (slopes: by powers of ten; on a linear axis)",
        {
            publishers: [_short(slopes(by_decades(each), "logarithmic")), _short(slopes(each))]
            for publishers, each in others.items()
        },
        all(map(steepens, others.values())),
    )
    yield said(
        "hybrid's delay grows up to a critical point, and then falls",
        {publishers: rounded(pair.hybrid) for publishers, pair in pairs.items()},
        all(peaks(list(pair.hybrid.values())) for pair in pairs.values()),
    )


def _of_knees(said: Sentences, pairs: Mapping[int, _Pair], what: str) -> Iterator[Statement]:
    """Yield the sentences about the knee, which are the same for both figures."""
    knees = {publishers: pair.spread.knee for publishers, pair in pairs.items()}
    yield said(
        f"there is a knee up to which the {what} of both is nearly the same",
        {publishers: pair.spread.shown() for publishers, pair in pairs.items()},
        all(at is not None for at in knees.values()),
    )
    after = {publishers: pair.beyond_knee() for publishers, pair in pairs.items()}
    shown = {publishers: rounded(gap) for publishers, gap in after.items()}
    yield said(
        f"beyond the knee hybrid's {what} is the smaller one",
        shown,
        all(pair.is_less(after[publishers]) for publishers, pair in pairs.items()),
    )
    yield said(
        "and the difference grows with subscribers",
        shown,
        all(bool(gap) and grows(list(gap.values())) for gap in after.values()),
    )
    runs = min(len(pair.spread.of_runs) for pair in pairs.values())
    alike = {publishers: pair.knee_of(runs) for publishers, pair in pairs.items()}
    few, many = alike[min(alike)], alike[max(alike)]
    yield said(
        "the more publishers, the earlier the knee",
        alike,
        few is not None and many is not None and many < few,
    )


def _sentences(rows: Rows, source: str, reading: str, fitted: tuple[str, ...]) -> Sentences:
    """Return what makes the statements of a reading; a sentence is fitted under the calibrated preset alone."""
    calibrated = main_send_seconds(rows) == FITTED_SEND_SECONDS
    words = reading + CALIBRATED if calibrated else reading
    return Sentences(source, KNOWN, words, fitted if calibrated else (), IMPOSSIBLE)


def _pairs(rows: Rows, value: str, baseline: str) -> dict[int, _Pair]:
    """Return hybrid's curve and that of a baseline, by publishers; of runs on the same networks."""
    figure = curves(rows, f"{value}_each")
    found = {}
    for (name, publishers), mine in figure.items():
        if name == HYBRID:
            one, other = _same_runs(mine, figure[baseline, publishers])
            found[publishers] = _Pair(means(one), means(other), (one, other), spread(one, other))
    return found


def _same_runs(one: Samples, other: Samples) -> tuple[Samples, Samples]:
    """Return the values at the common points; of runs that both have, which are the first ones."""
    common = {at: min(len(one[at]), len(other[at])) for at in one if at in other}
    first, second = ({at: each[at][:runs] for at, runs in common.items()} for each in (one, other))
    return first, second


def _curves_of(pairs: Mapping[int, _Pair], name: str) -> dict[int, Curve]:
    return {publishers: pair.hybrid if name == "hybrid" else pair.other for publishers, pair in pairs.items()}


def _from_critical(curve: Curve) -> dict[float, float]:
    return {at: value for at, value in curve.items() if at >= CRITICAL}


def _judged(ends: Mapping[int, Curve]) -> list[Curve]:
    """Return the curves that go on beyond the critical point."""
    return [curve for curve in ends.values() if len(curve) > 1]


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def _words(baseline: str) -> str:
    return "every broker a node" if baseline != "hr" else "normal brokers are leaves"
