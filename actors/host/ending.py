"""How the process of a host ends itself: at once, as in a crash, so that it sends nothing more.

Rules
-----
* A host ends its process when the state of a broker is damaged (paper 4, section 2), and when the raylet of its
  node ends. In a network that heals it also does so when a commit of a broker fails. Clients and other brokers then
  continue without it, and it can be restarted.
* A raylet ends when Ray has given up its node, also if the node was only partitioned. By then every process knows
  that the actors of the node are dead. Nobody calls them, and their brokers are restarted, for which they need
  their stores.
* Ray's workers check whether a process with the raylet's id exists. A process that has ended keeps its id until its
  parent reaps it, which the first process of a container often never does. Therefore the host asks the kernel
  instead.

Source: docs/decisions/0102-a-host-ends-with-its-raylet.md.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

from ..logs import Log

RAYLET: Final = "RAY_RAYLET_PID"
"""The environment variable in which Ray tells a worker the process id of its raylet."""


def end_process(log: Log, why: object) -> None:
    """End this process."""
    log.error("%s", why)
    os.kill(os.getpid(), signal.SIGKILL)


def end_with_raylet(end: Callable[[str], None]) -> None:
    """Call `end`, on the running loop, when the raylet of this process ends; do nothing outside Ray."""
    raylet = os.environ.get(RAYLET)
    if raylet:
        when_ended(int(raylet), lambda: end("the raylet has ended: this host is out of its cluster"))


def when_ended(process: int, do: Callable[[], None]) -> None:
    """Call `do` on the running loop when a process ends, even if its parent has not reaped it.

    Where the kernel cannot tell (not Linux, or older than 5.3), this does nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        loop.call_soon(do)
        return
    except (AttributeError, OSError):
        return

    def ended() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        do()

    loop.add_reader(handle, ended)
