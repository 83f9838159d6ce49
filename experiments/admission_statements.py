"""What paper 3 says of figures 9 and 10, and whether our figures say the same.

Rule: a statement is judged on the rows of the experiment alone, and stands with the numbers that it was judged on.

Source: paper 3, section 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Row = dict[str, Any]


def compare(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each statement of the text: what the paper says, what we measured, and whether it holds."""
    curves = {name: _curve(rows, name) for name in dict.fromkeys(row["criterion"] for row in rows)}
    none, full, low, high = (curves[name] for name in ("none", "full", "20 %", "40 %"))
    last = {name: curve[-1] for name, curve in curves.items()}
    discards = {name: round(row["discarded_per_second"], 2) for name, row in last.items()}
    rejected = {name: round(row["rejected"], 2) for name, row in last.items()}
    rises = none[-1]["discarded_per_second"] > none[0]["discarded_per_second"]
    half = none[-1]["discarded_per_second"] / 10
    return [
        _statement(
            "without admission control ever more events are discarded as subscribers come",
            [round(row["discarded_per_second"], 2) for row in none],
            rises,
        ),
        _statement(
            "full guarantee: discards near 0",
            discards["full"],
            all(row["discarded_per_second"] <= half for row in full),
        ),
        _statement(
            "full guarantee: rejections soon above 40 %",
            [round(row["rejected"], 2) for row in full],
            max(row["rejected"] for row in full[len(full) // 2 :]) > 0.4,
        ),
        _statement(
            "20 %: about 50 discards a second",
            {"mean broker": discards["20 %"]},
            25 <= discards["20 %"] <= 100,
        ),
        _statement(
            "40 %: discards rise steeply above 80 subscribers",
            [round(row["discarded_per_second"], 2) for row in high],
            _steep(high),
        ),
        _statement(
            "discards: full <= 20 % <= 40 % <= none",
            discards,
            _rises([discards[name] for name in ("full", "20 %", "40 %", "none")]),
        ),
        _statement(
            "rejections: full > 20 % > 40 %", rejected, rejected["full"] > rejected["20 %"] > rejected["40 %"]
        ),
        *(
            _statement(
                f"{resource} utilisation: full <= 20 % <= 40 % <= none",
                {name: round(row[resource], 3) for name, row in last.items()},
                _rises([last[name][resource] for name in ("full", "20 %", "40 %", "none")]),
            )
            for resource in ("cpu", "bandwidth")
        ),
        _statement(
            "the CPU is used more than the links",
            {name: (round(row["cpu"], 3), round(row["bandwidth"], 3)) for name, row in last.items()},
            all(row["cpu"] > row["bandwidth"] for row in last.values()) and bool(low),
        ),
    ]


def _curve(rows: Sequence[Row], criterion: str) -> list[Row]:
    return sorted((row for row in rows if row["criterion"] == criterion), key=lambda row: row["subscribers"])


def _statement(text: str, ours: Any, holds: bool) -> dict[str, Any]:
    return {"published": text, "ours": ours, "holds": bool(holds)}


def _rises(values: Sequence[float]) -> bool:
    """Return whether values do not fall by more than a twentieth from one to the next."""
    return all(later >= earlier * 0.95 for earlier, later in pairwise(values))


def _steep(curve: list[Row]) -> bool:
    """Return whether the curve climbs faster above 80 subscribers than on the average below."""
    below = [row for row in curve if row["subscribers"] <= 80]
    above = [row for row in curve if row["subscribers"] >= 80]
    if len(below) < 2 or len(above) < 2:
        return False
    return _slope(above) > 1.5 * _slope(below) and _slope(above) > 0


def _slope(curve: list[Row]) -> float:
    first, last = curve[0], curve[-1]
    return float(
        (last["discarded_per_second"] - first["discarded_per_second"])
        / (last["subscribers"] - first["subscribers"])
    )
