"""Text of users is printed literally, and progress is printed as lines where there is no terminal."""

import json
import re
from pathlib import Path

import pytest
from rayvous.cli import console
from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text
from rich.tree import Tree


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


def test_doubts_and_hints_are_shown(rayvous) -> None:
    status, out, _ = rayvous("selector", 'country = "UK"')
    assert (
        status == 0 and "doubts       country = UK compares two attributes: a string is written 'UK'\n" in out
    )
    status, out, _ = rayvous(
        "selector", 'country = "UK"', "--json", "--advertised", "country = 'FR' AND UK = 1"
    )
    assert status == 0 and json.loads(out)["doubts"] == []
    assert "doubts" not in rayvous("selector", "country = 'UK'")[1]
    status, _, err = rayvous("selector", "a > 10 -- 5")
    assert status == 2 and "-- begins a comment in SQL" in err


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


HOSTILE = "\x1b]0;owned\x07\x1b[2Jab\u202ecd\r\nverdict: holds\ud800"
SHOWN = r"\x1b]0;owned\x07\x1b[2Jab\u202ecd\r\nverdict: holds\ud800"


def wide(*, terminal: bool = False) -> console.SafeConsole:
    return console.SafeConsole(
        width=200, force_terminal=terminal, color_system="standard" if terminal else None
    )


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "renderable",
    [
        Text(HOSTILE),
        HOSTILE,
        Group(Text(HOSTILE, style="red")),
        Tree(HOSTILE),
        Panel(Text(HOSTILE)),
        Padding(HOSTILE, 1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nothing_that_is_printed_controls_a_terminal(renderable, *, terminal: bool) -> None:
    """Whatever a verb prints, and however: only the styles of the program reach the terminal."""
    made = wide(terminal=terminal)
    with made.capture() as capture:
        made.print(renderable)
    said = re.sub(r"\x1b\[[0-9;]*m", "", capture.get()) if terminal else capture.get()
    assert said.replace("\n", "").isprintable() and r"\x1b[2Jab\u202ecd" in said


def test_a_line_of_others_stays_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    made = wide()
    with made.capture() as capture:
        made.print(f"  ! {HOSTILE}", markup=False)
        made.print(console.cell(HOSTILE))
    assert capture.get().splitlines() == [f"  ! {SHOWN}", SHOWN]
    console.print_table(HOSTILE, {HOSTILE: HOSTILE})
    console.print_columns(HOSTILE, [HOSTILE, "n"], [[HOSTILE, "1"]])
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable() and "verdict: holds" not in said.splitlines()


def test_every_verb_prints_through_one_console() -> None:
    """A console, a text, or a write of its own would let control characters of others through."""
    folder = Path(console.__file__).parent
    made = re.compile(r"\bConsole\(|\bText\(|\bprint\((?!\))|sys\.std(out|err)\.write|\.file\.write\(")
    found = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in sorted(folder.rglob("*.py"))
        if path.name != "console.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if made.search(line) and "console.out.print(" not in line and "console.err.print(" not in line
    ]
    assert (
        found
        == [
            'verbs/clients.py: console.out.file.write("".join(f"{line_of(note)}\\n" for note in notes))',  # event_lines
            'verbs/gateway.py: console.out.file.write("\\n".join(["", *lines]) + "\\n")',  # JSON strings, checked names
        ]
    ), "use console.out.print(..., markup=False), console.cell or print_table"


def test_errors_about_what_others_wrote_are_one_line(rayvous) -> None:
    status, _, err = rayvous("selector", "a = 'x' AND \x1b[2J\u202e\x9b")
    assert status == 2 and err.count("\n") == 1 and err.strip().isprintable()
    status, out, _ = rayvous("selector", "a = '\x1b[2J\u202e'")
    assert status == 0 and out.replace("\n", "").isprintable() and r"\x1b[2J\u202e" in out
    status, _, err = rayvous("audit", "no\x1b[2J\nfolder", "--no-spark")
    assert status == 2 and err.count("\n") == 1 and err.strip().isprintable()


def test_names_of_others_are_printed_by_no_verb_as_they_are(rayvous, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "\x1b[2J\x9b31m\u202e"
    scenario = {
        "name": f"{evil}\nverdict: holds",
        "topology": {"clusters": 1, "brokers_per_cluster": 2},
        "workload": {"subscribers": 1, "publishers": 1, "publications": 2},
    }
    Path(f"s{evil}.json").write_text(json.dumps(scenario))
    for words in (
        ("run", f"s{evil}.json", "--trace-dir", f"t{evil}"),
        ("audit", f"t{evil}", "--no-spark"),
        ("chaos", "--seed", "2", "--brokers", "4", "--trace-dir", f"c{evil}"),
        ("selector", f"a = '{evil}'", "--covers", f'"{evil}" > 1'),
        (f"no{evil}",),
        ("run", f"no{evil}.json"),
    ):
        _, out, err = rayvous(*words)
        assert (out + err).replace("\n", "").isprintable(), words
        assert r"\x1b[2J" in out + err, words
