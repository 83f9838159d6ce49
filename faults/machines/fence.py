"""Starts a command among a few hosts of its own on this machine, and explains if that is impossible.

Rules
-----
* The command runs in namespaces that end with it, and it ends with this process, also by SIGKILL of either. In that
  case `setpriv` has the kernel kill `unshare`, and `unshare` the first process inside. Its end is the end of all
  processes inside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

from ...protocol.errors import HostsUnavailable
from .layout import Layout, Words

FENCE: Final[Words] = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child=KILL", "--mount-proc", "--",
)  # fmt: skip

TOOLS: Final = {
    "ip": "iproute2", "tc": "iproute2",
    "setpriv": "util-linux", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount",
}  # fmt: skip
"""The required programs, and their packages."""

TRIAL: Final = (
    "ip link add trial-1 type veth peer name trial-2"
    " && tc qdisc add dev trial-1 root tbf rate 1mbit burst 32kb latency 50ms"
)
"""Tests whether the kernel allows making and shaping links."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why there can be no hosts on this machine, and the command that helps, if there is one."""

    said: str
    todo: str = ""


def hindrance(
    is_root: bool | None = None,
    which: Callable[[str], str | None] = shutil.which,
    trial: Callable[[], str] | None = None,
) -> Hindrance | None:
    """Return why there can be no hosts on this machine; None if there can be.

    Parameters
    ----------
    is_root
        Whether this process runs as root; None checks.
    which
        Finds a program.
    trial
        Makes and shapes a link inside; returns the error, or an empty string.
    """
    if not sys.platform.startswith("linux"):
        return Hindrance(f"network namespaces are Linux's, and this is {sys.platform}")
    missing = {program: package for program, package in TOOLS.items() if which(program) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        return Hindrance(f"there is no {', '.join(missing)}", f"apt-get install {packages}")
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return Hindrance("only root may make network namespaces", f"sudo {' '.join(sys.argv)}")
    wrong = (trial or _tried)()
    return Hindrance(f"this kernel does not let us make and shape links: {wrong}") if wrong else None


def why_not() -> str | None:
    """Return `hindrance` in one line."""
    found = hindrance()
    return None if found is None else ": ".join(filter(None, (found.said, found.todo)))


def _tried() -> str:
    done = subprocess.run([*FENCE, "sh", "-c", TRIAL], capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split()) if done.returncode else ""


def run_among_hosts(
    layout: Layout, command: Sequence[str], out: IO[str] | None = None, err: IO[str] | None = None
) -> int:
    """Run a command on the first of a few hosts, each with a Ray node; return its exit status.

    Inside, RAY_ADDRESS names the cluster.

    Parameters
    ----------
    layout, command
        The hosts, and the command.
    out, err
        Where its standard output and error go; None for those of this process.

    Raises
    ------
    HostsUnavailable
        If there can be no hosts on this machine.
    """
    reason = why_not()
    if reason is not None:
        raise HostsUnavailable(reason)
    return subprocess.run(words_of(layout, command), stdout=out, stderr=err, check=False).returncode


def words_of(layout: Layout, command: Sequence[str]) -> list[str]:
    """Return the whole command that `run_among_hosts` runs."""
    return [
        *FENCE,
        sys.executable,
        "-m",
        "rayvous.faults.machines.init",
        layout.validate().to_json(),
        *command,
    ]
