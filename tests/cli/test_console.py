"""Text of users is printed literally, and progress is printed as lines where there is no terminal."""

import json
from pathlib import Path

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


@pytest.mark.parametrize(
    ("selector", "normal_form"),
    [
        ("sym = '[/x]'", "sym = '[/x]'"),
        ("tag IN ('[red]', 'b')", "tag IN ('[red]', 'b')"),
        ("mood = ':smile:'", "mood = ':smile:'"),
    ],
)
def test_what_users_write_is_no_markup(rayvous, selector: str, normal_form: str) -> None:
    status, out, err = rayvous("selector", selector)
    assert (status, err) == (0, "")
    assert f"normal_form  {normal_form}\n" in out


def test_names_and_folders_are_no_markup(rayvous, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = {
        "name": "[/x] y",
        "topology": {"clusters": 1, "brokers_per_cluster": 2},
        "workload": {"subscribers": 1, "publishers": 1, "publications": 2},
    }
    Path("[b]s.json").write_text(json.dumps(scenario))
    status, out, err = rayvous("run", "[b]s.json", "--trace-dir", "tr[red]")
    assert status == 0, err
    assert out.split()[:3] == ["rayvous", "run", "[b]s.json"]
    assert "scenario                    [/x] y" in out and "tr[red]" in out
    assert "tr[red]" in rayvous("audit", "tr[red]", "--no-spark")[1]
    assert "c[red]\n" in rayvous("chaos", "--seed", "2", "--brokers", "4", "--trace-dir", "c[red]")[1]


def test_names_above_columns_and_in_them_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_columns("on [b]", ["[i]", "n"], [["[/x]", "1"]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["on", "[b]"],
        ["[i]", "n"],
        ["[/x]", "1"],
    ]
