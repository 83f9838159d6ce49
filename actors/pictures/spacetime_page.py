"""A space-time diagram as a page: words above, the diagram below, which zooms, filters and tells what is pointed at.

Rules
-----
* The file is self-contained: style and script are inline, there is no font and no picture. Its content security policy
  lets a browser run this one script, by its hash, and fetch nothing.
* All text of users is escaped. The page is readable on light and dark screens, and on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .pages import filled, text
from .spacetime import AXIS_PIXELS, HEAD_PIXELS, Diagram, draw, markers, style

DARK: Final = {
    "ground": "#1a2028",
    "band": "#222a34",
    "ink": "#e6eaf0",
    "quiet": "#9aa6b5",
    "line": "#465261",
    "path": "#ffa566",
    "event": "#7cbcf5",
    "wants": "#6fd3ac",
    "later": "#d79bf0",
    "other": "#66727f",
    "bad": "#ff8a8a",
}
"""The colours on dark screens."""


def page_of(
    diagram: Diagram, title: str, words: Sequence[str] = (), summary: Mapping[str, str] | None = None
) -> str:
    """Return the page of a diagram.

    Parameters
    ----------
    diagram
        What is drawn.
    title
        The heading.
    words
        Lines that tell the same.
    summary
        What stands first, by its name.
    """
    drawing = draw(diagram)
    kinds = diagram.bounded().kinds()
    parts = {
        "title": text(title),
        "style": f"{style()}@media (prefers-color-scheme: dark){{:root{{{_variables()}}}}}",
        "summary": "".join(
            f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>"
            for name, value in (summary or {}).items()
        ),
        "words": "\n".join(text(line) for line in words),
        "kinds": "".join(
            f'<label><input type="checkbox" checked data-kind="{text(kind)}"> {text(kind)} '
            f"<span>{count:,}</span></label>"
            for kind, count in kinds.items()
        ),
        "left": text("; ".join(diagram.bounded().left_out)),
        "markers": markers(),
        "head": drawing.head,
        "axis": drawing.axis,
        "body": drawing.body,
        "width": str(drawing.width),
        "height": str(drawing.height),
        "axis_width": str(AXIS_PIXELS),
        "head_height": str(HEAD_PIXELS),
    }
    return filled("spacetime", parts)


def _variables() -> str:
    return ";".join(f"--st-{name}:{value}" for name, value in DARK.items())


__all__ = ["page_of"]
