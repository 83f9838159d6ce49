"""One figure of a paper, reproduced by one call: the measurements, the paper's statements, the picture.

Rule: it is `reproduction.run` for one experiment, and leaves nothing behind unless a folder is given.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, cast

from ..pipelines.spark.local import local_session, open_session
from ..protocol import checks
from ..protocol.extras import require
from .statements import Statement

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from ..actors.pictures.picture import Picture

UNKNOWN: Final = "nobody knows why"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A reproduced figure or table of a paper; notebooks show the sentences.

    Attributes
    ----------
    name, source, preset
        The experiment, its figure, and the preset of the run.
    rows
        A row for each point of its curves.
    statements
        The paper's statements, each with the measurement and whether it holds.
    """

    name: str
    source: str
    preset: str
    rows: pd.DataFrame
    statements: list[Statement]
    _plain: list[dict[str, object]] = field(repr=False)

    @property
    def failed(self) -> list[Statement]:
        """The sentences that do not hold without a known reason."""
        return [each for each in self.statements if each.fails]

    def differences(self) -> str:
        """Return the reasons why sentences do not hold, each followed by its sentences."""
        found: dict[str, list[str]] = {}
        for each in self.statements:
            if not each.holds:
                found.setdefault(each.known or UNKNOWN, []).append(each.text)
        return "\n\n".join(
            "\n".join([why, *(f"  - {text}" for text in texts)]) for why, texts in found.items()
        )

    def draw(self) -> Picture:
        """Draw the figure."""
        from .catalogue import EXPERIMENTS

        return cast("Picture", EXPERIMENTS[self.name].draw(self._plain))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(each.text)}</td>"
            f"<td style='text-align:left'>{escape(json.dumps(each.measured, ensure_ascii=False))}</td>"
            f"<td style='text-align:left'>{escape(_word(each))}</td></tr>"
            for each in self.statements
        )
        holds = sum(each.holds for each in self.statements)
        return (
            f"<p><b>{escape(self.source)}</b>, preset {escape(self.preset)}: {holds} of {len(self.statements)} "
            f"sentences hold</p><table><tr><th>the paper says</th><th>measured</th><th></th></tr>{rows}</table>"
        )


def experiment(
    name: str,
    out_dir: str | Path | None = None,
    *,
    preset: str = "quick",
    runs: int | None = None,
    session: SparkSession | None = None,
) -> Reproduced:
    """Reproduce a figure or table of a paper; ``rayvous experiment`` does the same from a shell.

    Parameters
    ----------
    name
        The experiment: see `rayvous.experiments.TITLES`.
    out_dir
        Where tables, picture and results are stored; None stores nothing.
    preset
        ``"quick"``, or ``"paper"`` for the paper's parameters; some have ``"small"`` as a preview.
    runs
        The number of runs of each point; None for that of the preset.
    session
        Your Spark session, which is left open; by default the one that is open in this process, or one on
        this machine that is started for the call.

    Raises
    ------
    InputError
        If there is no such experiment or preset. Nothing was started then.
    MissingExtra
        If Spark or matplotlib is not installed.
    """
    require("spark")
    require("plots")
    import pandas as pd

    from .reproduction import experiments, run

    (one,) = experiments([checks.text("name", name)], checks.text("preset", preset))
    if runs is not None:
        checks.whole_number("runs", runs, 1)
    place = TemporaryDirectory() if out_dir is None else nullcontext(str(checks.path("out_dir", out_dir)))
    found = open_session(session)
    with place as folder, local_session() if found is None else nullcontext(found) as spark:
        result = run([name], Path(folder), spark, preset=preset, runs=runs)
    rows = result["experiments"][name]["rows"]
    said = [
        Statement(**{key: value for key, value in each.items() if key != "experiment"})
        for each in result["statements"]
    ]
    return Reproduced(name, one.source, preset, pd.DataFrame(rows), said, rows)


def _word(statement: Statement) -> str:
    if statement.holds:
        return "holds, being fitted" if statement.fitted else "holds"
    word = "holds under no reading" if statement.impossible else "does not hold"
    return f"{word}: {statement.known or UNKNOWN}"
