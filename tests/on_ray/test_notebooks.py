"""The notebooks run from top to bottom; what they show is asserted in them."""

import os
from pathlib import Path

import nbformat
import pytest
import ray
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CELL_SECONDS = 120


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path, ray_started, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)  # the notebook joins this Ray
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are kept without their outputs"
    client = NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": os.curdir}})
    client.execute()  # a cell that raises raises here
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
