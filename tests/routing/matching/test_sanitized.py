"""The compiled kernel accesses only its own memory: its tests run again with the compiler's sanitizers."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SANITIZERS = "-fsanitize=address,undefined"
RUNTIMES = ("libasan.so", "libubsan.so")

pytestmark = pytest.mark.slow


def runtimes(compiler: str) -> list[str]:
    """Return the sanitizer libraries, which must be loaded before Python; an empty list if there are none."""
    asked = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in RUNTIMES
    ]
    found = [each.stdout.strip() for each in asked]
    return found if all(Path(each).is_absolute() for each in found) else []


def test_the_kernel_keeps_to_its_memory_and_to_what_c_defines(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    before = runtimes(compiler) if compiler else []
    if compiler is None or not before:
        pytest.skip("there is no gcc with sanitizers: apt-get install gcc")
    package = tmp_path / "rayvous"
    kept = shutil.ignore_patterns(".*", "out", "build", "docs", "examples", "*.so", "*.egg-info")
    shutil.copytree(ROOT, package, ignore=kept)
    folder = package / "routing" / "matching"
    build = [compiler, "-shared", "-fPIC", "-O1", "-g", SANITIZERS, "-fno-sanitize-recover=undefined"]
    build += [f"-I{sysconfig.get_path('include')}", str(folder / "kernel.c"), "-lm"]
    subprocess.run([*build, "-o", str(folder / "_kernel.abi3.so")], check=True)
    told = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "LD_PRELOAD": " ".join(before),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps some memory until the process ends
        "RAYVOUS_KERNEL": "native",
    }
    tests = package / "tests" / "routing" / "matching" / "test_kernels.py"
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        str(tests),
    ]
    done = subprocess.run(line, cwd=package, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
