"""How the process of a host ends of itself: at once, as in a crash, so that not a word more is said.

Rules
-----
* It ends when the state of a broker is damaged (paper 4, section 2), with the raylet of its node, and in a network that
  heals when a broker's commit fails: then clients and fellows go on without it, and it can be started again.
* A raylet ends when Ray has given its node up, also when that was only cut off. By then everybody knows that the
  actors there are dead: nobody calls them, and their brokers are started again, for which they need their stores.
* Ray's workers look whether a process has the number of the raylet. One that has ended keeps its number until its
  parent asks how it ended, which the first process of a container often never does. So the kernel says it.

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
"""The environment variable in which Ray tells a worker the number of its raylet."""


def end_process(log: Log, why: object) -> None:
    """End this process."""
    log.error("%s", why)
    os.kill(os.getpid(), signal.SIGKILL)


def end_with_raylet(end: Callable[[str], None]) -> None:
    """Call `end`, on the loop that runs, when the raylet of this process has ended; outside Ray there is none."""
    raylet = os.environ.get(RAYLET)
    if raylet:
        when_ended(int(raylet), lambda: end("the raylet has ended: this host is out of its cluster"))


def when_ended(process: int, do: Callable[[], None]) -> None:
    """Do something on the loop that runs when a process has ended, also while its parent has not asked how.

    Where the kernel does not tell (it is not Linux, or is older than 5.3) nothing is done.
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
