"""docs/cli.md shows what the commands that need no Ray print today."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE = ("audit", "run", "selector")
MEASURED = re.compile(r"in [\d.]+ s$", re.MULTILINE)


def commands(page):
    """Yield the words of each command of the console blocks, and the output that the page shows for it."""
    for block in BLOCK.findall(page):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, said = shown.partition("\n")
            yield shlex.split(command)[1:], said


@pytest.mark.slow
def test_the_page_shows_what_is_printed(rayvous, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("examples").symlink_to(ROOT / "examples")
    compared = []
    for words, said in commands((ROOT / "docs/cli.md").read_text(encoding="utf-8")):
        if "out/trace" in words or (said and words[0] in HERE):
            status, out, err = rayvous(*words)
            printed = "\n".join(line.rstrip() for line in (err if status else out).splitlines()) + "\n"
            if said:
                assert MEASURED.sub("", printed) == MEASURED.sub("", said), words
                compared.append(words[0])
    assert {*compared} == {*HERE}
