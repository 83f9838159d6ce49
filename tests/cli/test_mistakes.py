"""Mistakes on the command line: one line on standard error, status 2, and nothing started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = "import sys; from rayvous.cli import main; sys.argv[0] = 'rayvous'; main()"


def rayvous(*words: str, cwd: Path, code: str = RUN) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "-c", code, *words]
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(script, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "No such option: --nope: see rayvous --help"),
        (["demo", "--nope"], "see rayvous demo --help"),
        (["fly"], "No such command 'fly': see rayvous --help"),
        (["--verbose"], "Missing command: see rayvous --help"),
        (["run"], "see rayvous run --help"),
        (["demo", "--limit", "many"], "--limit"),
        (
            ["demo", "--limit", "999999999999999999999"],
            "--limit 999999999999999999999: it must be at most 10,000,000",
        ),
        (["demo", "--out", "/proc/x", "--no-spark"], "--out /proc/x: "),
        (["demo", "--clusters", "5000", "--brokers-per-cluster", "5000"], "at most 1,000,000 brokers"),
        (["chaos", "--seeds", "9999999"], "--seeds 9999999: it must be at most 1,000,000"),
        (["bench", "matching", "--filters", "10", "--filters", "10000000000"], "at most 100,000,000"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = rayvous(*words, cwd=tmp_path)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert done.stderr.startswith("rayvous: ") and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["bench"], ["experiment"], ["--help"], ["demo", "--help"]])
def test_help_is_shown_whole(tmp_path: Path, words: list[str]) -> None:
    done = rayvous(*words, cwd=tmp_path)
    assert "Usage: " in done.stdout and "--help" in done.stdout
    assert done.stderr == ""


NOISE = """
import os, sys, warnings
from rayvous.cli import app, console
from rayvous.protocol.errors import InputError

def noisy(text, covers):
    print("(raylet) a worker died")
    os.write(1, b"from Java\\n")
    os.write(2, b"from C++\\n")
    warnings.warn("in future versions", FutureWarning)
    console.err.print("of ours")
    {last}
    return {{"done": 1}}

import rayvous.cli.selectors as selectors
selectors.describe_selector = noisy
sys.argv[0] = "rayvous"
app.main()
"""
HEARD = ["(raylet) a worker died", "from Java", "from C++", "in future versions"]


def test_what_ray_and_java_say_is_heard_only_when_asked_for(tmp_path: Path) -> None:
    code = NOISE.format(last="pass")
    quiet = rayvous("selector", "a = 1", "--json", cwd=tmp_path, code=code)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, '{"done": 1}\n', "of ours\n")
    loud = rayvous("--verbose", "selector", "a = 1", "--json", cwd=tmp_path, code=code)
    assert (loud.returncode, loud.stdout) == (0, '{"done": 1}\n')
    assert [line for line in (*HEARD, "of ours") if line not in loud.stderr] == []


@pytest.mark.parametrize(
    ("last", "status", "said"),
    [
        ("raise InputError('it is wrong')", 2, "rayvous: it is wrong"),
        ("raise KeyError('a bug')", 1, "KeyError: 'a bug'"),
        ("os.abort()", -6, "Fatal Python error: Aborted"),
    ],
)
def test_errors_are_heard_all_the_same(tmp_path: Path, last: str, status: int, said: str) -> None:
    done = rayvous("selector", "a = 1", cwd=tmp_path, code=NOISE.format(last=last))
    assert done.returncode == status
    assert said in done.stderr
    assert not any(line in done.stderr for line in HEARD)
