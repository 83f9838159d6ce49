"""``rayvous experiment``: a paper's figures, reproduced; numbers, pictures, and how the published statements fare."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..experiments import admission, hypercube
from ..experiments.admission_plots import figure_9, figure_10
from ..protocol.errors import InputError
from . import console


def run_admission(name: str, out: Path, *, as_json: bool) -> dict[str, Any]:
    """Run paper 3's experiment, write ``admission.json`` and a picture a figure, and print how it fares."""
    plan = admission.preset(name)
    with console.steps() as steps:
        result = admission.run(plan, progress=steps.show, processes=os.cpu_count() or 1)
    out.mkdir(parents=True, exist_ok=True)
    (out / "admission.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    figures = {"figure_9.png": figure_9, "figure_10.png": figure_10}
    for title, draw in figures.items():
        draw(result["rows"]).savefig(out / title, dpi=120)
    result["files"] = [str(out / title) for title in ("admission.json", *figures)]
    if as_json:
        console.print_json(result)
        return result
    for statement in result["statements"]:
        word = "holds" if statement["holds"] else "does not hold"
        console.print_table(statement["published"], {"ours": str(statement["ours"]), "it": word})
    console.print_table("Written", dict.fromkeys(result["files"], ""))
    return result


def run_hypercube(preset: str, brokers: int, seed: int, out: Path, *, as_json: bool) -> dict[str, Any]:
    """Run figures 6 and 7 of paper 2, write ``hypercube.png``, and print the loads and hops."""
    if preset not in ("quick", "paper"):
        raise InputError(f"--preset {preset}: it is quick or paper")
    ranges = hypercube.PAPER_RANGES if preset == "paper" else hypercube.QUICK_RANGES
    result = hypercube.run(ranges, brokers=brokers, seed=seed)
    result["files"] = [str(hypercube.save(result, out))]
    if as_json:
        console.print_json(result)
        return result
    _print_hypercube(result)
    console.print_table("Written", dict.fromkeys(result["files"], ""))
    return result


def _print_hypercube(result: dict[str, Any]) -> None:
    hops = {
        "brokers": result["brokers"],
        "messages for a broadcast": result["messages_per_broadcast"],
        "hops of a reply, mean": result["hops_mean"],
        "formula (1)": result["hops_formula_1"],
        "measured in the paper": result["hops_paper"],
    }
    shown = {name: str(value) for name, value in hops.items() if value is not None}
    console.print_table("Hypercube: hops", shown)
    for name, title in (("figure_6", "Figure 6: broadcasts"), ("figure_7", "Figure 7: replies")):
        rows = {}
        for point in result[name]:
            load, sources = point["balance"], point["sources"]
            rows[f"up to {point['range']} a broker"] = (
                f"load {load['mean']:.0f} a broker, max/mean {load['max_over_mean']:.2f}, Gini {load['gini']:.3f} "
                f"(of what they start: max/mean {sources['max_over_mean']:.2f}, Gini {sources['gini']:.3f})"
            )
        console.print_table(title, rows)
