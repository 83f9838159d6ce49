"""``rayvous experiment admission-on-ray``: the small experiment on admission control, on actors that use real CPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from .. import console

Row = Mapping[str, Any]

MEASURED: Final[dict[str, Callable[[Row], str]]] = {
    "criterion": lambda row: str(row["criterion"]),
    "subscribers": lambda row: str(row["subscribers"]),
    "discards/s in all": lambda row: f"{row['discarded_in_all_per_second']:.1f}",
    "a broker": lambda row: f"{row['discarded_per_second']:.2f}",
    "rejected": lambda row: f"{row['rejected']:.0%}",
    "CPU": lambda row: f"{row['cpu']:.0%}",
    "of capacity": lambda row: f"{row['of_capacity']:.0%}",
    "the busiest": lambda row: f"{row['of_capacity_max']:.0%}",
}


def run_admission_on_ray(out: Path, *, as_json: bool) -> dict[str, Any]:
    """Run the small experiment on real actors, write ``admission_on_ray.json``, and print the results."""
    from ...actors.network.network import ensure_ray
    from ...experiments import admission_on_ray

    ensure_ray()
    with console.steps() as steps:
        result = admission_on_ray.run(admission_on_ray.RayPlan(), progress=steps.show)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "admission_on_ray.json"
    file.write_text(json.dumps(result, indent=1), encoding="utf-8")
    result["files"] = [str(file)]
    if as_json:
        console.print_json(result)
        return result
    console.print_table(
        "Measured",
        {
            "events per second that a broker can take in": str(list(result["capacities"].values())),
            "events per second of a publisher": str(result["rate"]),
        },
    )
    _print_rows("On real actors", result["rows"], MEASURED)
    _print_statements(result["statements"])
    console.print_table("Written", {str(file): ""})
    return result


def _print_rows(title: str, rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> None:
    console.print_columns(title, list(columns), [[text(row) for text in columns.values()] for row in rows])


def _print_statements(statements: Sequence[Row]) -> None:
    for statement in statements:
        word = "[green]holds[/]" if statement["holds"] else "[bold red]does not hold[/]"
        console.out.print(f"{word}: {escape(statement['published'])}", soft_wrap=True)
        console.out.print(f"    ours: {statement['ours']}", soft_wrap=True, markup=False, highlight=False)
