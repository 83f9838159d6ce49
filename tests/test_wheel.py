"""A wheel contains the compiled kernel if there is a compiler; otherwise it installs and works without it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MATCH = """
import rayvous
from rayvous.protocol.batch import batch_of
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.matching.index import MatchIndex
index = MatchIndex()
index.insert_many([to_filter(f"x > {n} AND w = 'a'") for n in range(100)])
assert len(index.match(batch_of([{"x": 9.5, "w": "a"}])).rows) == 10
print(rayvous.__file__, index.kernel)
"""

pytestmark = pytest.mark.slow


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(("compiler", "kernel"), [("", "native"), ("no-such-compiler", "numpy")])
def test_a_wheel_is_built_installed_and_used(tmp_path: Path, compiler: str, kernel: str) -> None:
    if kernel == "native" and not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("there is no C compiler")
    source, target = tmp_path / "source", tmp_path / "installed"
    kept = shutil.ignore_patterns(
        ".*", "out", "build", "tests", "docs", "examples", "*.so", "*.egg-info", "__pycache__"
    )
    shutil.copytree(ROOT, source, ignore=kept)
    told = {"CC": compiler, "LDSHARED": compiler} if compiler else {}
    build = "from setuptools import setup; setup()"
    run([sys.executable, "-c", build, "-q", "bdist_wheel", "--dist-dir", str(tmp_path)], source, **told)
    (wheel,) = tmp_path.glob("*.whl")
    assert "cp311-abi3" in wheel.name
    install = ["install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    run([sys.executable, "-m", "pip", *install], tmp_path)
    assert bool(list(target.glob("rayvous/routing/matching/_kernel*.so"))) == (kernel == "native")
    used = run([sys.executable, "-c", MATCH], tmp_path, PYTHONPATH=str(target), RAYVOUS_KERNEL="")
    file, name = used.stdout.split()
    assert Path(file).is_relative_to(target) and name == kernel
    assert ("the match index runs on numpy" in used.stderr) == (kernel == "numpy")
