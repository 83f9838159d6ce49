"""How a host process ends itself: at once, as in a crash, so that it sends nothing more.

Rules
-----
* It ends when the state of a broker is damaged (paper 4, section 2), when the raylet of its node ends, and in a
  network that heals when a broker's commit fails. Clients and fellow brokers then continue without it, and it
  can be restarted.
* A raylet ends when Ray has given its node up, even if the node was only cut off. By then all others know that
  the actors there are dead: they receive no calls, and their brokers are restarted elsewhere, which need their
  stores.
* Ray's workers check whether a process has the number of the raylet. A process that has ended keeps its number
  until its parent asks for its exit status, which the first process of a container often never does. The kernel
  is asked instead.

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
"""The environment variable in which Ray gives a worker the process number of its raylet."""


def end_process(log: Log, why: object) -> None:
    """End this process."""
    log.error("%s", why)
    os.kill(os.getpid(), signal.SIGKILL)


def end_with_raylet(end: Callable[[str], None]) -> None:
    """Call `end`, on the running loop, when the raylet of this process has ended; outside Ray there is none."""
    raylet = os.environ.get(RAYLET)
    if raylet:
        when_ended(int(raylet), lambda: end("the raylet has ended: this host is out of its cluster"))


def when_ended(process: int, do: Callable[[], None]) -> None:
    """Call something on the running loop when a process has ended, even if its parent has not reaped it.

    Does nothing if the kernel cannot tell (not Linux, or older than 5.3).
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
