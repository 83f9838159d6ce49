"""The report of a run: figures as Parquet, a summary as JSON, pictures, and a page that shows them.

Rules
-----
* The content of the folder::

      aggregates/<name>.parquet     each figure of `figures`, one file
      summary.json                  {"summary": the given one, "aggregates": the figures that have one row, and TCT}
      rate.png tree.png load.png latency.png
      report.html                   the page for people: everything in one file

* Only these files are overwritten. Those left by an earlier report and not written by this one are removed;
  other files stay. The telemetry behind the figures is stored beside them, in `tables/`: see `files`.
* No Spark is used here: the input is pandas frames.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet

from ...protocol import checks
from ...protocol.errors import InputError
from ...protocol.extras import extra
from ..figures.figures import NAMES
from .page import write_page
from .page_content import sentence
from .pictures import PICTURES, draw_pictures, drawings

with extra("spark"):
    import pandas as pd

if TYPE_CHECKING:
    from ...actors.pictures.picture import Picture


@dataclass(frozen=True, slots=True)
class Report:
    """The written files, and the figures themselves.

    Attributes
    ----------
    folder
        The report's folder.
    paths
        ``{name: path}``: ``"summary"``; ``"page"``; each picture of `pictures.PICTURES` and each figure by
        name. An empty picture or figure is missing.
    figures
        ``{aggregate: pandas.DataFrame}``.
    graph, summary
        The network as drawn, and the given summary.
    took
        ``spark_report_seconds``: from the telemetry to Spark's figures; ``spark_jobs``; ``report_seconds``:
        from the telemetry until all was written. Empty if the figures came from elsewhere.
    """

    folder: Path
    paths: dict[str, Path]
    figures: dict[str, pd.DataFrame]
    graph: nx.Graph = field(default_factory=nx.Graph, repr=False)
    summary: Mapping[str, object] = field(default_factory=dict, repr=False)
    took: dict[str, float] = field(default_factory=dict)

    def draw(self, *names: str) -> Picture:
        """Draw the run in one figure: its rates over time, the network, its load, the latency of notifications.

        A dashed line marks each event of the summary's ``timeline``, if there is one. The network shows the
        roles of brokers, dead brokers, and the number of events over each link; the load is that of each
        broker.

        Parameters
        ----------
        names
            Of `pictures.PICTURES`: ``"rate"``, ``"tree"``, ``"load"``, ``"latency"``; by default all that are
            not empty.

        Raises
        ------
        InputError
            If there is no such picture, or it is empty for this run.
        """
        drawn = drawings(self.figures, self.graph, self.summary)
        from ...actors.pictures.picture import stacked

        for name in names:
            if checks.text("picture", name) not in drawn:
                raise InputError(f"no picture {name!r}: this run has {', '.join(drawn) or 'none'}")
        title = sentence(self.graph, self.summary) or str(self.summary.get("run", "A run"))
        return stacked(title, [drawn[name] for name in names or drawn])

    def row(self, name: str) -> dict[str, Any]:
        """Return the first row of an aggregate as plain Python values; null is ``None``."""
        return _plain_rows(self.figures[name])[0]


def write_report(
    out_dir: str | Path,
    figures: Mapping[str, pd.DataFrame],
    graph: nx.Graph,
    summary: Mapping[str, Any],
) -> Report:
    """Write the report of a run from its figures.

    Parameters
    ----------
    out_dir
        The folder; created if missing.
    figures
        ``{name: pandas.DataFrame}`` as :func:`~rayvous.pipelines.figures.figures.figures_of` returns them.
    graph
        Nodes are broker ids with ``role`` (``"REB"``, ``"DEB"``, ``"NEB"``), ``cluster`` and ``label``; edges
        have ``kind`` (``"tree"`` or ``"group"``). With :func:`~rayvous.actors.pictures.dead.with_dead` dead
        brokers are included.
    summary
        Further content of ``summary.json``; any JSON value. The page shows the entries that it knows: see
        :func:`~rayvous.pipelines.report.page.write_page`.

    Raises
    ------
    InputError
        `out_dir` is or lies under a file, or cannot be written; `summary` is not JSON.
    """
    check_summary(summary)
    folder = check_folder(out_dir)
    for path in _own_files(folder):
        path.unlink(missing_ok=True)
    paths = {}
    for name, figure in figures.items():
        paths[name] = folder / "aggregates" / f"{name}.parquet"
        pa.parquet.write_table(pa.Table.from_pandas(figure, preserve_index=False), paths[name])
    paths.update(draw_pictures(folder, figures, graph, summary))
    paths["summary"] = folder / "summary.json"
    numbers = {name: _plain_rows(figures[name]) for name in figures if len(figures[name]) == 1}
    told = {"summary": dict(summary), "aggregates": {name: rows[0] for name, rows in numbers.items()}}
    for name in ("tct", "multicast_cost"):
        if name in figures:
            told["aggregates"][name] = _plain_rows(figures[name])
    paths["summary"].write_text(_json(told) + "\n", encoding="utf-8")
    paths["page"] = write_page(folder, figures, graph, summary, paths)
    return Report(folder, paths, dict(figures), graph, dict(summary))


def check_summary(summary: Mapping[str, object]) -> None:
    """Raise InputError if a summary cannot be written as JSON."""
    _json(dict(summary))


def check_folder(out_dir: str | Path) -> Path:
    """Create the folder of a report if needed, and check that no foreign file blocks the report's.

    Raises
    ------
    InputError
        `out_dir` is or lies under a file, cannot be written, or holds a folder in place of one of the report's files.
    """
    folder = Path(out_dir)
    try:
        (folder / "aggregates").mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{error.filename} is a file; the report needs a folder there") from error
    except OSError as error:  # a file above it, no permission, a read-only disk
        raise InputError(f"the report's folder {folder} cannot be made: {error}") from error
    for path in _own_files(folder):
        if path.is_dir():
            raise InputError(f"{path} is a folder; the report writes a file there")
    return folder.resolve()


def _own_files(folder: Path) -> list[Path]:
    figures = [folder / "aggregates" / f"{name}.parquet" for name in NAMES]
    pictures = [folder / f"{name}.png" for name in PICTURES]
    return [folder / "summary.json", folder / "report.html", *pictures, *figures]


def _plain_rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: object) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def _json(value: object) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the summary is not JSON: {error}") from error
