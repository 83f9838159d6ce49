"""``rayvous experiment``: a verb for each experiment, and one for all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from ...experiments import TITLES
from ...experiments.rows import Row
from .. import console
from ..options import AsJson
from ..verb_app import VerbApp

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

experiment = VerbApp(
    no_args_is_help=True,
    help="Reproduce the figures of the papers: numbers and pictures, published beside measured.",
)


@experiment.command("admission-on-ray")
def experiment_admission_on_ray(
    out: Annotated[Path, typer.Option(help="Folder for the numbers; created if missing.")] = Path(
        "out/experiments/admission-on-ray"
    ),
    as_json: AsJson = False,
) -> None:
    """Paper 3, section 5, on real brokers: six broker actors process each event, and their capacities are measured.

    Takes a minute or two and writes admission_on_ray.json. Prints the paper's statements beside the measurements; a
    statement that does not hold is no failure.

    Examples
    --------
      rayvous experiment admission-on-ray
      rayvous experiment admission-on-ray --out out/admission --json
    """
    run_admission_on_ray(out, as_json=as_json)


def run_admission_on_ray(out: Path, *, as_json: bool) -> dict[str, object]:
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


def _reproduces(name: str, what: str) -> None:
    """Add a verb for one experiment, or for all."""

    def verb(
        preset: Annotated[
            str,
            typer.Option(
                help="quick, small (some experiments), paper (hours); tct, aed, admission-*: also calibrated; "
                "admission-*: also copies, links."
            ),
        ] = "quick",
        runs: Annotated[
            int | None,
            typer.Option(min=1, max=1_000, help="Runs per point \\[as in the preset]."),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(help="Folder for tables, pictures and results; created if missing."),
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
        as_json: AsJson = False,
    ) -> int:
        from .reproduction import reproduce

        folder = out or Path("out/experiments") / name
        return reproduce(name, preset, runs, folder, resume=resume, as_json=as_json)

    verb.__doc__ = f"""{what}

    Runs in virtual time on all CPUs of the running Ray cluster, or of this machine, and aggregates in Spark. Prints the
    statements of the paper beside the measurements. Exit status 1 if a statement fails that is not a known difference.

    Examples
    --------
      rayvous experiment {name}
      rayvous experiment {name} --preset paper --runs 3 --out out/{name} --json
    """
    experiment.command(name)(verb)


for _name, _what in TITLES.items():
    _reproduces(_name, _what)
_reproduces("all", "All of these experiments, one after the other; shared runs are made once.")
