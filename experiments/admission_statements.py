"""What paper 3 says of figures 9 and 10, and whether our figures say the same.

Rule: a statement is judged on the rows of the experiment alone, and stands with the numbers that it was judged on.

The text has 20 % discard about 50 events a second "in the system", below a figure whose title says "per node". Both
readings are judged. A tree forwards an event at most once over a link, and a broker what it has taken in, so what can
be dropped is limited whatever is wanted; that limit stands beside the second reading.

Source: paper 3, section 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

Row = dict[str, Any]

SOON: Final = 40
"""Subscribers within which a curve that rises quickly rises: two of the paper's five steps."""


def compare(rows: Sequence[Row], everything: float) -> list[dict[str, Any]]:
    """Return each statement of the text: what the paper says, what we measured, and whether it holds.

    Parameters
    ----------
    rows
        The figures of each criterion and number of subscribers.
    everything
        Events that a mean broker drops in a second without admission control when every subscriber wants every event.
    """
    curves = {name: _curve(rows, name) for name in dict.fromkeys(row["criterion"] for row in rows)}
    last = {name: curve[-1] for name, curve in curves.items()}
    return [*_discards(curves, last, everything), *_rejections(curves["full"], last), *_utilisation(last)]


def _discards(
    curves: Mapping[str, Sequence[Row]], last: Mapping[str, Row], everything: float
) -> list[dict[str, Any]]:
    none, full, low, high = (_in_all(curves[name]) for name in ("none", "full", "20 %", "40 %"))
    upper = low[len(low) // 2 :]
    discards = {name: round(row["discarded_in_all_per_second"], 1) for name, row in last.items()}
    of_a_broker = round(last["20 %"]["discarded_per_second"], 2)
    return [
        _statement(
            "without admission control ever more events are discarded as subscribers come",
            none,
            _rises(none) and none[-1] > none[0],
        ),
        _statement(
            "full guarantee: discards near 0 (ours: at most a tenth of what none discards in the end)",
            full,
            all(discarded <= none[-1] / 10 for discarded in full),
        ),
        _statement(
            "20 %: about 50 discards a second (read: in the system, 25 to 100 from the middle of the curve on)",
            low,
            all(25 <= discarded <= 100 for discarded in upper),
        ),
        _statement(
            "20 %: about 50 discards a second (read: at a mean broker)",
            {"mean broker": of_a_broker, "if all want everything, without control": round(everything, 2)},
            25 <= of_a_broker <= 100,
        ),
        _statement("40 %: discards rise steeply above 80 subscribers", high, _steep(curves["40 %"])),
        _statement("discards: full <= 20 % <= 40 % <= none", discards, _rises(_in_order(discards))),
    ]


def _rejections(full: Sequence[Row], last: Mapping[str, Row]) -> list[dict[str, Any]]:
    rejected = {name: round(row["rejected"], 3) for name, row in last.items()}
    return [
        _statement(
            "full guarantee: from a certain load on, rejections quickly rise above 40 % (ours: from below 20 % within "
            f"{SOON} more subscribers, and they stay there)",
            {row["subscribers"]: round(row["rejected"], 2) for row in full},
            _soon_above(full),
        ),
        _statement(
            "rejections: full > 20 % > 40 %", rejected, rejected["full"] > rejected["20 %"] > rejected["40 %"]
        ),
    ]


def _utilisation(last: Mapping[str, Row]) -> list[dict[str, Any]]:
    ordered = []
    for resource in ("cpu", "bandwidth"):
        used = {name: round(row[resource], 3) for name, row in last.items()}
        ordered.append(
            _statement(f"{resource} utilisation: full <= 20 % <= 40 % <= none", used, _rises(_in_order(used)))
        )
    both = {name: (round(row["cpu"], 3), round(row["bandwidth"], 3)) for name, row in last.items()}
    return [
        *ordered,
        _statement(
            "the CPU is used more than the links", both, all(cpu > links for cpu, links in both.values())
        ),
    ]


def _in_all(curve: Sequence[Row]) -> list[float]:
    return [round(row["discarded_in_all_per_second"], 1) for row in curve]


def _in_order(values: Mapping[str, float]) -> list[float]:
    return [values[name] for name in ("full", "20 %", "40 %", "none")]


def _curve(rows: Sequence[Row], criterion: str) -> list[Row]:
    return sorted((row for row in rows if row["criterion"] == criterion), key=lambda row: row["subscribers"])


def _statement(text: str, ours: Any, holds: bool) -> dict[str, Any]:
    return {"published": text, "ours": ours, "holds": bool(holds)}


def _rises(values: Sequence[float]) -> bool:
    """Return whether values do not fall by more than a twentieth from one to the next."""
    return all(later >= earlier * 0.95 for earlier, later in pairwise(values))


def _steep(curve: Sequence[Row]) -> bool:
    """Return whether the curve climbs faster above 80 subscribers than on the average below."""
    below = [row for row in curve if row["subscribers"] <= 80]
    above = [row for row in curve if row["subscribers"] >= 80]
    if len(below) < 2 or len(above) < 2:
        return False
    return _slope(above) > 1.5 * _slope(below) and _slope(above) > 0


def _soon_above(curve: Sequence[Row]) -> bool:
    """Return whether refusals end above 40 %, and got there for good soon after they were last below 20 %."""
    below = [row["subscribers"] for row in curve if row["rejected"] <= 0.4]
    low = [row["subscribers"] for row in curve if row["rejected"] < 0.2]
    above = [row["subscribers"] for row in curve if not below or row["subscribers"] > below[-1]]
    return bool(above) and (not low or above[0] - low[-1] <= SOON)


def _slope(curve: Sequence[Row]) -> float:
    first, last = curve[0], curve[-1]
    return float(
        (last["discarded_in_all_per_second"] - first["discarded_in_all_per_second"])
        / (last["subscribers"] - first["subscribers"])
    )
