"""The page of a report: the complete report of a run for people, in one HTML file.

Rules
-----
* The file is self-contained: pictures are data URIs, the style is inline, there is no script and no font. Its
  content security policy forbids browsers to fetch or run anything.
* All user input (names of networks, subscribers and brokers, timelines) is escaped.
* The page is readable on light and dark screens, on paper, and on a phone.

`page_content` composes its content; `page.html.jinja` defines its layout.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import networkx as nx

from ...actors.pictures.style import DPI
from ...faults.checker.verdict import NOTHING_DUE
from ...protocol.extras import extra
from ...protocol.printable import printable
from . import page_content
from .pictures import PICTURES

with extra("spark"):
    import pandas as pd
    from jinja2 import Environment, StrictUndefined

FILE: Final = "report.html"
CSS_PIXELS_AN_INCH: Final = 96

CAPTIONS: Final = {
    "rate": (
        "Over time",
        "Above, the events that brokers took from publishers; below, the notifications of subscribers. The shaded time "
        "runs from the failure "
        "until the network had healed. Events in flight through the dead broker are retransmitted at its end.",
    ),
    "latency": (
        "How long notifications took",
        "From publishing an event until the subscriber's broker handed it over. Above, the distribution; below, the "
        "cumulative share. "
        "A separate hump is of events that had to wait, in a queue or for healing.",
    ),
    "tree": (
        "Load of the links",
        "Boxes are brokers; thick lines are links of the tree, with the events that crossed them, both ways. Small "
        "boxes are the members of a cluster; ⇉ counts events multicast to them. Dead brokers are grey and dashed.",
    ),
    "load": (
        "Load of the brokers",
        "Events that each broker handled, the busiest first. The dotted line is the mean. Bars far above it show where "
        "more brokers, or another tree, would help.",
    ),
}
"""The heading of each picture, and how to read it."""


@dataclass(frozen=True, slots=True)
class _Picture:
    name: str
    title: str
    caption: str
    source: str
    width: int
    height: int

    @classmethod
    def of(cls, name: str, path: Path, more: str = "") -> _Picture:
        data = path.read_bytes()
        width, height = (side * CSS_PIXELS_AN_INCH // DPI for side in struct.unpack(">II", data[16:24]))
        source = "data:image/png;base64," + base64.b64encode(data).decode("ascii")
        title, caption = CAPTIONS[name]
        return cls(name, title, f"{caption} {more}".rstrip(), source, width, height)


def write_page(
    folder: Path,
    figures: Mapping[str, pd.DataFrame],
    graph: nx.Graph,
    summary: Mapping[str, Any],
    paths: Mapping[str, Path],
) -> Path:
    """Write the page of a report, overwriting an existing one; return its path.

    Parameters
    ----------
    folder
        The report's folder; links on the page are relative to it.
    figures
        ``{name: pandas.DataFrame}``; see :func:`~rayvous.pipelines.figures.figures.figures_of`. Missing
        figures are left out of the page.
    graph
        The network: see :func:`~rayvous.actors.pictures.tree.tree_figure`; ``name`` and ``scheme`` are graph
        attributes.
    summary
        All optional: the result of `Verdict.to_dict`; ``settings`` (``{name: value}``: the settings of the
        run, shown verbatim); ``killed``, ``recovery_seconds``, ``started_at``, ``timeline``; rates and
        latencies as measured by clients; ``spark_start_seconds``, ``spark_report_seconds``, ``spark_jobs``,
        ``floor_seconds``.
    paths
        ``{name: path}`` of the files that the report has written; pictures and `aggregates` are taken from
        it.
    """
    more = page_content.captions(summary, figures)
    pictures = {
        name: _Picture.of(name, paths[name], more.get(name, "")) for name in PICTURES if name in paths
    }
    text = _template().render(
        title=graph.graph.get("name") or "report",
        sentence=page_content.sentence(graph, summary),
        facts=page_content.facts(graph, summary, figures),
        verdict=summary.get("verdict"),
        undecided=NOTHING_DUE,
        conditions=page_content.conditions(summary),
        violations=list(summary.get("violations") or ()),
        tiles=page_content.tiles(summary, figures),
        timeline=page_content.timeline(summary, graph),
        pictures=pictures,
        tables=page_content.tables(graph, figures, summary),
        files=_files(folder, paths),
    )
    path = folder / FILE
    path.write_text(text, encoding="utf-8")
    return path


def _printable(value: object) -> object:
    """Return what the template puts into the page: plain text on one line, without controls of writing direction."""
    return printable(value) if type(value) is str else value


def _template() -> Any:
    environment = Environment(
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(
        (resources.files(__package__) / "page.html.jinja").read_text(encoding="utf-8")
    )


def _files(folder: Path, paths: Mapping[str, Path]) -> dict[str, str]:
    """Return the other files of the folder: link and description."""
    found = {"summary.json": "what was printed, and the figures that have one row"}
    if any(path.parent.name == "aggregates" for path in paths.values()):
        found["aggregates/"] = "each figure as Parquet"
    if (folder / "tables").is_dir():
        found["tables/"] = "the telemetry itself as Parquet"
    return found | {paths[name].name: "the picture alone" for name in PICTURES if name in paths}
