"""Pages in one file: a template, a script, and the parts that are put into it.

Rules
-----
* A page is self-contained: style and script are inline. Its content security policy lets a browser run this one
  script, by its hash, and fetch nothing.
* What users wrote is escaped (`text`, `plain_data`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib import resources

from ...protocol.printable import printable


def filled(name: str, parts: Mapping[str, str], *, script: bool = True) -> str:
    """Return the page of a template ``name.html``, and a script ``name.js`` if it has one, with its parts."""
    every = dict(parts)
    if script:
        code = _file(f"{name}.js")
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode("ascii")
        every |= {"hash": digest, "script": code}
    first, *pieces = _file(f"{name}.html").split("{{")
    return first + "".join(
        every[part] + rest for part, _, rest in (piece.partition("}}") for piece in pieces)
    )


def text(given: str) -> str:
    """Return a text as it stands in a page."""
    return escape(str(printable(given)), quote=True)


def plain_data(given: object) -> str:
    """Return plain data as JSON that may stand in a script element: nothing in it ends the element."""
    found = json.dumps(given, separators=(",", ":"), ensure_ascii=True)
    return found.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


__all__ = ["filled", "plain_data", "text"]
