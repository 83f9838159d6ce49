"""The base package works without its extras; a feature that needs an extra names it and how to install it."""

import importlib.util
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
    from rayvous.cli import main

    sys.argv = ["rayvous", *WORDS]
    main()
"""


def without(names: set[str], code: str, words: object = ()) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which these modules cannot be imported."""
    script = f"NAMES, WORDS = {names!r}, {words!r}\n" + textwrap.dedent(BLOCK) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


ALL = {module for modules in extras.EXTRAS.values() for module in modules}


def test_the_base_does_without_its_extras() -> None:
    done = without(ALL, BASE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[('bob', 1)]\n"


def test_what_needs_an_extra_names_it() -> None:
    done = without(ALL, NAMED)
    assert done.returncode == 0, done.stderr
    report, figures, session, flights = done.stdout.splitlines()
    assert report.endswith("is not installed: pip install 'rayvous[spark]'")
    assert figures == "matplotlib is not installed: pip install 'rayvous[plots]'"
    assert session == "pyspark is not installed: pip install 'rayvous[spark]'"
    assert flights.endswith("is not installed: pip install 'rayvous[demo]'; or give --events FILE")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["selector", "a > 1"], 0, ""),
        (["run", "SCENARIO"], 0, ""),
        (
            ["demo"],
            2,
            "rayvous: pyspark is not installed: pip install 'rayvous[spark]'; or give --no-spark\n",
        ),
        (["gateway", "flights"], 2, "rayvous[gateway]"),
        (["demo", "--no-spark"], 2, "rayvous[demo]"),
        (["experiment", "hypercube-load"], 2, "rayvous[spark]"),
    ],
)
def test_the_command_line_without_extras(tmp_path: Path, words: list[str], status: int, said: str) -> None:
    root = Path(__file__).resolve().parent.parent
    words = [str(root / "examples/scenarios/small.json") if word == "SCENARIO" else word for word in words]
    done = without(ALL, COMMAND, words=words)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == (status != 0)


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
