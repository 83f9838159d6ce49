"""How far long work is, where there is no terminal to draw a bar on."""

import pytest
from rayvous.cli import console


def test_lines_of_progress_come_first_last_and_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    lines = console.Lines(clock=lambda: now[0])
    for done in range(1, 101):
        now[0] += 1
        lines.show("seeds", done, 100)
    said = capsys.readouterr()
    places = [int(line.split()[1]) for line in said.err.splitlines()]
    assert places == [1, 16, 31, 46, 61, 76, 91, 100]
    assert said.err.splitlines()[-1] == "seeds: 100 of 100 after 100 s"
    assert said.out == ""


def test_without_a_terminal_there_are_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with console.steps() as steps:
        steps.show("Spark", 0, 2)
        steps.show("Spark", 2, 2)
    assert capsys.readouterr().err.splitlines() == ["Spark: 0 of 2 after 0 s", "Spark: 2 of 2 after 0 s"]
