"""Runs the notebooks that need neither Ray nor Spark; the notebooks contain their own assertions."""

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.slow
def test_a_notebook_runs(notebook):
    assert notebook()


def test_each_notebook_is_listed_says_what_it_needs_and_is_kept_without_outputs():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert f"[{path.stem}]({path.name})" in listed, path.name
        assert kept["metadata"]["rayvous"]["needs"] in ("nothing", "ray", "spark"), path.name
        code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code), path.name
