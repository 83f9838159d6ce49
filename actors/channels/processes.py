"""Whether another process of this node has ended, as its kernel knows."""

from __future__ import annotations

import asyncio
import os
from typing import Final

KNOCK_SECONDS: Final = 0.25
"""How long a process of this node, or its door, is waited for."""


async def has_ended(pid: int) -> bool:
    """Return whether a process of this node has ended, or ends in a moment; False if the system cannot tell.

    A process that ends closes its sockets before it counts as ended.
    """
    try:
        known = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):
        return False
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(known, ended.set)
    try:
        async with asyncio.timeout(KNOCK_SECONDS):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(known)
        os.close(known)
    return True
