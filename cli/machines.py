"""Run a verb again, with the same arguments, on several hosts created on this machine."""

from __future__ import annotations

import sys

from ..faults.machines.fence import run_among_hosts
from ..faults.machines.layout import Layout
from . import console

SAME_VERB = "from rayvous.cli import main; main()"


def again_among_hosts(layout: Layout) -> int:
    """Run this command again on the first of several hosts, and return its exit status.

    Raises
    ------
    HostsUnavailable
        If hosts cannot be created on this machine.
    """
    command = [sys.executable, "-c", SAME_VERB, *sys.argv[1:]]
    return run_among_hosts(layout, command, out=console.out.file, err=console.err.file)
