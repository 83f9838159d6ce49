"""Reproduce figures of the papers: runs in virtual time, Parquet, Spark, statements, pictures.

Rules
-----
* The *runs* of an experiment are measured first, as Ray tasks; several experiments may share runs. Their
  tables are stored as Parquet, a folder per table, with a folder per run in it. All later steps use only
  these files, so they can be repeated without running anything (`rebuild`).
* Spark aggregates, by functions from DataFrame to DataFrame. The result is a row for each point of a curve.
* Statements are judged on these rows. A statement that does not hold without a known reason fails the
  experiment.
* The measured points are recorded after their results: an interrupted run can be resumed from there, if it
  has the same points.
* The module of the runs has the parameters and their assumptions; they are not changed after results were
  seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never

import pyarrow as pa
import pyarrow.parquet as pq

from ..actors.tasks import spread
from ..pipelines.report.plots import save_png
from ..protocol.errors import InputError
from ..simulator.processes import collect_rarely
from . import WRITTEN
from .catalogue import EXPERIMENTS
from .experiment import Experiment, Runs, Tables, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURED: Final = "measured.txt"
"""Identifies the points of a folder, and lists the numbers of those that were measured, one per line."""

Progress = Callable[[str, int, int], None]
"""Called with the step, the progress, and the total."""


def _no_progress(what: str, done: int, of: int) -> None:
    """Ignore the progress."""


def run(
    names: Sequence[str],
    folder: Path,
    session: SparkSession,
    *,
    preset: str = "quick",
    runs: int | None = None,
    resume: bool = False,
    progress: Progress = _no_progress,
) -> dict[str, Any]:
    """Run experiments, and write their tables, statements and pictures.

    Parameters
    ----------
    names
        The experiments.
    folder
        The output folder; its files of the same experiments are replaced, unless the run is resumed.
    session
        The Spark session.
    preset
        ``"quick"``, or ``"paper"`` for the paper's parameters.
    runs
        The number of runs of each point; None for that of the preset.
    resume
        Whether to skip the points that the folder already has.
    progress
        Called with the step, the progress, and the total.

    Returns
    -------
    dict
        As `rebuild`.

    Raises
    ------
    InputError
        If there is no such experiment or preset, or a folder to resume has other points.
    """
    for what in {one.runs.name: one.runs for one in experiments(names, preset)}.values():
        _measure(what, folder, preset, runs, progress, resume=resume)
    (folder / WRITTEN).write_text(
        json.dumps({"experiments": list(names), "preset": preset}), encoding="utf-8"
    )
    return rebuild(folder, session, progress=progress)


def experiments(names: Sequence[str], preset: str) -> list[Experiment]:
    """Return the experiments of these names, each of which has that preset.

    Raises
    ------
    InputError
        If there is no such experiment or preset; the message lists the existing ones.
    """
    found = [_experiment(name) for name in names]
    for one in found:
        if preset not in one.runs.presets:
            raise InputError(f"--preset {preset}: it must be {' or '.join(one.runs.presets)}")
    return found


def _experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}: there are {', '.join(EXPERIMENTS)}, all")
    return EXPERIMENTS[name]


def _measure(
    what: Runs, folder: Path, preset: str, runs: int | None, show: Progress, *, resume: bool
) -> None:
    plan = what.presets[preset]
    plan = plan if runs is None else replace(plan, runs=runs)
    home = folder / what.name
    points = plan.points()
    measured = _begun(home, points, resume=resume)
    place = {point: number for number, point in enumerate(points)}
    left = [point for point in points if place[point] not in measured]
    show(what.name, len(measured), len(points))
    for done, (point, tables) in enumerate(
        spread(partial(_measured, what.measure), left), start=len(measured) + 1
    ):
        for name, table in tables.items():
            file = home / name / f"run={point.run}" / f"part-{place[point]:05}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            columns = {key: pa.array(column) for key, column in table.items()}
            rows = len(next(iter(columns.values())))
            at = {key: pa.repeat(value, rows) for key, value in columns_of(point).items()}
            pq.write_table(pa.table(at | columns), file)
        with (home / MEASURED).open("a", encoding="utf-8") as log:
            log.write(f"{place[point]}\n")
        show(what.name, done, len(points))


def _measured(measure: Callable[[Never], Tables], point: object) -> Tables:
    """Measure one point, in a worker that does little else."""
    collect_rarely()
    return measure(point)  # type: ignore[arg-type]


def _begun(home: Path, points: Sequence[object], *, resume: bool) -> set[int]:
    """Return the points that a folder has from an earlier run; unless resumed, empty the folder and return none."""
    log, which = home / MEASURED, hashlib.sha256(repr(points).encode()).hexdigest()
    if resume and log.exists():
        first, *done = log.read_text(encoding="utf-8").split("\n")[:-1]  # ignores an incomplete last line
        if first != which:
            raise InputError(
                f"--resume: {home} has other points: leave --resume away, or name another folder"
            )
        log.write_text("".join(f"{line}\n" for line in (first, *done)), encoding="utf-8")
        return set(map(int, done))
    for old in sorted(home.rglob("*.parquet")):
        old.unlink()
    home.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{which}\n", encoding="utf-8")
    return set()


def rebuild(folder: Path, session: SparkSession, *, progress: Progress = _no_progress) -> dict[str, Any]:
    """Compute figures, statements and pictures from the results of the runs in a folder.

    Returns
    -------
    dict
        ``experiments``: by name the `source`, the `rows` and the `picture`; ``statements``: all of them, as
        data; and the `preset` and the `folder`.

    Raises
    ------
    InputError
        If the folder holds no experiments, or not all of their tables.
    """
    written = folder / WRITTEN
    if not written.is_file():
        raise InputError(
            f"{folder}: it holds no experiments; rayvous experiment NAME --out {folder} runs one"
        )
    known = json.loads(written.read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "preset": known["preset"],
        "folder": str(folder),
        "experiments": {},
        "statements": [],
    }
    for done, name in enumerate(known["experiments"]):
        progress("figures", done, len(known["experiments"]))
        one = _experiment(name)
        rows = _aggregated(one, folder, session)
        statements = [statement.row(name) for statement in one.judge(rows)]
        picture = save_png(one.draw(rows), folder / f"{name}.png")
        result["experiments"][name] = {"source": one.source, "rows": rows, "picture": str(picture)}
        result["statements"] += statements
    progress("figures", len(known["experiments"]), len(known["experiments"]))
    (folder / "results.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def _aggregated(one: Experiment, folder: Path, session: SparkSession) -> list[dict[str, object]]:
    tables = folder / one.runs.name / one.table
    if not any(tables.rglob("*.parquet")):
        raise InputError(f"{tables}: the table of {one.source} is not there")
    found = one.aggregate(session.read.parquet(str(tables.resolve())))
    return [row.asDict() for row in found.collect()]


def failed(statements: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield the statements that do not hold without a known reason."""
    return (each for each in statements if not each["holds"] and not each["known"])
