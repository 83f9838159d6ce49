"""The diagrams of the pages are those that the script draws, and every one is on its page."""

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_spec = importlib.util.spec_from_file_location("diagrams", ROOT / "docs/site/diagrams.py")
assert _spec is not None and _spec.loader is not None
diagrams = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(diagrams)


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_diagram_is_as_drawn_and_on_its_page(name):
    """Otherwise: python docs/site/diagrams.py."""
    diagram = diagrams.DIAGRAMS[name]
    kept = (diagrams.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert kept == diagrams.svg(diagram)
    ET.fromstring(kept)
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert f"![{diagram.meaning}](pictures/diagrams/{name}.svg)" in page


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_text_fits_its_box_and_boxes_do_not_overlap(name):
    boxes = diagrams.DIAGRAMS[name].boxes
    for box in boxes:
        assert all(len(text) <= 23 for text in box.text.split("|")), box
    for one in boxes:
        for other in boxes:
            apart = (
                abs(one.x - other.x) * diagrams.STEP_X >= diagrams.WIDTH
                or abs(one.y - other.y) * diagrams.STEP_Y >= diagrams.HEIGHT
            )
            assert one is other or apart, (one, other)
