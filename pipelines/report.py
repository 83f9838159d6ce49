"""The report of a run: its figures as Parquet, a summary as JSON, three pictures.

Rules
-----
* What is in the folder::

      aggregates/<name>.parquet     each figure of `figures`, one file
      summary.json                  {"summary": what was given, "aggregates": the figures that have one row, and TCT}
      tree.png load.png latency.png

* Only these are written over; what an earlier report left and this one does not write is removed; other
  files stay. The telemetry that the figures come from stands beside them, in `tables/`: see `telemetry_files`.
* No Spark here: what is written comes in as pandas frames.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import networkx as nx
import pyarrow as pa
import pyarrow.parquet

from ..protocol.errors import InputError
from ..protocol.extras import extra
from . import plots
from .figures import NAMES

with extra("spark"):
    import pandas as pd

PICTURES: Final = ("tree.png", "load.png", "latency.png")


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and the figures themselves.

    Attributes
    ----------
    folder
        The report's folder.
    paths
        ``{name: path}``: ``"summary"``; ``"tree"``, ``"load"``, ``"latency"``; each figure by name. A picture or
        figure that had nothing to show is not there.
    figures
        ``{aggregate: pandas.DataFrame}``.
    """

    folder: Path
    paths: dict[str, Path]
    figures: dict[str, pd.DataFrame]

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
        Folder; made if it is not there.
    figures
        ``{name: pandas.DataFrame}`` as :func:`~rayvous.pipelines.figures.figures_of` returns them.
    graph
        Nodes are broker ids with ``role`` (``"REB"``, ``"DEB"``, ``"NEB"``), ``cluster`` and ``label``;
        edges have ``kind`` (``"tree"`` or ``"group"``).
    summary
        What else is to stand in ``summary.json``; anything that JSON can say.

    Raises
    ------
    InputError
        `out_dir` is or lies under a file, or cannot be written; `summary` is not JSON.
    """
    _json(dict(summary))  # refuse it before anything is written
    folder = check_folder(out_dir)
    for path in _own_files(folder):
        path.unlink(missing_ok=True)
    paths = {}
    for name, figure in figures.items():
        paths[name] = folder / "aggregates" / f"{name}.parquet"
        pa.parquet.write_table(pa.Table.from_pandas(figure, preserve_index=False), paths[name])
    paths.update(_draw(folder, figures, graph))
    paths["summary"] = folder / "summary.json"
    numbers = {name: _plain_rows(figures[name]) for name in figures if len(figures[name]) == 1}
    told = {"summary": dict(summary), "aggregates": {name: rows[0] for name, rows in numbers.items()}}
    told["aggregates"]["tct"] = _plain_rows(figures["tct"])
    paths["summary"].write_text(_json(told) + "\n", encoding="utf-8")
    return Report(folder, paths, dict(figures))


def check_folder(out_dir: str | Path) -> Path:
    """Make the folder of a report, if need be, and see that nothing foreign stands where the report goes.

    Raises
    ------
    InputError
        `out_dir` is or lies under a file, cannot be written, or holds a foreign file where the report's go.
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
    return [folder / "summary.json", *(folder / name for name in PICTURES), *figures]


def _draw(folder: Path, figures: Mapping[str, pd.DataFrame], graph: nx.Graph) -> dict[str, Path]:
    paths = {}
    if graph.number_of_nodes():
        links = figures["link_load"]
        tree, groups = links[links["kind"] == "tree"], links[links["kind"] == "group"]
        ends = zip(tree["low"].astype(int), tree["high"].astype(int), strict=True)
        link_events = dict(zip(ends, tree["events"].astype(int), strict=True))
        group_events = dict(zip(groups["cluster"].astype(int), groups["events"].astype(int), strict=True))
        paths["tree"] = plots.save_png(
            plots.tree_figure(graph, link_events, group_events), folder / "tree.png"
        )
    loads = figures["broker_load"]
    if len(loads):
        nodes = [int(broker) for broker in loads["broker"]]
        known = {node: dict(graph.nodes[node]) if node in graph else {} for node in nodes}
        labels = [str(known[node].get("label", node)) for node in nodes]
        roles = [str(known[node].get("role", "")) for node in nodes]
        figure = plots.load_figure(labels, roles, [int(load) for load in loads["load"]], _balance(figures))
        paths["load"] = plots.save_png(figure, folder / "load.png")
    if len(figures.get("latency_quantiles", ())):
        quantiles, row = figures["latency_quantiles"], figures["latency_percentiles"].iloc[0]
        marks = {name: float(row[f"{name}_seconds"]) for name in ("p50", "p99")}
        latency = plots.latency_figure(
            list(quantiles["probability"]), list(quantiles["latency_seconds"]), marks
        )
        paths["latency"] = plots.save_png(latency, folder / "latency.png")
    return paths


def _balance(figures: Mapping[str, pd.DataFrame]) -> str:
    row = _plain_rows(figures["load_balance"])[0]
    if row["gini"] is None:
        return ""
    return f"max/mean {row['max_over_mean']:.2f}, Gini {row['gini']:.2f}"


def _plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the summary is not JSON: {error}") from error
