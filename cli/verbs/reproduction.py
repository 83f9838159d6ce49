"""``rayvous experiment NAME | all``: reproduce figures of the papers, and check the papers' statements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from ...protocol.extras import require
from .. import console
from ..inputs import check_out


def reproduce(name: str, preset: str, runs: int | None, out: Path, *, resume: bool, as_json: bool) -> int:
    """Run one experiment, or all; print the statements, and return 1 if one fails unexpectedly, else 0."""
    require("spark")
    require("plots")
    check_out(out)
    from ...experiments.catalogue import EXPERIMENTS
    from ...experiments.reproduction import experiments, run
    from ...pipelines.spark.local import session_at

    names = list(EXPERIMENTS) if name == "all" else [name]
    experiments(names, preset)  # validate before anything starts
    with console.steps() as steps:
        steps.show("Spark", 0, 1)
        with session_at(None) as spark:
            steps.show("Spark", 1, 1)
            result = run(names, out, spark, preset=preset, runs=runs, resume=resume, progress=steps.show)
    return show(result, as_json=as_json)


def show(result: Mapping[str, Any], *, as_json: bool) -> int:
    """Print the results of experiments; return the exit status."""
    from ...experiments.reproduction import failed

    if as_json:
        console.print_json(result)
    else:
        for name, one in result["experiments"].items():
            mine = [each for each in result["statements"] if each["experiment"] == name]
            hold = f"{sum(each['holds'] for each in mine)} of {len(mine)}"
            title = f"{name}: {one['source']}"
            console.print_table(title, {"statements that hold": hold, "picture": one["picture"]})
            for each in mine:
                _print_statement(each)
        console.print_table("All of it", {"folder": result["folder"]})
    return int(any(failed(result["statements"])))


def _print_statement(each: Mapping[str, Any]) -> None:
    word = "[green]holds[/]" if each["holds"] else "[bold red]does not hold[/]"
    if each["holds"] and each["fitted"]:
        word = "[green]holds, being fitted[/]"
    if each["known"]:
        word = "[yellow]holds under no reading[/]" if each["impossible"] else "[yellow]known not to hold[/]"
    console.out.print(f"{word}: {escape(each['text'])}", soft_wrap=True, highlight=False)
    console.out.print(f"    measured: {each['measured']}", soft_wrap=True, markup=False, highlight=False)
    if each["known"]:
        console.out.print(f"    why: {each['known']}", soft_wrap=True, markup=False, highlight=False)
