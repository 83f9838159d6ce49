"""``rayvous experiment``: a verb for each experiment, and one for all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...experiments import TITLES
from ..options import AsJson
from ..verb_app import VerbApp

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
    from .admission_on_ray import run_admission_on_ray

    run_admission_on_ray(out, as_json=as_json)


def _reproduces(name: str, what: str) -> None:
    """Add a verb for one experiment, or for all."""

    def verb(
        preset: Annotated[
            str,
            typer.Option(
                help="quick, small (some experiments), paper (hours); admission-*: also copies, links."
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
