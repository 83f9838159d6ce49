"""Checks of programs that features need: Java for Spark, Ray itself, a compiler, network namespaces, a browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...protocol.errors import MissingExtra, RayvousError
from .findings import Finding

RAY_SECONDS: Final = 20.0
"""The time limit for joining and querying the named or local Ray."""


def look_at_ray() -> Iterator[Finding]:
    """Query the Ray that would be joined from here, in a separate process, which can be abandoned."""
    words = [sys.executable, "-m", "rayvous.actors.network.ray_here", str(int(RAY_SECONDS))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGALRM:
        yield from ray_here({"error": f"it does not answer within {RAY_SECONDS:g} s"}, _named())
        return
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        yield from ray_here({"error": " ".join(done.stderr.split())[-200:]}, _named())
        return
    yield from ray_here(json.loads(lines[-1]), _named())


def _named() -> str | None:
    return os.environ.get("RAY_ADDRESS")


def ray_here(seen: Mapping[str, Any], named: str | None) -> Iterator[Finding]:
    """Judge the result of that process: an error, no Ray, or a Ray with nodes."""
    if "error" in seen:
        yield Finding("Ray", "wrong", seen["error"], "unset RAY_ADDRESS" if named else "ray stop")
        return
    if seen["address"] is None:
        yield Finding("Ray", "missing", "none runs here; rayvous up starts one", "rayvous up")
        return
    networks = ", ".join(seen["networks"]) or "none"
    yield Finding(
        "Ray",
        "ok",
        f"{seen['version']} at {seen['address']}: {seen['nodes']} nodes, {seen['cpus']:g} CPUs; networks: {networks}",
    )
    if seen["dashboard"]:
        yield Finding("dashboard", "ok", f"http://{seen['dashboard']}")
    else:
        todo = "ray start --head --include-dashboard true"
        yield Finding(
            "dashboard", "missing", "this Ray was started without; so there is no ray list actors", todo
        )


def look_at_java() -> Iterator[Finding]:
    """Check the Java that Spark would use."""
    from ...actors.network.java import JAVA_HOME_VARIABLE, java_home, java_major

    try:
        home = java_home()
    except MissingExtra:
        yield Finding("Java", "missing", "none; Spark runs on it", "pip install 'rayvous[spark]'")
    except RayvousError as error:
        yield Finding("Java", "missing", str(error), f"unset {JAVA_HOME_VARIABLE}")
    else:
        yield java(java_major(str(home / "bin" / "java")), str(home), JAVA_HOME_VARIABLE in os.environ)


def java(major: int, home: str, named: bool) -> Finding:
    """Judge a version of Java; `named` says whether the user chose it."""
    from ...actors.network.java import JAVA_HOME_VARIABLE, JAVA_MAJORS

    if major in JAVA_MAJORS:
        return Finding("Java", "ok", f"{major}, in {home}")
    found = f"Java {major}" if major else "what says no version"
    runs = ", ".join(map(str, JAVA_MAJORS))
    todo = f"unset {JAVA_HOME_VARIABLE}" if named else "pip install --force-reinstall 'rayvous[spark]'"
    return Finding("Java", "missing", f"{found} in {home}; Spark runs on {runs}", todo)


def look_at_compiler() -> Iterator[Finding]:
    """Check for a C compiler."""
    yield compiler(next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None))


def compiler(path: str | None) -> Finding:
    """Judge the C compiler by its path."""
    if path is not None:
        return Finding("compiler", "ok", path)
    said = "none; pip wants one where a package has no wheel for this machine"
    return Finding("compiler", "missing", said, "sudo apt-get install build-essential")


def look_at_index() -> Iterator[Finding]:
    """Check which kernel the match index uses."""
    from ...routing.matching.kernels import KERNEL, instructions

    yield index(KERNEL, instructions())


def index(kernel: str, instructions: str) -> Finding:
    """Judge the kernel of the match index by its name and, if the compiled one was built, its instruction set."""
    if kernel == "native":
        return Finding("match index", "ok", f"compiled kernel, {instructions}")
    if instructions:
        return Finding("match index", "ok", "numpy, chosen by RAYVOUS_KERNEL; the compiled kernel is there")
    said = "numpy; the compiled kernel, several times as fast, was not built"
    return Finding("match index", "missing", said, "pip install --force-reinstall --no-deps rayvous")


def look_at_kernel() -> Iterator[Finding]:
    """Check whether hosts with separate links can be created here, as --hosts does: namespaces, and tc."""
    from ...faults.machines.fence import hindrance

    why = hindrance()
    if why is None:
        yield Finding("kernel", "ok", "makes network namespaces, and shapes links with tc")
    else:
        yield Finding("kernel", "missing", f"{why.said}; --hosts needs it", why.todo)


def look_at_browser() -> Iterator[Finding]:
    """Check for the browser in which tests open reports."""
    yield browser(shutil.which("chromium") or shutil.which("chromium-browser"))


def browser(path: str | None) -> Finding:
    """Judge Chromium by its path."""
    if path is not None:
        return Finding("Chromium", "ok", path)
    return Finding("Chromium", "missing", "none; tests of pages are skipped", "sudo apt-get install chromium")
