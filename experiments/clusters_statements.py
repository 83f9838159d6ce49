"""What paper 1 says of figures 4 and 5, sentence by sentence, judged for each reading that it leaves open.

Rules
-----
* `hr` has two readings, and so has AED: per subscriber, and over all subscribers together. Each sentence is
  judged under each reading, and names it.
* "The critical point" of TCT is 1,000 subscribers, as in the text. A knee is the last point up to which two
  curves are the same (`statements.knee`).

Source: paper 1, section 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .clusters import curves
from .statements import LINEAR as LINEAR_MIN
from .statements import (
    Curve,
    Sentences,
    Statement,
    correlation,
    differences,
    is_flat,
    knee,
    peaks,
    rises,
    rounded,
    slopes,
)

CRITICAL: Final = 1_000
HYBRID: Final = "hrm"
BASELINES: Final = ("hr", "hr, all nodes")
KNEES: Final = {100: 100, 1_000: 50}
"""Subscribers at the knee of figure 5, by publishers."""

Rows = Sequence[Mapping[str, Any]]

KNOWN: Final = {
    ("with more than 1,000 subscribers TCT tends to a constant: hr", ""): (
        "a subscriber comes to any of the 1,100 brokers alike; 1,000 of them leave some 440 brokers without, so hr "
        "costs more until every broker has one. The paper does not say how it placed them"
    ),
    ("below the critical point TCT grows nearly linearly: hybrid", ""): (
        "hybrid costs one message for each cluster with a subscriber; 300 subscribers leave five of 100 clusters "
        "without, so its cost is flat long before 1,000"
    ),
    ("the more publishers, the earlier the knee", "figure 4"): (
        "each publisher publishes one event, so both costs are multiplied by the publishers, and what part they "
        "differ by does not depend on how many there are"
    ),
    ("there is a knee up to which the cost of both is nearly the same", "every broker a node"): (
        "where every broker is a node an event also passes others of a cluster, so hr costs more than hybrid from the "
        "first subscriber on, by 8 % and more in the mean of ten runs"
    ),
    ("the knee is at", ""): (
        "where it is depends on the time of a copy and on how fast events come, and the paper gives neither"
    ),
    ("hr's delay grows with subscribers, ever steeper", ""): (
        "what waits at a broker grows with the copies that it sends, and these end at one for each broker, so hr's "
        "delay flattens when every broker has a subscriber; over all together the quotient falls with every subscriber"
    ),
    ("hybrid's delay grows up to a critical point, and then falls", ""): (
        "a further subscriber is one notification more at its broker and takes nothing away, so a subscriber's delay "
        "does not fall; the quotient over all together falls from the first subscriber on, under hr as well"
    ),
    ("beyond the knee hybrid's delay is the smaller one", "every broker a node"): (
        "where every broker is a node nobody sends more than eight copies, so the tree shares out among its nodes "
        "what a designated broker sends alone, and hr is hardly slower, at times faster"
    ),
    ("and the difference grows with subscribers", "all together"): (
        "over all together both quotients fall as subscribers grow, and what they differ by falls with them"
    ),
    ("and the difference grows with subscribers", "every broker a node"): (
        "where every broker is a node the two differ by little, now one and now the other is the smaller one"
    ),
}
"""Why a sentence does not hold, by words of it, and of its figure and the reading if it depends on them."""


def judge_tct(rows: Rows) -> list[Statement]:
    """Return the sentences about figure 4.

    Parameters
    ----------
    rows
        The rows of `pipelines.figures.experiments.tct_by_point`.
    """
    figure = curves(rows, "tct")
    found: list[Statement] = []
    for baseline in BASELINES:
        pairs = _pairs(figure, baseline)
        few, many = min(pairs), max(pairs)
        gaps = {publishers: differences(*pair) for publishers, pair in pairs.items()}
        said = Sentences("paper 1, 5.2 (1), figure 4", KNOWN, f"hr: {_words(baseline)}")
        for name, each in (("hybrid", 0), ("hr", 1)):
            ends = {publishers: _beyond(pair[each]) for publishers, pair in pairs.items()}
            found.append(
                said(
                    f"with more than 1,000 subscribers TCT tends to a constant: {name}",
                    ends,
                    all(is_flat(pair[each], CRITICAL) for pair in pairs.values()),
                )
            )
        beyond = {publishers: _beyond(gap) for publishers, gap in gaps.items()}
        found += [
            said(
                "beyond the critical point hybrid's TCT is smaller than hr's",
                beyond,
                all(value > 0 for gap in beyond.values() for value in gap.values()),
            ),
            said(
                "and the more publishers, the larger the difference",
                beyond,
                all(beyond[many][at] > beyond[few][at] for at in beyond[few].keys() & beyond[many].keys()),
            ),
        ]
        for name, each in (("hybrid", 0), ("hr", 1)):
            lines = {
                publishers: round(correlation(pair[each], CRITICAL), 4) for publishers, pair in pairs.items()
            }
            found.append(
                said(
                    f"below the critical point TCT grows nearly linearly: {name} (correlation at least {LINEAR_MIN})",
                    lines,
                    all(value >= LINEAR_MIN for value in lines.values()),
                )
            )
        found += list(_of_knees(said, pairs, gaps, "cost"))
    return found


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
        figure = curves(rows, value)
        for baseline in BASELINES:
            pairs = _pairs(figure, baseline)
            gaps = {publishers: differences(*pair) for publishers, pair in pairs.items()}
            said = Sentences("paper 1, 5.2 (2), figure 5", KNOWN, f"hr: {_words(baseline)}; AED {reading}")
            found += list(_of_knees(said, pairs, gaps, "delay"))
            for publishers, (hybrid, other) in pairs.items():
                if publishers in KNEES:
                    at = knee(hybrid, other)
                    found.append(
                        said(
                            f"with {publishers} publishers the knee is at {KNEES[publishers]} subscribers",
                            at,
                            at == KNEES[publishers],
                        )
                    )
            steep = {publishers: slopes(pair[1]) for publishers, pair in pairs.items()}
            found.append(
                said(
                    "hr's delay grows with subscribers, ever steeper (slopes)",
                    {
                        publishers: [float(f"{slope:.3g}") for slope in each]
                        for publishers, each in steep.items()
                    },
                    all(rises(each) and each[-1] > 0 for each in steep.values()),
                )
            )
            found.append(
                said(
                    "hybrid's delay grows up to a critical point, and then falls",
                    {publishers: rounded(pair[0]) for publishers, pair in pairs.items()},
                    all(peaks(list(pair[0].values())) for pair in pairs.values()),
                )
            )
    return found


def _of_knees(
    said: Sentences, pairs: Mapping[int, tuple[Curve, Curve]], gaps: Mapping[int, Curve], what: str
) -> Iterator[Statement]:
    """Yield the sentences about the knee, which are the same for both figures."""
    knees = {publishers: knee(*pair) for publishers, pair in pairs.items()}
    yield said(
        f"there is a knee up to which the {what} of both is nearly the same",
        knees,
        all(at is not None for at in knees.values()),
    )
    after = {
        publishers: {at: value for at, value in gap.items() if at > (knees[publishers] or 0)}
        for publishers, gap in gaps.items()
    }
    shown = {publishers: rounded(gap) for publishers, gap in after.items()}
    yield said(
        f"beyond the knee hybrid's {what} is the smaller one",
        shown,
        all(gap and min(gap.values()) > 0 for gap in after.values()),
    )
    yield said(
        "and the difference grows with subscribers",
        shown,
        all(rises(list(gap.values())) for gap in after.values()),
    )
    few, many = knees[min(knees)], knees[max(knees)]
    yield said(
        "the more publishers, the earlier the knee",
        knees,
        few is not None and many is not None and many < few,
    )


def _pairs(figure: Mapping[tuple[str, int], Curve], baseline: str) -> dict[int, tuple[Curve, Curve]]:
    """Return hybrid's curve and that of a baseline, by publishers."""
    return {
        publishers: (curve, figure[baseline, publishers])
        for (name, publishers), curve in figure.items()
        if name == HYBRID
    }


def _beyond(curve: Curve) -> dict[float, float]:
    return {at: value for at, value in curve.items() if at >= CRITICAL}


def _words(baseline: str) -> str:
    return "every broker a node" if baseline != "hr" else "normal brokers are leaves"
