"""The clock of one host: the time that its brokers are told.

Rules
-----
* It is the wall clock as it was at the start, behind by as long as the network stood still, and monotonic since then.
* A host is behind from a while after a turn of its brokers until the next one: it was suspended, or has more to do than
  time for it. What others said then may lie unread, so that time does not count as their silence (`stalled`).
* A broker is late that was not told the time for a heartbeat, because its process was suspended or busy. Before brokers
  are told the time regularly, none is late.
"""

from __future__ import annotations

import time
from typing import Final

TURN_OF_LATE: Final = 0.5
"""After which part of the time in which a broker becomes late a host is behind that has told its brokers no time."""


class Clock:
    """The time of one host's brokers.

    Parameters
    ----------
    late_seconds
        How long after it was last told the time a broker is late; infinite where none ever is.
    still_seconds
        How far the clock of the network is behind the wall clock.

    Attributes
    ----------
    ticks
        Whether brokers are told the time regularly.
    """

    def __init__(self, late_seconds: float, still_seconds: float) -> None:
        self._late_seconds = late_seconds
        self._zero = time.time() - time.monotonic() - still_seconds
        self.ticks = False
        self._turned_at: float | None = None
        self._stalled = 0.0

    def now(self) -> float:
        """Return the time that brokers are told."""
        return self._zero + time.monotonic()

    def behind(self) -> float:
        """Return by how many seconds that is behind the wall clock, on which events expire."""
        return time.time() - self.now()

    def turn(self) -> None:
        """Note that the host has read what had arrived, and now tells its brokers the time."""
        self._stalled, self._turned_at = self.stalled(), self.now()

    def stalled(self) -> float:
        """Return for how many seconds so far the host was behind."""
        return self._stalled + self._overrun()

    def is_behind(self) -> bool:
        """Return whether it is behind now."""
        return self._overrun() > 0

    def _overrun(self) -> float:
        if self._turned_at is None:
            return 0.0
        return max(0.0, self.now() - self._turned_at - TURN_OF_LATE * self._late_seconds)

    def begin(self) -> None:
        """Note that brokers are told the time regularly from now on."""
        self.ticks = True

    def is_late(self, ticked_at: float) -> bool:
        """Return whether a broker that was last told the time then is late."""
        return self.ticks and self.now() - ticked_at > self._late_seconds
