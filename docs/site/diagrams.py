"""The diagrams of the pages, as SVG: ``python docs/site/diagrams.py`` writes them to docs/pictures/diagrams/.

Rules
-----
* A diagram is data: boxes on a grid, arrows between them, and notes. The same data give the same bytes, and a test
  compares them with the committed files.
* Text is dark on light boxes, and lines are grey, so that a diagram is legible on a light and on a dark page.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parents[1] / "pictures" / "diagrams"
WIDTH, HEIGHT = 140, 44
STEP_X, STEP_Y = 180, 84
MARGIN: Final = 14
COLOURS: Final = {
    "plain": "#e8eef7",
    "root": "#f9dcc4",
    "deb": "#fdf1c7",
    "client": "#dff2e1",
    "dead": "#e3e3e3",
}


class Box(NamedTuple):
    """A box at a place of the grid, which may be a fraction; ``|`` separates lines of its text."""

    name: str
    x: float
    y: float
    text: str
    kind: str = "plain"


class Arrow(NamedTuple):
    """An arrow between boxes; `line` is ``"solid"`` or ``"dashed"``, and `both` gives it two heads."""

    start: str
    end: str
    text: str = ""
    line: str = "solid"
    both: bool = False


class Diagram(NamedTuple):
    """A diagram, with a text for readers who do not see it."""

    meaning: str
    boxes: list[Box]
    arrows: list[Arrow]


def svg(diagram: Diagram) -> str:
    """Return a diagram as SVG."""
    centres = {
        box.name: (MARGIN + WIDTH / 2 + box.x * STEP_X, MARGIN + HEIGHT / 2 + box.y * STEP_Y)
        for box in diagram.boxes
    }
    width = max(x for x, _ in centres.values()) + WIDTH / 2 + MARGIN
    height = max(y for _, y in centres.values()) + HEIGHT / 2 + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(diagram.meaning)}</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="#7a8594"/></marker></defs>',
    ]
    for arrow in diagram.arrows:
        lines += _arrow(arrow, centres[arrow.start], centres[arrow.end])
    for box in diagram.boxes:
        lines += _box(box, *centres[box.name])
    return "\n".join([*lines, "</svg>", ""])


def _box(box: Box, x: float, y: float) -> list[str]:
    dash = ' stroke-dasharray="4 3"' if box.kind == "dead" else ""
    lines = [
        f'<rect x="{x - WIDTH / 2:.1f}" y="{y - HEIGHT / 2:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="7" '
        f'fill="{COLOURS[box.kind]}" stroke="#7a8594"{dash}/>'
    ]
    texts = box.text.split("|")
    for row, text in enumerate(texts):
        at = y + 4 + 15 * (row - (len(texts) - 1) / 2)
        weight = ' font-weight="600"' if row == 0 else ""
        lines.append(
            f'<text x="{x:.1f}" y="{at:.1f}" text-anchor="middle" fill="#1b2330"{weight}>{escape(text)}</text>'
        )
    return lines


def _arrow(arrow: Arrow, start: tuple[float, float], end: tuple[float, float]) -> list[str]:
    (x1, y1), (x2, y2) = _edge(start, end), _edge(end, start)
    dash = ' stroke-dasharray="5 4"' if arrow.line == "dashed" else ""
    heads = ' marker-end="url(#head)"' + (' marker-start="url(#head)"' if arrow.both else "")
    lines = [
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="#7a8594" stroke-width="1.6"{dash}{heads}/>'
    ]
    if arrow.text:
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        half = 3.2 * len(arrow.text) + 4
        lines.append(
            f'<rect x="{x - half:.1f}" y="{y - 9:.1f}" width="{2 * half:.1f}" height="17" rx="4" fill="#ffffff"/>'
        )
        lines.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#3b4656">{escape(arrow.text)}</text>'
        )
    return lines


def _edge(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    """Return where the line between two centres leaves the first box."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    share = min(
        (WIDTH / 2 + 2) / abs(dx) if dx else float("inf"), (HEIGHT / 2 + 2) / abs(dy) if dy else float("inf")
    )
    return start[0] + dx * share, start[1] + dy * share


