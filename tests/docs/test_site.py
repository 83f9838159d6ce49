"""The documentation site builds without a warning, from pages that also read well in the repository."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import rayvous as rv
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//([^"]+)"')

_spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site/hooks.py")
assert _spec is not None and _spec.loader is not None
hooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hooks)


class Pages:
    """A fake of mkdocs' files."""

    def __init__(self, *there):
        self.there = there

    def get_file_from_path(self, path):
        return path if path in self.there else None


def led(text, page, *there):
    return hooks.on_page_markdown(
        text, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, Pages(*there)
    )


def test_links_lead_to_where_files_are_on_the_site():
    there = ("index.md", "cli.md", "deploy.md", "decisions/README.md", "tutorials/tour.md")
    assert led("[a](docs/cli.md#x)", "index.md", *there) == "[a](cli.md#x)"
    assert led("[a](../README.md#installing)", "cli.md", *there) == "[a](index.md#installing)"
    assert led("[a](../docs/cli.md)", "deploy.md", *there) == "[a](cli.md)"
    assert led("[a](../cli.md)", "decisions/README.md", *there) == "[a](../cli.md)"
    assert led("[a](examples/tour.ipynb)", "index.md", *there) == "[a](tutorials/tour.md)"


def test_links_to_other_files_become_text_and_those_to_nothing_stay_to_be_found():
    assert led("[the law](LICENSE), [`x`](../examples/own_layer.py)", "index.md") == (
        "the law, [`x`](../examples/own_layer.py)"
    )
    assert led("[`x`](../examples/own_layer.py)", "extending.md") == "`x`"
    assert led("[a](nowhere.md)", "cli.md") == "[a](nowhere.md)"
    assert led("[a](https://ray.io) [b](#here)", "cli.md") == "[a](https://ray.io) [b](#here)"


def test_pictures_are_found_on_the_site_and_stay_to_be_found_where_they_are_not():
    there = "pictures/live_page.png"
    assert led(f"![a](docs/{there})", "index.md", there) == f"![a]({there})"
    assert led(f"![a]({there})", "gateway.md", there) == f"![a]({there})"
    assert led("![a](LICENSE)", "index.md", there) == "![a](LICENSE)"


def test_code_is_left_alone():
    text = "[a](LICENSE)\n```python\nx = [a](LICENSE)\n```\n[a](LICENSE)"
    assert led(text, "index.md") == "a\n```python\nx = [a](LICENSE)\n```\na"


def test_the_reference_has_every_public_name():
    assert sorted(hooks.homes()) == sorted(rv.__all__)
    first, *pages = hooks.reference().values()
    for name, home in hooks.homes().items():
        assert sum(page.count(f"::: rayvous.{home}.{name}\n") for page in pages) == 1
        assert first.count(f"#rayvous.{home}.{name})") == 1


def test_every_page_and_notebook_has_one_place_in_the_menu():
    menu = hooks.on_config(SimpleNamespace(nav=yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])).nav
    placed = re.findall(r"[\w/-]+\.md", str(menu))
    kept = {path.name for path in (ROOT / "docs").glob("*.md")} | {"decisions/README.md"}
    notebooks = {hooks.page_of(str(path.relative_to(ROOT))) for path in (ROOT / "examples").glob("*.ipynb")}
    assert sorted(placed) == sorted(kept | notebooks | {*hooks.pages().values(), *hooks.reference()})


def test_the_list_of_decisions_leads_to_each_of_them():
    folder = ROOT / "docs/decisions"
    led_to = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert {*led_to} == {path.name for path in folder.glob("[0-9]*.md")}


def test_a_page_that_the_menu_does_not_place_comes_at_the_end_of_the_guide():
    menu = hooks.on_config(
        SimpleNamespace(nav=[{"Overview": "index.md"}, {"Guide": [{"Service": "service.md"}]}])
    ).nav
    assert menu[1]["Guide"][0] == {"Service": "service.md"}
    assert "cli.md" in menu[1]["Guide"] and "service.md" not in menu[1]["Guide"]
    assert next(page for page in menu[2]["Tutorials"] if "README" not in page) == "tutorials/tour.md"


def test_a_notebook_that_was_run_shows_its_outputs(tmp_path, monkeypatch):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["said\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["a warning\n"]},
        {"output_type": "display_data", "data": {"image/png": "UE5H", "text/plain": "<Figure>"}},
        {
            "output_type": "execute_result",
            "data": {"text/html": ["<table>\n", "\n", "</table>"], "text/plain": "x"},
        },
        {"output_type": "execute_result", "data": {"text/plain": ["(1, 2)"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# A tour"]},
        {"cell_type": "code", "source": ["run()"], "outputs": outputs},
    ]
    monkeypatch.setenv(hooks.RUN, "1")
    monkeypatch.setattr(hooks, "_ran", lambda path: {"cells": cells})
    page, pictures = hooks.notebook(tmp_path / "tour.ipynb")
    shown = ["# A tour", "```python\nrun()\n```", "```text\nsaid\n```"]
    shown += ["![The output of the cell above](pictures/tour-1.png)", "<div><table>\n</table></div>"]
    shown += ["```text\n(1, 2)\n```", "*This page is the notebook `examples/tour.ipynb`.*\n"]
    assert page == "\n\n".join(shown) and pictures == {"tutorials/pictures/tour-1.png": b"PNG"}


def test_notebooks_are_not_run_unless_that_is_asked_for(monkeypatch):
    monkeypatch.delenv(hooks.RUN, raising=False)
    for path in hooks.notebooks():
        page, pictures = hooks.notebook(path)
        assert "```python" in page and not pictures


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # Not with --quiet, which also hides warnings from --strict.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", hooks.RUN: ""}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_it_builds_without_a_warning_and_takes_nothing_from_elsewhere(site):
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    assert len(pages) > 50
    for path, text in pages.items():
        assert not SCRIPT.search(text), path
        assert "::: rayvous" not in text, path
    of_parts = ("Network.settle", "Network.add_cluster", "Network.kill_broker")  # only assigned in the source
    reference = "".join(text for path, text in pages.items() if path.parent.name == "reference")
    for name in (*rv.__all__, *of_parts):
        assert f'.{name}"' in reference, name


@pytest.mark.slow
def test_its_search_works_on_pages_that_are_opened_from_files(site, browser):
    browser.open((site / "index.html").as_uri() + "?q=admission")
    said = browser.until(
        "(document.querySelector('.md-search-result__meta')?.innerText || '').match(/[0-9]+ match.*/)"
    )
    assert int(said[0].split()[0]) > 5
    assert all(url.startswith("file:") for url in browser.requested())
