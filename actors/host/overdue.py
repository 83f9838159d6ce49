"""The calls of one link that must be answered in time: one timer outlasts many calls that are answered sooner.

Rules
-----
* All calls of a link have the same time limit, so they are over in the order in which they were made.
* The timer looks when it fires which calls have waited for their time; these fail. While calls wait, there is one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from ..later import Later


class Overdue:
    """The calls of one link that have no answer yet.

    Parameters
    ----------
    seconds
        How long a call may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: deque[tuple[float, Later[bytes]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, call: Later[bytes]) -> None:
        """Let a call that is made now fail with TimeoutError if it has no answer in time."""
        calls, until = self._calls, time.monotonic() + self._seconds
        while calls and calls[0][1].done:
            calls.popleft()
        calls.append((until, call))
        if self._timer is None:
            self._arm(until)

    def _arm(self, until: float) -> None:
        left = max(0.0, until - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(left, self._look)

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        try:
            while self._calls and (self._calls[0][1].done or self._calls[0][0] <= now):
                self._calls.popleft()[1].fail(TimeoutError())
        finally:  # also if what waits for one call raises: the others are still owed an end
            if self._calls and self._timer is None:
                self._arm(self._calls[0][0])
