"""What mkdocs does beside its own: pages of the site that are kept elsewhere in the repository, and links to them.

Rules
-----
* A page reads well in the repository and on the site, so links in it are those of the repository. On the way to the
  site a link to a file that is a page there leads to that page, one to any other file becomes plain text, and one that
  leads nowhere stops the build (mkdocs says so, with --strict).
* Notebooks become pages of their text, their code and, if they are run for it, what the code shows. The reference has
  every public name, each from its docstring, on a page for each heading of `GROUPS`.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "deploy/README.md": "deploy.md",
    "examples/README.md": "tutorials/README.md",
}
"""Files outside docs/ that are pages of the site, and where, as far as they are there."""

NOTEBOOKS: Final = "examples"
RUN: Final = "RAYVOUS_RUN_TUTORIALS"
"""The variable of the environment that lets notebooks be run."""
FIRST: Final = ("first", "tour")
REFERENCE: Final = "reference.md"
GROUPS: Final = {
    "Networks": ("actors.network", "routing.topologies"),
    "Clients": ("actors.clients",),
    "Filters": ("routing.filters", "routing.language", "protocol.values"),
    "Configuration": (
        "protocol.configs",
        "protocol.gateways",
        "protocol.messages",
        "protocol.node_places",
        "protocol.stability",
        "protocol.telemetry",
        "recovery.durability",
    ),
    "Simulator and scenarios": ("simulator", "protocol.scenarios", "faults"),
    "Data": ("pipelines.ray_data",),
    "Telemetry": ("actors.telemetry", "pipelines"),
    "Experiments": ("experiments", "benchmarks"),
    "Errors": ("protocol.errors",),
}
"""The pages of the reference, and the modules whose public names stand on each."""

_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Complete the menu: pages that it does not place come last in the guide, notebooks have a heading of their own."""
    placed = re.findall(r"[\w/-]+\.md", str(config.nav))
    guide = next(part["Guide"] for part in config.nav if "Guide" in part)
    guide += sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in placed)
    tutorials = [page for page in pages().values() if page.startswith("tutorials/") and page not in placed]
    tutorials += [f"tutorials/{path.stem}.md" for path in notebooks()]
    config.nav.insert(2, {"Tutorials": tutorials})
    for part in config.nav:
        for place, entry in enumerate(part.get("Reference", ()) if isinstance(part, dict) else ()):
            if REFERENCE in entry.values():
                groups = [{heading: page_of_group(heading)} for heading in GROUPS]
                part["Reference"][place] = {"Public API": [{"All names": REFERENCE}, *groups]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are kept, or made, elsewhere."""
    for source, page in pages().items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in notebooks():
        text, pictures = notebook(path)
        for name, content in {f"tutorials/{path.stem}.md": text, **pictures}.items():
            files.append(File.generated(config, name, content=content))
    for page, content in reference().items():
        files.append(File.generated(config, page, content=content))
    worker = Path(__file__).with_name("iframe-worker.js")
    files.append(File.generated(config, f"assets/{worker.name}", content=worker.read_text(encoding="utf-8")))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead where the files are on the site."""
    here = source_of(page.file.src_uri)

    def lead(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        there = page_of(file)
        if files.get_file_from_path(there) is not None:
            return f"{picture}[{words}]({get_relative_url(there, page.file.src_uri)}{mark}{anchor})"
        return words if (ROOT / file).exists() and not picture else found[0]

    parts, end = [], 0
    for fence in _FENCE.finditer(text):  # what is code is left alone
        parts += [_LINK.sub(lead, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(lead, text[end:])])


def pages() -> dict[str, str]:
    """Return the files of `PAGES` that are there, and where on the site they are."""
    return {file: page for file, page in PAGES.items() if (ROOT / file).exists()}


def page_of(file: str) -> str:
    """Return where on the site a file of the repository is, if it is there."""
    if file.startswith(f"{NOTEBOOKS}/") and file.endswith(".ipynb"):
        return f"tutorials/{Path(file).stem}.md"
    return pages().get(file, file.removeprefix("docs/") if file.startswith("docs/") else f"../{file}")


def source_of(page: str) -> str:
    """Return the file of the repository that a page is made of."""
    kept = {there: file for file, there in pages().items()}
    if page not in kept and page.startswith("tutorials/"):
        return f"{NOTEBOOKS}/{Path(page).stem}.ipynb"
    return kept.get(page, f"docs/{page}")


def notebooks() -> list[Path]:
    """Return the notebooks by their names, those to start with first."""
    found = sorted((ROOT / NOTEBOOKS).glob("*.ipynb"))
    return sorted(found, key=lambda path: not path.stem.startswith(FIRST))


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, and its pictures: its text, its code, and what the code shows if it was run.

    The notebooks are kept without outputs. They are run when the variable `RUN` is set, as ``make docs`` does; that
    takes minutes, and a cell that fails stops the build.
    """
    cells = (_ran(path) if os.environ.get(RUN) else json.loads(path.read_text(encoding="utf-8")))["cells"]
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            name = f"pictures/{path.stem}-{len(pictures) + 1}.png"
            shown, picture = _shown(output, name)
            parts += [shown] if shown else []
            pictures |= {} if picture is None else {f"tutorials/{name}": picture}
    page = "\n\n".join(parts) + f"\n\n*This page is the notebook `{NOTEBOOKS}/{path.name}`.*\n"
    return page, pictures


def _ran(path: Path) -> Any:
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(path, as_version=4)
    NotebookClient(
        content, timeout=1_200, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    return content


def _shown(output: Any, name: str) -> tuple[str, bytes | None]:
    """Return what stands on the page for an output, and the picture of that name, if it is one."""
    if output["output_type"] == "stream":
        text = "".join(output["text"]) if output["name"] == "stdout" else ""
        return (f"```text\n{text.rstrip()}\n```" if text.strip() else ""), None
    data = output.get("data", {})
    if "image/png" in data:
        return f"![The output of the cell above]({name})", base64.b64decode(data["image/png"])
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return "<div>" + "\n".join(line.strip() for line in lines if line.strip()) + "</div>", None
    return "```text\n" + "".join(data.get("text/plain", "")) + "\n```", None


def homes() -> dict[str, str]:
    """Return the module of every public name, as the package itself has it; nothing is imported."""
    for node in ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            return dict(ast.literal_eval(node.value))
    raise LookupError("__init__.py has no _HOMES any more: the reference is made of it")


def page_of_group(heading: str) -> str:
    """Return where on the site a group of the reference is."""
    return f"reference/{heading.lower().replace(' ', '-')}.md"


def reference() -> dict[str, str]:
    """Return the pages of the reference: one with every public name, and one for each heading, from the docstrings."""
    first = ["# Reference", "", "`import rayvous as rv`: what is not named here is internal.", ""]
    pages = {}
    left = homes()
    for heading, modules in GROUPS.items():
        names = [each for each, home in left.items() if home.startswith(modules)]
        page = page_of_group(heading)
        links = [f"[`{name}`]({page}#rayvous.{left[name]}.{name})" for name in names]
        first += [f"- [{heading}]({page}): {', '.join(links)}"]
        lines = [f"# {heading}", ""]
        for name in names:
            lines += [f"::: rayvous.{left.pop(name)}.{name}", "    options: {heading_level: 2}", ""]
        pages[page] = "\n".join(lines)
    if left:
        raise LookupError(f"docs/site/hooks.py: no heading of GROUPS takes {sorted(left)}")
    return {REFERENCE: "\n".join(first) + "\n", **pages}
