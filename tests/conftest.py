"""What all tests share: the flag that rewrites golden traces, and a fence around the fast suite."""

import gc
import os
import shlex
import socket
import sys
import tempfile
import time
from pathlib import Path

import pytest
import ray
from hypothesis import settings
from rayvous.actors.network.java import prepare_java
from rayvous.cli import console, main

HEAVY = ("on_ray", "on_spark")

# The same examples in every run, so that a run that passes passes again; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite", action="store_true", help="write the golden traces anew from what happens now"
    )


def pytest_collection_finish(session):
    """Leave what has been imported and collected out of every later look for garbage: a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _folder_of_ray():
    """Let no Ray of this run find another one of this machine, nor be found: two runs may go beside each other.

    Where ``RAY_TMPDIR`` says, if it is set: there Ray's own logs are to be found afterwards.
    """
    if "RAY_TMPDIR" in os.environ:
        yield
        return
    # Short: the path of a socket may have 107 characters.
    own = tempfile.TemporaryDirectory(prefix="rv", ignore_cleanup_errors=True)
    with pytest.MonkeyPatch.context() as patch, own as folder:
        patch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="session")
def ray_started(_folder_of_ray):
    """One Ray for the whole run, started with Java in its environment, so that Spark can run on it too."""
    prepare_java()
    ray.init(
        num_cpus=4,
        namespace="rayvous",
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        _system_config={"metrics_report_interval_ms": 1_000},
    )
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _fence(request, monkeypatch):
    """Make whatever is slow, or differs from run to run, raise in the fast tests."""
    if not any(folder in Path(request.node.path).parts for folder in HEAVY):
        for owner, name in ((ray, "init"), (socket.socket, "connect"), (time, "sleep")):
            monkeypatch.setattr(owner, name, _refuse(name))


def _refuse(name):
    def refuse(*args, **kwargs):
        raise AssertionError(f"a fast test called {name}: it belongs into tests/on_ray or tests/on_spark")

    return refuse


# The command line.


class Here:
    """Runs the command line in this process; its standard output stays what it is."""

    def __init__(self, capsys, monkeypatch):
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setattr(console, "keep_results_apart", lambda verbose: None)

    def __call__(self, *words):
        self._monkeypatch.setattr(sys, "argv", ["rayvous", *words])
        with pytest.raises(SystemExit) as end:
            main()
        assert isinstance(end.value.code, int)
        return end.value.code, *self._capsys.readouterr()


@pytest.fixture
def rayvous(capsys, monkeypatch):
    return Here(capsys, monkeypatch)


# Golden stories: blocks of a command, `----` and what came of it.


def _blocks(text):
    """Yield (heading for people, command, input lines, expected output lines)."""
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        people = [line for line in lines if line.startswith("#")]
        rest = [line for line in lines if not line.startswith("#")]
        if not rest:
            yield people, None, [], []
            continue
        cut = rest.index("----")
        yield people, rest[0], rest[1:cut], rest[cut + 1 :]


def _replay(story, text):
    out, wrong = [], []
    for people, command, given, expected in _blocks(text):
        if command is None:
            out.append("\n".join(people))
            continue
        word, *arguments = shlex.split(command)
        actual = getattr(story, word)(*arguments, lines=given)
        if actual != expected:
            wrong.append((command, expected, actual))
        out.append("\n".join([*people, command, *given, "----", *actual]))
    return "\n\n".join(out) + "\n", wrong


@pytest.fixture
def replay():
    """``replay(story, text)``: the text as it is told now, and (command, expected, actual) where that differs."""
    return _replay


@pytest.fixture
def golden(request):
    """``golden(story, path)``: assert that the file is what is told now, or write it anew with ``--rewrite``."""

    def check(story, path):
        text, wrong = _replay(story, path.read_text(encoding="utf-8"))
        if request.config.getoption("--rewrite"):
            path.write_text(text, encoding="utf-8")
            return
        for command, expected, actual in wrong:
            assert actual == expected, command
        assert text == path.read_text(encoding="utf-8"), "the layout differs: run pytest --rewrite"

    return check
