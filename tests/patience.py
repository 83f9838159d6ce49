"""What tests await, and how long.

* `PATIENCE_SECONDS` is for what has to happen: only a hang takes this long, on a machine without time for it, too.
* What has to happen when time has passed, and not before, is tested in a loop whose clock the test puts forward.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from threading import Timer
from typing import Final, TypeVar

TIMES = float(os.environ.get("HURRY", "1"))
"""How many times as fast the clocks run: see `hurry`."""

PATIENCE_SECONDS = 300.0 * TIMES

LOOK_SECONDS: Final = 0.05
Found = TypeVar("Found")


def until(found: Callable[[], Found], what: str = "what was awaited") -> Found:
    """Poll until something is found, and return it; fail, saying what has not happened, when the time is up."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (now := found()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(LOOK_SECONDS)
    return now


class FrozenLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is frozen, and which a test puts forward with ``loop.ahead += seconds``."""

    ahead = 0.0

    def time(self) -> float:
        return self.ahead


def run_frozen(test: Callable[[FrozenLoop], Awaitable[None]]) -> None:
    """Run a test in such a loop; it fails if it has not ended in time."""

    async def bounded() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FrozenLoop)
        work = asyncio.ensure_future(test(loop))
        bound = Timer(PATIENCE_SECONDS / TIMES, lambda: loop.call_soon_threadsafe(work.cancel))
        bound.daemon = True
        bound.start()
        try:
            await work
        finally:
            bound.cancel()

    with asyncio.Runner(loop_factory=FrozenLoop) as runner:
        runner.run(bounded())
