"""Mistakes on the command line: one line on standard error, status 2, and nothing started."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rayvous.actors.network import launching
from rayvous.cli.app import app
from rich.text import Text


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
        (
            ["experiment", "tct", "--preset", "slow", "--out", "x"],
            "--preset slow: it must be small or paper or calibrated or quick",
        ),
        (["experiment", "tct", "--runs", "0"], "--runs"),
        (["chaos", "--seeds", "9999999"], "--seeds 9999999: it must be at most 1,000,000"),
        (["bench", "matching", "--filters", "10", "--filters", "10000000000"], "at most 100,000,000"),
        (
            ["bench", "durability", "--store", "oracle"],
            "--store is 'oracle': it must be one of sqlite, postgresql",
        ),
        (["bench", "durability", "--database", "postgresql://"], "--database is for --store postgresql"),
        (
            ["bench", "durability", "--store", "postgresql", "--database", "/x"],
            "--database: it must be postgresql://user@host",
        ),
        (["restart", "flights"], "restart: give a broker, or --rolling"),
        (["restart", "flights", "3", "--rolling"], "restart: give a broker, or --rolling"),
        (["bench", "scale", "--brokers", "100,15"], "brokers 15: a multiple of 10"),
        (
            ["bench", "scale", "--brokers", "many"],
            "--brokers 'many': it must be comma-separated whole numbers",
        ),
        (["bench", "scale", "--nodes", "0"], "at least 1"),
        (["bench", "recovery", "--kills", "0"], "--kills 0: there must be at least 1"),
        (["bench", "scale", "--heartbeat", "0"], "heartbeat_seconds is 0.0: it must be a number above 0"),
        (["bench", "scale", "--links", "wire"], "links is 'wire': it must be one of direct, ray"),
        (["bench", "soak", "--minutes", "0"], "--minutes is 0.0: it must be a number above 0"),
        (["bench", "peers", "--peers", "kafka"], "--peers is 'kafka': it must be one of activemq"),
        (["bench", "peers", "--gateway-processes", "0"], "--gateway-processes 1, --seconds above 0"),
        (["bench", "distribute", "--hosts", "1"], "--hosts must be at least 2"),
        (["bench", "distribute", "--hosts", "101"], "--hosts 101: it must be at most 100"),
        (["bench", "distribute", "--publisher", "12"], "--publisher 12: brokers are numbered from 0 to 11"),
        (["bench", "distribute", "--mbit", "0"], "megabits_per_second is 0: it must be from 0.1"),
        (["chaos", "--hosts", "3"], "--hosts 3: hosts are for --on ray"),
        (["chaos", "--on", "ray", "--hosts", "1"], "--hosts 1: there must be at least 2"),
        (["chaos", "--on", "ray", "--hosts", "3", "--damage"], "--hosts cannot be combined with --damage"),
        (
            ["chaos", "--on", "ray", "--stable", "--store-dir", "mysql://x"],
            "address: mysql:/... is not a known kind of address",
        ),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rayvous: Callable[..., tuple[int, str, str]],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = rayvous(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.startswith("rayvous: ") and err.count("\n") == 1, err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def wrong_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a faulty file of every kind, and change to its folder."""
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("")
    Path("events.exe").write_text("x")
    Path("broken.jsonl").write_text('{"a": 1}\n{"a": \n')
    Path("broken.parquet").write_text("not parquet")
    Path("wrong.txt").write_text("a = 1\nb >> 2\n")
    crash = {"fault": "crash", "at_seconds": 1, "broker": 999}
    Path("plan.json").write_text(json.dumps({"name": "x", "heal_seconds": 5, "faults": [crash]}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--events", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["demo", "--events", "empty.csv"], "empty.csv: is empty"),
        (["demo", "--events", "events.exe"], ".csv, .jsonl or .parquet"),
        (["demo", "--events", "broken.jsonl"], "broken.jsonl:2: is not JSON"),
        (["demo", "--events", "broken.parquet"], "broken.parquet: cannot be read"),
        (["demo", "--subscriptions", "wrong.txt"], "wrong.txt:2: line 1, column"),
        (["demo", "--clusters", "100", "--degree", "0"], "degree"),
        (["demo", "--clusters", "0"], "clusters"),
        (["demo", "--limit", "0"], "--limit 0"),
        (["demo", "--scheme", "pigeon"], "no routing scheme 'pigeon'"),
        (["demo", "--out", "wrong.txt"], "is a file"),
        (["run", "nowhere.json"], "nowhere.json"),
        (["run", "broken.jsonl"], "line 2"),
        (["run", "wrong.txt", "--on", "moon"], "--on moon"),
        (["selector", "a >"], "line 1, column"),
        (["selector", "a = 1", "--dialect", "sql"], "one of rayvous, jms, cesql"),
        (["up", "--clusters", "0"], "clusters"),
        (["up", "--scheme", "pigeon"], "no routing scheme 'pigeon'"),
        (["up", "--name", ""], "name"),
        (["up", "--name", "two\nlines"], "it must be 1 to 128 printable characters"),
        (["up", "-f", "nowhere.toml"], "rayvous init"),
        (["up", "-f", "wrong.txt"], "wrong.txt"),
        (["up", "-f", "wrong.txt", "--clusters", "3"], "--clusters: set it in the network file"),
        (["up", "-f", "wrong.txt", "--label", "a=b"], "--label: set it in the network file"),
        (["up", "--label", "pool"], "--label pool: write KEY=VALUE, for example pool=brokers"),
        (["up", "--resource", "CPU=1"], "place resources: CPU is no custom resource; use num_cpus"),
        (["init", "wrong.txt"], "already exists"),
        (["subscribe", "flights"], "a selector is missing"),
        (["subscribe", "flights", "a > 1", "--format", "xml"], "--format xml"),
        (["publish", "flights", "nowhere.csv"], "no such file"),
        (["publish", "flights", "events.exe"], ".csv, .jsonl or .parquet"),
        (["remove", "flights"], "--broker, or --cluster"),
        (["bench", "matching", "--filters", "0"], "at least 1"),
        (["demo", "--kill", "moon"], "--kill moon"),
        (["chaos", "--plan", "plan.json"], "there is no broker 999"),
        (["chaos", "--plan", "nowhere.json"], "no such file"),
        (["chaos", "--on", "moon"], "--on moon"),
        (["chaos", "--on", "ray", "--brokers", "3"], "--brokers at least 4 on ray"),
        (["chaos", "--on", "ray", "--plan", "plan.json"], "there is no broker 999"),
        (["chaos", "--trace-dir", "wrong.txt"], "is a file"),
        (["audit", "nowhere"], "no such folder"),
        (["audit", "."], "is not a trace"),
        (["compare", "--schemes", "hybrid,pigeon"], "no routing scheme 'pigeon': there are hybrid"),
        (["compare", "--schemes", "hybrid+turbo"], "hybrid+quench"),
        (["compare", "--matching", "2"], "from 0 to 1"),
        (["compare", "--schemes", "hybrid", "--out", "wrong.txt"], "is a file"),
        (["experiment", "lbdd-delay", "--out", "wrong.txt"], "is a file"),
    ],
)
def test_what_is_wrong_with_the_input_is_one_line(
    wrong_files: None, rayvous: Callable[..., tuple[int, str, str]], words: list[str], said: str
) -> None:
    status, out, err = rayvous(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.startswith("rayvous: ") and err.count("\n") == 1, err


@pytest.mark.parametrize("verb", ["demo", "run", "bench", "compare"])
def test_help_teaches(rayvous: Callable[..., tuple[int, str, str]], verb: str) -> None:
    status, out, _ = rayvous(verb, "--help")
    assert status == 0
    assert "rayvous" in out and len(out) > 300


@pytest.mark.parametrize(("words", "status"), [([], 2), (["bench"], 2), (["experiment"], 2), (["--help"], 0)])
def test_help_is_shown_whole(
    rayvous: Callable[..., tuple[int, str, str]], words: list[str], status: int
) -> None:
    ended, out, err = rayvous(*words)
    assert "Usage: " in out and "--help" in out
    assert (ended, err.strip()) == (status, "")


def of_all_verbs(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield each help text of a command and of its subcommands."""
    texts = (command.help, command.epilog, *(getattr(each, "help", None) for each in command.params))
    yield from ((name, text) for text in texts if text)
    for word, each in getattr(command, "commands", {}).items():
        yield from of_all_verbs(each, f"{name} {word}")


def test_help_shows_what_is_in_brackets(rayvous: Callable[..., tuple[int, str, str]]) -> None:
    texts = list(of_all_verbs(typer.main.get_command(app), "rayvous"))
    assert len({name for name, _ in texts}) > 30
    for name, text in texts:
        shown = Text.from_markup(text).plain
        assert shown == text.replace("\\[", "["), f"{name} --help: write \\[ for what is no markup"
    assert "with [access] and [gateway]" in " ".join(rayvous("gateway", "--help")[1].split())


NOISE = """
import os, sys, warnings
from rayvous.cli import app, console
from rayvous.protocol.errors import InputError

def noisy(text, covers, dialect, advertised):
    print("(raylet) a worker died")
    os.write(1, b"from Java\\n")
    os.write(2, b"from C++\\n")
    warnings.warn("in future versions", FutureWarning)
    console.err.print("of ours")
    {last}
    return {{"done": 1}}

import rayvous.cli.verbs.selectors as selectors
selectors.describe_selector = noisy
sys.argv[0] = "rayvous"
app.main()
"""
HEARD = ["(raylet) a worker died", "from Java", "from C++", "in future versions"]


def noisily(*words: str, last: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run a command that prints as much noise as Ray, in a process of its own."""
    script = [sys.executable, "-c", NOISE.format(last=last), *words]
    return subprocess.run(script, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_ray_and_java_say_is_not_heard() -> None:
    quiet = noisily("selector", "a = 1", "--json")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, '{"done": 1}\n', "of ours\n")


@pytest.mark.slow
def test_what_ray_and_java_say_is_heard_when_asked_for() -> None:
    loud = noisily("--verbose", "selector", "a = 1", "--json")
    assert (loud.returncode, loud.stdout) == (0, '{"done": 1}\n')
    assert [line for line in (*HEARD, "of ours") if line not in loud.stderr] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "status", "said"),
    [
        ("raise InputError('it is wrong')", 2, "rayvous: it is wrong"),
        ("raise KeyError('a bug')", 1, "KeyError: 'a bug'"),
        ("os.abort()", -6, "Fatal Python error: Aborted"),
    ],
)
def test_errors_are_heard_all_the_same(last: str, status: int, said: str) -> None:
    done = noisily("selector", "a = 1", last=last)
    assert done.returncode == status
    assert said in done.stderr
    assert not any(line in done.stderr for line in HEARD)


def test_a_command_runs_where_the_present_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rayvous: Callable[..., tuple[int, str, str]]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, out, _ = rayvous("selector", "a = 1", "--json")
    assert status == 0 and '"normal_form": "a = 1"' in out


@pytest.mark.parametrize(
    "words",
    [
        ["chaos", "--on", "ray"],
        ["demo", "--no-spark"],
        ["run", "examples/scenarios/small.json", "--on", "ray"],
        ["compare", "--on", "ray", "--clusters", "2"],
        ["bench", "dataplane"],
        ["experiment", "admission-on-ray"],
    ],
    ids=" ".join,
)
def test_a_ray_that_does_not_start_is_one_line(
    rayvous: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def init(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr(launching, "_running_ray", lambda: None)
    monkeypatch.setattr(launching.ray, "init", init)
    status, out, err = rayvous(*words, "--json")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        "rayvous: Ray could not be started or joined: The current node timed out"
    )
