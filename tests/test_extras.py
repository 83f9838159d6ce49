"""The base package works without its extras; a feature that needs an extra names it and how to install it."""

import importlib.util
import json
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from rayvous.protocol import extras
from rayvous.protocol.errors import MissingExtra

BLOCK = """
    import sys

    class Blocker:
        names = NAMES

        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in self.names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
"""

BASE = """
    import rayvous as rv

    for name in rv.__all__:
        getattr(rv, name)
    simulation = rv.Simulation(rv.ClusterTree(2, 2).positions())
    number = simulation.subscribe("alice", 0, "price > 10")
    simulation.run_until_installed("alice", number)
    simulation.publish("bob", 3, [{"price": 12}, {"price": 8}])
    simulation.run()
    print(simulation.notifications("alice"))
"""

NAMED = """
    from rayvous.protocol.errors import MissingExtra

    def said(work):
        try:
            work()
        except MissingExtra as error:
            print(error)

    def report():
        import rayvous as rv
        rv.report("nowhere", "out")

    def figures():
        import rayvous.experiments.hypercube.pictures

    def session():
        from rayvous.pipelines.spark.session import spark_session
        with spark_session("none"):
            pass

    def flights():
        from rayvous.cli.inputs import flights
        flights(1)

    for work in (report, figures, session, flights):
        said(work)
"""

COMMAND = """
    sys.argv = ["rayvous", *WORDS]
    main()
"""

CHILDREN = """
    import json, os, tempfile, textwrap, traceback

    from rayvous.cli import main

    def run(words, code):
        '''Run code in a process of its own, which has imported what every command imports.'''
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                status = 1
                try:
                    exec(textwrap.dedent(code), {"WORDS": words, "main": main, "sys": sys})
                    status = 0
                except SystemExit as end:
                    status = end.code
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(status)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            return status, out.read().decode(), err.read().decode()

    print(json.dumps([run(words, code) for words, code in PIECES]))
"""

ALL = {module for modules in extras.EXTRAS.values() for module in modules}
SCENARIO = Path(__file__).resolve().parent.parent / "examples/scenarios/small.json"
COMMAND_LINES: dict[str, tuple[int, str]] = {
    "selector a>1": (0, ""),
    "run SCENARIO": (0, ""),
    "demo": (2, "rayvous: pyspark is not installed: pip install 'rayvous[spark]'; or give --no-spark\n"),
    "gateway flights": (2, "rayvous[gateway]"),
    "demo --no-spark": (2, "rayvous[demo]"),
    "experiment hypercube-load": (2, "rayvous[spark]"),
}


@pytest.fixture(scope="module")
def answered() -> dict[str, tuple[int, str, str]]:
    """Return (status, standard output, standard error) of each; importing takes a second, so they share that.

    The modules of extras cannot be imported there.
    """
    pieces = {"base": ([], BASE), "named": ([], NAMED)}
    pieces |= {
        line: ([word.replace("SCENARIO", str(SCENARIO)) for word in line.split()], COMMAND)
        for line in COMMAND_LINES
    }
    script = f"NAMES, PIECES = {ALL!r}, {[*pieces.values()]!r}\n"
    script += textwrap.dedent(BLOCK) + textwrap.dedent(CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(pieces, json.loads(done.stdout), strict=True))


@pytest.mark.slow
def test_the_base_does_without_its_extras(answered: dict[str, tuple[int, str, str]]) -> None:
    status, out, err = answered["base"]
    assert status == 0, err
    assert out == "[('bob', 1)]\n"


@pytest.mark.slow
def test_what_needs_an_extra_names_it(answered: dict[str, tuple[int, str, str]]) -> None:
    status, out, err = answered["named"]
    assert status == 0, err
    report, figures, session, flights = out.splitlines()
    assert report.endswith("is not installed: pip install 'rayvous[spark]'")
    assert figures == "matplotlib is not installed: pip install 'rayvous[plots]'"
    assert session == "pyspark is not installed: pip install 'rayvous[spark]'"
    assert flights.endswith("is not installed: pip install 'rayvous[demo]'; or give --events FILE")


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMAND_LINES)
def test_the_command_line_without_extras(answered: dict[str, tuple[int, str, str]], line: str) -> None:
    wanted, said = COMMAND_LINES[line]
    status, _, err = answered[line]
    assert status == wanted, err
    assert said in err
    assert err.count("\n") == (wanted != 0)


def test_a_module_of_no_extra_stays_an_error_of_ours() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), extras.extra("spark"):
        import no_such_module  # noqa: F401


def test_what_is_installed_is_not_missing() -> None:
    for name in extras.EXTRAS:
        extras.require(name)


def test_what_is_missing_is_said_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extras, "find_spec", lambda name: None if name == "raydp" else importlib.util.find_spec(name)
    )
    with pytest.raises(MissingExtra, match=r"raydp is not installed: pip install 'rayvous\[spark\]'"):
        extras.require("spark")
    extras.require("plots")


def test_the_extras_are_those_of_the_project_file() -> None:
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    declared = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
    packages = {"pkg_resources": "setuptools", "psycopg_pool": "psycopg"}
    for name, modules in extras.EXTRAS.items():
        for module in modules:
            wanted = packages.get(module, module)
            assert any(line.startswith(wanted) for line in declared[name]), f"{name} does not bring {module}"
