"""A Ray of this machine that outlives the process that starts it, for networks that are operated from a shell.

Rules
-----
* It is started only when there is no Ray to join, and it records who started it: no other Ray is ever ended.
* It ends with the last network on it. All of its processes have its session name in their command lines; they
  are found by that name, and no process of another Ray matches.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Final

import psutil
import ray
from ray._common.utils import reset_ray_address
from ray._private import services, worker

from ...protocol.errors import RayUnavailable
from .launching import init_ray, prepare_workers
from .store import RayStore

START_SECONDS: Final = 120.0
END_SECONDS: Final = 3.0
"""How long its processes may take to end by themselves."""
_STARTED_HERE: Final = "started-here"
_SESSION: Final = "session"
_START: Final = (
    "start", "--head", "--port", "0", "--include-dashboard", "false", "--disable-usage-stats", "--log-color", "false",
)  # fmt: skip


def start_lasting_ray() -> None:
    """Start a Ray on this machine, join it, and record in it that it was started here.

    Raises
    ------
    RayUnavailable
        If it does not start; the message has the last output of ``ray start``.
    """
    prepare_workers()
    command = [sys.executable, "-m", "ray.scripts.scripts", *_START]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RayUnavailable(f"`ray {' '.join(_START)}` has not ended within {START_SECONDS:g} s") from None
    if done.returncode:
        raise RayUnavailable(f"`ray {' '.join(_START)}` failed: {_reason(done.stderr or done.stdout)}")
    init_ray("auto")
    RayStore(_STARTED_HERE).put(_SESSION, _session())


def _reason(printed: str) -> str:
    """Return the end of what a program printed on one line; of a traceback the error alone."""
    lines = printed.split("\n")
    if any(line.startswith("Traceback (") for line in lines):
        lines = [line for line in lines if line.strip()][-1:]
    return " ".join(" ".join(lines).split())[-300:]


def end_lasting_ray() -> bool:
    """End the Ray that this process has joined if `start_lasting_ray` started it; return whether it did.

    This process leaves that Ray first, in either case.
    """
    name = RayStore(_STARTED_HERE).get(_SESSION)
    address = ray.get_runtime_context().gcs_address
    ray.shutdown()
    if name is None:
        return False
    if services.canonicalize_bootstrap_address(None) == address:
        reset_ray_address()  # Ray's record of the Ray started last
    found = [
        one
        for one in psutil.process_iter(["cmdline"])
        if any(name in part for part in one.info["cmdline"] or ())
    ]
    for one in found:
        with suppress(psutil.NoSuchProcess):
            one.terminate()
    for one in psutil.wait_procs(found, timeout=END_SECONDS)[1]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(found, timeout=END_SECONDS)
    return True


def _session() -> str:
    node = worker._global_node  # Ray has no public API for it
    assert node is not None
    return str(node.session_name)
