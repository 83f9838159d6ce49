"""``rayvous experiment``: a paper's figures, reproduced; numbers, pictures, and how the published statements fare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..experiments import admission
from ..experiments.admission_plots import figure_9, figure_10
from . import console


def run_admission(name: str, out: Path, *, as_json: bool) -> dict[str, Any]:
    """Run paper 3's experiment, write ``admission.json`` and a picture a figure, and print how it fares."""
    plan = admission.preset(name)
    with console.steps() as steps:
        result = admission.run(plan, progress=steps.show)
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