DIAGRAMS: Final = {
    "architecture": Diagram(
        "Clients call hosts, which are Ray actors; a host drives brokers, which are value machines; hosts "
        "call each other; the rendezvous point knows names and places, the collector takes telemetry",
        [
            Box("pub", 0, 0, "publisher|any process", "client"),
            Box("sub", 0, 2, "subscriber|any process", "client"),
            Box("out", 0, 1, "gateway|HTTP, STOMP", "client"),
            Box("host", 1.5, 0.5, "host (Ray actor)|drives brokers"),
            Box("other", 1.5, 1.5, "host (Ray actor)|drives brokers"),
            Box("broker", 3, 0, "broker|events in, effects out", "deb"),
            Box("store", 3, 1, "store|SQLite, PostgreSQL"),
            Box("point", 3, 2, "rendezvous point|names, places"),
            Box("collector", 1.5, 2.5, "collector|telemetry"),
        ],
        [
            Arrow("pub", "host", "publish"),
            Arrow("sub", "other", "poll"),
            Arrow("out", "host"),
            Arrow("host", "other", "events", both=True),
            Arrow("host", "broker", "handle(event)", both=True),
            Arrow("host", "store", "saved before sent"),
            Arrow("other", "point", "who is where", "dashed"),
            Arrow("other", "collector", "rows", "dashed"),
        ],
    ),
    "chaos": Diagram(
        "A seed gives a network, clients and a plan of faults; the run has faults, repair, quiescence; a "
        "judge outside compares the trace with the conditions",
        [
            Box("seed", 0, 0, "seed|network, clients, plan"),
            Box("build", 1.35, 0, "build|until quiescent"),
            Box("faults", 2.7, 0, "faults|while clients work", "root"),
            Box("repair", 2.7, 1, "repair|all faults end", "deb"),
            Box("calm", 1.35, 1, "quiescent|nothing under way"),
            Box("judge", 0, 1, "judge|trace, conditions", "client"),
        ],
        [
            Arrow("seed", "build"),
            Arrow("build", "faults"),
            Arrow("faults", "repair"),
            Arrow("repair", "calm"),
            Arrow("calm", "judge", "trace"),
            Arrow("calm", "faults", "again", "dashed"),
        ],
    ),
    "schemes": Diagram(
        "Under hybrid an event climbs from its publisher's broker over designated brokers to the root, and "
        "goes down only where it is wanted, with one multicast in a cluster",
        [
            Box("reb", 1.5, 0, "REB|the root", "root"),
            Box("d1", 0.6, 1, "DEB|cluster 1", "deb"),
            Box("d2", 2.4, 1, "DEB|cluster 2", "deb"),
            Box("n1", 0, 2, "NEB|publisher here", "client"),
            Box("n2", 1.2, 2, "NEB|nobody wants it"),
            Box("n3", 2, 2, "NEB|subscriber here", "client"),
            Box("n4", 3.1, 2, "NEB|subscriber here", "client"),
        ],
        [
            Arrow("n1", "d1", "up"),
            Arrow("d1", "reb", "up, always"),
            Arrow("reb", "d2", "down, if wanted"),
            Arrow("d2", "n3", "multicast"),
            Arrow("d2", "n4", "multicast"),
            Arrow("d1", "n2", "multicast, ignored", "dashed"),
        ],
    ),
    "hypercube": Diagram(
        "The cube of three dimensions: broker 000 sends over all dimensions, each receiver only over higher "
        "ones, so every broker gets the broadcast once",
        [
            Box("000", 0, 2, "000|the sender", "root"),
            Box("100", 1.5, 2, "100"),
            Box("010", 0.6, 1.2, "010"),
            Box("110", 2.1, 1.2, "110"),
            Box("001", 0, 0.6, "001"),
            Box("101", 1.5, 0.6, "101"),
            Box("011", 0.6, 0, "011"),
            Box("111", 2.1, 0, "111"),
        ],
        [
            Arrow("000", "100", "dim. 0"),
            Arrow("000", "010", "1"),
            Arrow("000", "001", "2"),
            Arrow("100", "110", "1"),
            Arrow("100", "101", "2"),
            Arrow("010", "011", "2"),
            Arrow("110", "111", "2"),
        ],
    ),
    "telemetry": Diagram(
        "Hosts buffer rows, the collector gathers them in the object store or in a folder of Parquet parts; "
        "Arrow, pandas and Spark read them, and reports are made of them",
        [
            Box("h1", 0, 0, "host|buffer, bounded"),
            Box("h2", 0, 1, "host|buffer, bounded"),
            Box("c", 1.4, 0.5, "collector|accounts, losses", "deb"),
            Box("ray", 2.8, 0, "object store|until closed"),
            Box("dir", 2.8, 1, "folder|Parquet parts"),
            Box("arrow", 4.2, 0, "Arrow, pandas", "client"),
            Box("spark", 4.2, 1, "Spark|report, --follow", "client"),
        ],
        [
            Arrow("h1", "c", "rows"),
            Arrow("h2", "c", "rows"),
            Arrow("c", "ray"),
            Arrow("c", "dir"),
            Arrow("ray", "arrow"),
            Arrow("dir", "arrow"),
            Arrow("ray", "spark"),
            Arrow("dir", "spark"),
        ],
    ),
    "operations": Diagram(
        "A broker joins through the rendezvous point, which names a parent; the parent accepts it or names "
        "another; then it has its table and clients; a broker that leaves hands its clients over first",
        [
            Box("new", 0, 0, "new broker", "client"),
            Box("point", 1.5, 0, "rendezvous point|names a parent"),
            Box("parent", 3, 0, "parent|degree, load", "deb"),
            Box("in", 3, 1, "in the tree|has its table"),
            Box("leaves", 1.5, 1, "leaves|clients move first"),
            Box("gone", 0, 1, "gone", "dead"),
        ],
        [
            Arrow("new", "point", "where?"),
            Arrow("point", "parent", "asks"),
            Arrow("parent", "in", "accepts"),
            Arrow("in", "leaves", "remove"),
            Arrow("leaves", "gone"),
        ],
    ),
    "monitoring": Diagram(
        "Hosts report counters to Ray's metrics, which Prometheus reads and Grafana shows; status, top and "
        "the live page ask the brokers themselves; logs go through Ray's log files",
        [
            Box("host", 0, 0.5, "host|counts anyway", "deb"),
            Box("ray", 1.4, 0, "Ray's metrics|each node"),
            Box("prom", 2.8, 0, "Prometheus"),
            Box("graf", 4.2, 0, "Grafana|dashboard", "client"),
            Box("status", 1.4, 1, "survey|answers of brokers"),
            Box("top", 2.8, 1, "status, top,|live page", "client"),
        ],
        [
            Arrow("host", "ray", "every 2 s"),
            Arrow("ray", "prom", "every 10 s"),
            Arrow("prom", "graf"),
            Arrow("host", "status", "when asked"),
            Arrow("status", "top"),
        ],
    ),
    "glossary": Diagram(
        "A tree of clusters: the root broker REB, designated brokers DEB, members NEB; publishers and "
        "subscribers are attached to brokers",
        [
            Box("reb", 1.4, 0, "REB|root broker", "root"),
            Box("m", 2.8, 0, "NEB|member, cluster 0"),
            Box("d1", 0.7, 1, "DEB|designated, cluster 1", "deb"),
            Box("d2", 2.4, 1, "DEB|designated, cluster 2", "deb"),
            Box("n1", 0, 2, "NEB|member, cluster 1"),
            Box("n2", 1.2, 2, "NEB|member, cluster 1"),
            Box("n3", 2.4, 2, "NEB|member, cluster 2"),
            Box("p", 0, 3, "publisher", "client"),
            Box("s", 2.4, 3, "subscriber", "client"),
        ],
        [
            Arrow("reb", "d1", "parent, child"),
            Arrow("reb", "d2"),
            Arrow("reb", "m", line="dashed"),
            Arrow("d1", "n1", "group", "dashed"),
            Arrow("d1", "n2", "group", "dashed"),
            Arrow("d2", "n3", "group", "dashed"),
            Arrow("p", "n1", "publish"),
            Arrow("n3", "s", "notify"),
        ],
    ),
}
"""The diagrams by name; the page of that name shows it."""


def main() -> None:
    """Write all diagrams."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, diagram in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(svg(diagram), encoding="utf-8")
    sys.stdout.write(f"{len(DIAGRAMS)} diagrams in {FOLDER}\n")


if __name__ == "__main__":
    main()
