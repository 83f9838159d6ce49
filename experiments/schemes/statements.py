"""Statements about routing schemes side by side, and about their growth: sentences of papers, and of our own docs.

Rules
-----
* Messages for an event count one for each link of the scheme's own network; a multicast is one.
* "Linear" is an exponent of at most 1 + `statements.SAME`.

Source: papers 1, 2 and 5, where the sentences say so; docs/schemes.md for the others.
"""

from __future__ import annotations

from typing import Any, Final

from ..rows import Rows
from ..statements import HARDLY, SAME, Curve, Sentences, Statement, curve, exponent, is_same
from .runs import GLOBAL, SCHEMES

KNOWN: Final = {
    ("messages for an event grow no faster", ""): (
        "an event crosses brokers that do not want it as well: the fewest links there can be grow faster, too, "
        "than those who want it"
    ),
    ("simulating a message hardly costs more", ""): "it depends on what else the machine does meanwhile",
}
"""Why a sentence does not hold, by words of it."""


def judge_compare(rows: Rows) -> list[Statement]:
    """Return the statements about schemes on one load; `rows` from `pipelines.figures.schemes.schemes_by_size`."""
    by_scheme = {row["scheme"]: row for row in rows}

    def of(value: str, *schemes: str) -> dict[str, Any]:
        found = {scheme: by_scheme[scheme][value] for scheme in schemes or SCHEMES}
        return {scheme: None if value is None else round(value, 3) for scheme, value in found.items()}

    messages, gini = of("messages"), of("load_gini")
    bounds, copies = of("over_bound"), round(by_scheme["lbdd"]["brokers_wanting"], 3)
    busiest = of("load_max_over_mean", "lbdd", "point-to-point")
    ours = Sentences("docs/schemes.md", KNOWN)
    return [
        ours(
            "every scheme keeps its promises (part of runs)", of("holds"), set(of("holds").values()) == {1.0}
        ),
        Sentences("paper 1, 5.2", KNOWN)(
            "hybrid routing takes fewer messages for an event than hierarchical routing",
            of("messages", "hybrid", "hierarchical"),
            messages["hybrid"] < messages["hierarchical"],
        ),
        ours(
            "flooding takes a message to every other broker, the most of all",
            messages,
            messages["flooding"] == by_scheme["flooding"]["brokers"] - 1 == max(messages.values()),
        ),
        ours(
            "match-first, and hybrid with quenching and merging, take the fewest links there can be",
            bounds,
            bounds["match-first"] == 1.0 and is_same(bounds["hybrid+quench+merge"], 1.0),
        ),
        Sentences("paper 5, 4.3", KNOWN)(
            "exactly n copies are sent to n who want it (lbdd, point-to-point; n)",
            {**of("messages", "lbdd", "point-to-point"), "n": copies},
            all(value == copies for value in of("messages", "lbdd", "point-to-point").values()),
        ),
        Sentences("paper 5, section 5", KNOWN)(
            "LBDD shares out what a publisher sends alone (busiest broker over the mean)",
            busiest,
            busiest["lbdd"] < busiest["point-to-point"],
        ),
        Sentences("paper 2, section 3", KNOWN)(
            "a hypercube balances the load of brokers well (Gini; the lowest of all)",
            gini,
            gini["hypercube"] == min(gini.values()),
        ),
    ]


def judge_scale(rows: Rows) -> list[Statement]:
    """Return the statements about growth; rows as those of `judge_compare`, for several sizes."""
    found = []
    for scheme in SCHEMES:
        said = Sentences("docs/schemes.md", KNOWN, scheme)
        wanting = exponent(curve(rows, "brokers", "brokers_wanting", scheme=scheme))
        messages = exponent(curve(rows, "brokers", "messages", scheme=scheme))
        entries = curve(rows, "brokers", "table_entries_mean", scheme=scheme)
        fewest = exponent(curve(rows, "brokers", "bound_links", scheme=scheme))
        speed = curve(rows, "brokers", "messages_per_second", scheme=scheme)
        recovery = curve(rows, "brokers", "recovery_seconds", scheme=scheme)
        found += [
            said(
                "messages for an event grow no faster than the brokers that want it (exponents)",
                {"messages": round(messages, 3), "brokers": round(wanting, 3), "bound": round(fewest, 3)},
                messages <= wanting + SAME,
            ),
            said(
                f"simulating a message hardly costs more in a larger network (exponent at least -{HARDLY})",
                {"a second": {at: round(many) for at, many in speed.items()}, "exponent": exponent(speed)},
                exponent(speed) >= -HARDLY,
            ),
        ]
        if recovery:
            power = exponent(recovery)
            found.append(
                said(
                    f"a death is felt hardly longer in a larger network (exponent at most {HARDLY})",
                    {"seconds": {at: round(value, 2) for at, value in recovery.items()}, "exponent": power},
                    not power > HARDLY,
                )
            )
        found.append(_tables(scheme, entries))
    return found


def _tables(scheme: str, entries: Curve) -> Statement:
    power = exponent(entries)
    shown = {"entries": {at: round(value, 2) for at, value in entries.items()}, "exponent": round(power, 3)}
    if scheme in GLOBAL:
        return Sentences("docs/schemes.md", KNOWN, scheme)(
            "every broker knows what all others want, no more (exponent of table entries at most 1)",
            shown,
            power <= 1 + SAME,
        )
    return Sentences("paper 1, section 4", KNOWN, scheme)(
        f"a broker needs no knowledge of all others (exponent of table entries at most {HARDLY})",
        shown,
        power <= HARDLY,
    )
