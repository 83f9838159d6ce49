"""Faults of one process, caused inside it wherever it runs: it is killed, or stands still until its lease is over.

Rule: a process that stands still cannot end that itself, and whoever asked for it may be dead by then. So it starts a
child first, which stops it and lets it go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...actors.host.host import BrokerHost

_CHILD: Final = """
import os, signal, sys, time
parent, seconds = int(sys.argv[1]), float(sys.argv[2])
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.getppid() == parent:
    os.kill(parent, signal.SIGSTOP)
    time.sleep(seconds)
    if os.getppid() == parent:
        os.kill(parent, signal.SIGCONT)
"""
"""A process that has died, and whose number another process may have since, is no parent of the child any more."""


@dataclass(frozen=True, slots=True)
class PauseProcess:
    """The process of a host stands still for so many seconds when this is called with the host."""

    seconds: float

    def __call__(self, host: BrokerHost) -> None:
        """Start the child that does it."""
        nothing = subprocess.DEVNULL
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD, str(os.getpid()), str(self.seconds)],
            stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KillProcess:
    """The process of a host ends as by SIGKILL when this is called with the host: none of its code sees it."""

    def __call__(self, host: BrokerHost) -> None:
        """Kill the process."""
        os.kill(os.getpid(), signal.SIGKILL)


__all__ = ["KillProcess", "PauseProcess"]
