"""The first process inside the namespaces: makes the hosts, starts their Ray nodes, and runs a command on host 0.

``python -m rayvous.faults.machines.init LAYOUT COMMAND...``, started by `fence`. It ends when the command does, and
with it all processes here, all namespaces and links.

Rules
-----
* Ray's usual folders and the names of namespaces are replaced by folders in memory that only processes here see. No
  other Ray on the machine finds this one, and this one finds no other.
* This Ray has its own token, generated here, by which its nodes recognise each other.
* Like the first process of any machine, it reaps the processes whose parent is gone. A process that is not reaped
  keeps its id, and whoever checks for the id takes it to be alive: Ray's workers do so with their raylet.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .layout import RAY_FOLDER, Layout, Words
from .links import LAYOUT_VARIABLE

PRIVATE: Final = ("/run/netns", RAY_FOLDER)
"""Folders that are replaced by empty ones inside."""

START_SECONDS: Final = 180.0
FAILED: Final = 70
"""Exit status if the hosts could not be made: EX_SOFTWARE."""


def main(words: Sequence[str]) -> int:
    """Make the hosts and run the command; return its exit status."""
    layout, command = Layout.from_json(words[0]), tuple(words[1:])
    began = time.monotonic()

    def say(what: str) -> None:
        sys.stderr.write(f"{what} after {time.monotonic() - began:,.0f} s\n")
        sys.stderr.flush()

    try:
        make_hosts(layout)
        say(f"hosts: {layout.hosts} on one switch")
        _start_ray(layout)
        say(f"hosts: {layout.hosts} Ray nodes")
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"hosts: {error}\n")
        return FAILED
    os.environ |= {"RAY_ADDRESS": layout.ray_address, LAYOUT_VARIABLE: layout.to_json()}
    return run(layout.inside(0, command))


def make_hosts(layout: Layout) -> None:
    """Mount the private folders, and make the switch and all hosts."""
    for folder in PRIVATE:
        Path(folder).mkdir(parents=True, exist_ok=True)
        done(("mount", "-t", "tmpfs", "tmpfs", folder))
    for step in layout.building():
        done(step)


def _start_ray(layout: Layout) -> None:
    """Start the head, then the other nodes, as many in parallel as there are processors."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    done(layout.ray_start(0, sys.executable))
    with ThreadPoolExecutor(os.cpu_count()) as several:
        others = range(1, layout.hosts)
        list(several.map(lambda host: done(layout.ray_start(host, sys.executable)), others))


def run(words: Words) -> int:
    """Run a command, reaping every process that ends meanwhile; return its exit status."""
    command = os.posix_spawnp(words[0], words, os.environ)
    while True:
        process, status = os.wait()
        if process == command:
            return os.waitstatus_to_exitcode(status)


def done(words: Words) -> None:
    """Run a command to its end; an error has its output."""
    with tempfile.TemporaryFile() as said:  # no pipe: what `ray start` leaves running would keep it open
        try:
            subprocess.run(words, stdout=said, stderr=said, timeout=START_SECONDS, check=True)
        except subprocess.CalledProcessError as error:
            said.seek(0)
            text = said.read().decode(errors="replace")
            raise subprocess.SubprocessError(
                f"{' '.join(words)}: status {error.returncode}\n{text}"
            ) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
